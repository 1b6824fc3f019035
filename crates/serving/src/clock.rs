//! A device's clock and its alarm.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use crate::ServingError;

/// The clock of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: advances by itself.
    Real,
    /// Advances only when the machine that uses the device sends its time.
    Told {
        /// The last time that it sent, in nanoseconds.
        now_ns: u64,
    },
}

impl Clock {
    /// The time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        match *self {
            Self::Real => {
                let now = clock_gettime(ClockId::Monotonic);
                now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
            }
            Self::Told { now_ns } => now_ns,
        }
    }

    /// Whether it advances only on demand.
    pub fn is_told(&self) -> bool {
        matches!(self, Self::Told { .. })
    }

    /// Advances it to a time. A time in the past changes nothing, nor does any time change a real clock.
    pub fn tell(&mut self, later_ns: u64) {
        if let Self::Told { now_ns } = self {
            *now_ns = later_ns.max(*now_ns);
        }
    }
}

/// An alarm at a point of [`Clock::Real`]'s time, as a file descriptor that becomes readable.
///
/// A timerfd is not rounded by the thread's timer slack, other than the time limit of a wait.
#[derive(Debug)]
pub struct Alarm {
    fd: OwnedFd,
    set_to_ns: Option<u64>,
}

impl Alarm {
    /// An alarm that is not set.
    ///
    /// # Errors
    /// The kernel gives no timer.
    pub fn new() -> Result<Self, ServingError> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
            .map_err(|e| ServingError::system("create the device's timer")(e.into()))?;
        Ok(Self { fd, set_to_ns: None })
    }

    /// Sets the alarm; a time that has passed rings at once, `None` silences it.
    pub fn set(&mut self, at_ns: Option<u64>) {
        if self.set_to_ns == at_ns {
            return;
        }
        let at = at_ns.map_or(0, |ns| ns.max(1));
        let value = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let new = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &new)
            .expect("a timer of ours, a time in range");
        self.set_to_ns = at_ns;
    }

    /// Notes that the alarm rang.
    pub fn acknowledge(&mut self) {
        // Nothing to read means that it was set again meanwhile.
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
        self.set_to_ns = None;
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
