//! Writes that have to be durable at the server before the client goes on.

use nestor_stack::{Export, Layer, Stack};
use nestor_trace::rpc::CallKind;

use super::Mechanism;
use crate::advice::{Proposal, has, is_network_file_system, is_network_mount};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};
use crate::network::NetworkEvidence;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::SynchronousWrite,
    summary: "each write over the network, or each flush of a guest, waits until the server has made it durable (COMMIT, stable WRITE)",
    acts_in,
    find,
};

/// Durable writes for each operation from which on they are taken for the rule and not the exception.
const DURABLE_PER_OPERATION: f64 = 0.05;

/// What a durable write waits for at the server: its own requests, the journal that makes them durable, flushes, and the way there.
const PARTS: [Part; 7] = [
    Part::Flush,
    Part::HostJournal,
    Part::HostMetadata,
    Part::TopJournal,
    Part::TopMetadata,
    Part::Idle,
    Part::Data,
];

/// A server that answers at once makes nobody wait until anything is durable.
fn acts_in(stack: &Stack) -> bool {
    has(stack, |layer| layer.network_file_system().is_some_and(|nfs| nfs.export == Export::Sync))
}

/// Whether writes of a guest do not stay in the page cache of the machine around it.
fn passes_writes_on(layer: &Layer) -> bool {
    layer.hypervisor().map(|o| o.disk.cache()).is_some_and(|cache| cache.direct() || !cache.write_cache())
}

fn durable(e: &Evidence) -> f64 {
    e.over_networks(NetworkEvidence::synchronous_requests)
}

fn waited_ns(e: &Evidence) -> f64 {
    e.over_networks(NetworkEvidence::synchronous_ns)
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let more = case.more(durable);
    if more.abs() < DURABLE_PER_OPERATION || more * case.more(waited_ns) <= 0.0 {
        return None;
    }
    let effect = left.claim_of(&PARTS, case.more(waited_ns));
    // Fewer of them only where the baseline had them.
    let slower = if more < 0.0 { case.baseline? } else { case.here };
    let words = format!(
        "{:.2} waits for each operation until the server has made a write durable, {:.2} ms each",
        durable(slower),
        waited_ns(slower) / durable(slower).max(f64::MIN_POSITIVE) / 1e6
    );
    let layer = slower.networks.first().map_or_else(String::new, |network| network.layer.clone());
    let mut found = finding(MechanismName::SynchronousWrite, &layer, effect, words);
    let commits = |network: &NetworkEvidence| network.of(CallKind::Commit).calls;
    found.numbers = vec![
        case.number("COMMIT calls", "per operation", |e| e.over_networks(commits)),
        case.number("WRITE calls that were waited for", "per operation", |e| {
            e.over_networks(NetworkEvidence::awaited_writes)
        }),
        case.number("time of these calls", "us per operation", |e| waited_ns(e) / 1e3),
        case.number("flushes at the medium", "per operation", Evidence::flushes_at_medium),
    ];
    let has_fsyncs = slower.over_networks(|network| network.fsyncs) > 0.0;
    found.advice = case.advice(&[
        Proposal::general(if has_fsyncs {
            "fewer fsyncs"
        } else {
            "writes through the page cache, or several at once"
        }),
        Proposal::to("no sync on the mount (sync=off)", is_network_mount, "sync", "off"),
        Proposal::in_stacks("cache=writeback for a guest whose image is on the server", |stack| {
            !is_network_file_system(stack) && has(stack, passes_writes_on)
        }),
        Proposal::general("a medium with a cache that outlasts a power cut"),
        Proposal::to(
            "export=async, with which a crash of the server loses what it has acknowledged",
            is_network_mount,
            "export",
            Export::Async.name(),
        ),
    ]);
    Some(found)
}
