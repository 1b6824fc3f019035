//! Claims on a ratio: from the rows of a query to a verdict, part by part.

use std::collections::BTreeSet;

use nestor_statistics::{Ratio, equivalence, mean_at, paired_ratio_at, unpaired_ratio_at};

use super::judge::{EvidencePair, Judgement};
use super::kept::{MOST_PARTS, check_count};
use super::missing::Missing;
use super::query::{Found, Row};
use super::verdict::{self, Stated};
use super::{Claim, ClaimPart, Expected, Verdict};

/// How a claim is judged.
#[derive(Clone, Copy)]
struct Rule {
    expected: Expected,
    stated: Stated,
    /// Of the study's intervals.
    confidence: f64,
}

/// The effect of some rows.
struct Effect {
    ratio: Option<Ratio>,
    /// Whether it is shown to be none, if that was tested.
    equivalent: Option<bool>,
    /// Rows that lack a number.
    left_out: usize,
}

/// Judges what a query found.
///
/// # Errors
///
/// What is wrong with the query: a column that it does not give.
pub(super) fn judge(
    found: &Found,
    claim: &Claim,
    sql: &str,
    missing: &Missing,
    confidence: f64,
) -> Result<Judgement, String> {
    let Some(expected) = claim.expected else {
        return Err("the claim has no `expected`".to_owned());
    };
    found.require(columns_of(found))?;
    let rule = Rule { expected, stated: Stated { margin: claim.margin, band: claim.band }, confidence };
    let mut judged = if found.has("part") { of_parts(found, rule)? } else { of_rows(found, rule) };
    if judged.reason.is_empty() {
        judged.reason = missing.of_query(sql);
    } else if judged.verdict == Verdict::NotTestable {
        let also = missing.of_query_if_any(sql);
        if !also.is_empty() {
            judged.reason = format!("{}; {also}", judged.reason);
        }
    }
    Ok(judged)
}

/// How the rows say what they compare.
fn columns_of(found: &Found) -> &'static [&'static str] {
    if found.has("pseudovalue") {
        &["pseudovalue"]
    } else if found.has("side") {
        &["side", "value"]
    } else {
        &["baseline", "candidate"]
    }
}

/// If there is nothing to judge, the reason is empty.
fn of_rows(found: &Found, rule: Rule) -> Judgement {
    let Effect { ratio, equivalent, left_out } = match columns_of(found) {
        ["pseudovalue"] => effect_of_pseudovalues(found, rule.confidence),
        ["side", ..] => effect_of_sides(found, rule.confidence),
        _ => effect_of_pairs(found, rule),
    };
    let evidence: Vec<EvidencePair> = found.rows().filter_map(EvidencePair::of).collect();
    let Some(effect) = ratio else { return Judgement { evidence, ..Judgement::not_testable("") } };
    let (verdict, mut reason) = verdict::of_ratio(&effect, rule.expected, rule.stated, equivalent);
    if verdict != Verdict::NotTestable {
        reason = format!("{reason}; {} pairs", effect.pairs);
        if left_out > 0 {
            reason.push_str(&format!(", {left_out} without both numbers left out"));
        }
    }
    Judgement { verdict, effect: Some(effect), reason, evidence, deciding: None, parts: Vec::new() }
}

/// Every part has to hold: the worst verdict decides; of equal ones, the first.
fn of_parts(found: &Found, rule: Rule) -> Result<Judgement, String> {
    let groups = found.grouped_by("part");
    check_count("part", MOST_PARTS, groups.iter().map(|(name, _)| name.as_str()))
        .map_err(|e| e.to_string())?;
    let parts: Vec<(String, Judgement)> =
        groups.into_iter().map(|(name, rows)| (name, of_rows(&rows, rule))).collect();
    let evidence = evidence_of(&parts);
    let is_empty = parts.iter().all(|(_, part)| part.effect.is_none());
    let reasons: Vec<String> = parts.iter().map(|(name, part)| in_words(name, part)).collect();
    let named: Vec<ClaimPart> = parts.iter().map(|(name, part)| part_of(name, part)).collect();
    // The first of the heaviest, where `max_by_key` gives the last.
    let deciding = parts.into_iter().rev().max_by_key(|(_, part)| part.verdict.weight());
    let Some((_, worst)) = deciding.filter(|_| !is_empty) else {
        return Ok(Judgement { evidence, ..Judgement::not_testable("") });
    };
    Ok(Judgement {
        reason: reasons.join("; "),
        evidence,
        deciding: Some(worst.evidence),
        parts: named,
        ..worst
    })
}

