//! Writes of parts of blocks: the rest has to be read first.

use super::Mechanism;
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::ReadModifyWrite,
    summary: "writes that cover a block only in part cause a read of the rest of the block",
    find,
};

/// Reads for each write from which on they are taken for the rule and not the exception.
pub(super) const READS_PER_WRITE: f64 = 0.05;

/// Reads at the lowest level for each operation of an application that only writes.
pub(super) fn reads(e: &Evidence) -> f64 {
    e.per_operation(e.reads_for_writes().reads as f64)
}

/// Claims the time of the reads, and what so many more requests for each operation make of the others.
pub(super) fn claim(case: &Case<'_>, left: &mut Left, more_requests: f64) -> f64 {
    // A read and the write after it are at the same place: the write waits for the medium to come round again.
    let data = left.claim(Part::Data, left.part(Part::Data).max(0.0));
    let idle = left.claim(Part::Idle, case.on_the_way_ns(more_requests));
    left.claim_all(Part::DataReadForWrite) + data + idle
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    if case.more(reads) < READS_PER_WRITE || !left.take_requests(&[Part::DataReadForWrite]) {
        return None;
    }
    let effect = claim(case, left, case.more(reads));
    let layer = case.here.joins.iter().rev().find(|j| j.kind.is_host_block());
    let layer = layer.map_or_else(String::new, |join| join.layer.clone());
    let size = case.here.writes.bytes / case.here.writes.count.max(1.0);
    let words = format!(
        "writes of {size:.0} bytes cover blocks only in part: each causes {:.2} reads below",
        reads(case.here)
    );
    let mut found = finding(MechanismName::ReadModifyWrite, &layer, effect, words);
    found.numbers = vec![
        case.number("reads below caused by writes", "per operation", reads),
        case.number("time of those reads", "us per operation", |e| e.part_ns(Part::DataReadForWrite) / 1e3),
        case.number("size of a write", "bytes", |e| e.writes.bytes / e.writes.count.max(1.0)),
    ];
    found.advice = Some(
        "write whole, aligned blocks of the host's file system, or bypass its cache (cache=none passes \
         sectors through)"
            .to_owned(),
    );
    Some(found)
}
