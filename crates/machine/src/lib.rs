//! Places to run: the agent, its transports, hypervisors, and the lab image every machine boots.
//!
//! A *machine* is a place where the program runs as an agent and obeys the same requests: the user's own machine,
//! another one over ssh, an emulated host, a guest inside it, to any depth.

pub mod agent;
mod apart;
mod boot_directory;
pub mod bounds;
mod command_line;
mod connection;
mod disks;
pub mod error;
mod facts;
mod hosted;
mod hypervisor;
pub mod init;
pub mod lab_image;
mod libvirt;
mod loss;
mod machine;
pub mod message;
mod mounting;
mod nfs_export;
mod not_undone;
mod place;
mod prefetch;
mod qemu;
mod refusal;
pub mod spec;
mod ssh;
mod terminal;
mod ticks;
pub mod transport;
mod users_directory;
mod virtual_time;
mod virtualbox;
mod vmware;
mod xen;

pub use disks::{DiskMark, ROOT_SERIAL};
pub use error::{FailedProgram, MachineError};
pub use facts::LAB_HYPERVISOR;
pub use hosted::here as hosted_here;
pub use hypervisor::{DiskSource, Hypervisor, OwnDisk, hypervisor};
pub use libvirt::{domain_description, here as libvirt_here, serve_inside as serve_agent_in_domain};
pub use loss::Loss;
pub use machine::{
    Boot, Machine, OnEach, SMALL_FILE_BYTES, Timed, run_inside, run_together, shut_down_machines,
    start_machines,
};
pub use message::{Command, Facts, Finished, ReadySign};
pub use mounting::Mounting;
pub use nfs_export::{EXPORTED, NfsExport};
pub use not_undone::{NotUndone, SystemError, WhyLeft};
pub use place::MachinePlace;
pub use prefetch::Prefetch;
pub use qemu::TraceSwitch;
pub use refusal::{Cause, FileKind, ProgramEnd, Refusal};
pub use spec::{
    DiskAttachment, DiskBackend, FeaturesLeftOut, HardwareTrial, InterfaceAttachment, InterfaceBackend,
    MachineSpec, MachineTime, RootDisk, UnderXen,
};
pub use ticks::TickReading;
pub use transport::Ground;
pub use users_directory::OwnDirectory;
pub use xen::{XenRole, here as xen_here, role as xen_role, version as xen_version};
