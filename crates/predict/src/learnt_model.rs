//! The learnt model of a store: stacks and loads as numbers, and weights that are kept between questions.

use std::collections::{BTreeMap, BTreeSet};

use nestor_statistics::Interval;
use nestor_statistics::prediction::learnt::{Cell, Weights};
use nestor_statistics::prediction::{Learnt, LearntRate};
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, MeasuredLoad, Shape, amount};
use crate::hiding::{dealt, homes};

/// Fewer teach nothing.
pub const FEWEST_CELLS: usize = 8;
/// Parts into which stacks, and families of loads, are dealt to see how sure the model may be.
const PARTS: usize = 5;
/// Cells of a part that are asked for at most: more take longer and tell the same.
const MOST_ASKED: usize = 400;
/// An interval is not made wider than so many times.
const WIDEST: f64 = 4.0;
/// The order in which cells are left out where there are too many.
const SEED: u64 = 1;

/// Weights with what they are of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptWeights {
    /// The parts of stacks that differ, in the weights' order.
    pub parts: Vec<String>,
    /// How many cells they were fitted to.
    pub cells: usize,
    /// The weights.
    pub weights: Weights,
    /// By how much intervals are wider than the model says, because it was surer of what was hidden than it should have been.
    pub widening: Widening,
}

/// How many times wider, at least once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Widening {
    /// For a load that is known from several stacks.
    pub known_loads: f64,
    /// For a load that was seen on one stack only: what others do to it is not known from itself.
    pub new_loads: f64,
}

/// How stacks and loads are numbered, and what counts how much.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    kept: Option<KeptWeights>,
}

/// Numbers of stacks, loads and the values of parts.
struct Numbers<'a> {
    parts: Vec<&'a str>,
    values: BTreeMap<(&'a str, &'a str), u32>,
    stacks: BTreeMap<&'a str, u32>,
    loads: BTreeMap<&'a str, u32>,
}

impl Knowledge {
    /// With weights that were fitted before, if they are of the same parts and of about as many cells.
    pub fn with(kept: KeptWeights, evidence: &Evidence) -> Option<Self> {
        let numbers = Numbers::of(evidence);
        let same = kept.parts.iter().map(String::as_str).eq(numbers.parts.iter().copied());
        let (fewer, more) = (kept.cells.min(evidence.cells.len()), kept.cells.max(evidence.cells.len()));
        // A fifth more tells weights hardly anything new.
        (same && more * 5 <= fewer * 6).then_some(Self { kept: Some(kept) })
    }

    /// Fits weights; knows nothing where there are too few cells.
    pub fn fit(evidence: &Evidence) -> Self {
        let numbers = Numbers::of(evidence);
        let cells = numbers.cells(evidence, evidence.cells.iter());
        let kept = Learnt::fit(&cells, SEED).map(|model| KeptWeights {
            parts: numbers.parts.iter().map(ToString::to_string).collect(),
            cells: cells.len(),
            widening: Widening {
                known_loads: widening(model.weights(), &cells, &hidden_stacks(&cells)),
                new_loads: widening(
                    model.weights(),
                    &cells,
                    &hidden_families(&cells, &numbers.families(evidence)),
                ),
            },
            weights: model.weights().clone(),
        });
        Self { kept }
    }

    /// The weights, to keep them.
    pub fn kept(&self) -> Option<&KeptWeights> {
        self.kept.as_ref()
    }

    /// What is expected of a load on a stack; `None` if the store knows the load or the stack's parts not at all.
    pub fn expected(
        &self,
        evidence: &Evidence,
        stack: &str,
        load: &str,
        shape: &Shape,
    ) -> Option<LearntRate> {
        self.expected_of(evidence, &[(stack, load, shape)]).into_iter().next().flatten()
    }

    /// The same of many cells, for which the model is made once.
    pub fn expected_of(
        &self,
        evidence: &Evidence,
        asked: &[(&str, &str, &Shape)],
    ) -> Vec<Option<LearntRate>> {
        let nothing = || vec![None; asked.len()];
        let Some(kept) = &self.kept else { return nothing() };
        let numbers = Numbers::of(evidence);
        if !kept.parts.iter().map(String::as_str).eq(numbers.parts.iter().copied()) {
            return nothing();
        }
        let cells = numbers.cells(evidence, evidence.cells.iter());
        let mut told: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        cells.iter().for_each(|(cell, _)| {
            told.entry(cell.load).or_default().insert(cell.stack);
        });
        let cell_of = |(stack, load, shape): &(&str, &str, &Shape)| {
            // A load that was measured nowhere has no unit of its own yet.
            numbers.cell(evidence, stack, load, shape, 1).filter(|cell| told.contains_key(&cell.load))
        };
        let asked: Vec<Option<Cell>> = asked.iter().map(cell_of).collect();
        let all: Vec<&Cell> = asked.iter().flatten().collect();
        let Some(model) = Learnt::with(kept.weights.clone(), &cells, &all, SEED) else { return nothing() };
        let answer = |cell: &Cell| {
            let is_new = told.get(&cell.load).is_none_or(|stacks| stacks.len() < 2);
            let times = if is_new { kept.widening.new_loads } else { kept.widening.known_loads };
            widened(model.predict(cell), times)
        };
        asked.iter().map(|cell| cell.as_ref().map(answer)).collect()
    }
}

/// The interval with its ends as many times as far from the number, in logarithms.
fn widened(found: LearntRate, times: f64) -> LearntRate {
    let away = |end: f64| found.rate * (end / found.rate).powf(times);
    LearntRate {
        rate: found.rate,
        interval: Interval { low: away(found.interval.low), high: away(found.interval.high) },
    }
}

