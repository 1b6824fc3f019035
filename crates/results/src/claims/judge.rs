//! Runs each claim's query and judges the claim by its answer.

use std::collections::{BTreeMap, BTreeSet};

use nestor_statistics::Ratio;
use nestor_text::units::listed;

use super::draw::figures_by;
use super::effect_unit::EffectUnit;
use super::evidence::Evidence;
use super::finding::{Finding, findings_by};
use super::kept::{Kept, MOST_CLAIMS, TooMuch, check_names, told};
use super::missing::Missing;
use super::query::{self, Found, Row};
use super::ratio::{self, positive};
use super::{Claim, ClaimKind, ClaimPart, ClaimResult, Expected, Figure, Verdict, why};
use crate::store::{Store, StoreError, StudyRecord};

/// What one query says of a claim.
pub(super) struct Judgement {
    pub verdict: Verdict,
    pub effect: Option<Ratio>,
    pub unit: EffectUnit,
    pub reason: String,
    pub evidence: Vec<EvidencePair>,
    /// Those of the part that decided, where a claim has parts.
    pub deciding: Option<Vec<EvidencePair>>,
    /// The parts.
    pub parts: Vec<ClaimPart>,
    /// Runs of a baseline that stand for several pairs of one interval.
    pub shared: Option<SharedBaselines>,
}

/// Pairs of one interval that have fewer runs of a baseline than they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SharedBaselines {
    pairs: usize,
    baselines: usize,
}

impl SharedBaselines {
    /// Of the pairs of one interval, if they share some.
    pub fn of(pairs: &[EvidencePair]) -> Option<Self> {
        let runs: Vec<i64> = pairs.iter().filter_map(|pair| pair.baseline_run).collect();
        let baselines = runs.iter().collect::<BTreeSet<_>>().len();
        (baselines < runs.len()).then_some(Self { pairs: runs.len(), baselines })
    }
}

/// A query names a run that is not in the results.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its query names run {run}, which is not in these results; take `run` and `baseline_run` from `cell`, `twin` or `pair`"
)]
struct NoSuchRun {
    run: i64,
}

/// A run behind a claim and the one it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EvidencePair {
    pub run: i64,
    pub baseline_run: Option<i64>,
    /// Candidate over baseline, where the row has both.
    pub ratio: Option<f64>,
}

impl EvidencePair {
    /// `None` for a row that names no run.
    pub fn of(row: Row<'_>) -> Option<Self> {
        let ratio = positive(row, "baseline").zip(positive(row, "candidate")).map(|(b, c)| c / b);
        Some(Self { run: row.integer("run")?, baseline_run: row.integer("baseline_run"), ratio })
    }
}

impl Judgement {
    pub fn not_testable(reason: impl Into<String>) -> Self {
        Self::of_rows(Verdict::NotTestable, reason.into(), Vec::new())
    }

    fn of_rows(verdict: Verdict, reason: String, evidence: Vec<EvidencePair>) -> Self {
        Self {
            verdict,
            effect: None,
            unit: EffectUnit::default(),
            reason,
            evidence,
            deciding: None,
            parts: Vec::new(),
            shared: None,
        }
    }
}

/// Judges the claims of a study by its results.
///
/// # Errors
///
/// If the results file cannot be read. A claim whose query is wrong is not an error: its result says so.
pub fn judge(store: &Store, study: &StudyRecord) -> Result<Vec<ClaimResult>, StoreError> {
    if study.study.claims.is_empty() {
        return Ok(Vec::new());
    }
    judge_by(&Evidence::new(store, study)?, store, study, &mut Kept::default())
}

/// The answers to everything that a study asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// Its claims.
    pub claims: Vec<ClaimResult>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Its findings.
    pub findings: Vec<Finding>,
}

/// Judges the claims of a study, fills its figures and writes its findings; all share one set of tables.
///
/// # Errors
///
/// As [`judge`].
pub fn answer_all(store: &Store, study: &StudyRecord) -> Result<Answers, StoreError> {
    let asked = &study.study;
    if asked.claims.is_empty() && asked.figures.is_empty() && asked.findings.is_empty() {
        return Ok(Answers::default());
    }
    let evidence = Evidence::new(store, study)?;
    // Before the claims, which look at other cache modes too.
    let mut kept = Kept::default();
    let findings = findings_by(&evidence, study, &mut kept);
    let figures = figures_by(&evidence, study, &mut kept);
    Ok(Answers { claims: judge_by(&evidence, store, study, &mut kept)?, figures, findings })
}

