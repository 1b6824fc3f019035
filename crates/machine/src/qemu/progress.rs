//! Whether a machine still gets on, when it has taken longer than its limit in real time.
//!
//! How long a real second is for a machine in virtual time depends on what else the real one does, so a limit of real time says nothing of it.
//! What counts is whether it executes instructions, and how many: they are its own time. A machine in real time has as much longer as it
//! waited for processors that others had.

use std::time::{Duration, Instant};

use nestor_kernel::waiting::WaitForProcessors;
use nestor_processor::ProcessorSpeed;

/// How long a machine may execute nothing.
pub const STANDSTILL_LIMIT: Duration = Duration::from_secs(60);

/// How long to wait for an answer, by the machine's time.
pub enum Patience {
    /// As long as it gets on.
    Virtual(Progress),
    /// As long as it may take, and as it had no processors.
    Real(Overtime),
}

/// What was seen of one request, or of a boot.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// How many instructions the machine has for it.
    limit: u64,
    /// Instructions it had executed when it was first looked at, and when last.
    seen: Option<(u64, u64)>,
}

impl Progress {
    /// For what may take `limit` of the own time of a machine with such a processor.
    pub fn new(limit: Duration, speed: ProcessorSpeed) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self { limit: limit_ns.saturating_mul(speed.instructions_per_ns()), seen: None }
    }

    /// Whether to wait for the machine for another [`STANDSTILL_LIMIT`], by the instructions that it has executed since it was
    /// started: it has to have executed some since it was last looked at, and fewer than it has for it.
    pub fn is_to_be_awaited(&mut self, executed: u64) -> bool {
        let Some((first, last)) = self.seen else {
            self.seen = Some((executed, executed));
            return true;
        };
        self.seen = Some((first, executed));
        executed > last && executed.saturating_sub(first) < self.limit
    }
}

/// One request of a machine in real time, or its boot.
pub struct Overtime {
    begin: Instant,
    limit: Duration,
    waits: WaitForProcessors,
}

impl Overtime {
    /// For what may take a process `limit` from now on, on processors of its own.
    pub fn new(limit: Duration, process: u32) -> Self {
        Self { begin: Instant::now(), limit, waits: WaitForProcessors::begin(process) }
    }

    /// How much longer to wait for it.
    pub fn left(&self) -> Option<Duration> {
        left(self.limit, self.waits.so_far(), self.begin.elapsed())
    }
}

fn left(limit: Duration, waited: Duration, elapsed: Duration) -> Option<Duration> {
    (limit + waited).checked_sub(elapsed).filter(|left| *left >= LEAST_OVERTIME)
}

/// Less is not worth another look.
const LEAST_OVERTIME: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_on_is_awaited_until_its_own_time_is_over() {
        let mut progress = Progress::new(Duration::from_secs(1), ProcessorSpeed::USUAL);
        for executed in [5_000, 400_000_000, 999_999_999] {
            assert!(progress.is_to_be_awaited(executed), "{executed}");
        }
        assert!(!progress.is_to_be_awaited(1_000_005_000));
    }

    #[test]
    fn a_faster_one_executes_more_in_its_own_time() {
        let mut progress = Progress::new(Duration::from_secs(1), ProcessorSpeed::FASTEST);
        for executed in [0, 1_000_005_000, 15_999_999_999] {
            assert!(progress.is_to_be_awaited(executed), "{executed}");
        }
        assert!(!progress.is_to_be_awaited(16_000_000_000));
    }

    #[test]
    fn who_waited_for_a_processor_has_that_much_longer() {
        let s = Duration::from_secs;
        assert_eq!(left(s(90), s(0), s(90)), None, "it had processors all the time, or wanted none");
        assert_eq!(left(s(90), s(60), s(90)), Some(s(60)));
        assert_eq!(left(s(90), s(80), s(150)), Some(s(20)));
        assert_eq!(left(s(90), s(80), s(170)), None);
    }

    #[test]
    fn who_stands_still_is_given_up() {
        let mut progress = Progress::new(Duration::from_secs(1), ProcessorSpeed::USUAL);
        assert!(progress.is_to_be_awaited(7), "one look shows no progress");
        assert!(progress.is_to_be_awaited(8));
        assert!(!progress.is_to_be_awaited(8));
    }
}
