//! Claims on a ratio: from the rows of a query to a verdict, part by part.

use std::collections::BTreeSet;

use nestor_statistics::{
    GroupSample, Interval, Ratio, Variation, equivalence, equivalent_by_interval, mean_at, paired_ratio_at,
    unpaired_ratio_at, variation_between, variation_difference,
};
use nestor_text::units::share;

use super::effect_unit::EffectUnit;
use super::judge::{EvidencePair, Judgement, SharedBaselines};
use super::kept::{MOST_PARTS, check_count, told};
use super::missing::Missing;
use super::parse::DIRECTIONS;
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
    /// What is counted.
    of: &'static str,
    unit: EffectUnit,
}

/// The reason where a variation has no estimate or no interval.
const FEW_BLOCKS: &str = "a variation needs three blocks that each have all of at least three members: two blocks have no interval";

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
    judged.evidence.extend(summed_up(found)?);
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
pub(super) fn columns_of(found: &Found) -> &'static [&'static str] {
    if found.has("member") {
        &["member", "block", "value"]
    } else if found.has("pseudovalue") {
        &["pseudovalue"]
    } else if found.has("side") {
        &["side", "value"]
    } else if found.has("ratio") && !found.has("baseline") {
        &["ratio"]
    } else {
        &["baseline", "candidate"]
    }
}

/// If there is nothing to judge, the reason is empty.
fn of_rows(found: &Found, rule: Rule) -> Judgement {
    let rule = rule.of_chosen(found);
    let Effect { ratio, equivalent, left_out, of, unit } = match columns_of(found) {
        ["member", ..] => effect_of_variation(found, rule.confidence),
        ["pseudovalue"] => effect_of_pseudovalues(found, rule.confidence),
        ["side", ..] => effect_of_sides(found, rule.confidence),
        ["ratio"] => effect_of_ratios(found, rule),
        _ => effect_of_pairs(found, rule),
    };
    let evidence = evidence_of_rows(found);
    let varies = found.has("member");
    let Some(effect) = ratio.filter(|effect| !varies || effect.interval.is_some()) else {
        let reason = if varies && found.len() > 0 { FEW_BLOCKS } else { "" };
        return Judgement { evidence, effect: ratio, unit, ..Judgement::not_testable(reason) };
    };
    let (verdict, mut reason) = verdict::of_ratio(&effect, rule.expected, rule.stated, equivalent);
    if verdict != Verdict::NotTestable {
        reason = format!("{reason}; {} {of}", effect.pairs);
        if left_out > 0 {
            reason.push_str(&format!(", {left_out} without both numbers left out"));
        }
    }
    let shared = SharedBaselines::of(&evidence);
    Judgement {
        verdict,
        effect: Some(effect),
        unit,
        reason,
        evidence,
        deciding: None,
        parts: Vec::new(),
        shared,
    }
}

/// Every part has to hold: the worst verdict decides; of equal ones, the first.
fn of_parts(found: &Found, rule: Rule) -> Result<Judgement, String> {
    let groups = found.grouped_by("part");
    check_count("part", MOST_PARTS, groups.iter().map(|(name, _)| name.as_str()))
        .map_err(|e| e.to_string())?;
    let by_themselves: Vec<Judgement> = groups
        .iter()
        .map(|(_, rows)| Ok(of_rows(rows, rule.of_part(rows)?)))
        .collect::<Result<_, String>>()?;
    let judged = by_themselves.iter().filter(|part| part.effect.is_some()).count();
    let parts: Vec<(String, Judgement)> = groups
        .into_iter()
        .zip(by_themselves)
        .map(|((name, rows), part)| Ok((name, beyond_chance(part, &rows, rule, judged)?)))
        .collect::<Result<_, String>>()?;
    let evidence = evidence_of(&parts);
    let is_empty = parts.iter().all(|(_, part)| part.effect.is_none());
    let reasons: Vec<String> = parts.iter().map(|(name, part)| in_words(name, part)).collect();
    // Each part has an interval of its own.
    let shared = parts.iter().find_map(|(_, part)| part.shared);
    let named: Vec<ClaimPart> = parts.iter().map(|(name, part)| part_of(name, part)).collect();
    // The first of the heaviest, where `max_by_key` gives the last.
    let deciding = parts.into_iter().rev().max_by_key(|(_, part)| part.verdict.weight());
    let Some((_, worst)) = deciding.filter(|_| !is_empty) else {
        let why = named.iter().find(|part| !part.reason.is_empty());
        let reason = why.map(|part| part.reason.clone()).unwrap_or_default();
        return Ok(Judgement { evidence, parts: named, ..Judgement::not_testable(reason) });
    };
    Ok(Judgement {
        reason: reasons.join("; "),
        evidence,
        deciding: Some(worst.evidence),
        parts: named,
        shared,
        ..worst
    })
}

