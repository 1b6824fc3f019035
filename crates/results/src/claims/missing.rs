//! Why a query found nothing: cells that failed or have not run.

use std::collections::BTreeSet;

use nestor_stack::{Layer, Stack};

use super::evidence::Evidence;
use crate::store::StudyRecord;
use crate::{WrittenStack, WrittenWorkload};

/// The cells of a study, and which of them have no counted run.
pub(super) struct Missing(Vec<Cell>);

struct Cell {
    stack: WrittenStack,
    workload: WrittenWorkload,
    guest: String,
    /// `None` on the raw disk.
    host: Option<String>,
    load: String,
    /// Whether it is compared with nothing: a row of `apart`, and not of `cell`.
    is_apart: bool,
    is_counted: bool,
    /// The first line of the error, if it failed.
    failure: Option<String>,
    /// Why the study goes without it.
    left_out: Option<String>,
}

impl Missing {
    pub fn of(evidence: &Evidence, study: &StudyRecord) -> rusqlite::Result<Self> {
        let connection = evidence.connection();
        let counted: BTreeSet<(String, String)> = connection
            .prepare("SELECT stack, workload FROM cell UNION SELECT stack, workload FROM apart")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let mut failures = connection.prepare(
            "SELECT failure FROM main.runs WHERE study_hash = ? AND stack = ? AND workload = ? AND outcome = 'failed' \
             ORDER BY number DESC LIMIT 1",
        )?;
        let mut cells = Vec::new();
        for stack in &study.study.stacks {
            for workload in study.study.workloads.iter().filter(|w| study.study.holds(stack, w)) {
                let is_apart = study.study.is_apart(stack, workload);
                if counted.contains(&(stack.to_string(), workload.to_string())) {
                    cells.push(Cell { is_counted: true, is_apart, ..Cell::new(stack, workload, None) });
                    continue;
                }
                let left_out = study.study.parts.iter().filter(|part| part.holds(stack, workload));
                let left_out = left_out.filter_map(|part| part.left_out.clone()).next();
                let left_out = left_out.filter(|_| !study.study.runs(stack, workload));
                let failure: Option<Option<String>> = failures
                    .query_map([study.hash.as_str(), stack, workload], |row| row.get(0))?
                    .next()
                    .transpose()?;
                cells.push(Cell { is_apart, left_out, ..Cell::new(stack, workload, failure.flatten()) });
            }
        }
        Ok(Self(cells))
    }

    /// Why a query may have found nothing.
    pub fn of_query(&self, sql: &str) -> String {
        let told = self.of_query_if_any(sql);
        if told.is_empty() { "no counted run matches its query".to_owned() } else { told }
    }

    /// The missing cells that a query is about, as far as it names file systems and loads; empty without any.
    pub fn of_query_if_any(&self, sql: &str) -> String {
        let [guests, hosts, loads] = ["guest", "host", "load"].map(|column| named(sql, column));
        if guests.is_empty() && hosts.is_empty() && loads.is_empty() {
            return String::new();
        }
        let is = |names: &BTreeSet<&str>, name: &str| names.is_empty() || names.contains(name);
        let asks_apart = has_word(sql, "apart");
        let asks_compared = !asks_apart || has_word(sql, "cell");
        let about: Vec<&Cell> = self
            .0
            .iter()
            .filter(|cell| if cell.is_apart { asks_apart } else { asks_compared })
            .filter(|cell| is(&guests, &cell.guest) && is(&loads, &cell.load))
            .filter(|cell| cell.host.as_deref().is_none_or(|host| is(&hosts, host)))
            .collect();
        if !about.iter().any(|cell| hosts.is_empty() || cell.host.is_some()) {
            return "the study has no such cell at this size".to_owned();
        }
        let missing = about.into_iter().filter(|cell| !cell.is_counted);
        let (failed, waiting): (Vec<&Cell>, Vec<&Cell>) = missing.partition(|c| c.failure.is_some());
        let mut told = Vec::new();
        if let Some(Cell { stack, workload, failure, .. }) = failed.first() {
            let reason = failure.as_deref().unwrap_or_default();
            told.push(format!("{} failed, such as {stack} {workload}: {reason}", cells_of(failed.len())));
        }
        if let Some(Cell { stack, workload, left_out, .. }) = waiting.first() {
            let why = left_out.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            told.push(format!("{} not run, such as {stack} {workload}{why}", cells_of(waiting.len())));
        }
        told.join("; ")
    }
}

