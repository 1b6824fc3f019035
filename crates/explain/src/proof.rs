//! Requests that show a mechanism, taken from the sampled trees.

use nestor_correlate::{Node, Origin};
use nestor_layout::Class;
use nestor_trace::Operation;

use crate::evidence::Evidence;
use crate::finding::{MechanismName, Proof};

/// Proofs kept for each finding.
const MOST_PROOFS: usize = 3;

/// Requests of the sampled trees that show the mechanism.
pub fn of(evidence: &Evidence, mechanism: MechanismName) -> Vec<Proof> {
    let mut proofs = Vec::new();
    for (run, levels, tree) in &evidence.trees {
        let mut path = Vec::new();
        visit(&tree.root, &mut path, &mut |path, node| {
            if proofs.len() < MOST_PROOFS && shows(mechanism, path, node) {
                let level = levels.get(node.level).cloned().unwrap_or_default();
                let words = words(path, node, levels, &tree.name);
                proofs.push(Proof { run: *run, level, request: node.request.id, words });
            }
        });
    }
    proofs
}

fn visit<'a>(node: &'a Node, path: &mut Vec<&'a Node>, see: &mut impl FnMut(&[&'a Node], &'a Node)) {
    see(path, node);
    path.push(node);
    for child in &node.children {
        visit(child, path, see);
    }
    path.pop();
}

/// Whether a request, below those of `path`, shows a mechanism.
fn shows(mechanism: MechanismName, path: &[&Node], node: &Node) -> bool {
    let request = &node.request;
    match mechanism {
        MechanismName::HostReadAhead => {
            path.last().is_some_and(|parent| {
                parent.request.operation == Operation::Read && request.bytes > parent.request.bytes
            }) || node.origin == Origin::ReadAhead
        }
        MechanismName::HostCache => path.is_empty() && node.children.is_empty() && request.bytes > 0,
        MechanismName::Merging => node.shared_with > 0 || request.bios > 1,
        MechanismName::GuestAmplification => {
            path.is_empty() && (request.class == Class::Journal || request.class.is_metadata())
        }
        MechanismName::HostAmplification | MechanismName::JournalOfJournal => {
            matches!(node.origin, Origin::Journal | Origin::Metadata)
                || (!path.is_empty() && (request.class == Class::Journal || request.class.is_metadata()))
        }
        MechanismName::ReadModifyWrite => node.origin == Origin::ReadModifyWrite,
        MechanismName::Flushes => request.operation == Operation::Flush,
        MechanismName::SeeksToLog => path.is_empty() && request.class == Class::Journal,
        MechanismName::ImageMetadata => node.origin == Origin::Metadata,
        MechanismName::SingleQueue => {
            path.is_empty()
                && request.issued_ns - request.queued_ns.min(request.issued_ns)
                    > request.completed_ns.saturating_sub(request.issued_ns)
        }
        MechanismName::CpuBound => path.is_empty() && !node.children.is_empty(),
        MechanismName::Fragmentation => node.children.len() > 1,
        MechanismName::Noise => false,
    }
}

fn words(path: &[&Node], node: &Node, levels: &[String], tree: &str) -> String {
    let request = &node.request;
    let what = match request.operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        Operation::Discard => "discard",
    };
    let place = match request.bytes {
        0 => String::new(),
        bytes => format!(" of {} at {} KiB", kibibytes(bytes), request.offset / 1024),
    };
    let class = match request.class {
        Class::Unknown | Class::Flush => String::new(),
        class => format!(" ({})", class.name()),
    };
    let below = match path.last() {
        Some(parent) => format!(
            ", for the {} of {} at {} KiB of {}",
            if parent.request.operation == Operation::Read { "read" } else { "write" },
            kibibytes(parent.request.bytes),
            parent.request.offset / 1024,
            levels.get(parent.level).map_or("the level above", String::as_str)
        ),
        None => String::new(),
    };
    let us = |ns: u64| ns as f64 / 1000.0;
    format!(
        "{what}{place}{class}, {:.0} us waiting and {:.0} us below{below} [{tree}]",
        us(request.issued_ns.saturating_sub(request.queued_ns)),
        us(request.completed_ns.saturating_sub(request.issued_ns)),
    )
}

fn kibibytes(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} bytes") }
}
