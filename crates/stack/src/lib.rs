//! What a stack is: the grammar, the layers, their types and their expansion. Pure: no processes, no files.
//!
//! A stack is written in the order in which a write travels, from the application's directory down to the
//! medium: `ext3/kvm/raw/jfs/hdd` is an ext3 guest whose disk is a raw image on a JFS host.
//!
//! # Grammar
//!
//! ```text
//! stack   = line [ "//" line ]              ; the second line is the source of a layer that wants one
//! line    = layer *( "/" layer )
//! layer   = name *( ":" option )            ; every layer but dev and file
//!         / ( "dev" / "file" ) ":" path     ; the path runs to the end of the line and is absolute
//! option  = key "=" value / flag / word     ; word: the value of the layer's positional option
//! name    = lower-case letters, digits, "-"
//! value   = 1*( letter / digit / "." / "_" / "-" / "+" / "=" / "%" )
//! ```
//!
//! Nothing in it needs quoting in a shell. A list within a value is joined with `+` (`mount=noatime+nodiratime`).
//! Alternatives in braces expand as in bash ([`expand`]) before a stack is parsed.
//!
//! # Canonical form
//!
//! [`Stack`]'s `Display` prints options in the order of their [`LayerSpec`], leaves out those that have their default
//! value, and writes sizes and numbers in their shortest exact form. Two spellings with one meaning are one stack:
//! equal, and printed alike.
//!
//! # Types
//!
//! What a layer needs below and offers above: `medium: → Block`, `file system: Block → Dir`, `image format: Dir →
//! Image`, `loop: Image → Block`, `partition: Block → Block`, `hypervisor: Block | Image → Block, in a new machine`; `link: T →
//! Remote T, in a new machine`, `hypervisor: Remote T → Remote T, in a new machine`, `network file system: Remote Dir → Dir`,
//! `network disk: Remote Block | Remote Image → Block`; `image from a source: Dir, and a source that is a Remote Image → Image`. What is remote cannot be at the top. [`Stack::parse`] refuses what
//! does not fit, with a caret under the layer.

mod absent;
mod accelerator;
mod added_kernel;
mod added_qemu;
mod anatomy;
mod bytes;
mod check;
mod complete;
mod crossing;
mod error;
mod expand;
mod graph;
mod help;
mod joints;
mod lab_pack;
mod layer;
mod layer_kind;
pub mod layers;
mod lines;
mod machine_name;
mod machines;
mod manager;
mod medium_class;
mod memory;
mod offer;
mod parse;
mod place;
mod placement;
mod quantities;
mod role;
mod source;
mod spec;
mod stack;
mod under_xen;

pub use accelerator::Accelerator;
pub use anatomy::Anatomy;
pub use bytes::{Bytes, ParseBytesError};
pub use complete::{Names, completions, latest_alternative};
pub use crossing::{Crossing, LayerIndex};
pub use error::{StackError, StackErrorKind};
pub use expand::{MAX_ALTERNATIVES, MAX_NESTING, expand, parse_all};
pub use graph::{Depth, MachineIndex, Machines, Relation};
pub use help::{LayerHelp, OptionHelp, layers_help};
pub use lab_pack::LabPack;
pub use layer::{BlockTuning, Layer};
pub use layer_kind::{DataJournal, image_format};
pub use layers::network::{
    BelievedAttributes, Export, LinkOptions, NetworkDiskOptions, NfsOptions, NfsVersion, link_default,
};
pub use layers::{AVAILABLE_OPTION, HOST_MEMORY_OPTION, PartitionOptions, registry};
pub use machine_name::{MachineLabel, MachineName};
pub use machines::MachineSegment;
pub use manager::{ManagerKind, ManagerUrl};
pub use medium_class::{DeviceKind, Link, MEDIUM_CLASS, MEDIUM_WRITE_CACHE, MediumClass, UserMedium};
pub use offer::{LayerRule, Offer};
pub use place::{HostTime, Place, PlaceWish};
pub use quantities::{BitRate, ParseQuantityError, Percentage, Sectors, TimeSpan};
pub use role::LayerRole;
pub use spec::{
    Conflict, Drawn, FileSystemSpec, HypervisorKind, HypervisorSpec, ImageFormatSpec, LayerDefinition,
    LayerSpec, MediumKind, MkfsTarget, OptionKind, OptionSpec, Propagation, Recovery, SizeRule, Uuid,
};
pub use stack::Stack;
pub use under_xen::XenDomain;
