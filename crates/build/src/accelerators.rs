//! What was found out about KVM, remembered per machine so that it is probed once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nestor_machine::{Accelerator, Facts};

/// The memory of earlier probes: a small file in the cache directory.
pub struct AcceleratorMemory {
    path: PathBuf,
    known: BTreeMap<String, String>,
}

impl AcceleratorMemory {
    /// Reads what is known; an unreadable file is the same as none.
    pub fn open(cache_directory: &Path) -> Self {
        let path = cache_directory.join("accelerators.json");
        let known =
            fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self { path, known }
    }

    /// What to ask for in a machine: what was found earlier, otherwise a probe.
    pub fn recall(&self, machine: &str) -> Accelerator {
        match self.known.get(machine).map(String::as_str) {
            Some("kvm") => Accelerator::Kvm,
            Some("tcg") => Accelerator::Tcg,
            _ => Accelerator::Auto,
        }
    }

    /// Keeps what a boot showed.
    pub fn remember(&mut self, machine: &str, accelerator: &str) {
        if self.known.insert(machine.to_owned(), accelerator.to_owned()).as_deref() != Some(accelerator) {
            let _ = self.path.parent().map(fs::create_dir_all);
            // Without the file the next run probes again.
            let _ = serde_json::to_vec_pretty(&self.known).map(|bytes| fs::write(&self.path, bytes));
        }
    }

    /// Forgets what does not hold (any more).
    pub fn forget(&mut self, machine: &str) {
        if self.known.remove(machine).is_some() {
            let _ = serde_json::to_vec_pretty(&self.known).map(|bytes| fs::write(&self.path, bytes));
        }
    }
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

    #[test]
    fn a_broken_memory_is_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("accelerators.json"), b"{ not json").unwrap();
        assert_eq!(AcceleratorMemory::open(directory.path()).recall("a"), Accelerator::Auto);
    }
}
