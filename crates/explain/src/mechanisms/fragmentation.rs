//! The image file lies in pieces.

use nestor_text::units;

use super::Mechanism;
use crate::advice::{Proposal, has_image, is_image};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::Fragmentation,
    summary: "requests that are sequential in the guest are scattered on the medium, because the image file \
              is fragmented",
    acts_in: has_image,
    find,
};

/// Share of the data requests at the lowest level that were scattered, or of the time of an operation that these requests took.
const SCATTERED_SHARE: f64 = 0.02;

fn scattered(e: &Evidence) -> f64 {
    let data = e.spent_on(Part::Data);
    data.scattered as f64 / (data.requests as f64).max(1.0)
}

/// Time of the scattered requests for each operation, ns.
fn scattered_ns(e: &Evidence) -> f64 {
    e.per_operation(e.spent_on(Part::Data).scattered_busy_ns as f64)
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let pieces = |e: &Evidence| e.image.map_or(0.0, |image| image.extents / e.runs.len().max(1) as f64);
    // A server's threads take the parts of a read in any order: over a network as many requests may jump within one fragment. What they
    // take tells them apart.
    let jumps_more = case.more(scattered) >= SCATTERED_SHARE
        || case.more(scattered_ns) >= SCATTERED_SHARE * case.here.time_per_operation_ns();
    if !jumps_more || pieces(case.here) < 2.0 * case.baseline.map_or(8.0, pieces).max(1.0) {
        return None;
    }
    let effect = left.claim(Part::Data, left.part(Part::Data).max(0.0));
    let words = format!(
        "the image file has {:.0} fragments: {} of the requests at the medium jump where the guest's \
         do not",
        pieces(case.here),
        units::percent(scattered(case.here))
    );
    let layer = case.here.edges.iter().find(|edge| edge.role.is_image());
    let layer = layer.map_or_else(String::new, |edge| edge.layer.clone());
    let mut found = finding(MechanismName::Fragmentation, &layer, effect, words);
    found.numbers = vec![
        case.number("fragments of the image file", "", pieces),
        case.number("scattered requests", "%", |e| scattered(e) * 100.0),
        case.number("time of scattered requests", "us per operation", |e| scattered_ns(e) / 1e3),
    ];
    found.advice = case.advice(&[
        Proposal::to("the whole image allocated at once (alloc=full)", is_image, "alloc", "full"),
        Proposal::to("the same without writing it (alloc=falloc)", is_image, "alloc", "falloc"),
        Proposal::general("a copy of the image in a new file"),
    ]);
    Some(found)
}
