//! What a machine to boot and a disk to plug in are: plain data, sent to the agent that does it.

use nestor_stack::Accelerator;
use serde::{Deserialize, Serialize};

use crate::speed::ProcessorSpeed;

/// The time that a machine lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineTime {
    /// That of the machine which boots it.
    #[default]
    Real,
    /// Its own: instructions are its clock, and time in which it has nothing to do is skipped. Emulated, with one processor;
    /// whatever it takes for random follows the seed.
    Virtual {
        /// The seed.
        seed: u64,
        /// How many instructions are a nanosecond.
        speed: ProcessorSpeed,
    },
}

impl MachineTime {
    /// What its processor is as fast as; nothing of the kind is known in real time, where it is the usual.
    pub fn speed(self) -> ProcessorSpeed {
        match self {
            Self::Real => ProcessorSpeed::USUAL,
            Self::Virtual { speed, .. } => speed,
        }
    }
}

/// A machine to boot from the lab image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MachineSpec {
    /// Its name, unique in the machine that boots it.
    pub name: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Number of processors.
    pub cpus: u32,
    /// What executes its instructions; `None`: KVM if a probe boot succeeds within its time limit, otherwise emulation.
    pub accelerator: Option<Accelerator>,
    /// Kernel of the lab image.
    pub kernel: String,
    /// The lab image's initramfs without the agent, which is added at boot.
    pub modules_cpio: String,
    /// The lab image's root: a file or a block device, opened read-only.
    pub root: String,
    /// Socket of a disk server that serves the root in place of QEMU, for a machine in virtual time.
    pub served_root: Option<String>,
    /// The time it lives in.
    pub time: MachineTime,
    /// A file with the state that a machine of the same specification was kept in: it goes on from there instead of booting.
    pub kept_state: Option<String>,
    /// Whether the memory can be shared with a disk server (vhost-user).
    pub shared_memory: bool,
    /// Names of I/O threads to create.
    pub iothreads: Vec<String>,
    /// Disks that cannot be plugged in later (IDE and AHCI buses).
    pub cold_disks: Vec<DiskAttachment>,
    /// Milliseconds a probe of KVM gets to boot, if one has to find out.
    pub probe_timeout_ms: u64,
    /// Milliseconds the agent inside gets to answer.
    pub boot_timeout_ms: u64,
}

/// A disk and the device it appears as.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskAttachment {
    /// Its serial number, by which the machine finds it; also the prefix of every QEMU object made for it.
    pub serial: String,
    /// Where its data is.
    pub backend: DiskBackend,
    /// QMP `device_add` arguments, in order (a controller first where the model needs one). Unplugged in reverse.
    pub devices: Vec<serde_json::Value>,
}

/// Where a disk's data is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DiskBackend {
    /// A disk server on a socket (vhost-user-blk).
    VhostUser {
        /// Its socket.
        socket: String,
        /// Number of request queues.
        queues: u16,
    },
    /// Nodes of QEMU's block layer: `blockdev-add` arguments, lowest first.
    Blockdev {
        /// The nodes; each has a `node-name`.
        nodes: Vec<serde_json::Value>,
    },
}