impl Cell {
    /// Its parts are those of the table `cell`.
    fn new(stack: &WrittenStack, workload: &WrittenWorkload, failure: Option<String>) -> Self {
        let parts = stack.value().map(Stack::anatomy);
        let name = |layer: &Layer| layer.name().to_owned();
        let load = workload.value().map_or_else(|| workload.to_string(), |value| value.case().to_owned());
        Self {
            stack: stack.clone(),
            workload: workload.clone(),
            guest: parts.and_then(|parts| parts.guest_file_system()).map(name).unwrap_or_default(),
            host: parts.and_then(|parts| parts.host_file_system()).map(name),
            load,
            is_apart: false,
            is_counted: false,
            left_out: None,
            failure: failure.map(|f| f.lines().next().unwrap_or_default().to_owned()),
        }
    }
}

/// The texts that a query compares a column with: `host = 'jfs'`, `x.load IN ('a', 'b')`.
fn named<'a>(sql: &'a str, column: &str) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (at, _) in sql.match_indices(column) {
        let before = sql[..at].chars().next_back();
        let rest = sql[at + column.len()..].trim_start();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        if let Some(value) = rest.strip_prefix('=').map(str::trim_start).and_then(quoted) {
            names.insert(value);
        } else if let Some(list) =
            rest.strip_prefix("IN").map(str::trim_start).and_then(|r| r.strip_prefix('('))
        {
            let list = list.split(')').next().unwrap_or_default();
            names.extend(list.split(',').filter_map(|item| quoted(item.trim())));
        }
    }
    names
}

/// Whether a query names a table, or anything else, by this word.
fn has_word(sql: &str, word: &str) -> bool {
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').any(|other| other == word)
}

/// The text in quotes at the beginning.
fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.split('\'').next()
}

fn cells_of(count: usize) -> String {
    nestor_text::units::plural(count, "cell")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_medium_with_a_path_does_not_hide_the_file_systems() {
        let cell = |stack: &str| Cell::new(&stack.into(), &"fio:seq-read:bs=4k".into(), None);
        let nested = cell("ext3/kvm/raw/jfs/dev:/dev/sdb");
        assert_eq!(
            (nested.guest.as_str(), nested.host.as_deref(), nested.load.as_str()),
            ("ext3", Some("jfs"), "seq-read")
        );
        let missing = Missing(vec![nested]);
        let told = missing.of_query("SELECT 1 FROM cell WHERE host = 'jfs'");
        assert!(
            told.starts_with("1 cell not run, such as ext3/kvm/raw/jfs/dev:/dev/sdb fio:seq-read"),
            "{told}"
        );
        assert_eq!(cell("ext3/kvm/dev:/dev/disk/by-id/x").host, None);
    }

    #[test]
    fn a_query_is_about_the_cells_of_the_tables_that_it_names() {
        let cell = |stack: &str, is_apart| Cell {
            is_apart,
            ..Cell::new(&stack.into(), &"fio:seq-read:bs=4k".into(), None)
        };
        let missing = Missing(vec![cell("ext3/kvm/raw/jfs/hdd", false), cell("ext3/kvm/raw/xfs/hdd", true)]);
        let told =
            |tables: &str| missing.of_query(&format!("SELECT 1 FROM {tables} WHERE load = 'seq-read'"));
        assert_eq!(told("cell AS c"), "1 cell not run, such as ext3/kvm/raw/jfs/hdd fio:seq-read:bs=4k");
        assert_eq!(told("layer"), told("cell AS c"), "views are of cells that are compared");
        assert_eq!(told("apart AS c"), "1 cell not run, such as ext3/kvm/raw/xfs/hdd fio:seq-read:bs=4k");
        assert_eq!(
            told("cell JOIN apart"),
            "2 cells not run, such as ext3/kvm/raw/jfs/hdd fio:seq-read:bs=4k"
        );
    }

    #[test]
    fn what_a_query_is_about_is_read_from_it() {
        let sql = "SELECT g.guest FROM pair WHERE g.guest='ext3' AND host IN ('jfs', 'xfs') AND x.host = y.host AND load = 'seq-read'";
        assert_eq!(named(sql, "guest"), ["ext3"].into());
        assert_eq!(named(sql, "host"), ["jfs", "xfs"].into());
        assert_eq!(named(sql, "load"), ["seq-read"].into());
        assert_eq!(named("SELECT 1 WHERE guest = 'open", "guest"), ["open"].into());
        assert!(named("SELECT unload = 'x', load IN (", "load").is_empty());
    }
}
