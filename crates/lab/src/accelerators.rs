//! The results of KVM probes, stored per machine so that each is probed once.

use std::fmt;
use std::path::Path;

use nestor_machine::Facts;
use nestor_machine::lab_image::LabHash;
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
    pub fn recall(&self, machine: &MachineIdentity) -> Option<Accelerator> {
        self.0.recall(&machine.0)?.parse().ok()
    }

    /// Stores the result of a boot.
    pub fn remember(&mut self, machine: &MachineIdentity, accelerator: Accelerator) {
        self.0.remember(&machine.0, accelerator.name());
    }

    /// Forgets a result that no longer holds.
    pub fn forget(&mut self, machine: &MachineIdentity) {
        self.0.forget(&machine.0);
    }
}

/// The results of earlier boots for KVM on a ground machine.
pub fn known_accelerator(facts: &Facts, lab: &LabHash, cache_directory: &Path) -> Option<Accelerator> {
    AcceleratorMemory::open(cache_directory).recall(&MachineIdentity::of_ground(facts, Some(lab)))
}

/// The identity under which a machine is remembered. Who boots it and who only asks what was found make it from the same facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineIdentity(String);

impl MachineIdentity {
    /// That of a ground machine: another kernel, processor, QEMU or permission is another machine. `lab`: the lab image that it boots, if
    /// it boots one.
    pub fn of_ground(facts: &Facts, lab: Option<&LabHash>) -> Self {
        Self(format!(
            "{} | {} | {} | {} | {} | lab {}",
            facts.name,
            facts.kernel,
            facts.cpu_model,
            facts.hypervisor.as_deref().unwrap_or("no QEMU"),
            if facts.may_use_hardware { "may use /dev/kvm" } else { "may not use /dev/kvm" },
            lab.map(LabHash::to_string).unwrap_or_default(),
        ))
    }

    /// That of a lab machine at `depth` (the emulated host is the root) on top of this one.
    pub fn nested(&self, accelerator: Accelerator, depth: Depth) -> Self {
        Self(format!("{self} > {accelerator} machine at depth {depth}"))
    }
}

impl fmt::Display for MachineIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_remembered_and_can_be_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| Facts { name: name.into(), ..Facts::default() });
        let [a, b] = [a, b].map(|facts| MachineIdentity::of_ground(&facts, None));
        let mut memory = AcceleratorMemory::open(directory.path());
        assert_eq!(memory.recall(&a), None);
        memory.remember(&a, Accelerator::Tcg);
        memory.remember(&b, Accelerator::Kvm);
        let mut memory = AcceleratorMemory::open(directory.path());
        assert_eq!((memory.recall(&a), memory.recall(&b)), (Some(Accelerator::Tcg), Some(Accelerator::Kvm)));
        memory.forget(&a);
        assert_eq!(AcceleratorMemory::open(directory.path()).recall(&a), None);
        let nested = |depth| b.nested(Accelerator::Kvm, depth);
        assert!(nested(Depth::ROOT) != b && nested(Depth::ROOT) != nested(Depth::GUEST));
    }
}
