//! QEMUs of the user's in place of the lab image's: which machine runs in which.

use nestor_machine::lab_image::ADDED_QEMU_IN_ROOT;
use nestor_stack::{Depth, Layer, Place};

use crate::lab_problem::LabProblem;
use crate::progressing::Progressing;
use crate::{BuildError, Lab, LabFiles};

/// A QEMU that was added to the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct QemuFiles {
    /// The image that has it besides the lab's own.
    pub image: LabFiles,
    /// The words that begin its command line on this machine, for guests of this machine itself.
    pub command: Vec<String>,
    /// Its version and the digest of all its files, in words.
    pub about: String,
}

impl Lab {
    /// The words that begin the command line of the machine of a hypervisor layer, in so many others, if the layer names a QEMU. Whether there is such
    /// a QEMU was seen before.
    pub(crate) fn command_of_qemu(&self, layer: &Layer, depth: Depth) -> Option<Vec<String>> {
        let files = self.qemus.get(layer.added_qemu()?)?;
        Some(match (&self.place, depth) {
            (Place::This, Depth::GUEST) => files.command.clone(),
            // The machine around it boots the image that has it.
            _ => vec![ADDED_QEMU_IN_ROOT.to_owned()],
        })
    }

    /// Notes which QEMU of the user's runs machines of the stack.
    pub(crate) fn note_added_qemu(&self, progressing: &mut Progressing<'_>) -> Result<(), BuildError> {
        let stack = progressing.stack;
        let machines = stack.machines();
        for (_, machine) in machines.indexed() {
            let name = machine.crossing.and_then(|at| stack.layer(at).added_qemu());
            if let Some(name) = name {
                let about = format!("{name}: {}", self.added_qemu(name)?.about);
                progressing.note(format!("{} QEMU", machine.label), about);
            }
        }
        Ok(())
    }

    pub(crate) fn added_qemu(&self, name: &str) -> Result<&QemuFiles, LabProblem> {
        self.qemus.get(name).ok_or_else(|| LabProblem::NoQemu { name: name.to_owned() })
    }
}
