//! Lives of instances in a results file, as the numbers that advice is made of.

use std::collections::BTreeMap;
use std::fmt;

use nestor_results::{InstanceLife, LifeState, Resource, StateRecord, StoredRun, TraceMode};
use nestor_stack::{BitRate, Layer, Stack};
use nestor_workload::Workload;
use serde::Serialize;

use super::Way;

/// The option of a layer or a workload that says how much there is of it.
const SIZE: &str = "size";

/// Stands for the way in the notation of a [`Setup`].
const WAY: &str = "WAY";

/// The life of one instance that was alone.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedLife {
    /// The run.
    pub run: i64,
    /// How its image came.
    pub way: Way,
    /// What else there was.
    pub setup: Setup,
    /// The rate of its link.
    pub link_rate: BitRate,
    /// The stack, to measure others like it.
    pub stack: Stack,
    /// Length of the image's file at the repository.
    pub image_bytes: u64,
    /// The transfer.
    pub transfer: Taken,
    /// All other states.
    pub rest: Taken,
    /// What it read of its image; `None` if nothing ran in it, or something that ends by the clock.
    pub reads: Option<Reads>,
}

/// What something took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Seconds.
    pub seconds: f64,
    /// Seconds in which each resource was busy: its service demand (Denning and Buzen, ACM Comput. Surv. 10, 1978). Only those that were
    /// counted.
    pub demand_s: BTreeMap<Resource, f64>,
}

/// What an instance reads of its image.
#[derive(Clone, Debug, PartialEq)]
pub struct Reads {
    /// The workload in it, without its size.
    pub pattern: String,
    /// Its working set.
    pub bytes: u64,
}

/// What lives have to have in common to be compared: the stack but for the way, the size of the image and the rate of the link, and how
/// much was recorded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Setup {
    /// In the notation of stacks, `WAY` standing for the way.
    pub stack: String,
    /// What was recorded.
    pub trace: TraceMode,
}

impl Setup {
    fn of(stack: &Stack, trace: TraceMode) -> Option<Self> {
        let image = stack.sourced_image()?;
        let written = |(at, layer): (_, &Layer)| if at == image { WAY.to_owned() } else { layer.to_string() };
        let main: Vec<String> = stack.indexed_layers().map(written).collect();
        let bare = |layer: &Layer| match (layer.link(), layer.image_format()) {
            (Some(_), _) => layer.clone().without("rate").to_string(),
            (None, Some(_)) => layer.clone().without(SIZE).to_string(),
            (None, None) => layer.to_string(),
        };
        let source: Vec<String> = stack.source().iter().map(bare).collect();
        Some(Self { stack: format!("{}//{}", main.join("/"), source.join("/")), trace })
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (--trace {})", self.stack, self.trace)
    }
}

impl Taken {
    fn of<'a>(states: impl Iterator<Item = &'a StateRecord>) -> Self {
        let mut taken = Self::default();
        for state in states {
            let seconds = state.duration_ns() as f64 / 1e9;
            taken.seconds += seconds;
            for (resource, share) in state.busy_shares() {
                *taken.demand_s.entry(resource).or_default() += share * seconds;
            }
        }
        taken
    }
}

impl Reads {
    fn of(workload: &Workload, working_set_bytes: u64) -> Option<Self> {
        let inner = workload.life()?.run?;
        if working_set_bytes == 0 || inner.time_limit_s().is_some() {
            return None;
        }
        let mut pattern = format!("{}:{}", inner.engine().about().name, inner.case());
        let others = inner.engine().options().iter().filter(|option| option.name != SIZE);
        for (name, value) in others.filter_map(|option| Some((option.name, inner.given(option.name)?))) {
            pattern.push_str(&format!(":{name}={value}"));
        }
        Some(Self { pattern, bytes: working_set_bytes })
    }
}

/// The life of a run's only instance; `None` for runs that count for nothing (failures, untraced repeats, those that violate an identity)
/// and for several instances, which wait for one another.
pub fn observed_life(run: &StoredRun) -> Option<ObservedLife> {
    let record = &run.record;
    if record.untraced_twin || record.violates_an_identity() {
        return None;
    }
    let measured = record.measured()?;
    let [life]: &[InstanceLife; 1] = measured.lives.as_slice().try_into().ok()?;
    let stack = record.stack.value()?;
    life.state(LifeState::Transfer).filter(|_| life.image_bytes > 0)?;
    let of = |is_transfer: bool| {
        Taken::of(life.states.iter().filter(|state| (state.state == LifeState::Transfer) == is_transfer))
    };
    Some(ObservedLife {
        run: run.number,
        way: Way::of(stack)?,
        setup: Setup::of(stack, record.trace)?,
        link_rate: stack.source().first()?.link()?.rate,
        stack: stack.clone(),
        image_bytes: life.image_bytes,
        transfer: of(true),
        rest: of(false),
        reads: Reads::of(record.workload.value()?, measured.load.working_set_bytes),
    })
}
