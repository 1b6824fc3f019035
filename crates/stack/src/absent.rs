//! Well-known file systems, formats and block layers that are no layer here, and other names of layers: what is said of them instead of a
//! name that merely looks like theirs.

/// Why there is no such layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// A file system that Linux 6.1 of Debian 12, which the lab's machines run, does not have.
    NotInKernel,
    /// A file system that nobody has written a layer for.
    FileSystem,
    /// A format of disk images that nobody has written a layer for.
    ImageFormat,
    /// Something between a file system and disks.
    Beside(&'static Beside),
}

/// Something well known between a file system and disks, and what of the lab is nearest to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    names: &'static [&'static str],
    /// In words.
    what: &'static str,
    nearest: &'static str,
}

const BESIDE: [Beside; 8] = [
    Beside {
        names: &["lvm", "lvm2", "lvm-thin", "lv", "dm-thin", "dm-linear"],
        what: "logical volumes of LVM",
        nearest: "nearest is part, a partition, which moves requests as a linear volume does: ext4/part/hdd",
    },
    Beside {
        names: &["dm-crypt", "dmcrypt", "luks", "luks2", "cryptsetup"],
        what: "encryption",
        nearest: "nothing in the lab encrypts; the same stack without it shows what is left of the time",
    },
    Beside {
        names: &["mdadm", "md", "raid", "raid1", "raid4", "raid6", "raid10", "mirror", "raidz"],
        what: "this array of disks",
        nearest: "the arrays that there are: raid0 (no disk may fail) and raid5 (one may)",
    },
    Beside {
        names: &["rbd", "ceph"],
        what: "block devices of Ceph",
        nearest: "nearest is nbd, a disk of one server: ext4/nbd/link/hdd",
    },
    Beside {
        names: &["glusterfs", "gluster", "cephfs"],
        what: "file systems that several servers hold together",
        nearest: "nearest is nfs, the file system of one server: nfs/link/ext4/hdd",
    },
    Beside {
        names: &["drbd"],
        what: "disks that two servers mirror",
        nearest: "nearest is nbd, a disk of one server without a copy: ext4/nbd/link/hdd",
    },
    Beside {
        names: &["overlayfs", "aufs", "unionfs"],
        what: "union mounts of directories",
        nearest: "what is written on top of an image that stays as it is has the layer overlay: nestor stack overlay",
    },
    Beside {
        names: &["iscsi", "iser", "nvmeof", "nvme-of", "nvme-tcp", "fcoe", "aoe"],
        what: "this protocol of network disks",
        nearest: "nearest is nbd: ext4/nbd/link/hdd",
    },
];

/// Another name of a layer: what is said, and the layer.
pub(crate) type OtherName = (&'static str, &'static str);

const OTHER_NAMES: [(&str, OtherName); 6] = [
    ("virtualbox", ("VirtualBox is vbox", "vbox")),
    ("vmware-workstation", ("VMware Workstation is vmware", "vmware")),
    ("vmware-player", ("VMware Workstation is vmware", "vmware")),
    ("workstation", ("VMware Workstation is vmware", "vmware")),
    ("qemu", ("QEMU with KVM is kvm, and without it tcg", "kvm")),
    ("qemu-kvm", ("QEMU with KVM is kvm", "kvm")),
];

/// The layer that has another name.
pub(crate) fn other_name(name: &str) -> Option<OtherName> {
    let name = name.to_ascii_lowercase();
    OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, layer)| *layer)
}

/// Out of the kernel's tree, or in it only since a later version (bcachefs: 6.7).
const NOT_IN_KERNEL: [&str; 9] =
    ["apfs", "bcachefs", "gpfs", "hammer2", "lustre", "refs", "reiser4", "vmfs", "zfs"];

const FILE_SYSTEMS: [&str; 17] = [
    "9p", "cifs", "erofs", "exfat", "fat", "fat32", "gfs2", "hfs", "hfsplus", "minix", "ocfs2", "smb",
    "squashfs", "tmpfs", "udf", "ufs", "vfat",
];

