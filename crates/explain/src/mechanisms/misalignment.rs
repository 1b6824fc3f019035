//! Blocks that lie across the borders of the blocks below.

use nestor_correlate::LevelKind;
use nestor_stack::Stack;
use nestor_text::units;

use super::Mechanism;
use super::read_modify_write::{READS_PER_WRITE, claim, reads};
use crate::advice::{Proposal, has};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part, Placed};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::Misalignment,
    summary: "whole blocks begin within blocks of the layer below, which then reads and writes one more for each request",
    acts_in: |_| true,
    find,
};

/// Share of the requests of a level from which on they are taken for the rule and not the exception.
const MISALIGNED_SHARE: f64 = 0.25;
/// How many times as many bytes as in the baseline must be moved at the lowest level: runs of one stack differ by some per cent.
const CLEARLY_MORE: f64 = 1.1;

/// What blocks of file systems are multiples of, and pages are long.
const BLOCK_BYTES: u64 = 4096;

/// The topmost level of misaligned requests that has another below it, where blocks of the one meet those of the other. The application's own
/// operations go through a page cache, or straight to what is below.
fn misaligned(e: &Evidence) -> Option<&Placed> {
    let above = e.levels.split_last().map_or(&[][..], |(_, above)| above);
    above.iter().find(|level| level.kind != LevelKind::Application && level.share() >= MISALIGNED_SHARE)
}

/// What is moved at the lowest level for the application's data, for each operation.
fn data_bytes(e: &Evidence) -> f64 {
    e.per_operation(e.spent_on(Part::Data).bytes as f64)
}

fn data_requests(e: &Evidence) -> f64 {
    e.per_operation(e.spent_on(Part::Data).requests as f64)
}

fn begins_within_a_block(stack: &Stack) -> bool {
    has(stack, |layer| {
        layer.partition().is_some_and(|part| !part.start.bytes().get().is_multiple_of(BLOCK_BYTES))
    })
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let level = misaligned(case.here)?;
    let more_bytes = case.baseline.is_some_and(|b| data_bytes(case.here) >= CLEARLY_MORE * data_bytes(b));
    let costs = case.more(reads) >= READS_PER_WRITE || more_bytes;
    let is_new = case.baseline.is_none_or(|b| misaligned(b).is_none());
    if !costs || !is_new || !left.take_requests(&[Part::DataReadForWrite]) {
        return None;
    }
    let effect = claim(case, left, case.more(data_requests).max(case.more(reads)));
    let words = format!(
        "{} of the requests at {} are of whole blocks of 4 KiB but begin within one: {:.2} reads below for each operation, and {:.1} KiB moved",
        units::percent(level.share()),
        level.layer,
        reads(case.here),
        data_bytes(case.here) / 1024.0
    );
    let mut found = finding(MechanismName::Misalignment, &level.layer, effect, words);
    let share = |e: &Evidence| {
        let same = |other: &&Placed| other.kind == level.kind;
        e.levels.iter().filter(same).map(Placed::share).fold(0.0, f64::max) * 100.0
    };
    found.numbers = vec![
        case.number("requests that begin within a block", "%", share),
        case.number("reads below caused by writes", "per operation", reads),
        case.number("data moved at the lowest level", "KiB per operation", |e| data_bytes(e) / 1024.0),
    ];
    found.advice = case.advice(&[Proposal::in_stacks(
        "begin the partition at a multiple of 4 KiB: part:start=1M",
        begins_within_a_block,
    )]);
    Some(found)
}
