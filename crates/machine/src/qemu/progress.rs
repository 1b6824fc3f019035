//! Whether a machine in virtual time still gets on, when it has taken longer than its limit in real time.
//!
//! How long a real second is for such a machine depends on what else the real one does, so a limit of real time says nothing of it.
//! What counts is whether it executes instructions, and how many: they are its own time.

use std::time::Duration;

use nestor_processor::ProcessorSpeed;

/// How long a machine may execute nothing.
pub const STANDSTILL_LIMIT: Duration = Duration::from_secs(60);

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
    fn who_stands_still_is_given_up() {
        let mut progress = Progress::new(Duration::from_secs(1), ProcessorSpeed::USUAL);
        assert!(progress.is_to_be_awaited(7), "one look shows no progress");
        assert!(progress.is_to_be_awaited(8));
        assert!(!progress.is_to_be_awaited(8));
    }
}
