//! What a layer is, as data: its name, its options, and what it means to have one.

use crate::layers::hypervisors::HostedSpec;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::enumerated;
use crate::layers::hypervisors::HostBlockOptions;
use crate::{Accelerator, BitRate, Bytes, Layer, Percentage, Sectors, TimeSpan};

/// Everything known of one kind of layer. One `static` per layer, listed in [`registry`](crate::registry).
#[derive(Debug)]
pub struct LayerSpec {
    /// The name in a stack: lower-case letters, digits and `-`.
    pub name: &'static str,
    /// One line: what it is.
    pub summary: &'static str,
    /// The options in the order in which they are printed.
    pub options: &'static [OptionSpec],
    /// What it is for the builder.
    pub definition: LayerDefinition,
    /// The Debian packages a machine needs to build it.
    pub packages: &'static [&'static str],
    /// Refuses options, or a layer below, that exclude each other although each is valid by itself.
    pub check: fn(layer: &Layer, below: Option<&Layer>) -> Result<(), Conflict>,
    /// Why a stack with this layer cannot be built yet; `None` for all that can.
    pub not_buildable: Option<&'static str>,
}

/// One option of a layer.
#[derive(Debug)]
pub struct OptionSpec {
    /// The key.
    pub name: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// What values it takes.
    pub kind: OptionKind,
    /// The value it has when it is not written, in canonical form; `None`: what that means is in the summary.
    pub default: Option<&'static str>,
}

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// `name` or `name=on` or `name=off`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A size from `min` to `max`.
    Size {
        /// Smallest.
        min: Bytes,
        /// Largest.
        max: Bytes,
        /// What else it has to be.
        rule: SizeRule,
    },
    /// One of these words, written without a key (`copy:scp`); at most one such option or [`Self::Positional`] per layer.
    Word(&'static [&'static str]),
    /// A whole number from `min` to `max`.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A bit rate from `min` to `max`.
    BitRate {
        /// Smallest.
        min: BitRate,
        /// Largest.
        max: BitRate,
    },
    /// A time from `min` to `max`.
    TimeSpan {
        /// Shortest.
        min: TimeSpan,
        /// Longest.
        max: TimeSpan,
    },
    /// A share from 0 to `max`.
    Percentage {
        /// Largest.
        max: Percentage,
    },
    /// A number of sectors, or a size, from `min` to `max`.
    Sectors {
        /// Smallest.
        min: Sectors,
        /// Largest.
        max: Sectors,
    },
    /// A name: letters, digits, `.`, `_`, `-`. Written without a key (`hdd:wd-re3`); at most one per layer.
    Positional,
    /// The same, written with its key (`image=ami-0abc`).
    Name,
    /// The name of a file of the user's, which a command has added to the lab; a path would be read as layers.
    Added {
        /// How it is added.
        command: &'static str,
    },
    /// Words joined with `+`; a word may itself be `key=value`.
    List,
    /// An absolute path to the end of the stack; such a layer has no other option.
    Path,
}

/// The rule for a size, in addition to its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// A power of two.
    PowerOfTwo,
    /// A multiple of this many bytes.
    MultipleOf(u64),
}

/// What a layer is for the builder.
#[derive(Debug)]
pub enum LayerDefinition {
    /// Makes a directory of a block device.
    FileSystem(FileSystemSpec),
    /// Makes an image of a directory: a disk kept in a file there.
    ImageFormat(ImageFormatSpec),
    /// Makes an image of a directory and of an image of another machine, which is its source.
    SourcedImage(Propagation),
    /// Makes a block device of a raw image, in the same machine.
    Loop,
    /// Makes a block device in a new machine of a block device or an image, and joins a new machine to what is over a link.
    Hypervisor(HypervisorSpec),
    /// Makes what one machine has available to a new machine beside it.
    Link,
    /// Makes a directory of a directory over a link.
    NetworkFileSystem,
    /// Makes a block device of a block device or an image over a link.
    NetworkDisk,
    /// Makes a block device of a part of one.
    Partition,
    /// The machine that has the block device is the privileged domain of a Xen; the device is the same.
    PrivilegedDomain,
    /// The bottom of every stack.
    Medium(MediumKind),
}

