//! Reports of a store with 100 000 runs: time, and the largest memory that the process ever had.
//!
//! `cargo bench -p nestor-report`; it fails beyond 10 s or 500 MB. `NESTOR_BENCH_RUNS` and `NESTOR_BENCH_RECORD_KB` make the
//! store smaller or larger; by default it takes about 11 GB in the temporary directory while this runs. Each report is
//! made by a process of its own, as `nestor report` does it: with the claims of the study of nested file systems judged and its
//! figures filled.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

#[path = "../../src/tests/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests, which use the rest")]
mod fixture;
mod made_up;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nestor_report::{RunsView, StudyReport, Style, render_study, runs_text, study_text};
use nestor_results::{RunFilter, Store, Verdict};

/// No report may take longer, or more memory.
const MOST_TIME: Duration = Duration::from_secs(10);
const MOST_MEMORY_KB: u64 = 500_000;

const MAKE: &str = "make";
const REPORTS: [&str; 5] = [
    "study as HTML and text",
    "study as JSON",
    "list of runs",
    "list of all runs as JSON",
    "condensed for predictions",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path] = arguments.as_slice() {
        return one(what, Path::new(path));
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("large.sqlite");
    let mut within = true;
    for what in std::iter::once(MAKE).chain(REPORTS) {
        let program = std::env::current_exe().expect("the path of this program");
        let status = Command::new(program).arg(what).arg(&path).status().expect("a process");
        assert!(status.success() || what != MAKE, "{what}");
        within &= status.success();
    }
    if within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wanted(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

fn one(what: &str, path: &Path) -> ExitCode {
    let began = Instant::now();
    let written = match what {
        MAKE => {
            made_up::store(path, wanted("NESTOR_BENCH_RUNS", 100_000), wanted("NESTOR_BENCH_RECORD_KB", 64));
            std::fs::metadata(path).map_or(0, |file| file.len())
        }
        _ => report(what, &Store::open_read_only(path).expect("the store")) as u64,
    };
    let (took, memory_kb) = (began.elapsed(), peak_memory_kb());
    println!(
        "{what:<26} {:>7.2} s   {:>6} MB of memory at most   {:>9.1} MB written",
        took.as_secs_f64(),
        memory_kb / 1_000,
        written as f64 / 1e6
    );
    if what != MAKE && (took > MOST_TIME || memory_kb > MOST_MEMORY_KB) {
        eprintln!("{what}: beyond {} s or {} MB", MOST_TIME.as_secs(), MOST_MEMORY_KB / 1_000);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Does a part of a report, and says how long it took and the largest memory until then.
fn part<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    let memory_mb = peak_memory_kb() / 1_000;
    println!("  {name:<24} {:>7.2} s   {memory_mb:>6} MB", began.elapsed().as_secs_f64());
    done
}

/// The report of the study as `nestor report --study` makes it.
fn study_report(store: &Store) -> StudyReport {
    let record = store.study_named(made_up::NAME).expect("a store").expect("the study");
    let report = part("from the file", || StudyReport::from_store(store, &record).expect("a report"));
    let (claims, figures) = (&report.claims, &report.figures);
    let judged = claims.iter().filter(|claim| claim.verdict != Verdict::NotTestable).count();
    assert!(
        2 * judged > claims.len(),
        "{judged} of {} claims could be judged: the runs do not fit them",
        claims.len()
    );
    let filled = figures.iter().filter(|figure| figure.problem.is_none() && !figure.rows.is_empty()).count();
    assert!(2 * filled > figures.len(), "{filled} of {} figures have rows", figures.len());
    println!("  {judged} of {} claims judged, {filled} of {} figures filled", claims.len(), figures.len());
    report
}

/// Makes a report and gives its length.
fn report(what: &str, store: &Store) -> usize {
    let all = what == REPORTS[3];
    match what {
        _ if what == REPORTS[0] => {
            let report = study_report(store);
            part("HTML", || render_study(&report).len())
                + part("text", || study_text(&report, Style::plain()).len())
        }
        _ if what == REPORTS[4] => store.known("emulated").expect("what is known").cells.len(),
        _ if what == REPORTS[1] => serde_json::to_string_pretty(&study_report(store)).expect("JSON").len(),
        _ => {
            let runs = store.list_newest(&RunFilter::default(), (!all).then_some(50)).expect("a list");
            let view = RunsView { total: store.count().expect("a number"), runs };
            if all {
                serde_json::to_string_pretty(&view).expect("JSON").len()
            } else {
                runs_text(&view, Style::plain(), None).len()
            }
        }
    }
}

/// `VmHWM`: the largest resident memory so far.
fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
