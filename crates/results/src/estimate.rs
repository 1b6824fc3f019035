//! How long cells will take, estimated from earlier measurements.

use std::collections::HashMap;
use std::time::Duration;

use nestor_stack::{Layer, Stack};
use serde::{Deserialize, Serialize};

use crate::plan::CellKey;
use crate::{CellRecord, Decisions, Study};
use crate::{WrittenStack, WrittenWorkload};

/// What a cell takes besides its measurement where nothing is known yet: the median of a guest with a nested file system on an
/// emulated host of two cores without KVM, the slowest known place.
const UNKNOWN_OVERHEAD_S: f64 = 15.0;
/// The same where a machine is beside another, or a guest in it: two or three are emulated at once. Measured: 29 min in the 44 cells of
/// `docs/results/virtual-nas`.
const UNKNOWN_OVERHEAD_BESIDE_S: f64 = 40.0;
/// The same of a load that has no end of its own.
const UNKNOWN_LOAD_S: f64 = 30.0;
/// A run with its histograms in the file of results; measured: 40 to 150 KB.
const RUN_BYTES: u64 = 150_000;
/// Booting an emulated host and the first guest in it, on the same machine.
const FIRST_BOOT_S: f64 = 40.0;

/// A cell that was measured before.
#[derive(Clone, Debug, PartialEq)]
pub struct PastCell {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Seconds the whole cell took.
    pub cell_s: f64,
    /// Of them, seconds in which the load ran.
    pub load_s: f64,
    /// How long the load ran in the clock of its machine. In virtual time that is more or less than [`Self::load_s`].
    pub measured_s: f64,
}

impl PastCell {
    /// What a record says of its cell; `None` if it failed.
    pub fn of(record: &CellRecord) -> Option<Self> {
        let measured_s = record.measured()?.load.elapsed_ns as f64 / 1e9;
        Some(Self {
            stack: record.stack.clone(),
            workload: record.workload.clone(),
            cell_s: record.cell_s,
            load_s: record.load_s.unwrap_or(measured_s.min(record.cell_s)),
            measured_s,
        })
    }
}

/// Estimates from past cells. The nearest that are known are taken: the same stack and workload, the same layers under
/// the same kind of workload, the same host, the same kind of workload, anything.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    overheads_s: HashMap<Key, Vec<f64>>,
    loads_s: HashMap<Key, Vec<f64>>,
    /// Real seconds for each second of the machine's clock.
    paces: HashMap<Key, Vec<f64>>,
    knows_cells: bool,
}

/// What a study will take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Cells to be run.
    pub cells: usize,
    /// Seconds of one cell after the other, with the first boot of machines.
    pub seconds: f64,
    /// Of them, seconds in which loads run.
    pub load_s: f64,
}

/// What a study will take at least and at most, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyEffort {
    /// If every comparison is settled at the first look; without a stopping rule the same as `most`.
    pub least: Effort,
    /// If none is settled before its last block. A budget may end it earlier.
    pub most: Effort,
    /// Cells that were measured before under the same name, of all.
    pub known_cells: usize,
    /// Whether any cell was measured here before.
    pub rests_on_past_cells: bool,
    /// Space for the data of the medium and the results, bytes.
    pub disk_bytes: u64,
    /// Of it, the results.
    pub results_bytes: u64,
}

impl Effort {
    /// Seconds from beginning to end if so many cells run side by side; the first boot comes before them.
    pub fn wall_s(&self, side_by_side: usize) -> f64 {
        let boot_s = FIRST_BOOT_S.min(self.seconds);
        let at_once = side_by_side.clamp(1, self.cells.max(1)) as f64;
        boot_s + (self.seconds - boot_s) / at_once
    }
}

impl StudyEffort {
    /// Space for the data of the medium: of a modelled disk, where [`work_root`](nestor_machine::agent::work_root) is.
    pub fn data_bytes(&self) -> u64 {
        self.disk_bytes.saturating_sub(self.results_bytes)
    }
}

impl Estimator {
    /// Learns from past cells.
    pub fn of(past: &[PastCell]) -> Self {
        let mut estimator = Self::default();
        for cell in past {
            estimator.learn(cell);
        }
        estimator
    }

    /// Learns from one more cell.
    pub fn learn(&mut self, cell: &PastCell) {
        self.knows_cells = true;
        for key in keys(&cell.stack, &cell.workload) {
            let overhead_s = (cell.cell_s - cell.load_s).max(0.0);
            self.overheads_s.entry(key.clone()).or_default().push(overhead_s);
            if cell.measured_s > 0.0 {
                self.paces.entry(key.clone()).or_default().push(cell.load_s / cell.measured_s);
            }
            self.loads_s.entry(key).or_default().push(cell.load_s);
        }
    }

