//! `nfs`: a directory that one machine exports and another mounts.

use crate::{Bytes, Conflict, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, SizeRule};

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
        believed(
            "actimeo",
            "seconds for which the client trusts cached attributes; replaces the four options that follow",
        ),
        believed(
            "acregmin",
            "minimum number of seconds for which it trusts those of a file (unset: 3, by the kernel)",
        ),
        believed("acregmax", "maximum number of seconds for which it trusts those of a file (unset: 60)"),
        believed(
            "acdirmin",
            "minimum number of seconds for which it trusts those of a directory (unset: 30)",
        ),
        believed(
            "acdirmax",
            "maximum number of seconds for which it trusts those of a directory (unset: 60)",
        ),
    ],
    definition: LayerDefinition::NetworkFileSystem,
    packages: &["nfs-kernel-server", "nfs-common"],
    check,
    not_buildable: None,
};

/// An option of how long the client believes attributes without asking, in seconds; see `nfs(5)`.
const fn believed(name: &'static str, summary: &'static str) -> OptionSpec {
    OptionSpec { name, summary, kind: OptionKind::Number { min: 0, max: 3600 }, default: None }
}

/// Refuses times of attributes of which one would silently replace another, or that end before they begin.
fn check(layer: &Layer, _below: Option<&Layer>) -> Result<(), Conflict> {
    let time = |name| layer.value::<u32>(name);
    for (min, max) in [("acregmin", "acregmax"), ("acdirmin", "acdirmax")] {
        if let Some(single) = [min, max].into_iter().find(|name| time(name).is_some())
            && time("actimeo").is_some()
        {
            return Err(Conflict {
                option: Some(single),
                message: format!("actimeo sets {single} too"),
                help: format!("write either actimeo or {single}"),
            });
        }
        if time(min).zip(time(max)).is_some_and(|(min, max)| min > max) {
            return Err(Conflict {
                option: Some(min),
                message: format!("{min} is longer than {max}"),
                help: format!("use a shorter {min}, or a longer {max}"),
            });
        }
    }
    Ok(())
}

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
    /// For how long the client believes attributes.
    pub believed: BelievedAttributes,
}

/// For how many seconds an NFS client believes attributes without asking; `None` leaves them to the kernel. See `nfs(5)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BelievedAttributes {
    /// All of them (`actimeo`); the others are `None` then.
    pub all_s: Option<u32>,
    /// Those of a file, at least (`acregmin`).
    pub file_min_s: Option<u32>,
    /// Those of a file, at most (`acregmax`).
    pub file_max_s: Option<u32>,
    /// Those of a directory, at least (`acdirmin`).
    pub directory_min_s: Option<u32>,
    /// Those of a directory, at most (`acdirmax`).
    pub directory_max_s: Option<u32>,
}

impl BelievedAttributes {
    /// The options that are set, each with its name in `nfs(5)`.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let Self { all_s, file_min_s, file_max_s, directory_min_s, directory_max_s } = *self;
        [
            ("actimeo", all_s),
            ("acregmin", file_min_s),
            ("acregmax", file_max_s),
            ("acdirmin", directory_min_s),
            ("acdirmax", directory_max_s),
        ]
        .into_iter()
        .filter_map(|(name, seconds)| Some((name, seconds?)))
    }
}

/// The options of an `nfs` that none is written for; `None` if its defaults are not values of its options.
pub fn usual_nfs() -> Option<NfsOptions> {
    Layer::plain(&LAYER).network_file_system()
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
            believed: BelievedAttributes {
                all_s: self.value("actimeo"),
                file_min_s: self.value("acregmin"),
                file_max_s: self.value("acregmax"),
                directory_min_s: self.value("acdirmin"),
                directory_max_s: self.value("acdirmax"),
            },
        })
    }
}