impl LayerDefinition {
    /// The kind of layer in words, as in `jfs is a file system`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::FileSystem(_) => "file system",
            Self::ImageFormat(_) => "image format",
            Self::SourcedImage(_) => "image from a source",
            Self::Loop => "loop device",
            Self::Hypervisor(_) => "hypervisor",
            Self::Link => "link",
            Self::NetworkFileSystem => "network file system",
            Self::NetworkDisk => "network disk",
            Self::Partition => "partition",
            Self::PrivilegedDomain => "privileged domain",
            Self::Medium(_) => "medium",
        }
    }
}

/// How a file system is made and mounted.
#[derive(Debug)]
pub struct FileSystemSpec {
    /// The type given to `mount(2)`, and what the kernel calls a mounted one.
    pub mount_type: &'static str,
    /// The program that mounts it and is the file system, in user space behind the kernel's FUSE. `None`: the kernel is.
    pub program: Option<&'static str>,
    /// Kernel modules in the order in which to load them. A kernel may have any of them built in: one that is
    /// not found is not an error, a mount that fails is.
    pub kernel_modules: &'static [&'static str],
    /// The command that makes the file system: no questions, no progress, overwrites what is there.
    pub mkfs: fn(&Layer, &MkfsTarget<'_>) -> Vec<String>,
    /// The options given to `mount(2)`, without those every file system has (`ro`, `nosuid`).
    pub mount_options: fn(&Layer) -> Vec<String>,
    /// The smallest device its mkfs accepts with default options.
    pub minimum_size: Bytes,
    /// What brings it back after a crash.
    pub recovery: fn(&Layer) -> Recovery,
    /// Whether it may write less than it was given, because it is mounted to compress.
    pub may_compress: fn(&Layer) -> bool,
}

/// What brings a file system back after the machine that had it mounted stopped at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// The next mount: it replays a journal, or finds the last whole state of what is never overwritten.
    Mount,
    /// A check of all its structures (fsck), which may lose what it cannot put together.
    Check,
}

/// What a file system is made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MkfsTarget<'a> {
    /// Path of the block device.
    pub device: &'a str,
    /// Whether every byte of it reads as zero now: true for a new image or a modelled disk that was reset, never for a
    /// device of the user's. mkfs then leaves unwritten what would be zeros, with the same layout as a result.
    pub zeroed: bool,
    /// What replaces the values that mkfs would draw at random, as far as mkfs has options for them. Only where no other
    /// file systems exist: the kernel takes two file systems with one UUID for the same.
    pub drawn: Option<Drawn>,
}

/// What mkfs draws at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The file system's UUID.
    pub uuid: Uuid,
    /// The seed for the hashes of names in directories (ext2, ext3, ext4); it also decides where directories are placed.
    pub hash_seed: Uuid,
}

/// A universally unique identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid(u128);

impl Uuid {
    /// One of version 4 (RFC 9562, section 5.4) from 122 of the bits; the other six say version and variant.
    pub const fn version_4(bits: u128) -> Self {
        Self(bits & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |from: u32, bits: u32| self.0 >> from & ((1 << bits) - 1);
        write!(f, "{:08x}-{:04x}-{:04x}-", part(96, 32), part(80, 16), part(64, 16))?;
        write!(f, "{:04x}-{:012x}", part(48, 16), part(0, 48))
    }
}

/// How an image is made and opened.
#[derive(Debug)]
pub struct ImageFormatSpec {
    /// Ending of the file's name, without the dot. Formats with several files derive their names from the first's.
    pub extension: &'static str,
    /// The `qemu-img` command that makes an image of `size_bytes` at `path`.
    pub create: fn(layer: &Layer, path: &str, size_bytes: u64) -> Vec<String>,
    /// The argument of QMP's `blockdev-add` for the format node `node_name` on top of the node `file_node`, which
    /// is made by [`HostBlockOptions::file_node`].
    pub blockdev: fn(layer: &Layer, node_name: &str, file_node: &str, host: &HostBlockOptions) -> Value,
    /// The command that prints as JSON where in the file at `path` each part of the virtual disk lies. `None` where the file has no
    /// tables of its own, so that a position on the virtual disk is the same in the file.
    pub map: Option<fn(path: &str) -> Vec<String>>,
    /// Whether all of it lies in the file that is opened. Positions in a map of several files, or in requests to them, do not say in which.
    pub in_one_file: fn(layer: &Layer) -> bool,
    /// Whether libvirt knows the format.
    pub libvirt: bool,
}

/// How an image comes from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// It is copied whole, before it is used.
    Copy,
    /// What is read of it is read from the source, and what is written stays here.
    Overlay,
}