/// A part among so many that one may contradict by chance: if it does by its own interval, it has to by a wider one as well.
fn beyond_chance(part: Judgement, rows: &Found, rule: Rule, parts: usize) -> Result<Judgement, String> {
    if part.verdict != Verdict::Contradicted {
        return Ok(part);
    }
    let confidence = verdict::confidence_of_contradiction(rule.confidence, parts);
    let strict = of_rows(rows, Rule { confidence, ..rule.of_part(rows)? });
    if strict.verdict == Verdict::Contradicted {
        return Ok(part);
    }
    let reason = format!(
        "contradicted by itself, but one of {parts} parts may be by chance: at {} it is undecided; {}",
        share(confidence),
        part.reason
    );
    Ok(Judgement { verdict: Verdict::Undecided, reason, ..part })
}

impl Rule {
    /// What was chosen on one half of the blocks and judged on the other, and the other way round, is not twice as much evidence: the two
    /// choices depend on each other's half, and a 95 % interval would miss in up to 9 % of the studies. Half the error holds 5 %.
    fn of_chosen(self, rows: &Found) -> Self {
        let is_chosen = rows.rows().any(|row| row.integer("chosen") == Some(1));
        if is_chosen { Self { confidence: 1.0 - (1.0 - self.confidence) / 2.0, ..self } } else { self }
    }

    /// The rule of a part, which may state another direction or another ratio than its claim in the column `expected`.
    fn of_part(self, rows: &Found) -> Result<Self, String> {
        if !rows.has("expected") {
            return Ok(self);
        }
        if let Some(ratio) = rows.rows().find_map(|row| positive(row, "expected")) {
            // The claim's band is of the claim's own change.
            let stated = Stated { band: None, ..self.stated };
            return Ok(Self { expected: Expected::Change { low: ratio, high: ratio }, stated, ..self });
        }
        let Some(word) = rows.rows().find_map(|row| row.text("expected")) else { return Ok(self) };
        match DIRECTIONS.iter().find(|(name, _)| *name == word) {
            Some((_, expected)) => Ok(Self { expected: *expected, ..self }),
            None => Err(format!(
                "its column `expected` says `{}`; it has a ratio above 0 or one of {}",
                told(word),
                DIRECTIONS.map(|(name, _)| name).join(", ")
            )),
        }
    }
}

/// The runs of the rows. What a block's runs share cancels out of a variation, so there no run is the baseline of another.
fn evidence_of_rows(found: &Found) -> Vec<EvidencePair> {
    let pairs = found.rows().filter_map(EvidencePair::of);
    if !found.has("member") {
        return pairs.collect();
    }
    let runs: BTreeSet<i64> = pairs.flat_map(|pair| [Some(pair.run), pair.baseline_run]).flatten().collect();
    runs.into_iter().map(|run| EvidencePair { run, baseline_run: None, ratio: None }).collect()
}

/// The runs that rows sum up: the numbers in their column `all_runs`, as `group_concat` writes them.
fn summed_up(found: &Found) -> Result<Vec<EvidencePair>, String> {
    let lists: Vec<String> = found.rows().filter_map(|row| row.text("all_runs")).collect();
    let run = |number: &str| match number.trim().parse() {
        Ok(run) => Ok(EvidencePair { run, baseline_run: None, ratio: None }),
        Err(_) => {
            Err(format!("its column `all_runs` has `{}`; write group_concat(run)", told(number.to_owned())))
        }
    };
    lists.iter().flat_map(|list| list.split(',')).map(run).collect()
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
        unit: part.unit,
        reason: part.reason.clone(),
    }
}

/// `merging: -12.0 % [-15.0, -9.0], reproduced (the interval says less; 6 pairs)`.
fn in_words(name: &str, part: &Judgement) -> String {
    let Some(effect) = part.effect else {
        let reason = if part.reason.is_empty() { "no pair has both numbers" } else { &part.reason };
        return format!("{name}: {} ({reason})", part.verdict.words());
    };
    format!("{name}: {}, {} ({})", part.unit.in_words(&effect), part.verdict.words(), part.reason)
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
        of: "pairs",
        unit: EffectUnit::Percent,
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
    Effect { ratio, equivalent: None, left_out: found.len() - used, of: "pairs", unit: EffectUnit::Percent }
}

