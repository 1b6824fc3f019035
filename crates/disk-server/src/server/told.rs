//! The socket on which the machine that uses a disk sends its time.
//!
//! The machine sends its time whenever its guest has notified the disk or the disk's next event is due, and waits. The disk
//! does everything that is due and answers with the time of its next event. While the machine waits, its time stops, so
//! the work of the disk takes none of it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nestor_stop::Woken;
use nestor_vtime::protocol::{DISK_TIME_SUFFIX, NO_EVENT};

use super::manage::Shared;

/// Where the time socket of a disk is.
pub(super) fn socket(disk: &Path) -> PathBuf {
    let mut path = disk.as_os_str().to_owned();
    path.push(DISK_TIME_SUFFIX);
    path.into()
}

/// Serves one machine after the other until the server ends.
pub(super) fn serve(listener: &UnixListener, shared: &Arc<Shared>) {
    while shared.stop_handle().wait_with(Some(listener.as_fd()), None) == Woken::Readable {
        let Ok((stream, _)) = listener.accept() else { continue };
        hear(&stream, shared);
    }
}

/// Serves one machine until it disconnects or the server ends.
fn hear(mut stream: &UnixStream, shared: &Shared) {
    let mut now_ns = [0; 8];
    while shared.stop_handle().wait_with(Some(stream.as_fd()), None) == Woken::Readable
        && stream.read_exact(&mut now_ns).is_ok()
    {
        let next_ns = shared.run_until(u64::from_le_bytes(now_ns)).unwrap_or(NO_EVENT);
        if stream.write_all(&next_ns.to_le_bytes()).is_err() {
            return;
        }
    }
}
