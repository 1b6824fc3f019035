//! Whether the files of a set are still those that were prepared. A name says nothing: between preparing and running the user
//! may put files of his own under the same names, which a workload would overwrite.
//!
//! The device number is no part of it, for the file system may be unmounted and mounted in between, and btrfs has another
//! number at each mount. What a file has on all disk file systems is an inode number and a time of change that only the kernel
//! sets: whatever is written, moved or unpacked there later has a later one. With times of change in whole seconds (ReiserFS,
//! ext2 and ext3 with inodes of 128 bytes), or of the kernel's last clock tick (before Linux 6.13), a file of the same length
//! that is overwritten within that time of the end of the preparation is not noticed; a replaced one has another inode number,
//! unless the file system gave it the number of the removed one. Where there are times of birth they are looked at too.
//! Directories have neither length nor time of change here: they change when another set is made in them, and what is
//! put into them is seen by itself.
//!
//! Inode numbers that do not outlast a mount (vfat, exfat, some of FUSE) make the files others after a remount, and are refused.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::names::digest_of;

/// Which files and directories a set has: the same only while all of them are the same and none has been added or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seal {
    entries: u64,
    /// A sum, for directories need not be listed in the same order each time.
    digest: u64,
}

impl Seal {
    pub(super) fn add_directory(&mut self, path: &[u8], found: &Statx) {
        self.add(path, found, None);
    }

    pub(super) fn add_file(&mut self, path: &[u8], found: &Statx) {
        let changed = found.stx_ctime;
        self.add(path, found, Some([found.stx_size, changed.tv_sec as u64, changed.tv_nsec.into()]));
    }

    /// The path is relative to the set's directory, which may be mounted elsewhere.
    fn add(&mut self, path: &[u8], found: &Statx, of_file: Option<[u64; 3]>) {
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let birth = has_birth.then_some([found.stx_btime.tv_sec as u64, found.stx_btime.tv_nsec.into()]);
        let path = path.iter().copied().map(u64::from);
        // What comes first says what follows.
        let kind = u64::from(of_file.is_some()) << 1 | u64::from(has_birth);
        let numbers = [kind, found.stx_ino].into_iter().chain(birth.into_iter().flatten());
        self.digest =
            self.digest.wrapping_add(digest_of(numbers.chain(of_file.into_iter().flatten()).chain(path)));
        self.entries += 1;
    }
}

/// What a seal needs to know, from the server where there is one.
pub(super) fn look(at: impl AsFd, name: impl rustix::path::Arg, flags: AtFlags) -> Result<Statx, Errno> {
    statx(at, name, flags | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}
