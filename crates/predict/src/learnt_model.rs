//! The learnt model of a store: stacks and loads as numbers, and weights that are kept between questions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nestor_results::{StackPart, WrittenStack, WrittenWorkload};
use nestor_statistics::prediction::LearntRate;
use nestor_statistics::prediction::learnt::{Cell, Subject, Weights};
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Shape};
use crate::hiding::{dealt, probes};
use crate::mechanism::{Mechanical, MechanismModel, TermWeights};
use crate::numbers::{Numbers, Sample};
use crate::scaled::{Manner, ScaledModel, weights_of};
use crate::trust::{ByLearner, Guess, Guesses, Learner, Trial, Trust};

/// Fewer teach nothing.
pub const FEWEST_CELLS: usize = 8;
/// Parts into which stacks, and families of loads, are dealt to see how sure the model may be.
const PARTS: usize = 5;
/// Cells of a part that are asked for at most: more take longer and tell the same.
const MOST_ASKED: usize = 400;
/// Loads that are known of a stack of which something is known.
const STAY: usize = 2;
/// How rates are learnt.
const RATES: Manner =
    Manner { loads: Subject::RATES.loads, searched: Subject::RATES.searched, counted: None };
/// The order in which cells are left out where there are too many.
const SEED: u64 = 1;

/// Weights with what they are of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptWeights {
    /// The parts of stacks that differ, in the weights' order.
    pub parts: Vec<StackPart>,
    /// How many cells they were fitted to.
    pub cells: usize,
    /// Of them, those with a known demand.
    pub demands: usize,
    /// The weights of rates.
    pub rates: Weights,
    /// Those of the terms of demands; none with too few cells of which they are known.
    pub mechanisms: Option<TermWeights>,
    /// For a load that is known from several stacks, on a stack of which nothing is known.
    pub known_loads: Trust,
    /// The same on a stack of which other loads are known.
    pub known_stacks: Trust,
    /// For a load that was seen on one stack only: what others do to it is not known from itself.
    pub new_loads: Trust,
}

/// How stacks and loads are numbered, and what counts how much.
#[derive(Clone, Default)]
pub struct Knowledge {
    kept: Option<KeptWeights>,
    /// Models of one evidence, made once for many questions about it.
    ready: Option<Arc<Models>>,
}

/// What is expected of a load on a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// From rates.
    pub rates: LearntRate,
    /// From mechanisms, where demands are known.
    pub mechanisms: Option<Mechanical>,
    /// The rate on the stack most like it.
    pub alike: Option<f64>,
    /// How far to trust them.
    pub trust: Trust,
}

/// Models of cells.
struct Models {
    rates: ScaledModel,
    mechanisms: Option<MechanismModel>,
    /// On which stacks each load was measured.
    told: BTreeMap<u32, BTreeSet<u32>>,
}

impl Models {
    fn of(kept: &Weighed<'_>, samples: &[Sample<'_>], asked: &[&Cell]) -> Option<Self> {
        let mut told: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        samples.iter().for_each(|sample| {
            told.entry(sample.cell.load).or_default().insert(sample.cell.stack);
        });
        let rates = ScaledModel::of(kept.rates, &rated(samples), RATES, asked)?;
        let mechanisms = kept.mechanisms.and_then(|weights| MechanismModel::of(weights, samples, asked));
        Some(Self { rates, mechanisms, told })
    }

    /// What is expected of a cell, of which the rate and the demand are not looked at. A load that was measured nowhere has no unit of its
    /// own yet.
    fn expected(&self, asked: &Sample<'_>, trust: Trust, alike: Option<f64>) -> Option<Expected> {
        self.told.get(&asked.cell.load)?;
        let by_mechanisms = |model: &MechanismModel| model.expected(&asked.cell, asked.shape, asked.machine);
        Some(Expected {
            rates: self.rates.expected(&asked.cell),
            mechanisms: self.mechanisms.as_ref().and_then(by_mechanisms),
            alike,
            trust,
        })
    }
}

/// Weights of both kinds of model.
struct Weighed<'a> {
    rates: &'a Weights,
    mechanisms: Option<&'a TermWeights>,
}

impl KeptWeights {
    fn weighed(&self) -> Weighed<'_> {
        Weighed { rates: &self.rates, mechanisms: self.mechanisms.as_ref() }
    }
}

