//! The end of a task: telling one that waits to end, and taking what one that panicked had locked.
//!
//! A task that looked again and again whether it is to end would wake its machine each time. In a machine that measures, each
//! such moment is work of the processor, and in a guest several exits to the hypervisor.

mod lock;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

pub use lock::lock;

/// Ends a task from another thread or from a signal; clones stop the same task.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<Pipe>);

/// A byte in the pipe, never read, stays visible to every thread that waits on it.
#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The task is to end.
    Stopped,
    /// The descriptor that was waited for is readable.
    Readable,
    /// The limit was reached.
    TimeOver,
}

impl StopHandle {
    /// A handle that has not been used.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Pipe { read, write })))
    }

    /// Tells the task to end.
    pub fn stop(&self) {
        // A full pipe says the same already.
        let _ = rustix::io::write(&self.0.write, &[1]);
    }

    /// Also ends the task when the process is sent SIGTERM, SIGINT or SIGHUP.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn stop_on_signals(&self) -> io::Result<()> {
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, self.0.write.try_clone()?)?;
        }
        Ok(())
    }

    /// Whether the task is to end.
    pub fn is_stopped(&self) -> bool {
        self.wait_at_most(Duration::ZERO)
    }

    /// Waits until the task is to end.
    pub fn wait(&self) {
        self.wait_with(None, None);
    }

    /// Waits until the task is to end, at most for `limit`; whether it is.
    pub fn wait_at_most(&self, limit: Duration) -> bool {
        self.wait_with(None, Some(limit)) == Woken::Stopped
    }

    /// Waits until `fd` is readable, the task is to end, or the time is over.
    pub fn wait_with(&self, fd: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Woken {
        let mut fds = vec![PollFd::new(&self.0.read, PollFlags::IN)];
        if let Some(fd) = &fd {
            fds.push(PollFd::new(fd, PollFlags::IN));
        }
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        loop {
            match poll(&mut fds, limit.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                // Without descriptors to wait on, the task cannot continue.
                Err(_) => return Woken::Stopped,
                Ok(_) if !fds[0].revents().is_empty() => return Woken::Stopped,
                Ok(0) => return Woken::TimeOver,
                Ok(_) => return Woken::Readable,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_stop_is_seen_by_all_clones_and_stays() {
        let stop = StopHandle::new().unwrap();
        let other = stop.clone();
        assert!(!other.is_stopped() && !other.wait_at_most(Duration::from_millis(1)));
        stop.stop();
        stop.stop();
        other.wait();
        assert!(other.is_stopped() && stop.is_stopped());
    }

    #[test]
    fn a_descriptor_wakes_it_and_a_stop_goes_first() {
        let stop = StopHandle::new().unwrap();
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        assert_eq!(stop.wait_with(Some(read.as_fd()), Some(Duration::ZERO)), Woken::TimeOver);
        rustix::io::write(&write, &[1]).unwrap();
        assert_eq!(stop.wait_with(Some(read.as_fd()), None), Woken::Readable);
        stop.stop();
        assert_eq!(stop.wait_with(Some(read.as_fd()), None), Woken::Stopped);
    }
}
