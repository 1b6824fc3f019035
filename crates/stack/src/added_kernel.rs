//! Kernels of the user's in place of the lab image's.
//!
//! A kernel belongs to a machine. A file system says it (`ext4:kernel=next`), because it is what one wants to judge; the machine that has it
//! mounted boots the kernel, and all other machines of the stack boot the lab image's.

use crate::{Layer, LayerIndex, MachineIndex, Stack, StackError};

/// Option of file systems that names the kernel of their machine.
pub(crate) const KERNEL_OPTION: &str = "kernel";

impl Layer {
    /// The kernel of the user's that the layer says its machine boots, by the name under which it was added to the lab.
    pub fn added_kernel(&self) -> Option<&str> {
        self.file_system().and_then(|_| self.option(KERNEL_OPTION))
    }
}

impl Stack {
    /// The kernel of the user's that machines of the stack boot, if any does.
    pub fn added_kernel(&self) -> Option<&str> {
        self.naming_a_kernel().next().map(|(_, kernel)| kernel)
    }

    /// Whether a machine of the stack boots [that kernel](Self::added_kernel).
    pub fn boots_added_kernel(&self, machine: MachineIndex) -> bool {
        self.naming_a_kernel().any(|(layer, _)| self.machine_of(layer) == machine)
    }

    fn naming_a_kernel(&self) -> impl Iterator<Item = (LayerIndex, &str)> {
        self.indexed_all().filter_map(|(index, layer)| Some((index, layer.added_kernel()?)))
    }

    /// Why no lab image has what the machines boot.
    pub(crate) fn why_not_with_its_kernel(&self) -> Option<StackError> {
        let (first, kernel) = self.naming_a_kernel().next()?;
        let refused =
            |at, message, help: &str| Some(StackError::at_option(self, at, KERNEL_OPTION, message, help));
        if let Some((other, another)) = self.naming_a_kernel().find(|(_, another)| *another != kernel) {
            let message = format!(
                "a stack has one kernel besides the lab image's, and this one has `{kernel}` and `{another}`"
            );
            return refused(other, message, "name one of them, and leave the other out");
        }
        if self.lab_pack().is_some() {
            let message = "a kernel of your own is added to the plain lab image, and this stack needs a pack"
                .to_owned();
            return refused(first, message, "omit `kernel`, or use kvm or tcg and an image without a source");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Option<String>, Vec<bool>) {
        let stack = Stack::parse(text).unwrap();
        stack.require_buildable().unwrap();
        let boots = stack.machines().indexed().map(|(index, _)| stack.boots_added_kernel(index)).collect();
        (stack.added_kernel().map(str::to_owned), boots)
    }

    fn refused(text: &str) -> String {
        Stack::parse(text).unwrap().require_buildable().unwrap_err().to_string()
    }

    #[test]
    fn the_machine_that_has_the_file_system_boots_the_kernel() {
        let next = || Some("next".to_owned());
        assert_eq!(of("ext4/hdd"), (None, vec![false]));
        assert_eq!(of("ext4:kernel=next/hdd"), (next(), vec![true]));
        assert_eq!(of("ext4:kernel=next/kvm/raw/xfs/hdd"), (next(), vec![false, true]));
        assert_eq!(of("ext4/kvm/raw/xfs:kernel=next/hdd"), (next(), vec![true, false]));
        assert_eq!(of("ext4:kernel=next/kvm/raw/xfs:kernel=next/hdd"), (next(), vec![true, true]));
        assert_eq!(of("nfs/link/xfs:kernel=next/hdd"), (next(), vec![true, false]));
    }

    #[test]
    fn two_kernels_or_a_pack_are_refused() {
        insta::assert_snapshot!(refused("ext4:kernel=a/kvm/raw/xfs:kernel=b/hdd"), @r"
        a stack cannot be used
          ext4:kernel=a/kvm/raw/xfs:kernel=b/hdd
                                           ^ a stack has one kernel besides the lab image's, and this one has `a` and `b`
          name one of them, and leave the other out
        ");
        insta::assert_snapshot!(refused("ext4:kernel=a/xen/raw/xfs/hdd"), @r"
        a stack cannot be used
          ext4:kernel=a/xen/raw/xfs/hdd
                      ^ a kernel of your own is added to the plain lab image, and this stack needs a pack
          omit `kernel`, or use kvm or tcg and an image without a source
        ");
    }
}
