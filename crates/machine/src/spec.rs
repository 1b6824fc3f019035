//! What a machine to boot and a disk to plug in are: plain data, sent to the agent that does it.

use nestor_stack::{Accelerator, HypervisorKind};
use serde::{Deserialize, Serialize};

use nestor_processor::ProcessorSpeed;

use crate::disks::DiskMark;
use crate::qemu::DiskObjects;

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
    /// What runs it.
    pub hypervisor: HypervisorKind,
    /// What executes its instructions; `None`: KVM if a probe boot succeeds within its time limit, otherwise emulation.
    pub accelerator: Option<Accelerator>,
    /// Kernel of the lab image.
    pub kernel: String,
    /// The lab image's initramfs without the agent, which is added at boot.
    pub modules_cpio: String,
    /// The lab image's root: a file or a block device, opened read-only.
    pub root: String,
    /// Socket of a disk server that serves the root in place of the hypervisor, for a machine in virtual time.
    pub served_root: Option<String>,
    /// The time it runs in.
    pub time: MachineTime,
    /// A file with the state that a machine of the same specification was kept in: it continues from there instead of booting.
    pub kept_state: Option<String>,
    /// Whether the memory can be shared with a disk server (vhost-user).
    pub shared_memory: bool,
    /// Whether there is a thread of its own for disks that ask for one: it cannot be added later.
    pub disk_thread: bool,
    /// Disks that cannot be plugged in later (IDE and AHCI buses).
    pub cold_disks: Vec<DiskAttachment>,
    /// How it is found out whether KVM works, where `accelerator` does not say it.
    pub kvm_trial: KvmTrial,
    /// Milliseconds the machine that shows it gets to boot.
    pub probe_timeout_ms: u64,
    /// Milliseconds the agent inside gets to answer.
    pub boot_timeout_ms: u64,
}

/// How it is found out whether KVM works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvmTrial {
    /// A small machine is booted first. What it shows holds for later machines too.
    Probe,
    /// The machine itself is booted with KVM, and with TCG if it does not come up.
    Itself,
}

/// A disk and the device it appears as.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskAttachment {
    /// Its serial number; also what the hypervisor calls what it makes for it.
    pub serial: String,
    /// Where its data is.
    pub backend: DiskBackend,
}

impl DiskAttachment {
    /// By what the machine finds it.
    pub fn mark(&self) -> DiskMark {
        match self.backend {
            DiskBackend::Server { .. } | DiskBackend::Qemu(_) => DiskMark::Serial(self.serial.clone()),
        }
    }
}

/// A network interface of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAttachment {
    /// What the hypervisor calls what it makes for it.
    pub name: String,
    /// Where its frames go.
    pub backend: InterfaceBackend,
    /// Its hardware address, in lower case with colons; the machine finds it by this.
    pub mac: String,
}

/// Where the frames of an interface go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InterfaceBackend {
    /// To a link's server.
    Link {
        /// The socket of the link's end (vhost-user-net).
        socket: String,
    },
    /// To an interface of the machine around it, which the hypervisor makes.
    Tap {
        /// What it is called there.
        interface: String,
    },
}

/// Where a disk's data is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DiskBackend {
    /// A disk server on a socket (vhost-user-blk).
    Server {
        /// Its socket.
        socket: String,
        /// Number of request queues.
        queues: u16,
    },
    /// In a file or block device of the machine around it, which QEMU opens.
    Qemu(DiskObjects),
}
