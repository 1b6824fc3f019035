//! Calls for names and attributes.

use nestor_trace::rpc::CallKind;

use super::Mechanism;
use crate::advice::{
    Proposal, has_network_file_system, has_time_of_files, is_network_file_system, is_network_mount,
};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};
use crate::network::NetworkEvidence;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: MechanismName::MetadataRpc,
    summary: "each operation takes calls to the server for names and attributes (LOOKUP, GETATTR, ACCESS, CREATE …)",
    acts_in: has_network_file_system,
    find,
};

/// Calls for each operation from which on they matter.
const CALLS_PER_OPERATION: f64 = 0.05;
/// How many times as many as in the baseline they must be: runs of one stack differ by some per cent.
const CLEARLY_MORE: f64 = 1.1;

/// What such a call waits for: the way there, and at the server the file system's structures, which it reads, or makes durable before it
/// answers (`commit_metadata`, fs/nfsd/vfs.c).
const PARTS: [Part; 7] = [
    Part::Idle,
    Part::HostJournal,
    Part::HostMetadata,
    Part::TopJournal,
    Part::TopMetadata,
    Part::Flush,
    Part::Data,
];

fn calls(e: &Evidence) -> f64 {
    e.over_networks(|network| network.of(CallKind::Metadata).calls)
}

fn waited_ns(e: &Evidence) -> f64 {
    e.over_networks(|network| network.waited_ns(CallKind::Metadata))
}

fn find(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let (here, baseline) = (calls(case.here), case.baseline.map_or(0.0, calls));
    let (fewer, more) = if here < baseline { (here, baseline) } else { (baseline, here) };
    let differ_alike = (here - baseline) * case.more(waited_ns) > 0.0;
    if more - fewer < CALLS_PER_OPERATION || more < CLEARLY_MORE * fewer || !differ_alike {
        return None;
    }
    let effect = left.claim_of(&PARTS, case.more(waited_ns));
    let with_more = if here < baseline { case.baseline? } else { case.here };
    let words = format!(
        "{more:.2} calls for names and attributes for each operation, {:.2} ms each",
        waited_ns(with_more) / more / 1e6
    );
    let layer = with_more.networks.first().map_or_else(String::new, |network| network.layer.clone());
    let mut found = finding(MechanismName::MetadataRpc, &layer, effect, words);
    found.numbers = vec![
        case.number("calls for names and attributes", "per operation", calls),
        case.number("time of these calls", "us per operation", |e| waited_ns(e) / 1e3),
        case.number("all other calls", "per operation", |e| {
            e.over_networks(|network: &NetworkEvidence| network.all().calls) - calls(e)
        }),
    ];
    found.advice = case.advice(&[
        Proposal::more("attributes that are believed for longer (actimeo=)", is_network_mount, "actimeo"),
        Proposal::more("attributes of files that are believed for longer (acregmax=)", has_time_of_files, "acregmax"),
        Proposal::general("fewer and larger files"),
        Proposal::in_stacks(
            "a file system of the client's own in an image on the server (loop/raw/nfs, kvm/raw/nfs): its names and attributes are \
             blocks, which the client keeps",
            is_network_file_system,
        ),
    ]);
    Some(found)
}
