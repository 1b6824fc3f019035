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
const READS_PER_WRITE: f64 = 0.05;

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let reads = |e: &Evidence| e.per_operation(e.reads_for_writes().reads as f64);
    if case.more(reads) < READS_PER_WRITE || !left.take_requests(&[Part::DataReadForWrite]) {
        return None;
    }
    // A read and the write after it are at the same place: the write waits for the medium to come round again.
    let effect =
        left.claim_all(Part::DataReadForWrite) + left.claim(Part::Data, left.part(Part::Data).max(0.0));
    let effect = effect + left.claim(Part::Idle, case.on_the_way_ns(case.more(reads)));
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
