//! Turns a stack into real things on machines, and takes them down again.
//!
//! A [`Lab`] is a place where stacks are built; [`Lab::build`] makes one from the medium upwards, [`Lab::take_down`]
//! removes it. Machines and the modelled disk stay from one stack to the next.

mod accelerators;
mod added_kernel;
mod added_qemu;
mod beforehand;
mod builder;
mod built;
mod dependencies;
pub mod doctor;
mod error;
mod file_system;
mod fullness;
mod grounds;
mod guest_network;
mod held_memory;
mod hypervisor;
mod image;
mod kept_host;
mod kernel_link;
mod kernel_parts;
mod lab;
mod lab_problem;
mod link;
mod link_counters;
mod link_problem;
mod loop_device;
mod medium;
mod medium_class;
mod memory;
mod network_disk;
mod network_file_system;
mod network_loss;
mod network_modules;
mod packages;
mod partition;
mod prefetch;
mod probe_memory;
mod progressing;
mod root_machine;
mod scattered;
mod seed;
mod served_disk;
mod served_link;
mod server_process;
mod sourced;
mod standing;
mod time_limits;
mod tuning;
mod user_medium;
mod users_directory;
mod users_xen;
mod virtual_time;
mod wire;
mod write_cache;

pub use accelerators::known_accelerator;
pub use added_kernel::KernelFiles;
pub use added_qemu::QemuFiles;
pub use beforehand::require_machine;
pub use built::{
    BlockPoint, BuiltFileSystem, BuiltImage, BuiltMachine, BuiltStack, Exported, NetworkDisk, Top,
    VirtualDisk,
};
pub use error::BuildError;
pub use kept_host::remove_partial_kept_hosts;
pub use lab::{Lab, LabFiles, LabOptions, Progress, most_side_by_side};
pub use lab_problem::{LabProblem, MemoryDemand, MissingProgram};
pub use link_problem::{KernelPart, LinkProblem, NetworkService};
pub use medium_class::{DiskBelow, disk_below};
pub use memory::{AtOnce, cell_needs, host_needs};
pub use network_loss::{Network, NetworkLoss};
pub use prefetch::FailedPrefetch;
pub use scattered::{ScatteredError, make_scattered};
pub use seed::{Before, Seed};
pub use served_disk::{DiskLog, ServedDisk};
pub use sourced::{BootedInstance, Instance, LifeMachine, Span, Transferred, dealt};
pub use users_xen::require_users_xen;
pub use virtual_time::{Joins, VirtualTimeMemory, qemu_identity};
