//! `nestor predict --matrix`: guests × hosts from the cells that were measured.

use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_predict::matrix::{CompletionScore, MatrixCell, MatrixNulls};
use nestor_predict::methods::measure_many;
use nestor_predict::{CompletedMatrix, Evidence, Incomplete, Suggestion, load_matrix, only_elsewhere};
use nestor_report::units::{digits, percent, share};
use nestor_results::{Known, KnownPlace, WrittenWorkload};
use nestor_statistics::prediction::completion::FEWEST_CELLS;
use nestor_workload::RateUnit;
use serde::Serialize;

use crate::named::workload_named;
use crate::output::{print_json, say, table};

#[derive(Serialize)]
struct Json<'a> {
    place: &'a KnownPlace,
    workload: &'a str,
    unit: &'static str,
    cells: &'a [MatrixCell],
    suggested: Vec<Suggestion>,
    score: Option<CompletionScore>,
}

/// Completes the matrix of a load, from what is known of the place that `on` names if it has to be named.
///
/// # Errors
/// When too little of it was measured.
pub fn run(
    known: &Known,
    on: Option<String>,
    workload: &str,
    suggest: usize,
    json: bool,
) -> Result<ExitCode> {
    let name = WrittenWorkload::from(workload_named(workload)?);
    let evidence = Evidence { on, ..Evidence::default() };
    let place = known.place.in_words();
    let Some(of_load) = load_matrix(known, &name) else { bail!(nothing_measured(known, &name, &evidence)) };
    let measured = of_load.matrix.measured.len();
    let CompletedMatrix { cells, suggested, score } = match of_load.complete(&evidence, suggest) {
        Ok(completed) => completed,
        Err(Incomplete::Stack(error)) => return Err(error.into()),
        Err(Incomplete::TooFew(wanted)) => {
            let commands: String = wanted.iter().map(|cell| format!("\n    {}", cell.command)).collect();
            bail!(
                "too few cells of the matrix under {name} were measured on {place}: {measured}; at least \
                 {FEWEST_CELLS} are needed\n  measure these as well:{commands}"
            );
        }
    };
    if json {
        print_json(&Json {
            place: &known.place,
            workload: &name,
            unit: of_load.unit.name(),
            cells: &cells,
            suggested,
            score,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{name} on {place}: {measured} of {} cells measured", cells.len());
    out!("{}", cells_text(&cells, of_load.unit));
    say(&score.map(score_text).unwrap_or_default());
    print_suggestions(&suggested);
    Ok(ExitCode::SUCCESS)
}

/// Where the load was measured instead, and how to measure it here.
fn nothing_measured(known: &Known, load: &WrittenWorkload, evidence: &Evidence) -> String {
    let elsewhere = only_elsewhere(known, load, |other| other.workload == *load);
    format!(
        "no guest on a host file system has been measured under {load} on {} yet{}\n  measure some: {}",
        known.place.in_words(),
        elsewhere.map_or_else(String::new, |there| format!("\n  {there}")),
        measure_many(evidence)
    )
}

fn print_suggestions(suggestions: &[Suggestion]) {
    if !suggestions.is_empty() {
        outln!("\nmost worth measuring next:");
        suggestions.iter().for_each(|s| outln!("  {}", s.command));
    }
}

/// All cells. Those that were not measured have the null models' predictions beside them.
fn cells_text(cells: &[MatrixCell], unit: RateUnit) -> String {
    let rate = |rate: f64| digits(rate / unit.scale());
    let rows: Vec<[String; 6]> = cells
        .iter()
        .map(|cell| {
            let interval = match (cell.interval, cell.is_told) {
                (None, _) => "measured".to_owned(),
                (Some(_), false) => "I don't know".to_owned(),
                (Some(i), true) => format!("[{}, {}]", rate(i.low), rate(i.high)),
            };
            let told = if cell.is_told { rate(cell.rate) } else { "-".to_owned() };
            let null = |of: fn(&MatrixNulls) -> f64| {
                cell.nulls.as_ref().map_or_else(|| "-".to_owned(), |nulls| rate(of(nulls)))
            };
            [
                cell.row.to_string(),
                cell.column.to_string(),
                told,
                interval,
                null(|nulls| nulls.row_by_column),
                null(|nulls| nulls.mean_of_all),
            ]
        })
        .collect();
    table(&["guest", "host", unit.name(), "90 % interval", "row x column", "mean of all"], &rows)
}

/// How well part of the known cells predicts the rest, compared with the null models.
fn score_text(score: CompletionScore) -> String {
    format!(
        "\n{} of the known cells predict the others with a median error of {} (90th percentile {}), {} \
         within their intervals\n  \
         for scale: mean of the row x mean of the column {}, mean of all {} (medians of the same cells)\n",
        score.from,
        share(score.median),
        share(score.p90),
        percent(score.coverage),
        share(score.nulls.row_by_column),
        share(score.nulls.mean_of_all)
    )
}

#[cfg(test)]
mod tests {
    use nestor_predict::matrix::{GuestFs, HostFs, Matrix};
    use nestor_stack::Layer;
    use nestor_statistics::Interval;

    use super::*;

    #[test]
    fn null_models_stand_beside_what_is_told() {
        let layer = |name| Layer::parse(name).unwrap();
        let matrix = Matrix {
            rows: ["ext3", "xfs"].map(|name| GuestFs(Some(layer(name)))).to_vec(),
            columns: ["ext3", "jfs", "xfs"].map(|name| HostFs::On(layer(name))).to_vec(),
            measured: [((0, 0), 1e8), ((0, 2), 4e8), ((1, 0), 2e8), ((1, 1), 2e8)].into(),
        };
        let answer = matrix.complete(0).unwrap();
        let was_predicted = |cell: &&MatrixCell| cell.nulls.is_some();
        assert_eq!(answer.cells.iter().filter(was_predicted).count(), 2);
        // The rates of the two that are told are the model's; beside them is what their rows and columns are in the mean.
        let told: Vec<MatrixCell> = answer
            .cells
            .into_iter()
            .map(|cell| MatrixCell {
                interval: cell.interval.map(|_| Interval { low: 1e8, high: 5e8 }),
                ..cell
            })
            .map(|cell| MatrixCell { rate: if cell.nulls.is_some() { 3e8 } else { cell.rate }, ..cell })
            .collect();
        insta::assert_snapshot!(cells_text(&told, RateUnit::BytesPerSecond), @r"
        guest  host  MB/s  90 % interval  row x column  mean of all
        ext3   ext3  100   measured       -             -
        ext3   jfs   300   [100, 500]     200           200
        ext3   xfs   400   measured       -             -
        xfs    ext3  200   measured       -             -
        xfs    jfs   200   measured       -             -
        xfs    xfs   300   [100, 500]     400           200
        ");
        let nulls = MatrixNulls { mean_of_all: 0.4, row_by_column: 0.21 };
        let score =
            CompletionScore { from: 12, of: 42, tries: 10, median: 0.08, p90: 0.2, coverage: 0.91, nulls };
        insta::assert_snapshot!(score_text(score).trim_start(), @r"
        12 of the known cells predict the others with a median error of 8.0 % (90th percentile 20.0 %), 91 % within their intervals
          for scale: mean of the row x mean of the column 21.0 %, mean of all 40.0 % (medians of the same cells)
        ");
    }
}
