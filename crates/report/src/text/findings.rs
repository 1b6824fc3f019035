//! What a replicated study found, in a few lines: how many claims hold, what contradicts the paper, what holds most clearly.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nestor_results::{ClaimResult, Tally, Verdict};
use nestor_text::visible_in_columns as visible;

use super::claims::{deciding_part, found_words};

/// How many claims of each kind are told: with the counts, the marks and the two lines that count the rest, nine lines at most.
const CONTRADICTED: usize = 3;
const REPRODUCED: usize = 2;

/// At most nine lines of Markdown: the counts, the marks of the runs, then what contradicts the paper, then what it says rightly, in both the clearest
/// first. Only what was measured counts.
pub fn claim_findings(results: &[ClaimResult]) -> Vec<String> {
    let mut lines = vec![capitalised(&Tally::of(results).in_words())];
    lines.extend(marks(results));
    lines.extend(clearest(results, Verdict::Contradicted, CONTRADICTED));
    lines.extend(clearest(results, Verdict::Reproduced, REPRODUCED));
    lines.into_iter().map(|line| format!("- {line}")).collect()
}

/// `Less certain, because their runs are marked: not-steady in 31 of 34 rows, cpu-bound in 5`, of the rows that are tested.
fn marks(results: &[ClaimResult]) -> Option<String> {
    let tested = || results.iter().filter(|r| r.claim.kind.is_measured() && r.verdict.is_tested());
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for mark in tested().flat_map(|result| result.marked.keys()) {
        *rows.entry(mark).or_default() += 1;
    }
    let mut rows: Vec<(&str, usize)> = rows.into_iter().collect();
    rows.sort_by_key(|(_, count)| Reverse(*count));
    let mut words = rows.iter().map(|(mark, count)| format!("{mark} in {count}"));
    let first = words.next()?;
    let all = [format!("{first} of {} rows", tested().count())].into_iter().chain(words);
    let all = all.collect::<Vec<_>>().join(", ");
    Some(format!("Less certain, because their runs are marked: {all}"))
}

/// The claims of one verdict whose intervals are farthest from no effect, and how many there are besides.
fn clearest(results: &[ClaimResult], verdict: Verdict, most: usize) -> Vec<String> {
    let is_told = |r: &&ClaimResult| r.claim.kind.is_measured() && r.verdict == verdict;
    let mut told: Vec<&ClaimResult> = results.iter().filter(is_told).collect();
    told.sort_by_key(|result| Reverse(distance_per_mille(result)));
    let rest = told.len().saturating_sub(most);
    let mut lines: Vec<String> = told.iter().take(most).map(|result| sentence(result)).collect();
    if rest > 0 {
        lines.push(format!("{rest} more {} {}", if rest == 1 { "is" } else { "are" }, verdict.words()));
    }
    lines
}

/// How far the nearer end of the interval is from no effect, on the logarithmic scale; 0 if it has no interval or includes it.
fn distance_per_mille(result: &ClaimResult) -> u64 {
    let interval = result.effect.as_ref().and_then(|effect| effect.interval);
    let distance = interval.map_or(0.0, |i| i.low.ln().max(-i.high.ln()));
    if distance.is_finite() { (distance.max(0.0) * 1000.0) as u64 } else { 0 }
}

/// `Contradicted: L-15, ReiserFS on Ext2, database: paper -67 %; here +2.0 % [-5.0, +9.0]`; with the name of the part that decides,
/// and why it does, where a claim has several: a part may ask for more where the claim asks for less.
fn sentence(result: &ClaimResult) -> String {
    let claim = &result.claim;
    let mut text =
        format!("{}: {}, {}", capitalised(result.verdict.words()), visible(&claim.id), visible(&claim.title));
    let because = deciding_part(result).filter(|part| !part.reason.is_empty());
    let because = because.map(|part| format!(" ({})", visible(&part.reason))).unwrap_or_default();
    let found = found_words(result).map(|found| format!("here {found}{because}"));
    let paper = (!claim.paper.is_empty()).then(|| format!("paper {}", visible(&claim.paper)));
    let values: Vec<String> = paper.into_iter().chain(found).collect();
    if !values.is_empty() {
        text.push_str(&format!(": {}", values.join("; ")));
    }
    text
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
