//! What a hypervisor does, whichever it is. Each is a folder of this crate that implements [`Hypervisor`], a line in
//! [`hypervisor`] and one in [`OwnDisk`]; the rest of the code knows no more of it than this.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nestor_kernel::ServedRequests;
use nestor_processor::{InstructionMarks, WhyNotCounted};
use nestor_stack::{Accelerator, HypervisorKind, Layer};
use serde::{Deserialize, Serialize};

use crate::agent::process::Spawner;
use crate::connection::NoAnswer;
use crate::disks::DiskMark;
use crate::hosted::{Hosted, HostedDisk, HostedIdentity};
use crate::libvirt::{DomainDisk, DomainIdentity, Libvirt};
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::not_undone::NotUndone;
use crate::place::MachinePlace;
use crate::prefetch::Prefetch;
use crate::qemu::{DiskObjects, Qemu};
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, InterfaceAttachment, MachineSpec};
use crate::virtual_time::TimeKeeper;
use crate::virtualbox::VirtualBox;
use crate::vmware::Vmware;
use crate::xen::{self, NotedDomain, Toolstack, Xen, XenDisk};

/// The hypervisor of a kind.
pub fn hypervisor(kind: HypervisorKind) -> &'static dyn Hypervisor {
    match kind {
        HypervisorKind::Qemu => &Qemu,
        HypervisorKind::Xen => &Xen(Toolstack::Xl),
        HypervisorKind::XenByLibvirt => &Xen(Toolstack::Libvirt),
        HypervisorKind::Libvirt => &Libvirt,
        HypervisorKind::VirtualBox => &Hosted(&VirtualBox),
        HypervisorKind::Vmware => &Hosted(&Vmware),
    }
}

/// All hypervisors.
pub(crate) fn hypervisors() -> impl Iterator<Item = &'static dyn Hypervisor> {
    HypervisorKind::ALL.into_iter().map(hypervisor)
}

/// A disk that a hypervisor opens itself, as it describes it to itself: made by [`Hypervisor::disk`] and understood by its machines.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnDisk {
    /// QEMU's.
    Qemu(DiskObjects),
    /// Xen's.
    Xen(XenDisk),
    /// libvirt's.
    Libvirt(Box<DomainDisk>),
    /// A hosted hypervisor's.
    Hosted(Box<HostedDisk>),
}

impl OwnDisk {
    /// By what a machine finds it that has this serial number, or name.
    pub(crate) fn mark(&self, serial: &str) -> DiskMark {
        match self {
            Self::Qemu(_) | Self::Libvirt(_) => DiskMark::Serial(serial.to_owned()),
            Self::Xen(_) => DiskMark::Name(xen::DATA_DISK.to_owned()),
            Self::Hosted(_) => DiskMark::BesideRoot,
        }
    }
}

/// What a boot has started or is about to, for those who end it.
pub enum Started {
    /// A process of ours, the leader of its group, that runs the machine and dies with the agent.
    Process(u32),
    /// A process of ours that ends by itself.
    Tool(u32),
    /// A machine that another program runs: it is about to be made.
    Outliving(OutlivingMachine),
}

/// A machine that another program runs, so that it outlives the agent: the ledger has it before it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutlivingMachine {
    /// libvirt's.
    Libvirt(DomainIdentity),
    /// Of the user's Xen, or of libvirt's on any.
    Xen(NotedDomain),
    /// Of a hosted hypervisor.
    Hosted(HostedIdentity),
}

impl OutlivingMachine {
    /// Ends it; succeeds when there is nothing (any more) to end.
    ///
    /// # Errors
    /// It is still there.
    pub fn end(&self, spawner: &Spawner) -> Result<(), NotUndone> {
        match self {
            Self::Libvirt(domain) => domain.end(spawner),
            Self::Xen(domain) => domain.end(spawner),
            Self::Hosted(machine) => machine.end(spawner),
        }
    }

