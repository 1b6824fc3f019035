//! Hypervisors: a virtual machine with one disk that is the stack below.

mod block;
pub mod devices;
pub(super) mod hosted;
pub(super) mod kvm;
mod managed;
mod options;
mod run_by;
pub(super) mod tcg;
pub(super) mod xen;

pub(in crate::layers) use block::{AIO, CACHE, DISCARD};
pub use block::{Aio, CacheMode, Discard, HostBlockOptions, HostTarget};
pub use hosted::{HostedController, HostedDisk, HostedSpec, UnsuitedFeatures};
pub use managed::{InstanceOf, ManagedInstance};
pub use options::{GuestDisk, HypervisorOptions, QemuDisk};
pub(crate) use options::{check_without_disk, without_disk};
pub(crate) use run_by::check_without_link;
pub use run_by::{LIBVIRT_FOR_XEN, RunBy};
pub(super) use xen::PACKAGES as XEN_PACKAGES;
pub use xen::XenGuest;
