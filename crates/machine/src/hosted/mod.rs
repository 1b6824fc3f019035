//! Machines of hosted hypervisors: programs that the user has installed, each a folder beside this one that implements [`Product`] and has a line
//! in [`product`]. None of them boots a kernel directly, and their disks have no serial numbers in common, so what a machine boots from, by what it
//! finds its root and how its agent is reached is here, once for all.

mod boot_disc;
mod boot_modules;
mod descriptor;
mod disk;
mod guest;
mod hypervisor;
mod identity;
mod installed;
mod machine;
#[cfg(test)]
pub mod made_up;
mod tool;
mod version;

use std::path::PathBuf;

use nestor_stack::{Accelerator, HypervisorKind};

use crate::refusal::Refusal;
use crate::spec::MachineSpec;
use crate::virtualbox::VirtualBox;
use crate::vmware::Vmware;
pub use disk::{HostedDisk, of_layer as disk_of_layer};
pub use guest::{agent_port, is_data, is_root};
pub use hypervisor::Hosted;
pub use identity::HostedIdentity;
pub use installed::here;
pub use machine::HostedMachine;
pub use tool::Tool;
pub use version::{Known, first_version};

/// What one of these programs is told in its own way.
pub trait Product: Sync {
    /// Which hypervisor it is.
    fn kind(&self) -> HypervisorKind;

    /// What executes the instructions of its machines.
    fn accelerator(&self) -> Accelerator;

    /// What its maker calls it.
    fn name(&self) -> &'static str;

    /// The tool that tells it what to do.
    fn tool(&self) -> &'static str;

    /// Asks the tool for the version of the program.
    ///
    /// # Errors
    /// It is not there, does not answer, or says something else.
    fn version(&self, tool: &Tool<'_>) -> Result<String, Refusal>;

    /// The versions whose words are known.
    fn known(&self) -> Known;

    /// Variables of the tool by which a machine's files, and what the program keeps of it, are apart from the user's.
    fn environment(&self, identity: &HostedIdentity) -> Vec<(&'static str, String)>;

    /// Defines a machine with its disks and starts it.
    ///
    /// # Errors
    /// Which call failed, and what was said.
    fn start(&self, plan: &Plan<'_>, tool: &Tool<'_>) -> Result<(), Refusal>;

    /// Has a machine ended and forgets it. Its files stay: they are not the program's to delete, for its disks are among them.
    ///
    /// # Errors
    /// Which call failed, and what was said.
    fn end(&self, identity: &HostedIdentity, tool: &Tool<'_>) -> Result<(), Refusal>;

    /// Where the program writes what it does, for a message about a machine.
    fn log(&self, identity: &HostedIdentity) -> PathBuf;

    /// What it leaves outside of the machine's directory.
    fn strays(&self, identity: &HostedIdentity) -> Vec<PathBuf>;
}

/// The program of a kind; `None` for those that are not hosted.
pub fn product(kind: HypervisorKind) -> Option<&'static dyn Product> {
    match kind {
        HypervisorKind::VirtualBox => Some(&VirtualBox),
        HypervisorKind::Vmware => Some(&Vmware),
        HypervisorKind::Qemu
        | HypervisorKind::Xen
        | HypervisorKind::XenByLibvirt
        | HypervisorKind::Libvirt => None,
    }
}

/// A machine to define.
pub struct Plan<'a> {
    /// Which it is.
    pub identity: &'a HostedIdentity,
    /// Its memory and processors.
    pub spec: &'a MachineSpec,
    /// The disc that it boots from.
    pub disc: PathBuf,
    /// The descriptor of the disk with the lab image's root, of which nothing may be written.
    pub root: PathBuf,
    /// The disk of the layer.
    pub disk: &'a HostedDisk,
    /// What is opened as that disk: its image, or a descriptor of it.
    pub medium: PathBuf,
}

impl Plan<'_> {
    /// Its memory, in MiB.
    pub fn memory_mib(&self) -> u64 {
        self.spec.memory_bytes >> 20
    }

    /// The file for what its kernel prints, on its first serial port.
    pub fn console(&self) -> PathBuf {
        self.identity.console()
    }

    /// Where this side listens for the agent's stream, on its second serial port.
    pub fn agent_socket(&self) -> PathBuf {
        self.identity.agent_socket()
    }
}
