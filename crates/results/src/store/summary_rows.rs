//! The rows of the tables `cells`, `cell_latencies`, `comparisons` and `pairs`.

use nestor_statistics::sequential::Decision;
use nestor_statistics::{Interval, LatencySummary, Mean, Ratio};
use nestor_workload::RateUnit;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use crate::Study;
use crate::compare::{BlockPair, Comparison, Doubt, Told};
use crate::numbers::CellNumbers;

/// Rows of the tables, each in the order of its columns after `study_hash`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SummaryRows {
    /// Whether they are all of the study, so that others are removed.
    pub is_whole: bool,
    cells: Vec<Vec<Value>>,
    latencies: Vec<Vec<Value>>,
    comparisons: Vec<Vec<Value>>,
    pairs: Vec<Vec<Value>>,
}

impl SummaryRows {
    /// Adds a cell's row, and those of its latencies.
    pub fn add_cell(&mut self, study: &Study, cell: &CellNumbers) {
        let summary = cell.summary();
        let latency = summary.latency_of_longest();
        let ns = |of: fn(&nestor_statistics::LatencySummary) -> u64| {
            optional(latency.and_then(|(_, latency)| i64::try_from(of(latency)).ok()))
        };
        let started = || cell.runs.iter().map(|run| run.started_at.clone());
        let throughput = summary.throughput();
        let is_apart = study.is_apart(&cell.stack, &cell.workload);
        let mut row = key(cell);
        row.extend([
            flag(study.against.is_none() && study.is_baseline(&cell.stack) && !is_apart),
            flag(is_apart),
            count(summary.samples.len()),
            count(summary.failures.len()),
            count(summary.violations.len()),
            optional(started().min()),
            optional(started().max()),
        ]);
        row.extend(mean_and_ends(throughput));
        row.extend([
            optional(throughput.map(|_| summary.rate_unit().base().to_owned())),
            number(throughput.and(summary.coefficient_of_variation)),
        ]);
        row.extend(mean_and_ends(cell.lives(study).map(|lives| lives.whole_s)));
        row.extend([
            optional(latency.map(|(class, _)| class.clone())),
            ns(|latency| latency.p50_ns),
            ns(|latency| latency.p90_ns),
            ns(|latency| latency.p99_ns),
            ns(|latency| latency.max_ns),
            optional(Some(summary.mark_names()).filter(|names| !names.is_empty())),
        ]);
        self.cells.push(row);
        self.latencies.extend(cell.latency.iter().map(|(class, summary)| {
            let mut row = key(cell);
            row.extend(latency_values(class, summary));
            row
        }));
    }

    /// Adds the row of a cell against its baseline, and those of its pairs.
    pub fn add_comparison(
        &mut self,
        study: &Study,
        cell: &CellNumbers,
        baseline: &CellNumbers,
        decision: Option<&Decision>,
    ) {
        let mut comparison = cell.against(baseline, study);
        let saved = study.against.as_ref().map(|saved| saved.name.as_str());
        comparison.doubts.extend(saved.map(|name| Doubt::of_saved(name, baseline.last_start())));
        let pairs = comparison.block_pairs().map(|(pair, is_compared)| {
            let mut row = key(cell);
            row.extend(pair_values(&comparison, &pair, is_compared));
            row
        });
        self.pairs.extend(pairs);
        let mut row = key(cell);
        row.push(text(baseline.stack.as_str()));
        row.extend(comparison_values(study, &comparison, decision));
        row.extend(ratio_and_ends(cell.lives_against(baseline, study).and_then(|lives| lives.ratio)));
        let doubts: Vec<&str> = comparison.doubts.iter().map(|doubt| doubt.words.as_str()).collect();
        row.push(optional((!doubts.is_empty()).then(|| doubts.join("\n"))));
        row.push(optional(saved.map(str::to_owned)));
        self.comparisons.push(row);
    }
}

fn comparison_values(study: &Study, comparison: &Comparison, decision: Option<&Decision>) -> Vec<Value> {
    let ratio = comparison.ratio;
    let interval = ratio.and_then(|ratio| ratio.interval);
    let mut values = ratio_and_ends(ratio).to_vec();
    values.extend([
        optional(ratio.and_then(|ratio| i64::try_from(ratio.pairs).ok())),
        number(interval.map(|_| study.confidence())),
    ]);
    values.push(number(ratio.map(|ratio| ratio.change_percent())));
    values.extend(ends(ratio.and_then(|ratio| ratio.change_interval_percent())));
    values.extend(ends(comparison.bootstrap.and_then(|ratio| ratio.interval)));
    let block =
        |of: fn((u32, u32)) -> u32| optional(comparison.only_blocks.map(|blocks| i64::from(of(blocks))));
    values.extend([
        flag(comparison.paired),
        block(|(first, _)| first),
        block(|(_, last)| last),
        optional(ratio.map(|ratio| Told::of(&ratio).name().to_owned())),
        optional(decision.map(|decision| decision.name().to_owned())),
    ]);
    values
}

