//! How accurate predictions from a store are. Measured cells are hidden in three ways and predicted from the others; matrices are
//! completed from twelve of their cells.

use nestor_results::{Known, KnownPlace, WrittenWorkload};
use serde::Serialize;

use crate::aims::{self, Aim};
use crate::error_parts::{ErrorParts, error_parts};
use crate::evidence::Evidence;
use crate::load_matrix::load_matrix;
use crate::matrix::{CompletionScore, SCORE_TRIES, SCORED_FROM};
use crate::noise::Noise;
use crate::term_errors::TermError;
use crate::validation::{Held, Validation, validate};

/// Terms that are named where an aim is missed.
const WORST_TERMS: usize = 4;

/// All of it.
#[derive(Serialize)]
pub struct Judgement {
    /// Where the cells are from.
    pub place: KnownPlace,
    /// How many there are.
    pub cells: usize,
    /// How far one run of a cell is from its mean, and of how many cells that is known.
    pub noise: Option<(f64, usize)>,
    /// The same by load, with its own variance shrunk to that of all.
    pub noise_of_loads: Vec<(WrittenWorkload, f64)>,
    /// By what was hidden.
    pub validations: Vec<Judged>,
    /// Matrices from a few of their cells.
    pub matrices: Vec<(WrittenWorkload, CompletionScore)>,
    /// What was aimed at there.
    pub matrix_aims: Vec<Aim>,
}

/// What was hidden, with what the errors are made of and what was aimed at.
#[derive(Serialize)]
pub struct Judged {
    /// What was hidden.
    #[serde(flatten)]
    pub validation: Validation,
    /// What was aimed at.
    pub aims: Vec<Aim>,
    /// What the errors are made of.
    pub made_of: Option<ErrorParts>,
}

impl Judgement {
    /// Hides what is known and predicts it; `None` where there is too little to hide anything.
    pub fn of(evidence: &Evidence, known: &Known) -> Option<Self> {
        let ways = [Held::Stacks { known_loads: 2 }, Held::Stacks { known_loads: 0 }, Held::Families];
        let of_cells = Noise::of(&evidence.cells);
        let variance = of_cells.of_all().map(|(variance, _)| variance);
        let judged = |validation: Validation| Judged {
            aims: aims::of_hidden(&validation),
            made_of: error_parts(&validation.errors, evidence, variance),
            validation,
        };
        let validations: Vec<Judged> =
            ways.into_iter().filter_map(|held| validate(evidence, held)).map(judged).collect();
        let score = |load| load_matrix(known, load)?.matrix.score(SCORED_FROM, SCORE_TRIES);
        let matrices: Vec<(WrittenWorkload, CompletionScore)> =
            known.loads.keys().filter_map(|load| Some((load.clone(), score(load)?))).collect();
        let of_load = |load: &WrittenWorkload| Some((load.clone(), of_cells.half(load)?));
        (!validations.is_empty() || !matrices.is_empty()).then(|| Self {
            place: known.place.clone(),
            cells: evidence.cells.len(),
            noise: of_cells.half_of_all(),
            noise_of_loads: evidence.shapes.keys().filter_map(of_load).collect(),
            validations,
            matrix_aims: aims::of_matrices(&matrices),
            matrices,
        })
    }

    /// The loads with the least and the most noise.
    pub fn noise_range(&self) -> Option<[&(WrittenWorkload, f64); 2]> {
        // Of equals the first.
        let least =
            |sign: f64| self.noise_of_loads.iter().min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)));
        Some([least(1.0)?, least(-1.0)?])
    }
}

impl Validation {
    /// Where an aim is missed, the terms of mechanisms that are wrong, the worst first.
    pub fn wrong_terms(&self, aims: &[Aim]) -> Vec<&TermError> {
        let is_missed = aims.iter().any(|aim| aim.missed_by.is_some());
        let wrong = self.terms.iter().filter(|term| is_missed && term.share > 0.0);
        wrong.take(WORST_TERMS).collect()
    }
}
