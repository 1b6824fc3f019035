//! What a study claims, and what was found.

use std::collections::BTreeMap;

use super::coverage::Coverage;
use super::effect_unit::EffectUnit;
use nestor_statistics::Ratio;
use serde::{Deserialize, Serialize};

/// One statement of a published study, with the query that tests it here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Short name, such as `L-27`.
    pub id: String,
    /// What is claimed, in a line.
    pub title: String,
    /// Where the publication says it, such as `§4.2, Fig 7B`.
    #[serde(default)]
    pub place: String,
    /// The value as printed, such as `+34 %`.
    #[serde(default)]
    pub paper: String,
    /// How it is judged.
    pub kind: ClaimKind,
    /// What the query has to find.
    #[serde(default)]
    pub expected: Option<Expected>,
    /// The smallest difference that matters to it, as a share, where it is not the usual one of its rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// The band of ratios in which a change counts as of the published size, low end first; half to twice it if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<(f64, f64)>,
    /// The query; its columns depend on the kind.
    #[serde(default)]
    pub sql: Option<String>,
    /// Why it cannot be tested anywhere with this study.
    #[serde(default)]
    pub not_testable: Option<String>,
    /// What has to be known with it, such as a contradiction inside the publication.
    #[serde(default)]
    pub note: Option<String>,
}

/// How a claim is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// Part of the set-up: configured as published, or the deviation is declared.
    Setup,
    /// Arithmetic or a documented constant: has to be equal.
    Constant,
    /// A change with a size: judged by sign, interval and size.
    Ratio,
    /// An order without a size: less, more or alike.
    Predicate,
}

impl ClaimKind {
    /// Whether its verdict is a result of measuring; otherwise it is arithmetic or set-up.
    pub fn is_measured(self) -> bool {
        matches!(self, Self::Ratio | Self::Predicate)
    }
}

/// What a claim's query has to find.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// A change of the candidate from the baseline; both ends are equal where one number is printed.
    Change {
        /// Low end, as a ratio: 0.6 for -40 %.
        low: f64,
        /// High end, as a ratio.
        high: f64,
    },
    /// The candidate is less than the baseline.
    Less,
    /// The candidate is more than the baseline.
    More,
    /// They do not differ by more than the margin, ten per cent if the claim states none.
    Alike,
    /// The candidate is not less than the baseline by more than that margin; it may be more.
    NotLess,
    /// Every pair of a constant may differ by this much, in the constant's unit.
    Within {
        /// Largest difference allowed.
        tolerance: f64,
    },
}

/// What became of a claim here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies within what was published, or within half to twice it. Of the set-up: as published.
    Reproduced,
    /// The interval has the published sign and lies below half the published size.
    #[serde(alias = "same-sign")]
    Smaller,
    /// The interval has the published sign and lies above twice the published size.
    Larger,
    /// The interval leaves it open.
    #[serde(alias = "not-contradicted")]
    Undecided,
    /// The interval excludes what was published.
    Contradicted,
    /// The set-up deviates from the published one, and says so.
    Deviates,
    /// It cannot be judged here.
    NotTestable,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 7] = [
        Self::Reproduced,
        Self::Contradicted,
        Self::Smaller,
        Self::Larger,
        Self::Undecided,
        Self::Deviates,
        Self::NotTestable,
    ];

    /// As printed.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Smaller => "smaller, same sign",
            Self::Larger => "larger, same sign",
            Self::Undecided => "undecided",
            Self::Contradicted => "contradicted",
            Self::Deviates => "deviates, declared",
            Self::NotTestable => "not testable here",
        }
    }

    /// How much it weighs where a claim has several parts, which all have to hold: the heaviest decides.
    pub(super) fn weight(self) -> u8 {
        match self {
            Self::Reproduced => 0,
            Self::Smaller | Self::Larger | Self::Deviates => 1,
            Self::Undecided => 2,
            Self::NotTestable => 3,
            Self::Contradicted => 4,
        }
    }

    /// Whether it says anything about the claim.
    pub fn is_tested(self) -> bool {
        self != Self::NotTestable
    }
}

/// A claim's part with its verdict: each thing that a compound claim says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimPart {
    /// What it says.
    pub name: String,
    /// What became of it.
    pub verdict: Verdict,
    /// What was found, where it is a ratio.
    pub effect: Option<Ratio>,
    /// What it is told in.
    #[serde(default, skip_serializing_if = "EffectUnit::is_usual")]
    pub unit: EffectUnit,
    /// How it was judged.
    pub reason: String,
}

/// A claim with its verdict and the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// What was claimed.
    pub claim: Claim,
    /// What became of it.
    pub verdict: Verdict,
    /// What was found, where it is a ratio.
    pub effect: Option<Ratio>,
    /// What it is told in.
    #[serde(default, skip_serializing_if = "EffectUnit::is_usual")]
    pub unit: EffectUnit,
    /// How it was judged, or why it could not be.
    pub reason: String,
    /// Its parts, where it says several things; the worst decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ClaimPart>,
    /// The same judged in another way: what differs (`raw disk with cache=none`), what was found, the verdict.
    pub other: Vec<(String, Option<Ratio>, Verdict)>,
    /// The guests and hosts that the runs behind it are of, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// The runs behind it that have a mark which a comparison must not be made without, by mark.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub marked: BTreeMap<String, usize>,
    /// What makes it less certain, in words: the same marks, counted, and whatever else.
    pub doubts: Vec<String>,
    /// The runs behind it, by number, ascending.
    pub runs: Vec<i64>,
    /// How the layers explain a contradicted claim.
    pub why: Vec<String>,
}
