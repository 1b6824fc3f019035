//! Telling a server to end.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use nestor_disk::DiskError;

/// Ends a server from another thread or from a signal; clones stop the same server.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<Pipe>);

/// A byte in the pipe, never read, stays visible to every thread that waits on it.
#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl StopHandle {
    /// A handle that has not been used.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn new() -> Result<Self, DiskError> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|e| DiskError::system("create the server's stop signal")(e.into()))?;
        Ok(Self(Arc::new(Pipe { read, write })))
    }

    /// Tells the server to end.
    pub fn stop(&self) {
        // A full pipe says the same already.
        let _ = rustix::io::write(&self.0.write, &[1]);
    }

    /// Also ends the server when the process is sent SIGTERM, SIGINT or SIGHUP.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn stop_on_signals(&self) -> Result<(), DiskError> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            let write = self.0.write.try_clone().map_err(DiskError::system("catch signals"))?;
            signal_hook::low_level::pipe::register(signal, write)
                .map_err(DiskError::system("catch signals"))?;
        }
        Ok(())
    }

    /// Also ends the server when `source` ends: given a pipe from another process, when that process does.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn stop_at_end_of(&self, mut source: impl Read + Send + 'static) -> Result<(), DiskError> {
        let stop = self.clone();
        let wait = move || {
            // An error ends it as well: nothing more will come.
            let _ = std::io::copy(&mut source, &mut std::io::sink());
            stop.stop();
        };
        let thread = std::thread::Builder::new().name("disk-parent".to_owned()).spawn(wait);
        thread.map(|_| ()).map_err(DiskError::system("wait for the end of input"))
    }

    /// Whether the server is to end.
    pub fn is_stopped(&self) -> bool {
        self.wait_with(None, Some(0)) == Woken::Stopped
    }

    /// Waits until `fd` is readable, the server is to end, or the time is over.
    pub(crate) fn wait_with(&self, fd: Option<BorrowedFd<'_>>, limit_ms: Option<u64>) -> Woken {
        let mut fds = vec![PollFd::new(&self.0.read, PollFlags::IN)];
        if let Some(fd) = &fd {
            fds.push(PollFd::new(fd, PollFlags::IN));
        }
        let limit = limit_ms
            .map(|ms| Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
        loop {
            match poll(&mut fds, limit.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                // Without descriptors to wait on, the server cannot continue.
                Err(_) => return Woken::Stopped,
                Ok(_) if !fds[0].revents().is_empty() => return Woken::Stopped,
                Ok(0) => return Woken::TimeOver,
                Ok(_) => return Woken::Readable,
            }
        }
    }
}

impl AsFd for StopHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.read.as_fd()
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Stopped,
    Readable,
    TimeOver,
}
