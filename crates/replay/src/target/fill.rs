//! A file of data for a trace to be replayed on: full, so that reads are of the medium and not of a hole.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::data::{POOL_BYTES, Pool, WriteData};
use crate::error::ReplayError;
use crate::watcher::{Step, Watcher};

/// A file ends with a whole block of every file system.
const GRAIN_BYTES: u64 = 4096;

/// Makes a file of `bytes` full of random bits. What cannot be finished is removed.
pub(super) fn make(path: &Path, bytes: u64, watcher: &dyn Watcher) -> Result<(), ReplayError> {
    // What is larger than any file has no room either.
    let bytes =
        bytes.max(1).checked_next_multiple_of(GRAIN_BYTES).unwrap_or(u64::MAX / GRAIN_BYTES * GRAIN_BYTES);
    refuse_without_room(path, bytes)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => ReplayError::Refused {
            path: path.to_path_buf(),
            why: format!(
                "it exists already, from an earlier replay or another user; remove it, or replay on it: \
                 `--target {0} --overwrite {0}`",
                path.display()
            ),
        },
        _ => ReplayError::io("make", path)(source),
    })?;
    fill(&file, path, bytes, watcher).inspect_err(|_| {
        // It is this call's own, and an error is on its way already.
        let _ = fs::remove_file(path);
    })
}

fn refuse_without_room(path: &Path, bytes: u64) -> Result<(), ReplayError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let Ok(room) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    if free_bytes >= bytes {
        return Ok(());
    }
    Err(ReplayError::Refused {
        path: directory.to_path_buf(),
        why: format!(
            "the trace needs a file of {bytes} bytes, but only {free_bytes} bytes are free; make a smaller \
             file with `--size`, and place the requests in it with `--wrap` or `--scale-space`"
        ),
    })
}

fn fill(mut file: &File, path: &Path, bytes: u64, watcher: &dyn Watcher) -> Result<(), ReplayError> {
    let failed = || ReplayError::io("fill", path);
    // Where the file system cannot say beforehand, writing says.
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Err(error) if error == rustix::io::Errno::NOSPC => return Err(failed()(error.into())),
        _ => {}
    }
    // Other bits than those that are written later.
    let pool = Pool::new(WriteData::Random { seed: 0x6e65_7374_6f72 });
    let data = pool.bytes_of(0, POOL_BYTES as u64);
    let mut written = 0;
    while written < bytes {
        if watcher.stopped() {
            return Err(ReplayError::Interrupted);
        }
        watcher.progress(Step::Filling, written, bytes);
        let piece = data.len().min(usize::try_from(bytes - written).unwrap_or(usize::MAX));
        file.write_all(&data[..piece]).map_err(failed())?;
        written += piece as u64;
    }
    file.sync_all().map_err(failed())
}
