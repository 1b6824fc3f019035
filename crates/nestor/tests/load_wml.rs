//! `nestor load wml` as a user meets it: what it prints, what it refuses, and what is left in the directory.
//!
//! No test depends on how fast anything is: runs end by operations, or after a fraction of a second whatever was done.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;
use support::load_wml::{READER, entries, json, operations, refused, script, text};
use support::loop_mount::{LoopMount, tool};
use support::{Sandbox, can_run, has_program};

#[test]
fn a_personality_is_tried_in_little_space_and_removed() {
    let sandbox = Sandbox::new();
    let directory = sandbox.text("files");
    fs::create_dir(&directory).expect("a directory");
    let tiny = ["fileserver", "--dir", &directory, "--scale", "tiny", "--time", "0.3"];
    let said = text(&sandbox, &tiny);
    for part in [
        "fileserver   486 files in ",
        "; 402 exist at the start\n",
        "file sets are 0.01 times as large as the script says\n",
        " operations by 50 threads in ",
        "\n  file sets are tiny: this shows that the workload runs, not how fast the storage is\n",
        "    flowop          does            operations  /s ",
        "\n    create          createfile ",
        "\n    stat            statfile ",
        "\n    client          pass ",
    ] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
    assert_eq!(entries(&directory), [".nestor-filesets.json", "fileserver"]);

    let report = json(&sandbox, &[&tiny[..], &["--remove"]].concat());
    let (set, run) = (&report["file_sets"][0], &report["runs"][0]);
    assert!(set["bytes"].as_u64().is_some_and(|bytes| bytes > 32 << 20 && bytes <= 64 << 20), "{set}");
    assert_eq!((&set["files"], &set["preallocated"]), (&Value::from(486), &Value::from(402)));
    assert_eq!((&run["ended"], &run["threads"]), (&Value::from("time"), &Value::from(50)));
    assert!(run["elapsed_ns"].as_u64().is_some_and(|ns| ns >= 300_000_000), "{run}");
    let flowops = run["flowops"].as_array().expect("flowops");
    let names: Vec<&str> = flowops.iter().filter_map(|flowop| flowop["name"].as_str()).collect();
    let written = [
        "create",
        "write",
        "close-written",
        "open-to-append",
        "append",
        "close-appended",
        "open-to-read",
        "read",
        "close-read",
        "delete",
        "stat",
    ];
    assert_eq!(names, written);
    assert!(operations(&report) > 0);
    assert_eq!(run["passes"][0]["name"], "client");
    assert_eq!(entries(&directory), Vec::<String>::new());
}

#[test]
fn exactly_the_operations_that_are_asked_for_are_done_with_the_variables_that_are_set() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, READER);
    let run = [&script, "--dir", &directory, "--cached", "--operations", "777", "--set", "nfiles=33"];
    let report = json(&sandbox, &run);
    assert_eq!((operations(&report), &report["runs"][0]["ended"]), (777, &Value::from("operations")));
    assert_eq!(report["file_sets"][0]["files"], 33);
    assert_eq!(report["file_sets"][0]["bytes"], 33 * 4096);
    let read = &report["runs"][0]["flowops"][1];
    assert_eq!(read["bytes"].as_u64(), read["operations"].as_u64().map(|n| n * 4096));
    let said = refused(&sandbox, &[&script, "--dir", &directory, "--set", "nfile=33"]);
    assert!(said.contains("the script has no variable $nfile\n  did you mean nfiles?"), "{said}");
}

#[test]
fn the_same_seeds_make_the_same_files() {
    let sandbox = Sandbox::new();
    let directory = sandbox.text("files");
    fs::create_dir(&directory).expect("a directory");
    let tree = |seed: &str| {
        let tiny = ["fileserver", "--dir", &directory, "--scale", "tiny", "--prepare", "--data-seed", seed];
        text(&sandbox, &tiny);
        tool(&["find", &directory, "-type", "f", "-name", "0*", "-printf", "%P %s\n"])
            .lines()
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let first = tree("7");
    assert!(first.len() > 300, "{first:?}");
    assert_ne!(first, tree("8"));
    assert_eq!(first, tree("7"));
}

#[test]
fn a_check_understands_and_touches_nothing() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, READER);
    let said = text(&sandbox, &[&script, "--dir", &directory, "--check"]);
    assert_eq!(said, format!("{script} is understood\n"));
    assert_eq!(entries(&directory), Vec::<String>::new());
}