fn judge_by(
    evidence: &Evidence,
    store: &Store,
    study: &StudyRecord,
    kept: &mut Kept,
) -> Result<Vec<ClaimResult>, StoreError> {
    let failed = |e: rusqlite::Error| store.reading_error(&e);
    let claims = &study.study.claims;
    let missing = Missing::of(evidence, study).map_err(failed)?;
    let mut results = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        if index >= MOST_CLAIMS {
            results.push(not_judged(claim, &TooMuch::Claims));
            continue;
        }
        let judged = judge_one(evidence, claim, &missing);
        let result = with_evidence(evidence, claim, judged).map_err(failed)?;
        results.push(match kept.add_claim(&result) {
            Ok(()) => result,
            Err(refusal) => not_judged(claim, &refusal),
        });
    }
    for mode in evidence.modes().iter().skip(1) {
        evidence.choose(mode).map_err(failed)?;
        for (claim, result) in claims.iter().zip(&mut results).take(MOST_CLAIMS) {
            if claim.sql.as_deref().is_some_and(compares_with_raw_disk) {
                let way = format!("raw disk with cache={mode}");
                if let Err(refusal) = kept.add(way.len() + size_of::<(String, Option<Ratio>, Verdict)>()) {
                    result.doubts.push(format!("not judged by every cache mode: {refusal}"));
                    return Ok(results);
                }
                let judged = judge_one(evidence, claim, &missing);
                result.other.push((way, judged.effect, judged.verdict));
            }
        }
    }
    Ok(results)
}

fn not_judged(claim: &Claim, refusal: &dyn std::error::Error) -> ClaimResult {
    ClaimResult {
        claim: claim.clone(),
        verdict: Verdict::NotTestable,
        effect: None,
        unit: EffectUnit::default(),
        reason: format!("{} is not judged: {refusal}", claim.id),
        parts: Vec::new(),
        other: Vec::new(),
        coverage: None,
        marked: BTreeMap::new(),
        doubts: Vec::new(),
        runs: Vec::new(),
        why: Vec::new(),
    }
}

fn compares_with_raw_disk(sql: &str) -> bool {
    query::names(sql, "pair") || query::names(sql, "raw_disk")
}

fn with_evidence(evidence: &Evidence, claim: &Claim, judged: Judgement) -> rusqlite::Result<ClaimResult> {
    let runs: BTreeSet<i64> =
        judged.evidence.iter().flat_map(|pair| [Some(pair.run), pair.baseline_run]).flatten().collect();
    if let Some(run) = evidence.runs().unknown_run(&runs) {
        return Ok(not_judged(claim, &NoSuchRun { run }));
    }
    // The configuration does not depend on how well a run went.
    let is_measured = claim.kind.is_measured();
    let why = match judged.verdict {
        Verdict::Contradicted if is_measured => {
            let deciding = judged.deciding.as_deref().filter(|pairs| !pairs.is_empty());
            why::by_layers(evidence.connection(), deciding.unwrap_or(&judged.evidence))?
        }
        _ => Vec::new(),
    };
    let marked = if is_measured { evidence.runs().marked(&runs) } else { BTreeMap::new() };
    let doubts = if is_measured { doubts(evidence, &judged, &runs, &marked)? } else { Vec::new() };
    Ok(ClaimResult {
        claim: claim.clone(),
        verdict: judged.verdict,
        effect: judged.effect,
        unit: judged.unit,
        reason: judged.reason,
        parts: judged.parts,
        other: Vec::new(),
        coverage: (is_measured && !runs.is_empty()).then(|| evidence.file_systems().of(&runs)),
        marked,
        doubts,
        runs: runs.into_iter().collect(),
        why,
    })
}

/// The marks that a comparison must not be made without; and whether the pairs are less independent than the interval takes them to be.
fn doubts(
    evidence: &Evidence,
    judged: &Judgement,
    runs: &BTreeSet<i64>,
    marked: &BTreeMap<String, usize>,
) -> rusqlite::Result<Vec<String>> {
    let in_words = |(mark, count): (&String, &usize)| format!("{mark} in {count} of {} runs", runs.len());
    let mut doubts: Vec<String> = marked.iter().map(in_words).collect();
    doubts.extend(judged.shared.map(|SharedBaselines { pairs, baselines }| {
        format!("{pairs} pairs share {baselines} baseline runs, so the interval is too narrow")
    }));
    doubts.extend(traced_differently(evidence, &judged.evidence));
    doubts.extend(evidence.left_out(runs)?);
    Ok(doubts)
}

