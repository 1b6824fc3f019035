//! Reports of a store with 100 000 runs: time, and the largest memory that the process ever had.
//!
//! `cargo bench -p nestor-report`; the limits are 10 s and 500 MB. `NESTOR_BENCH_RUNS` and `NESTOR_BENCH_RECORD_KB` make the
//! store smaller or larger; by default it takes about 11 GB in the temporary directory while this runs. Each number is
//! taken by a process of its own.

#[path = "../../src/tests/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests, which use the rest")]
mod fixture;
mod made_up;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use nestor_report::{RunsView, StudyReport, Style, render_study, runs_text, study_text};
use nestor_study::{RunFilter, Store};

const MAKE: &str = "make";
const REPORTS: [&str; 5] = [
    "study as HTML and text",
    "study as JSON",
    "list of runs",
    "list of all runs as JSON",
    "condensed for predictions",
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, what, path] = arguments.as_slice() {
        return one(what, Path::new(path));
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("large.sqlite");
    for what in std::iter::once(MAKE).chain(REPORTS) {
        let program = std::env::current_exe().expect("the path of this program");
        let status = Command::new(program).arg(what).arg(&path).status().expect("a process");
        assert!(status.success(), "{what}");
    }
}

fn wanted(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

fn one(what: &str, path: &Path) {
    let began = Instant::now();
    let written = match what {
        MAKE => {
            made_up::store(path, wanted("NESTOR_BENCH_RUNS", 100_000), wanted("NESTOR_BENCH_RECORD_KB", 64));
            std::fs::metadata(path).map_or(0, |file| file.len())
        }
        _ => report(what, &Store::open_read_only(path).expect("the store")) as u64,
    };
    println!(
        "{what:<26} {:>7.2} s   {:>6} MB of memory at most   {:>9.1} MB written",
        began.elapsed().as_secs_f64(),
        peak_memory_kb() / 1_000,
        written as f64 / 1e6
    );
}

/// Makes a report and gives its length.
fn report(what: &str, store: &Store) -> usize {
    let study = || {
        let record = store.study_named(made_up::NAME).expect("a store").expect("the study");
        let began = Instant::now();
        let cells = store.cells(&record.hash).expect("its runs");
        println!("  its runs in numbers      {:>7.2} s", began.elapsed().as_secs_f64());
        StudyReport::read(&record, &cells, &mut |number| store.run(number)).expect("a report")
    };
    let all = what == REPORTS[3];
    match what {
        _ if what == REPORTS[0] => {
            let report = study();
            render_study(&report).len() + study_text(&report, Style::plain()).len()
        }
        _ if what == REPORTS[4] => store.known("emulated").expect("what is known").cells.len(),
        _ if what == REPORTS[1] => serde_json::to_string_pretty(&study()).expect("JSON").len(),
        _ => {
            let runs = store.list_newest(&RunFilter::default(), (!all).then_some(50)).expect("a list");
            let view = RunsView { total: store.count().expect("a number"), runs };
            if all {
                serde_json::to_string_pretty(&view).expect("JSON").len()
            } else {
                runs_text(&view, Style::plain()).len()
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
