//! `nestor predict --validate`: how good predictions from this store are.

use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_predict::matrix::CompletionScore;
use nestor_predict::{Evidence, Held, Scores, Validation, validate};
use nestor_study::Known;
use serde::Serialize;

use super::matrix::matrix_of;
use crate::output::{print_json, table};

/// Cells from which the matrix is told, and how often that is tried with others.
const FROM: usize = 12;
const TRIES: usize = 10;

#[derive(Serialize)]
struct All {
    cells: usize,
    /// How far one run of a cell is from its mean, and of how many cells that is known.
    noise: Option<(f64, usize)>,
    validations: Vec<Validation>,
    matrices: Vec<(String, CompletionScore)>,
}

/// Hides what is known in three ways, and matrices but for twelve cells.
///
/// # Errors
/// When there is too little to hide anything.
pub fn run(evidence: &Evidence, known: &Known, json: bool) -> Result<ExitCode> {
    let ways = [Held::Stacks { known_loads: 2 }, Held::Stacks { known_loads: 0 }, Held::Families];
    let validations: Vec<Validation> = ways.into_iter().filter_map(|held| validate(evidence, held)).collect();
    let matrices: Vec<(String, CompletionScore)> = known
        .loads
        .keys()
        .filter_map(|load| Some((load.clone(), matrix_of(known, load)?.matrix.score(FROM, TRIES)?)))
        .collect();
    let all = All { cells: evidence.cells.len(), noise: noise(known), validations, matrices };
    if all.validations.is_empty() && all.matrices.is_empty() {
        bail!(
            "the store has {} cells: too few to hide some and predict them from the others\n  measure more: nestor replicate nested-fs --scale quick",
            all.cells
        );
    }
    if json {
        print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{} cells in the store", all.cells);
    match all.noise {
        Some((noise, cells)) => outln!(
            "half of the runs of a cell are more than {:.1} % off its mean ({cells} cells with several runs): no prediction of a run is better",
            noise * 100.0
        ),
        None => outln!("no cell was run twice: how much of the errors is that of measuring is not known"),
    }
    for validation in &all.validations {
        outln!("\n{}, {} parts", in_words(validation.held), validation.folds);
        out!("{}", scores(&validation.scores));
        for (load, stack, error) in validation.worst.iter().take(3) {
            outln!("  worst: {:+.0} %  {load} on {stack}", error * 100.0);
        }
    }
    if !all.matrices.is_empty() {
        outln!("\nguests x hosts from {FROM} cells, {TRIES} choices");
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let rows: Vec<[String; 5]> = all
            .matrices
            .iter()
            .map(|(load, score)| {
                [
                    load.clone(),
                    format!("{} of {}", score.from, score.of),
                    percent(score.median),
                    percent(score.p90),
                    percent(score.coverage),
                ]
            })
            .collect();
        out!("{}", table(&["load", "cells", "median error", "90 % below", "in interval"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// The error that is measuring's own: half of the runs are closer to their cell's mean. Variances of cells are pooled, each with as
/// many degrees of freedom as it has; the median of deviations from two runs each would be a third too low.
fn noise(known: &Known) -> Option<(f64, usize)> {
    let several: Vec<(f64, f64)> = known
        .cells
        .iter()
        .filter_map(|cell| Some((cell.deviation?.powi(2), cell.runs.len().checked_sub(1)? as f64)))
        .collect();
    let freedom: f64 = several.iter().map(|(_, freedom)| freedom).sum();
    let variance = several.iter().map(|(variance, freedom)| variance * freedom).sum::<f64>() / freedom;
    // Half of the values of a normal distribution are within 0.674 deviations.
    (freedom > 0.0).then(|| (variance.sqrt() * 0.674, several.len()))
}

fn in_words(held: Held) -> String {
    match held {
        Held::Stacks { known_loads: 0 } => "stacks hidden whole".to_owned(),
        Held::Stacks { known_loads } => format!("stacks hidden but for {known_loads} loads"),
        Held::Families => "families of loads hidden but where they run now".to_owned(),
    }
}

fn scores(scores: &[Scores]) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let known = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let rows: Vec<[String; 8]> = scores
        .iter()
        .map(|score| {
            [
                score.name.clone(),
                score.asked.to_string(),
                percent(score.abstained()),
                known(score.median),
                known(score.p90),
                known(score.mape),
                score.bias.map_or_else(|| "-".to_owned(), |bias| format!("{:+.1} %", bias * 100.0)),
                known(score.coverage),
            ]
        })
        .collect();
    table(&["by", "asked", "abstained", "median error", "90 % below", "mean", "bias", "in interval"], &rows)
}
