//! What a layer is for in its stack. Results keep it in the words of [`LayerRole::stored`]; tables show those of `Display`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::MachineLabel;

/// What a layer is for in its stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LayerRole {
    /// The application above the stack. It has no words.
    #[default]
    Application,
    /// A file system, with the machine that it is in: `guest fs`, `host fs`.
    FileSystem(MachineLabel),
    /// A disk image, with its format: `qcow2 image`.
    Image(String),
    /// `loop device`.
    LoopDevice,
    /// A hypervisor: `virtual machine`.
    VirtualMachine,
    /// `link`.
    Link,
    /// `network fs`.
    NetworkFileSystem,
    /// `network disk`.
    NetworkDisk,
    /// `partition`.
    Partition,
    /// `privileged domain`.
    PrivilegedDomain,
    /// The medium: `disk`.
    Disk,
    /// Words of another version, which nothing decides on.
    Other(String),
}

impl LayerRole {
    /// The words in which results keep it. They are those of every version, whatever tables call it.
    pub fn stored(&self) -> String {
        match self {
            Self::Application => String::new(),
            Self::FileSystem(machine) => machine.stored() + FILE_SYSTEM,
            Self::Image(format) => format!("{format}{IMAGE}"),
            Self::LoopDevice => LOOP_DEVICE.to_owned(),
            Self::VirtualMachine => VIRTUAL_MACHINE.to_owned(),
            Self::Link => LINK.to_owned(),
            Self::NetworkFileSystem => NETWORK_FILE_SYSTEM.to_owned(),
            Self::NetworkDisk => NETWORK_DISK.to_owned(),
            Self::Partition => PARTITION.to_owned(),
            Self::PrivilegedDomain => PRIVILEGED_DOMAIN.to_owned(),
            Self::Disk => DISK.to_owned(),
            Self::Other(words) => words.clone(),
        }
    }

    /// Whether it is a disk image.
    pub fn is_image(&self) -> bool {
        matches!(self, Self::Image(_))
    }

    /// Whether it is a file system of the outermost machine.
    pub fn is_host_file_system(&self) -> bool {
        *self == Self::FileSystem(MachineLabel::Host)
    }
}

/// What ends the stored words for an image.
const IMAGE: &str = " image";
/// What ends the stored words for a file system.
const FILE_SYSTEM: &str = " fs";
const LOOP_DEVICE: &str = "loop device";
const VIRTUAL_MACHINE: &str = "virtual machine";
const LINK: &str = "link";
const NETWORK_FILE_SYSTEM: &str = "network fs";
const NETWORK_DISK: &str = "network disk";
const PARTITION: &str = "partition";
const PRIVILEGED_DOMAIN: &str = "privileged domain";
const DISK: &str = "disk";

impl fmt::Display for LayerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application => Ok(()),
            Self::FileSystem(machine) => write!(f, "{machine} fs"),
            Self::Image(format) => write!(f, "{format} image"),
            Self::LoopDevice => f.write_str("loop device"),
            Self::VirtualMachine => f.write_str("virtual machine"),
            Self::Link => f.write_str("link"),
            Self::NetworkFileSystem => f.write_str("network fs"),
            Self::NetworkDisk => f.write_str("network disk"),
            Self::Partition => f.write_str("partition"),
            Self::PrivilegedDomain => f.write_str("privileged domain"),
            Self::Disk => f.write_str("disk"),
            Self::Other(words) => f.write_str(words),
        }
    }
}

impl From<&str> for LayerRole {
    fn from(words: &str) -> Self {
        let in_machine = || words.strip_suffix(FILE_SYSTEM)?.parse().ok();
        match words {
            "" => Self::Application,
            LOOP_DEVICE => Self::LoopDevice,
            VIRTUAL_MACHINE => Self::VirtualMachine,
            LINK => Self::Link,
            NETWORK_FILE_SYSTEM => Self::NetworkFileSystem,
            NETWORK_DISK => Self::NetworkDisk,
            PARTITION => Self::Partition,
            PRIVILEGED_DOMAIN => Self::PrivilegedDomain,
            DISK => Self::Disk,
            _ => match (words.strip_suffix(IMAGE), in_machine()) {
                (Some(format), _) => Self::Image(format.to_owned()),
                (None, Some(machine)) => Self::FileSystem(machine),
                (None, None) => Self::Other(words.to_owned()),
            },
        }
    }
}

impl From<String> for LayerRole {
    fn from(words: String) -> Self {
        words.as_str().into()
    }
}

impl From<LayerRole> for String {
    fn from(role: LayerRole) -> Self {
        role.stored()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let stack = crate::Stack::parse("ext2/kvm/raw/ext3/kvm/qcow2/xfs/hdd").unwrap();
        let roles: Vec<LayerRole> = stack.indexed_layers().map(|(at, _)| stack.role(at)).collect();
        let words: Vec<String> = roles.iter().map(LayerRole::to_string).collect();
        assert_eq!(
            words,
            [
                "guest 2 fs",
                "virtual machine",
                "raw image",
                "guest fs",
                "virtual machine",
                "qcow2 image",
                "host fs",
                "disk"
            ]
        );
        for (role, words) in roles.iter().zip(&words) {
            assert_eq!(LayerRole::from(words.as_str()), *role);
        }
        assert!(roles[6].is_host_file_system() && !roles[3].is_host_file_system());
        let over_links = crate::Stack::parse("ext2/part/kvm/raw/nfs/link/xfs/nbd/link/hdd").unwrap();
        let roles: Vec<LayerRole> = over_links.indexed_layers().map(|(at, _)| over_links.role(at)).collect();
        let words = roles.iter().map(LayerRole::to_string).collect::<Vec<_>>().join(", ");
        assert_eq!(
            words,
            "guest fs, partition, virtual machine, raw image, network fs, link, client fs, network disk, link, disk"
        );
        assert!(roles.iter().all(|role| LayerRole::from(role.stored()) == *role));
    }

    proptest! {
        #[test]
        fn any_words_are_kept(words in "\\PC*") {
            prop_assert_eq!(LayerRole::from(words.as_str()).to_string(), words);
        }
    }
}
