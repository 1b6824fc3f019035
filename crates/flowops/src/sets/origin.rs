//! Whether a set's directory is still the one that this program made: a name alone says nothing, for directories are replaced,
//! copied and unpacked from archives.

use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, XattrFlags, openat, statx};
use serde::{Deserialize, Serialize};

/// The attribute of a set's directory with the mark that its record has too. A file in the directory would do on every file system,
/// but `listdir` would count it and the shape of the tree would no longer be Filebench's.
const ATTRIBUTE: &str = "user.nestor.set";
/// Bytes of a mark; in hexadecimal it is twice as long.
const MARK_BYTES: usize = 16;

/// Which directory it was, when it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    device: (u32, u32),
    inode: u64,
    /// Seconds and nanoseconds. Inodes are used again, times of birth are not; not all file systems have them.
    birth: Option<(i64, u32)>,
    /// What no archive, and no other machine, can know. `None` where the file system has no attributes of users.
    mark: Option<String>,
}

impl Origin {
    /// Marks a directory. `None` where nothing distinguishes it from another of the same name: neither mark nor birth.
    pub(super) fn mark(path: &Path) -> Option<Self> {
        let directory = open(path)?;
        let mut origin = Self::of(&directory)?;
        let mark = new_mark()?;
        let marked = rustix::fs::fsetxattr(&directory, ATTRIBUTE, mark.as_bytes(), XattrFlags::empty());
        origin.mark = marked.is_ok().then_some(mark);
        (origin.mark.is_some() || origin.birth.is_some()).then_some(origin)
    }

    /// Whether this is that directory.
    pub(super) fn is(&self, path: &Path) -> bool {
        let found = || {
            let directory = open(path)?;
            let mut found = Self::of(&directory)?;
            if self.mark.is_some() {
                found.mark = read_mark(&directory);
            }
            Some(found)
        };
        (self.mark.is_some() || self.birth.is_some()) && found().as_ref() == Some(self)
    }

    /// Whether it may be that directory on a file system that was mounted again: it has the mark, if that directory had one.
    pub(super) fn has_mark(&self, path: &Path) -> bool {
        self.mark.is_none() || open(path).and_then(read_mark) == self.mark
    }

    fn of(directory: &OwnedFd) -> Option<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(directory, "", AtFlags::EMPTY_PATH, wanted).ok()?;
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Some(Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            birth: has_birth.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
            mark: None,
        })
    }
}

/// Takes the mark off a directory that stays.
pub(super) fn unmark(path: &Path) {
    if let Some(directory) = open(path) {
        // Without a record it means nothing.
        let _ = rustix::fs::fremovexattr(&directory, ATTRIBUTE);
    }
}

fn open(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).ok()
}

fn read_mark(directory: impl AsFd) -> Option<String> {
    let mut text = [0u8; 2 * MARK_BYTES];
    let length = rustix::fs::fgetxattr(directory, ATTRIBUTE, &mut text).ok()?;
    String::from_utf8(text[..length].to_vec()).ok()
}

fn new_mark() -> Option<String> {
    let mut bytes = [0u8; MARK_BYTES];
    std::fs::File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}
