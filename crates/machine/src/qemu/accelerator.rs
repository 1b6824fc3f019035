//! Whether KVM really works here: `/dev/kvm` can exist and still hang or die, so a machine is booted to see.

use std::path::PathBuf;
use std::time::Duration;

use nestor_stack::Accelerator;

use super::RunningMachine;
use crate::agent::process::Spawner;

/// What a probe found.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Whether a machine booted under KVM.
    pub kvm_works: bool,
    /// Why not, if not.
    pub reason: Option<String>,
}

/// Boots a small machine under KVM and waits for its hello.
pub fn probe_kvm(
    kernel: &str,
    modules_cpio: &str,
    directory: PathBuf,
    limit: Duration,
    spawner: &Spawner,
) -> Probe {
    let openable = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    let reason = match openable {
        Err(e) => Some(format!("/dev/kvm could not be opened: {e}")),
        Ok(_) => RunningMachine::probe(kernel, modules_cpio, Accelerator::Kvm, directory, limit, spawner)
            .err()
            .map(|e| format!("a machine under KVM did not boot: {e}")),
    };
    Probe { kvm_works: reason.is_none(), reason }
}