    /// Whether this very cell was measured before.
    pub fn knows(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> bool {
        self.loads_s.contains_key(&Key::Exact(stack.clone(), workload.clone()))
    }

    /// Seconds that a cell will take, and how many of them its load runs.
    pub fn cell_s(&self, stack: &WrittenStack, workload: &WrittenWorkload) -> (f64, f64) {
        let keys = keys(stack, workload);
        let median = |known: &HashMap<Key, Vec<f64>>, keys: &[Key]| {
            keys.iter().find_map(|key| nestor_statistics::median(known.get(key)?))
        };
        let overhead_s = median(&self.overheads_s, &keys).unwrap_or_else(|| unknown_overhead_s(stack));
        // How long another workload ran says nothing of this one; its own limit does, at the pace of the machine's clock.
        let limit_s = || Some(time_limit_s(workload)? * median(&self.paces, &keys).unwrap_or(1.0));
        let load_s = median(&self.loads_s, &keys[..2])
            .or_else(limit_s)
            .or_else(|| median(&self.loads_s, &keys[2..]))
            .unwrap_or(UNKNOWN_LOAD_S);
        (overhead_s + load_s, load_s)
    }

    /// What cells will take together.
    pub fn effort<'a>(&self, cells: impl IntoIterator<Item = &'a CellKey>) -> Effort {
        let mut effort = Effort { cells: 0, seconds: FIRST_BOOT_S, load_s: 0.0 };
        for cell in cells {
            let (seconds, load_s) = self.cell_s(&cell.stack, &cell.workload);
            effort.cells += 1;
            effort.seconds += seconds;
            effort.load_s += load_s;
        }
        effort
    }

    /// What one cell will take, as a duration.
    pub fn cell(&self, cell: &CellKey) -> Duration {
        Duration::from_secs_f64(self.cell_s(&cell.stack, &cell.workload).0)
    }

    /// Whether anything was measured here before.
    pub fn knows_anything(&self) -> bool {
        self.knows_cells
    }
}

impl Study {
    /// What is left of the study will take: `finished` tells what has run, `decisions` what is settled.
    pub fn effort(
        &self,
        estimator: &Estimator,
        sentinels: bool,
        decisions: &Decisions,
        finished: &dyn Fn(&CellKey) -> bool,
    ) -> StudyEffort {
        let left = |blocks: u32| -> Vec<CellKey> {
            let cells = (0..blocks).flat_map(|block| self.block_cells(block, sentinels, decisions));
            cells.filter(|cell| !finished(cell)).collect()
        };
        let most = left(self.most_blocks());
        let first_look = self.stop.as_ref().and_then(|rule| rule.looks.first().copied());
        let least = left(first_look.unwrap_or(u32::MAX).min(self.most_blocks()));
        let results_bytes = (most.len() as u64).saturating_mul(RUN_BYTES);
        let known = most.iter().filter(|c| estimator.knows(&c.stack, &c.workload)).count();
        StudyEffort {
            least: estimator.effort(&least),
            most: estimator.effort(&most),
            known_cells: known,
            rests_on_past_cells: estimator.knows_anything(),
            disk_bytes: self.data_bytes().saturating_add(results_bytes),
            results_bytes,
        }
    }

    /// The largest data set, twice for what file systems and image formats add: a medium is emptied between cells.
    fn data_bytes(&self) -> u64 {
        let data = self.workloads.iter().filter_map(WrittenWorkload::value).map(|w| w.data_set().bytes);
        data.max().unwrap_or(0).saturating_mul(2)
    }
}

/// What a cell takes besides its measurement where nothing is known.
fn unknown_overhead_s(stack: &WrittenStack) -> f64 {
    let is_beside = |stack: &Stack| stack.layers().iter().any(|layer| layer.link().is_some());
    if stack.value().is_some_and(is_beside) { UNKNOWN_OVERHEAD_BESIDE_S } else { UNKNOWN_OVERHEAD_S }
}

/// What a cell's time is kept under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The very cell.
    Exact(WrittenStack, WrittenWorkload),
    /// The same layers, whatever their options, under the same kind of workload.
    Layers(Layers, LoadKind),
    /// The same layers below the virtual machine, whatever is in it, under the same kind of workload; without one, all layers.
    Host(Vec<&'static str>, LoadKind),
    /// The same kind of workload.
    Workload(LoadKind),
    /// Any cell.
    Any,
}

/// The layers of a stack by their names; one that this version does not know is only itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Layers {
    Known(Vec<&'static str>),
    Unknown(WrittenStack),
}

/// The engine and the case of a workload; one that this version does not know is only itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LoadKind {
    Known(&'static str, &'static str),
    Unknown(WrittenWorkload),
}

/// The keys of a cell, the most particular first.
fn keys(stack: &WrittenStack, workload: &WrittenWorkload) -> [Key; 5] {
    let kind = match workload.value() {
        Some(value) => LoadKind::Known(value.engine().name(), value.case()),
        None => LoadKind::Unknown(workload.clone()),
    };
    let (layers, host) = match stack.value() {
        Some(stack) => {
            let names = |layers: &[Layer]| -> Vec<&'static str> { layers.iter().map(Layer::name).collect() };
            let anatomy = stack.anatomy();
            let has_host = anatomy.virtual_machine.is_some();
            let mut host = names(if has_host { anatomy.below } else { anatomy.above });
            host.push(anatomy.medium.name());
            (Layers::Known(names(stack.layers())), host)
        }
        None => (Layers::Unknown(stack.clone()), Vec::new()),
    };
    [
        Key::Exact(stack.clone(), workload.clone()),
        Key::Layers(layers, kind.clone()),
        Key::Host(host, kind.clone()),
        Key::Workload(kind),
        Key::Any,
    ]
}

/// The workload's own limit of time, where it has one.
fn time_limit_s(workload: &WrittenWorkload) -> Option<f64> {
    Some(workload.value()?.time_limit_s()? as f64)
}
