//! What a study found, in sentences that its queries make of its results.

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::kept::{Kept, MOST_FINDINGS, TooMuch, check_sentences};
use super::query;
use crate::store::StudyRecord;

/// The columns that a query has to return.
pub(super) const COLUMNS: &[&str] = &["sentence"];

/// What is asked of the results, to be answered in sentences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingQuery {
    /// Short name, such as `fsync`.
    pub id: String,
    /// What it is about, in a line.
    pub title: String,
    /// The query: column `sentence`; each row is one.
    pub sql: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was asked.
    pub query: FindingQuery,
    /// What was found, in the query's order.
    pub sentences: Vec<String>,
    /// Why there are no sentences.
    pub problem: Option<String>,
}

/// Queries the results of a study. A wrong query is not an error: its finding says so.
pub(super) fn findings_by(evidence: &Evidence, study: &StudyRecord, kept: &mut Kept) -> Vec<Finding> {
    let finding = |(index, query): (usize, &FindingQuery)| {
        if index >= MOST_FINDINGS {
            return unanswered(query, TooMuch::Findings.to_string());
        }
        let finding = answer(evidence, query);
        match kept.add_finding(&finding) {
            Ok(()) => finding,
            Err(refusal) => unanswered(query, refusal.to_string()),
        }
    };
    study.study.findings.iter().enumerate().map(finding).collect()
}

fn answer(evidence: &Evidence, query: &FindingQuery) -> Finding {
    let sentences = query::run(evidence, &query.sql).and_then(|found| {
        found.require(COLUMNS)?;
        check_sentences(&found).map_err(|e| e.to_string())?;
        // A sentence of which a number is missing is NULL: it was not measured.
        Ok(found.rows().filter_map(|row| row.text("sentence")).collect::<Vec<_>>())
    });
    match sentences {
        Ok(sentences) if sentences.is_empty() => {
            unanswered(query, "no counted run has the values that it reports".to_owned())
        }
        Ok(sentences) => Finding { query: query.clone(), sentences, problem: None },
        Err(wrong) => unanswered(query, format!("the query of {} is wrong: {wrong}", query.id)),
    }
}

fn unanswered(query: &FindingQuery, problem: String) -> Finding {
    Finding { query: query.clone(), sentences: Vec::new(), problem: Some(problem) }
}
