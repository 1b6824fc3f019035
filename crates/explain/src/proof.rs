//! Requests that show a mechanism, taken from the sampled trees.

use nestor_correlate::{Choice, Level, LevelIndex, LevelKind, Node, Origin};
use nestor_layout::Class;
use nestor_text::units;
use nestor_trace::{Operation, Request};

use crate::evidence::Evidence;
use crate::finding::{MechanismName, Proof};

/// Proofs kept for each finding.
const MOST_PROOFS: usize = 3;

/// Requests of the sampled trees that show the mechanism.
pub fn of(evidence: &Evidence, mechanism: MechanismName) -> Vec<Proof> {
    if mechanism == MechanismName::Fragmentation {
        return scattered(evidence);
    }
    let mut proofs = Vec::new();
    for (run, levels, tree) in &evidence.trees {
        let mut path = Vec::new();
        let top_block = levels.iter().position(|level| level.kind != LevelKind::Application).unwrap_or(0);
        let (top_block, lowest) = (LevelIndex::at(top_block), LevelIndex::at(levels.len() - 1));
        visit(&tree.root, &mut path, &mut |path, node| {
            if proofs.len() < MOST_PROOFS && shows(mechanism, path, node, (top_block, lowest)) {
                let level = name_of(levels, node.level).unwrap_or_default();
                let words = words(path, node, levels, tree.choice);
                proofs.push(Proof { run: *run, level, request: node.request.id, words });
            }
        });
    }
    proofs
}

/// Neighbours above that are none below: of requests that follow one another in time, those that continue the one before
/// while what they cause at the lowest level does not.
fn scattered(evidence: &Evidence) -> Vec<Proof> {
    let mut proofs = Vec::new();
    for pair in evidence.trees.windows(2) {
        let [(run, _, before), (same_run, levels, after)] = pair else { continue };
        let follows = run == same_run && end(&before.root.request) == after.root.request.offset;
        let (Some(last), Some(first)) = (lowest(&before.root, true), lowest(&after.root, false)) else {
            continue;
        };
        if !follows || last.level != first.level || end(&last.request) == first.request.offset {
            continue;
        }
        let mebibytes = end(&last.request).abs_diff(first.request.offset) as f64 / (1 << 20) as f64;
        let level = name_of(levels, first.level).unwrap_or_default();
        let words = format!(
            "{} is {mebibytes:.1} MiB away from the previous request, although the {} of {} continues it",
            what(&first.request),
            what(&after.root.request),
            name_of(levels, after.root.level).unwrap_or_else(|| "the level above".to_owned())
        );
        proofs.push(Proof { run: *run, level, request: first.request.id, words });
        if proofs.len() == MOST_PROOFS {
            break;
        }
    }
    proofs
}

/// `ext4 (guest block)`.
fn name_of(levels: &[Level], level: LevelIndex) -> Option<String> {
    levels.get(level.position()).map(|level| format!("{} ({})", level.layer, level.kind))
}

fn end(request: &Request) -> u64 {
    request.offset.saturating_add(request.bytes)
}

/// The last, or the first, of what a request causes at the lowest level.
fn lowest(node: &Node, last: bool) -> Option<&Node> {
    let next = if last { node.children.last() } else { node.children.first() };
    match next {
        Some(next) => lowest(next, last),
        None => (node.request.bytes > 0).then_some(node),
    }
}

fn visit<'a>(node: &'a Node, path: &mut Vec<&'a Node>, see: &mut impl FnMut(&[&'a Node], &'a Node)) {
    see(path, node);
    path.push(node);
    for child in &node.children {
        visit(child, path, see);
    }
    path.pop();
}

/// Whether a request, below those of `path`, shows a mechanism. `top_block` is the level of the topmost block device, `lowest`
/// that of the medium.
fn shows(
    mechanism: MechanismName,
    path: &[&Node],
    node: &Node,
    (top_block, lowest): (LevelIndex, LevelIndex),
) -> bool {
    let request = &node.request;
    let is_own = request.class == Class::Journal || request.class.is_metadata();
    match mechanism {
        MechanismName::HostReadAhead => {
            path.last().is_some_and(|parent| {
                parent.request.operation == Operation::Read && request.bytes > parent.request.bytes
            }) || node.origin == Origin::ReadAhead
        }
        // Not the lowest level: there nothing has children.
        MechanismName::HostCache => {
            node.level < lowest && node.level >= top_block && node.children.is_empty() && request.bytes > 0
        }
        MechanismName::Merging => node.shared_with > 0 || request.bios > 1,
        MechanismName::GuestAmplification => is_own && node.level == top_block,
        MechanismName::HostAmplification | MechanismName::JournalOfJournal => {
            is_own && node.level > top_block
        }
        MechanismName::Misalignment => {
            node.level >= top_block && request.is_misaligned() && !node.children.is_empty()
        }
        MechanismName::ReadModifyWrite => node.origin == Origin::ReadModifyWrite,
        MechanismName::Flushes => request.operation == Operation::Flush,
        MechanismName::SynchronousWrite => {
            request.operation == Operation::Flush
                || (request.operation == Operation::Write
                    && node.level >= top_block
                    && matches!(node.origin, Origin::Parent | Origin::FlushOfParent))
        }
        MechanismName::MetadataRpc => is_own && node.level >= top_block,
        MechanismName::ReadaheadOverNfs => node.origin == Origin::ReadAhead,
        MechanismName::SeeksToLog => request.class == Class::Journal,
        MechanismName::ImageMetadata => node.origin == Origin::Metadata && node.level > top_block,
        MechanismName::SingleQueue => {
            node.level == top_block
                && request.issued_ns - request.queued_ns.min(request.issued_ns)
                    > request.completed_ns.saturating_sub(request.issued_ns)
        }
        MechanismName::CpuBound | MechanismName::PathLength | MechanismName::LinkBound => {
            path.is_empty() && !node.children.is_empty()
        }
        MechanismName::Fragmentation => node.children.len() > 1,
        MechanismName::Noise => false,
    }
}

fn words(path: &[&Node], node: &Node, levels: &[Level], choice: Choice) -> String {
    let request = &node.request;
    let what = what(request);
    let class = match request.class {
        Class::Unknown | Class::Flush => String::new(),
        class => format!(" ({})", class.name()),
    };
    let below = match path.last() {
        Some(parent) => format!(
            ", for the {} of {}",
            self::what(&parent.request),
            name_of(levels, parent.level).unwrap_or_else(|| "the level above".to_owned())
        ),
        None => String::new(),
    };
    let time = |from_ns: u64, to_ns: u64| units::latency_ns(to_ns.saturating_sub(from_ns));
    format!(
        "{what}{class}, {} waiting and {} below{below} [{choice}]",
        time(request.queued_ns, request.issued_ns),
        time(request.issued_ns, request.completed_ns),
    )
}

/// `write of 8 KiB at 7432 KiB`.
fn what(request: &Request) -> String {
    let operation = request.operation.word();
    match request.bytes {
        0 => operation.to_owned(),
        bytes => format!("{operation} of {} at {} KiB", units::size(bytes), request.offset / 1024),
    }
}
