//! What is asked, and what is known.

use std::collections::{BTreeMap, BTreeSet};

use nestor_results::{KnownStack, StackPart, WrittenStack, WrittenWorkload};
use nestor_statistics::prediction::TargetMachine;
use nestor_statistics::surface::{GridPoint, Surface};
use serde::{Deserialize, Serialize};

use crate::mechanism::{Demand, Machine};

/// What a load asks for, independent of where it runs.
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
    /// Workers that each have one request at a time; 0 if not known.
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

    /// The mean of several; sizes, workers and think time of the first. `None` without any.
    pub fn mean(shapes: &[&Self]) -> Option<Self> {
        let mean_of =
            |value: fn(&Self) -> f64| shapes.iter().map(|s| value(s)).sum::<f64>() / shapes.len() as f64;
        Some(Self {
            read_share: mean_of(|s| s.read_share),
            random_share: mean_of(|s| s.random_share),
            mean_bytes: mean_of(|s| s.mean_bytes),
            flush_share: mean_of(|s| s.flush_share),
            outstanding: mean_of(|s| s.outstanding),
            ..(*shapes.first()?).clone()
        })
    }

    /// Customers that go round: the workers, or as many as are under way.
    pub fn customers(&self) -> u32 {
        if self.workers > 0 { self.workers } else { (self.outstanding.round() as u32).max(1) }
    }
}

/// A load that was measured on a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredLoad {
    /// The stack.
    pub stack: WrittenStack,
    /// The load. One that was only observed has no notation, but its profile's name.
    pub load: WrittenWorkload,
    /// What it reached, geometric mean of its runs: bytes per second, or operations where nothing is moved.
    pub rate: f64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Mean time of an operation in seconds, if it is known.
    pub response_s: Option<f64>,
    /// Requests of the block layer per second, if any were seen: an operation may be several, or none. Operations otherwise.
    pub requests_per_s: f64,
    /// Mean time of a request in seconds, if it is known.
    pub request_s: Option<f64>,
    /// What it asked for there, if requests were seen.
    pub shape: Option<Shape>,
    /// What an operation asked of each layer, if all of that was recorded.
    pub demand: Option<Demand>,
    /// The runs, by number.
    pub runs: Vec<i64>,
    /// Operations per second of each run.
    pub run_rates: Vec<f64>,
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
        Surface::fit(&self.rates)
    }
}

/// Everything that was measured at one place.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// That place, as `--on` names it in commands that measure more; `None`: the usual one, which needs no name.
    pub on: Option<String>,
    /// Loads on stacks, each pair once.
    pub cells: Vec<MeasuredLoad>,
    /// The loads' shapes.
    pub shapes: BTreeMap<WrittenWorkload, Shape>,
    /// The loads' families: `fio`, `fileserver`.
    pub families: BTreeMap<WrittenWorkload, String>,
    /// The stacks' parts.
    pub stacks: BTreeMap<WrittenStack, KnownStack>,
    /// What runs the application on the stacks.
    pub machines: BTreeMap<WrittenStack, Machine>,
    /// Surfaces, by stack.
    pub points: BTreeMap<WrittenStack, Points>,
}

impl Evidence {
    /// A command that measures something at this place: `nestor run --on this` with what follows.
    pub fn command(&self, what: &str, rest: &str) -> String {
        match &self.on {
            Some(on) => format!("nestor {what} --on {on} {rest}"),
            None => format!("nestor {what} {rest}"),
        }
    }

    /// A load on a stack, if it was measured there.
    pub fn cell(&self, stack: &WrittenStack, load: &WrittenWorkload) -> Option<&MeasuredLoad> {
        self.cells.iter().find(|cell| cell.stack == *stack && cell.load == *load)
    }

    /// Without a load on a stack: as before it was measured. What loads ask for is then only what the others have shown.
    #[must_use]
    pub fn without(&self, hidden: impl Fn(&MeasuredLoad) -> bool) -> Self {
        let (gone, cells): (Vec<MeasuredLoad>, Vec<MeasuredLoad>) =
            self.cells.iter().cloned().partition(hidden);
        let mut shapes = self.shapes.clone();
        let loads: BTreeSet<&WrittenWorkload> = gone.iter().map(|cell| &cell.load).collect();
        for load in loads {
            let seen = cells.iter().filter(|cell| cell.load == *load).filter_map(|cell| cell.shape.as_ref());
            if let Some(shape) = Shape::mean(&seen.collect::<Vec<_>>()) {
                shapes.insert(load.clone(), shape);
            }
        }
        Self { cells, shapes, ..self.clone() }
    }

    /// Amounts of a stack, such as its memory, that no measured stack has: the part, the nearest amount that was measured, and how
    /// many times two they are apart.
    pub fn amounts_apart(&self, stack: &WrittenStack) -> Vec<(StackPart, f64, f64)> {
        let Some(asked) = self.stacks.get(stack) else { return Vec::new() };
        let measured = self.measured_stacks();
        let substitute = |(part, value): (&StackPart, &String)| {
            let wanted = amount(value)?;
            let known = measured.iter().filter_map(|known| amount(known.get(part)?));
            let each = known.map(|known| (known, (known / wanted).log2().abs()));
            let (nearest, apart) = each.min_by(|a, b| a.1.total_cmp(&b.1))?;
            (apart > 0.0).then_some((*part, nearest, apart))
        };
        asked.iter().filter_map(substitute).collect()
    }

