//! The claims of a published study beside what was found here.

use nestor_results::claims::Checked;
use nestor_results::{ClaimResult, Coverage, EffectUnit, Tally, Verdict};
use nestor_statistics::Ratio;
use serde::Serialize;

use super::typeset;
use crate::units;

/// The scoreboard.
#[derive(Serialize)]
pub(super) struct ScoreboardPage {
    /// Of what was measured.
    tally: Vec<TallyPage>,
    arithmetic: Checked,
    configured: Checked,
    rows: Vec<ClaimPage>,
    measured: usize,
}

#[derive(Serialize)]
struct TallyPage {
    verdict: VerdictPage,
    count: usize,
}

/// A verdict as a word, with a sign and a colour that only repeat it.
#[derive(Serialize)]
struct VerdictPage {
    words: &'static str,
    class: &'static str,
    sign: &'static str,
    /// Place among the verdicts, for sorting.
    order: usize,
}

#[derive(Serialize)]
struct ClaimPage {
    id: String,
    title: String,
    place: String,
    paper: String,
    here: String,
    /// The change in per cent, for sorting.
    here_by: String,
    verdict: VerdictPage,
    reason: String,
    note: String,
    /// Name, effect, verdict and how it was judged.
    parts: Vec<(String, String, VerdictPage, String)>,
    other: Vec<(String, String, VerdictPage)>,
    why: Vec<String>,
    coverage: String,
    doubts: Vec<String>,
    runs: String,
}

impl ScoreboardPage {
    /// `None` for a study without claims.
    pub(super) fn of(claims: &[ClaimResult]) -> Option<Self> {
        let Tally { measured: counts, arithmetic, configured } = Tally::of(claims);
        let measured = counts.iter().map(|(_, count)| count).sum();
        let tally = counts.into_iter().map(|(verdict, count)| TallyPage { verdict: page(verdict), count });
        (!claims.is_empty()).then(|| Self {
            tally: tally.collect(),
            arithmetic,
            configured,
            rows: claims.iter().map(claim).collect(),
            measured,
        })
    }
}

fn page(verdict: Verdict) -> VerdictPage {
    let (class, sign) = match verdict {
        Verdict::Reproduced => ("reproduced", "●"),
        Verdict::Smaller => ("smaller", "◔"),
        Verdict::Larger => ("larger", "◕"),
        Verdict::Undecided => ("undecided", "○"),
        Verdict::Contradicted => ("contradicted", "✕"),
        Verdict::Deviates => ("deviates", "≠"),
        Verdict::NotTestable => ("not-testable", "–"),
    };
    let order = Verdict::ALL.iter().position(|v| *v == verdict).unwrap_or(Verdict::ALL.len());
    VerdictPage { words: verdict.words(), class, sign, order }
}

fn effect(ratio: &Option<Ratio>, unit: EffectUnit) -> String {
    ratio.as_ref().map(|ratio| typeset(&unit.in_words(ratio))).unwrap_or_default()
}

/// Runs in one line: ranges of what follows one another.
fn run_words(runs: &[i64]) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for run in runs {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*run) => *last = *run,
            _ => ranges.push((*run, *run)),
        }
    }
    let words = ranges.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    });
    units::listed(words)
}

fn claim(result: &ClaimResult) -> ClaimPage {
    let claim = &result.claim;
    let other = result
        .other
        .iter()
        .map(|(what, ratio, verdict)| (what.clone(), effect(ratio, result.unit), page(*verdict)));
    let parts = result
        .parts
        .iter()
        .map(|p| (p.name.clone(), effect(&p.effect, p.unit), page(p.verdict), p.reason.clone()));
    ClaimPage {
        id: claim.id.clone(),
        title: claim.title.clone(),
        place: claim.place.clone(),
        paper: typeset(&claim.paper),
        here: effect(&result.effect, result.unit),
        here_by: result.effect.map(|r| format!("{}", r.change_percent())).unwrap_or_default(),
        verdict: page(result.verdict),
        reason: result.reason.clone(),
        note: claim.note.clone().unwrap_or_default(),
        parts: parts.collect(),
        other: other.collect(),
        why: result.why.clone(),
        coverage: result.coverage.as_ref().and_then(Coverage::in_words).unwrap_or_default(),
        doubts: result.doubts.clone(),
        runs: run_words(&result.runs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_follow_one_another_are_a_range() {
        assert_eq!(run_words(&[1, 2, 3, 7, 9, 10]), "1 to 3, 7, 9, 10");
        assert_eq!(run_words(&[]), "");
        assert_eq!(run_words(&[i64::MAX]), i64::MAX.to_string());
    }
}