#[test]
fn what_fits_into_memory_is_measured_only_where_that_is_meant() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, READER);
    let run = [script.as_str(), "--dir", &directory, "--operations", "30"];
    let said = refused(&sandbox, &run);
    assert!(said.contains("the file sets (80 KiB) fit into this machine's memory ("), "{said}");
    for way_out in ["--cached", "--memory-multiple 2", "--scale tiny"] {
        assert!(said.contains(way_out), "{said}");
    }
    assert_eq!(entries(&directory), Vec::<String>::new(), "nothing is made before it is refused");
    for way_out in [&["--cached"][..], &["--scale", "tiny"]] {
        assert_eq!(operations(&json(&sandbox, &[&run[..], way_out].concat())), 30);
    }
    // Twice the memory would be made for real; a small part of it shows that the machine's memory is what counts.
    let meminfo = fs::read_to_string("/proc/meminfo").expect("this is Linux");
    let memory = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().split(' ').next());
    let memory_bytes =
        memory.and_then(|kib| kib.parse::<f64>().ok()).expect("it says how much there is") * 1024.0;
    let part = ["--memory-multiple", "0.001", "--prepare"];
    let report = json(&sandbox, &[&run[..3], &part].concat());
    let bytes = report["file_sets"][0]["bytes"].as_f64().expect("a number");
    assert!((bytes / memory_bytes / 0.001 - 1.0).abs() < 0.02, "{bytes} of {memory_bytes}");
}

#[test]
fn what_others_made_is_neither_replaced_nor_removed() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, READER);
    let (beside, inside) = (format!("{directory}/letter"), format!("{directory}/docs/letter"));
    fs::create_dir(format!("{directory}/docs")).expect("a directory");
    fs::write(&beside, "dear reader").expect("a file");
    fs::write(&inside, "dear reader").expect("a file");
    let run = [script.as_str(), "--dir", &directory, "--cached", "--operations", "30", "--remove"];
    let said = refused(&sandbox, &run);
    assert!(
        said.contains(&format!("{directory}/docs is not empty and was not made by this program")),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&inside).expect("it is still there"), "dear reader");
    fs::remove_file(&inside).expect("a file");
    text(&sandbox, &run);
    // The directory was there before, and stays.
    assert_eq!(entries(&directory), ["docs", "letter"]);
    assert_eq!(entries(format!("{directory}/docs")), Vec::<String>::new());
}

#[test]
fn what_is_no_script_is_said_with_its_place() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, &READER.replace("readwholefile", "readwholfile"));
    let said = refused(&sandbox, &[&script, "--dir", &directory, "--cached"]).replace(&script, "script.f");
    insta::assert_snapshot!(said, @r#"
    error: a script is not understood: script.f:7:12
      flowop readwholfile name=read,fd=1
             ^^^^^^^^^^^^ there is no flowop "readwholfile"
      did you mean readwholefile?
    "#);
    fs::write(&script, b"\x7fELF\x02\x01\0\0\xff\xfe").expect("the sandbox can be written to");
    let said = refused(&sandbox, &[&script, "--dir", &directory]);
    assert!(said.contains("this is not text"), "{said}");
    assert_eq!(entries(&directory), Vec::<String>::new());
    let said = refused(&sandbox, &["fileservr", "--dir", &directory]);
    assert!(said.contains("cannot read fileservr") && said.contains("fileserver, webserver"), "{said}");
}

#[test]
fn what_was_prepared_is_used_once_and_with_the_same_options() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, READER);
    let place = [script.as_str(), "--dir", &directory];
    let report = json(&sandbox, &[&place[..], &["--prepare"]].concat());
    assert_eq!(
        (&report["runs"], &report["file_sets"][0]["preallocated"]),
        (&Value::Array(vec![]), &Value::from(20))
    );
    let prepared = [&place[..], &["--prepared", "--cached", "--operations", "60"]].concat();
    let said = refused(&sandbox, &[&prepared[..], &["--set", "nfiles=21"]].concat());
    assert!(said.contains("were not prepared under"), "{said}");
    assert_eq!(operations(&json(&sandbox, &prepared)), 60);
    // A workload may have changed them since.
    let said = refused(&sandbox, &prepared);
    assert!(said.contains("prepare them first, with the same options"), "{said}");
}

