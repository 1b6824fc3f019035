//! Who runs the virtual machine of a layer: Nestor itself, or another program that runs machines for it.

use crate::{Conflict, HypervisorKind, LabPack, Layer, ManagerKind, OptionKind, OptionSpec};

use super::QemuDisk;

/// Who runs the virtual machine.
pub(super) const BY: OptionSpec = OptionSpec {
    name: "by",
    summary: "who defines and runs the virtual machine: Nestor, a libvirt that is there, or a manager of a cloud (with --on)",
    kind: OptionKind::Choice(&[
        RunBy::Nestor.name(),
        RunBy::Libvirt.name(),
        ManagerKind::Ec2.name(),
        ManagerKind::OpenNebula.name(),
    ]),
    default: Some(RunBy::Nestor.name()),
};

/// Who defines a virtual machine, starts and ends it, and gives it its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunBy {
    /// Nestor, which starts the hypervisor's program.
    Nestor,
    /// libvirt, which starts the same program, or asks Xen for the same domain.
    Libvirt,
    /// A manager of a cloud, which starts an instance on whichever of its nodes it likes.
    Manager(ManagerKind),
}

impl RunBy {
    /// All of them, the default first.
    pub const ALL: [Self; 4] = [
        Self::Nestor,
        Self::Libvirt,
        Self::Manager(ManagerKind::Ec2),
        Self::Manager(ManagerKind::OpenNebula),
    ];

    /// Its name in the option `by`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nestor => "nestor",
            Self::Libvirt => "libvirt",
            Self::Manager(kind) => kind.name(),
        }
    }

    /// Who runs the machine of a layer; `None` for a layer without a choice.
    pub(crate) fn of(layer: &Layer) -> Option<Self> {
        let name = layer.option(BY.name)?;
        Self::ALL.into_iter().find(|by| by.name() == name)
    }

    /// What runs a machine of which Nestor itself would run `own`. One of a manager's is what the user says it is.
    pub(super) const fn kind(self, own: HypervisorKind) -> HypervisorKind {
        match (self, own) {
            (Self::Nestor | Self::Manager(_), own) => own,
            (Self::Libvirt, HypervisorKind::Xen) => HypervisorKind::XenByLibvirt,
            (Self::Libvirt, _) => HypervisorKind::Libvirt,
        }
    }

    /// What the machine around needs for it besides what every lab image has. The pack of Xen has what it needs there.
    pub const fn lab_pack(self) -> Option<LabPack> {
        match self {
            Self::Nestor | Self::Manager(_) => None,
            Self::Libvirt => Some(LabPack::Libvirt),
        }
    }

    /// Debian packages of the machine around that it needs besides those of the layer.
    pub const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Nestor | Self::Manager(_) => &[],
            Self::Libvirt => &["libvirt-clients", "libvirt-daemon"],
        }
    }
}

/// Debian packages of the machine around that libvirt needs for Xen besides.
pub const LIBVIRT_FOR_XEN: &[&str] = &["libvirt-daemon-driver-xen"];

/// Refuses what libvirt has no words for. For the options of Xen's domains, it has.
pub(super) fn check(layer: &Layer, disk: &QemuDisk, below: Option<&Layer>) -> Result<(), Conflict> {
    if RunBy::of(layer) != Some(RunBy::Libvirt) {
        return Ok(());
    }
    let refuse = |option, message, help: &str| Err(Conflict { option, message, help: help.to_owned() });
    if disk.device.libvirt.is_none() {
        let message = format!("libvirt has no words for a disk of the model {}", disk.device.name);
        return refuse(Some("disk"), message, "use another disk, as in disk=virtio-blk, or omit by=libvirt");
    }
    let unknown = |below: &&Layer| below.image_format().is_some_and(|format| !format.libvirt);
    if let Some(image) = below.filter(unknown) {
        let message = format!("libvirt does not open images of the format {}", image.name());
        return refuse(Some(BY.name), message, "use raw or qcow2 below it, or omit by=libvirt");
    }
    Ok(())
}

/// Refuses a machine of libvirt's, or of a program of the user's, that is to be joined to a network.
pub(crate) fn check_without_link(layer: &Layer) -> Result<(), Conflict> {
    if layer.spec.hosted().is_some() {
        return Err(Conflict {
            option: None,
            message: format!(
                "{} is joined to a network here, which Nestor does only for machines that it runs itself",
                layer.name()
            ),
            help: format!("use kvm or tcg, or put nbd or nfs below {}", layer.name()),
        });
    }
    if RunBy::of(layer) != Some(RunBy::Libvirt) {
        return Ok(());
    }
    Err(Conflict {
        option: Some(BY.name),
        message: format!(
            "{} is joined to a network here, which Nestor does only for machines that it runs itself",
            layer.name()
        ),
        help: format!("omit by=libvirt, or put nbd or nfs below {}", layer.name()),
    })
}

#[cfg(test)]
mod tests {
    use crate::{HypervisorKind, LabPack, Stack};

    fn of(stack: &str) -> (HypervisorKind, Option<LabPack>) {
        let stack = Stack::parse(stack).unwrap();
        (stack.layers()[1].hypervisor().unwrap().kind, stack.lab_pack())
    }

    #[test]
    fn libvirt_runs_what_says_so_and_needs_its_pack() {
        assert_eq!(of("ext4/kvm/raw/xfs/hdd"), (HypervisorKind::Qemu, None));
        assert_eq!(of("ext4/kvm:by=nestor/hdd"), (HypervisorKind::Qemu, None));
        for layer in ["kvm", "tcg"] {
            let stack = format!("ext4/{layer}:by=libvirt/raw/xfs/hdd");
            assert_eq!(of(&stack), (HypervisorKind::Libvirt, Some(LabPack::Libvirt)));
        }
        assert_eq!(of("ext4/xen/raw/xfs/hdd"), (HypervisorKind::Xen, Some(LabPack::Xen)));
        // There, libvirt is in the pack of Xen.
        for guest in ["pv", "pvh"] {
            let stack = format!("ext4/xen:guest={guest}:by=libvirt/raw/xfs/hdd");
            assert_eq!(of(&stack), (HypervisorKind::XenByLibvirt, Some(LabPack::Xen)));
        }
    }

    #[test]
    fn the_default_is_left_out() {
        let canonical = |text| Stack::parse(text).unwrap().to_string();
        assert_eq!(canonical("ext4/kvm:by=nestor/hdd"), "ext4/kvm/hdd");
        assert_eq!(canonical("ext4/kvm:by=libvirt:cpus=2/hdd"), "ext4/kvm:cpus=2:by=libvirt/hdd");
    }

    #[test]
    fn what_libvirt_has_no_words_for_is_refused() {
        let cases = [
            ("ext4/kvm:by=libvirt:disk=nvme/hdd", "libvirt has no words for a disk of the model nvme"),
            ("ext4/kvm:by=libvirt/vhdx/xfs/hdd", "libvirt does not open images of the format vhdx"),
            ("nfs/kvm:by=libvirt/link/xfs/hdd", "joined to a network"),
            ("ext4/xen:by=libvirt/qcow2/xfs/hdd", "Xen's block back end reads raw images only"),
            ("ext4/xen:by=vmware/raw/xfs/hdd", "nestor, libvirt, ec2 or opennebula"),
            ("ext4/vbox:by=libvirt/raw/xfs/hdd", "vbox has no option `by`"),
        ];
        for (stack, said) in cases {
            let refused = Stack::parse(stack).unwrap_err().to_string();
            assert!(refused.contains(said) && refused.contains('^'), "{refused}");
        }
    }
}
