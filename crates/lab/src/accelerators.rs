//! The results of KVM probes, stored per machine so that each is probed once.

use std::path::Path;

use nestor_machine::Facts;
use nestor_stack::{Accelerator, Depth};

use crate::probe_memory::ProbeMemory;

/// The memory of earlier probes of KVM.
pub struct AcceleratorMemory(ProbeMemory);

impl AcceleratorMemory {
    /// Reads the stored results; an unreadable file counts as missing.
    pub fn open(cache_directory: &Path) -> Self {
        Self(ProbeMemory::open(cache_directory.join("accelerators.json")))
    }

    /// The earlier result for a machine; `None` if it has to be probed.
    pub fn recall(&self, machine: &str) -> Option<Accelerator> {
        self.0.recall(machine)?.parse().ok()
    }

    /// Stores the result of a boot.
    pub fn remember(&mut self, machine: &str, accelerator: Accelerator) {
        self.0.remember(machine, accelerator.name());
    }

    /// Forgets a result that no longer holds.
    pub fn forget(&mut self, machine: &str) {
        self.0.forget(machine);
    }
}

/// The results of earlier boots for KVM on a ground machine.
pub fn known_accelerator(facts: &Facts, lab_hash: &str, cache_directory: &Path) -> Option<Accelerator> {
    AcceleratorMemory::open(cache_directory).recall(&machine_identity(facts, lab_hash))
}

/// The identity under which a ground machine is remembered: another kernel, processor, QEMU or permission is
/// another machine.
pub fn machine_identity(facts: &Facts, lab_hash: &str) -> String {
    format!(
        "{} | {} | {} | {} | {} | lab {lab_hash}",
        facts.name,
        facts.kernel,
        facts.cpu_model,
        facts.hypervisor.as_deref().unwrap_or("no QEMU"),
        if facts.may_use_hardware { "may use /dev/kvm" } else { "may not use /dev/kvm" },
    )
}

/// The identity of a lab machine at `depth` (the emulated host is the root) on top of `below`.
pub fn nested_identity(below: &str, accelerator: Accelerator, depth: Depth) -> String {
    format!("{below} > {accelerator} machine at depth {depth}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_remembered_and_can_be_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = AcceleratorMemory::open(directory.path());
        assert_eq!(memory.recall("a"), None);
        memory.remember("a", Accelerator::Tcg);
        memory.remember("b", Accelerator::Kvm);
        let mut memory = AcceleratorMemory::open(directory.path());
        assert_eq!(
            (memory.recall("a"), memory.recall("b")),
            (Some(Accelerator::Tcg), Some(Accelerator::Kvm))
        );
        memory.forget("a");
        assert_eq!(AcceleratorMemory::open(directory.path()).recall("a"), None);
    }
}
