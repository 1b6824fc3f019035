//! Kernels of the user's in place of the lab image's: which machine boots which.

use nestor_machine::lab_image::{ADDED_KERNEL_IN_ROOT, ADDED_MODULES_CPIO_IN_ROOT};
use nestor_stack::{MachineIndex, Stack};

use crate::lab_problem::LabProblem;
use crate::progressing::Progressing;
use crate::{BuildError, Lab, LabFiles};

/// A kernel that was added to the lab, as files of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelFiles {
    /// The image that has it besides the lab's own.
    pub image: LabFiles,
    /// The added kernel.
    pub kernel: String,
    /// Its modules for the initramfs.
    pub modules_cpio: String,
    /// Its release and the digest of the file that it came from, in words.
    pub about: String,
}

impl Lab {
    /// The lab image that a stack's machine in no other boots, with the kernel for that machine.
    pub(crate) fn files_for(&mut self, stack: &Stack, root: MachineIndex) -> Result<LabFiles, BuildError> {
        if let Some(pack) = stack.lab_pack() {
            return self.pack(pack);
        }
        if let Some(name) = stack.added_qemu() {
            return Ok(self.added_qemu(name)?.image.clone());
        }
        let Some(name) = stack.added_kernel() else { return self.ground_files() };
        let KernelFiles { image, kernel, modules_cpio, .. } = self.added_kernel(name)?.clone();
        Ok(if stack.boots_added_kernel(root) { LabFiles { kernel, modules_cpio, ..image } } else { image })
    }

    /// The same for a guest, of the files that the machine around it has.
    pub(crate) fn with_its_kernel(stack: &Stack, guest: MachineIndex, files: LabFiles) -> LabFiles {
        if !stack.boots_added_kernel(guest) {
            return files;
        }
        LabFiles {
            kernel: ADDED_KERNEL_IN_ROOT.to_owned(),
            modules_cpio: ADDED_MODULES_CPIO_IN_ROOT.to_owned(),
            ..files
        }
    }

    /// Notes which kernel of the user's machines of the stack boot.
    pub(crate) fn note_added_kernel(&self, progressing: &mut Progressing<'_>) -> Result<(), BuildError> {
        let stack = progressing.stack;
        let Some(name) = stack.added_kernel() else { return Ok(()) };
        let about = format!("{name}: {}", self.added_kernel(name)?.about);
        for (_, machine) in stack.machines().indexed().filter(|(index, _)| stack.boots_added_kernel(*index)) {
            progressing.note(format!("{} kernel", machine.label), about.clone());
        }
        Ok(())
    }

    fn added_kernel(&self, name: &str) -> Result<&KernelFiles, LabProblem> {
        self.kernels.get(name).ok_or_else(|| LabProblem::NoKernel { name: name.to_owned() })
    }
}
