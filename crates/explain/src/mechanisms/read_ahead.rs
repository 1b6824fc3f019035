//! The host reads ahead of the guest.

use super::Mechanism;
use nestor_stack::Stack;

use crate::advice::{Proposal, is_read_through_cache};
use crate::case::{Case, Left, finding};
use crate::evidence::{Edge, Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::HostReadAhead,
    summary: "read-ahead of the host turns many reads of the guest into few",
    acts_in: Stack::has_cache_below,
    find,
};

/// How many reads of the level above must go into one below.
const READS_INTO_ONE: f64 = 2.0;

fn topmost(e: &Evidence) -> f64 {
    e.edges.first().map_or(0.0, |edge| edge.reads.count)
}

fn lowest(e: &Evidence) -> f64 {
    e.lowest().map_or(0.0, |edge| edge.reads.count)
}

fn gathered(e: &Evidence) -> f64 {
    topmost(e) / lowest(e).max(1.0)
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let e = case.here;
    let bytes = |edge: Option<&Edge>| edge.map_or(0.0, |edge| edge.reads.bytes);
    // About the same bytes below as above: otherwise it was a cache that answered.
    let same_bytes = bytes(e.lowest()) >= 0.5 * bytes(e.edges.first());
    let gathers = gathered(e) >= READS_INTO_ONE * case.baseline.map_or(1.0, gathered).max(1.0);
    if e.edges.len() < 2 || e.reads.count == 0.0 || !same_bytes || !gathers {
        return None;
    }
    let saved = left.claim_saved(&[Part::Data, Part::Idle]);
    let effect = if case.baseline.is_some() { saved } else { 0.0 };
    let size =
        |edge: Option<&Edge>| edge.map_or(0.0, |edge| edge.reads.bytes / edge.reads.count.max(1.0) / 1024.0);
    let words = format!(
        "the host reads ahead: {:.0} reads of {:.0} KiB in the guest became {:.0} reads of {:.0} KiB at the \
         medium",
        topmost(e),
        size(e.edges.first()),
        lowest(e),
        size(e.lowest())
    );
    let layer = e.edges.iter().find(|edge| edge.role.is_host_file_system());
    let layer = layer.map_or_else(String::new, |edge| edge.layer.clone());
    let mut found = finding(MechanismName::HostReadAhead, &layer, effect, words);
    found.numbers = vec![
        case.number("reads above per read below", "", gathered),
        case.number("size of a read at the medium", "KiB", |e| size(e.lowest())),
    ];
    found.advice = case.advice(&[
        Proposal::more(
            "readahead= of the host's device, which sets how far it reads",
            is_read_through_cache,
            "readahead",
        ),
        Proposal::of_guest("cache=none, which turns it off for the image", "cache", "none"),
    ]);
    Some(found)
}
