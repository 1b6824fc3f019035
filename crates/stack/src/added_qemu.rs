//! QEMUs of the user's in place of the lab image's.
//!
//! A hypervisor says it (`kvm:qemu=next`), because it is what one wants to judge; the machine around the guest has that QEMU and runs the guest
//! with it, and all other guests of the stack run in the QEMU of the lab image.

use crate::{Layer, LayerIndex, Stack, StackError};

/// Option of hypervisors that names the QEMU that runs their machine.
pub(crate) const QEMU_OPTION: &str = "qemu";

impl Layer {
    /// The QEMU of the user's that runs the machine of a hypervisor, by the name under which it was added to the lab.
    pub fn added_qemu(&self) -> Option<&str> {
        self.hypervisor().and_then(|_| self.option(QEMU_OPTION))
    }
}

impl Stack {
    /// The QEMU of the user's that runs machines of the stack, if any does.
    pub fn added_qemu(&self) -> Option<&str> {
        self.naming_a_qemu().next().map(|(_, qemu)| qemu)
    }

    fn naming_a_qemu(&self) -> impl Iterator<Item = (LayerIndex, &str)> {
        self.indexed_all().filter_map(|(index, layer)| Some((index, layer.added_qemu()?)))
    }

    /// Why no lab image has what runs the machines.
    pub(crate) fn why_not_with_its_qemu(&self) -> Option<StackError> {
        let (first, qemu) = self.naming_a_qemu().next()?;
        let refused =
            |at, message, help: &str| Some(StackError::at_option(self, at, QEMU_OPTION, message, help));
        if let Some((other, another)) = self.naming_a_qemu().find(|(_, another)| *another != qemu) {
            let message = format!(
                "a stack has one QEMU besides the lab image's, and this one has `{qemu}` and `{another}`"
            );
            return refused(other, message, "name one of them, and leave the other out");
        }
        if self.lab_pack().is_some() {
            let message =
                "a QEMU of your own is added to the plain lab image, and this stack needs a pack".to_owned();
            return refused(
                first,
                message,
                "omit `qemu`, or use an image without a source and Nestor's own machines",
            );
        }
        if self.added_kernel().is_some() {
            let message = "a stack has a QEMU or a kernel of your own, and this one has both".to_owned();
            return refused(first, message, "omit `qemu` or `kernel`: what changed would else not be known");
        }
        None
    }
}
