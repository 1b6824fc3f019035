//! What practitioners and papers do not agree on, each as a question that a machine can answer for itself.
//!
//! A [`Dispute`] names its sides, the stacks and workloads that show who is right, and what each side's words mean in
//! numbers ([`What`]). [`judge`] holds these against runs and traces.

mod conflicts;
mod judge;
mod paper;

use std::fmt;

use nestor_results::WrittenWorkload;
use nestor_stack::{Layer, Stack, StackError};
use nestor_text::units;
use serde::{Serialize, Serializer};

pub use judge::{ClaimVerdict, Evidence, FailedRun, Outcome, Semantics, Settlement, SideVerdict, judge};

/// Slower by less than this counts as not slower: the practical threshold of the acceptance rules.
pub const SLOWER_BELOW: f64 = 0.95;
/// Ratios from its inverse to this count as the same, as in an equivalence test with bounds of 10 %.
pub const SAME_UP_TO: f64 = 1.1;

/// Something that is not agreed on.
#[derive(Debug)]
pub struct Dispute {
    /// `K1` to `K12` for practitioners' conflicts, `A1` to `A5` for the advice of the nested-file-system paper.
    pub id: &'static str,
    /// The question.
    pub question: &'static str,
    /// Who says what.
    pub sides: &'static [Side],
    /// What is compared.
    pub stacks: &'static [LabelledStack],
    /// What is run on them.
    pub workloads: &'static [&'static str],
    /// What decides.
    pub decides: Decides,
    /// What belongs to the question and is not tested.
    pub untested: &'static [&'static str],
    /// Why it cannot be settled here at all.
    pub cannot: Option<&'static str>,
}

/// A stack that is compared, with the label that it is shown under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelledStack {
    /// The label.
    pub label: &'static str,
    /// The stack, on the default medium, in whose place the user's comes. As text, because a table of constants can hold no parsed stack;
    /// [`Dispute::stacks_on`] parses it.
    stack: &'static str,
}

const fn labelled(label: &'static str, stack: &'static str) -> LabelledStack {
    LabelledStack { label, stack }
}

/// As its label.
impl Serialize for LabelledStack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.label)
    }
}

impl fmt::Display for LabelledStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label)
    }
}

/// What decides a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decides {
    /// Ratios of throughput, in pairs.
    Speed,
    /// What is seen of flushes.
    Flushes,
    /// Both.
    Both,
}

impl Decides {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::Flushes => "flushes",
            Self::Both => "speed and flushes",
        }
    }
}

/// One side.
#[derive(Debug)]
pub struct Side {
    /// Who.
    pub who: &'static str,
    /// What they say, in our words.
    pub says: &'static str,
    /// What that means in numbers; all of it has to hold.
    pub claims: &'static [Claim],
}

/// Something that runs and traces can show.
#[derive(Debug)]
pub struct Claim {
    /// The workload it is about; `None`: each of them.
    pub on: Option<&'static str>,
    /// What is claimed.
    pub what: What,
}

/// What is claimed of stacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// The first over the second is more than this ratio.
    Faster(LabelledStack, LabelledStack, f64),
    /// The first over the second is less than this ratio.
    Slower(LabelledStack, LabelledStack, f64),
    /// The first is not slower than the second ([`SLOWER_BELOW`]).
    NotSlower(LabelledStack, LabelledStack),
    /// Neither is faster ([`SAME_UP_TO`]).
    Same(LabelledStack, LabelledStack),
    /// The guest's flushes arrive at the medium.
    FlushesReach(LabelledStack),
    /// Every write is flushed, asked or not.
    EveryWriteFlushed(LabelledStack),
    /// Writes are flushed only when the guest asks.
    OnlyWhenAsked(LabelledStack),
    /// The guest's flushes do not arrive.
    FlushesLost(LabelledStack),
    /// What the guest has not flushed is kept in memory of the host.
    HoldsBack(LabelledStack),
    /// It cannot be built or run.
    CannotRun(LabelledStack),
}

/// All disputes.
pub fn disputes() -> impl Iterator<Item = &'static Dispute> {
    conflicts::CONFLICTS.iter().chain(paper::ADVICE)
}

/// A dispute by its id, in either case of letters.
pub fn dispute(id: &str) -> Option<&'static Dispute> {
    disputes().find(|dispute| dispute.id.eq_ignore_ascii_case(id))
}

impl Dispute {
    /// What is compared, on a medium.
    ///
    /// # Errors
    /// The medium is none, or says what excludes a virtual machine.
    pub fn stacks_on(&self, medium: &Layer) -> Result<Vec<Stack>, StackError> {
        let on_medium = |labelled: &LabelledStack| {
            let stack = Stack::parse(labelled.stack)?;
            stack.with_layer(stack.medium_index(), medium.clone())
        };
        self.stacks.iter().map(on_medium).collect()
    }

    /// What is run on them.
    pub fn workloads(&self) -> Vec<WrittenWorkload> {
        self.workloads.iter().map(|workload| (*workload).into()).collect()
    }
}

impl What {
    /// The stacks it is about.
    fn stacks(self) -> Vec<LabelledStack> {
        match self {
            Self::Faster(a, b, _) | Self::Slower(a, b, _) | Self::NotSlower(a, b) | Self::Same(a, b) => {
                vec![a, b]
            }
            Self::FlushesReach(a)
            | Self::EveryWriteFlushed(a)
            | Self::OnlyWhenAsked(a)
            | Self::FlushesLost(a)
            | Self::HoldsBack(a)
            | Self::CannotRun(a) => vec![a],
        }
    }

    /// Whether it is about speed.
    fn is_speed(self) -> bool {
        self.stacks().len() == 2
    }

    /// In words.
    fn words(self) -> String {
        let percent = |ratio: f64| units::percent((ratio - 1.0).abs());
        match self {
            Self::Faster(a, b, ratio) if ratio > 1.0 => {
                format!("{a} is more than {} faster than {b}", percent(ratio))
            }
            Self::Faster(a, b, _) => format!("{a} is faster than {b}"),
            Self::Slower(a, b, ratio) if ratio < 1.0 => {
                format!("{a} is more than {} slower than {b}", percent(ratio))
            }
            Self::Slower(a, b, _) => format!("{a} is slower than {b}"),
            Self::NotSlower(a, b) => format!("{a} is not slower than {b}"),
            Self::Same(a, b) => format!("{a} is as fast as {b}"),
            Self::FlushesReach(a) => format!("{a}: the guest's flushes reach the disk"),
            Self::EveryWriteFlushed(a) => format!("{a}: every write is flushed"),
            Self::OnlyWhenAsked(a) => format!("{a}: writes are flushed only when the guest asks"),
            Self::FlushesLost(a) => format!("{a}: the guest's flushes do not reach the disk"),
            Self::HoldsBack(a) => format!("{a}: unflushed data are kept in host memory"),
            Self::CannotRun(a) => format!("{a} cannot be run"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
