//! How the layers explain a contradicted claim.
//!
//! One pair of runs represents all: the one whose ratio is nearest to the median.

use rusqlite::{Connection, OptionalExtension};

use super::judge::EvidencePair;
use crate::RunLevels;
use crate::record::CellRecord;

/// Sentences on what differs between the runs behind a claim, the most important first.
pub(super) fn by_layers(connection: &Connection, pairs: &[EvidencePair]) -> rusqlite::Result<Vec<String>> {
    let mut two: Vec<EvidencePair> =
        pairs.iter().copied().filter(|p| p.baseline_run.is_some_and(|b| b != p.run)).collect();
    two.sort_by(|a, b| a.ratio.unwrap_or(1.0).total_cmp(&b.ratio.unwrap_or(1.0)));
    let Some((pair, baseline_run)) = two.get(two.len() / 2).and_then(|p| Some((p, p.baseline_run?))) else {
        return within_one_run(connection, pairs);
    };
    let (Some(candidate), Some(baseline)) =
        (levels(connection, pair.run)?, levels(connection, baseline_run)?)
    else {
        return Ok(vec![format!("no layers were recorded in runs {} and {baseline_run}", pair.run)]);
    };
    let mut told = vec![format!(
        "run {} ({}, {}, {}) against run {baseline_run} ({}, {}, {}), the median of {} pairs:",
        pair.run,
        candidate.stack,
        candidate.workload,
        candidate.throughput_words(),
        baseline.stack,
        baseline.workload,
        baseline.throughput_words(),
        two.len()
    )];
    told.extend(candidate.differences(&baseline));
    Ok(told)
}

/// For claims on the levels of one stack: what each level of the middle run was sent.
fn within_one_run(connection: &Connection, pairs: &[EvidencePair]) -> rusqlite::Result<Vec<String>> {
    let Some(run) = pairs.get(pairs.len() / 2).map(|p| p.run) else {
        return Ok(vec!["its query returns no runs, so their layers cannot be shown".to_owned()]);
    };
    let Some(levels) = levels(connection, run)? else {
        return Ok(vec![format!("no layers were recorded in run {run}")]);
    };
    Ok(vec![format!(
        "run {run} ({}, {}), one of {}; {}",
        levels.stack,
        levels.workload,
        pairs.len(),
        levels.sent()
    )])
}

/// The levels of a counted run; `None` of one without, or whose record does not read back.
fn levels(connection: &Connection, run: i64) -> rusqlite::Result<Option<RunLevels>> {
    let record: Option<String> = connection
        .prepare_cached(
            "SELECT record FROM main.runs WHERE number = ? AND number IN (SELECT run FROM temp.laid_out)",
        )?
        .query_row([run], |row| row.get(0))
        .optional()?;
    let record = record.and_then(|json| serde_json::from_str::<CellRecord>(&json).ok());
    Ok(record.as_ref().and_then(RunLevels::of))
}
