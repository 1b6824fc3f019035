//! The socket on which the machine that uses a device sends its time.
//!
//! The machine sends its time whenever its guest has notified the device or the device's next event is due, and waits. The device
//! does everything that is due and answers with the time of its next event. While the machine waits, its time stops, so
//! the work of the device takes none of it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nestor_stop::{StopHandle, Woken};

/// The path of a socket beside a device's own.
pub fn beside(device: &Path, suffix: &str) -> PathBuf {
    let mut path = device.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Serves one machine after the other until the server ends: each of its messages of `ASKED` numbers has the time of the next event as
/// its answer.
pub fn serve_time<const ASKED: usize>(
    listener: &UnixListener,
    stop: &StopHandle,
    answer: impl Fn([u64; ASKED]) -> u64,
) {
    while stop.wait_with(Some(listener.as_fd()), None) == Woken::Readable {
        let Ok((stream, _)) = listener.accept() else { continue };
        hear(&stream, stop, &answer);
    }
}

/// Serves one machine until it disconnects or the server ends.
fn hear<const ASKED: usize>(
    mut stream: &UnixStream,
    stop: &StopHandle,
    answer: impl Fn([u64; ASKED]) -> u64,
) {
    let mut asked = [[0; 8]; ASKED];
    while stop.wait_with(Some(stream.as_fd()), None) == Woken::Readable
        && stream.read_exact(asked.as_flattened_mut()).is_ok()
    {
        let next_ns = answer(asked.map(u64::from_le_bytes));
        if stream.write_all(&next_ns.to_le_bytes()).is_err() {
            return;
        }
    }
}
