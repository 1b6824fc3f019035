//! `nestor characterize` as a user meets it: from traces anywhere, live where block devices may be recorded.

mod support;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use support::loop_mount::LoopMount;
use support::{Ended, Sandbox, can_run, said, signal};

/// blkparse's lines of workers that each read 8 KiB far from anywhere, 12 ms, and then do something else for 50.
fn thinkers(workers: u64, rounds: u64) -> String {
    let mut events: Vec<(u64, String)> = Vec::new();
    for worker in 0..workers {
        for round in 0..rounds {
            let start = round * 62_000_000 + worker * 1_000_000;
            let sector = (round * workers + worker) * 1_000_003 % 100_000_000;
            for (action, at) in
                [("Q", start), ("G", start + 1_000), ("D", start + 2_000), ("C", start + 12_000_000)]
            {
                let who = if action == "C" { "[0]".to_owned() } else { format!("[worker-{worker}]") };
                let line = format!(
                    "{:3}.{:09} {:5}  {action}   R {sector} + 16 {who}",
                    at / 1_000_000_000,
                    at % 1_000_000_000,
                    100 + worker
                );
                events.push((at, line));
            }
        }
    }
    events.sort();
    let mut text = String::new();
    for (number, (_, line)) in events.iter().enumerate() {
        let _ = writeln!(text, "  8,0    0 {:8} {line}", number + 1);
    }
    text
}

fn refused(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.nestor(arguments).assert().failure().get_output().stderr.clone();
    String::from_utf8(output).expect("messages are UTF-8")
}

#[test]
fn a_trace_becomes_a_small_file_that_runs() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("mail.txt"), thinkers(10, 40)).unwrap();
    let (trace, file) = (sandbox.text("mail.txt"), sandbox.text("mail.toml"));
    let line = said(&sandbox, &["characterize", "--trace", &trace, "--output", &file]);
    assert!(line.starts_with("mail: ") && line.contains("10 workers that think"), "{line}");
    assert!(line.contains(&format!("nestor load run {file}")), "{line}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.lines().count() < 40, "{text}");
    let json: Value =
        serde_json::from_str(&said(&sandbox, &["characterize", "--trace", &trace, "--json"])).unwrap();
    let profile = &json["profile"];
    assert_eq!(profile["concurrency"]["workers"], 10);
    let think = profile["concurrency"]["think-ms"].as_f64().unwrap();
    assert!((think - 50.0).abs() < 1.5, "{think}");
    assert_eq!(
        (&profile["requests"]["read-share"], &profile["requests"]["random-share"]),
        (&1.0.into(), &1.0.into())
    );
    assert_eq!(profile["requests"]["mean-bytes"], 8192.0);
    // The file is a workload wherever workloads are named.
    let explained = refused(&sandbox, &["load", "run", &file]);
    assert!(explained.contains("--dir"), "{explained}");
}

#[test]
fn what_is_too_little_is_said_with_what_would_be_enough() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("short.txt"), thinkers(2, 3)).unwrap();
    let short = refused(&sandbox, &["characterize", "--trace", &sandbox.text("short.txt")]);
    assert!(short.contains("too short") && short.contains("at least 100"), "{short}");
    let nobody = refused(&sandbox, &["characterize", "--pid", "4294967295"]);
    assert!(nobody.contains("there is no process 4294967295"), "{nobody}");
    let no_group = refused(&sandbox, &["characterize", "--cgroup", "no/such.slice"]);
    assert!(no_group.contains("there is no control group"), "{no_group}");
    let both = refused(&sandbox, &["characterize", "--trace", "x", "--pid", "1"]);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn traces_without_times_are_refused() {
    let sandbox = Sandbox::new();
    let log = "fio version 2 iolog\nf add\nf open\n".to_owned() + &"f read 0 4096\n".repeat(200);
    std::fs::write(sandbox.path("x.iolog"), log).unwrap();
    let error = refused(&sandbox, &["characterize", "--trace", &sandbox.text("x.iolog")]);
    assert!(error.contains("which a profile needs"), "{error}");
}