/// The jackknife's estimate is the arithmetic mean of its pseudo-values, some of which may be below zero, with the t-interval
/// of that mean (Tukey 1958).
fn effect_of_pseudovalues(found: &Found, confidence: f64) -> Effect {
    let values: Vec<f64> = found.rows().filter_map(|row| row.number("pseudovalue")).collect();
    let left_out = found.len() - values.len();
    Effect {
        ratio: arithmetic_mean(&values, confidence),
        equivalent: None,
        left_out,
        of: "pseudo-values",
        unit: EffectUnit::Percent,
    }
}

/// Ratios that may be below zero, as that of a line's end to its middle is: their logarithms would leave out just the blocks that speak
/// against an effect. Likeness is shown by the two one-sided tests, as of pairs.
fn effect_of_ratios(found: &Found, rule: Rule) -> Effect {
    let values: Vec<f64> = found.rows().filter_map(|row| row.number("ratio")).collect();
    let both_tests = arithmetic_mean(&values, 1.0 - 2.0 * (1.0 - rule.confidence));
    Effect {
        ratio: arithmetic_mean(&values, rule.confidence),
        equivalent: both_tests.and_then(|r| equivalent_by_interval(&r, 1.0, rule.stated.likeness())),
        left_out: found.len() - values.len(),
        of: "ratios",
        unit: EffectUnit::Percent,
    }
}

fn arithmetic_mean(ratios: &[f64], confidence: f64) -> Option<Ratio> {
    mean_at(ratios, confidence).map(|m| Ratio { value: m.value, interval: m.interval, pairs: m.samples })
}

fn is_on(row: Row<'_>, side: Option<&str>) -> bool {
    side.is_none_or(|name| row.text("side").as_deref() == Some(name))
}

/// The values of these members on a side, each of a block.
fn samples_of(found: &Found, names: &BTreeSet<String>, side: Option<&str>) -> Vec<GroupSample> {
    let sample = |row: Row<'_>| {
        let name = row.text("member")?;
        Some(GroupSample {
            group: names.iter().position(|known| *known == name)?,
            block: u32::try_from(row.integer("block")?).ok()?,
            value: positive(row, "value")?,
        })
    };
    found.rows().filter(|row| is_on(*row, side)).filter_map(sample).collect()
}

/// How much the members vary, free of what their runs vary by: 1.45 is a coefficient of variation of 45 %. With two sides, by how much
/// the candidate's exceeds the baseline's: 0.9 is ten points of the coefficient less.
fn effect_of_variation(found: &Found, confidence: f64) -> Effect {
    let members_of = |side: Option<&str>| -> BTreeSet<String> {
        let rows = found.rows().filter(|row| is_on(*row, side) && positive(*row, "value").is_some());
        rows.filter_map(|row| row.text("member")).collect()
    };
    // Variations over different members are not compared.
    let names: BTreeSet<String> = match found.has("side") {
        true => members_of(Some("baseline")).intersection(&members_of(Some("candidate"))).cloned().collect(),
        false => members_of(None),
    };
    let as_ratio = |value: f64, interval: Option<Interval>, blocks: usize| Ratio {
        value: 1.0 + value,
        interval: interval.map(|i| Interval { low: 1.0 + i.low, high: 1.0 + i.high }),
        pairs: blocks,
    };
    let variation = |side: Option<&str>| -> (Option<Variation>, usize) {
        let samples = samples_of(found, &names, side);
        (variation_between(&samples, confidence), samples.len())
    };
    let (ratio, used) = if found.has("side") {
        let ((a, of_a), (b, of_b)) = (variation(Some("baseline")), variation(Some("candidate")));
        let ratio = a.zip(b).map(|(a, b)| {
            let (difference, interval) = variation_difference(&a, &b);
            as_ratio(difference, interval, a.blocks.min(b.blocks))
        });
        (ratio, of_a + of_b)
    } else {
        let (all, used) = variation(None);
        let shown = |v: Variation| {
            let above = |i: Interval| Interval { low: i.low.max(0.0), high: i.high.max(0.0) };
            as_ratio(v.value.max(0.0), v.interval.map(above), v.blocks)
        };
        (all.map(shown), used)
    };
    let unit = if found.has("side") { EffectUnit::Points } else { EffectUnit::Percent };
    Effect { ratio, equivalent: None, left_out: found.len() - used, of: "blocks", unit }
}

/// A number of which there is a logarithm.
pub(super) fn positive(row: Row<'_>, column: &str) -> Option<f64> {
    row.number(column).filter(|n| *n > 0.0)
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod line_tests;

#[cfg(test)]
#[path = "order_tests.rs"]
mod order_tests;
