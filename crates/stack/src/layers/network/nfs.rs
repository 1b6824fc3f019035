//! `nfs`: a directory that one machine exports and another mounts.

use crate::spec::no_conflicts;
use crate::{Bytes, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, SizeRule};

/// The most that Linux moves in one request, `NFS_MAX_FILE_IO_SIZE` in `include/linux/nfs_xdr.h`; steps of pages, because the client
/// reads and writes pages.
const TRANSFER: OptionKind =
    OptionKind::Size { min: Bytes::kib(4), max: Bytes::mib(1), rule: SizeRule::MultipleOf(4096) };

pub(super) static LAYER: LayerSpec = LayerSpec {
    name: "nfs",
    summary: "NFS: a directory over a link, mounted in this machine",
    options: &[
        OptionSpec {
            name: "vers",
            summary: "version of the protocol",
            kind: OptionKind::Choice(NfsVersion::NAMES),
            // What the mount of Debian 12 and its server agree on.
            default: Some("4.2"),
        },
        OptionSpec {
            name: "rsize",
            summary: "most bytes of one read (unset: what client and server agree on)",
            kind: TRANSFER,
            default: None,
        },
        OptionSpec {
            name: "wsize",
            summary: "most bytes of one write (unset: what client and server agree on)",
            kind: TRANSFER,
            default: None,
        },
        OptionSpec {
            name: "sync",
            summary: "the client sends every write at once and waits until it is on the server's disk",
            kind: OptionKind::Flag,
            default: Some("off"),
        },
        OptionSpec {
            name: "export",
            summary: "when the server says that data are stored: sync, once they are on its disk; async, at once, so that a power cut \
                      of the server loses them",
            kind: OptionKind::Choice(Export::NAMES),
            default: Some("sync"),
        },
        OptionSpec {
            name: "actimeo",
            summary: "for how many seconds the client believes attributes of files (unset: 3 to 60, by the kernel)",
            kind: OptionKind::Number { min: 0, max: 3600 },
            default: None,
        },
    ],
    definition: LayerDefinition::NetworkFileSystem,
    packages: &["nfs-kernel-server", "nfs-common"],
    check: no_conflicts,
    not_buildable: None,
};

/// A version of NFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NfsVersion {
    /// Version 3 (RFC 1813).
    V3,
    /// Version 4.0 (RFC 7530).
    V4_0,
    /// Version 4.1 (RFC 8881).
    V4_1,
    /// Version 4.2 (RFC 7862).
    V4_2,
}

impl NfsVersion {
    const NAMES: &[&str] = &["3", "4.0", "4.1", "4.2"];

    const ALL: [Self; Self::NAMES.len()] = [Self::V3, Self::V4_0, Self::V4_1, Self::V4_2];

    /// As the option `vers` of the layer and of the mount have it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// When a server says that data are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Export {
    /// Once they are on its disk.
    Sync,
    /// At once.
    Async,
}

impl Export {
    const NAMES: &[&str] = &["sync", "async"];

    const ALL: [Self; Self::NAMES.len()] = [Self::Sync, Self::Async];

    /// As the option `export` and `exports(5)` have it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The options of NFS, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfsOptions {
    /// Version of the protocol.
    pub version: NfsVersion,
    /// Most bytes of one read; `None` for what client and server agree on.
    pub rsize: Option<Bytes>,
    /// Most bytes of one write; `None` for what client and server agree on.
    pub wsize: Option<Bytes>,
    /// Whether the client waits for every write (the mount option `sync`).
    pub sync: bool,
    /// When the server says that data are stored.
    pub export: Export,
    /// For how many seconds the client believes attributes; `None` for the kernel's choice.
    pub attributes_s: Option<u32>,
}

impl Layer {
    /// The options of `nfs`; `None` for other layers.
    pub fn network_file_system(&self) -> Option<NfsOptions> {
        let LayerDefinition::NetworkFileSystem = self.definition() else { return None };
        let (version, export) = (self.option("vers")?, self.option("export")?);
        Some(NfsOptions {
            version: NfsVersion::ALL.into_iter().find(|of| of.name() == version)?,
            rsize: self.size("rsize"),
            wsize: self.size("wsize"),
            sync: self.is_on("sync"),
            export: Export::ALL.into_iter().find(|of| of.name() == export)?,
            attributes_s: self.value("actimeo"),
        })
    }
}
