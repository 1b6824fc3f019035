//! Scripts run on a directory of this machine: what they do to it, how they end, what they count.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nestor_flowops::{Ended, FlowError, FlowOptions, Scale, scale};
use support::{Heard, files_below, folder, one_run, operations, run_in, run_with};

#[test]
fn files_are_made_as_the_script_says() {
    let folder = folder();
    let text = "set $dir=/x\ndefine fileset name=s,path=$dir,entries=200,size=3k,dirwidth=7,prealloc=100,paralloc\ncreate files\n";
    let ran = run_in(folder.path(), text, FlowOptions::default());
    let report = ran.result.unwrap();
    assert_eq!((report.file_sets[0].files, report.file_sets[0].bytes), (200, 200 * 3072));
    assert_eq!(files_below(&folder.path().join("s")), vec![3072; 200]);
}

#[test]
fn the_same_seed_makes_the_same_files() {
    let sizes = |seed| {
        let folder = folder();
        let text = "set $z=cvar(type=cvar-gamma,parameters=mean:4096;gamma:1.5)\n\
            define fileset name=s,path=/x,entries=50,size=$z,dirwidth=7,prealloc=80\ncreate files\n";
        let options = FlowOptions { data_seed: seed, ..FlowOptions::default() };
        run_in(folder.path(), text, options).result.unwrap();
        let mut sizes = files_below(&folder.path().join("s"));
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(1), sizes(1));
    assert_ne!(sizes(1), sizes(2));
}

#[test]
fn every_file_operation_does_what_it_says() {
    let folder = folder();
    let run = one_run(
        &folder,
        "define fileset name=s,path=/x,entries=40,size=8k,dirwidth=5,prealloc=50\n\
         define process name=p { thread name=t {\n\
         flowop createfile name=create,filesetname=s,fd=1\n\
         flowop writewholefile name=whole,fd=1,iosize=4k\n\
         flowop appendfile name=append,fd=1,iosize=1k\n\
         flowop appendfilerand name=appendrand,fd=1,iosize=2k\n\
         flowop write name=write,fd=1,iosize=512\n\
         flowop write name=writerand,fd=1,iosize=512,random\n\
         flowop read name=readrand,fd=1,iosize=1k,random\n\
         flowop readwholefile name=readwhole,fd=1,iosize=3k\n\
         flowop fsync name=fsync,fd=1\n\
         flowop fsyncset name=fsyncset,filesetname=s\n\
         flowop statfile name=fstat,fd=1\n\
         flowop closefile name=close,fd=1\n\
         flowop statfile name=stat,filesetname=s\n\
         flowop listdir name=list,filesetname=s\n\
         flowop deletefile name=delete,filesetname=s\n\
         flowop finishoncount name=enough,value=10,target=create\n\
         } }\nrun\n",
    );
    assert_eq!(run.ended, Ended::Done);
    for name in
        ["create", "whole", "append", "appendrand", "write", "writerand", "readrand", "readwhole", "fsync"]
    {
        assert_eq!(operations(&run, name), 10, "{name}");
    }
    for name in ["fsyncset", "fstat", "close", "stat", "list", "delete"] {
        assert_eq!(operations(&run, name), 10, "{name}");
    }
    let bytes = |name: &str| run.flowops.iter().find(|f| f.name == name).unwrap().bytes;
    assert_eq!((bytes("whole"), bytes("append"), bytes("write")), (81_920, 10_240, 5_120));
    // What was written, appended and grown is what is read back.
    assert!(bytes("readwhole") >= 10 * (8192 + 1024));
    assert!(run.flowops.iter().all(|f| f.latency.count() == f.operations));
}

#[test]
fn directories_are_made_and_removed() {
    let folder = folder();
    let text = "set mode quit firstdone\ndefine fileset name=s,path=/x,leafdirs=30,dirwidth=6\n\
        define process name=p { thread name=t { flowop makedir name=make,filesetname=s } }\nrun\n";
    let run = one_run(&folder, text);
    assert_eq!((run.ended.clone(), operations(&run, "make")), (Ended::Done, 30));
    let text = "set mode quit firstdone\ndefine fileset name=s,path=/x,leafdirs=30,dirwidth=6,prealloc=100\n\
        define process name=p { thread name=t,instances=3 { flowop removedir name=remove,filesetname=s } }\nrun\n";
    assert_eq!(operations(&one_run(&folder, text), "remove"), 30);
}

