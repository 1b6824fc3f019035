//! What a study claims, and what was found.

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
    /// They do not differ by more than ten per cent.
    Alike,
    /// The candidate is not less than the baseline by more than ten per cent; it may be more.
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
    /// The same direction, beyond doubt, and of the same size within a factor of two.
    Reproduced,
    /// The same direction, beyond doubt, but of another size.
    SameSign,
    /// Nothing found here speaks against it.
    NotContradicted,
    /// The interval found here excludes what was published.
    Contradicted,
    /// It cannot be judged here.
    NotTestable,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 5] =
        [Self::Reproduced, Self::SameSign, Self::NotContradicted, Self::Contradicted, Self::NotTestable];

    /// As printed.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::SameSign => "same sign",
            Self::NotContradicted => "not contradicted",
            Self::Contradicted => "contradicted",
            Self::NotTestable => "not testable here",
        }
    }

    /// How much it weighs where a claim has several parts, which all have to hold: the heaviest decides.
    pub(super) fn weight(self) -> u8 {
        match self {
            Self::Reproduced => 0,
            Self::SameSign => 1,
            Self::NotContradicted => 2,
            Self::NotTestable => 3,
            Self::Contradicted => 4,
        }
    }

    /// Whether it says anything about the claim.
    pub fn is_tested(self) -> bool {
        self != Self::NotTestable
    }
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
    /// How it was judged, or why it could not be.
    pub reason: String,
    /// The same judged in another way: what differs (`raw disk with cache=none`), what was found, the verdict.
    pub other: Vec<(String, Option<Ratio>, Verdict)>,
    /// Marks of the runs behind it, counted.
    pub doubts: Vec<String>,
    /// The runs behind it, by number, ascending.
    pub runs: Vec<i64>,
    /// How the layers explain a contradicted claim.
    pub why: Vec<String>,
}
