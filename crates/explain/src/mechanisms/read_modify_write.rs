//! Writes of parts: of blocks in a cache, or of rows of an array with parity. The rest, or what the parity was made of, has to be read first.

use super::Mechanism;
use crate::advice::{Proposal, has_parity, is_network_mount};
use crate::case::{Case, Left, finding};
use crate::evidence::{ArrayEvidence, Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::ReadModifyWrite,
    summary: "writes that cover a block, or a row of an array with parity, only in part cause reads of the rest",
    acts_in: |_| true,
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

/// Parts of the time that an array's writes are in; in [`Part::DataReadForWrite`] nothing is written.
const WRITTEN: [Part; 6] = [
    Part::Data,
    Part::TopJournal,
    Part::TopMetadata,
    Part::HostJournal,
    Part::HostMetadata,
    Part::ImageFormat,
];

fn array(e: &Evidence) -> ArrayEvidence {
    e.lowest().map(|edge| edge.array).unwrap_or_default()
}

/// Reads of an array's disks that writes need.
fn parity_reads(e: &Evidence) -> f64 {
    e.per_operation(array(e).parity_reads)
}

/// Share of the time of the array's requests, queueing included, until old data and parity are read.
fn reading_share(e: &Evidence) -> f64 {
    let taken_ns = e.lowest().map_or(0.0, |edge| edge.waited_ns + edge.served_ns);
    (array(e).parity_wait_ns / taken_ns.max(1.0)).min(1.0)
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let in_array = case.more(parity_reads) >= READS_PER_WRITE;
    let in_cache = case.more(reads) >= READS_PER_WRITE && left.take_requests(&[Part::DataReadForWrite]);
    let mut effect = 0.0;
    if in_array {
        let of_part = |part: &Part| case.more(|e| reading_share(e) * e.part_ns(*part));
        effect += WRITTEN.iter().map(|part| left.claim(*part, of_part(part).max(0.0))).sum::<f64>();
    }
    if in_cache {
        effect += claim(case, left, case.more(reads));
    }
    match (in_array, in_cache) {
        (_, true) => Some(found_in_cache(case, effect)),
        (true, false) => Some(found_in_array(case, effect)),
        (false, false) => None,
    }
}

fn found_in_cache(case: &Case<'_>, effect: f64) -> Finding {
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
    found.advice = case.advice(&[
        Proposal::general("whole, aligned blocks of the host's file system"),
        Proposal::of_guest("a way past its cache (cache=none passes sectors through)", "cache", "none"),
    ]);
    found
}

fn found_in_array(case: &Case<'_>, effect: f64) -> Finding {
    let lowest = case.here.lowest();
    let layer = lowest.map_or_else(String::new, |edge| edge.layer.clone());
    let size =
        |e: &Evidence| e.lowest().map_or(0.0, |edge| edge.writes.bytes / edge.writes.count.max(1.0) / 1024.0);
    let words = format!(
        "writes of {:.1} KiB cover rows of the array only in part: for each operation its disks read old data and parity {:.2} times",
        size(case.here),
        parity_reads(case.here)
    );
    let mut found = finding(MechanismName::ReadModifyWrite, &layer, effect, words);
    found.numbers = vec![
        case.number("reads of the disks caused by writes", "per operation", parity_reads),
        case.number("requests to the disks", "per request to the array", |e| {
            array(e).operations / array(e).requests.max(1.0)
        }),
        case.number("of the time of its requests, for these reads", "%", |e| reading_share(e) * 100.0),
        case.number("size of a write to the array", "KiB", size),
    ];
    found.advice = case.advice(&[
        Proposal::general("larger writes, best of whole rows (the chunk times the disks with data)"),
        Proposal::more("a larger wsize= over NFS", is_network_mount, "wsize"),
        Proposal::in_stacks("an array without parity (raid0)", has_parity),
    ]);
    found
}
