//! Stacks and loads as numbers.

use std::collections::{BTreeMap, BTreeSet};

use nestor_results::{StackPart, WrittenStack, WrittenWorkload};
use nestor_statistics::prediction::learnt::Cell;

use crate::evidence::{Evidence, MeasuredLoad, Shape, amount};
use crate::mechanism::{Demand, Machine};
use crate::noise::Noise;

/// Numbers of stacks, loads and the values of parts.
pub(crate) struct Numbers<'a> {
    /// Those that differ, in the order of the learner's features.
    pub parts: Vec<StackPart>,
    values: BTreeMap<(StackPart, &'a str), u32>,
    stacks: BTreeMap<&'a WrittenStack, u32>,
    loads: BTreeMap<&'a WrittenWorkload, u32>,
    noise: Noise,
}

/// A measured cell in numbers.
#[derive(Clone)]
pub(crate) struct Sample<'a> {
    pub cell: Cell,
    pub rate: f64,
    pub demand: Option<&'a Demand>,
    pub shape: &'a Shape,
    pub machine: Machine,
}

impl<'a> Numbers<'a> {
    /// The numbers of what was measured.
    pub fn of(evidence: &'a Evidence) -> Self {
        let mut values: BTreeMap<StackPart, BTreeSet<&str>> = BTreeMap::new();
        // What was measured: a stack that is only asked for changes nothing.
        let measured = evidence.measured_stacks();
        for stack in &measured {
            for (part, value) in *stack {
                values.entry(*part).or_default().insert(value);
            }
        }
        // A part that some stacks lack differs from those that have it.
        let everywhere = |part: &StackPart| measured.iter().all(|parts| parts.contains_key(part));
        let differing = values.iter().filter(|(part, values)| values.len() > 1 || !everywhere(part));
        let parts: Vec<StackPart> = differing.map(|(part, _)| *part).collect();
        let number = |(part, values): (&StackPart, &BTreeSet<&'a str>)| {
            values.iter().zip(1..).map(|(value, number)| ((*part, *value), number)).collect::<Vec<_>>()
        };
        Self {
            values: values.iter().flat_map(number).collect(),
            stacks: evidence.stacks.keys().zip(0..).collect(),
            loads: evidence.shapes.keys().zip(0..).collect(),
            parts,
            noise: Noise::of(&evidence.cells),
        }
    }

    /// The family of each load; one that has none is a family of its own.
    pub fn families(&self, evidence: &Evidence) -> BTreeMap<u32, u32> {
        let mut of_name: BTreeMap<&str, u32> = BTreeMap::new();
        let mut families = BTreeMap::new();
        for (load, number) in &self.loads {
            let family = evidence.families.get(*load).map_or(load.as_str(), String::as_str);
            let next = of_name.len() as u32;
            families.insert(*number, *of_name.entry(family).or_insert(next));
        }
        families
    }

    /// A load on a stack; `None` where one of them is not known.
    pub fn cell(
        &self,
        evidence: &Evidence,
        stack: &WrittenStack,
        load: &WrittenWorkload,
        shape: &Shape,
        runs: usize,
    ) -> Option<Cell> {
        let parts = evidence.stacks.get(stack)?;
        let aspect = |part: &StackPart| {
            let value = parts.get(part).map_or("", String::as_str);
            self.number(*part, value)
        };
        Some(Cell {
            load: *self.loads.get(load)?,
            features: shape.features(),
            stack: *self.stacks.get(stack)?,
            aspects: self.parts.iter().map(aspect).collect(),
            runs: u32::try_from(runs).unwrap_or(u32::MAX),
            noise: self.noise.relative(load),
        })
    }

    /// The number of a part's value; of an amount that was never measured that of the nearest one.
    fn number(&self, part: StackPart, value: &str) -> u32 {
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

    /// The measured cells, in the order of the evidence.
    pub fn samples(&self, evidence: &'a Evidence) -> Vec<Sample<'a>> {
        let numbered = |measured: &'a MeasuredLoad| {
            let shape = evidence.shapes.get(&measured.load)?;
            let cell = self.cell(evidence, &measured.stack, &measured.load, shape, measured.runs.len())?;
            let machine = evidence.machine(&measured.stack);
            Some(Sample { cell, rate: measured.rate, demand: measured.demand.as_ref(), shape, machine })
        };
        evidence.cells.iter().filter_map(numbered).collect()
    }
}