#[test]
fn a_run_of_so_many_operations_has_exactly_so_many() {
    let folder = folder();
    let text = "define fileset name=s,path=/x,entries=20,size=1k,dirwidth=5,prealloc=100\n\
        define process name=p { thread name=t,instances=4 { flowop openfile name=o,filesetname=s,fd=1\n\
        flowop closefile name=c,fd=1 } }\nrun 60\n";
    let options = FlowOptions { operations: Some(5001), ..FlowOptions::default() };
    let report = run_in(folder.path(), text, options).result.unwrap();
    assert_eq!((report.runs[0].ended.clone(), report.runs[0].operations()), (Ended::Operations, 5001));
}

#[test]
fn a_starved_run_says_who_found_what_missing() {
    let folder = folder();
    let text = "define fileset name=s,path=/x,entries=8,size=0,dirwidth=5\n\
        define process name=p { thread name=t {\n\
        flowop createfile name=make,filesetname=s,fd=1\nflowop closefile name=c,fd=1 } }\nrun 60\n";
    let run = one_run(&folder, text);
    let Ended::Starved(why) = &run.ended else { panic!("{:?}", run.ended) };
    assert!(why.contains("flowop make (line 3) found no file that does not exist yet in s"), "{why}");
    assert!(why.contains("8 of 8 entries exist"), "{why}");
    assert_eq!(operations(&run, "make"), 8);
}

#[test]
fn all_done_waits_for_every_thread() {
    let folder = folder();
    let text = "set mode quit alldone\ndefine fileset name=s,path=/x,entries=50,size=0,dirwidth=5\n\
        define process name=p { thread name=t,instances=3 {\n\
        flowop createfile name=make,filesetname=s,fd=1\nflowop closefile name=c,fd=1 } }\nrun\n";
    let run = one_run(&folder, text);
    assert_eq!((run.ended.clone(), operations(&run, "make"), operations(&run, "c")), (Ended::Done, 50, 50));
}

#[test]
fn what_others_made_is_not_removed() {
    let folder = folder();
    fs::create_dir(folder.path().join("s")).unwrap();
    fs::write(folder.path().join("s/mine"), "precious").unwrap();
    let text = "define fileset name=s,path=/x,entries=4,size=0,dirwidth=5,prealloc\ncreate files\n";
    let error = run_in(folder.path(), text, FlowOptions::default()).result.unwrap_err().to_string();
    assert!(error.contains("was not made by this program"), "{error}");
    assert_eq!(fs::read(folder.path().join("s/mine")).unwrap(), b"precious");
}

#[test]
fn what_this_program_made_is_made_anew_and_removed_on_request() {
    let folder = folder();
    let text = "define fileset name=s,path=/x,entries=4,size=1k,dirwidth=5,prealloc\ncreate files\n";
    for _ in 0..2 {
        run_in(folder.path(), text, FlowOptions::default()).result.unwrap();
    }
    let options = FlowOptions { remove: true, ..FlowOptions::default() };
    run_in(folder.path(), text, options).result.unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn files_are_used_again_where_the_script_says() {
    let folder = folder();
    let text = "define fileset name=s,path=/x,entries=10,size=2k,dirwidth=5,prealloc,reuse\ncreate files\n";
    run_in(folder.path(), text, FlowOptions::default()).result.unwrap();
    let changed = |path: &Path| {
        let mut all: BTreeMap<_, _> = BTreeMap::new();
        let mut stack = vec![path.to_owned()];
        while let Some(path) = stack.pop() {
            for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
                if entry.path().is_dir() {
                    stack.push(entry.path());
                } else {
                    all.insert(entry.path(), fs::read(entry.path()).unwrap());
                }
            }
        }
        all
    };
    let before = changed(&folder.path().join("s"));
    let first = before.keys().next().unwrap();
    fs::write(first, vec![1; 5000]).unwrap();
    run_in(folder.path(), text, FlowOptions::default()).result.unwrap();
    let after = changed(&folder.path().join("s"));
    assert_eq!(after[first].len(), 2048, "too long a file is shortened");
    assert!(before.iter().all(|(path, data)| path == first || after[path] == *data));
}

