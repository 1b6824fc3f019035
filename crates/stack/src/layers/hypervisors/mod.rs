//! Hypervisors: a virtual machine with one disk that is the stack below.

mod block;
pub mod devices;
pub(super) mod kvm;
mod options;
pub(super) mod tcg;

pub use block::{Aio, CacheMode, Discard, HostBlockOptions, HostTarget};
pub use options::HypervisorOptions;

/// What executes a guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// The CPU, through `/dev/kvm`, where a probe shows that it works; otherwise QEMU's emulation.
    Kvm,
    /// QEMU's emulation, always.
    Tcg,
}
