//! What file systems read and write for themselves.

use nestor_stack::{DataJournal, Layer};

use super::Mechanism;
use crate::advice::{
    Proposal, can_have_raw_disk, has_file_system, has_nested_file_systems, is_image, journals_data,
    topmost_file_system,
};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName};

pub(super) static JOURNAL_OF_JOURNAL: Mechanism = Mechanism {
    name: MechanismName::JournalOfJournal,
    summary: "each commit of the guest's journal makes the host's file system commit its own",
    acts_in: has_nested_file_systems,
    find: find_journal_of_journal,
};

pub(super) static HOST: Mechanism = Mechanism {
    name: MechanismName::HostAmplification,
    summary: "journal and metadata of a file system below the topmost one",
    acts_in: has_file_system,
    find: find_host,
};

pub(super) static GUEST: Mechanism = Mechanism {
    name: MechanismName::GuestAmplification,
    summary: "journal and metadata of the topmost file system",
    acts_in: has_file_system,
    find: find_guest,
};

/// Requests of their own for each operation from which on they matter.
const OWN_PER_OPERATION: f64 = 0.01;
/// How many times as many as in the baseline they must be: runs of one stack differ by some per cent.
const CLEARLY_MORE: f64 = 1.1;
/// Commits of the host's journal for each of the guest's from which on one is taken to cause the other.
const HOST_COMMITS_PER_GUEST_COMMIT: f64 = 0.25;

fn requests(e: &Evidence, parts: &[Part]) -> f64 {
    e.per_operation(parts.iter().map(|part| e.spent_on(*part).requests as f64).sum())
}

fn kibibytes(e: &Evidence, parts: &[Part]) -> f64 {
    e.per_operation(parts.iter().map(|part| e.spent_on(*part).bytes as f64).sum()) / 1024.0
}

/// Of the flushes for each operation that the medium got more than in the baseline, those that belong to commits of a
/// journal: asked for at the journal's level, and at most one before and one after each commit.
fn flushes_of(case: &Case<'_>, journal: Part) -> f64 {
    let (on_top, at_medium) = (case.more(Evidence::flushes_at_top), case.more(Evidence::flushes_at_medium));
    let asked = if journal == Part::HostJournal { at_medium - on_top } else { on_top };
    let commits = case.more(|e| requests(e, &[journal]));
    asked.min(2.0 * commits).min(at_medium).max(0.0)
}

/// All such flushes, of the guest's journal and the host's.
pub(super) fn flushes_of_commits(case: &Case<'_>) -> f64 {
    flushes_of(case, Part::TopJournal) + flushes_of(case, Part::HostJournal)
}

/// Claims the parts, of the others the time of the ways back from them, which they cause, and of the flushes those of
/// their commits.
fn claim(case: &Case<'_>, left: &mut Left, parts: &[Part]) -> f64 {
    let more = case.more(Evidence::flushes_at_medium);
    let of_commits =
        parts.first().map_or(0.0, |journal| flushes_of(case, *journal)) / more.max(f64::MIN_POSITIVE);
    let flushes = left.claim(Part::Flush, left.part(Part::Flush).max(0.0) * of_commits);
    // What one of them saves is theirs too: a journal may gather what was metadata in its place before.
    let own: f64 = parts.iter().map(|part| left.claim_all(*part)).sum();
    let disturbed = [Part::Data, Part::TopJournal, Part::TopMetadata, Part::HostJournal, Part::HostMetadata];
    let back = disturbed.into_iter().filter(|part| !parts.contains(part)).map(|part| {
        let way_back = case.more(|e| e.per_operation(way_ns(e, parts, part)));
        left.claim(part, way_back.max(0.0))
    });
    let back = back.sum::<f64>();
    flushes + own + back + left.claim(Part::Idle, case.on_the_way_ns(case.more(|e| requests(e, parts))))
}