/// Two parts may look at the same pair of runs, which is one piece of evidence.
fn evidence_of(parts: &[(String, Judgement)]) -> Vec<EvidencePair> {
    let mut all: Vec<EvidencePair> = Vec::new();
    let mut known = BTreeSet::new();
    for (_, part) in parts {
        let new: Vec<EvidencePair> = part
            .evidence
            .iter()
            .filter(|pair| !known.contains(&(pair.run, pair.baseline_run)))
            .copied()
            .collect();
        // Only now: within a part, rows of the same runs count each.
        known.extend(new.iter().map(|pair| (pair.run, pair.baseline_run)));
        all.extend(new);
    }
    all
}

fn part_of(name: &str, part: &Judgement) -> ClaimPart {
    ClaimPart {
        name: name.to_owned(),
        verdict: part.verdict,
        effect: part.effect,
        reason: part.reason.clone(),
    }
}

/// `merging: -12.0 % [-15.0, -9.0], reproduced (the interval says less; 6 pairs)`.
fn in_words(name: &str, part: &Judgement) -> String {
    let Some(effect) = part.effect else {
        return format!("{name}: {} (no pair has both numbers)", part.verdict.words());
    };
    let interval = effect
        .change_interval_percent()
        .map(|i| format!(" [{:+.1}, {:+.1}]", i.low, i.high))
        .unwrap_or_default();
    let change = effect.change_percent();
    format!("{name}: {change:+.1} %{interval}, {} ({})", part.verdict.words(), part.reason)
}

fn effect_of_pairs(found: &Found, rule: Rule) -> Effect {
    let pairs: Vec<(f64, f64)> = found
        .rows()
        .filter_map(|row| Some((positive(row, "baseline")?, positive(row, "candidate")?)))
        .collect();
    let equivalence = equivalence(&pairs, 1.0, rule.stated.likeness(), rule.confidence);
    Effect {
        ratio: paired_ratio_at(&pairs, rule.confidence),
        equivalent: equivalence.map(|e| e.equivalent),
        left_out: found.len() - pairs.len(),
    }
}

fn effect_of_sides(found: &Found, confidence: f64) -> Effect {
    let side = |name: &str| -> Vec<f64> {
        found
            .rows()
            .filter(|r| r.text("side").as_deref() == Some(name))
            .filter_map(|r| positive(r, "value"))
            .collect()
    };
    let (baseline, candidate) = (side("baseline"), side("candidate"));
    let used = baseline.len() + candidate.len();
    let ratio = unpaired_ratio_at(&baseline, &candidate, confidence);
    Effect { ratio, equivalent: None, left_out: found.len() - used }
}

/// The jackknife's estimate is the arithmetic mean of its pseudo-values, some of which may be below zero, with the t-interval
/// of that mean (Tukey 1958).
fn effect_of_pseudovalues(found: &Found, confidence: f64) -> Effect {
    let values: Vec<f64> = found.rows().filter_map(|row| row.number("pseudovalue")).collect();
    let ratio = mean_at(&values, confidence).map(|m| Ratio {
        value: m.value,
        interval: m.interval,
        pairs: m.samples,
    });
    Effect { ratio, equivalent: None, left_out: found.len() - values.len() }
}

/// A number of which there is a logarithm.
pub(super) fn positive(row: Row<'_>, column: &str) -> Option<f64> {
    row.number(column).filter(|n| *n > 0.0)
}
