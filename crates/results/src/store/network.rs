//! Whether a results file is on a file system that several machines share.
//!
//! Readers and writers of a write-ahead log know of one another by memory that they share, which two machines cannot
//! (<https://www.sqlite.org/wal.html>, "all processes using a database must be on the same host computer").

use std::path::Path;

/// File systems that other machines may write to at the same time, by what `statfs` calls them. From the kernel's
/// `include/uapi/linux/magic.h` unless it says otherwise.
const SHARED: [(u32, &str); 17] = [
    (0x6969, "NFS_SUPER_MAGIC"),
    (0x517b, "SMB_SUPER_MAGIC"),
    (0xff53_4d42, "CIFS_SUPER_MAGIC"),
    (0xfe53_4d42, "SMB2_SUPER_MAGIC"),
    (0x0102_1997, "V9FS_MAGIC"),
    // sshfs, glusterfs, s3fs and virtiofs, but local ones too: the kernel does not say which it is.
    (0x6573_5546, "FUSE_SUPER_MAGIC"),
    (0x00c3_6400, "CEPH_SUPER_MAGIC"),
    (0x5346_414f, "AFS_SUPER_MAGIC"),
    (0x6b41_4653, "AFS_FS_MAGIC"),
    (0x7375_7245, "CODA_SUPER_MAGIC"),
    (0x564c, "NCP_SUPER_MAGIC"),
    (0x7461_636f, "OCFS2_SUPER_MAGIC"),
    (0x786f_4256, "VBOXSF_SUPER_MAGIC"),
    // fs/gfs2/incore.h and the sources of Lustre, IBM's GPFS and BeeGFS, which are not in the kernel.
    (0x0116_1970, "GFS2_MAGIC"),
    (0x0bd0_0bd0, "LUSTRE_SUPER_MAGIC"),
    (0x4750_4653, "GPFS_SUPER_MAGIC"),
    (0x1983_0326, "BEEGFS_MAGIC"),
];

/// The kernel's name of a file system that several machines may share; `None` of one that is local.
pub(super) fn shared_by_machines(magic: u32) -> Option<&'static str> {
    SHARED.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// The same for the file system that holds a file, or will hold it. One that cannot be examined is taken for local;
/// opening the file then reports why.
///
/// The file is not opened for it: this process's locks of a file end when any of its descriptors of that file is closed (`fcntl(2)`),
/// those of SQLite's connections included.
pub(super) fn file_system_of(path: &Path) -> Option<&'static str> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file itself may be a link to elsewhere.
    let magic = rustix::fs::statfs(path).or_else(|_| rustix::fs::statfs(folder)).ok()?.f_type;
    // 32 bits, which some architectures extend by their sign.
    shared_by_machines(magic as u32)
}

/// Whether a database's header says that it has a write-ahead log (<https://www.sqlite.org/fileformat.html>, offset 18). To be asked of
/// files on shared file systems only, of which a connection has no lock between transactions: see [`file_system_of`].
pub(super) fn has_write_ahead_log(path: &Path) -> bool {
    use std::os::unix::fs::FileExt as _;
    let mut versions = [0; 2];
    std::fs::File::open(path).and_then(|file| file.read_exact_at(&mut versions, 18)).is_ok()
        && versions == [2, 2]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::super::{Store, StoreError};
    use super::*;
    use crate::RunFilter;
    use crate::tests::fixture::{MIB, record};

    fn beside(path: &Path, ending: &str) -> bool {
        Path::new(&format!("{}{ending}", path.display())).exists()
    }

    /// Whether this process has a lock on a file (`proc_locks(5)`: the fifth field is the process, the sixth the device and the inode).
    fn is_locked_here(path: &Path) -> bool {
        let process = std::process::id().to_string();
        let inode = std::fs::metadata(path).unwrap().ino().to_string();
        std::fs::read_to_string("/proc/locks").unwrap().lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(4) == Some(&process.as_str())
                && fields.get(5).and_then(|place| place.rsplit(':').next()) == Some(inode.as_str())
        })
    }

    /// Without its lock another process takes itself for the last one that uses the file, and removes the log under this one's feet.
    #[test]
    fn a_file_that_is_opened_again_and_closed_stays_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.sqlite");
        let mut store = Store::open(&path).unwrap();
        store.insert(&record("ext3/kvm/hdd", 0, MIB)).unwrap();
        assert!(is_locked_here(&path));
        drop(Store::open_read_only(&path).unwrap());
        assert!(is_locked_here(&path), "by another reader");
        drop(Store::open(&path).unwrap());
        assert!(is_locked_here(&path), "by another writer");
        store.insert(&record("ext3/kvm/hdd", 1, MIB)).unwrap();
    }

    #[test]
    fn a_file_on_a_network_has_no_write_ahead_log_and_several_may_use_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.sqlite");
        let mut store = Store::open_now(&path, Some("NFS_SUPER_MAGIC")).unwrap();
        store.insert(&record("ext3/kvm/hdd", 0, MIB)).unwrap();
        assert!(!has_write_ahead_log(&path) && !beside(&path, "-wal") && !beside(&path, "-shm"));
        let reader = Store::open_read_only_on(&path, Some("NFS_SUPER_MAGIC")).unwrap();
        let mut other = Store::open_now(&path, Some("NFS_SUPER_MAGIC")).unwrap();
        other.insert(&record("ext3/kvm/hdd", 1, MIB)).unwrap();
        assert_eq!(reader.numbers(&RunFilter::default()).unwrap(), [1, 2]);
        assert_eq!(store.insert(&record("ext3/kvm/hdd", 2, MIB)).unwrap(), 3);
    }

    #[test]
    fn a_write_ahead_log_on_a_network_is_refused_to_be_read_and_given_up_by_who_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.sqlite");
        Store::open(&path).unwrap().insert(&record("ext3/kvm/hdd", 0, MIB)).unwrap();
        assert!(has_write_ahead_log(&path));
        let refused = Store::open_read_only_on(&path, Some("SMB2_SUPER_MAGIC")).unwrap_err();
        assert!(matches!(refused, StoreError::LogOnNetwork { file_system: "SMB2_SUPER_MAGIC", .. }));
        assert!(refused.to_string().contains("copy the file"), "{refused}");
        drop(Store::open_now(&path, Some("SMB2_SUPER_MAGIC")).unwrap());
        assert!(!has_write_ahead_log(&path) && !beside(&path, "-wal"));
        let store = Store::open_read_only_on(&path, Some("SMB2_SUPER_MAGIC")).unwrap();
        assert_eq!(store.numbers(&RunFilter::default()).unwrap(), [1]);
    }

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        for (magic, name) in
            [(0x6969, "NFS_SUPER_MAGIC"), (0xff53_4d42, "CIFS_SUPER_MAGIC"), (0x0102_1997, "V9FS_MAGIC")]
        {
            assert_eq!(shared_by_machines(magic), Some(name));
        }
        // ext4, xfs, btrfs, tmpfs, overlayfs.
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(shared_by_machines(magic), None, "{magic:#x}");
        }
    }

    #[test]
    fn a_file_is_asked_for_where_it_really_lies() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(file_system_of(&folder.path().join("results.sqlite")), None);
        assert_eq!(file_system_of(Path::new("/nowhere/at/all")), None);
        assert_eq!(file_system_of(Path::new("results.sqlite")), None);
    }
}
