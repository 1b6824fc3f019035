//! When a machine's processors are sampled: often while I/O has just begun, seldom in a long run, and hardly while nothing happens.

use std::time::Duration;

/// How often it is looked whether I/O has begun, and the least time between samples.
const SHORTEST: Duration = Duration::from_millis(25);

/// A sample is taken when I/O has gone on for this part longer than at the one before, so that short runs have as many as long ones.
const PART: u32 = 8;

/// After such a time without a request, the next one begins anew: what is read to open files comes before the workload's I/O.
const SILENCE: Duration = Duration::from_millis(100);

/// Says when samples of a machine are due.
pub struct SamplePace {
    longest: Duration,
    /// Reads and writes that were completed when it was looked last; `None` without a device, where samples are due at equal times.
    completed: Option<u64>,
    completed_at: Duration,
    io_began: Option<Duration>,
    sampled_at: Duration,
    due_at: Duration,
}

impl SamplePace {
    /// From a first sample on. `completed`: requests that the device has completed; `None` without a device.
    pub fn new(longest: Duration, completed: Option<u64>, now: Duration) -> Self {
        let mut pace =
            Self { longest, completed, completed_at: now, io_began: None, sampled_at: now, due_at: now };
        pace.due_at = now + pace.interval(now);
        pace
    }

    fn interval(&self, now: Duration) -> Duration {
        match (self.completed, self.io_began) {
            (None, _) => self.longest,
            (Some(_), None) => SHORTEST.min(self.longest),
            (Some(_), Some(began)) => (now.saturating_sub(began) / PART).max(SHORTEST).min(self.longest),
        }
    }

    /// How long from now until it has to be looked again.
    pub fn pause(&self, now: Duration) -> Duration {
        match self.due_at.saturating_sub(now) {
            Duration::ZERO => SHORTEST.min(self.longest),
            left => left,
        }
    }

    /// Whether a sample is due now.
    pub fn is_due(&mut self, completed: Option<u64>, now: Duration) -> bool {
        if self.completed != completed {
            self.io_began.get_or_insert(now);
            (self.completed, self.completed_at) = (completed, now);
        } else if now.saturating_sub(self.completed_at) >= SILENCE.max(self.interval(now)) {
            self.io_began = None;
        }
        let waits_for_io =
            self.completed.is_some() && self.io_began.is_none() && self.sampled_at >= self.completed_at;
        let is_due = !waits_for_io && now >= self.due_at;
        if is_due {
            self.sampled_at = now;
            self.due_at = now + self.interval(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_millis(400);

    /// The times in ms at which samples are taken, if requests are completed at these.
    fn sampled(requests_at_ms: &[u64], until_ms: u64) -> Vec<u64> {
        let done = |now: u64| Some(requests_at_ms.iter().filter(|at| **at <= now).count() as u64);
        let mut pace = SamplePace::new(LONGEST, done(0), Duration::ZERO);
        let (mut now, mut sampled) = (Duration::ZERO, Vec::new());
        while now < Duration::from_millis(until_ms) {
            let pause = pace.pause(now);
            assert!(!pause.is_zero());
            now += pause;
            if pace.is_due(done(now.as_millis() as u64), now) {
                sampled.push(now.as_millis() as u64);
            }
        }
        sampled
    }

    #[test]
    fn a_short_run_has_several_samples_and_what_opened_its_files_does_not_count() {
        let io: Vec<u64> = [30].into_iter().chain(1_000..1_090).collect();
        let samples = sampled(&io, 3_000);
        let within = samples.iter().filter(|at| (1_000..=1_100).contains(*at)).count();
        assert!(within >= 4, "{samples:?}");
        assert!(samples.len() <= within + 8, "few where nothing happens: {samples:?}");
        assert!(*samples.last().unwrap() >= 1_089, "the last shows the last request: {samples:?}");
    }

    #[test]
    fn a_long_run_has_few_more() {
        let io: Vec<u64> = (0..2_000).map(|n| 500 + n * 10).collect();
        let samples = sampled(&io, 21_000);
        assert!((40..90).contains(&samples.len()), "{}: {samples:?}", samples.len());
        let steps: Vec<u64> = samples.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps[1..].iter().all(|step| *step <= 400), "{steps:?}");
    }

    #[test]
    fn without_a_device_samples_are_taken_at_equal_times() {
        let mut pace = SamplePace::new(LONGEST, None, Duration::ZERO);
        assert_eq!(pace.pause(Duration::ZERO), LONGEST);
        assert!(!pace.is_due(None, Duration::from_millis(300)) && pace.is_due(None, LONGEST));
    }
}
