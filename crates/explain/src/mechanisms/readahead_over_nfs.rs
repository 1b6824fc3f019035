//! More is read over the network than the application asks for.

use nestor_trace::BLOCK_BYTES;
use nestor_trace::rpc::CallKind;

use super::Mechanism;
use crate::advice::{Proposal, has_network_file_system, is_buffered, is_network_mount, is_virtual_machine};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};
use crate::network::NetworkEvidence;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::ReadaheadOverNfs,
    summary: "the client, or a guest, reads ahead over the network what the application does not ask for",
    acts_in: has_network_file_system,
    find,
};

/// Bytes over the network for each that the application asks for, from which on they are more than structures of file systems.
const TIMES_ASKED: f64 = 1.5;

/// Bytes that READ brings for each that the application asks for, of small reads a page, which is the least that a cache reads; 0 if it reads nothing or nothing is read for it.
fn times_asked(e: &Evidence) -> f64 {
    let asked = e.reads.bytes.max(e.reads.count * BLOCK_BYTES as f64);
    if asked <= 0.0 { 0.0 } else { brought(e) / asked }
}

fn brought(e: &Evidence) -> f64 {
    e.networks.iter().map(|network| network.read_bytes).sum()
}

/// Time of the READ calls that brings what was not asked for, for each operation, ns.
fn in_vain_ns(e: &Evidence) -> f64 {
    let share = 1.0 - 1.0 / times_asked(e).max(1.0);
    e.over_networks(|network| network.waited_ns(CallKind::Read)) * share
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let times = times_asked(case.here);
    if times < TIMES_ASKED * case.baseline.map_or(1.0, times_asked).max(1.0) {
        return None;
    }
    let effect = left.claim_of(&[Part::Idle, Part::Data], case.more(in_vain_ns).max(0.0));
    let words = format!(
        "{times:.1} bytes are read over the network for each that the application asks for, {:.0} KiB with each call",
        brought(case.here)
            / case.here.networks.iter().map(|n| n.of(CallKind::Read).calls).sum::<f64>().max(1.0)
            / 1024.0
    );
    let layer = case.here.networks.first().map_or_else(String::new, |network| network.layer.clone());
    let mut found = finding(MechanismName::ReadaheadOverNfs, &layer, effect, words);
    let reads = |network: &NetworkEvidence| network.of(CallKind::Read).calls;
    found.numbers = vec![
        case.number("bytes read over bytes asked for", "", times_asked),
        case.number("READ calls", "per operation", |e| e.over_networks(reads)),
        case.number("time of what was not asked for", "us per operation", |e| in_vain_ns(e) / 1e3),
    ];
    found.advice = case.advice(&[
        Proposal::of_guest("cache=none for a guest", "cache", "none"),
        Proposal::of_load(
            "O_DIRECT or POSIX_FADV_RANDOM for an application that reads at random",
            is_buffered,
        ),
        Proposal::less("a smaller readahead= of a guest's device", is_virtual_machine, "readahead"),
        Proposal::less("smaller calls (rsize=)", is_network_mount, "rsize"),
    ]);
    Some(found)
}
