//! `nestor predict` as a user meets it, on stores of made-up runs.

mod predict_store;
mod support;

use nestor_results::CellRecord;
use predict_store::{LOAD, MATRIX_SYSTEMS, at, keep, load, matrix, record, request_s, result, surface};
use serde_json::Value;
use support::{Sandbox, refused};

const NATIVE: &str = "ext4/hdd";
const GUEST: &str = "ext4/kvm/hdd";

fn surfaces() -> Vec<CellRecord> {
    [NATIVE, GUEST].iter().flat_map(|stack| [1, 8, 64].map(|depth| surface(stack, depth))).collect()
}

/// At the place that the made-up runs are of, which is not the usual one on every machine, unless another is named.
fn here<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let place: &[&str] = if arguments.contains(&"--on") { &[] } else { &["--on", "emulated:time=real"] };
    [arguments, place].concat()
}

#[test]
fn surfaces_and_a_native_run_are_enough_for_a_number() {
    let sandbox = Sandbox::new();
    let mut records = surfaces();
    records.extend((0..3).map(|block| load(NATIVE, block)));
    let store = keep(&sandbox, &records);
    let arguments = ["predict", "--workload", LOAD, "--from", NATIVE, "--to", GUEST, "--store", &store];
    let output = sandbox.nestor([&arguments[..], &["--json"]].concat()).output().unwrap();
    let answers: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let answer = &answers[0]["answer"];
    let truth = 8192.0 / request_s(GUEST, 8192.0, 1.0, 16.0);
    let by = |name: &str| {
        let method =
            answer["methods"].as_array().unwrap().iter().find(|m| m["method"] == name).unwrap().clone();
        method["predicted"]["rate"].as_f64()
    };
    for method in ["ratio", "queueing", "per-request"] {
        let rate = by(method).unwrap_or_else(|| panic!("{method} has no number: {answer}"));
        assert!((rate / truth - 1.0).abs() < 0.2, "{method}: {rate} for {truth}");
    }
    assert_eq!(by("transaction"), None);
    // Nothing is known of errors yet, so the interval is wide or there is none; it holds the truth in any case.
    let (low, high) =
        (answer["interval"]["low"].as_f64().unwrap(), answer["interval"]["high"].as_f64().unwrap());
    assert!(low < truth && truth < high, "{answer}");
    let text = String::from_utf8(sandbox.nestor(arguments).output().unwrap().stdout).unwrap();
    for part in
        ["90 % interval", "  by ", "ratio ", "  for scale  N0 as on the reference", "transaction lacks"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn what_is_missing_is_said_with_the_command_that_supplies_it() {
    let sandbox = Sandbox::new();
    let store = keep(&sandbox, &[load(NATIVE, 0)]);
    let predict = |arguments: &[&str]| {
        let output = sandbox
            .nestor([&["predict", "--store", &store][..], &here(arguments)].concat())
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    // A store with one run, a target that was never calibrated.
    let text = predict(&["--workload", LOAD, "--to", GUEST]);
    assert!(text.contains("I don't know: no method has the data it needs"), "{text}");
    assert!(text.contains("nestor run --on emulated:time=real 'ext4/hdd' iometer:surface"), "{text}");
    // A load that was measured nowhere.
    let text = predict(&["--workload", "fio:seq-read", "--to", GUEST]);
    assert!(
        text.contains("has not been measured anywhere yet") && text.contains("nestor characterize"),
        "{text}"
    );
    // Only on the target itself.
    let text = predict(&["--workload", LOAD, "--to", NATIVE]);
    assert!(text.contains("measured only on ext4/hdd"), "{text}");
    let text = predict(&["--workload", LOAD, "--to", "ext4/kvm/jfs/hdd"]);
    assert!(text.contains("put an image between them"), "{text}");
    let text = predict(&["--workload", LOAD, "--matrix"]);
    assert!(text.contains("no guest on a host file system has been measured"), "{text}");
    let text = predict(&["--validate"]);
    assert!(text.contains("too few"), "{text}");
}

#[test]
fn a_matrix_is_completed_and_the_next_cells_are_named() {
    let sandbox = Sandbox::new();
    let systems = MATRIX_SYSTEMS;
    let records = matrix();
    let store = keep(&sandbox, &records);
    let arguments =
        here(&["predict", "--workload", "fio:seq-write", "--matrix", "--suggest", "2", "--store", &store]);
    let output = sandbox.nestor([&arguments[..], &["--json"]].concat()).output().unwrap();
    let matrix: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cells = matrix["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 25);
    for cell in cells.iter().filter(|cell| !cell["interval"].is_null()) {
        let place = |key: &str| systems.iter().position(|name| cell[key] == *name).unwrap() as f64;
        let truth = 8192.0 / (0.004 * (1.0 + 0.1 * place("row")) * (1.0 + 0.2 * place("column")));
        assert!((cell["rate"].as_f64().unwrap() / truth - 1.0).abs() < 0.05, "{cell} {truth}");
    }
    // What null models say stands beside what is told, and what they missed beside what that missed.
    let told = cells.iter().find(|cell| !cell["interval"].is_null()).unwrap();
    assert!(told["nulls"]["row-by-column"].as_f64() > Some(0.0), "{told}");
    assert!(cells.iter().all(|cell| cell["nulls"].is_null() == cell["interval"].is_null()));
    let score = &matrix["score"];
    let missed = |of: &Value| of.as_f64().unwrap();
    assert!(missed(&score["median"]) < missed(&score["nulls"]["row-by-column"]), "{score}");
    assert!(missed(&score["median"]) < missed(&score["nulls"]["mean-of-all"]), "{score}");
    let suggested = matrix["suggested"].as_array().unwrap();
    assert_eq!(suggested.len(), 2);
    assert!(
        suggested[0]["command"].as_str().unwrap().starts_with("nestor run --on emulated:time=real 'ext"),
        "{suggested:?}"
    );
    let text = String::from_utf8(sandbox.nestor(&arguments).output().unwrap().stdout).unwrap();
    assert!(text.contains("most worth measuring next"), "{text}");
    assert!(text.contains("90 % interval") && text.contains("row x column  mean of all"), "{text}");
    assert!(text.contains("for scale: mean of the row x mean of the column"), "{text}");
}

#[test]
fn a_matrix_of_too_few_cells_names_those_that_would_tell_something() {
    let sandbox = Sandbox::new();
    let stacks = ["ext4/kvm/raw/xfs/hdd", "jfs/kvm/raw/xfs/hdd"];
    let run =
        |stack: &&str| record(stack, "fio:seq-write", 0, result("fio:seq-write", 1000, 0.004, 1.0), 0.0);
    let mut records: Vec<CellRecord> = stacks.iter().map(run).collect();
    records.push(at("this", "hardware", run(&"ext4/kvm/raw/xfs/dev:/dev/sdb")));
    let store = keep(&sandbox, &records);
    let refused = |more: &[&str]| {
        let arguments = ["predict", "--workload", "fio:seq-write", "--matrix", "--store", &store];
        let output = sandbox.nestor([&arguments[..], &here(more)].concat()).assert().failure();
        String::from_utf8(output.get_output().stderr.clone()).unwrap()
    };
    let text = refused(&[]);
    assert!(text.contains("were measured on emulated:time=real: 2; at least 4 are needed"), "{text}");
    for host in ["ext4/kvm/raw/ext4/hdd", "jfs/kvm/raw/ext4/hdd"] {
        assert!(
            text.contains(&format!("nestor run --on emulated:time=real '{host}' 'fio:seq-write'")),
            "{text}"
        );
    }
    let text = refused(&["--on", "this"]);
    assert!(text.contains("were measured on this: 1; at least 4 are needed"), "{text}");
    assert!(text.contains("nestor run --on this 'ext4/kvm/raw/ext4/dev:/dev/sdb' 'fio:seq-write'"), "{text}");
    let text = refused(&["--on", "ssh:lab"]);
    assert!(
        text.contains("fio:seq-write was measured only on emulated:time=real (2 runs), this (1 run)"),
        "{text}"
    );
    assert!(text.contains("nestor study --on ssh:lab FILE"), "{text}");
}

/// A store of one place, with runs of others among them that are three times as fast.
fn with_other_places(here: &[CellRecord]) -> Vec<CellRecord> {
    let faster = |stack: &str, block: u32| {
        let done = result(LOAD, 2000, request_s(stack, 8192.0, 1.0, 16.0) / 3.0, 16.0);
        record(stack, LOAD, block, done, 1.0)
    };
    let mut all = here.to_vec();
    for (block, (on, accelerator)) in
        [("ssh:lab", "hardware"), ("this", "hardware"), ("emulated", "kvm")].into_iter().enumerate()
    {
        all.push(at(on, accelerator, faster(NATIVE, block as u32)));
        all.push(at(on, accelerator, faster(GUEST, block as u32)));
    }
    all
}

#[test]
fn runs_of_other_places_change_nothing() {
    let sandbox = Sandbox::new();
    let mut records = surfaces();
    // Minutes 50 to 52: newer than what was measured under KVM.
    records.extend((50..53).map(|block| load(NATIVE, block)));
    let here: Vec<CellRecord> = records.into_iter().map(|record| at("emulated", "tcg", record)).collect();
    let predict = |records: &[CellRecord], on: &[&str]| {
        let place = Sandbox::new();
        let store = keep(&place, records);
        let arguments = ["predict", "--workload", LOAD, "--from", NATIVE, "--to", GUEST, "--store", &store];
        let output = sandbox.nestor([&arguments[..], &["--json"], on].concat()).output().unwrap();
        let answers: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (answers[0].clone(), String::from_utf8(output.stderr).unwrap())
    };
    let (alone, no_note) = predict(&here, &[]);
    let all = with_other_places(&here);
    let (among, note) = predict(&all, &[]);
    assert_eq!(among["place"], serde_json::json!({ "on": "emulated", "processors": "tcg", "guests": "kvm" }));
    // The runs' numbers in this file are others; what is answered is not.
    assert!(alone["answer"]["rate"].as_f64() > Some(0.0), "{alone}");
    assert_eq!(among["answer"], alone["answer"]);
    assert_eq!(among["question"], alone["question"]);
    let said = "the runs on emulated:time=real (KVM) (2 runs) do not count: the newest run is from emulated:time=real (TCG)";
    assert!(note.contains(said), "{note}");
    assert!(!no_note.contains("do not count"), "{no_note}");
    // There, the load itself is known, three times as fast, but no surface.
    let (there, _) = predict(&all, &["--on", "ssh:lab"]);
    let ratio = there["question"]["reference"]["rate"].as_f64().unwrap()
        / alone["question"]["reference"]["rate"].as_f64().unwrap();
    assert!((ratio - 3.0).abs() < 1e-6, "{there}");
    assert!(there["answer"]["rate"].is_null(), "{there}");
}

#[test]
fn what_other_places_know_is_said_with_what_would_tell_of_this_one() {
    let sandbox = Sandbox::new();
    let mut records = surfaces();
    records.push(load(NATIVE, 0));
    let records: Vec<CellRecord> =
        records.into_iter().map(|record| at("ssh:lab", "hardware", record)).collect();
    let mut all = records;
    all.push(load(NATIVE, 1));
    all.push(at("this", "hardware", load("ext4/dev:/dev/sdb", 2)));
    let store = keep(&sandbox, &all);
    let predict = |arguments: &[&str]| {
        let output = sandbox
            .nestor([&["predict", "--store", &store][..], &here(arguments)].concat())
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let text = predict(&["--workload", LOAD, "--to", GUEST]);
    assert!(text.contains("I don't know: no method has the data it needs"), "{text}");
    for said in [
        "ext4/kvm/hdd was measured only on ssh:lab (3 runs), which says nothing about emulated:time=real; to predict for that place, use --on ssh:lab",
        "a surface of ext4/hdd was measured only on ssh:lab (3 runs), which says nothing about emulated",
        "nestor run --on emulated:time=real 'ext4/kvm/hdd' iometer:surface:points=25:runtime=2\n",
    ] {
        assert!(text.contains(said), "{said} in {text}");
    }
    let text = predict(&["--workload", LOAD, "--from", NATIVE, "--to", GUEST, "--on", "this"]);
    let said = format!("{LOAD} on ext4/hdd was measured only on emulated:time=real (1 run), ssh:lab (1 run)");
    assert!(text.contains(&said), "{text}");
    assert!(text.contains(&format!("nestor run --on this 'ext4/hdd' '{LOAD}'")), "{text}");
    let text = predict(&["--workload", LOAD, "--to", GUEST, "--on", "ssh:other"]);
    assert!(text.contains(&format!("the requests of {LOAD} are not known: ")), "{text}");
    assert!(text.contains(&format!("nestor run --on ssh:other STACK '{LOAD}'")), "{text}");
    let text = predict(&["--validate", "--on", "ssh:other"]);
    assert!(text.contains("the store has only 0 cells from ssh:other, too few"), "{text}");
    assert!(
        text.contains("more was measured only on") && text.contains("nestor study --on ssh:other FILE"),
        "{text}"
    );
}

#[test]
fn validation_and_matrices_are_of_one_place() {
    let sandbox = Sandbox::new();
    let mut records = Vec::new();
    let systems = ["ext2", "ext3", "ext4", "xfs"];
    for (g, guest) in systems.iter().enumerate() {
        for (h, host) in systems.iter().enumerate() {
            for (on, accelerator, times) in [("emulated", "tcg", 1.0), ("ssh:lab", "hardware", 0.1)] {
                let request_s = 0.004 * (1.0 + 0.1 * g as f64) * (1.0 + 0.2 * h as f64) * times;
                let done = result("fio:seq-write", 1000, request_s, 1.0);
                let stack = format!("{guest}/kvm/raw/{host}/hdd");
                records.push(at(on, accelerator, record(&stack, "fio:seq-write", 0, done, 0.0)));
            }
        }
    }
    // One cell was measured there only.
    records.remove(0);
    let store = keep(&sandbox, &records);
    let said = |arguments: &[&str]| -> Value {
        let output = sandbox.nestor([&["predict", "--store", &store, "--json"], arguments].concat()).output();
        serde_json::from_slice(&output.unwrap().stdout).expect("JSON")
    };
    let here = said(&["--validate"]);
    assert_eq!((&here["cells"], &here["place"]["on"]), (&15.into(), &"emulated".into()));
    // Runs of two places in one cell would be ten times apart.
    assert_eq!(here["noise"], Value::Null);
    assert_eq!(said(&["--validate", "--on", "ssh:lab"])["cells"], 16);
    let corner = |on: &str| {
        let matrix = said(&["--workload", "fio:seq-write", "--matrix", "--on", on]);
        let cells = matrix["cells"].as_array().unwrap().clone();
        let corner = cells.iter().find(|cell| cell["row"] == "ext2" && cell["column"] == "ext2").unwrap();
        (corner["interval"].is_null(), corner["rate"].as_f64().unwrap())
    };
    let ((measured_here, here), (measured_there, there)) = (corner("emulated"), corner("ssh:lab"));
    assert!(!measured_here && measured_there);
    assert!((there / here - 10.0).abs() < 1.0, "{here} {there}");
    // What is learnt at one place is not forgotten by questions about the other, nor taken for it.
    for on in ["emulated", "ssh:lab", "emulated"] {
        said(&["--workload", "fio:seq-write", "--to", "xfs/kvm/raw/ext2/hdd", "--on", on]);
    }
    let kept = std::fs::read(sandbox.path("results.learnt.json")).expect("weights are kept");
    let kept: Vec<Value> = serde_json::from_slice(&kept).expect("JSON");
    let mut cells: Vec<_> =
        kept.iter().map(|of| [&of["on"], &of["weights"]["cells"]].map(Value::to_string)).collect();
    cells.sort();
    assert_eq!(cells, [["\"emulated\"", "14"], ["\"ssh:lab\"", "15"]]);
}

#[test]
fn factors_that_no_computing_can_have_are_refused() {
    let sandbox = Sandbox::new();
    let asked = |more: &[&str]| {
        refused(
            &sandbox,
            &[&["predict", "--workload", LOAD, "--from", NATIVE, "--to", GUEST][..], more].concat(),
        )
    };
    for scale in ["0", "-1", "nan", "inf", "x"] {
        let said = asked(&["--compute-scale", scale]);
        assert!(said.contains("write a factor above 0, such as 0.8"), "{scale}: {said}");
    }
    for overhead in ["-100", "-150", "nan", "x"] {
        let said = asked(&["--compute-overhead", overhead]);
        assert!(said.contains("write a number of per cent above -100, such as 9.4"), "{overhead}: {said}");
    }
    let suggested = asked(&["--suggest", "2"]);
    assert!(suggested.contains("--suggest") && suggested.contains("cannot be used with"), "{suggested}");
}
