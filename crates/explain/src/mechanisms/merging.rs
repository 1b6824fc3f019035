//! Neighbouring requests are merged, or are not.

use nestor_text::units;

use super::Mechanism;
use crate::advice::{Proposal, is_any};
use crate::case::{Case, Left, finding};
use crate::evidence::{Edge, Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::Merging,
    summary: "adjacent requests are merged much less or much more often",
    acts_in: |_| true,
    find,
};

/// By how much the mean size of requests must differ.
const SIZE_RATIO: f64 = 1.5;
/// By how much the share of merged requests must differ.
const MERGED_SHARE: f64 = 0.20;

/// Mean size of the requests for data at the lowest level: journals and tables have sizes of their own.
fn size(e: &Evidence) -> f64 {
    let data = e.spent_on(Part::Data);
    match data.requests {
        0 => e.lowest().map_or(0.0, Edge::mean_bytes),
        requests => data.bytes as f64 / requests as f64,
    }
}

/// Time that requests wait above the edge to be merged, for each operation, ns.
fn waited(e: &Evidence) -> f64 {
    e.per_operation(e.edges.iter().map(|edge| edge.waited_ns).sum())
}

fn merged(edge: &Edge) -> f64 {
    edge.merged / edge.queued.max(1.0)
}

/// The edge whose merging differs most from the baseline's edge of the same role.
fn most_different<'a>(here: &'a Evidence, baseline: &Evidence) -> Option<(&'a Edge, f64)> {
    let of_role = |edge: &Edge, other: &Edge| other.role == edge.role && other.machine == edge.machine;
    let differences = here.edges.iter().enumerate().filter_map(|(at, edge)| {
        let before = here.edges[..at].iter().filter(|other| of_role(edge, other)).count();
        let other = baseline.edges.iter().filter(|other| of_role(edge, other)).nth(before)?;
        (edge.queued > 0.0 && other.queued > 0.0).then(|| (edge, merged(edge) - merged(other)))
    });
    differences.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let baseline = case.baseline?;
    let (edge, difference) = most_different(case.here, baseline)?;
    let ratio = size(case.here) / size(baseline).max(1.0);
    let sizes_differ = !(1.0 / SIZE_RATIO..=SIZE_RATIO).contains(&ratio);
    if difference.abs() < MERGED_SHARE || !sizes_differ {
        return None;
    }
    // Fewer and larger requests are less work; what they can cost is the waiting for one another.
    let slower = case.whole_ns() > 0.0;
    if difference > 0.0 && slower && case.more(waited) < case.whole_ns() / 2.0 {
        return None;
    }
    let effect = [Part::Data, Part::Idle].map(|part| left.claim_all(part)).iter().sum();
    let words = format!(
        "{} of the requests are merged at {}, against {} in the baseline; a request at the medium \
         has {:.0} KiB instead of {:.0}",
        units::percent(merged(edge)),
        edge.layer,
        units::percent(merged(edge) - difference),
        size(case.here) / 1024.0,
        size(baseline) / 1024.0
    );
    let mut found = finding(MechanismName::Merging, &edge.layer, effect, words);
    let requests = |e: &Evidence| e.per_operation(e.lowest().map_or(0.0, Edge::issued));
    found.numbers = vec![
        case.number("size of a request at the medium", "KiB", |e| size(e) / 1024.0),
        case.number("requests at the medium", "per operation", requests),
    ];
    found.advice = case.advice(if difference < 0.0 {
        const {
            &[
                Proposal::to("merging of neighbours (merges=on)", is_any, "merges", "on"),
                Proposal::to("a scheduler that merges (sched=mq-deadline)", is_any, "sched", "mq-deadline"),
                Proposal::general("larger requests from the application"),
            ]
        }
    } else {
        const {
            &[Proposal::to(
                "sched=none where merging delays single requests; it helps throughput",
                is_any,
                "sched",
                "none",
            )]
        }
    });
    Some(found)
}
