//! Whether the queries of a study file can be run, before anything is measured for them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::evidence::Evidence;
use super::parse::{CLAIM_KINDS, FIGURE_KINDS};
use super::query::{self, Found};
use super::{finding, judge};
use crate::complaint::{Complaints, Source};
use crate::store::{Store, StudyRecord};
use crate::{Study, WrittenPlace};

/// Complains about each query of a study file that SQLite does not understand, or that lacks a column, by preparing it on empty tables.
/// Where there is no room for these, nothing is said: the queries are asked again when there are results.
pub(crate) fn check_queries(source: &Source<'_>, study: &DeTable<'_>, wrong: &mut Complaints) {
    let queries: Vec<Query<'_>> =
        ["claim", "figure", "finding"].iter().flat_map(|what| queries(study, what)).collect();
    if queries.is_empty() {
        return;
    }
    let Ok(evidence) = empty() else { return };
    for query in queries {
        let found = query::columns(&evidence, query.sql.trim()).and_then(|found| query.require(&found));
        if let Err(said) = found {
            let complaint = source.complain(query.span, "this query cannot be run");
            wrong.take::<()>(Err(complaint.help(said)));
        }
    }
}

/// The tables of a study that has not been measured.
fn empty() -> Result<Evidence, crate::store::StoreError> {
    let record = StudyRecord {
        hash: String::new(),
        ground: WrittenPlace::from(""),
        study: Study::new("", "", Vec::new(), Vec::new()),
        sentinels: false,
        ended_early: None,
        sessions: Vec::new(),
    };
    Evidence::new(&Store::not_begun("".as_ref())?, &record)
}

/// A query as it is written.
struct Query<'a> {
    what: &'static str,
    kind: &'a str,
    sql: &'a str,
    span: std::ops::Range<usize>,
}

/// The queries of the tables of a kind; what is no text is complained about elsewhere.
fn queries<'a>(study: &'a DeTable<'_>, what: &'static str) -> Vec<Query<'a>> {
    let entries = study.get(what).and_then(|value| value.get_ref().as_array());
    let entry = |entry: &'a Spanned<DeValue<'_>>| {
        let table = entry.get_ref().as_table()?;
        let kind = table.get("kind").and_then(|kind| kind.get_ref().as_str()).unwrap_or_default();
        let sql = table.get("sql")?;
        let text = sql.get_ref().as_str().filter(|text| !text.trim().is_empty())?;
        Some(Query { what, kind, sql: text, span: sql.span() })
    };
    entries.into_iter().flat_map(|entries| entries.iter()).filter_map(entry).collect()
}

impl Query<'_> {
    fn require(&self, found: &Found) -> Result<(), String> {
        match self.what {
            "claim" => {
                named(&CLAIM_KINDS, self.kind).map_or(Ok(()), |kind| judge::require_columns(kind, found))
            }
            "figure" => named(&FIGURE_KINDS, self.kind).map_or(Ok(()), |kind| found.require(kind.columns())),
            _ => found.require(finding::COLUMNS),
        }
    }
}

fn named<T: Copy>(kinds: &[(&str, T)], name: &str) -> Option<T> {
    kinds.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}
