//! Only few requests may be under way at once.

use nestor_stack::layers::hypervisors::devices::QueueDepth;
use nestor_stack::{Layer, Stack};

use super::Mechanism;
use crate::advice::{Proposal, has};
use crate::case::{Case, Left, finding};
use crate::evidence::{Edge, Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::SingleQueue,
    summary: "a device model or queue lets only one request through at a time",
    acts_in: |_| true,
    find,
};

/// At most so many requests below an edge that is a limit.
const NARROW: f64 = 1.2;
/// And at least so many: below a limit hardly a moment passes without a request while others wait above it. Where there are fewer, they
/// wait for something else, such as a processor.
const OCCUPIED: f64 = 0.5;
/// At least so many application operations in flight, for a limit to matter.
const WIDE: f64 = 2.0;

/// The first edge with hardly more than one request below it, while more wait above it than it lets through.
fn narrow(e: &Evidence) -> Option<&Edge> {
    e.edges.iter().find(|edge| {
        edge.issued() > 0.0 && (OCCUPIED..=NARROW).contains(&edge.depth()) && edge.waited_ns > edge.served_ns
    })
}

fn is_narrow(layer: &Layer) -> bool {
    layer.hypervisor().is_some_and(|options| options.disk.queue() == QueueDepth::Narrow)
}

fn has_narrow_device(stack: &Stack) -> bool {
    has(stack, |layer| is_narrow(layer) && layer.spec.hosted().is_none())
}

/// Of a hypervisor that has other controllers.
fn has_narrow_hosted_device(stack: &Stack) -> bool {
    has(stack, |layer| is_narrow(layer) && layer.spec.hosted().is_some())
}

fn depth(e: &Evidence) -> f64 {
    e.lowest().map_or(0.0, Edge::depth)
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let edge = narrow(case.here)?;
    let was_wide =
        case.baseline.is_none_or(|b| narrow(b).is_none() && depth(b) > WIDE * NARROW.min(depth(case.here)));
    if case.here.concurrency() < WIDE || !was_wide {
        return None;
    }
    let effect = [Part::Data, Part::Idle].map(|part| left.claim(part, left.part(part).max(0.0))).iter().sum();
    let words = format!(
        "the application keeps {:.1} operations in flight, but the {}'s device lets {:.1} through",
        case.here.concurrency(),
        edge.machine,
        edge.depth()
    );
    // What narrows lies below the edge.
    let below = case.here.edges.iter().skip_while(|other| *other != edge).nth(1).unwrap_or(edge);
    let mut found = finding(MechanismName::SingleQueue, &below.layer, effect, words);
    found.numbers = vec![
        case.number("application operations in flight", "", Evidence::concurrency),
        case.number("requests in flight at the lowest level", "", depth),
        case.number("wait above the bottleneck", "us per request", |e| {
            e.edges.first().map_or(0.0, |edge| edge.waited_ns / edge.issued().max(1.0) / 1e3)
        }),
    ];
    let is_of_guest = below.machine != edge.machine;
    found.advice = case.advice(if is_of_guest {
        const {
            &[
                Proposal::in_stacks(
                    "a device model with a deeper queue: disk=virtio-blk, virtio-scsi or nvme",
                    has_narrow_device,
                ),
                Proposal::in_stacks(
                    "a controller with a deeper queue: disk=virtio-scsi of vbox, disk=nvme of vmware",
                    has_narrow_hosted_device,
                ),
            ]
        }
    } else {
        const { &[Proposal::general("a disk or a controller that takes more requests at once")] }
    });
    Some(found)
}
