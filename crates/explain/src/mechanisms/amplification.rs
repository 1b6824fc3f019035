//! What file systems read and write for themselves.

use nestor_correlate::Spent;

use super::Mechanism;
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static JOURNAL_OF_JOURNAL: Mechanism = Mechanism {
    name: MechanismName::JournalOfJournal,
    summary: "each commit of the guest's journal makes the host's file system commit its own",
    find: find_journal_of_journal,
};

pub(super) static HOST: Mechanism = Mechanism {
    name: MechanismName::HostAmplification,
    summary: "journal and metadata of a file system below the topmost one",
    find: find_host,
};

pub(super) static GUEST: Mechanism = Mechanism {
    name: MechanismName::GuestAmplification,
    summary: "journal and metadata of the topmost file system",
    find: find_guest,
};

/// Requests of their own for each operation from which on they matter.
const OWN_PER_OPERATION: f64 = 0.01;
/// Commits of the host's journal for each of the guest's from which on one is taken to cause the other.
const HOST_COMMITS_PER_GUEST_COMMIT: f64 = 0.25;

fn of_part(e: &Evidence, part: Part) -> Spent {
    e.spent(|cause| Part::of(cause) == part)
}

fn requests(e: &Evidence, parts: &[Part]) -> f64 {
    e.per_operation(parts.iter().map(|part| of_part(e, *part).requests as f64).sum())
}

fn kibibytes(e: &Evidence, parts: &[Part]) -> f64 {
    e.per_operation(parts.iter().map(|part| of_part(e, *part).bytes as f64).sum()) / 1024.0
}

/// Claims the parts, and of the data the time of jumps back from them, which they cause.
fn claim(case: &Case<'_>, left: &mut Left, parts: &[Part]) -> f64 {
    let own: f64 = parts.iter().map(|part| left.claim(*part, left.part(*part).max(0.0))).sum();
    let back = |e: &Evidence| {
        let back = e
            .blame
            .transitions
            .iter()
            .filter(|t| parts.contains(&Part::of(&t.from)) && Part::of(&t.to) == Part::Data);
        e.per_operation(back.map(|t| t.busy_ns as f64).sum())
    };
    own + left.claim(Part::Data, case.more(back).max(0.0))
}

fn numbers(case: &Case<'_>, parts: &'static [Part], found: &mut Finding) {
    found.numbers = vec![
        case.number("requests", "per operation", |e| requests(e, parts)),
        case.number("bytes", "KiB per operation", |e| kibibytes(e, parts)),
        case.number("time at the lowest level", "us per operation", |e| {
            parts.iter().map(|part| e.part_ns(*part)).sum::<f64>() / 1e3
        }),
    ];
}

const GUEST_PARTS: &[Part] = &[Part::TopJournal, Part::TopMetadata];
const HOST_PARTS: &[Part] = &[Part::HostJournal, Part::HostMetadata];

fn host_layer(e: &Evidence) -> String {
    e.edges
        .iter()
        .find(|edge| edge.role.contains("host fs"))
        .map_or_else(String::new, |edge| edge.layer.clone())
}

fn find_journal_of_journal(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    let host = |e: &Evidence| requests(e, &[Part::HostJournal]);
    let guest = |e: &Evidence| requests(e, &[Part::TopJournal]);
    let for_one = host(case.here) / guest(case.here).max(f64::MIN_POSITIVE);
    if guest(case.here) < OWN_PER_OPERATION
        || case.more(host) < OWN_PER_OPERATION
        || for_one < HOST_COMMITS_PER_GUEST_COMMIT
    {
        return None;
    }
    let effect = claim(case, left, HOST_PARTS);
    let words = format!(
        "journal of journal: for each request to the guest's journal the host's file system makes {for_one:.1} to its own"
    );
    let mut found = finding(MechanismName::JournalOfJournal, &host_layer(case.here), effect, words);
    numbers(case, HOST_PARTS, &mut found);
    found.numbers.insert(0, case.number("requests to the guest's journal", "per operation", guest));
    found.advice = Some(
        "a preallocated image (alloc=full), a host file system that need not commit for an overwrite, or a raw disk".to_owned(),
    );
    Some(found)
}

fn find_host(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    if case.more(|e| requests(e, HOST_PARTS)) < OWN_PER_OPERATION {
        return None;
    }
    let effect = claim(case, left, HOST_PARTS);
    let words = format!(
        "the host's file system adds {:.2} requests of its own, {:.1} KiB, for each operation",
        requests(case.here, HOST_PARTS),
        kibibytes(case.here, HOST_PARTS)
    );
    let mut found = finding(MechanismName::HostAmplification, &host_layer(case.here), effect, words);
    numbers(case, HOST_PARTS, &mut found);
    found.advice = Some(
        "a preallocated image (alloc=full), mount options with less journalling, or a raw disk".to_owned(),
    );
    Some(found)
}

fn find_guest(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    if case.more(|e| requests(e, GUEST_PARTS)) < OWN_PER_OPERATION {
        return None;
    }
    let effect = claim(case, left, GUEST_PARTS);
    let words = format!(
        "journal and metadata of the topmost file system: {:.2} requests, {:.1} KiB, for each operation",
        requests(case.here, GUEST_PARTS),
        kibibytes(case.here, GUEST_PARTS)
    );
    let layer = case.here.edges.first().map_or_else(String::new, |edge| edge.layer.clone());
    let mut found = finding(MechanismName::GuestAmplification, &layer, effect, words);
    numbers(case, GUEST_PARTS, &mut found);
    found.advice = Some(
        "fewer fsyncs, mount options with less journalling (data=ordered, noatime), or another file system"
            .to_owned(),
    );
    Some(found)
}
