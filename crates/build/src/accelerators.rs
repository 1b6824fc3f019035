//! What was found out about KVM, remembered per machine so that it is probed once.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
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
            self.keep();
        }
    }

    /// Forgets what does not hold (any more).
    pub fn forget(&mut self, machine: &str) {
        if self.known.remove(machine).is_some() {
            self.keep();
        }
    }

    /// A new file takes the old one's place, so that nothing is written through a link. Without the file the next run probes
    /// again.
    fn keep(&self) {
        let partial = self.path.with_extension(format!("partial-{}", std::process::id()));
        let write = || {
            let bytes = serde_json::to_vec_pretty(&self.known)?;
            if let Some(directory) = self.path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
            }
            fs::OpenOptions::new().write(true).create_new(true).open(&partial)?.write_all(&bytes)?;
            fs::rename(&partial, &self.path)
        };
        if write().is_err() {
            let _ = fs::remove_file(&partial);
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
    fn nothing_is_written_through_a_link_in_the_memorys_place() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("of-the-users");
        fs::write(&elsewhere, "his").unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory.path().join("accelerators.json")).unwrap();
        AcceleratorMemory::open(directory.path()).remember("a", "kvm");
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "his");
        assert_eq!(AcceleratorMemory::open(directory.path()).recall("a"), Accelerator::Kvm);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_broken_memory_is_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("accelerators.json"), b"{ not json").unwrap();
        assert_eq!(AcceleratorMemory::open(directory.path()).recall("a"), Accelerator::Auto);
    }
}