/// Which program runs virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HypervisorKind {
    /// QEMU.
    Qemu,
    /// Xen, told by its tool `xl` in the privileged domain.
    Xen,
    /// Xen, told by libvirt in the privileged domain.
    XenByLibvirt,
    /// libvirt, which runs QEMU.
    Libvirt,
    /// VirtualBox, told by its tool `VBoxManage`.
    VirtualBox,
    /// VMware Workstation, told by its tool `vmrun`.
    Vmware,
}

impl HypervisorKind {
    /// All that there are.
    pub const ALL: [Self; 6] =
        [Self::Qemu, Self::Xen, Self::XenByLibvirt, Self::Libvirt, Self::VirtualBox, Self::Vmware];
}

/// How a virtual machine is run.
#[derive(Debug)]
pub struct HypervisorSpec {
    /// The program that Nestor starts for it; a layer may leave that to another ([`RunBy`](crate::layers::hypervisors::RunBy)).
    pub kind: HypervisorKind,
    /// What executes the guest's instructions.
    pub accelerator: Accelerator,
    /// What it is if no machine of the lab has it, but only a machine on which its user has installed it.
    pub hosted: Option<&'static HostedSpec>,
}

/// The bottom of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MediumKind {
    /// A modelled rotating disk.
    Hdd,
    /// A modelled solid-state disk.
    Ssd,
    /// A modelled NVMe flash disk.
    Nvme,
    /// Modelled rotating disks, striped.
    Raid0,
    /// Modelled rotating disks, striped with parity.
    Raid5,
    /// A disk without timing.
    Null,
    /// A block device of the machine.
    Device,
    /// A file of the machine, used through a loop device.
    File,
    /// A directory of the machine, on the file system that it is on.
    Directory,
}

impl MediumKind {
    /// Whether Nestor serves it itself; otherwise it is something of the user's.
    pub const fn is_modelled(self) -> bool {
        matches!(self, Self::Hdd | Self::Ssd | Self::Nvme | Self::Raid0 | Self::Raid5 | Self::Null)
    }
}

/// Options, or neighbours, that exclude each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The option to point at; `None` points at the layer's name.
    pub option: Option<&'static str>,
    /// What does not go together.
    pub message: String,
    /// What would.
    pub help: String,
}

/// The [`LayerSpec::check`] of layers whose options are independent.
pub(crate) fn no_conflicts(_layer: &Layer, _below: Option<&Layer>) -> Result<(), Conflict> {
    Ok(())
}

impl LayerSpec {
    /// The option of that name.
    pub fn option(&self, name: &str) -> Option<&'static OptionSpec> {
        self.option_index(name).map(|i| &self.options[i])
    }

    /// The program that makes the file system; `None` for other layers.
    pub fn mkfs_program(&'static self) -> Option<String> {
        let spec = self.file_system()?;
        let target = MkfsTarget { device: "", zeroed: false, drawn: None };
        (spec.mkfs)(&Layer::plain(self), &target).into_iter().next()
    }

    pub(crate) fn option_index(&self, name: &str) -> Option<usize> {
        self.options.iter().position(|o| o.name == name)
    }

    /// The option that is written without a key.
    pub(crate) fn positional(&self) -> Option<&'static OptionSpec> {
        self.options.iter().find(|o| o.kind.is_positional())
    }

    /// Whether everything after the layer's name is a path.
    pub(crate) fn takes_path(&self) -> bool {
        self.options.iter().any(|o| o.kind == OptionKind::Path)
    }
}

impl OptionKind {
    /// Whether its value is written without a key.
    pub const fn is_positional(&self) -> bool {
        matches!(self, Self::Positional | Self::Word(_))
    }

