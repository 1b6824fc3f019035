//! Runs scripts in folders of their own.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nestor_flowops::{FlowError, FlowOptions, FlowReport, Listener, RunReport, Source, relocate, run_script};
use tempfile::TempDir;

/// Remembers what is said; stops after so many looks, if asked to.
#[derive(Default)]
pub struct Heard<'h> {
    pub lines: Mutex<Vec<String>>,
    pub reports: AtomicUsize,
    pub stop: bool,
    /// Done when all is ready and nothing has begun.
    pub before: Option<&'h (dyn Fn() + Sync)>,
}

impl Listener for Heard<'_> {
    fn say(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }
    fn progress(&self, _what: &str, share: f64) {
        assert!(share >= 0.0);
    }
    fn report(&self, _so_far: &RunReport) {
        self.reports.fetch_add(1, Ordering::Relaxed);
    }
    fn is_interrupted(&self) -> bool {
        self.stop
    }
    fn wait_for_others(&self) -> Result<(), String> {
        self.before.into_iter().for_each(|before| before());
        Ok(())
    }
}

/// How a run ended, and what it said.
pub struct Ran {
    pub result: Result<FlowReport, FlowError>,
    pub lines: Vec<String>,
}

/// Runs a script in a folder.
pub fn run_in(folder: &Path, text: &str, options: FlowOptions) -> Ran {
    let heard = Heard::default();
    let result = run_with(folder, text, options, &heard);
    Ran { result, lines: heard.lines.into_inner().unwrap() }
}

/// The same with a listener of its own.
pub fn run_with(
    folder: &Path,
    text: &str,
    options: FlowOptions,
    heard: &Heard<'_>,
) -> Result<FlowReport, FlowError> {
    let source = nestor_wml::Source::new("test.f", text.as_bytes());
    let script = nestor_wml::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}"));
    let options = FlowOptions { places: relocate(&script, folder), ..options };
    run_script(&script, Source { name: "test.f", text }, &options, heard)
}

/// The only run of a script, which has to succeed.
pub fn one_run(folder: &TempDir, text: &str) -> RunReport {
    let report = run_in(folder.path(), text, FlowOptions::default()).result.unwrap();
    assert_eq!(report.runs.len(), 1);
    report.runs.into_iter().next().unwrap()
}

/// How often a flowop was executed.
pub fn operations(run: &RunReport, name: &str) -> u64 {
    run.flowops.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no flowop {name}")).operations
}

/// Sizes of all files below a directory.
pub fn files_below(path: &Path) -> Vec<u64> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            sizes.extend(files_below(&entry.path()));
        } else {
            sizes.push(entry.metadata().unwrap().len());
        }
    }
    sizes
}

/// A new folder.
pub fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}
