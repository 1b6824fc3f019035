//! What was found out about KVM, remembered per machine so that it is probed once.

use std::path::Path;

use nestor_machine::{Accelerator, Facts};

use crate::probe_memory::ProbeMemory;

/// The memory of earlier probes of KVM.
pub struct AcceleratorMemory(ProbeMemory);

impl AcceleratorMemory {
    /// Reads what is known; an unreadable file is the same as none.
    pub fn open(cache_directory: &Path) -> Self {
        Self(ProbeMemory::open(cache_directory.join("accelerators.json")))
    }

    /// What to ask for in a machine: what was found earlier, otherwise a probe.
    pub fn recall(&self, machine: &str) -> Accelerator {
        match self.0.recall(machine) {
            Some("kvm") => Accelerator::Kvm,
            Some("tcg") => Accelerator::Tcg,
            _ => Accelerator::Auto,
        }
    }

    /// Keeps what a boot showed.
    pub fn remember(&mut self, machine: &str, accelerator: &str) {
        self.0.remember(machine, accelerator);
    }

    /// Forgets what does not hold (any more).
    pub fn forget(&mut self, machine: &str) {
        self.0.forget(machine);
    }
}

/// What earlier boots have shown of KVM on a ground machine.
pub fn known_accelerator(facts: &Facts, lab_hash: &str, cache_directory: &Path) -> Accelerator {
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
        facts.qemu.as_deref().unwrap_or("no QEMU"),
        if facts.kvm_device { "may use /dev/kvm" } else { "may not use /dev/kvm" },
    )
}

/// The identity of a lab machine at `depth` (the emulated host is 0) on top of `below`.
pub fn nested_identity(below: &str, accelerator: &str, depth: usize) -> String {
    format!("{below} > {accelerator} machine at depth {depth}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_remembered_and_can_be_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = AcceleratorMemory::open(directory.path());
        assert_eq!(memory.recall("a"), Accelerator::Auto);
        memory.remember("a", "tcg");
        memory.remember("b", "kvm");
        let mut memory = AcceleratorMemory::open(directory.path());
        assert_eq!((memory.recall("a"), memory.recall("b")), (Accelerator::Tcg, Accelerator::Kvm));
        memory.forget("a");
        assert_eq!(AcceleratorMemory::open(directory.path()).recall("a"), Accelerator::Auto);
    }
}
