//! Terms of stacks that were not measured, from stacks that share their layers.

use std::collections::BTreeMap;

use nestor_statistics::prediction::Learnt;
use nestor_statistics::prediction::learnt::{Cell, Subject, Weights};
use serde::{Deserialize, Serialize};

use super::demand::{Demand, Machine, Term};
use super::time::{OperationTime, operation_time};
use crate::evidence::Shape;
use crate::learnt_model::FEWEST_CELLS;
use crate::numbers::Sample;

/// What a request takes differs so much from load to load, as a deviation of its logarithm: from sequential to random, from one sector to
/// a MiB.
const OF_REQUESTS: f64 = 1.0;
/// Cells that the search for the weights of a term looks at: there are ten such searches.
const SEARCHED: usize = 120;
/// Cells that the model of a term holds.
const HELD: usize = 240;
/// The order in which cells are left out where there are too many.
const SEED: u64 = 1;

/// How far a term of a load is apart on different stacks where weights are as usual: a deviation of its logarithm.
const USUAL_SPREAD: f64 = 0.2;
/// A term is not taken for more constant than this.
const LEAST_SPREAD: f64 = 0.02;

/// How much each part of a stack counts in each term, and in what the terms leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TermWeights {
    terms: BTreeMap<Term, Scaled>,
    rest: Scaled,
}

/// Weights of a quantity whose logarithms are first multiplied, so that each varies as much as rates do: flushes are a thousand times as
/// many on one stack as on another, requests a hundredth more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Scaled {
    scale: f64,
    weights: Weights,
}

/// A quantity's model.
struct Model {
    scale: f64,
    learnt: Learnt,
}

/// What is expected from mechanisms.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanical {
    /// Logarithm of the rate.
    pub log: f64,
    /// Its deviation: of the terms, each as far as it counts, and of what they leave.
    pub deviation: f64,
    /// What runs the application.
    pub machine: Machine,
    /// What an operation asks for.
    pub demand: Demand,
    /// What that takes.
    pub time: OperationTime,
    /// By what the rate is multiplied for what the terms leave, in the unit of the load.
    pub log_rest: f64,
}

/// Terms and rest of measured cells.
pub(crate) struct MechanismModel {
    terms: BTreeMap<Term, Model>,
    rest: Model,
}

/// The logarithm of what the terms leave of a rate: its unit, and what a network of two stations is not.
pub(crate) fn log_of_rest(rate: f64, demand: &Demand, shape: &Shape) -> Option<f64> {
    Some((rate * operation_time(demand, shape)?.seconds).ln())
}

/// The cells that have a term, with its value.
fn with_term(samples: &[Sample<'_>], term: Term) -> Vec<(Cell, f64)> {
    let open = samples.iter().filter(|sample| term.given(sample.machine).is_none());
    let value = |sample: &Sample<'_>| Some((sample.cell.clone(), term.of(sample.demand?, sample.machine)?));
    open.filter_map(value).collect()
}

fn with_rest(samples: &[Sample<'_>]) -> Vec<(Cell, f64)> {
    let value = |sample: &Sample<'_>| {
        Some((sample.cell.clone(), log_of_rest(sample.rate, sample.demand?, sample.shape)?.exp()))
    };
    samples.iter().filter_map(value).collect()
}

fn scaled(cells: &[(Cell, f64)], scale: f64) -> Vec<(Cell, f64)> {
    cells.iter().map(|(cell, value)| (cell.clone(), value.powf(scale))).collect()
}

/// Deviation of the logarithms of values from the means of their loads; `None` where no load was measured on two stacks.
fn spread(cells: &[(Cell, f64)]) -> Option<f64> {
    let mut of_loads: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (cell, value) in cells {
        of_loads.entry(cell.load).or_default().push(value.ln());
    }
    let (mut squares, mut freedom) = (0.0, 0.0);
    for logs in of_loads.values() {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        freedom += logs.len() as f64 - 1.0;
    }
    (freedom > 0.0).then(|| (squares / freedom).sqrt())
}

impl Scaled {
    /// Of values of loads that are apart by so much from load to load; as usual with too few of them.
    fn of(cells: &[(Cell, f64)], loads: f64, usual: (usize, usize)) -> Self {
        let scale = USUAL_SPREAD / spread(cells).unwrap_or(USUAL_SPREAD).max(LEAST_SPREAD);
        let loads = loads * scale;
        let found = Learnt::weights_of(&scaled(cells, scale), Subject { loads, searched: SEARCHED }, SEED);
        Self { scale, weights: found.unwrap_or_else(|| Weights::usual(usual.0, usual.1, loads)) }
    }

    fn model(&self, cells: &[(Cell, f64)], asked: &[&Cell]) -> Option<Model> {
        let cells = scaled(cells, self.scale);
        let learnt = Learnt::of_exact(self.weights.clone(), &cells, asked, HELD, SEED)?;
        Some(Model { scale: self.scale, learnt })
    }
}

impl Model {
    /// Logarithm and its deviation.
    fn expected(&self, cell: &Cell) -> (f64, f64) {
        let found = self.learnt.predict(cell);
        (found.rate.ln() / self.scale, found.interval.deviation_of_logarithm() / self.scale)
    }
}

impl TermWeights {
    /// The weights that explain the terms best; `None` with too few cells of which the demands are known. A term that too few cells have
    /// is weighed as usual.
    pub(crate) fn of(samples: &[Sample<'_>]) -> Option<Self> {
        let rest = with_rest(samples);
        let first = &rest.first().filter(|_| rest.len() >= FEWEST_CELLS)?.0;
        let sizes = (first.aspects.len(), first.features.len());
        let of_term = |term: Term| {
            let loads = if term.is_of_an_operation() { Subject::RATES.loads } else { OF_REQUESTS };
            (term, Scaled::of(&with_term(samples, term), loads, sizes))
        };
        let terms = Term::ALL.into_iter().map(of_term).collect();
        Some(Self { terms, rest: Scaled::of(&rest, Subject::RATES.loads, sizes) })
    }
}

impl MechanismModel {
    /// The model of cells; `None` where none of them has a demand.
    pub fn of(weights: &TermWeights, samples: &[Sample<'_>], asked: &[&Cell]) -> Option<Self> {
        let of_term = |(term, weights): (&Term, &Scaled)| {
            Some((*term, weights.model(&with_term(samples, *term), asked)?))
        };
        let rest = weights.rest.model(&with_rest(samples), asked)?;
        Some(Self { terms: weights.terms.iter().filter_map(of_term).collect(), rest })
    }

    /// What is expected of a cell, on such a machine.
    pub fn expected(&self, cell: &Cell, shape: &Shape, machine: Machine) -> Option<Mechanical> {
        let expected = |(term, model): (&Term, &Model)| (*term, model.expected(cell));
        let open = self.terms.iter().filter(|(term, _)| term.given(machine).is_none());
        let found: BTreeMap<Term, (f64, f64)> = open.map(expected).collect();
        let demand = Demand::of_terms(machine, |term| Some(found.get(&term)?.0.exp()));
        let time = operation_time(&demand, shape)?;
        let (log_rest, of_rest) = self.rest.expected(cell);
        let of_terms =
            found.iter().map(|(term, (_, deviation))| time.by_term(&demand, *term, machine) * deviation);
        let variance: f64 = of_terms.map(|deviation| deviation * deviation).sum();
        let deviation = variance.sqrt().hypot(of_rest);
        let log = log_rest - time.seconds.ln();
        (log.is_finite() && deviation.is_finite()).then_some(Mechanical {
            log,
            deviation,
            machine,
            demand,
            time,
            log_rest,
        })
    }
}
