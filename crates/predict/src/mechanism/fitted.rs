//! Terms of stacks that were not measured, from stacks that share their layers.

use std::collections::BTreeMap;

use nestor_statistics::prediction::LearntRate;
use nestor_statistics::prediction::learnt::{Cell, Subject, Weights};
use serde::{Deserialize, Serialize};

use super::demand::{Demand, Machine, Term};
use super::time::{OperationTime, operation_time};
use crate::evidence::Shape;
use crate::numbers::Sample;
use crate::scaled::{Manner, ScaledModel, weights_of};

/// What a request takes differs so much from load to load, as a deviation of its logarithm: from sequential to random, from one sector to
/// a MiB.
const OF_REQUESTS: f64 = 1.0;
/// Cells that the search for the weights of a term looks at: there are ten such searches.
const SEARCHED: usize = 120;
/// Cells that the model of a term holds.
const HELD: usize = 240;
/// How much each part of a stack counts in each term, and in what the terms leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TermWeights {
    terms: BTreeMap<Term, Weights>,
    rest: Weights,
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
    terms: BTreeMap<Term, ScaledModel>,
    rest: ScaledModel,
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

/// How what is counted is learnt.
fn manner(loads: f64) -> Manner {
    Manner { loads, searched: SEARCHED, counted: Some(HELD) }
}

fn manner_of(term: Term) -> Manner {
    manner(if term.is_of_an_operation() { Subject::RATES.loads } else { OF_REQUESTS })
}

impl TermWeights {
    /// The weights that explain the terms best; `None` with too few cells of which the demands are known. A term that too few cells have
    /// is weighed as usual.
    pub(crate) fn of(samples: &[Sample<'_>]) -> Option<Self> {
        let rest = weights_of(&with_rest(samples), manner(Subject::RATES.loads))?;
        let of_term = |term: Term| {
            let usual = || Weights::usual(rest.aspects.len(), rest.lengths.len(), manner_of(term).loads);
            (term, weights_of(&with_term(samples, term), manner_of(term)).unwrap_or_else(usual))
        };
        Some(Self { terms: Term::ALL.into_iter().map(of_term).collect(), rest })
    }
}

impl MechanismModel {
    /// The model of cells; `None` where none of them has a demand.
    pub fn of(weights: &TermWeights, samples: &[Sample<'_>], asked: &[&Cell]) -> Option<Self> {
        let of_term = |(term, weights): (&Term, &Weights)| {
            let cells = with_term(samples, *term);
            Some((*term, ScaledModel::of(weights, &cells, manner_of(*term), asked)?))
        };
        let of_rest = manner(Subject::RATES.loads);
        let rest = ScaledModel::of(&weights.rest, &with_rest(samples), of_rest, asked)?;
        Some(Self { terms: weights.terms.iter().filter_map(of_term).collect(), rest })
    }

    /// What is expected of a cell, on such a machine.
    pub fn expected(&self, cell: &Cell, shape: &Shape, machine: Machine) -> Option<Mechanical> {
        let logs = |found: LearntRate| (found.rate.ln(), found.interval.deviation_of_logarithm());
        let expected = |(term, model): (&Term, &ScaledModel)| (*term, logs(model.expected(cell)));
        let open = self.terms.iter().filter(|(term, _)| term.given(machine).is_none());
        let found: BTreeMap<Term, (f64, f64)> = open.map(expected).collect();
        let demand = Demand::of_terms(machine, |term| Some(found.get(&term)?.0.exp()));
        let time = operation_time(&demand, shape)?;
        let (log_rest, of_rest) = logs(self.rest.expected(cell));
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
