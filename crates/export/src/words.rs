//! Names of things in exported files: the ones they are serialised with in Nestor's own results.

use nestor_correlate::Origin;
use nestor_trace::Operation;
use nestor_trace::event::Flags;

pub(crate) fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        Operation::Discard => "discard",
    }
}

pub(crate) fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Parent => "parent",
        Origin::FlushOfParent => "flush-of-parent",
        Origin::WriteBack => "write-back",
        Origin::ReadAhead => "read-ahead",
        Origin::ReadModifyWrite => "read-modify-write",
        Origin::Journal => "journal",
        Origin::Metadata => "metadata",
        Origin::Unknown => "unknown",
    }
}

/// The flags that are set, with a space between them; empty for none.
pub(crate) fn flags(flags: Flags) -> String {
    const NAMES: [(Flags, &str); 6] = [
        (Flags::FLUSH, "flush"),
        (Flags::FUA, "fua"),
        (Flags::SYNC, "sync"),
        (Flags::META, "meta"),
        (Flags::AHEAD, "ahead"),
        (Flags::PASSTHROUGH, "passthrough"),
    ];
    let set = NAMES.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| *name);
    set.collect::<Vec<_>>().join(" ")
}