/// By how much deviations have to be larger for nine of ten hidden cells to be within 90 %; never smaller than 1. Each part of
/// the cells, by their places, is predicted by the others.
fn widening(weights: &Weights, cells: &[(Cell, f64)], parts: &[BTreeSet<usize>]) -> f64 {
    let mut shares: Vec<f64> = Vec::new();
    for hidden in parts {
        let known = cells.iter().enumerate().filter(|(place, _)| !hidden.contains(place));
        let known: Vec<(Cell, f64)> = known.map(|(_, cell)| cell.clone()).collect();
        let told: BTreeSet<u32> = known.iter().map(|(cell, _)| cell.load).collect();
        let asked = hidden.iter().map(|place| &cells[*place]).filter(|(cell, _)| told.contains(&cell.load));
        let asked: Vec<&(Cell, f64)> = asked.take(MOST_ASKED).collect();
        let Some(model) = Learnt::with(weights.clone(), &known, &[], SEED) else { continue };
        for (cell, rate) in asked {
            let found = model.predict(cell);
            let half = (found.interval.high / found.interval.low).ln() / 2.0;
            shares.push((rate / found.rate).ln().abs() / half.max(1e-9));
        }
    }
    shares.sort_by(f64::total_cmp);
    let ninth = (shares.len() * 9).div_ceil(10).saturating_sub(1);
    shares.get(ninth).copied().unwrap_or(1.0).clamp(1.0, WIDEST)
}

/// Whole stacks.
fn hidden_stacks(cells: &[(Cell, f64)]) -> Vec<BTreeSet<usize>> {
    let groups = dealt(cells.iter().map(|(cell, _)| cell.stack).collect(), PARTS, SEED);
    groups.iter().map(|stacks| places(cells, |cell| stacks.contains(&cell.stack))).collect()
}

/// Whole families of loads, but on the one stack where they run now.
fn hidden_families(cells: &[(Cell, f64)], families: &BTreeMap<u32, u32>) -> Vec<BTreeSet<usize>> {
    let homes = homes(cells.iter().map(|(cell, _)| (cell.stack, cell.load)));
    let groups = dealt(families.values().copied().collect(), PARTS, SEED);
    let places_of = |group: &BTreeSet<u32>| {
        places(cells, |cell| homes[&cell.load] != cell.stack && group.contains(&families[&cell.load]))
    };
    groups.iter().map(places_of).collect()
}

/// The places of cells.
fn places(cells: &[(Cell, f64)], is_meant: impl Fn(&Cell) -> bool) -> BTreeSet<usize> {
    let meant = cells.iter().enumerate().filter(|(_, (cell, _))| is_meant(cell));
    meant.map(|(place, _)| place).collect()
}

impl<'a> Numbers<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        // What was measured: a stack that is only asked for changes nothing.
        let measured = evidence.measured_stacks();
        for stack in &measured {
            for (part, value) in *stack {
                values.entry(part).or_default().insert(value);
            }
        }
        // A part that some stacks lack differs from those that have it.
        let everywhere = |part: &&str| measured.iter().all(|parts| parts.contains_key(*part));
        let differing = values.iter().filter(|(part, values)| values.len() > 1 || !everywhere(part));
        let parts: Vec<&str> = differing.map(|(part, _)| *part).collect();
        let number = |(part, values): (&&'a str, &BTreeSet<&'a str>)| {
            values.iter().zip(1..).map(|(value, number)| ((*part, *value), number)).collect::<Vec<_>>()
        };
        Self {
            values: values.iter().flat_map(number).collect(),
            stacks: evidence.stacks.keys().map(String::as_str).zip(0..).collect(),
            loads: evidence.shapes.keys().map(String::as_str).zip(0..).collect(),
            parts,
        }
    }

    /// The family of each load; one that has none is a family of its own.
    fn families(&self, evidence: &Evidence) -> BTreeMap<u32, u32> {
        let mut of_name: BTreeMap<&str, u32> = BTreeMap::new();
        let mut families = BTreeMap::new();
        for (load, number) in &self.loads {
            let family = evidence.families.get(*load).map_or(*load, String::as_str);
            let next = of_name.len() as u32;
            families.insert(*number, *of_name.entry(family).or_insert(next));
        }
        families
    }

    fn cell(&self, evidence: &Evidence, stack: &str, load: &str, shape: &Shape, runs: usize) -> Option<Cell> {
        let parts = evidence.stacks.get(stack)?;
        let aspect = |part: &&str| {
            let value = parts.get(*part).map_or("", String::as_str);
            self.number(part, value)
        };
        Some(Cell {
            load: *self.loads.get(load)?,
            features: shape.features(),
            stack: *self.stacks.get(stack)?,
            aspects: self.parts.iter().map(aspect).collect(),
            runs: u32::try_from(runs).unwrap_or(u32::MAX),
        })
    }

    /// The number of a part's value; of an amount that was never measured that of the nearest one.
    fn number(&self, part: &str, value: &str) -> u32 {
        let known = self.values.get(&(part, value)).copied();
        let nearest = || {
            let wanted = amount(value)?;
            let others = self.values.iter().filter(|((of, _), _)| *of == part);
            let apart = others
                .filter_map(|((_, other), number)| Some(((amount(other)? / wanted).ln().abs(), *number)));
            apart.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, number)| number)
        };
        known.or_else(nearest).unwrap_or(0)
    }

    fn cells<'c>(
        &self,
        evidence: &Evidence,
        measured: impl Iterator<Item = &'c MeasuredLoad>,
    ) -> Vec<(Cell, f64)> {
        measured
            .filter_map(|cell| {
                let shape = evidence.shapes.get(&cell.load)?;
                Some((self.cell(evidence, &cell.stack, &cell.load, shape, cell.runs.len())?, cell.rate))
            })
            .collect()
    }
}