/// Recording requests costs time, so the sides of a pair that were traced differently are not quite comparable.
fn traced_differently(evidence: &Evidence, pairs: &[EvidencePair]) -> Option<String> {
    let compared: Vec<(i64, i64)> =
        pairs.iter().filter_map(|pair| Some((pair.run, pair.baseline_run?))).collect();
    let differing = evidence.runs().traced_differently(compared.iter().copied());
    let count: usize = differing.values().sum();
    (count > 0).then(|| {
        let modes = listed(differing.keys());
        format!("the two sides were traced differently ({modes}) in {count} of {} pairs", compared.len())
    })
}

fn judge_one(evidence: &Evidence, claim: &Claim, missing: &Missing) -> Judgement {
    let Some(sql) = &claim.sql else {
        return Judgement::not_testable(claim.not_testable.clone().unwrap_or_default());
    };
    let answer = query::run(evidence, sql).and_then(|found| {
        if found.len() == 0 {
            return Ok(Judgement::not_testable(missing.of_query(sql)));
        }
        check_names(&found, &["part", "what", "side"]).map_err(|e| e.to_string())?;
        match claim.kind {
            ClaimKind::Setup => judge_setup(&found),
            ClaimKind::Constant => judge_constant(&found, claim.expected),
            ClaimKind::Ratio | ClaimKind::Predicate => {
                ratio::judge(&found, claim, sql, missing, evidence.confidence())
            }
        }
    });
    answer.unwrap_or_else(|wrong| {
        Judgement::not_testable(format!("the query of {} is wrong: {wrong}", claim.id))
    })
}

const CONSTANT_COLUMNS: &[&str] = &["found", "expected"];
const SETUP_COLUMNS: &[&str] = &["what", "found", "published"];

/// Refuses what the query of a claim would find if it lacks a column.
///
/// # Errors
///
/// Which one, and which there are.
pub(super) fn require_columns(kind: ClaimKind, found: &Found) -> Result<(), String> {
    found.require(match kind {
        ClaimKind::Setup => SETUP_COLUMNS,
        ClaimKind::Constant => CONSTANT_COLUMNS,
        ClaimKind::Ratio | ClaimKind::Predicate => ratio::columns_of(found),
    })
}

fn judge_constant(found: &Found, expected: Option<Expected>) -> Result<Judgement, String> {
    found.require(CONSTANT_COLUMNS)?;
    let tolerance = match expected {
        Some(Expected::Within { tolerance }) => tolerance,
        _ => 0.0,
    };
    let wrong: Vec<String> = found
        .rows()
        .filter(|row| !is_equal(*row, "found", "expected", tolerance))
        .map(|r| deviation(r, "expected"))
        .collect();
    let count = found.len();
    let evidence = found.rows().filter_map(EvidencePair::of).collect();
    let (verdict, reason) = if wrong.is_empty() {
        (Verdict::Reproduced, format!("equal in all {count}"))
    } else {
        (Verdict::Contradicted, format!("differs in {} of {count}: {}", wrong.len(), some_of(&wrong)))
    };
    Ok(Judgement::of_rows(verdict, reason, evidence))
}

fn judge_setup(found: &Found) -> Result<Judgement, String> {
    found.require(SETUP_COLUMNS)?;
    let deviations: Vec<String> = found
        .rows()
        .filter(|row| !is_equal(*row, "found", "published", 0.0))
        .map(|r| deviation(r, "published"))
        .collect();
    let as_published = found.len() - deviations.len();
    let (verdict, reason) = match (as_published, deviations.len()) {
        (_, 0) => (Verdict::Reproduced, "configured as published".to_owned()),
        (0, _) => (Verdict::Deviates, format!("configured otherwise: {}", deviations.join("; "))),
        (same, all) => {
            let declared = deviations.join("; ");
            (Verdict::Deviates, format!("{same} of {} as published; declared: {declared}", same + all))
        }
    };
    let evidence = found.rows().filter_map(EvidencePair::of).collect();
    Ok(Judgement::of_rows(verdict, reason, evidence))
}

/// `guest memory 256 MiB, published 512 MiB`.
fn deviation(row: Row<'_>, wanted: &str) -> String {
    let what = row.text("what").map(|w| format!("{w} ")).unwrap_or_default();
    let found = told(row.text("found").unwrap_or_else(|| "not known".to_owned()));
    format!("{what}{found}, {wanted} {}", told(row.text(wanted).unwrap_or_default()))
}

fn is_equal(row: Row<'_>, a: &str, b: &str, tolerance: f64) -> bool {
    match (row.number(a), row.number(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= tolerance,
        _ => row.text(a).is_some() && row.text(a) == row.text(b),
    }
}

/// The first few of a long list.
fn some_of(list: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = list.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    if list.len() > SHOWN { format!("{shown}; …") } else { shown }
}