#[test]
fn prepared_files_are_found_again_and_only_once() {
    let folder = folder();
    let text = "define fileset name=s,path=/x,entries=10,size=2k,dirwidth=5,prealloc=70\n\
        define process name=p { thread name=t { flowop statfile name=stat,filesetname=s } }\nrun 60\n";
    let options = |only_prepare, prepared| FlowOptions {
        only_prepare,
        prepared,
        operations: Some(100),
        ..FlowOptions::default()
    };
    let missing = run_in(folder.path(), text, options(false, true)).result.unwrap_err().to_string();
    assert!(missing.contains("were not prepared"), "{missing}");
    assert!(run_in(folder.path(), text, options(true, false)).result.unwrap().runs.is_empty());
    assert_eq!(run_in(folder.path(), text, options(false, true)).result.unwrap().runs[0].operations(), 100);
    let used = run_in(folder.path(), text, options(false, true)).result.unwrap_err().to_string();
    assert!(used.contains("were not prepared"), "a workload has changed them since: {used}");
}

#[test]
fn prepared_files_that_were_led_elsewhere_since_are_refused() {
    let text = "define fileset name=s,path=/x,entries=3,size=4k,dirwidth=3,prealloc=100\n\
        define process name=p { thread name=t { flowop openfile name=o,filesetname=s,fd=1\n\
        flowop writewholefile name=w,fd=1\nflowop closefile name=c,fd=1 } }\nrun 60\n";
    for linked_hard in [false, true] {
        let (folder, outside) = (folder(), tempfile::tempdir().unwrap());
        let prepare = FlowOptions { only_prepare: true, ..FlowOptions::default() };
        run_in(folder.path(), text, prepare).result.unwrap();
        let victim = outside.path().join("00000001");
        fs::write(&victim, "precious").unwrap();
        let directory = folder.path().join("s/00000001");
        if linked_hard {
            fs::remove_file(directory.join("00000001")).unwrap();
            fs::hard_link(&victim, directory.join("00000001")).unwrap();
        } else {
            fs::remove_dir_all(&directory).unwrap();
            std::os::unix::fs::symlink(outside.path(), &directory).unwrap();
        }
        let options = FlowOptions { prepared: true, operations: Some(9), ..FlowOptions::default() };
        assert!(run_in(folder.path(), text, options).result.is_err(), "hard: {linked_hard}");
        assert_eq!(fs::read(&victim).unwrap(), b"precious", "hard: {linked_hard}");
    }
}

#[test]
fn a_file_that_disappears_ends_the_run_with_its_name() {
    let folder = folder();
    let text = "define fileset name=s,path=/x,entries=10,size=2k,dirwidth=5,prealloc=100\n\
        define process name=p { thread name=t { flowop openfile name=o,filesetname=s,fd=1\n\
        flowop closefile name=c,fd=1 } }\nrun 60\n";
    let set = folder.path().join("s");
    let remove = || {
        for directory in fs::read_dir(&set).unwrap().map(Result::unwrap) {
            fs::remove_dir_all(directory.path()).unwrap();
        }
    };
    let heard = Heard { before: Some(&remove), ..Heard::default() };
    let report = run_with(folder.path(), text, FlowOptions::default(), &heard).unwrap();
    let Ended::Failed(why) = &report.runs[0].ended else { panic!("{:?}", report.runs[0].ended) };
    assert!(
        why.contains("cannot open") && why.contains("/s/") && why.contains("something else removed it"),
        "{why}"
    );
}

#[test]
fn wrong_uses_of_descriptors_are_named() {
    let folder = folder();
    let problem = |body: &str| {
        let text = format!(
            "define fileset name=s,path=/x,entries=10,size=2k,dirwidth=5,prealloc=100\n\
             define process name=p {{ thread name=t {{ {body} }} }}\nrun 60\n"
        );
        match one_run(&folder, &text).ended {
            Ended::Failed(why) => why,
            other => panic!("{body}: {other:?}"),
        }
    };
    assert!(problem("flowop closefile name=c,fd=3").contains("closes fd=3, which is not open"));
    assert!(problem("flowop openfile name=o,filesetname=s,fd=1").contains("open already"));
    assert!(
        problem("flowop read name=r,filesetname=s,iosize=1m,random").contains("more than the 2048 bytes")
    );
    assert!(problem("flowop aiowrite name=a,filesetname=s,iosize=1k").contains("add random"));
}

