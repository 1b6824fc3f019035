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
    /// It was tried once, and what failed may have been an accident: a QEMU that somebody ended or that ran out of memory ends as one that
    /// crashes does. It is tried once more, by the next run.
    Failed(String),
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
        tried.or_else(|e| Self::of_failure(&e).ok_or(e))
    }

    /// The result of a second try, if this one came after another.
    pub fn after(self, earlier: Option<&Self>) -> Self {
        match (earlier, self) {
            (Some(Self::Failed(_)), Self::Failed(reason)) => Self::No(reason),
            (_, found) => found,
        }
    }

    /// What a failure says of this QEMU; `None` if it says nothing.
    fn of_failure(error: &BuildError) -> Option<Self> {
        let (BuildError::Layer { source, .. } | BuildError::Machine(source)) = error else { return None };
        says_of_qemu(&source.cause()).map(|finding| finding(error.to_string()))
    }
}

/// What a cause says of QEMU itself: with the reason it is the result of a probe.
fn says_of_qemu(cause: &Cause) -> Option<fn(String) -> Joins> {
    match cause {
        Cause::NoVirtualTime | Cause::NotLoaded => Some(Joins::No),
        Cause::NotStarted | Cause::MachineLost | Cause::MachineSilent => Some(Joins::Failed),
        // It may begin in time when less else runs.
        Cause::NotStartedInTime
        | Cause::GivenUp { .. }
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
        | Cause::NotUndone { .. }
        | Cause::TimedOut
        | Cause::TakenDown
        | Cause::Other => None,
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
        let found = |cause| {
            let refusal = nestor_machine::Refusal::new(cause, "as it says");
            let source = nestor_machine::MachineError::Refused { machine: "host".to_owned(), refusal };
            Joins::of_failure(&BuildError::Machine(source))
        };
        assert!(matches!(found(Cause::NoVirtualTime), Some(Joins::No(_))));
        for accident in [Cause::MachineLost, Cause::MachineSilent, Cause::NotStarted] {
            assert!(matches!(found(accident), Some(Joins::Failed(_))));
        }
        for other in [Cause::NoSpace, Cause::NotPermitted, Cause::NoMemory, Cause::NotStartedInTime] {
            assert_eq!(found(other), None);
        }
        assert_eq!(Joins::of_failure(&BuildError::Lab(crate::LabProblem::UnknownImage)), None);
    }

    #[test]
    fn what_may_be_an_accident_counts_when_it_comes_twice() {
        let (killed, again) = (Joins::Failed("killed".to_owned()), Joins::Failed("killed again".to_owned()));
        let yes = Joins::Yes { uncounted: None };
        assert_eq!(killed.clone().after(None), killed);
        assert_eq!(again.clone().after(Some(&killed)), Joins::No("killed again".to_owned()));
        assert_eq!(yes.clone().after(Some(&killed)), yes);
        assert_eq!(again.clone().after(Some(&yes)), again);
    }

    #[test]
    fn the_probed_stack_is_one() {
        assert_eq!(Stack::parse(PROBED).unwrap().to_string(), PROBED);
    }
}
