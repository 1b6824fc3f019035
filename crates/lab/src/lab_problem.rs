//! Why the place where stacks are built is not ready.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nestor_machine::MachineError;
use nestor_stack::{LabPack, MachineLabel, Place};
use nestor_text::units::{bytes, size};

use crate::link_problem::LinkProblem;

/// What a machine of a stack and its guests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDemand {
    /// The machine.
    pub machine: MachineLabel,
    /// Memory in bytes.
    pub bytes: u64,
}

impl fmt::Display for MemoryDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.machine, bytes(self.bytes))
    }
}

/// A program that a machine of the user's does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProgram {
    /// The machine, as the user names it.
    pub machine: String,
    /// The program.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

impl fmt::Display for MissingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, program, package } = self;
        write!(f, "{program} on {machine} (`apt-get install {package}`)")
    }
}

/// Why the place where stacks are built is not ready.
#[derive(Debug, thiserror::Error)]
pub enum LabProblem {
    /// A user who may not mount.
    #[error(
        "`--on {place}` makes and mounts file systems there, which needs root; run it as root, or use `--on emulated`"
    )]
    NotRoot {
        /// Where stacks were to be built.
        place: Place,
    },
    /// A manager starts instances by itself.
    #[error(
        "nothing is built at `--on {place}`: its manager starts instances, and no machine there is Nestor's"
    )]
    NoGround {
        /// Where stacks were to be built.
        place: Place,
    },
    /// The emulated host's hypervisor is not installed.
    #[error(
        "the emulated host needs QEMU, which is not installed; `apt-get install qemu-system-x86` installs it"
    )]
    NoHypervisor,
    /// It is installed, and does not say its version.
    #[error("the emulated host needs QEMU, but {} does not answer `--version`", program.display())]
    SilentHypervisor {
        /// The program.
        program: PathBuf,
    },
    /// What another machine's Nestor said of the lab image it made.
    #[error("`nestor lab build --json` gave an unexpected answer")]
    UnknownImage,
    /// The lab image does not have what a stack needs.
    #[error("this stack needs the {} pack of the lab image, which does not exist yet\n  make it once: nestor lab pack {}", pack.name(), pack.name())]
    NoPack {
        /// Which.
        pack: LabPack,
    },
    /// No image has the kernel that a stack names.
    #[error(
        "no kernel was added to this lab image as `{name}` (kernel={name})\n  add it once: nestor lab kernel {name} FILE, \
         where FILE is a Debian package linux-image-RELEASE or a bzImage"
    )]
    NoKernel {
        /// As it is written.
        name: String,
    },
    /// No image has the QEMU that a stack names.
    #[error(
        "no QEMU was added to this lab image as `{name}` (qemu={name})\n  add it once: nestor lab qemu {name} FILE, where FILE is the \
         program qemu-system-x86_64"
    )]
    NoQemu {
        /// As it is written.
        name: String,
    },
    /// A QEMU that was added is to run on this machine itself, and is not what it was.
    #[error(
        "the QEMU `{name}` was added from {}, which is gone or has changed, and `--on this` runs that file\n  \
         add it again: nestor lab qemu {name} FILE", file.display()
    )]
    QemuChanged {
        /// As it is written.
        name: String,
        /// The program.
        file: PathBuf,
    },
    /// The memory of a machine that is not made for the stack.
    #[error(
        "the memory of {place} cannot be set to {} (`host-memory`): only an emulated host is made for a stack; \
         omit the option, or use --on emulated", size(*bytes)
    )]
    HostMemoryIsGiven {
        /// Where stacks are built.
        place: Place,
        /// What was asked for.
        bytes: u64,
    },
    /// More memory than there is.
    #[error(
        "the stack's machines need {} of memory ({}), but this machine has {}; use less memory for guests \
         (`kvm:memory=…`) and clients (`link:memory=…`)",
        bytes(machines.iter().map(|machine| machine.bytes).sum()),
        machines.iter().map(MemoryDemand::to_string).collect::<Vec<_>>().join(", "),
        bytes(*available_bytes)
    )]
    TooMuchMemory {
        /// The machines of the stack that are in no other, each with what it and its guests need.
        machines: Vec<MemoryDemand>,
        /// What this machine has.
        available_bytes: u64,
    },
    /// More instances than the memory that the stack gives its node can hold.
    #[error(
        "{instances} instances need {} MiB of memory on their node, which the stack says has {} MiB; omit `host-memory`, raise it, or \
         lower `count`", needed_bytes >> 20, stated_bytes >> 20
    )]
    TooManyInstances {
        /// How many.
        instances: u32,
        /// What they need with their hypervisors, in bytes.
        needed_bytes: u64,
        /// What the stack says (`host-memory`), in bytes.
        stated_bytes: u64,
    },
    /// The disk server of the lab image's root.
    #[error("the lab image's root could not be served: {source}")]
    RootNotServed {
        /// What it said.
        source: MachineError,
    },
    /// Steps that could not be undone, each with its reason.
    #[error("{}", problems.iter().map(MachineError::to_string).collect::<Vec<_>>().join("; "))]
    NotUndone {
        /// One for each step.
        problems: Vec<MachineError>,
    },
    /// Machines of the user's lack programs.
    #[error(
        "`{layer}` needs programs that are not installed: {}; nothing was written",
        missing.iter().map(MissingProgram::to_string).collect::<Vec<_>>().join(", ")
    )]
    NoPrograms {
        /// The layer in its canonical notation.
        layer: String,
        /// Each of them.
        missing: Vec<MissingProgram>,
    },
    /// A link that this machine's own kernel cannot be.
    #[error(transparent)]
    Link(#[from] LinkProblem),
    /// A machine that is no longer there.
    #[error("a machine of the stack has ended")]
    MachineEnded,
    /// Another process removed the booted machines from the cache.
    #[error("{} was removed before it could be used", path.display())]
    KeptHostRemoved {
        /// Their state.
        path: PathBuf,
    },
    /// The booted machines could not be written to the cache.
    #[error(
        "the booted machines cannot be kept in {}: {source}; set NESTOR_CACHE to a directory with several GB of free \
         space", path.display()
    )]
    CannotKeep {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_said_with_their_machine_and_package() {
        let of = |machine: &str, program, package| MissingProgram {
            machine: machine.to_owned(),
            program,
            package,
        };
        let missing = vec![of("storage-1", "nginx", "nginx-light"), of("node-1", "curl", "curl")];
        assert_eq!(
            LabProblem::NoPrograms { layer: "copy:http".to_owned(), missing }.to_string(),
            "`copy:http` needs programs that are not installed: nginx on storage-1 (`apt-get install nginx-light`), curl on \
             node-1 (`apt-get install curl`); nothing was written"
        );
    }

    #[test]
    fn too_much_memory_is_said_of_each_machine() {
        let problem = LabProblem::TooMuchMemory {
            machines: vec![
                MemoryDemand { machine: MachineLabel::Host, bytes: 4 << 30 },
                MemoryDemand { machine: MachineLabel::Client(1), bytes: 1 << 30 },
            ],
            available_bytes: 3 << 30,
        };
        assert_eq!(
            problem.to_string(),
            "the stack's machines need 5.00 GiB of memory (host: 4.00 GiB, client: 1.00 GiB), but this machine has \
             3.00 GiB; use less memory for guests (`kvm:memory=…`) and clients (`link:memory=…`)"
        );
    }
}
