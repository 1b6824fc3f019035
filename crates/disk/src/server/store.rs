//! The data of a served disk: a sparse file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation};
use vm_memory::{GuestMemoryBackend, GuestMemoryMmap};

use super::request::Segment;
use crate::error::DiskError;

/// The kernel takes at most this many pieces at once (`IOV_MAX`, limits.h).
const MOST_PIECES: usize = 1024;
/// Zeroes are written in pieces of this size where the file system cannot make a hole.
const ZERO_BYTES: usize = 1 << 16;

/// A sparse file of fixed size.
#[derive(Debug)]
pub struct Store {
    file: File,
    size: u64,
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
    /// Opens the data file, or creates it readable by its owner only, and makes it `size` bytes long.
    ///
    /// # Errors
    /// The file cannot be opened or cannot have that size.
    pub fn open(path: &Path, size: u64) -> Result<Self, DiskError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(DiskError::io("open the data file", path))?;
        // Two disks on one file would destroy each other's file systems. The lock ends with the process.
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            DiskError::io("lock the data file (does another disk serve it?)", path)(error.into())
        })?;
        file.set_len(size).map_err(DiskError::io("give its size to the data file", path))?;
        Ok(Self { file, size, pieces: Vec::with_capacity(MOST_PIECES) })
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of the file that take room on its file system.
    pub fn allocated(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.blocks() * 512)
    }

    /// Reads into the guest's memory.
    pub fn read(&mut self, offset: u64, into: &[Segment], memory: &GuestMemoryMmap) -> io::Result<()> {
        self.transfer(Direction::FromFile, offset, into, memory)
    }

    /// Writes from the guest's memory.
    pub fn write(&mut self, offset: u64, from: &[Segment], memory: &GuestMemoryMmap) -> io::Result<()> {
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
        memory: &GuestMemoryMmap,
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
            // SAFETY: each piece came from `get_slices`, so it lies in guest memory that `memory` keeps mapped during
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
