//! What a stack is made of, part by part, as predictions compare stacks.

use std::collections::BTreeMap;
use std::fmt;

use nestor_stack::Layer;
use serde::{Deserialize, Serialize};

use super::stacks::StackColumns;
use crate::WrittenStack;

/// A part of a stack. The order is that in which predictions number them: weights that were kept follow it, so that a new part goes to
/// the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StackPart {
    /// How the virtual machine submits its requests.
    AsynchronousIo,
    /// How the page cache around the virtual machine is used.
    Cache,
    /// The virtual disk's device.
    Device,
    /// The file system that the application uses, with its options.
    GuestFileSystem,
    /// The virtual machine's memory, bytes.
    GuestMemory,
    /// The I/O scheduler of the guest.
    GuestScheduler,
    /// The file system that holds the image, with its options.
    HostFileSystem,
    /// The I/O scheduler of the host.
    HostScheduler,
    /// The image, with its options.
    Image,
    /// The medium, without what is a part of its own.
    Medium,
    /// The medium's size, bytes.
    MediumSize,
    /// Layers that are no part of their own.
    OtherLayers,
    /// Read-ahead in the guest and in the host.
    ReadAhead,
    /// The hypervisor, how many crossings between machines there are, and options that are no part of their own.
    VirtualMachine,
}

impl fmt::Display for StackPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AsynchronousIo => "asynchronous I/O",
            Self::Cache => "cache",
            Self::Device => "device",
            Self::GuestFileSystem => "guest file system",
            Self::GuestMemory => "guest memory",
            Self::GuestScheduler => "guest scheduler",
            Self::HostFileSystem => "host file system",
            Self::HostScheduler => "host scheduler",
            Self::Image => "image",
            Self::Medium => "medium",
            Self::MediumSize => "medium size",
            Self::OtherLayers => "other layers",
            Self::ReadAhead => "read-ahead",
            Self::VirtualMachine => "virtual machine",
        })
    }
}

/// What a stack is made of: each part and what it is.
pub type KnownStack = BTreeMap<StackPart, String>;

/// The options of a medium that are parts of their own, or say nothing of the medium.
const NOT_OF_THE_MEDIUM: [&str; 3] = ["size", "sched", "readahead"];

/// A medium without the options that do not make it another one.
fn kind_of_medium(medium: &Layer) -> String {
    NOT_OF_THE_MEDIUM.into_iter().fold(medium.clone(), Layer::without).label()
}

/// The parts of a stack; all empty for a stack that this version does not know.
pub fn stack_parts(stack: &WrittenStack) -> KnownStack {
    let parts = StackColumns::of(stack);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let bytes = |bytes: Option<i64>| bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
    let with_options = |layer: &Option<String>, options: &Option<String>| {
        format!("{}:{}", text(layer), text(options)).trim_matches(':').to_owned()
    };
    let crossing = parts.crossing.as_deref().unwrap_or("none");
    let crossings = parts.crossings.map(|number| number.to_string()).unwrap_or_default();
    KnownStack::from([
        (StackPart::GuestFileSystem, with_options(&parts.guest_fs, &parts.guest_fs_options)),
        (
            StackPart::VirtualMachine,
            format!("{crossing}{crossings}:{}", text(&parts.machine_options)).trim_matches(':').to_owned(),
        ),
        (StackPart::Cache, text(&parts.cache)),
        (StackPart::Device, text(&parts.device)),
        (StackPart::AsynchronousIo, text(&parts.aio)),
        (StackPart::GuestMemory, bytes(parts.guest_memory_bytes)),
        (StackPart::GuestScheduler, text(&parts.guest_sched)),
        (StackPart::Image, with_options(&parts.image, &parts.image_options)),
        (StackPart::HostFileSystem, with_options(&parts.host_fs, &parts.host_fs_options)),
        (StackPart::HostScheduler, text(&parts.host_sched)),
        // Size, scheduler and read-ahead are parts of their own.
        (StackPart::Medium, stack.value().map(|stack| kind_of_medium(stack.medium())).unwrap_or_default()),
        (StackPart::MediumSize, bytes(parts.medium_bytes)),
        (StackPart::ReadAhead, format!("{}/{}", text(&parts.guest_readahead), text(&parts.host_readahead))),
        // Layers without a column.
        (StackPart::OtherLayers, parts.other_layers),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stack_has_all_parts_and_their_names_in_files_are_read_back() {
        let parts: Vec<StackPart> = stack_parts(&"ext4/hdd".into()).into_keys().collect();
        assert_eq!(parts.len(), 14);
        assert_eq!(stack_parts(&"a layer/of another version".into()).into_keys().collect::<Vec<_>>(), parts);
        let written = serde_json::to_string(&parts).unwrap();
        assert!(
            written.starts_with(r#"["asynchronous-io","cache","device","guest-file-system""#),
            "{written}"
        );
        assert_eq!(serde_json::from_str::<Vec<StackPart>>(&written).unwrap(), parts);
    }
}