/// Time of the requests of a part right after a jump from one of others.
fn way_ns(e: &Evidence, from: &[Part], to: Part) -> f64 {
    let ways = e.blame.transitions.iter();
    let ways = ways.filter(|t| from.contains(&e.part_of(&t.from)) && e.part_of(&t.to) == to);
    ways.map(|t| t.busy_ns as f64).sum()
}

/// Whether a part has clearly more requests for each operation than in the baseline.
fn has_more(case: &Case<'_>, parts: &[Part]) -> bool {
    let (here, baseline) = case.both(|e| requests(e, parts));
    let baseline = baseline.unwrap_or(0.0);
    here - baseline >= OWN_PER_OPERATION && here >= CLEARLY_MORE * baseline
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

const PREALLOCATED: &str = "a preallocated image (alloc=full)";
const RAW_DISK: &str = "a raw disk";

const GUEST_PARTS: &[Part] = &[Part::TopJournal, Part::TopMetadata];
const HOST_PARTS: &[Part] = &[Part::HostJournal, Part::HostMetadata];

fn host_layer(e: &Evidence) -> String {
    e.edges
        .iter()
        .find(|edge| edge.role.is_host_file_system())
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
    left.take_requests(HOST_PARTS);
    let effect = claim(case, left, HOST_PARTS);
    let words = format!(
        "journal of journal: each request to the guest's journal causes {for_one:.1} requests to the \
         journal of the host's file system"
    );
    let mut found = finding(MechanismName::JournalOfJournal, &host_layer(case.here), effect, words);
    numbers(case, HOST_PARTS, &mut found);
    found.numbers.insert(0, case.number("requests to the guest's journal", "per operation", guest));
    found.advice = case.advice(&[
        Proposal::to(PREALLOCATED, is_image, "alloc", "full"),
        Proposal::general("a host file system that does not commit for an overwrite"),
        Proposal::in_stacks(RAW_DISK, can_have_raw_disk),
    ]);
    Some(found)
}

fn find_host(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    if !has_more(case, HOST_PARTS) || !left.take_requests(HOST_PARTS) {
        return None;
    }
    let effect = claim(case, left, HOST_PARTS);
    let words = format!(
        "the host's file system adds {:.2} requests of its own, {:.1} KiB, per operation",
        requests(case.here, HOST_PARTS),
        kibibytes(case.here, HOST_PARTS)
    );
    let mut found = finding(MechanismName::HostAmplification, &host_layer(case.here), effect, words);
    numbers(case, HOST_PARTS, &mut found);
    found.advice = case.advice(&[
        Proposal::to(PREALLOCATED, is_image, "alloc", "full"),
        Proposal::general("mount options with less journalling"),
        Proposal::in_stacks(RAW_DISK, can_have_raw_disk),
    ]);
    Some(found)
}

fn find_guest(case: &Case<'_>, left: &mut Left) -> Option<Finding> {
    if !has_more(case, GUEST_PARTS) || !left.take_requests(GUEST_PARTS) {
        return None;
    }
    let effect = claim(case, left, GUEST_PARTS);
    let words = format!(
        "journal and metadata of the topmost file system: {:.2} requests, {:.1} KiB, per operation",
        requests(case.here, GUEST_PARTS),
        kibibytes(case.here, GUEST_PARTS)
    );
    let layer = case.here.edges.first().map_or_else(String::new, |edge| edge.layer.clone());
    let mut found = finding(MechanismName::GuestAmplification, &layer, effect, words);
    numbers(case, GUEST_PARTS, &mut found);
    found.advice = case.advice(&[
        Proposal::general("fewer fsyncs"),
        Proposal::in_stacks("no times of access (mount=noatime)", |stack| {
            topmost_file_system(stack).is_some_and(Layer::keeps_access_times)
        }),
        Proposal::to("a journal of metadata alone (journal=ordered)", journals_data, "journal", "ordered"),
        Proposal::in_stacks("a journal of metadata alone (mount=data=ordered)", |stack| {
            topmost_file_system(stack).and_then(Layer::data_journal) == Some(DataJournal::Mount)
        }),
        Proposal::general("another file system"),
    ]);
    Some(found)
}
