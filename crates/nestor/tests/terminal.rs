//! Nothing from outside commands a terminal: studies, results, traces, files and programs full of control sequences.

mod predict_store;
mod support;

use std::ffi::OsString;
use std::fs;

use nestor_results::{CellFailure, FailureCause, Outcome, Store, Study, StudyRecord};
use support::{Sandbox, write_program};

/// Clears the screen, names the window, hides text, rewrites the line, turns the direction of writing; with C1 and DEL.
const HOSTILE: &str = "\x1b[2J\x1b]0;root\x07\x1b[8m\u{9b}31m\u{90}\r\x08\x7f\u{202e}\u{2066}";

/// Fails if a terminal would obey any of it; returns it.
fn harmless(said: &[u8], whose: &str) -> String {
    let text = String::from_utf8_lossy(said).into_owned();
    let bad = text.char_indices().find(|(_, c)| nestor_terminal::is_hidden(*c));
    assert_eq!(bad, None, "{whose} prints it: {text:?}");
    text
}

/// Runs the program; what it says on both outputs, which has to show what it was given and may not pass it on.
fn said(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.nestor(arguments).output().unwrap();
    let whose = arguments.join(" ");
    harmless(&output.stdout, &whose) + &harmless(&output.stderr, &whose)
}

fn shows(sandbox: &Sandbox, arguments: &[&str]) {
    let text = said(sandbox, arguments);
    assert!(text.contains(r"\u{1b}"), "{arguments:?}: {text}");
}

#[test]
fn results_of_somebody_elses_laboratory() {
    let sandbox = Sandbox::new();
    let mut record = predict_store::load("ext4/hdd", 0);
    record.environment.packages.insert(format!("fio{HOSTILE}"), format!("3.33{HOSTILE}"));
    record.environment.settings.insert(format!("scheduler{HOSTILE}"), HOSTILE.to_owned());
    record.environment.nestor = format!("0.1.0{HOSTILE}");
    record.started_at = format!("2026{HOSTILE}");
    if let Outcome::Measured(measured) = &mut record.outcome {
        measured.load.engine = format!("fio 3.33{HOSTILE}");
        measured.load.remarks.push(HOSTILE.to_owned());
        measured.layers[1].layer.push_str(HOSTILE);
        let machine = format!("{}{HOSTILE}", measured.layers[1].machine);
        measured.layers[1].machine = machine.into();
    }
    let mut failed = predict_store::load("ext4/hdd", 1);
    failed.outcome =
        Outcome::Failed(CellFailure::new(FailureCause::Other, format!("the console ends:\n  {HOSTILE}")));
    let store = predict_store::keep(&sandbox, &[record, failed]);
    let study = Study {
        title: format!("a study{HOSTILE}"),
        ..Study::new(format!("quick{HOSTILE}"), "", vec!["ext4/hdd".into()], vec![predict_store::LOAD.into()])
    };
    let hash = study.hash(&"emulated".into());
    let kept = StudyRecord {
        hash,
        ground: "emulated".into(),
        study,
        sentinels: false,
        ended_early: Some(HOSTILE.to_owned()),
        sessions: Vec::new(),
    };
    Store::open(&sandbox.path("results.sqlite")).unwrap().save_study(&kept).unwrap();
    let output = sandbox.text("out.html");
    shows(&sandbox, &["report", "1", "--store", &store, "--output", &output]);
    shows(&sandbox, &["report", "2", "--store", &store, "--output", &output]);
    shows(&sandbox, &["report", "--store", &store]);
    shows(&sandbox, &["report", "--study", "another", "--store", &store]);
    shows(
        &sandbox,
        &["report", "--study", &format!("quick{HOSTILE}"), "--store", &store, "--output", &output],
    );
    said(&sandbox, &["explain", "1", "--store", &store]);
    said(
        &sandbox,
        &["predict", "--workload", predict_store::LOAD, "--to", "ext4/kvm/hdd", "--store", &store],
    );
    // JSON means the same as before.
    let json = said(&sandbox, &["report", "1", "--store", &store, "--json"]);
    let view: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(view.to_string().contains('\u{9b}'), "{view}");
    let html = fs::read_to_string(&output).unwrap();
    assert!(!html.contains(nestor_terminal::is_hidden), "a page has none either");
}