    /// Whether it may still be there.
    pub fn may_be_there(&self, spawner: &Spawner) -> bool {
        match self {
            Self::Libvirt(domain) => domain.process().is_some(),
            Self::Xen(domain) => domain.may_be_there(spawner),
            Self::Hosted(machine) => !machine.has_ended(),
        }
    }
}

/// Hears what a boot starts. What cannot be noted must not be made.
pub type OnStart<'a> = dyn FnMut(Started) -> Result<(), Refusal> + 'a;

/// What executes the instructions of a hypervisor's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accelerators {
    /// Where hardware virtualisation works.
    pub hardware: Accelerator,
    /// Everywhere else.
    pub fallback: Accelerator,
}

/// What a disk of a hypervisor layer is made of, in the machine around the guest.
#[derive(Clone, Copy, Debug)]
pub enum DiskSource<'a> {
    /// A block device.
    Device(&'a str),
    /// An image in a file.
    Image {
        /// The file.
        path: &'a str,
        /// The layer that says which format it has.
        layer: &'a Layer,
        /// Whether what its backing file has is copied into it while the machine runs.
        prefetch: bool,
    },
}

/// Starts machines inside a machine.
pub trait Hypervisor: Sync {
    /// The program, as it is called in a shell.
    fn program(&self) -> &'static str;

    /// The first line of what the program says of its version, if there is one here.
    fn version(&self) -> Option<String>;

    /// What can execute the instructions of its machines.
    fn accelerators(&self) -> Accelerators;

    /// Whether this user may have it use hardware virtualisation here. That may still hang or fail. Where nothing else executes the instructions
    /// of its machines, nothing is to be found out.
    fn may_use_hardware(&self) -> bool {
        true
    }

    /// Whether hardware virtualisation works here. A machine is booted to see, in a new directory, for at most as long as the
    /// specification says.
    fn hardware_works(&self, _spec: &MachineSpec, _directory: PathBuf, _spawner: &Spawner) -> bool {
        true
    }

    /// The device of the agent's stream, asked inside a machine; `None` if this is none of its machines, or the device is not there yet.
    fn agent_port(&self) -> Option<PathBuf>;

