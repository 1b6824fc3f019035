//! What can be varied.

use serde::{Deserialize, Serialize};

/// The level of a factor that leaves the kernel's choice.
pub(crate) const KERNELS_CHOICE: &str = "default";

/// What can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactorName {
    /// File system of the guest.
    Guest,
    /// File system of the host, under the image.
    HostFs,
    /// Image format, or [`DEVICE_FORMAT`].
    Format,
    /// Cache mode of the virtual disk.
    Cache,
    /// Device model: the controller that the guest sees.
    Device,
    /// I/O scheduler of the guest for its virtual disk.
    Scheduler,
    /// I/O scheduler of the host for the disk.
    HostScheduler,
    /// Where the file system of the application is: [`Placement`](crate::nas::Placement).
    Placement,
    /// Version of NFS.
    Vers,
    /// When the server says that data are stored.
    Export,
    /// Whether the client waits for every write.
    Sync,
    /// Most bytes of one read over the network.
    Rsize,
    /// Most bytes of one write over the network.
    Wsize,
    /// For how long the client believes attributes.
    Actimeo,
}

impl FactorName {
    /// Those of stacks on one machine, in the order of [`Space::factors`].
    pub const LOCAL: [Self; 7] = [
        Self::Guest,
        Self::HostFs,
        Self::Format,
        Self::Cache,
        Self::Device,
        Self::Scheduler,
        Self::HostScheduler,
    ];

    /// As tables and the command line have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::HostFs => "host-fs",
            Self::Format => "format",
            Self::Cache => "cache",
            Self::Device => "device",
            Self::Scheduler => "scheduler",
            Self::HostScheduler => "host-scheduler",
            Self::Placement => "placement",
            Self::Vers => "vers",
            Self::Export => "export",
            Self::Sync => "sync",
            Self::Rsize => "rsize",
            Self::Wsize => "wsize",
            Self::Actimeo => "actimeo",
        }
    }

    /// How the command line asks for levels of it.
    pub fn option(self) -> String {
        match self {
            // `--device` is a device of the user's wherever there is one.
            Self::Device => "--device-model".to_owned(),
            _ => format!("--{}", self.name()),
        }
    }

    /// The levels that are tried of stacks on one machine unless others are asked for.
    pub fn usual_levels(self) -> &'static [&'static str] {
        match self {
            Self::Guest => &["ext4"],
            Self::HostFs => &["ext4", "xfs"],
            Self::Format => &["raw", "qcow2"],
            Self::Cache => &["none", "writeback", "writethrough"],
            Self::Device => &["virtio-blk"],
            _ => &[KERNELS_CHOICE],
        }
    }
}

/// A factor with the levels that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Which.
    pub name: FactorName,
    /// Its levels, each once; the first is the default stack's.
    pub levels: Vec<String>,
}

/// A factor of which all stacks have the same level, so that nothing is said of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFixed {
    /// Which.
    pub factor: FactorName,
    /// The level that all have.
    pub level: String,
    /// The option that takes further levels; `None` where no option can.
    pub option: Option<String>,
}
