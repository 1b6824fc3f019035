//! `nestor predict --validate`: how good predictions from this store are.

use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_predict::matrix::{CompletionScore, SCORE_TRIES, SCORED_FROM};
use nestor_predict::methods::measure_many;
use nestor_predict::{
    Aim, ErrorParts, Evidence, Held, Judged, Judgement, Scores, TermError, Validation, only_elsewhere,
};
use nestor_report::units::{percent, share, signed, signed_whole};
use nestor_results::{Known, WrittenWorkload};

use crate::output::{print_json, say, table};

/// Shows how accurate predictions are: hides measured cells, predicts them from the others, and prints the errors.
///
/// # Errors
/// When the store has too few cells to hide any.
pub fn run(evidence: &Evidence, known: &Known, json: bool) -> Result<ExitCode> {
    let Some(all) = Judgement::of(evidence, known) else {
        let elsewhere = only_elsewhere(known, "more", |_| true);
        bail!(
            "the store has only {} cells from {}, too few to hide some and predict them from the \
             others{}\n  measure more: {}",
            evidence.cells.len(),
            known.place.in_words(),
            elsewhere.map_or_else(String::new, |there| format!("\n  {there}")),
            measure_many(evidence)
        );
    };
    if json {
        print_json(&all)?;
    } else {
        print_text(&all);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_text(all: &Judgement) {
    outln!("{} cells from {} in the store", all.cells, all.place.in_words());
    match all.noise {
        Some((noise, cells)) => say(&format!(
            "half of the runs of a cell are more than {} off its mean ({cells} cells with several \
             runs); no prediction of a run can be better\n",
            share(noise)
        )),
        None => outln!("no cell was run twice, so the measurement error is not known"),
    }
    if let Some([(calm, least), (wild, most)]) = all.noise_range() {
        say(&format!("by load, from {} ({calm}) to {} ({wild})\n", share(*least), share(*most)));
    }
    for Judged { validation, aims, made_of } in &all.validations {
        say(&format!("\n{}, {} parts\n", in_words(validation.held), validation.folds));
        out!("{}", scores(&validation.scores));
        say(&floor(validation));
        print_aims(aims);
        say(&terms(validation, aims));
        say(&made_of.as_ref().map(parts_of_errors).unwrap_or_default());
        for worst in validation.errors.iter().take(3) {
            let error = format!("{} %", signed_whole(worst.error * 100.0));
            say(&format!("  worst: {error}  {} on {}\n", worst.load, worst.stack));
        }
    }
    if !all.matrices.is_empty() {
        outln!("\nguests x hosts from {SCORED_FROM} cells, {SCORE_TRIES} choices");
        out!("{}", matrices_text(&all.matrices));
        print_aims(&all.matrix_aims);
    }
}

fn print_aims(aims: &[Aim]) {
    aims.iter().for_each(|aim| say(&format!("  goal: {aim}\n")));
}

/// The errors less what the truths are off, beside what a perfect prediction would be off.
fn floor(validation: &Validation) -> String {
    let (Some(ours), Some(floor)) = (validation.scores.first(), validation.floor) else {
        return String::new();
    };
    let known = |error: Option<f64>| error.map_or_else(|| "-".to_owned(), share);
    format!(
        "  without the noise of the truths: median {}, 90th percentile {}; a perfect prediction would be off by {} [{}, {}] and {}\n",
        known(ours.median_without_noise),
        known(ours.p90_without_noise),
        share(floor.median),
        share(floor.median_interval.low),
        share(floor.median_interval.high),
        share(floor.p90)
    )
}

/// Where an aim is missed, the terms of mechanisms that are wrong, the worst first.
fn terms(validation: &Validation, aims: &[Aim]) -> String {
    let line = |term: &TermError| {
        format!(
            "    {} {} (off by {} in the median of {} cells)\n",
            percent(term.share),
            term.term,
            share(term.median),
            term.cells
        )
    };
    let wrong = validation.wrong_terms(aims);
    if wrong.is_empty() {
        return String::new();
    }
    let lines: String = wrong.into_iter().map(line).collect();
    format!("  by mechanisms, squared errors of the time by the term that is wrong:\n{lines}")
}

fn matrices_text(matrices: &[(WrittenWorkload, CompletionScore)]) -> String {
    let row = |(load, score): &(WrittenWorkload, CompletionScore)| {
        [
            load.to_string(),
            format!("{} of {}", score.from, score.of),
            share(score.median),
            share(score.p90),
            share(score.coverage),
            share(score.nulls.row_by_column),
            share(score.nulls.mean_of_all),
        ]
    };
    let head = [
        "load",
        "cells",
        "median error",
        "90th percentile",
        "in interval",
        "by row x column",
        "by mean of all",
    ];
    table(&head, &matrices.iter().map(row).collect::<Vec<_>>())
}

/// What the squares of the errors are made of; the parts overlap.
fn parts_of_errors(parts: &ErrorParts) -> String {
    let mut said = match parts.measuring {
        Some(of_all) => format!("  squared errors: {} measurement itself\n", share(of_all)),
        None => "  squared errors: the share of measurement itself is not known\n".to_owned(),
    };
    for common in parts.common.iter().take(3) {
        said.push_str(&format!(
            "    {} common to all cells with the same {}: largest with {} ({} %)\n",
            share(common.share),
            common.what,
            common.worst,
            signed_whole(common.error * 100.0)
        ));
    }
    said
}

fn in_words(held: Held) -> String {
    match held {
        Held::Stacks { known_loads: 0 } => "whole stacks hidden".to_owned(),
        Held::Stacks { known_loads } => format!("stacks hidden except {known_loads} loads"),
        Held::Families => "families of loads hidden except one probe of each load".to_owned(),
    }
}

fn scores(scores: &[Scores]) -> String {
    let known = |error: Option<f64>| error.map_or_else(|| "-".to_owned(), share);
    let rows: Vec<[String; 8]> = scores
        .iter()
        .map(|score| {
            [
                score.name.clone(),
                score.asked.to_string(),
                share(score.abstained()),
                known(score.median),
                known(score.p90),
                known(score.mape),
                score.bias.map_or_else(|| "-".to_owned(), |bias| format!("{} %", signed(bias * 100.0))),
                known(score.coverage),
            ]
        })
        .collect();
    table(
        &["by", "asked", "abstained", "median error", "90th percentile", "mean", "bias", "in interval"],
        &rows,
    )
}

#[cfg(test)]
mod tests {
    use nestor_predict::{ErrorOf, Floor, Term, aims};
    use nestor_statistics::Interval;

    use super::*;

    fn validation() -> Validation {
        let score = Scores {
            name: "prediction".to_owned(),
            asked: 20,
            answered: 20,
            mape: Some(0.1),
            median: Some(0.08),
            p90: Some(0.3),
            bias: Some(0.0),
            coverage: Some(0.9),
            median_without_noise: Some(0.07),
            p90_without_noise: None,
        };
        let term =
            |term: Term, share: f64| TermError { term: ErrorOf::Term(term), cells: 20, median: 0.05, share };
        Validation {
            held: Held::Stacks { known_loads: 0 },
            folds: 6,
            scores: vec![score],
            errors: Vec::new(),
            floor: Some(Floor {
                median: 0.014,
                median_interval: Interval { low: 0.012, high: 0.021 },
                p90: 0.065,
            }),
            terms: vec![term(Term::DiskTime, 0.7), term(Term::FlushTime, -0.1)],
        }
    }

    #[test]
    fn errors_stand_beside_the_floor_and_misses_beside_the_wrong_term() {
        let validation = validation();
        insta::assert_snapshot!(floor(&validation).trim(), @"without the noise of the truths: median 7.0 %, 90th percentile -; a perfect prediction would be off by 1.4 % [1.2 %, 2.1 %] and 6.5 %");
        let missed = aims::of_hidden(&validation);
        insta::assert_snapshot!(terms(&validation, &missed), @r"
        by mechanisms, squared errors of the time by the term that is wrong:
          70 % disk: time of a request (off by 5.0 % in the median of 20 cells)
        ");
        assert_eq!(terms(&validation, &[]), "", "nothing is missed");
        let nothing = Validation { floor: None, terms: Vec::new(), ..validation };
        assert_eq!(floor(&nothing) + &terms(&nothing, &missed), "");
    }
}
