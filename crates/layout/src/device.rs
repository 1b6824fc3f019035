//! Devices read past the page cache, and a cache of our own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::Path;

use crate::read_at::ReadAt;

/// What is read at once. Metadata lies in clusters, so a larger piece saves more reads than it costs.
const CHUNK_BYTES: usize = 64 << 10;

/// How many pieces are kept: 16 MiB in all.
const CHUNKS: usize = 256;

/// What memory and lengths of direct reads are aligned to: at least the largest logical block size in use.
const ALIGNMENT: usize = 4096;

/// A device with a small cache before it.
pub struct CachedDevice<'a> {
    device: &'a dyn ReadAt,
    bytes: u64,
    cache: RefCell<Cache>,
}

#[derive(Default)]
struct Cache {
    chunks: HashMap<u64, Chunk>,
    clock: u64,
}

struct Chunk {
    bytes: Box<[u8]>,
    used: u64,
}

impl<'a> CachedDevice<'a> {
    /// # Errors
    /// When the size of the device cannot be found out.
    pub fn new(device: &'a dyn ReadAt) -> Result<Self, crate::LayoutError> {
        let bytes = device.bytes().map_err(|source| crate::LayoutError::Io { offset: 0, source })?;
        Ok(Self { device, bytes, cache: RefCell::default() })
    }

    /// Copies from the chunk that holds `offset` as much of `buffer` as it has; returns how much that is.
    fn copy_from_chunk(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let number = offset / CHUNK_BYTES as u64;
        let mut cache = self.cache.borrow_mut();
        cache.clock += 1;
        let now = cache.clock;
        if !cache.chunks.contains_key(&number) {
            let start = number * CHUNK_BYTES as u64;
            let length =
                usize::try_from(self.bytes.saturating_sub(start)).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            let mut bytes = vec![0; length].into_boxed_slice();
            self.device.read_at(start, &mut bytes)?;
            cache.make_room();
            cache.chunks.insert(number, Chunk { bytes, used: now });
        }
        let chunk = cache.chunks.get_mut(&number).ok_or(io::ErrorKind::NotFound)?;
        chunk.used = now;
        let from = (offset % CHUNK_BYTES as u64) as usize;
        let available = chunk.bytes.get(from..).unwrap_or_default();
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        Ok(length)
    }
}

impl Cache {
    /// Forgets the half that was not used for longest, when it is full; so the search for it is rare.
    fn make_room(&mut self) {
        if self.chunks.len() < CHUNKS {
            return;
        }
        let mut used: Vec<u64> = self.chunks.values().map(|chunk| chunk.used).collect();
        let (_, &mut median, _) = used.select_nth_unstable(CHUNKS / 2);
        self.chunks.retain(|_, chunk| chunk.used > median);
    }
}

impl ReadAt for CachedDevice<'_> {
    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if buffer.len() > CHUNK_BYTES {
            return self.device.read_at(offset, buffer);
        }
        while !buffer.is_empty() {
            let length = self.copy_from_chunk(offset, buffer)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[length..];
            offset += length as u64;
        }
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn is_frozen(&self) -> bool {
        self.device.is_frozen()
    }
}

/// A device or file read directly, past the page cache: that of a mounted device may be older than what the file
/// system has written (XFS and Btrfs keep their metadata in caches of their own).
#[derive(Debug)]
pub struct DirectDevice {
    file: File,
    bytes: u64,
}

impl DirectDevice {
    /// Opens it for reading. A file whose file system cannot be read directly is read through the page cache.
    ///
    /// # Errors
    /// When it cannot be opened or has no size.
    pub fn open(path: &Path) -> io::Result<Self> {
        let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
        let file = match direct {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => File::open(path)?,
            other => other?,
        };
        let bytes = file.bytes()?;
        Ok(Self { file, bytes })
    }
}

impl ReadAt for DirectDevice {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.bytes);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let first = offset - offset % ALIGNMENT as u64;
        let length = (end - first).next_multiple_of(ALIGNMENT as u64) as usize;
        let mut memory = vec![0_u8; length + ALIGNMENT];
        let misaligned = memory.as_ptr().align_offset(ALIGNMENT);
        let aligned = &mut memory[misaligned..misaligned + length];
        let wanted = (end - first) as usize;
        read_at_least(&self.file, first, aligned, wanted)?;
        buffer.copy_from_slice(&aligned[(offset - first) as usize..wanted]);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

/// Reads until `wanted` bytes of `buffer` are there: the last read of a device whose size is no multiple of the
/// alignment is shorter than what was asked for.
fn read_at_least(file: &File, offset: u64, buffer: &mut [u8], wanted: usize) -> io::Result<()> {
    let mut done = 0;
    while done < wanted {
        match FileExt::read_at(file, &mut buffer[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => done += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
