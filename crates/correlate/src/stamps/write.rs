//! The writer: marked data to a device, past all caches of its machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use nestor_disk::log::stamp;
use nestor_statistics::SeededOrder;
use nestor_trace::Operation;
use rustix::time::{ClockId, clock_gettime};

use super::StampedOperation;

/// Alignment that every device takes for direct I/O.
const ALIGNMENT: usize = 4096;

/// Bytes of one write while a device is filled.
const FILL_BYTES: usize = 1 << 20;

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub struct StampWriteOptions {
    /// A block device, or a file; its contents are lost.
    pub device: PathBuf,
    /// Only so many bytes from its beginning.
    pub span_bytes: u64,
    /// Operations.
    pub requests: u64,
    /// Operations in flight.
    pub depth: usize,
    /// Bytes of each, a multiple of 4096.
    pub bytes: u64,
    /// Share of reads (0 to 1).
    pub reads: f64,
    /// Share of operations that follow the last one of the same thread (0 to 1).
    pub sequential: f64,
    /// Decides places and order.
    pub seed: u64,
}

/// Takes a device for as long as the file is open: one that anything else uses, such as a mounted file system, is busy.
fn claim(device: &Path) -> io::Result<Option<File>> {
    if !std::fs::metadata(device)?.file_type().is_block_device() {
        return Ok(None);
    }
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(exclusive).open(device).map(Some)
}

/// Opens a device or file past the caches.
fn open_direct(device: &Path) -> io::Result<File> {
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(direct).open(device)
}

/// So many zeroed bytes of `memory` that every device takes for direct I/O.
fn aligned(memory: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    memory.resize(bytes + ALIGNMENT, 0);
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    &mut memory[start..start + bytes]
}

/// Fills a device from its beginning with data that carry no marks, past the page cache.
///
/// # Errors
/// The device cannot be opened or written.
pub fn fill(device: &Path, span_bytes: u64) -> io::Result<()> {
    let _claim = claim(device)?;
    let file = open_direct(device)?;
    let mut memory = Vec::new();
    let buffer = aligned(&mut memory, FILL_BYTES);
    // Not zeros, which a layer could leave out.
    buffer.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index % 251) as u8 | 1);
    let span_bytes = span_bytes / ALIGNMENT as u64 * ALIGNMENT as u64;
    let mut offset = 0;
    while offset < span_bytes {
        let bytes = (span_bytes - offset).min(FILL_BYTES as u64);
        file.write_all_at(&buffer[..bytes as usize], offset)?;
        offset += bytes;
    }
    file.sync_all()
}

/// Writes and reads with O_DIRECT as it is told, and returns every operation in the order of completion.
///
/// # Errors
/// The device cannot be opened, read or written; the options contradict each other.
pub fn write_stamped(options: &StampWriteOptions) -> io::Result<Vec<StampedOperation>> {
    let blocks = options.span_bytes / options.bytes.max(1);
    let aligned = options.bytes > 0 && options.bytes.is_multiple_of(ALIGNMENT as u64);
    if !aligned || blocks == 0 || options.depth == 0 {
        let reason = "the size of operations must be a multiple of 4096 bytes and fit into the span, and at \
                      least one operation must be in flight";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let _claim = claim(&options.device)?;
    let next = AtomicU64::new(1);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.depth)
            .map(|worker| {
                let (file, next, done) = (open_direct(&options.device), &next, &done);
                scope.spawn(move || work(options, &file?, worker as u64, next, done))
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a writer thread panicked")))
        })
    })?;
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_unstable_by_key(|operation: &StampedOperation| operation.ended_ns);
    Ok(done)
}

fn work(
    options: &StampWriteOptions,
    file: &File,
    worker: u64,
    next: &AtomicU64,
    done: &Mutex<Vec<StampedOperation>>,
) -> io::Result<()> {
    let mut random = SeededOrder::new(options.seed.wrapping_add(worker.wrapping_mul(0x9e37_79b9)));
    let mut share = |of: f64| (random.next() >> 11) as f64 / (1_u64 << 53) as f64 <= of && of > 0.0;
    let blocks = options.span_bytes / options.bytes;
    let mut memory = Vec::new();
    let buffer = aligned(&mut memory, options.bytes as usize);
    let mut places = SeededOrder::new(options.seed ^ worker.wrapping_mul(0x51_7c_c1));
    let mut block = 0;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number > options.requests {
            return Ok(());
        }
        let follows = share(options.sequential);
        block = if follows { (block + 1) % blocks } else { places.below(blocks as usize) as u64 };
        let offset = block * options.bytes;
        let reads = share(options.reads);
        let started_ns = monotonic_ns();
        if reads {
            file.read_exact_at(buffer, offset)?;
        } else {
            stamp(buffer, number);
            file.write_all_at(buffer, offset)?;
        }
        let operation = if reads { Operation::Read } else { Operation::Write };
        let ended_ns = monotonic_ns();
        let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        done.push(StampedOperation {
            stamp: number,
            operation,
            offset,
            bytes: options.bytes,
            started_ns,
            ended_ns,
        });
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use nestor_disk::log::stamp_of;

    use super::*;

    #[test]
    fn what_is_written_carries_the_marks_of_its_operations() {
        // Not a folder in memory: those know no direct I/O.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let device = folder.path().join("device");
        std::fs::write(&device, vec![0; 1 << 20]).unwrap();
        let options = StampWriteOptions {
            device: device.clone(),
            span_bytes: 1 << 20,
            requests: 100,
            depth: 4,
            bytes: 8192,
            reads: 0.2,
            sequential: 0.5,
            seed: 3,
        };
        let done = match write_stamped(&options) {
            // Some file systems refuse direct I/O.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            done => done.unwrap(),
        };
        assert_eq!(done.len(), 100);
        assert!(done.iter().any(|operation| operation.operation == Operation::Read));
        let data = std::fs::read(&device).unwrap();
        for (index, sector) in data.chunks(512).enumerate() {
            let Some(stamp) = stamp_of(sector[..16].try_into().unwrap()) else { continue };
            let writer = done.iter().find(|operation| operation.stamp == stamp).unwrap();
            assert_eq!(writer.operation, Operation::Write);
            assert!((writer.offset..writer.offset + writer.bytes).contains(&(index as u64 * 512)));
        }
        let mut text = Vec::new();
        super::super::write_operations(&done, &mut text).unwrap();
        assert_eq!(super::super::read_operations(text.as_slice()).unwrap(), done);
    }
}
