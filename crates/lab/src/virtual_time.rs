//! Whether the QEMU of this machine can be joined to virtual time: tried once for each QEMU, and stored.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nestor_machine::{Cause, Facts, LAB_HYPERVISOR, hypervisor};
use nestor_processor::WhyNotCounted;
use nestor_stack::Stack;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::doctor::find_program;
use crate::probe_memory::ProbeMemory;
use crate::{BuildError, Lab};

/// The stack that is built as the probe: a host and a guest, and a disk of each.
const PROBED: &str = "ext4/kvm/raw/ext4/null";

/// The file of the cache directory in which it is remembered.
pub(crate) const MEMORY_FILE: &str = "virtual-time.json";

/// Whether QEMU can be joined to virtual time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Joins {
    /// A host and a guest in it have lived in it.
    Yes {
        /// Why instructions are not counted there, if they are not.
        uncounted: Option<WhyNotCounted>,
    },
    /// Why not.
    No(String),
}

/// The memory of earlier probes of virtual time.
pub struct VirtualTimeMemory(ProbeMemory);

impl VirtualTimeMemory {
    /// Reads the stored results; an unreadable file counts as missing.
    pub fn open(cache_directory: &Path) -> Self {
        Self(ProbeMemory::open(cache_directory.join(MEMORY_FILE)))
    }

    /// The earlier result; one that this version does not understand counts as missing.
    pub fn recall(&self, identity: &str) -> Option<Joins> {
        serde_json::from_str(self.0.recall(identity)?).ok()
    }

    /// Keeps what a probe found.
    pub fn remember(&mut self, identity: &str, found: &Joins) {
        if let Ok(text) = serde_json::to_string(found) {
            self.0.remember(identity, &text);
        }
    }
}

/// The identity under which a QEMU is remembered: another program, another lab image or another library of ours is another.
pub fn qemu_identity(facts: &Facts, lab_hash: &str) -> String {
    let binary = find_program(hypervisor(LAB_HYPERVISOR).program())
        .and_then(|path| fs::metadata(path).ok())
        .map_or_else(
            || "not found".to_owned(),
            |found| format!("{} bytes of {}.{:09}", found.len(), found.mtime(), found.mtime_nsec()),
        );
    let library = hex::encode(&Sha256::digest(nestor_vtime::LIBRARY)[..8]);
    format!(
        "{} | {binary} | {} | lab {lab_hash} | library {}",
        facts.hypervisor.as_deref().unwrap_or("no QEMU"),
        facts.kernel,
        library
    )
}

impl Joins {
    /// Tries it in a lab that was opened in virtual time: boots a host and a guest in it, and takes the guest's stack down.
    ///
    /// # Errors
    /// If the failure does not concern this QEMU: a full disk, a directory of the cache that others may write to. The caller knows
    /// whether the user interrupted it.
    pub fn probe(lab: &mut Lab) -> Result<Self, BuildError> {
        let tried = Stack::parse(PROBED).map_err(BuildError::from).and_then(|stack| {
            let built = lab.build(&stack)?;
            let counted = lab.take_instructions()?;
            lab.take_down(built)?;
            Ok(Self::Yes { uncounted: counted.why_not })
        });
        tried.or_else(|e| if is_of_qemu(&e) { Ok(Self::No(e.to_string())) } else { Err(e) })
    }
}

/// Whether QEMU itself failed.
fn is_of_qemu(error: &BuildError) -> bool {
    let (BuildError::Layer { source, .. } | BuildError::Machine(source)) = error else { return false };
    match source.cause() {
        Cause::NotJoined
        | Cause::NotLoaded
        | Cause::NotStarted
        | Cause::MachineLost
        | Cause::MachineSilent => true,
        // It may begin in time when less else runs.
        Cause::NotStartedInTime
        | Cause::NotInstalled { .. }
        | Cause::ProgramFailed { .. }
        | Cause::NotMounted
        | Cause::NoSpace
        | Cause::NoMemory
        | Cause::NotPermitted
        | Cause::NotSupported
        | Cause::NotThere
        | Cause::OfAnotherKind { .. }
        | Cause::InUse
        | Cause::NoDisk
        | Cause::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_probe_found_is_remembered_for_its_qemu() {
        let directory = tempfile::tempdir().unwrap();
        let no = Joins::No("its functions are not exported".to_owned());
        let mut memory = VirtualTimeMemory::open(directory.path());
        assert_eq!(memory.recall("7.2"), None);
        let uncounted = Joins::Yes { uncounted: Some(WhyNotCounted::NoInterface) };
        memory.remember("7.2", &Joins::Yes { uncounted: None });
        memory.remember("11", &uncounted);
        memory.remember("static", &no);
        let memory = VirtualTimeMemory::open(directory.path());
        assert_eq!(memory.recall("7.2"), Some(Joins::Yes { uncounted: None }));
        assert_eq!((memory.recall("11"), memory.recall("static")), (Some(uncounted), Some(no)));
    }

    #[test]
    fn only_what_qemu_does_is_said_of_it() {
        let blames_qemu = |cause| {
            let refusal = nestor_machine::Refusal::new(cause, "as it says");
            let source = nestor_machine::MachineError::Refused { machine: "host".to_owned(), refusal };
            is_of_qemu(&BuildError::Machine(source))
        };
        assert!(
            blames_qemu(Cause::NotJoined)
                && blames_qemu(Cause::MachineLost)
                && blames_qemu(Cause::NotStarted)
        );
        assert!(
            !blames_qemu(Cause::NoSpace)
                && !blames_qemu(Cause::NotPermitted)
                && !blames_qemu(Cause::NoMemory)
                && !blames_qemu(Cause::NotStartedInTime)
        );
        assert!(!is_of_qemu(&BuildError::Lab("others may write to the cache".to_owned())));
    }

    #[test]
    fn the_probed_stack_is_one() {
        assert_eq!(Stack::parse(PROBED).unwrap().to_string(), PROBED);
    }
}