    /// Boots a machine and waits for its agent. `directory` is made for its files; `on_start` hears what runs it.
    ///
    /// # Errors
    /// Why it did not come up, with the end of its console.
    fn boot(
        &self,
        spec: &MachineSpec,
        accelerator: Accelerator,
        directory: PathBuf,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Arc<dyn RunningMachine>, Refusal>;

    /// The disk of a machine for its hypervisor's layer: it has a name and is made of what is below the layer. `None` if the layer
    /// is not one of this hypervisor's, or if what is below it is not a disk.
    fn disk(&self, layer: &Layer, name: &str, source: DiskSource<'_>) -> Option<DiskAttachment>;

    /// The arguments with which `nestor trace hypervisor record` records the disk of a machine that an agent with that work
    /// directory booted; `None` if this hypervisor has no trace of its own.
    fn trace_arguments(&self, _work_directory: &Path, _machine: MachinePlace) -> Option<Vec<String>> {
        // Its requests are recorded in the guest above it and at the block device below it.
        None
    }
}

/// What a kind of machine does not have.
pub(crate) fn not_supported(what: &str, kind: &str) -> Refusal {
    Refusal::new(Cause::NotSupported, format!("{what} {kind}"))
}

/// The last lines of what was printed, below a heading, for a message; nothing if nothing was printed.
pub(crate) fn last_lines(text: &str, heading: &str, most: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("; {heading}:\n    {}", lines[lines.len().saturating_sub(most)..].join("\n    "))
}

/// The same of a file, which need not be there.
pub(crate) fn file_tail(path: &Path, heading: &str, most: usize) -> String {
    last_lines(&String::from_utf8_lossy(&fs::read(path).unwrap_or_default()), heading, most)
}

/// A machine that a hypervisor runs. What not every kind of machine has is not supported unless it says otherwise.
pub trait RunningMachine: Send + Sync {
    /// What kind of machine it is, for what it does not have: `a machine of QEMU`.
    fn kind(&self) -> &'static str;

    /// Sends a request to the agent inside and waits for its answer, in real time at most for `limit`; in virtual time as long as
    /// the machine makes progress.
    ///
    /// # Errors
    /// When the agent is gone or does not answer.
    fn request(&self, request: Request, limit: Duration) -> Result<Answer, NoAnswer>;

    /// Plugs a disk in.
    ///
    /// # Errors
    /// The hypervisor's reason; what was already added for the disk is removed again.
    fn attach(&self, _disk: &DiskAttachment) -> Result<(), Refusal> {
        Err(not_supported("no disk can be plugged into", self.kind()))
    }

    /// Unplugs it and waits until the machine has released it.
    ///
    /// # Errors
    /// The hypervisor's reason.
    fn detach(&self, _disk: &DiskAttachment) -> Result<(), Refusal> {
        Err(not_supported("no disk can be unplugged from", self.kind()))
    }

    /// How far the copying of a disk's backing file into it is; the disk has this serial number.
    ///
    /// # Errors
    /// Nothing is copied there, or the hypervisor's reason.
    fn prefetch(&self, _disk: &str) -> Result<Prefetch, Refusal> {
        Err(not_supported("no backing file is copied by", self.kind()))
    }

    /// Plugs a network interface in.
    ///
    /// # Errors
    /// The hypervisor's reason; what was already added for the interface is removed again.
    fn attach_interface(&self, _interface: &InterfaceAttachment) -> Result<(), Refusal> {
        Err(not_supported("no interface can be plugged into", self.kind()))
    }

    /// Unplugs it and waits until the machine has released it.
    ///
    /// # Errors
    /// The hypervisor's reason.
    fn detach_interface(&self, _interface: &InterfaceAttachment) -> Result<(), Refusal> {
        Err(not_supported("no interface can be unplugged from", self.kind()))
    }

    /// What keeps its virtual time; `None` in real time.
    fn time_keeper(&self) -> Option<&TimeKeeper> {
        None
    }

    /// Stops the machine and writes its state into a new file. It does not continue from there; other machines do.
    ///
    /// # Errors
    /// It runs in real time, which cannot be stopped; or the hypervisor's reason.
    fn keep_state(&self, _path: &Path, _limit: Duration) -> Result<(), Refusal> {
        Err(not_supported("no state can be kept of", self.kind()))
    }

    /// What programs in the machine have marked since the last call.
    fn take_instructions(&self) -> InstructionMarks {
        InstructionMarks { why_not: Some(WhyNotCounted::RealTime), marks: Vec::new() }
    }

    /// What is added to the counter of the machine's processor.
    ///
    /// # Errors
    /// The offset is not known.
    fn tick_offset(&self) -> Result<i64, Refusal>;

    /// What was served of the disk of its hypervisor's layer since that was plugged in.
    ///
    /// # Errors
    /// It is not counted, or the disk is not there.
    fn served_requests(&self) -> Result<ServedRequests, Refusal> {
        Err(not_supported("nobody counts what is served of the disk of", self.kind()))
    }

    /// Ends the machine. Nothing of value is inside: disks that matter were unmounted by their builder before.
    fn stop(&self);

    /// Whether it has ended, by itself or because it was stopped.
    fn has_ended(&self) -> bool;

    /// Ends the requests to it, now and from now on: it cannot go on without what has ended.
    fn give_up(&self, loss: Loss);

    /// What it was given up for, by [`Self::give_up`] or by its own agent.
    fn loss(&self) -> Option<Loss>;

    /// How it ended and the last lines of its console, for a message, or nothing while it lives and is silent.
    fn last_words(&self) -> String;
}
