//! What is asked, and what is known.

use std::collections::BTreeMap;

use nestor_model::prediction::TargetMachine;
use nestor_model::surface::{GridPoint, Surface};
use serde::{Deserialize, Serialize};

/// What a load asks for, whoever runs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Share of requests that read.
    pub read_share: f64,
    /// Share of requests that do not go on where an earlier one ended.
    pub random_share: f64,
    /// Mean size of a request in bytes.
    pub mean_bytes: f64,
    /// Sizes with the share of requests that have them; empty: all are of the mean.
    pub sizes: Vec<(u64, f64)>,
    /// Requests that wait for the medium, as a share of the writes.
    pub flush_share: f64,
    /// Workers that each have one request at a time; 0 where nobody knows.
    pub workers: u32,
    /// Seconds that each does something else between requests.
    pub think_s: f64,
    /// Requests under way, mean.
    pub outstanding: f64,
}

impl Shape {
    /// The points of a surface that the load is made of, with their shares.
    pub fn points(&self, depth: u32) -> Vec<(GridPoint, f64)> {
        let percent = |share: f64| (share.clamp(0.0, 1.0) * 100.0).round() as u8;
        let point = |bytes: f64| GridPoint {
            bytes: bytes.clamp(512.0, f64::from(u32::MAX)).round() as u32,
            read_percent: percent(self.read_share),
            random_percent: percent(self.random_share),
            depth,
        };
        if self.sizes.is_empty() {
            return vec![(point(self.mean_bytes), 1.0)];
        }
        self.sizes.iter().map(|(bytes, share)| (point(*bytes as f64), *share)).collect()
    }

    /// As a point among other loads, each number from about 0 to 1.
    pub fn features(&self) -> Vec<f64> {
        let log2 = |value: f64| value.max(1.0).log2();
        vec![
            self.read_share,
            self.random_share,
            // From 512 bytes to 1 MiB.
            ((log2(self.mean_bytes) - 9.0) / 11.0).clamp(0.0, 1.2),
            self.flush_share.min(1.0),
            // From 1 to 256.
            log2(self.outstanding + 1.0) / 8.0,
        ]
    }

    /// Customers that go round: the workers, or as many as are under way.
    pub fn customers(&self) -> u32 {
        if self.workers > 0 { self.workers } else { (self.outstanding.round() as u32).max(1) }
    }
}

/// A load that was measured on a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredLoad {
    /// The stack, in its notation.
    pub stack: String,
    /// The load, in its notation.
    pub load: String,
    /// What it reached, geometric mean of its runs: bytes per second, or operations where nothing is moved.
    pub rate: f64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Mean time of an operation in seconds, if it is known.
    pub response_s: Option<f64>,
    /// Processors kept busy by everything on the host.
    pub processors_busy: f64,
    /// The runs, by number.
    pub runs: Vec<i64>,
}

/// What is known of a stack besides what was measured on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackParts {
    /// Each layer and each option that matters, by name: `guest file system` → `ext3`.
    pub parts: BTreeMap<String, String>,
    /// The medium with its options.
    pub medium: String,
}

/// Points that were measured on a stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// Requests per second of each.
    pub rates: Vec<(GridPoint, f64)>,
    /// The runs, by number.
    pub runs: Vec<i64>,
}

impl Points {
    /// A surface through them; `None` with too few.
    pub fn surface(&self) -> Option<Surface> {
        Surface::fit(&self.rates, None)
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Loads on stacks, each pair once.
    pub cells: Vec<MeasuredLoad>,
    /// The loads' shapes, by notation.
    pub shapes: BTreeMap<String, Shape>,
    /// The loads' families, by notation: `fio`, `fileserver`.
    pub families: BTreeMap<String, String>,
    /// The stacks' parts, by notation.
    pub stacks: BTreeMap<String, StackParts>,
    /// Surfaces, by stack.
    pub points: BTreeMap<String, Points>,
}

impl Evidence {
    /// A load on a stack, if it was measured there.
    pub fn cell(&self, stack: &str, load: &str) -> Option<&MeasuredLoad> {
        self.cells.iter().find(|cell| cell.stack == stack && cell.load == load)
    }

    /// Without a load on a stack: as before it was measured.
    #[must_use]
    pub fn without(&self, hidden: impl Fn(&MeasuredLoad) -> bool) -> Self {
        Self { cells: self.cells.iter().filter(|cell| !hidden(cell)).cloned().collect(), ..self.clone() }
    }
}

/// What is known of the load where it runs now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// What it reaches there, in the unit that the answer is to have.
    pub rate: f64,
    /// Requests per second there.
    pub requests_per_s: f64,
    /// Mean time of a request there, in seconds.
    pub response_s: f64,
    /// Processors that it keeps busy itself there.
    pub processors_busy: f64,
}

/// What is asked: what a load will reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The load, in its notation or by its profile's name.
    pub load: String,
    /// Its shape.
    pub shape: Shape,
    /// The notation of a synthetic load that behaves alike, if there is one.
    pub model: Option<String>,
    /// Where it runs now.
    pub from: String,
    /// What it reaches there.
    pub reference: Reference,
    /// Where it is to go.
    pub to: String,
    /// What computing takes there, relative to where it runs now. The study's corrections made its own two predictions worse
    /// (acceptance row A-48), so both are the same unless somebody knows better.
    pub machine: TargetMachine,
}
