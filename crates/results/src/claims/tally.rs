//! How many claims there are of each verdict: what was measured in front, arithmetic and set-up apart, because they are no results.

use serde::Serialize;

use super::{ClaimKind, ClaimResult, Verdict};

/// The counts of a scoreboard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Claims on what was measured, by verdict in the order of [`Verdict::ALL`]; verdicts without a claim are left out.
    pub measured: Vec<(Verdict, usize)>,
    /// Claims that are arithmetic or a documented constant.
    pub arithmetic: Checked,
    /// Claims about the set-up.
    pub configured: Checked,
}

/// Claims that are compared for equality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// How many there are.
    pub claims: usize,
    /// Those that are as published.
    pub as_published: usize,
    /// Those that could not be compared here.
    pub not_testable: usize,
}

impl Tally {
    /// Of these claims.
    pub fn of(results: &[ClaimResult]) -> Self {
        let measured = |result: &&ClaimResult| result.claim.kind.is_measured();
        let count = |verdict: Verdict| {
            (verdict, results.iter().filter(measured).filter(|result| result.verdict == verdict).count())
        };
        let checked = |kind: ClaimKind| {
            let of_kind = || results.iter().filter(|result| result.claim.kind == kind);
            let of_verdict = |verdict| of_kind().filter(|result| result.verdict == verdict).count();
            Checked {
                claims: of_kind().count(),
                as_published: of_verdict(Verdict::Reproduced),
                not_testable: of_verdict(Verdict::NotTestable),
            }
        };
        Self {
            measured: Verdict::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect(),
            arithmetic: checked(ClaimKind::Constant),
            configured: checked(ClaimKind::Setup),
        }
    }

    /// `measured: 14 reproduced, 3 contradicted, 9 undecided; arithmetic checked: 20, all equal; configured: 15, 12 as published`.
    pub fn in_words(&self) -> String {
        let counts: Vec<String> =
            self.measured.iter().map(|(verdict, count)| format!("{count} {}", verdict.words())).collect();
        let measured = (!counts.is_empty()).then(|| format!("measured: {}", counts.join(", ")));
        let checked = |what: &str, checked: Checked, equal: &str| {
            (checked.claims > 0).then(|| {
                let mut share = match checked.as_published {
                    all if all == checked.claims => format!("all {equal}"),
                    some => format!("{some} {equal}"),
                };
                if checked.not_testable > 0 {
                    share.push_str(&format!(", {} {}", checked.not_testable, Verdict::NotTestable.words()));
                }
                format!("{what}: {}, {share}", checked.claims)
            })
        };
        let arithmetic = checked("arithmetic checked", self.arithmetic, "equal");
        let configured = checked("configured", self.configured, "as published");
        let parts: Vec<String> = [measured, arithmetic, configured].into_iter().flatten().collect();
        if parts.is_empty() { "no claims".to_owned() } else { parts.join("; ") }
    }
}
