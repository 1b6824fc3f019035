//! Flushes: how many, and what a cache mode really does with them.

use nestor_stack::{Export, Layer, LayerRole};

use super::{Mechanism, amplification};
use crate::advice::{Proposal, has, is_network_mount};
use crate::case::{Case, Left, finding};
use crate::evidence::{Edge, Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::Flushes,
    summary: "flushes of the medium's cache: too many, or fewer than the guest sends",
    acts_in: |_| true,
    find,
};

/// Flushes at the medium for each operation from which on they matter.
const FLUSHES_PER_OPERATION: f64 = 0.02;

fn writes_through(layer: &Layer) -> bool {
    layer.cache_mode_below().is_some_and(|mode| !mode.write_cache())
}

/// Whether a server answers before what it was sent is durable.
fn forgets(layer: &Layer) -> bool {
    layer.network_file_system().is_some_and(|nfs| nfs.export == Export::Async)
}

/// The layer that keeps flushes from the medium: one whose options say so, or else the one that has the image or the disk.
fn dropper(e: &Evidence) -> String {
    let of_stack = e.stack.value().and_then(|stack| {
        stack.layers().iter().find(|layer| layer.ignores_flushes() || forgets(layer)).map(Layer::label)
    });
    let of_edges = || e.edges.iter().find(|edge| edge.role.is_image() || edge.role == LayerRole::Disk);
    of_stack.or_else(|| Some(of_edges()?.layer.clone())).unwrap_or_default()
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let more = case.more(Evidence::flushes_at_medium) - amplification::flushes_of_commits(case);
    let dropped = case.here.flushes_at_top() > FLUSHES_PER_OPERATION
        && case.here.flushes_at_medium() < 0.1 * case.here.flushes_at_top()
        && case.baseline.is_none_or(|b| b.flushes_at_medium() >= 0.5 * b.flushes_at_top());
    if more < FLUSHES_PER_OPERATION && !dropped || !left.take_requests(&[Part::Flush]) {
        return None;
    }
    let sign = if dropped { f64::min } else { f64::max };
    // A flush waits for what the medium's cache holds, so that the writes behind it cannot be sorted or gathered. How much of
    // the other parts that is, only a baseline shows.
    let of_flushes =
        if case.baseline.is_some() { &[Part::Flush, Part::Data, Part::Idle][..] } else { &[Part::Flush] };
    let effect = of_flushes.iter().map(|part| left.claim(*part, sign(left.part(*part), 0.0))).sum();
    let (top, medium) = (case.here.flushes_at_top(), case.here.flushes_at_medium());
    let words = words(top, medium, dropped);
    let layer = if dropped {
        dropper(case.here)
    } else {
        let is_below = |edge: &&Edge| edge.role.is_image() || edge.role == LayerRole::Disk;
        let edges = &case.here.edges;
        let edge = if medium > 2.0 * top { edges.iter().find(is_below) } else { edges.first() };
        edge.map_or_else(String::new, |edge| edge.layer.clone())
    };
    let mut found = finding(MechanismName::Flushes, &layer, effect, words);
    found.numbers = vec![
        case.number("flushes from the guest", "per operation", Evidence::flushes_at_top),
        case.number("flushes at the medium", "per operation", Evidence::flushes_at_medium),
        case.number("time of flushes at the lowest level", "us per operation", |e| {
            e.part_ns(Part::Flush) / 1e3
        }),
    ];
    found.advice = case.advice(proposals(dropped));
    Some(found)
}

fn proposals(dropped: bool) -> &'static [Proposal] {
    if dropped {
        const {
            &[
                Proposal::in_stacks(
                    "cache=none or cache=writeback: until then, a host failure loses data that was flushed",
                    |stack| has(stack, Layer::ignores_flushes),
                ),
                Proposal::to(
                    "export=sync: until then, a crash of the server loses data that was flushed",
                    is_network_mount,
                    "export",
                    Export::Sync.name(),
                ),
            ]
        }
    } else {
        const {
            &[
                Proposal::in_stacks(
                    "cache=none or cache=writeback, which flush only when the guest asks",
                    |stack| has(stack, writes_through),
                ),
                Proposal::general("fewer fsyncs"),
            ]
        }
    }
}

fn words(top: f64, medium: f64, dropped: bool) -> String {
    if dropped {
        format!(
            "the guest sends {top:.2} flushes per operation, but {medium:.2} reach the medium: the rest are \
             dropped"
        )
    } else if medium > 2.0 * top {
        format!(
            "{medium:.2} flushes per operation reach the medium, but the guest sends {top:.2}: the cache \
             mode adds the rest"
        )
    } else {
        format!("{medium:.2} flushes per operation reach the medium, as the guest requests ({top:.2})")
    }
}
