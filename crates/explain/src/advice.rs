//! What to change: only what a stack can be changed to, and is not already.

use nestor_stack::{
    DataJournal, Layer, LayerIndex, MachineSegment, MediumKind, OptionKind, Percentage, Stack,
};
use nestor_workload::{Value, Workload};

use crate::case::Case;
use crate::evidence::Evidence;

/// One thing to change.
pub(crate) struct Proposal {
    words: &'static str,
    change: Change,
}

/// A layer that an option may be changed of.
pub(crate) struct Candidate<'a> {
    e: &'a Evidence,
    stack: &'a Stack,
    at: LayerIndex,
}

/// Whether a layer is one of those that the words speak of. Several layers of a stack may have an option of one name.
type Of = fn(&Candidate<'_>) -> bool;

/// What it changes.
enum Change {
    /// Something that no stack says.
    OutsideTheStack,
    /// An option of a layer gets a value.
    To { of: Of, option: &'static str, value: &'static str },
    /// An amount grows.
    More { of: Of, option: &'static str },
    /// An amount shrinks.
    Less { of: Of, option: &'static str },
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
        Self::to(words, is_virtual_machine, option, value)
    }

    /// An option gets a value.
    pub(crate) const fn to(words: &'static str, of: Of, option: &'static str, value: &'static str) -> Self {
        Self { words, change: Change::To { of, option, value } }
    }

    /// An amount grows.
    pub(crate) const fn more(words: &'static str, of: Of, option: &'static str) -> Self {
        Self { words, change: Change::More { of, option } }
    }

    /// An amount shrinks.
    pub(crate) const fn less(words: &'static str, of: Of, option: &'static str) -> Self {
        Self { words, change: Change::Less { of, option } }
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
        let any = |of: Of, can_change: &dyn Fn(&Candidate<'_>) -> bool| {
            stack.is_some_and(|stack| {
                let mut candidates = stack.indexed_layers().map(|(at, _)| Candidate { e, stack, at });
                candidates.any(|layer| of(&layer) && can_change(&layer))
            })
        };
        match self.change {
            Change::OutsideTheStack => true,
            Change::To { of, option, value } => any(of, &|layer| layer.can_be(option, value)),
            Change::More { of, option } => any(of, &|layer| layer.has_room(option, |[_, most]| most)),
            Change::Less { of, option } => any(of, &|layer| layer.has_room(option, |[least, _]| least)),
            Change::Where(holds) => stack.is_some_and(holds),
            Change::OfLoad(holds) => e.workload.value().is_some_and(holds),
        }
    }
}

impl Candidate<'_> {
    fn layer(&self) -> &Layer {
        self.stack.layer(self.at)
    }

    /// Whether the stack with another value of an option is one, and not this one.
    fn can_be(&self, option: &str, value: &str) -> bool {
        let other = self.layer().clone().with(option, value).ok().filter(|other| other != self.layer());
        other.is_some_and(|other| self.stack.with_layer(self.at, other).is_ok())
    }

    /// Whether it has an amount that is not at this end of its range yet.
    fn has_room(&self, option: &str, end: fn([String; 2]) -> String) -> bool {
        let spec = self.layer().spec.options.iter().find(|spec| spec.name == option);
        spec.and_then(|spec| range(spec.kind)).is_some_and(|range| self.can_be(option, &end(range)))
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

/// The least and the most that an amount can be.
fn range(kind: OptionKind) -> Option<[String; 2]> {
    Some(match kind {
        OptionKind::Size { min, max, .. } => [min.to_string(), max.to_string()],
        OptionKind::Number { min, max, .. } => [min.to_string(), max.to_string()],
        OptionKind::BitRate { min, max, .. } => [min.to_string(), max.to_string()],
        OptionKind::TimeSpan { min, max, .. } => [min.to_string(), max.to_string()],
        OptionKind::Percentage { max } => [Percentage(0).to_string(), max.to_string()],
        _ => return None,
    })
}

/// Any layer, for words that speak of none alone.
pub(crate) fn is_any(_: &Candidate<'_>) -> bool {
    true
}

/// A virtual machine.
pub(crate) fn is_virtual_machine(layer: &Candidate<'_>) -> bool {
    layer.layer().is_hypervisor()
}

/// A disk image.
pub(crate) fn is_image(layer: &Candidate<'_>) -> bool {
    layer.layer().image_format().is_some()
}

/// A link.
pub(crate) fn is_link(layer: &Candidate<'_>) -> bool {
    layer.layer().is_link()
}

/// The mount of a network file system.
pub(crate) fn is_network_mount(layer: &Candidate<'_>) -> bool {
    layer.layer().is_network_file_system()
}

/// The mount of a network file system that says for how long its client believes attributes of files, in place of all attributes.
pub(crate) fn has_time_of_files(layer: &Candidate<'_>) -> bool {
    layer.layer().network_file_system().is_some_and(|nfs| nfs.believed.file_max_s.is_some())
}

/// What gives the machine its processors that is the busiest. The outermost has them from no layer.
pub(crate) fn is_of_busiest_machine(layer: &Candidate<'_>) -> bool {
    let busiest = layer.e.busiest_machine();
    let machines = layer.stack.machines();
    let begins_here = |machine: &MachineSegment<'_>| machine.crossing == Some(layer.at);
    machines
        .iter()
        .any(|machine| begins_here(machine) && busiest.is_some_and(|(name, _)| *name == machine.label.into()))
}

/// A block device that a machine reads through its page cache for another machine, or for the file below a loop device: what uses the device
/// is the first thing above it that could also go past that cache.
pub(crate) fn is_read_through_cache(layer: &Candidate<'_>) -> bool {
    let (stack, at) = (layer.stack, layer.at);
    let above = stack.indexed_layers().rev().skip_while(|(other, _)| *other >= at);
    above.filter_map(|(at, _)| stack.cache_mode_below(at)).next().is_some_and(|mode| !mode.direct())
}

/// The topmost file system on a disk.
pub(crate) fn topmost_file_system(stack: &Stack) -> Option<&Layer> {
    file_systems(stack).next().map(|(_, layer)| layer)
}

/// The topmost file system on a disk, where the layer says that its journal has what files hold, too.
pub(crate) fn journals_data(layer: &Candidate<'_>) -> bool {
    let topmost = file_systems(layer.stack).next();
    topmost.is_some_and(|(at, _)| at == layer.at) && layer.layer().data_journal() == Some(DataJournal::Layer)
}

/// Whether a layer of the stack is such a one.
pub(crate) fn has(stack: &Stack, is: impl Fn(&Layer) -> bool) -> bool {
    stack.layers().iter().any(is)
}

/// Whether an image has tables of its own, which say where each part of the disk is.
pub(crate) fn has_tables(stack: &Stack) -> bool {
    has(stack, |layer| layer.image_format().is_some_and(|format| format.map.is_some()))
}

/// Whether it has an image.
pub(crate) fn has_image(stack: &Stack) -> bool {
    has(stack, |layer| layer.image_format().is_some())
}

/// Whether it has a network file system.
pub(crate) fn has_network_file_system(stack: &Stack) -> bool {
    has(stack, Layer::is_network_file_system)
}

/// Whether what the application uses is a network file system, and not a disk in a file on it.
pub(crate) fn is_network_file_system(stack: &Stack) -> bool {
    stack.layers().first().is_some_and(Layer::is_network_file_system)
}

/// Whether it has a file system on a disk.
pub(crate) fn has_file_system(stack: &Stack) -> bool {
    topmost_file_system(stack).is_some()
}

/// Whether it has a file system on a disk below another.
pub(crate) fn has_nested_file_systems(stack: &Stack) -> bool {
    file_systems(stack).nth(1).is_some()
}

/// The file systems on disks, topmost first.
fn file_systems(stack: &Stack) -> impl Iterator<Item = (LayerIndex, &Layer)> {
    stack.indexed_layers().filter(|(_, layer)| layer.file_system().is_some())
}

/// Whether the medium may have an arm.
pub(crate) fn has_arm(stack: &Stack) -> bool {
    !matches!(stack.medium().medium_kind(), Some(MediumKind::Ssd | MediumKind::Nvme | MediumKind::Null))
}

/// Whether its medium is an array with parity.
pub(crate) fn has_parity(stack: &Stack) -> bool {
    stack.medium().medium_kind() == Some(MediumKind::Raid5)
}

/// Whether a guest could have the medium itself.
pub(crate) fn can_have_raw_disk(stack: &Stack) -> bool {
    stack.on_raw_disk() != *stack
}

/// Whether a load goes through page caches.
pub(crate) fn is_buffered(workload: &Workload) -> bool {
    matches!(workload.value("direct"), Some(Value::Switch(false)))
}