#[test]
fn the_title_of_a_study_and_what_is_wrong_with_it() {
    let sandbox = Sandbox::new();
    let hostile: String = HOSTILE.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let study = |title: &str, stack: &str| {
        format!(
            "name = \"s\"\ntitle = \"{title}\"\nbaseline = \"ext4/hdd\"\nstacks = [\"{stack}\"]\n\
             workloads = [\"fio:seq-write\"]\n"
        )
    };
    let name = format!("s{}.toml", HOSTILE.replace('\0', ""));
    for (title, stack) in [(hostile.as_str(), "xfs/hdd"), ("t", &format!("xfs{hostile}/hdd")), ("t", "xfs")] {
        fs::write(sandbox.path(&name), study(title, stack)).unwrap();
        shows(&sandbox, &["study", &name, "--plan"]);
        said(&sandbox, &["study", &name, "--plan", "--json"]);
    }
    shows(&sandbox, &["study", &format!("none{HOSTILE}.toml")]);
    shows(&sandbox, &["stack", &format!("ext4{HOSTILE}/hdd")]);
    // What clap says quotes arguments.
    assert!(said(&sandbox, &[&format!("--{HOSTILE}")]).contains(r"\u{9b}"));
    assert!(said(&sandbox, &["report", HOSTILE]).contains(r"\u{9b}"));
}

#[test]
fn the_name_of_a_thread_in_a_trace() {
    let sandbox = Sandbox::new();
    // 16 bytes are all that a thread can call itself.
    let comm = "\x1b[2J\x1b]0;r\x07\u{9b}";
    let lines: String = (0..20)
        .map(|i| {
            let at = i as f64 / 1000.0;
            format!(
                "  8,0    0 {:8} {at:14.9} 1000  Q   W {} + 8 [{comm}]\n  8,0    0 {:8} {:14.9} 1000  D   W {} + 8 [{comm}]\n  \
                 8,0    0 {:8} {:14.9}     0  C   W {} + 8 [0]\n",
                3 * i + 1,
                i * 8,
                3 * i + 2,
                at + 1e-5,
                i * 8,
                3 * i + 3,
                at + 5e-4,
                i * 8
            )
        })
        .collect();
    fs::write(sandbox.path("t.txt"), lines).unwrap();
    shows(&sandbox, &["trace", "analyze", "--per-process", "t.txt"]);
    said(&sandbox, &["trace", "analyze", "--per-process", "t.txt", "--json"]);
}

#[test]
fn a_program_that_fails_with_a_hostile_message() {
    let sandbox = Sandbox::new();
    let tools = sandbox.path("bin");
    fs::create_dir(&tools).unwrap();
    let fio = tools.join("fio");
    write_program(
        &fio,
        &format!("#!/bin/sh\nprintf '%s\\n' '{HOSTILE}' >&2\nprintf '%s\\n' '{HOSTILE}'\nexit 3\n"),
    );
    fs::create_dir(sandbox.path("data-dir")).unwrap();
    let mut path = OsString::from(tools);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = sandbox
        .nestor(["load", "run", "fio:seq-write:scale=0.001", "--dir", &sandbox.text("data-dir")])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = harmless(&output.stdout, "load") + &harmless(&output.stderr, "load");
    assert!(text.contains(r"\u{1b}[2J"), "{text}");
}

#[test]
fn the_last_words_of_another_machine() {
    let sandbox = Sandbox::new();
    let tools = sandbox.path("bin");
    fs::create_dir(&tools).unwrap();
    let ssh = tools.join("ssh");
    // The program is there; it says something and ends.
    write_program(
        &ssh,
        &format!(
            "#!/bin/sh\ncase \"$*\" in *test\\ -x*) exit 0;; esac\nprintf '%s\\n' '{HOSTILE}' >&2\nexit 1\n"
        ),
    );
    let output = sandbox
        .nestor(["run", "--on", "ssh:other", "ext4/file:/srv/disk.img", "fio:seq-write"])
        .env("PATH", &tools)
        .output()
        .unwrap();
    assert!(!output.status.success());
    harmless(&output.stdout, "ssh");
    harmless(&output.stderr, "ssh");
}

#[test]
fn ordinary_text_is_as_it_was() {
    let sandbox = Sandbox::new();
    let store = predict_store::keep(&sandbox, &[predict_store::load("ext4/hdd", 0)]);
    let text = said(&sandbox, &["report", "--store", &store]);
    assert!(!text.contains('\\'), "{text}");
}
