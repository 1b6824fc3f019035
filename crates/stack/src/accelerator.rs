//! What executes a machine's instructions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What executes a machine's instructions. Results keep its name as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// `hardware`: the machine's own processors, without a hypervisor. No layer and no machine to boot has it.
    #[default]
    Hardware,
    /// `kvm`: the processors of the machine around it, through `/dev/kvm`. A layer that says so is emulated where a boot shows
    /// that KVM does not work.
    Kvm,
    /// `tcg`: QEMU's emulation.
    Tcg,
    /// `xen`: the processors of the machine that Xen runs on, shared out by Xen.
    Xen,
    /// `virtualbox`: VirtualBox, which has the processors' support for virtual machines where there is one, and else emulates.
    #[serde(rename = "virtualbox")]
    VirtualBox,
    /// `vmware`: VMware, in the same way.
    Vmware,
}

impl Accelerator {
    const ALL: [Self; 6] = [Self::Hardware, Self::Kvm, Self::Tcg, Self::Xen, Self::VirtualBox, Self::Vmware];

    /// As results, stacks and QEMU have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
            Self::Xen => "xen",
            Self::VirtualBox => "virtualbox",
            Self::Vmware => "vmware",
        }
    }

    /// Whether no processor executes them, but a program.
    pub const fn is_emulation(self) -> bool {
        match self {
            Self::Tcg => true,
            Self::Hardware | Self::Kvm | Self::Xen | Self::VirtualBox | Self::Vmware => false,
        }
    }

    /// Whether the processors of the machine around it execute them, with their support for virtual machines.
    pub const fn is_hardware_assisted(self) -> bool {
        match self {
            Self::Kvm => true,
            Self::Hardware | Self::Tcg | Self::Xen | Self::VirtualBox | Self::Vmware => false,
        }
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Accelerator {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|accelerator| accelerator.name() == name).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_are_one_name() {
        for accelerator in Accelerator::ALL {
            assert_eq!(accelerator.to_string().parse(), Ok(accelerator));
            assert_eq!(serde_json::to_value(accelerator).unwrap(), accelerator.name());
        }
        assert_eq!("auto".parse::<Accelerator>(), Err(()));
    }
}
