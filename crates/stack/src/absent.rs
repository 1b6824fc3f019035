//! Well-known file systems and formats that are no layer: what is said of them instead of a name that merely looks like theirs.

/// Why there is no such layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// A file system that Linux 6.1 of Debian 12, which the lab's machines run, does not have.
    NotInKernel,
    /// A file system that nobody has written a layer for.
    FileSystem,
    /// A format of disk images that nobody has written a layer for.
    ImageFormat,
}

/// Out of the kernel's tree, or in it only since a later version (bcachefs: 6.7).
const NOT_IN_KERNEL: [&str; 9] =
    ["apfs", "bcachefs", "gpfs", "hammer2", "lustre", "refs", "reiser4", "vmfs", "zfs"];

const FILE_SYSTEMS: [&str; 20] = [
    "9p",
    "ceph",
    "cephfs",
    "cifs",
    "erofs",
    "exfat",
    "fat",
    "fat32",
    "gfs2",
    "glusterfs",
    "hfs",
    "hfsplus",
    "minix",
    "ocfs2",
    "smb",
    "squashfs",
    "tmpfs",
    "udf",
    "ufs",
    "vfat",
];

const IMAGE_FORMATS: [&str; 7] = ["bochs", "cloop", "dmg", "luks", "parallels", "qcow", "vhd"];

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
    is_in(&IMAGE_FORMATS).then_some(Absent::ImageFormat)
}

impl Absent {
    /// What is wrong with a layer of this name.
    pub(crate) fn message(self, name: &str) -> String {
        match self {
            Self::NotInKernel => format!("the lab's kernel does not have the file system `{name}`"),
            Self::FileSystem => format!("Nestor has no layer for the file system `{name}`"),
            Self::ImageFormat => format!("Nestor has no layer for the image format `{name}`"),
        }
    }

    /// The layers of that kind that there are.
    pub(crate) fn instead(self) -> String {
        let (kind, of_kind): (&str, fn(&crate::LayerSpec) -> bool) = match self {
            Self::NotInKernel | Self::FileSystem => ("file systems", |layer| layer.file_system().is_some()),
            Self::ImageFormat => {
                ("image formats", |layer| matches!(layer.definition, crate::LayerDefinition::ImageFormat(_)))
            }
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
        for name in NOT_IN_KERNEL.iter().chain(&FILE_SYSTEMS).chain(&IMAGE_FORMATS) {
            assert!(crate::registry().iter().all(|layer| layer.name != *name), "{name}");
            assert!(absent(name).is_some(), "{name}");
        }
        assert_eq!((absent("ext4"), absent("kmv")), (None, None));
    }
}