#[test]
fn threads_wait_for_each_other() {
    let folder = folder();
    let run = one_run(
        &folder,
        "define fileset name=s,path=/x,entries=10,size=2k,dirwidth=5,prealloc=100\n\
         define process name=p { thread name=poster {\n\
         flowop statfile name=posted,filesetname=s\n\
         flowop sempost name=post,value=1,target=gate,blocking\n\
         } thread name=waiter {\n\
         flowop semblock name=gate,value=10,highwater=20\n\
         flowop statfile name=passed,filesetname=s\n\
         flowop finishoncount name=enough,value=50,target=passed\n } }\nrun 60\n",
    );
    assert_eq!(run.ended, Ended::Done);
    let (posted, passed) = (operations(&run, "posted"), operations(&run, "passed"));
    assert_eq!(passed, 50);
    // Ten posts for each pass; the poster may be ahead by the high-water mark and what the waiter makes room for.
    assert!((500..=500 + 20 + 11).contains(&posted), "{posted}");
}

#[test]
fn asynchronous_writes_are_all_counted() {
    let folder = folder();
    let run = one_run(
        &folder,
        "define file name=f,path=/x,size=1m,prealloc\n\
         define process name=p { thread name=t {\n\
         flowop aiowrite name=w,filename=f,iosize=4k,random,iters=40\n\
         flowop aiowait name=wait\n\
         flowop finishoncount name=enough,value=400,target=w\n } }\nrun 60\n",
    );
    assert_eq!(run.ended, Ended::Done);
    let writes = run.flowops.iter().find(|f| f.name == "w").unwrap();
    assert!(writes.operations >= 400, "{}", writes.operations);
    assert_eq!(writes.bytes, writes.operations * 4096);
    assert!(operations(&run, "wait") > 0);
}

#[test]
fn rates_are_kept_to() {
    let folder = folder();
    let text = "eventgen rate=200\ndefine fileset name=s,path=/x,entries=10,size=2k,dirwidth=5,prealloc=100\n\
         define process name=p { thread name=t,instances=3 { flowop statfile name=stat,filesetname=s\n\
         flowop eventlimit name=limit } }\nrun 60\n";
    let options = FlowOptions { operations: Some(100), ..FlowOptions::default() };
    let report = run_in(folder.path(), text, options).result.unwrap();
    let run = &report.runs[0];
    // 100 operations; the three threads are one operation ahead of their event each. Never faster, however slow the machine is.
    assert!(run.elapsed_ns >= (100 - 4) * 1_000_000_000 / 200, "{}", run.elapsed_ns);
    assert_eq!(run.pace.as_ref().unwrap().of, "events");
}

#[test]
fn an_open_loop_counts_from_the_intended_start() {
    let folder = folder();
    let text = "define fileset name=s,path=/x,entries=10,size=2k,dirwidth=5,prealloc=100\n\
         define process name=p { thread name=t { flowop statfile name=stat,filesetname=s\nflowop hog name=work,value=2000000 } }\nrun 60\n";
    // A pass takes far longer than there is time: each begins later than it should.
    let options =
        FlowOptions { operations: Some(200), passes_per_second: Some(1e6), ..FlowOptions::default() };
    let report = run_in(folder.path(), text, options).result.unwrap();
    let run = &report.runs[0];
    let pace = run.pace.as_ref().unwrap();
    assert!(pace.offered > 10 * pace.begun, "{pace:?}");
    let passes = &run.passes[0].latency;
    let work = &run.flowops.iter().find(|f| f.name == "work").unwrap().latency;
    assert!(
        passes.quantile_ns(1.0) > Some(20 * work.quantile_ns(0.5).unwrap()),
        "the last pass waited for all before it"
    );
}

#[test]
fn composite_flowops_run_their_steps() {
    let folder = folder();
    let run = one_run(
        &folder,
        "define fileset name=s,path=/x,entries=10,size=2k,dirwidth=5,prealloc=100\n\
         define flowop name=look, $which {\nflowop openfile name=o,filesetname=$which,fd=1\nflowop closefile name=c,fd=1\n}\n\
         define process name=p { thread name=t { flowop look name=twice,iters=2,$which=s\n\
         flowop finishoncount name=enough,value=100 } }\nrun 60\n",
    );
    assert_eq!(run.ended, Ended::Done);
    assert_eq!(operations(&run, "twice.o"), operations(&run, "twice.c"));
    assert!(operations(&run, "twice.o") >= 50);
}