/// In the order of [`latency_of`].
fn latency_values(class: &str, summary: &LatencySummary) -> [Value; 8] {
    let ns = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX).into();
    [
        text(class),
        ns(summary.count),
        summary.mean_ns.into(),
        ns(summary.min_ns),
        ns(summary.p50_ns),
        ns(summary.p90_ns),
        ns(summary.p99_ns),
        ns(summary.max_ns),
    ]
}

/// What [`latency_values`] wrote, from the column `first` on; `None` where there is no class.
pub(super) fn latency_of(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<(String, LatencySummary)>> {
    let Some(class) = row.get(first)? else { return Ok(None) };
    let number = |place: usize| row.get::<_, i64>(first + place).map(i64::cast_unsigned);
    let summary = LatencySummary {
        count: number(1)?,
        mean_ns: row.get(first + 2)?,
        min_ns: number(3)?,
        p50_ns: number(4)?,
        p90_ns: number(5)?,
        p99_ns: number(6)?,
        max_ns: number(7)?,
    };
    Ok(Some((class, summary)))
}

fn pair_values(comparison: &Comparison, pair: &BlockPair, is_compared: bool) -> Vec<Value> {
    let unit: RateUnit = pair.unit;
    vec![
        i64::from(pair.block).into(),
        text(comparison.baseline.stack.as_str()),
        optional(pair.candidate_runs.first().copied()),
        optional(pair.baseline_runs.first().copied()),
        optional(pair.baseline_runs.get(1).copied()),
        pair.candidate.into(),
        pair.baseline.into(),
        text(unit.base()),
        (pair.candidate / pair.baseline).into(),
        flag(is_compared),
    ]
}

/// Writes rows in place of those that are there.
pub(super) fn write(connection: &Connection, study_hash: &str, rows: &SummaryRows) -> rusqlite::Result<()> {
    // A block that had a pair may have none now, and a cell that had a class of operations: a later run failed.
    let tables = [
        ("cells", &rows.cells, None),
        ("cell_latencies", &rows.latencies, Some(&rows.cells)),
        ("comparisons", &rows.comparisons, None),
        ("pairs", &rows.pairs, Some(&rows.comparisons)),
    ];
    for (table, rows_of_table, made_anew_for) in tables {
        if rows.is_whole {
            connection.execute(&format!("DELETE FROM {table} WHERE study_hash = ?"), [study_hash])?;
        } else if let Some(cells) = made_anew_for {
            let mut delete = connection.prepare_cached(&format!(
                "DELETE FROM {table} WHERE study_hash = ? AND stack = ? AND workload = ?"
            ))?;
            for row in cells {
                delete.execute(params_from_iter([&text(study_hash), &row[0], &row[1]]))?;
            }
        }
        for row in rows_of_table {
            let places = vec!["?"; row.len() + 1].join(", ");
            connection
                .prepare_cached(&format!("INSERT OR REPLACE INTO {table} VALUES ({places})"))?
                .execute(params_from_iter([text(study_hash)].iter().chain(row)))?;
        }
    }
    Ok(())
}

fn key(cell: &CellNumbers) -> Vec<Value> {
    vec![text(cell.stack.as_str()), text(cell.workload.as_str())]
}

fn text(text: &str) -> Value {
    text.to_owned().into()
}

fn flag(is_so: bool) -> Value {
    i64::from(is_so).into()
}

fn count(of: usize) -> Value {
    i64::try_from(of).unwrap_or(i64::MAX).into()
}

fn optional<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Null, Into::into)
}

/// A number, as a gap where a report's table has one.
fn number(value: Option<f64>) -> Value {
    optional(value.filter(|value| value.is_finite()))
}

fn ends(interval: Option<Interval>) -> [Value; 2] {
    [number(interval.map(|i| i.low)), number(interval.map(|i| i.high))]
}

fn mean_and_ends(mean: Option<Mean>) -> [Value; 3] {
    let [low, high] = ends(mean.and_then(|mean| mean.interval));
    [number(mean.map(|mean| mean.value)), low, high]
}

fn ratio_and_ends(ratio: Option<Ratio>) -> [Value; 3] {
    let [low, high] = ends(ratio.and_then(|ratio| ratio.interval));
    [number(ratio.map(|ratio| ratio.value)), low, high]
}
