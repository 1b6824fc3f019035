//! What a machine to boot and a disk to plug in are: plain data, sent to the agent that does it.

use nestor_stack::layers::hypervisors::{UnsuitedFeatures, XenGuest};
use nestor_stack::{Accelerator, HypervisorKind};
use serde::{Deserialize, Serialize};

use nestor_processor::ProcessorSpeed;

use crate::disks::DiskMark;
use crate::hypervisor::OwnDisk;
use crate::place::MachinePlace;

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
    /// Its place, by which the machine that boots it knows it.
    pub place: MachinePlace,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Number of processors.
    pub cpus: u32,
    /// What runs it.
    pub hypervisor: HypervisorKind,
    /// The words that begin the command line in place of the name of QEMU's program, in the machine around it; of QEMU only.
    pub qemu: Option<Vec<String>>,
    /// What executes its instructions; `None`: hardware virtualisation if that works within the trial's time limit.
    pub accelerator: Option<Accelerator>,
    /// The Xen whose privileged domain it is, if it is one.
    pub under_xen: Option<UnderXen>,
    /// What its processors lack, if they are emulated, so that what runs in it does.
    pub left_out: FeaturesLeftOut,
    /// How Xen runs it, if that is what runs it.
    pub xen_guest: Option<XenGuest>,
    /// Kernel of the lab image.
    pub kernel: String,
    /// The lab image's initramfs without the agent, which is added at boot.
    pub modules_cpio: String,
    /// The disk with the lab image's root, which is only read.
    pub root: RootDisk,
    /// The time it runs in.
    pub time: MachineTime,
    /// A file with the state that a machine of the same specification was kept in: it continues from there instead of booting.
    pub kept_state: Option<String>,
    /// Whether the memory can be shared with a disk server (vhost-user).
    pub shared_memory: bool,
    /// Whether there is a thread of its own for disks that ask for one: it cannot be added later.
    pub disk_thread: bool,
    /// Disks that it has from the start, because they cannot be plugged in later.
    pub disks_at_start: Vec<DiskAttachment>,
    /// How it is found out whether hardware virtualisation works, where `accelerator` does not say it.
    pub hardware_trial: HardwareTrial,
    /// Milliseconds the machine that shows it gets to boot.
    pub probe_timeout_ms: u64,
    /// Milliseconds the agent inside gets to answer.
    pub boot_timeout_ms: u64,
}

/// Features of an emulated processor, in QEMU's words, that it is to lack besides those that all lack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeaturesLeftOut {
    /// In any case.
    pub always: Vec<String>,
    /// Where guests in the machine need shadow page tables.
    pub where_shadowed: Vec<String>,
}

impl From<UnsuitedFeatures> for FeaturesLeftOut {
    fn from(unsuited: UnsuitedFeatures) -> Self {
        let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect();
        Self { always: names(unsuited.always), where_shadowed: names(unsuited.where_shadowed) }
    }
}

/// A Xen that boots before a machine's kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderXen {
    /// Its file, unpacked.
    pub hypervisor: String,
    /// What the privileged domain has of the machine's memory, in bytes.
    pub privileged_memory_bytes: u64,
}

/// Where the data of a machine's root disk is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RootDisk {
    /// In a file or block device, which the hypervisor opens.
    Opened {
        /// Its path.
        path: String,
    },
    /// Behind a disk server, for a machine in virtual time.
    Served {
        /// Its socket.
        socket: String,
    },
}

/// How it is found out whether hardware virtualisation works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HardwareTrial {
    /// A small machine is booted first. What it shows holds for later machines too.
    Probe,
    /// The machine itself is booted with it, and without if it does not come up.
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
        match &self.backend {
            DiskBackend::Server { .. } => DiskMark::Serial(self.serial.clone()),
            DiskBackend::Own(disk) => disk.mark(&self.serial),
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
    /// In a file or block device of the machine around it, which the hypervisor opens.
    Own(OwnDisk),
}