#[test]
fn a_file_that_was_not_made_comes_into_being() {
    let folder = folder();
    let text = "define file name=f,path=/x,size=1m\n\
         define process name=p { thread name=t,instances=4 { flowop write name=w,filename=f,iosize=4k } }\nrun 60\n";
    let options = FlowOptions { operations: Some(40), ..FlowOptions::default() };
    let report = run_in(folder.path(), text, options).result.unwrap();
    assert_eq!((report.runs[0].ended.clone(), report.runs[0].bytes()), (Ended::Operations, 40 * 4096));
    assert_eq!(files_below(&folder.path().join("f")).len(), 1);
}

#[test]
fn echo_system_and_reports_are_heard() {
    let folder = folder();
    let text = "set $n=10\necho \"there are $n files\"\nsystem \"echo made > made.txt\"\n";
    let ran = run_in(folder.path(), text, FlowOptions { no_system: true, ..FlowOptions::default() });
    ran.result.unwrap();
    assert_eq!(ran.lines[0], "there are 10 files");
    assert!(ran.lines[1].starts_with("not run: system"));
}

#[test]
fn a_stopped_run_keeps_what_it_measured() {
    let folder = folder();
    let text = "define fileset name=s,path=/x,entries=10,size=2k,dirwidth=5\n\
         define process name=p { thread name=t { flowop block name=b } }\nrun 600\n";
    let heard = Heard { stop: true, ..Heard::default() };
    let error = run_with(folder.path(), text, FlowOptions::default(), &heard).unwrap_err();
    assert!(matches!(error, FlowError::Interrupted));
}

#[test]
fn what_a_program_of_the_script_writes_is_heard_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    // The program in the background keeps both streams open for longer than the test lasts.
    fs::write(
        &program,
        "printf 'one\\033[2J\\ntwo\\r\\n'\nhead -c 10000 /dev/zero | tr '\\0' x\nprintf '\\nfour' >&2\nsleep 600 &\necho $! > $0.pid\n",
    )
    .unwrap();
    let text = format!("system \"sh {}\"\n", program.display());
    let ran = run_in(folder.path(), &text, FlowOptions::default());
    let background = fs::read_to_string(folder.path().join("program.pid")).unwrap();
    let ended = std::process::Command::new("kill").arg(background.trim()).status().unwrap();
    ran.result.unwrap();
    assert!(ended.success());
    let mut lines: Vec<&str> = ran.lines[1..].iter().map(String::as_str).collect();
    let x = "x".repeat(4096);
    lines.sort_unstable();
    assert_eq!(lines, ["", "four", "one\u{1b}[2J", "two", &x[..10_000 - 2 * 4096], &x, &x]);
}

#[test]
fn a_full_file_system_is_named() {
    let error = FlowError::Call {
        what: "cannot write",
        path: "/x".to_owned(),
        reason: "no space left on device".to_owned(),
        cause: std::io::Error::from_raw_os_error(28),
    };
    assert!(error.is_full());
    assert!(error.to_string().contains("make the file sets smaller"), "{error}");
}

#[test]
fn scaling_keeps_the_workload_and_changes_the_data() {
    let text = "define fileset name=many,path=/x,entries=10000,size=16k,dirwidth=20\n\
         define fileset name=few,path=/x,entries=4,size=1g,dirwidth=20\n\
         define process name=p { thread name=t { flowop read name=r,filesetname=few,iosize=8k,random,workingset=512m } }\nrun 1\n";
    let source = nestor_wml::Source::new("test.f", text.as_bytes());
    let script = nestor_wml::parse(&source, &[]).unwrap();
    let tiny = scale(&script, Scale::Tiny);
    assert!(nestor_flowops::mean_bytes(&tiny.script) <= nestor_flowops::TINY_BYTES);
    assert!(tiny.factor < 0.02 && tiny.growth_limit_bytes.is_some());
    let double = scale(&script, Scale::Factor(2.0));
    assert_eq!(nestor_flowops::mean_bytes(&double.script), 2 * nestor_flowops::mean_bytes(&script));
    assert!((double.factor - 2.0).abs() < 1e-9);
    let bytes = scale(&script, Scale::Bytes(1 << 30));
    let now = nestor_flowops::mean_bytes(&bytes.script) as f64;
    assert!((now / f64::from(1 << 30) - 1.0).abs() < 0.01, "{now}");
}