fn rated(samples: &[Sample<'_>]) -> Vec<(Cell, f64)> {
    samples.iter().map(|sample| (sample.cell.clone(), sample.rate)).collect()
}

impl Knowledge {
    /// With weights that were fitted before, if they are of the same parts and of about as many cells.
    pub fn with(kept: KeptWeights, evidence: &Evidence) -> Option<Self> {
        let numbers = Numbers::of(evidence);
        let same = kept.parts == numbers.parts;
        // A fifth more tells weights hardly anything new.
        let as_many = |before: usize, now: usize| before.max(now) * 5 <= before.min(now) * 6;
        let fits =
            same && as_many(kept.cells, evidence.cells.len()) && as_many(kept.demands, demands(evidence));
        fits.then_some(Self { kept: Some(kept), ready: None })
    }

    /// Fits weights; knows nothing where there are too few cells.
    pub fn fit(evidence: &Evidence) -> Self {
        let numbers = Numbers::of(evidence);
        let samples = numbers.samples(evidence);
        let kept = weights_of(&rated(&samples), RATES).map(|rates| {
            let mechanisms = TermWeights::of(&samples);
            let weighed = Weighed { rates: &rates, mechanisms: mechanisms.as_ref() };
            let trust = |parts: &[BTreeSet<usize>]| Trust::of(&trials(&weighed, &samples, parts));
            KeptWeights {
                parts: numbers.parts.clone(),
                cells: evidence.cells.len(),
                demands: demands(evidence),
                known_loads: trust(&hidden_stacks(&samples, 0)),
                known_stacks: trust(&hidden_stacks(&samples, STAY)),
                new_loads: trust(&hidden_families(&samples, &numbers.families(evidence))),
                rates,
                mechanisms,
            }
        });
        Self { kept, ready: None }
    }

    /// The weights, to keep them.
    pub fn kept(&self) -> Option<&KeptWeights> {
        self.kept.as_ref()
    }

    /// With models of this evidence for questions about these cells, so that they are made once and not for each question. It answers
    /// questions about no other evidence.
    #[must_use]
    pub fn ready(&self, evidence: &Evidence, asked: &[(&WrittenStack, &WrittenWorkload)]) -> Self {
        let numbers = Numbers::of(evidence);
        let cells: Vec<Cell> = asked
            .iter()
            .filter_map(|(stack, load)| numbers.cell(evidence, stack, load, evidence.shapes.get(*load)?, 1))
            .collect();
        let models = self.models(evidence, &numbers, &cells.iter().collect::<Vec<_>>());
        Self { kept: self.kept.clone(), ready: models.map(Arc::new) }
    }

    /// The same unless it already has models.
    pub(crate) fn made_ready(
        &self,
        evidence: &Evidence,
        asked: &[(&WrittenStack, &WrittenWorkload)],
    ) -> Self {
        if self.ready.is_some() { self.clone() } else { self.ready(evidence, asked) }
    }

    fn models(&self, evidence: &Evidence, numbers: &Numbers<'_>, asked: &[&Cell]) -> Option<Models> {
        let kept = self.kept.as_ref()?;
        let same = kept.parts == numbers.parts;
        same.then(|| Models::of(&kept.weighed(), &numbers.samples(evidence), asked)).flatten()
    }

    /// What is expected of a load on a stack; `None` if the store knows the load or the stack's parts not at all.
    pub fn expected(
        &self,
        evidence: &Evidence,
        stack: &WrittenStack,
        load: &WrittenWorkload,
        shape: &Shape,
    ) -> Option<Expected> {
        let kept = self.kept.as_ref()?;
        let numbers = Numbers::of(evidence);
        let cell = numbers.cell(evidence, stack, load, shape, 1)?;
        let made;
        let models: &Models = match &self.ready {
            Some(ready) => ready,
            None => {
                made = self.models(evidence, &numbers, &[&cell])?;
                &made
            }
        };
        let stacks = models.told.get(&cell.load)?.len();
        let is_known = evidence.cells.iter().any(|known| known.stack == *stack);
        let trust = match stacks {
            0 | 1 => kept.new_loads,
            _ if is_known => kept.known_stacks,
            _ => kept.known_loads,
        };
        let alike = evidence.most_alike(load, stack).and_then(|alike| evidence.cell(alike, load));
        let machine = evidence.machine(stack);
        let sample = Sample { cell, rate: 0.0, demand: None, shape, machine };
        models.expected(&sample, trust, alike.map(|alike| alike.rate))
    }
}

fn demands(evidence: &Evidence) -> usize {
    evidence.cells.iter().filter(|cell| cell.demand.is_some()).count()
}

impl Expected {
    /// What each learner says.
    fn guesses(&self) -> Guesses {
        ByLearner::of(|learner| match learner {
            Learner::Mechanisms => {
                self.mechanisms.as_ref().map(|found| Guess { log: found.log, deviation: found.deviation })
            }
            Learner::Rates => Some(Guess {
                log: self.rates.rate.ln(),
                deviation: self.rates.interval.deviation_of_logarithm(),
            }),
            Learner::Alike => Trust::of_alike(self.alike?),
        })
    }

    /// What a learner says, with the deviation that it deserves.
    pub(crate) fn alone(&self, learner: Learner) -> Option<Guess> {
        self.guesses()[learner].map(|guess| self.trust.alone(learner, guess))
    }

    /// What each learner counts in what all say together.
    pub(crate) fn counted(&self) -> ByLearner<f64> {
        self.trust.counted(&self.guesses())
    }

    /// What all say together.
    pub(crate) fn together(&self) -> Option<Guess> {
        self.trust.together(&self.guesses())
    }
}

/// Each part of the cells, by their places, predicted by the others.
fn trials(weighed: &Weighed<'_>, samples: &[Sample<'_>], parts: &[BTreeSet<usize>]) -> Vec<Trial> {
    let mut found = Vec::new();
    for hidden in parts {
        let known = samples.iter().enumerate().filter(|(place, _)| !hidden.contains(place));
        let known: Vec<Sample<'_>> = known.map(|(_, sample)| sample.clone()).collect();
        let asked: Vec<&Sample<'_>> = hidden.iter().map(|place| &samples[*place]).take(MOST_ASKED).collect();
        let cells: Vec<&Cell> = asked.iter().map(|sample| &sample.cell).collect();
        let Some(models) = Models::of(weighed, &known, &cells) else { continue };
        let loads = cells_of_stacks(&known);
        let of_sample = |sample: &&Sample<'_>| {
            let expected = models.expected(sample, Trust::default(), alike(&known, &loads, &sample.cell))?;
            Some(Trial { truth: sample.rate.ln(), guesses: expected.guesses() })
        };
        found.extend(asked.iter().filter_map(of_sample));
    }
    found
}

