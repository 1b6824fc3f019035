//! The data of a served disk: a sparse file.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nestor_ownership as ownership;
use rustix::fs::{FallocateFlags, FlockOperation};
use vm_memory::GuestMemoryBackend;
use vm_memory::bitmap::Bitmap as _;

use super::request::Segment;
use nestor_disk::DiskError;
use nestor_disk::model::SECTOR_BYTES;
use nestor_serving::GuestMemory;

/// The kernel takes at most this many pieces at once (`IOV_MAX`, limits.h).
const MOST_PIECES: usize = 1024;
/// Zeroes are written in pieces of this size where the file system cannot make a hole.
const ZERO_BYTES: usize = 1 << 16;

/// A sparse file of fixed size.
#[derive(Debug)]
pub struct Store {
    file: File,
    size: u64,
    read_only: bool,
    /// Reused between requests.
    pieces: Vec<libc::iovec>,
}

// SAFETY: `pieces` only keeps its capacity between calls; the pointers in it are used within the call that fills it.
unsafe impl Send for Store {}

/// Which way data moves between the file and the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    FromFile,
    ToFile,
}

impl Store {
    /// Opens the data file, or creates it readable by its owner only, and makes it `size` bytes long. A longer one is
    /// never cut off, and a shorter one that is not empty is never made longer. A link or a file of another user than root is
    /// refused: that user may have put it there, and keeps the right to read it.
    ///
    /// # Errors
    /// The file cannot be opened or cannot have that size; it has another, is not a regular file, or is another user's or is in
    /// another's directory.
    pub fn open(path: &Path, size: u64) -> Result<Self, DiskError> {
        check_way(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(|e| unusable(path, e))?;
        let found = file.metadata().map_err(DiskError::io("look at the data file", path))?;
        if !found.is_file() {
            return Err(DiskError::Data {
                path: path.to_owned(),
                reason: "it is not a regular file".to_owned(),
            });
        }
        check_owner(path, &found)?;
        // Two disks on one file would destroy each other's file systems. The lock ends with the process.
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            DiskError::io("lock the data file (another disk may serve it)", path)(error.into())
        })?;
        // Its length, now that no other disk changes it.
        let length = file.metadata().map_err(DiskError::io("look at the data file", path))?.len();
        if length > size {
            let reason = format!(
                "it holds {length} bytes, but the disk has only {size}; `--size {}` serves all of it, or name \
                 another file",
                length.next_multiple_of(SECTOR_BYTES)
            );
            return Err(DiskError::Data { path: path.to_owned(), reason });
        }
        if 0 < length && length < size {
            let whole = length.is_multiple_of(SECTOR_BYTES);
            let as_it_is =
                if whole { format!("`--size {length}` serves it unchanged; ") } else { String::new() };
            let reason = format!(
                "it holds {length} bytes, fewer than the disk's {size}, and may be something else; {as_it_is}to \
                 enlarge it, run `truncate --size={size} {}`; or name another file",
                path.display()
            );
            return Err(DiskError::Data { path: path.to_owned(), reason });
        }
        if length < size {
            file.set_len(size).map_err(DiskError::io("set the size of the data file", path))?;
        }
        Ok(Self { file, size, read_only: false, pieces: Vec::with_capacity(MOST_PIECES) })
    }

    /// Opens a data file to be read only, as others may at the same time.
    ///
    /// # Errors
    /// The file cannot be opened, is shorter than `size`, is not a regular file, or is another user's or in another user's directory.
    pub fn open_read_only(path: &Path, size: u64) -> Result<Self, DiskError> {
        check_way(path)?;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(|e| unusable(path, e))?;
        let found = file.metadata().map_err(DiskError::io("look at the data file", path))?;
        if !found.is_file() || found.len() < size {
            let reason = format!("it is not a regular file of {size} bytes");
            return Err(DiskError::Data { path: path.to_owned(), reason });
        }
        check_owner(path, &found)?;
        Ok(Self { file, size, read_only: true, pieces: Vec::with_capacity(MOST_PIECES) })
    }

    /// Makes a file without a name, which is gone when it is closed.
    ///
    /// # Errors
    /// It cannot be made, or cannot have that size.
    pub fn unnamed(size: u64) -> Result<Self, DiskError> {
        let place = ownership::place_for_temporary();
        let made = ownership::unnamed_file().and_then(|file| file.set_len(size).map(|()| file));
        let file = made.map_err(DiskError::io("make a file for the disk's data in", &place))?;
        Ok(Self { file, size, read_only: false, pieces: Vec::with_capacity(MOST_PIECES) })
    }

    /// Whether it is only read.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of the file that take room on its file system.
    pub fn allocated(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    /// Reads into the guest's memory.
    pub fn read(&mut self, offset: u64, into: &[Segment], memory: &GuestMemory) -> io::Result<()> {
        let moved = self.transfer(Direction::FromFile, offset, into, memory);
        // The kernel has written there, which the memory does not notice.
        for segment in into {
            for slice in memory.get_slices(segment.address, segment.bytes as usize).flatten() {
                slice.bitmap().mark_dirty(0, slice.len());
            }
        }
        moved
    }

    /// Writes from the guest's memory.
    pub fn write(&mut self, offset: u64, from: &[Segment], memory: &GuestMemory) -> io::Result<()> {
        self.transfer(Direction::ToFile, offset, from, memory)
    }

    /// Waits until the file's data is on the host's own storage.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives the room of a range back; it reads as zeroes afterwards.
    pub fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.fallocate_or_write_zeroes(flags, offset, bytes)
    }

    /// Zeroes a range and keeps room for it.
    pub fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        self.fallocate_or_write_zeroes(flags, offset, bytes)
    }

    fn fallocate_or_write_zeroes(&self, flags: FallocateFlags, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, flags, offset, bytes) {
            Ok(()) => Ok(()),
            // Not every file system can do it (tmpfs makes holes but no zeroed ranges).
            Err(error) if error == rustix::io::Errno::OPNOTSUPP => self.write_zeroes(offset, bytes),
            Err(error) => Err(error.into()),
        }
    }

    fn write_zeroes(&self, mut offset: u64, mut bytes: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let zeroes = [0; ZERO_BYTES];
        while bytes > 0 {
            let piece = bytes.min(ZERO_BYTES as u64);
            self.file.write_all_at(&zeroes[..piece as usize], offset)?;
            offset += piece;
            bytes -= piece;
        }
        Ok(())
    }

    /// Moves data without a copy between: the kernel reads and writes the guest's memory itself.
    fn transfer(
        &mut self,
        direction: Direction,
        mut offset: u64,
        segments: &[Segment],
        memory: &GuestMemory,
    ) -> io::Result<()> {
        self.pieces.clear();
        for segment in segments {
            for slice in memory.get_slices(segment.address, segment.bytes as usize) {
                let slice = slice.map_err(io::Error::other)?;
                if !slice.is_empty() {
                    self.pieces.push(libc::iovec {
                        iov_base: slice.ptr_guard_mut().as_ptr().cast(),
                        iov_len: slice.len(),
                    });
                }
            }
        }
        let mut rest = self.pieces.as_mut_slice();
        while !rest.is_empty() {
            let count = rest.len().min(MOST_PIECES) as libc::c_int;
            let fd = self.file.as_raw_fd();
            let at = offset as libc::off64_t;
            // SAFETY: each piece came from `get_slices`, so it is in guest memory that `memory` keeps mapped during
            // this call, and the guest expects its memory to change. `count` is at most the number of pieces.
            let moved = unsafe {
                match direction {
                    Direction::FromFile => libc::preadv64(fd, rest.as_ptr(), count, at),
                    Direction::ToFile => libc::pwritev64(fd, rest.as_ptr(), count, at),
                }
            };
            match moved {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                moved if moved > 0 => {
                    offset += moved as u64;
                    rest = skip(rest, moved as usize);
                }
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

fn unusable(path: &Path, error: io::Error) -> DiskError {
    match error.raw_os_error() {
        Some(libc::ELOOP) => DiskError::Data {
            path: path.to_owned(),
            reason: "it is a link; name the file that it leads to".to_owned(),
        },
        _ => DiskError::io("open the data file", path)(error),
    }
}

/// The pieces that are left after `bytes` of them have been moved.
fn skip(mut pieces: &mut [libc::iovec], mut bytes: usize) -> &mut [libc::iovec] {
    while let Some(first) = pieces.first_mut() {
        if bytes < first.iov_len {
            first.iov_base = first.iov_base.cast::<u8>().wrapping_add(bytes).cast();
            first.iov_len -= bytes;
            return pieces;
        }
        bytes -= first.iov_len;
        pieces = &mut pieces[1..];
    }
    pieces
}

/// Refuses a path to the file that another user can redirect.
fn check_way(path: &Path) -> Result<(), DiskError> {
    ownership::open_above(path).map(drop).map_err(|e| DiskError::Data {
        path: path.to_owned(),
        reason: format!(
            "{e}; name a file in a directory that is yours or root's and that no other user may write to"
        ),
    })
}

/// Refuses a file whose owner may read or change it at any time. The metadata is of the open file, which cannot be exchanged.
fn check_owner(path: &Path, found: &Metadata) -> Result<(), DiskError> {
    let owner = found.uid();
    if [0, ownership::user()].contains(&owner) {
        return Ok(());
    }
    let reason = format!("it belongs to user {owner}; name another file, such as a copy of it");
    Err(DiskError::Data { path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs root, because only root can change an owner.
    #[test]
    fn another_users_file_and_one_behind_another_users_link_are_not_served() {
        use std::os::unix::fs::{chown, lchown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [planted, own, link] = ["planted", "own", "link"].map(|name| folder.path().join(name));
        for path in [&planted, &own] {
            std::fs::write(path, "").unwrap();
        }
        symlink(folder.path(), &link).unwrap();
        if chown(&planted, Some(4321), None).is_err() || lchown(&link, Some(4321), None).is_err() {
            return;
        }
        let opened = |path: &Path| [Store::open(path, 4096), Store::open_read_only(path, 0)];
        for (path, reason) in [
            (planted.clone(), "it belongs to user 4321; name another file"),
            (link.join("own"), "link is a link of user 4321"),
            (link.join("new"), "link is a link of user 4321"),
        ] {
            for refused in opened(&path) {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains(reason), "{refused}");
            }
        }
        assert_eq!(std::fs::metadata(&planted).unwrap().len(), 0, "nothing was made longer");
        assert!(!folder.path().join("new").exists());
        assert!(opened(&own).iter().all(Result::is_ok));
    }

    #[test]
    fn a_longer_file_is_not_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, vec![7; 8192]).unwrap();
        let error = Store::open(&path, 4096).unwrap_err().to_string();
        assert!(
            error.contains("it holds 8192 bytes, but the disk has only 4096; `--size 8192` serves"),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 8192]);
        assert_eq!(Store::open(&path, 8192).unwrap().size(), 8192);
    }

    #[test]
    fn a_shorter_file_is_not_made_longer_unless_it_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let [letter, image, empty] = ["letter", "image", "empty"].map(|name| folder.path().join(name));
        std::fs::write(&letter, "hello world").unwrap();
        std::fs::write(&image, vec![7; 8192]).unwrap();
        std::fs::write(&empty, "").unwrap();
        let error = |path: &Path| Store::open(path, 1 << 20).unwrap_err().to_string();
        assert!(
            error(&letter).contains("it holds 11 bytes, fewer than the disk's 1048576"),
            "{}",
            error(&letter)
        );
        assert!(error(&image).contains("`--size 8192` serves it unchanged"), "{}", error(&image));
        assert_eq!(std::fs::read_to_string(&letter).unwrap(), "hello world");
        assert_eq!(std::fs::read(&image).unwrap(), vec![7; 8192]);
        assert_eq!(Store::open(&empty, 1 << 20).unwrap().size(), 1 << 20);
    }

    #[test]
    fn a_link_is_not_followed_and_a_pipe_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, link, missing, dangling] =
            ["victim", "link", "missing", "dangling"].map(|name| folder.path().join(name));
        std::fs::write(&victim, "of somebody else").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        std::os::unix::fs::symlink(&missing, &dangling).unwrap();
        for path in [&link, &dangling] {
            let error = Store::open(path, 4096).unwrap_err().to_string();
            assert!(error.contains("it is a link"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "of somebody else");
        assert!(!missing.exists());
        let error = Store::open(Path::new("/dev/null"), 4096).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
