//! Tables of the image format: lookups that miss, clusters that are allocated.

use super::Mechanism;
use crate::advice::{Proposal, has_tables, is_image};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::ImageMetadata,
    summary: "the image format reads or writes its own tables (qcow2: L2 misses, allocation of clusters)",
    acts_in: has_tables,
    find,
};

/// Table requests for each operation from which on they matter.
const TABLES_PER_OPERATION: f64 = 0.02;

fn tables(e: &Evidence) -> f64 {
    e.per_operation(e.image.map_or(0.0, |image| image.table_reads + image.allocations))
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    if case.more(tables) < TABLES_PER_OPERATION || !left.take_requests(&[Part::ImageFormat]) {
        return None;
    }
    let mut effect = left.claim_all(Part::ImageFormat);
    // Each table read or write also takes the arm away from the data.
    let own = |e: &Evidence| e.per_operation(e.spent_on(Part::ImageFormat).requests as f64);
    if own(case.here) > TABLES_PER_OPERATION {
        effect += left.claim(Part::Data, left.part(Part::Data).max(0.0));
        // And a request waits for its table before it gets on its way: fewer are under way at once.
        effect += left.claim(Part::Idle, left.part(Part::Idle).max(0.0));
    }
    let layer = case.here.edges.iter().find(|edge| edge.role.is_image());
    let layer = layer.map_or_else(String::new, |edge| edge.layer.clone());
    let image = |e: &Evidence, of: fn(crate::evidence::ImageEvidence) -> f64| {
        e.per_operation(e.image.map_or(0.0, of))
    };
    let words = format!(
        "the image format does {:.2} table reads and {:.2} allocations per operation",
        image(case.here, |i| i.table_reads),
        image(case.here, |i| i.allocations)
    );
    let mut found = finding(MechanismName::ImageMetadata, &layer, effect, words);
    found.numbers = vec![
        case.number("table reads", "per operation", |e| image(e, |i| i.table_reads)),
        case.number("allocations", "per operation", |e| image(e, |i| i.allocations)),
        case.number("time of tables at the lowest level", "us per operation", |e| {
            e.part_ns(Part::ImageFormat) / 1e3
        }),
    ];
    found.advice = case.advice(&[
        Proposal::more(
            "a larger l2-cache= (bytes needed: size of the disk × 8 / cluster size)",
            is_image,
            "l2-cache",
        ),
        Proposal::more("a larger cluster=", is_image, "cluster"),
        Proposal::to("prealloc=metadata", is_image, "prealloc", "metadata"),
        Proposal::in_stacks("raw", has_tables),
    ]);
    Some(found)
}