#[test]
fn a_program_of_the_script_cannot_write_to_the_terminal() {
    let sandbox = Sandbox::new();
    let program = sandbox.text("program");
    fs::write(&program, "printf '\\033]0;title\\007\\n'; printf '\\033[2J\\n' >&2\n").expect("a program");
    let (script, directory) = script(&sandbox, &format!("system \"sh {program}\"\n"));
    for json in [false, true] {
        let words = ["load", "wml", &script, "--dir", &directory].into_iter().chain(json.then_some("--json"));
        let output = sandbox.nestor(words).assert().success().get_output().clone();
        let said = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert!(said.contains("\\u{1b}]0;title\\u{7}\n") && said.contains("\\u{1b}[2J\n"), "{said}");
        let result = String::from_utf8(output.stdout).expect("results are UTF-8");
        assert!(!result.contains("title") && !result.contains('\u{1b}'), "{result}");
        assert!(!json || serde_json::from_str::<Value>(&result).is_ok(), "{result}");
    }
}

#[test]
fn threads_without_room_are_refused_before_any_begins() {
    let sandbox = Sandbox::new();
    let text =
        "define process name=p { thread name=t,instances=4000 { flowop hog name=h,value=1 } }\nrun 1\n";
    let (script, _) = script(&sandbox, text);
    let program = support::binary();
    for kilobytes in [400_000, 600_000, 900_000] {
        let line = format!("ulimit -v {kilobytes}; exec {} load wml {script} --cached", program.display());
        let output = std::process::Command::new("sh").args(["-c", &line]).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("error: cannot start thread 0 of 4000"), "{kilobytes}: {said}");
        assert_eq!(output.status.code(), Some(1), "{said}");
    }
}

#[test]
fn several_machines_begin_together_and_are_one_result() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, READER);
    let several = [
        "load",
        "wml",
        &script,
        "--dir",
        &directory,
        "--machines",
        "this,this",
        "--cached",
        "--operations",
        "300",
    ];
    let both = |more: &[&str]| {
        let running = sandbox.nestor_in_background(&[&several[..], more, &["--json"]].concat());
        let ended = running.wait_with_output().expect("it can be waited for");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
        serde_json::from_slice::<Value>(&ended.stdout).expect("JSON")
    };
    let report = both(&[]);
    assert_eq!((operations(&report), &report["runs"][0]["threads"]), (600, &Value::from(4)));
    let place = |number: usize| report["file_sets"][number]["path"].as_str().map(str::to_owned);
    let expected = |number: usize| Some(format!("{directory}/machine-{number}/docs"));
    assert_eq!((place(0), place(1)), (expected(1), expected(2)));
    assert_eq!(entries(&directory), ["machine-1", "machine-2"]);
    both(&["--remove"]);
    assert_eq!(entries(&directory), Vec::<String>::new());
    sandbox.assert_nothing_left();
}

#[test]
fn an_open_loop_counts_what_was_due() {
    let sandbox = Sandbox::new();
    let (script, directory) = script(&sandbox, READER);
    let run = [script.as_str(), "--dir", &directory, "--cached", "--time", "0.5", "--open-loop"];
    let pace = json(&sandbox, &[&run[..], &["20"]].concat())["runs"][0]["pace"].clone();
    assert_eq!((&pace["of"], &pace["asked_per_second"]), (&Value::from("passes"), &Value::from(20.0)));
    // Ten, or more where the machine ends the run late.
    assert!(pace["offered"].as_u64().is_some_and(|due| due >= 10), "{pace}");
    // More than any machine can do.
    let said = text(&sandbox, &[&run[..], &["1e9"]].concat());
    assert!(said.contains("  the rate was not reached: "), "{said}");
}