#[test]
fn a_load_on_a_real_device_is_found_again() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = LoopMount::new(&sandbox, "ext4");
    let load = "iometer:mail:workers=4:think=4:runtime=2m:size=16M:operations=1000000";
    let mut running = sandbox.start(&["load", "run", load, "--dir", &mounted.point, "--remove"], &[]);
    let arguments = ["characterize", "--for", "3s", "--device", &mounted.device, "--json"];
    // The load lays its file out first, in larger requests; it is watched again until that is over.
    let profile = loop {
        let output = sandbox.nestor(arguments).output().expect("the program runs");
        let json: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let profile = json.map(|json| json["profile"].clone());
        let settled = |profile: &Value| {
            let number = |name: &str| profile["requests"][name].as_f64().unwrap_or_default();
            number("read-share") > 0.3 && number("mean-bytes") < 13_000.0
        };
        match profile.filter(settled) {
            Some(profile) => break profile,
            None => assert!(running.is_running(), "{}", String::from_utf8_lossy(&output.stderr)),
        }
    };
    signal(running.pid(), Signal::INT);
    running.end();
    let number = |group: &str, name: &str| profile[group][name].as_f64().unwrap();
    assert!((number("requests", "read-share") - 0.64).abs() < 0.15, "{profile}");
    assert!(number("requests", "random-share") > 0.9, "{profile}");
    assert!((number("requests", "mean-bytes") / 11264.0 - 1.0).abs() < 0.16, "{profile}");
    assert!((2.0..=8.0).contains(&number("concurrency", "workers")), "{profile}");
    assert!(profile["remarks"].to_string().contains("of one processor"), "{profile}");
}

/// Where a watching program keeps its recording: a directory in memory that it has open.
fn recording_of(pid: u32) -> Option<PathBuf> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let mut paths = open.filter_map(|file| std::fs::read_link(file.path()).ok());
    paths.find(|path| {
        path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("nestor-characterize-"))
    })
}

const READS: u64 = 1000;
const READS_OF_OTHERS: u64 = 64;

/// Reads so many blocks of a device, past the page cache.
fn dd(device: &str, count: u64) -> Vec<String> {
    let of =
        ["dd", &format!("if={device}"), &format!("count={count}"), "bs=8k", "iflag=direct", "status=none"];
    of.map(str::to_owned).into()
}

/// What is watched for less than a second is no profile.
const LONG_ENOUGH: Duration = Duration::from_millis(1200);

/// Watches a process that reads, while another reads as well.
fn watched(sandbox: &Sandbox, device: &str) -> (String, Ended) {
    // It is there before it reads, stays the same process, and does not end before its output is read.
    let mut reader = Command::new("sh")
        .args(["-c", &format!("read go; exec {}", dd(device, READS).join(" "))])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let pid = reader.id().to_string();
    let arguments = ["characterize", "--for", "5m", "--device", device, "--pid", &pid, "--json"];
    let mut watching = sandbox.start(&arguments, &[]);
    let recording = loop {
        match recording_of(watching.pid()) {
            Some(recording) => break recording,
            None => assert!(watching.is_running(), "{}", watching.end().stderr),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    watching.wait_for_file(&recording.join("ready"));
    watching.wait_for_log(&["watching;"]);
    let has_watched = Instant::now();
    let others = dd(device, READS_OF_OTHERS);
    let output = Command::new(&others[0]).args(&others[1..]).output().expect("there is dd");
    assert_eq!(output.stdout.len() as u64, READS_OF_OTHERS * 8192, "{output:?}");
    reader.stdin.take().expect("it is piped").write_all(b"go\n").expect("it waits for that");
    // It does not end before its output is read.
    std::thread::sleep(LONG_ENOUGH.saturating_sub(has_watched.elapsed()));
    let output = reader.wait_with_output().expect("it can be waited for");
    assert_eq!(output.stdout.len() as u64, READS * 8192);
    // It ends with the process, not after five minutes.
    let ended = watching.end();
    assert!(!recording.exists(), "what was recorded is removed");
    (pid, ended)
}

#[test]
fn of_one_process_exactly_the_requests_that_it_made_are_counted() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = LoopMount::new(&sandbox, "ext4");
    let (pid, ended) = watched(&sandbox, &mounted.device);
    assert!(ended.succeeded, "{}", ended.stderr);
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    let profile = &json["profile"];
    let number = |group: &str, name: &str| profile[group][name].as_f64().unwrap();
    let counted = number("rates", "requests-per-s") * number("rates", "seconds");
    assert!((counted - READS as f64).abs() < 1e-6, "{counted}: {profile}");
    assert_eq!((number("requests", "mean-bytes"), number("requests", "read-share")), (8192.0, 1.0));
    assert_eq!(profile["requests"]["working-set-bytes"], READS * 8192);
    assert_eq!(profile["concurrency"]["workers"], 1);
    assert!(profile["observed-on"].as_str().unwrap().starts_with(&format!("process {pid} (")), "{profile}");
    let remarks: Vec<&str> =
        profile["remarks"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let left_out: Option<u64> =
        remarks.iter().find_map(|r| r.split_once(" requests of other threads are left out")?.0.parse().ok());
    assert!(left_out >= Some(READS_OF_OTHERS), "{remarks:?}");
    assert!(remarks.iter().any(|remark| remark.starts_with("the processes ended ")), "{remarks:?}");
}
