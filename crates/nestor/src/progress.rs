//! Progress on a terminal: what is happening, how far, how long still. Quiet in a pipe.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nestor_measure::Watcher;
use nestor_results::CellKey;
use nestor_results::InstanceLife;
use nestor_results::{CellRecord, Outcome};
use nestor_terminal::visible;

use crate::output::{columns_of_errors, fitted};

/// A bar with a line above it for the cell and one for the step.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    /// In a pipe, one plain line per cell instead.
    plain: bool,
    /// Whether there are lines that stay.
    has_lines: bool,
}

impl Progress {
    /// A bar of `length` units; hidden unless standard error is a terminal.
    pub fn new(length: u64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "nothing is printed")]
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::new(length);
        bar.set_draw_target(if terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        let style =
            ProgressStyle::with_template("{prefix}\n  {wide_bar} {pos}/{len}  {elapsed} elapsed{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        if terminal {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self { bar, plain: !terminal, has_lines: true }
    }

    /// Without lines that stay, if that is asked for.
    pub fn quiet(self, quiet: bool) -> Self {
        Self { has_lines: !quiet, ..self }
    }

    /// Says what is happening.
    pub fn step(&self, what: &str) {
        let head = self.bar.prefix();
        let head = head.lines().next().unwrap_or_default().to_owned();
        self.bar.set_prefix(format!("{head}\n  {}", visible(what)));
    }

    /// Says what it is about, and how long it still takes.
    pub fn about(&self, what: &str, left: Option<Duration>) {
        self.bar.set_prefix(visible(what).into_owned());
        let left = left.map_or_else(String::new, |left| format!(", about {} left", short_duration(left)));
        self.bar.set_message(left);
    }

    /// How far it is.
    pub fn position(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// How far it goes.
    pub fn length(&self, length: u64) {
        self.bar.set_length(length);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// A line that stays.
    pub fn line(&self, text: &str) {
        if !self.has_lines {
            // Only the bar.
        } else if self.plain {
            errln!("{text}");
        } else {
            self.bar.println(visible(&fitted(text, columns_of_errors())));
        }
    }

    /// For the lab, which says what it does.
    pub fn as_lab_progress(&self) -> nestor_lab::Progress {
        let progress = self.clone();
        Arc::new(move |what: &str| progress.step(what))
    }
}

/// `45 s`, `3 min`.
fn short_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

impl Watcher for Progress {
    fn cell_begins(&self, cell: &CellKey, done: usize, all: usize, left: Option<Duration>) {
        self.length(all as u64);
        self.position(done as u64);
        self.about(&format!("{}  {}", cell.stack, cell.workload), left);
    }

    fn step(&self, what: &str) {
        Self::step(self, what);
    }

    fn cell_ended(&self, record: &CellRecord, run: i64) {
        self.bar.inc(1);
        self.line(&format!("{}  ({:.0} s)", outcome_line(record, run), record.cell_s));
    }

    fn cell_known(&self, record: &CellRecord, run: i64) {
        self.bar.inc(1);
        self.line(&format!("{}  (known: nothing that it depends on has changed)", outcome_line(record, run)));
    }
}

fn outcome_line(record: &CellRecord, run: i64) -> String {
    let result = match &record.outcome {
        // Instances lived, and nothing ran in them.
        Outcome::Measured(measured) if measured.load.operations.is_empty() && !measured.lives.is_empty() => {
            let longest_ns = measured.lives.iter().map(InstanceLife::whole_ns).max().unwrap_or_default();
            format!("{:.1} s", longest_ns as f64 / 1e9)
        }
        Outcome::Measured(measured) => {
            let unit = measured.load.rate_unit();
            unit.words(measured.load.rate(unit))
        }
        // Why is part of the result, which comes at the end.
        Outcome::Failed(_) => "failed".to_owned(),
    };
    format!("  run {run}  {}  {}  {result}", record.stack, record.workload)
}
