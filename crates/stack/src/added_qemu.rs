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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    fn refused(text: &str) -> String {
        let refused = |stack: Stack| stack.require_buildable().unwrap_err();
        Stack::parse(text).map_or_else(|e| e.to_string(), |stack| refused(stack).to_string())
    }

    #[test]
    fn a_virtual_machine_names_its_qemu() {
        let of = |text: &str| {
            let stack = Stack::parse(text).unwrap();
            stack.require_buildable().unwrap();
            stack.added_qemu().map(str::to_owned)
        };
        assert_eq!(of("ext4/kvm/hdd"), None);
        for text in [
            "ext4/kvm:qemu=next/hdd",
            "ext4/tcg:qemu=next/raw/xfs/hdd",
            "ext4/kvm/raw/xfs/kvm:qemu=next/hdd",
            "ext4/kvm:qemu=next/raw/xfs/kvm:qemu=next/hdd",
            "ext4/kvm:qemu=next/nbd/link/raw/xfs/hdd",
        ] {
            assert_eq!(of(text).as_deref(), Some("next"), "{text}");
        }
    }

    #[test]
    fn what_would_not_run_in_it_is_refused() {
        insta::assert_snapshot!(refused("ext4/kvm:qemu=a/raw/xfs/kvm:qemu=b/hdd"), @r"
        a stack cannot be used
          ext4/kvm:qemu=a/raw/xfs/kvm:qemu=b/hdd
                                           ^ a stack has one QEMU besides the lab image's, and this one has `a` and `b`
          name one of them, and leave the other out
        ");
        insta::assert_snapshot!(refused("ext4:kernel=a/kvm:qemu=b/hdd"), @r"
        a stack cannot be used
          ext4:kernel=a/kvm:qemu=b/hdd
                                 ^ a stack has a QEMU or a kernel of your own, and this one has both
          omit `qemu` or `kernel`: what changed would else not be known
        ");
        insta::assert_snapshot!(refused("ext4/kvm:qemu=a:by=libvirt/raw/xfs/hdd"), @r"
        a stack has layers or options that exclude each other
          ext4/kvm:qemu=a:by=libvirt/raw/xfs/hdd
                   ^^^^^^ only Nestor itself runs its machines with a QEMU of your own
          omit qemu, or omit by
        ");
        insta::assert_snapshot!(refused("ext4/kvm:qemu=a/copy:scp/ext4/hdd//link/raw/ext4/hdd"), @r"
        a stack cannot be used
          ext4/kvm:qemu=a/copy:scp/ext4/hdd//link/raw/ext4/hdd
                        ^ a QEMU of your own is added to the plain lab image, and this stack needs a pack
          omit `qemu`, or use an image without a source and Nestor's own machines
        ");
        insta::assert_snapshot!(refused("ext4:qemu=a/hdd"), @r"
        a layer has an option that does not exist
          ext4:qemu=a/hdd
               ^^^^ ext4 has no option `qemu`
          the options of ext4 are journal, block, inode-ratio, mount, kernel
        ");
        insta::assert_snapshot!(refused("ext4/kvm:qemu=a b/hdd"), @r"
        an option has an invalid value
          ext4/kvm:qemu=a b/hdd
                        ^^^ qemu cannot be `a b`
          qemu takes a name of letters, digits, `.`, `_` and `-`, under which `nestor lab qemu NAME FILE` has added a file; `/` begins the next layer
        ");
        insta::assert_snapshot!(refused("ext4/kvm:qemu=/usr/bin/qemu-system-x86_64/raw/xfs/hdd"), @r"
        an option has no value
          ext4/kvm:qemu=/usr/bin/qemu-system-x86_64/raw/xfs/hdd
                   ^^^^^ qemu needs a value
          qemu takes a name of letters, digits, `.`, `_` and `-`, under which `nestor lab qemu NAME FILE` has added a file; `/` begins the next layer
        ");
    }

    #[test]
    fn other_machines_have_no_qemu_of_the_users() {
        let on = |stack: &str, place: &str| {
            let place: Place = place.parse().unwrap();
            Stack::parse(stack).unwrap().require_place(&place).map_err(|e| e.to_string())
        };
        assert_eq!(on("ext4/kvm:qemu=a/hdd", "emulated"), Ok(()));
        assert_eq!(on("ext4/kvm:qemu=a/file:/srv/disk.img", "this"), Ok(()));
        insta::assert_snapshot!(on("ext4/kvm:qemu=a/file:/srv/disk.img", "ssh:host").unwrap_err(), @r"
        a stack cannot be used
          ext4/kvm:qemu=a/file:/srv/disk.img
                        ^ a QEMU of your own is on this machine and in the lab, and this is `--on ssh:host`
          use `--on emulated` or `--on this`, or omit `qemu`
        ");
    }
}
