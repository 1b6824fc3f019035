//! Speed of analysing a blktrace, beside `blkparse -d` followed by `btt`, on one core.
//!
//! The trace is of random reads and writes of 4 KiB, each with Q G P I U D C, on four CPUs. Every program runs as a
//! process of its own, pinned to one CPU; the files are in the page cache. Rounds are made in turn, and the medians
//! are compared. The time is the processor's, user and system, of the whole process up to the numbers printed: on an
//! idle machine the elapsed time, and on a busy one not that of others. `-- --make DIRECTORY` makes the trace only.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

#[path = "../tests/common/generate.rs"]
mod generate;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use generate::{Files, Mix, generate};
use nestor_trace::{AnalyzeOptions, analyze, decode};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Seven records each.
const REQUESTS: u64 = 700_000;
const ROUNDS: usize = 5;
/// What makes this program analyse instead of measure.
const ANALYZE: &str = "--analyze";
const PER_PROCESS: &str = "--per-process";
/// What makes this program make the trace only.
const MAKE: &str = "--make";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|a| a == ANALYZE) {
        let per_process = arguments.iter().any(|a| a == PER_PROCESS);
        let names = arguments[at + 1..].iter().filter(|a| *a != PER_PROCESS);
        analyze_here(&names.map(PathBuf::from).collect::<Vec<_>>(), per_process);
        return;
    }
    if let Some(at) = arguments.iter().position(|a| a == MAKE) {
        let (mut files, _) = Files::create(Path::new(&arguments[at + 1]), "bench", 4);
        generate(&Mix::random_4k(REQUESTS), 42, &mut files);
        println!("{} records", files.finish());
        return;
    }
    let mut set = CpuSet::new();
    set.set(0);
    if let Err(error) = sched_setaffinity(None, &set) {
        println!("cannot stay on one CPU ({error}): programs may use more");
    }
    let folder = tempfile::tempdir().expect("a folder for the trace");
    let (mut files, paths) = Files::create(folder.path(), "bench", 4);
    generate(&Mix::random_4k(REQUESTS), 42, &mut files);
    let records = files.finish();
    let bytes: u64 = paths.iter().map(|p| p.metadata().expect("a file").len()).sum();
    println!(
        "{records} records, {} MiB, {} files, one CPU, medians of {ROUNDS} rounds",
        bytes >> 20,
        paths.len()
    );
    compare(folder.path(), &paths, records);
}

fn compare(folder: &Path, paths: &[PathBuf], records: u64) {
    let (mut ours, mut with_processes, mut theirs, mut reading) = (vec![], vec![], vec![], vec![]);
    let mut peak_kib = 0;
    for _ in 0..ROUNDS {
        reading.push(seconds(|| read_all(paths)));
        ours.push(seconds(|| peak_kib = peak_kib.max(analyze_in_process(paths, &[]))));
        with_processes.push(seconds(|| peak_kib = peak_kib.max(analyze_in_process(paths, &[PER_PROCESS]))));
        match run_btt(folder) {
            Some(pair) => theirs.push(pair),
            None => println!("  blkparse or btt cannot be run; install the Debian package blktrace"),
        }
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let (ours, with_processes, reading) = (median(ours), median(with_processes), median(reading));
    let blkparse = median(theirs.iter().map(|t| t.0).collect());
    let btt = median(theirs.iter().map(|t| t.1).collect());
    let pair = median(theirs.iter().map(|t| t.0 + t.1).collect());
    let rate = |seconds: f64| records as f64 / seconds / 1e6;
    println!("  {:<34} {:>8} {:>14}", "", "seconds", "M records/s");
    for (name, seconds) in [
        ("plain sequential reading", reading),
        ("nestor", ours),
        ("nestor with processes", with_processes),
        ("blkparse -d", blkparse),
        ("btt", btt),
        ("blkparse -d, then btt", pair),
    ] {
        println!("  {name:<34} {seconds:>8.3} {:>14.2}", rate(seconds));
    }
    println!("  {:.1} times blkparse and btt ({:.1} with processes)", pair / ours, pair / with_processes);
    println!("  {:.0} % of the speed of plain sequential reading", 100.0 * reading / ours);
    println!("  {:.1} MiB of memory at most", peak_kib as f64 / 1024.0);
}

/// Processor time that `work` takes in this process and in those it waits for.
fn seconds(work: impl FnOnce()) -> f64 {
    let before = processor_seconds();
    work();
    processor_seconds() - before
}

fn processor_seconds() -> f64 {
    let seconds_of = |who| {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a whole `rusage`, which is valid with any content, and `who` is one of the kernel's.
        let usage = unsafe {
            libc::getrusage(who, usage.as_mut_ptr());
            usage.assume_init()
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    seconds_of(libc::RUSAGE_SELF) + seconds_of(libc::RUSAGE_CHILDREN)
}

fn read_all(paths: &[PathBuf]) {
    let mut buffer = vec![0; 256 << 10];
    for path in paths {
        let mut file = File::open(path).expect("a file");
        while file.read(&mut buffer).expect("its bytes") > 0 {}
    }
}

/// Runs this program on the trace and returns its peak of memory in KiB.
fn analyze_in_process(paths: &[PathBuf], more: &[&str]) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let child = Command::new(program).arg(ANALYZE).args(more).args(paths).stdout(Stdio::piped()).spawn();
    let output = child.and_then(std::process::Child::wait_with_output).expect("this program can be run");
    assert!(output.status.success(), "the analysis failed");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().and_then(|line| line.parse().ok()).expect("its peak of memory")
}

/// What `nestor trace analyze --json` does, and then the peak of memory.
fn analyze_here(paths: &[PathBuf], per_process: bool) {
    let options = AnalyzeOptions { per_process, ..AnalyzeOptions::default() };
    for trace in decode::open(paths).expect("traces") {
        let analysis = analyze(trace, &options).expect("numbers");
        println!("{}", serde_json::to_string_pretty(&analysis).expect("JSON"));
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("its status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak of memory");
    println!("{}", peak.trim().trim_end_matches(" kB"));
}

/// Seconds of blkparse and of btt.
fn run_btt(folder: &Path) -> Option<(f64, f64)> {
    let run = |command: &mut Command| {
        let start = processor_seconds();
        let ran = command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        ran.success().then(|| processor_seconds() - start)
    };
    let blkparse = run(Command::new("blkparse").args(["-q", "-O", "-i", "bench", "-d", "bench.bin"]))?;
    let btt = run(Command::new("btt").args(["-i", "bench.bin", "-o", "bench"]))?;
    Some((blkparse, btt))
}
