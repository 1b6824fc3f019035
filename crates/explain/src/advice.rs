//! What to change: only what a stack can be changed to, and is not already.

use nestor_stack::{Layer, LayerDefinition, LayerIndex, MediumKind, OptionKind, Stack};
use nestor_workload::{Value, Workload};

use crate::case::Case;
use crate::evidence::Evidence;

/// One thing to change.
pub(crate) struct Proposal {
    words: &'static str,
    change: Change,
}

/// What it changes.
enum Change {
    /// Something that no stack says.
    OutsideTheStack,
    /// An option of a layer gets a value.
    To { of: fn(&Layer) -> bool, option: &'static str, value: &'static str },
    /// An amount grows.
    More { option: &'static str },
    /// An amount shrinks.
    Less { option: &'static str },
    /// Something else, in the stacks for which this holds.
    Where(fn(&Stack) -> bool),
    /// Something of the load, where this holds.
    OfLoad(fn(&Workload) -> bool),
}

impl Proposal {
    /// Something that no stack says.
    pub(crate) const fn general(words: &'static str) -> Self {
        Self { words, change: Change::OutsideTheStack }
    }

    /// An option of virtual machines gets a value.
    pub(crate) const fn of_guest(words: &'static str, option: &'static str, value: &'static str) -> Self {
        Self { words, change: Change::To { of: is_virtual_machine, option, value } }
    }

    /// An option of any layer that has it gets a value.
    pub(crate) const fn to(words: &'static str, option: &'static str, value: &'static str) -> Self {
        Self { words, change: Change::To { of: |_| true, option, value } }
    }

    /// An amount grows.
    pub(crate) const fn more(words: &'static str, option: &'static str) -> Self {
        Self { words, change: Change::More { option } }
    }

    /// An amount shrinks.
    pub(crate) const fn less(words: &'static str, option: &'static str) -> Self {
        Self { words, change: Change::Less { option } }
    }

    /// Something else, in the stacks for which this holds.
    pub(crate) const fn in_stacks(words: &'static str, holds: fn(&Stack) -> bool) -> Self {
        Self { words, change: Change::Where(holds) }
    }

    /// Something of the load, where this holds.
    pub(crate) const fn of_load(words: &'static str, holds: fn(&Workload) -> bool) -> Self {
        Self { words, change: Change::OfLoad(holds) }
    }

    /// Whether it would change anything. Of a stack that is not known, nothing can be said.
    fn changes(&self, e: &Evidence) -> bool {
        let stack = e.stack.value();
        match self.change {
            Change::OutsideTheStack => true,
            Change::To { of, option, value } => stack.is_some_and(|stack| {
                stack
                    .indexed_layers()
                    .any(|(at, layer)| of(layer) && can_be(stack, (at, layer), option, value))
            }),
            Change::More { option } => stack.is_some_and(|s| has_room(s, option, largest)),
            Change::Less { option } => stack.is_some_and(|s| has_room(s, option, smallest)),
            Change::Where(holds) => stack.is_some_and(holds),
            Change::OfLoad(holds) => e.workload.value().is_some_and(holds),
        }
    }
}

impl Case<'_> {
    /// Those of some proposals that would change something here, as a sentence.
    pub(crate) fn advice(&self, proposals: &[Proposal]) -> Option<String> {
        let words: Vec<&str> =
            proposals.iter().filter(|one| one.changes(self.here)).map(|one| one.words).collect();
        match words.split_last()? {
            (last, []) => Some((*last).to_owned()),
            (last, others) => Some(format!("{}, or {last}", others.join(", "))),
        }
    }
}

/// Whether the stack with another value of an option is one, and not this one.
fn can_be(stack: &Stack, (at, layer): (LayerIndex, &Layer), option: &str, value: &str) -> bool {
    let other = layer.clone().with(option, value).ok().filter(|other| other != layer);
    other.is_some_and(|other| stack.with_layer(at, other).is_ok())
}

/// Whether a layer has an amount that is not at its end yet.
fn has_room(stack: &Stack, option: &str, end: fn(OptionKind) -> Option<String>) -> bool {
    stack.layers().iter().any(|layer| {
        let spec = layer.spec.options.iter().find(|spec| spec.name == option);
        let at_end = spec.and_then(|spec| layer.clone().with(option, &end(spec.kind)?).ok());
        at_end.is_some_and(|at_end| at_end != *layer)
    })
}

fn largest(kind: OptionKind) -> Option<String> {
    Some(match kind {
        OptionKind::Size { max, .. } => max.to_string(),
        OptionKind::Number { max, .. } => max.to_string(),
        OptionKind::BitRate { max, .. } => max.to_string(),
        OptionKind::TimeSpan { max, .. } => max.to_string(),
        _ => return None,
    })
}

fn smallest(kind: OptionKind) -> Option<String> {
    Some(match kind {
        OptionKind::Size { min, .. } => min.to_string(),
        OptionKind::Number { min, .. } => min.to_string(),
        OptionKind::BitRate { min, .. } => min.to_string(),
        OptionKind::TimeSpan { min, .. } => min.to_string(),
        _ => return None,
    })
}

fn is_virtual_machine(layer: &Layer) -> bool {
    matches!(layer.definition(), LayerDefinition::Hypervisor(_))
}

/// Whether a layer of the stack is such a one.
pub(crate) fn has(stack: &Stack, is: impl Fn(&Layer) -> bool) -> bool {
    stack.layers().iter().any(is)
}

/// Whether an image has tables of its own, which say where each part of the disk is.
pub(crate) fn has_tables(stack: &Stack) -> bool {
    has(
        stack,
        |layer| matches!(layer.definition(), LayerDefinition::ImageFormat(format) if format.map.is_some()),
    )
}

/// Whether it has an image.
pub(crate) fn has_image(stack: &Stack) -> bool {
    has(stack, |layer| matches!(layer.definition(), LayerDefinition::ImageFormat(_)))
}

/// Whether it has a network file system.
pub(crate) fn has_network_file_system(stack: &Stack) -> bool {
    has(stack, |layer| layer.network_file_system().is_some())
}

/// Whether what the application uses is a network file system, and not a disk in a file on it.
pub(crate) fn is_network_file_system(stack: &Stack) -> bool {
    stack.layers().first().is_some_and(|layer| layer.network_file_system().is_some())
}

/// Whether it has a file system on a disk.
pub(crate) fn has_file_system(stack: &Stack) -> bool {
    file_systems(stack) > 0
}

/// Whether it has a file system on a disk below another.
pub(crate) fn has_nested_file_systems(stack: &Stack) -> bool {
    file_systems(stack) > 1
}

fn file_systems(stack: &Stack) -> usize {
    let of_a_disk = |layer: &&Layer| matches!(layer.definition(), LayerDefinition::FileSystem(_));
    stack.layers().iter().filter(of_a_disk).count()
}

/// Whether a page cache lies between the application's machine and the medium: that of a machine around a guest, of a server, or of the file
/// below a loop device.
pub(crate) fn has_cache_below(stack: &Stack) -> bool {
    has(stack, |layer| match layer.definition() {
        LayerDefinition::Hypervisor(_) => layer.hypervisor().is_some_and(|o| !o.block.cache.direct()),
        LayerDefinition::NetworkDisk => layer.network_disk().is_some_and(|o| !o.block.cache.direct()),
        LayerDefinition::NetworkFileSystem => true,
        LayerDefinition::Loop => !layer.is_on("direct-io"),
        _ => false,
    })
}

/// Whether the medium may have an arm.
pub(crate) fn has_arm(stack: &Stack) -> bool {
    !matches!(
        stack.medium().definition(),
        LayerDefinition::Medium(MediumKind::Ssd | MediumKind::Nvme | MediumKind::Null)
    )
}

/// Whether its medium is an array with parity.
pub(crate) fn has_parity(stack: &Stack) -> bool {
    matches!(stack.medium().definition(), LayerDefinition::Medium(MediumKind::Raid5))
}

/// Whether a guest could have the medium itself.
pub(crate) fn can_have_raw_disk(stack: &Stack) -> bool {
    stack.on_raw_disk() != *stack
}

/// Whether a load goes through page caches.
pub(crate) fn is_buffered(workload: &Workload) -> bool {
    matches!(workload.value("direct"), Some(Value::Switch(false)))
}