#[test]
fn a_script_that_cannot_run_is_refused_by_every_check() {
    let sandbox = Sandbox::new();
    let process = |attributes: &str, flowop: &str| {
        format!(
            "define fileset name=docs,path=/tmp,entries=4,size=4k,dirwidth=2\n\
             define process name=p{attributes} {{\n thread name=t{attributes} {{\n  {flowop}\n }}\n}}\nrun 1\n"
        )
    };
    let million = ",instances=1000000";
    let cases = [
        (process("", "flowop read name=r,filesetname=docs,iosize=4k,fd=1000000000"), "4:49: "),
        (process("", "flowop read name=r,filesetname=docs,iosize=9223372036854775807"), "4:39: "),
        (process("", "flowop read name=r,filesetname=docs"), "4:3: "),
        (process(million, "flowop hog name=h,value=1"), "2:23: "),
        ("define fileset name=s,path=/tmp,entries=4000000000,dirwidth=9\nrun 1\n".to_owned(), "1:33: "),
        ("define fileset name=../x,path=/tmp,entries=4,dirwidth=9\nrun 1\n".to_owned(), "1:16: "),
    ];
    for (number, (text, place)) in cases.iter().enumerate() {
        let (script, _) = script(&sandbox, text);
        let place = place.trim_end_matches(": ");
        for words in [&["load", "wml", "--check"][..], &["load", "wml"], &["load", "check"]] {
            let output = sandbox.nestor(words.iter().chain(&[script.as_str()])).assert().failure();
            let said = [output.get_output().stdout.clone(), output.get_output().stderr.clone()].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains(place), "case {number}: {place} is not in\n{said}");
            assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{said}");
        }
        // A study that names it is refused before anything is built.
        let workload = format!("wml:script:file={script}");
        let said = sandbox.nestor(["run", "ext4/null", &workload]).assert().failure();
        let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
        assert!(said.contains(place), "case {number}: {place} is not in\n{said}");
    }
}

#[test]
fn a_workload_has_no_more_threads_than_a_script_may_have() {
    let sandbox = Sandbox::new();
    let most = nestor_wml::limits::MOST_THREADS;
    let parsed = |threads| nestor_workload::Workload::parse(&format!("wml:fileserver:threads={threads}"));
    assert!(parsed(most).is_ok() && parsed(most + 1).is_err());
    let (script, directory) = script(&sandbox, READER);
    let said = refused(&sandbox, &[&script, "--dir", &directory, "--cached", "--set", "nfiles=33554433"]);
    assert!(said.contains("entries cannot be 33554433"), "{said}");
}

#[test]
fn prepared_files_are_known_after_a_mount_elsewhere_and_the_users_are_not_taken_for_them() {
    if !can_run(true, false) {
        return;
    }
    for file_system in ["ext2", "ext3", "ext4", "xfs", "btrfs"] {
        if !has_program(&format!("mkfs.{file_system}")) {
            eprintln!("did not run: there is no mkfs.{file_system}");
            continue;
        }
        let sandbox = Sandbox::new();
        let mut mounted = LoopMount::new(&sandbox, file_system);
        let (script, _) = script(&sandbox, READER);
        let place = ["load", "wml", &script, "--dir", &mounted.point.clone(), "--json"].map(str::to_owned);
        let prepare = place.iter().map(String::as_str).chain(["--prepare"]);
        let run = place.iter().map(String::as_str).chain(["--prepared", "--cached", "--operations", "60"]);
        sandbox.nestor(prepare).assert().success();
        let before = fs::metadata(&mounted.point).expect("it is mounted").dev();
        mounted.mount_elsewhere();
        let after = fs::metadata(&mounted.point).expect("it is mounted").dev();
        assert!(file_system == "btrfs" || before != after, "{file_system} has another device");
        let (own, set) = (format!("{}/own", mounted.point), format!("{}/docs", mounted.point));
        // A copy with the same attributes, as an archive makes it.
        tool(&["cp", "-a", &set, &own]);
        fs::rename(&set, format!("{set}-old")).expect("on one file system");
        fs::rename(&own, &set).expect("on one file system");
        let refused = sandbox.nestor(run.clone()).assert().failure();
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(said.contains("are not those that were prepared"), "{file_system}: {said}");
        fs::rename(&set, &own).expect("on one file system");
        fs::rename(format!("{set}-old"), &set).expect("on one file system");
        sandbox.nestor(run).assert().success();
    }
}
