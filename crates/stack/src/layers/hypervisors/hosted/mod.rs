//! Hosted hypervisors (of type 2): programs that the user of a machine has installed there, and that machines of the lab have in a pack or not at
//! all. One file each.

mod options;
pub(in crate::layers) mod vbox;
pub(in crate::layers) mod vmware;

use super::CacheMode;
use super::devices::QueueDepth;
use crate::{LabPack, Layer, LayerDefinition};

/// What there is to know of a program that runs virtual machines on the user's machine.
#[derive(Debug)]
pub struct HostedSpec {
    /// What its maker calls it.
    pub product: &'static str,
    /// How its user gets it.
    pub source: &'static str,
    /// What machines of the lab have it by; `None` if none of them can have it.
    pub lab_pack: Option<LabPack>,
    /// The layers of images that it opens.
    pub formats: &'static [&'static str],
    /// How it opens disks, where its layer has no option for that.
    pub cache: CacheMode,
    /// The controllers that it emulates and that have a driver in the lab image, the default first.
    pub controllers: &'static [HostedController],
    /// What emulated processors on which it runs guests have to lack.
    pub unsuited: UnsuitedFeatures,
}

/// Features of emulated processors on which a program does not run guests, as QEMU names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsuitedFeatures {
    /// In any case.
    pub always: &'static [&'static str],
    /// Where QEMU does not get nested page tables right, so that guests need shadow page tables.
    pub where_shadowed: &'static [&'static str],
}

impl UnsuitedFeatures {
    /// None.
    pub const NONE: Self = Self { always: &[], where_shadowed: &[] };
}

/// A disk controller of such a program.
#[derive(Debug)]
pub struct HostedController {
    /// Name in the option `disk`.
    pub name: &'static str,
    /// What the program calls the bus.
    pub bus: &'static str,
    /// What it calls the model; empty if the bus has one only.
    pub model: &'static str,
    /// Modules that the guest's kernel needs, in the order in which to load them.
    pub kernel_modules: &'static [&'static str],
    /// How many requests it holds.
    pub queue: QueueDepth,
    /// Whether the program can be told to ignore the guest's flushes of its disks, and would by itself.
    pub may_ignore_flushes: bool,
}

/// The disk of a layer on such a controller.
#[derive(Clone, Copy, Debug)]
pub struct HostedDisk {
    /// The controller.
    pub controller: &'static HostedController,
    /// How the program opens it.
    pub cache: CacheMode,
}

impl HostedDisk {
    pub(super) fn of(layer: &Layer) -> Option<Self> {
        let name = layer.option(options::DISK)?;
        let hosted = layer.spec.hosted()?;
        let controller = hosted.controllers.iter().find(|one| one.name == name)?;
        let cache = layer.option(options::CACHE).map_or(Some(hosted.cache), CacheMode::from_name)?;
        Some(Self { controller, cache })
    }
}

impl crate::LayerSpec {
    /// The program of the user's that runs its machine; `None` for other layers.
    pub fn hosted(&self) -> Option<&'static HostedSpec> {
        match &self.definition {
            LayerDefinition::Hypervisor(spec) => spec.hosted,
            _ => None,
        }
    }
}

impl crate::Stack {
    /// What emulated processors that run its guests have to lack.
    pub fn unsuited_features(&self) -> UnsuitedFeatures {
        let hosted = self.layers().iter().find_map(|layer| layer.spec.hosted());
        hosted.map_or(UnsuitedFeatures::NONE, |hosted| hosted.unsuited)
    }
}

#[cfg(test)]
mod tests {
    use super::super::GuestDisk;
    use super::UnsuitedFeatures;
    use crate::{HypervisorKind, Place, Stack, registry};

    fn refused(stack: &str) -> String {
        Stack::parse(stack).unwrap_err().to_string()
    }

    #[test]
    fn every_controller_and_format_is_understood() {
        for layer in registry().iter().filter(|layer| layer.hosted().is_some()) {
            let hosted = layer.hosted().unwrap();
            for controller in hosted.controllers {
                let stack = format!("ext4/{}:disk={}/file:/disk", layer.name, controller.name);
                let stack = Stack::parse(&stack).unwrap();
                let options = stack.layers()[1].hypervisor().unwrap();
                let GuestDisk::Hosted(disk) = options.disk else { panic!("{}", layer.name) };
                assert_eq!(disk.controller.name, controller.name);
                assert_ne!(options.kind, HypervisorKind::Qemu);
            }
            for format in hosted.formats {
                Stack::parse(&format!("ext4/{}/{format}/ext4/file:/disk", layer.name)).unwrap();
            }
            let said = refused(&format!("ext4/{}/qcow2/ext4/file:/disk", layer.name));
            assert!(said.contains("does not open images of the format qcow2"), "{said}");
        }
    }

    #[test]
    fn a_stack_says_what_processors_of_its_host_have_to_lack() {
        let unsuited = |stack: &str| Stack::parse(stack).unwrap().unsuited_features();
        let of_virtualbox = unsuited("ext4/vbox/vdi/ext4/hdd");
        assert_eq!((of_virtualbox.always, of_virtualbox.where_shadowed), (&["la57"][..], &["npt"][..]));
        for other in ["ext4/kvm/vdi/ext4/hdd", "ext4/vmware/hdd", "ext4/hdd"] {
            assert_eq!(unsuited(other), UnsuitedFeatures::NONE, "{other}");
        }
    }

    #[test]
    fn flushes_are_ignored_only_where_the_program_can() {
        Stack::parse("ext4/vbox:disk=ide:cache=unsafe/vdi/ext4/file:/disk").unwrap();
        let said = refused("ext4/vbox:disk=lsi:cache=unsafe/vdi/ext4/file:/disk");
        assert!(said.contains("VirtualBox passes flushes on to a disk of the controller lsi"), "{said}");
    }

    #[test]
    fn what_only_the_users_machine_has_is_refused_elsewhere() {
        let emulated = "emulated".parse::<Place>().unwrap();
        let said = Stack::parse("ext4/vmware/hdd").unwrap().require_place(&emulated).unwrap_err().to_string();
        assert!(said.contains("no machine of the lab has VMware"), "{said}");
        assert!(said.contains("use `--on this` on a machine that has it"), "{said}");
        let vbox = Stack::parse("ext4/vbox/vdi/ext4/hdd").unwrap();
        for place in ["emulated:time=real", "emulated:time=virtual"] {
            vbox.require_place(&place.parse::<Place>().unwrap()).unwrap();
        }
        let this = Stack::parse("ext4/vbox/vdi/ext4/file:/disk").unwrap();
        this.require_place(&Place::This).unwrap();
        this.require_place(&"ssh:host".parse().unwrap()).unwrap();
        this.require_place(&"ssh:a,ssh:b".parse().unwrap()).unwrap_err();
        let nested = Stack::parse("ext4/vbox/raw/ext4/kvm/file:/disk").unwrap();
        let said = nested.require_place(&Place::This).unwrap_err().to_string();
        assert!(said.contains("none of those has VirtualBox"), "{said}");
        let nested = Stack::parse("ext4/vbox/raw/ext4/kvm/hdd").unwrap();
        let real = "emulated:time=real".parse::<Place>().unwrap();
        let said = nested.require_place(&real).unwrap_err().to_string();
        assert!(said.contains("leave out the virtual machine or link below it"), "{said}");
    }

    #[test]
    fn a_machine_of_the_users_program_is_not_joined_to_a_network() {
        let said = refused("nfs/vbox/link/ext4/file:/disk");
        assert!(said.contains("which Nestor does only for machines that it runs itself"), "{said}");
    }
}