/// The rate of a load on the known stack that has most in common with the cell's, and of equals most loads.
fn alike(known: &[Sample<'_>], loads: &BTreeMap<u32, usize>, asked: &Cell) -> Option<f64> {
    let shared = |cell: &Cell| cell.aspects.iter().zip(&asked.aspects).filter(|(a, b)| a == b).count();
    let of_load = known.iter().filter(|sample| sample.cell.load == asked.load);
    of_load
        .max_by_key(|sample| (shared(&sample.cell), loads.get(&sample.cell.stack)))
        .map(|sample| sample.rate)
}

/// How many cells each stack has.
fn cells_of_stacks(known: &[Sample<'_>]) -> BTreeMap<u32, usize> {
    let mut loads = BTreeMap::new();
    known.iter().for_each(|sample| *loads.entry(sample.cell.stack).or_default() += 1);
    loads
}

/// Whole stacks, but for so many loads of each that stay: those that were measured on most stacks.
fn hidden_stacks(samples: &[Sample<'_>], stay: usize) -> Vec<BTreeSet<usize>> {
    let mut stacks: BTreeMap<u32, usize> = BTreeMap::new();
    samples.iter().for_each(|sample| *stacks.entry(sample.cell.load).or_default() += 1);
    let mut loads: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    samples.iter().for_each(|sample| loads.entry(sample.cell.stack).or_default().push(sample.cell.load));
    let all: BTreeSet<u32> = loads.keys().copied().collect();
    let staying = |(stack, mut loads): (u32, Vec<u32>)| {
        loads.sort_by_key(|load| std::cmp::Reverse(stacks[load]));
        (stack, loads.into_iter().take(stay).collect())
    };
    let stay: BTreeMap<u32, BTreeSet<u32>> = loads.into_iter().map(staying).collect();
    let groups = dealt(all, PARTS, SEED);
    let places_of = |stacks: &BTreeSet<u32>| {
        places(samples, |cell| stacks.contains(&cell.stack) && !stay[&cell.stack].contains(&cell.load))
    };
    groups.iter().map(places_of).collect()
}

/// Whole families of loads, but one probe of each.
fn hidden_families(samples: &[Sample<'_>], families: &BTreeMap<u32, u32>) -> Vec<BTreeSet<usize>> {
    let aspects: BTreeMap<u32, &[u32]> =
        samples.iter().map(|sample| (sample.cell.stack, &sample.cell.aspects[..])).collect();
    let shared = |a: u32, b: u32| aspects[&a].iter().zip(aspects[&b]).filter(|(a, b)| a == b).count();
    let probes = probes(samples.iter().map(|sample| (sample.cell.stack, sample.cell.load)), shared);
    let groups = dealt(families.values().copied().collect(), PARTS, SEED);
    let places_of = |group: &BTreeSet<u32>| {
        places(samples, |cell| probes[&cell.load] != cell.stack && group.contains(&families[&cell.load]))
    };
    groups.iter().map(places_of).collect()
}

/// The places of cells.
fn places(samples: &[Sample<'_>], is_meant: impl Fn(&Cell) -> bool) -> BTreeSet<usize> {
    let meant = samples.iter().enumerate().filter(|(_, sample)| is_meant(&sample.cell));
    meant.map(|(place, _)| place).collect()
}
