//! Whether KVM really works here: `/dev/kvm` can exist and still hang or die, so a machine is booted to see.

use std::path::PathBuf;
use std::time::Duration;

use nestor_stack::Accelerator;

use super::running::QemuMachine;
use crate::agent::process::Spawner;
use crate::spec::MachineSpec;

/// Whether this user may use KVM.
pub fn may_use_kvm() -> bool {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok()
}

/// Boots a small machine under KVM with the kernel of another one, and waits for its hello.
pub fn kvm_works(spec: &MachineSpec, directory: PathBuf, spawner: &Spawner) -> bool {
    let limit = Duration::from_millis(spec.probe_timeout_ms);
    may_use_kvm()
        && QemuMachine::probe(&spec.kernel, &spec.modules_cpio, Accelerator::Kvm, directory, limit, spawner)
            .is_ok()
}