    /// The canonical form of a value, or what values are allowed.
    pub(crate) fn canonical(&self, value: &str) -> Result<String, String> {
        match self {
            Self::Flag if matches!(value, "on" | "off") => Ok(value.to_owned()),
            Self::Choice(words) | Self::Word(words) if words.contains(&value) => Ok(value.to_owned()),
            Self::Number { min, max } => canonical_number(value, *min, *max).ok_or_else(|| self.allowed()),
            Self::Size { min, max, rule } => match value.parse::<Bytes>() {
                Ok(size) if (*min..=*max).contains(&size) && rule.holds(size) => Ok(size.to_string()),
                _ => Err(self.allowed()),
            },
            Self::BitRate { min, max } => in_range(value, *min, *max).ok_or_else(|| self.allowed()),
            Self::TimeSpan { min, max } => in_range(value, *min, *max).ok_or_else(|| self.allowed()),
            Self::Percentage { max } => in_range(value, Percentage(0), *max).ok_or_else(|| self.allowed()),
            Self::Sectors { min, max } => in_range(value, *min, *max).ok_or_else(|| self.allowed()),
            Self::Positional | Self::Name | Self::Added { .. } if is_word(value, "._-") => {
                Ok(value.to_owned())
            }
            Self::List if value.split('+').all(|word| is_word(word, "._-=")) => Ok(value.to_owned()),
            _ => Err(self.allowed()),
        }
    }

    /// What values are allowed, to follow "takes".
    pub(crate) fn allowed(&self) -> String {
        match self {
            Self::Flag => "on or off".to_owned(),
            Self::Choice(words) | Self::Word(words) => enumerated(words.iter().copied(), "or"),
            Self::Number { min, max } => format!("a whole number from {min} to {max}"),
            Self::Size { min, max, rule } => format!("{} from {min} to {max}", rule.words()),
            Self::BitRate { min, max } => format!("a bit rate from {min} to {max}"),
            Self::TimeSpan { min, max } => format!("a time from {min} to {max}"),
            Self::Percentage { max } => format!("a percentage from 0 to {max}"),
            Self::Sectors { min, max } => {
                format!("sectors of 512 bytes, as in 63s, or a size of whole sectors, from {min} to {max}")
            }
            Self::Positional | Self::Name => "a name of letters, digits, `.`, `_` and `-`".to_owned(),
            Self::Added { command } => {
                format!(
                    "a name of letters, digits, `.`, `_` and `-`, under which `{command}` has added a file; `/` begins the next layer"
                )
            }
            Self::List => "words of letters, digits, `.`, `_`, `-` and `=`, joined with `+`".to_owned(),
            Self::Path => "an absolute path".to_owned(),
        }
    }

    /// The form of a value in a table: `off|on`, `SIZE`.
    pub(crate) fn form(&self) -> String {
        match self {
            Self::Flag => "off|on".to_owned(),
            Self::Choice(words) | Self::Word(words) => words.join("|"),
            Self::Number { .. } => "NUMBER".to_owned(),
            Self::Size { .. } => "SIZE".to_owned(),
            Self::BitRate { .. } => "RATE".to_owned(),
            Self::TimeSpan { .. } => "TIME".to_owned(),
            Self::Percentage { .. } => "PERCENTAGE".to_owned(),
            Self::Sectors { .. } => "SECTORS|SIZE".to_owned(),
            Self::Positional | Self::Name | Self::Added { .. } => "NAME".to_owned(),
            Self::List => "WORD+WORD…".to_owned(),
            Self::Path => "/PATH".to_owned(),
        }
    }
}

fn canonical_number(value: &str, min: u64, max: u64) -> Option<String> {
    let only_digits = value.bytes().all(|b| b.is_ascii_digit());
    only_digits.then(|| in_range(value, min, max)).flatten()
}

/// The canonical form of a quantity, if it is one and not beyond its limits.
fn in_range<T: FromStr + PartialOrd + fmt::Display>(value: &str, min: T, max: T) -> Option<String> {
    let quantity = value.parse::<T>().ok().filter(|quantity| (min..=max).contains(quantity))?;
    Some(quantity.to_string())
}

fn is_word(text: &str, marks: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
}

impl SizeRule {
    fn holds(self, size: Bytes) -> bool {
        match self {
            Self::PowerOfTwo => size.get().is_power_of_two(),
            Self::MultipleOf(unit) => size.get().is_multiple_of(unit),
        }
    }

    fn words(self) -> String {
        match self {
            Self::PowerOfTwo => "a power of two".to_owned(),
            Self::MultipleOf(1) => "a size".to_owned(),
            Self::MultipleOf(unit) => format!("a multiple of {}", Bytes(unit)),
        }
    }
}
