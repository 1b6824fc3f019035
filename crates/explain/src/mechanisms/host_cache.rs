//! A cache of the host answers reads or keeps writes.

use nestor_text::units;

use super::Mechanism;
use crate::advice::Proposal;
use crate::case::{Case, Left, finding};
use crate::evidence::{Edge, Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::HostCache,
    summary: "the host's page cache answers reads or holds back writes",
    acts_in: |_| true,
    find,
};

/// Share of the bytes that must not have reached the lowest level.
const KEPT_SHARE: f64 = 0.20;

/// Share (0 to 1) of the application's bytes that never reached the lowest level.
fn kept(e: &Evidence) -> f64 {
    let asked = e.reads.bytes + e.writes.bytes;
    let reached = |volume: fn(&crate::evidence::Edge) -> f64| e.lowest().map_or(0.0, volume);
    let missing = |asked: f64, reached: f64| (asked - reached).max(0.0);
    let missing = missing(e.reads.bytes, reached(|edge| edge.reads.bytes))
        + missing(e.writes.bytes, reached(|edge| edge.writes.bytes));
    missing / asked.max(1.0)
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    if case.here.edges.is_empty() || case.more(kept) < KEPT_SHARE {
        return None;
    }
    let saved = left.claim_saved(&Part::ALL);
    if case.baseline.is_some() && saved >= 0.0 {
        return None;
    }
    // Without a baseline there is no time that was saved, only time that was not spent.
    let effect = if case.baseline.is_some() { saved } else { 0.0 };
    let words = format!(
        "{} of the bytes came from a cache of the host, or stayed in it, and never reached the medium",
        units::percent(kept(case.here))
    );
    let caches = |edge: &&Edge| edge.role.is_image() || edge.role.is_host_file_system();
    let layer = case.here.edges.iter().rev().find(caches);
    let layer = layer.map_or_else(String::new, |edge| edge.layer.clone());
    let mut found = finding(MechanismName::HostCache, &layer, effect, words);
    found.numbers = vec![
        case.number("bytes that did not reach the medium", "% of the application's", |e| kept(e) * 100.0),
        case.number("requests at the medium", "per operation", |e| {
            e.per_operation(e.lowest().map_or(0.0, Edge::issued))
        }),
    ];
    found.advice = case.advice(&[
        Proposal::general("to measure the medium, a data set of at least twice all memory"),
        Proposal::of_guest("cache=none", "cache", "none"),
    ]);
    Some(found)
}