    /// What runs the application on a stack; where nothing is known of it, a virtual machine.
    pub(crate) fn machine(&self, stack: &WrittenStack) -> Machine {
        self.machines.get(stack).copied().unwrap_or(Machine { is_virtual: true, ..Machine::default() })
    }

    /// What the stacks are made of on which anything was measured.
    pub(crate) fn measured_stacks(&self) -> Vec<&KnownStack> {
        let measured: BTreeSet<&WrittenStack> = self.cells.iter().map(|cell| &cell.stack).collect();
        measured.iter().filter_map(|stack| self.stacks.get(*stack)).collect()
    }

    /// How many parts two stacks have in common.
    pub(crate) fn shared_parts(&self, a: &WrittenStack, b: &WrittenStack) -> usize {
        let both = self.stacks.get(a).zip(self.stacks.get(b));
        both.map_or(0, |(a, b)| a.iter().filter(|(part, value)| b.get(*part) == Some(value)).count())
    }

    /// The measured stack with which the others have most in common: where a probe of a new load tells most.
    pub fn most_typical(&self) -> Option<&WrittenStack> {
        let measured: BTreeSet<&WrittenStack> = self.cells.iter().map(|cell| &cell.stack).collect();
        let shared = |stack: &WrittenStack| {
            measured.iter().map(|other| self.shared_parts(stack, other)).sum::<usize>()
        };
        measured.iter().copied().max_by_key(|stack| shared(stack))
    }

    /// Of the stacks on which a load was measured the one most like the target: with most parts in common, then with most loads.
    pub fn most_alike(&self, load: &WrittenWorkload, to: &WrittenStack) -> Option<&WrittenStack> {
        let alike = |stack: &WrittenStack| self.shared_parts(stack, to);
        let mut loads: BTreeMap<&WrittenStack, usize> = BTreeMap::new();
        self.cells.iter().for_each(|cell| *loads.entry(&cell.stack).or_default() += 1);
        let known = self.cells.iter().filter(|cell| cell.load == *load && cell.stack != *to);
        let stacks: BTreeSet<&WrittenStack> = known.map(|cell| &cell.stack).collect();
        stacks.into_iter().max_by_key(|stack| (alike(stack), loads.get(stack).copied()))
    }

    /// Parts of a stack that no measured stack has, so that their effect is not known, each with its value.
    pub fn never_measured(&self, stack: &WrittenStack) -> Vec<(StackPart, String)> {
        let Some(asked) = self.stacks.get(stack) else { return Vec::new() };
        let measured = self.measured_stacks();
        let is_new = |(part, value): &(&StackPart, &String)| {
            let known = || measured.iter().filter_map(|known| known.get(*part));
            let is_amount = amount(value).is_some() && known().any(|value| amount(value).is_some());
            !is_amount && !known().any(|known| known == *value)
        };
        asked.iter().filter(is_new).map(|(part, value)| (*part, value.clone())).collect()
    }
}

/// A part that is so much of something: bytes.
pub(crate) fn amount(value: &str) -> Option<f64> {
    value.parse().ok().filter(|amount| *amount >= 1.0)
}

/// What is known of the load where it runs now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// What it reaches there, in the unit that the answer is to have.
    pub rate: f64,
    /// Requests per second there.
    pub requests_per_s: f64,
    /// Mean time of a request there, in seconds; 0 if not known.
    pub response_s: f64,
    /// Processors that it keeps busy itself there; 0 if not known.
    pub processors_busy: f64,
}

impl Reference {
    /// A load as it was measured.
    pub fn of(cell: &MeasuredLoad) -> Self {
        let response_s = cell.request_s.or(cell.response_s);
        Self {
            rate: cell.rate,
            requests_per_s: cell.requests_per_s,
            response_s: response_s.unwrap_or_default(),
            // What the host does for it is not what it does itself.
            processors_busy: 0.0,
        }
    }
}

/// What is asked: what a load will reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The load; one that was only observed by its profile's name.
    pub load: WrittenWorkload,
    /// Its shape.
    pub shape: Shape,
    /// A synthetic load that behaves alike, if there is one.
    pub model: Option<WrittenWorkload>,
    /// Workers of that load, which has a limit; 0 without one.
    pub model_workers: u32,
    /// Where it runs now.
    pub from: WrittenStack,
    /// What it reaches there.
    pub reference: Reference,
    /// Where it is to go.
    pub to: WrittenStack,
    /// Processors that it has there; 0 if not known.
    pub processors: u32,
    /// What computing takes there, relative to where it runs now. The study's corrections made its own two predictions worse
    /// (acceptance row A-48), so both are the same unless an option says otherwise.
    pub machine: TargetMachine,
}

impl Question {
    /// Milliseconds that a worker's operation takes at a rate.
    pub(crate) fn pass_ms(&self, rate: f64) -> f64 {
        let requests_per_s = self.reference.requests_per_s * rate / self.reference.rate;
        f64::from(self.shape.customers()) / requests_per_s * 1e3
    }

    /// Requests of so many seconds at a rate: as many for each operation as where it ran before.
    pub(crate) fn requests(&self, rate: f64, seconds: f64) -> f64 {
        rate * seconds * self.reference.requests_per_s / self.reference.rate
    }
}
