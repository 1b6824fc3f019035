//! Which layer's term is wrong where predictions from mechanisms miss.

use std::fmt;

use nestor_statistics::median;
use serde::{Serialize, Serializer};

use crate::evidence::Shape;
use crate::mechanism::{Demand, Mechanical, Term, log_of_rest, operation_time};

/// What an error is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOf {
    /// One term.
    Term(Term),
    /// What the terms together leave: not one of theirs.
    Rest,
}

impl ErrorOf {
    /// The terms from the application down, then the rest.
    fn all() -> impl Iterator<Item = Self> {
        Term::ALL.into_iter().map(Self::Term).chain([Self::Rest])
    }
}

impl fmt::Display for ErrorOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Term(term) => term.name(),
            Self::Rest => "what the terms leave: waiting that the closed network does not have",
        })
    }
}

impl Serialize for ErrorOf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A term in all hidden cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TermError {
    /// The layer and what is counted there, or what the terms leave.
    pub term: ErrorOf,
    /// Hidden cells that have it.
    pub cells: usize,
    /// Half of its own errors are below this share.
    pub median: f64,
    /// Its share of the squared errors of the predicted times: how much of each error goes if the term is set right, each error counting
    /// as its square does. The shares add up to about 1; a term whose error makes up for another's is below 0.
    pub share: f64,
}

/// A hidden cell's demand, as told and as found.
pub(crate) struct Told {
    /// Logarithm of the rate told over that found.
    error: f64,
    /// By term: logarithm of the value told over that found, and of the rate told over that with the right value.
    terms: Vec<(ErrorOf, f64, f64)>,
}

impl Told {
    /// `None` where a time cannot be computed.
    pub fn of(told: Mechanical, found: &Demand, shape: &Shape, rate: f64) -> Option<Self> {
        let error = told.log - rate.ln();
        let machine = told.machine;
        let mut terms = Vec::new();
        // From the told demand to the found one, term by term from the application down: the steps add up.
        let mut right: Vec<Term> = Vec::new();
        let mut seconds = told.time.seconds;
        for term in Term::ALL {
            right.push(term);
            let value = |other: Term| {
                if right.contains(&other) {
                    other.of(found, machine).or(Some(0.0))
                } else {
                    other.of(&told.demand, machine)
                }
            };
            let mended = operation_time(&Demand::of_terms(machine, value), shape)?.seconds;
            if let (Some(here), Some(there)) = (term.of(&told.demand, machine), term.of(found, machine)) {
                terms.push((ErrorOf::Term(term), (here / there).ln(), (mended / seconds).ln()));
            }
            seconds = mended;
        }
        let rest = told.log_rest - log_of_rest(rate, found, shape)?;
        terms.push((ErrorOf::Rest, rest, rest));
        Some(Self { error, terms })
    }
}

/// All terms, the one with the largest share first.
pub(crate) fn term_errors(told: &[Told]) -> Vec<TermError> {
    let squares: f64 = told.iter().map(|cell| cell.error.powi(2)).sum();
    if squares <= 0.0 {
        return Vec::new();
    }
    let of_term = |of: ErrorOf| {
        let of_cells = told.iter().flat_map(|cell| {
            let same = cell.terms.iter().filter(move |(term, _, _)| *term == of);
            same.map(move |(_, own, of_rate)| (own.exp_m1().abs(), cell.error * of_rate))
        });
        let (own, shares): (Vec<f64>, Vec<f64>) = of_cells.unzip();
        let share = shares.iter().sum::<f64>() / squares;
        Some(TermError { term: of, cells: own.len(), median: median(&own)?, share })
    };
    let mut all: Vec<TermError> = ErrorOf::all().filter_map(of_term).collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Machine;

    fn demand(kernel_s: f64, disk_s: f64) -> Demand {
        Demand { kernel_s, top_requests: 1.0, disk_requests: 1.0, data_s: disk_s, ..Demand::default() }
    }

    /// One worker, 1 ms of the processor and 9 ms of the disk, told as 1 ms and 14 ms: the disk is wrong, and nothing else.
    #[test]
    fn the_term_that_is_wrong_has_the_whole_error() {
        let shape = Shape { workers: 1, ..Shape::default() };
        let wrong = demand(0.001, 0.014);
        let mechanical = Mechanical {
            log: (1.0_f64 / 0.015).ln(),
            deviation: 0.1,
            machine: Machine::default(),
            time: operation_time(&wrong, &shape).unwrap(),
            demand: wrong,
            log_rest: 0.0,
        };
        let told = Told::of(mechanical, &demand(0.001, 0.009), &shape, 100.0).unwrap();
        let found = term_errors(&[told]);
        assert_eq!(found[0].term, ErrorOf::Term(Term::DiskTime));
        assert!((found[0].share - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found[0].median - 5.0 / 9.0).abs() < 1e-9, "{found:?}");
        assert!(found[1..].iter().all(|term| term.share.abs() < 1e-9), "{found:?}");
    }
}