const IMAGE_FORMATS: [&str; 6] = ["bochs", "cloop", "dmg", "parallels", "qcow", "vhd"];

/// Whether a name that no layer has is that of something well known.
pub(crate) fn absent(name: &str) -> Option<Absent> {
    let name = name.to_ascii_lowercase();
    let is_in = |names: &[&str]| names.contains(&name.as_str());
    if is_in(&NOT_IN_KERNEL) {
        return Some(Absent::NotInKernel);
    }
    if is_in(&FILE_SYSTEMS) {
        return Some(Absent::FileSystem);
    }
    if is_in(&IMAGE_FORMATS) {
        return Some(Absent::ImageFormat);
    }
    BESIDE.iter().find(|beside| is_in(beside.names)).map(Absent::Beside)
}

impl Absent {
    /// What is wrong with a layer of this name.
    pub(crate) fn message(self, name: &str) -> String {
        match self {
            Self::NotInKernel => format!("the lab's kernel does not have the file system `{name}`"),
            Self::FileSystem => format!("Nestor has no layer for the file system `{name}`"),
            Self::ImageFormat => format!("Nestor has no layer for the image format `{name}`"),
            Self::Beside(beside) => format!("Nestor has no layer for {}", beside.what),
        }
    }

    /// The layers of that kind that there are, or what is nearest.
    pub(crate) fn instead(self) -> String {
        let (kind, of_kind): (&str, fn(&crate::LayerSpec) -> bool) = match self {
            Self::NotInKernel | Self::FileSystem => ("file systems", |layer| layer.file_system().is_some()),
            Self::ImageFormat => {
                ("image formats", |layer| matches!(layer.definition, crate::LayerDefinition::ImageFormat(_)))
            }
            Self::Beside(beside) => return beside.nearest.to_owned(),
        };
        let names = crate::registry().iter().filter(|layer| of_kind(layer)).map(|layer| layer.name);
        format!("the {kind} that there are: {}", names.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_be_absent_is_no_layer() {
        let beside = BESIDE.iter().flat_map(|beside| beside.names);
        for name in NOT_IN_KERNEL.iter().chain(&FILE_SYSTEMS).chain(&IMAGE_FORMATS).chain(beside) {
            assert!(crate::registry().iter().all(|layer| layer.name != *name), "{name}");
            assert!(absent(name).is_some(), "{name}");
        }
        assert_eq!((absent("ext4"), absent("kmv")), (None, None));
    }

    fn help(stack: &str) -> String {
        crate::Stack::parse(stack).unwrap_err().help().unwrap_or_default().to_owned()
    }

    #[test]
    fn what_is_between_file_system_and_disk_is_said_with_what_is_nearest() {
        for beside in &BESIDE {
            for name in beside.names {
                assert_eq!(help(&format!("ext4/{name}/hdd")), beside.nearest, "{name}");
            }
            let example = beside.nearest.rsplit_once(": ").map(|(_, stack)| stack);
            if let Some(example) =
                example.filter(|stack| stack.starts_with(['e', 'n']) && stack.contains("/"))
            {
                assert!(crate::Stack::parse(example).is_ok(), "{example}");
            }
        }
        assert!(!help("ext4/raid1").contains("did you mean"), "no other array is as safe");
    }

    #[test]
    fn another_name_of_a_layer_leads_to_it() {
        for (name, (_, layer)) in OTHER_NAMES {
            assert!(crate::Layer::parse(layer).is_ok() && crate::Layer::parse(name).is_err(), "{name}");
        }
        assert_eq!(help("ext4/virtualbox/hdd"), "VirtualBox is vbox: ext4/vbox/hdd");
        assert!(help("ext4/qemu/raw/xfs/hdd").ends_with("without it tcg: ext4/kvm/raw/xfs/hdd"));
        assert_eq!(help("ext4/nvm"), "did you mean nvme? ext4/nvme");
    }
}
