//! A domain for tests.

use nestor_stack::layers::hypervisors::XenGuest;
use nestor_stack::{HypervisorKind, MachineIndex};

use crate::place::MachinePlace;
use crate::spec::{FeaturesLeftOut, HardwareTrial, MachineSpec, MachineTime, RootDisk};

/// A machine that is to be a domain.
pub fn machine(guest: XenGuest) -> MachineSpec {
    MachineSpec {
        place: MachinePlace::Guest(MachineIndex::OUTERMOST),
        memory_bytes: 256 << 20,
        cpus: 1,
        hypervisor: HypervisorKind::Xen,
        qemu: None,
        accelerator: None,
        under_xen: None,
        left_out: FeaturesLeftOut::default(),
        xen_guest: Some(guest),
        kernel: "/lab/vmlinuz".into(),
        modules_cpio: "/lab/modules.cpio".into(),
        root: RootDisk::Opened { path: "/lab/root.squashfs".into() },
        time: MachineTime::Real,
        kept_state: None,
        shared_memory: false,
        disk_thread: false,
        disks_at_start: Vec::new(),
        hardware_trial: HardwareTrial::Probe,
        probe_timeout_ms: 0,
        boot_timeout_ms: 0,
    }
}
