//! What an agent says of its machine.

use serde::{Deserialize, Serialize};

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Host name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor as the machine sees it.
    pub cpu_model: String,
    /// Number of processors.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Whether the agent is root.
    pub root: bool,
    /// Whether the agent may have the hypervisor for lab machines use hardware virtualisation.
    pub may_use_hardware: bool,
    /// First line of the version of the hypervisor for lab machines, if one is installed; not looked for in a lab machine.
    pub hypervisor: Option<String>,
    /// Directory for sockets, logs and scratch files of this agent.
    pub work_directory: String,
    /// Path of the agent's own binary.
    pub binary: String,
    /// The agent's process id.
    pub pid: u32,
    /// `CLOCK_MONOTONIC` of this machine when the agent began, ns. The agent of a machine of the lab is its first process.
    pub begun_ns: u64,
    /// File systems that the kernel has on block devices or can load; not looked for in a lab machine.
    pub file_systems: Vec<String>,
}
