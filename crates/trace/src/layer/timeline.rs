//! Counts by time in a bounded number of steps.

use crate::metrics::Timeline;
use crate::request::{Operation, Request};

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    queued: u64,
    issued: u64,
    completed: u64,
    read_bytes: u64,
    write_bytes: u64,
    /// Requests times nanoseconds.
    outstanding: u64,
    depth: u64,
    depth_max: u32,
}

impl Step {
    fn merge(&mut self, other: &Self) {
        self.queued += other.queued;
        self.issued += other.issued;
        self.completed += other.completed;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.outstanding = self.outstanding.saturating_add(other.outstanding);
        self.depth = self.depth.saturating_add(other.depth);
        self.depth_max = self.depth_max.max(other.depth_max);
    }
}

/// Fills a [`Timeline`]. Steps begin 1 µs wide; whenever there are too many, each two become one.
#[derive(Debug)]
pub(super) struct Clock {
    started: bool,
    start_ns: u64,
    now_ns: u64,
    /// Width of a step as a power of two.
    shift: u32,
    at: usize,
    /// End of the step that is being filled.
    end_ns: u64,
    steps: Vec<Step>,
    depth: u32,
}

/// What one event adds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happened {
    Queued,
    Issued,
    CompletedRead(u64),
    CompletedWrite(u64),
    CompletedOther,
    GivenBack,
}

impl Clock {
    pub fn new() -> Self {
        Self {
            started: false,
            start_ns: 0,
            now_ns: 0,
            shift: 10,
            at: 0,
            end_ns: 0,
            steps: vec![Step::default(); Timeline::MOST_STEPS],
            depth: 0,
        }
    }

    /// Counts an event; `outstanding` is how many requests there were until it.
    #[inline]
    pub fn push(&mut self, time_ns: u64, what: Happened, outstanding: usize) {
        if !self.started {
            (self.started, self.start_ns, self.now_ns) = (true, time_ns, time_ns);
        }
        self.advance(time_ns, outstanding as u64);
        let step = &mut self.steps[self.at];
        match what {
            Happened::Queued => step.queued += 1,
            Happened::Issued => {
                step.issued += 1;
                self.depth += 1;
                step.depth_max = step.depth_max.max(self.depth);
                return;
            }
            Happened::CompletedRead(bytes) => {
                step.completed += 1;
                step.read_bytes += bytes;
            }
            Happened::CompletedWrite(bytes) => {
                step.completed += 1;
                step.write_bytes += bytes;
            }
            Happened::CompletedOther => step.completed += 1,
            Happened::GivenBack => {}
        }
        if !matches!(what, Happened::Queued) {
            self.depth = self.depth.saturating_sub(1);
        }
    }

    /// Adds what was outstanding since the last event.
    #[inline]
    fn advance(&mut self, time_ns: u64, outstanding: u64) {
        let mut past = time_ns.saturating_sub(self.now_ns);
        if time_ns >= self.end_ns {
            past = self.cross(time_ns, outstanding);
        }
        let step = &mut self.steps[self.at];
        // Overflows after centuries; a clock that jumps so far gives no sensible depth anyway.
        step.outstanding = step.outstanding.wrapping_add(past.wrapping_mul(outstanding));
        step.depth = step.depth.wrapping_add(past.wrapping_mul(u64::from(self.depth)));
        self.now_ns = self.now_ns.max(time_ns);
    }

    /// Goes on to the step of `time_ns`; says how much of the time up to then is in it.
    #[cold]
    fn cross(&mut self, time_ns: u64, outstanding: u64) -> u64 {
        let past_start = time_ns - self.start_ns;
        while past_start >> self.shift >= self.steps.len() as u64 {
            for i in 0..self.steps.len() / 2 {
                let mut first = self.steps[2 * i];
                first.merge(&self.steps[2 * i + 1]);
                self.steps[i] = first;
            }
            let half = self.steps.len() / 2;
            self.steps[half..].fill(Step::default());
            self.shift += 1;
            self.at /= 2;
        }
        let target = (past_start >> self.shift) as usize;
        let mut from = self.now_ns - self.start_ns;
        while self.at < target {
            let end = (self.at as u64 + 1) << self.shift;
            let within = end.saturating_sub(from);
            let step = &mut self.steps[self.at];
            step.outstanding = step.outstanding.saturating_add(within.saturating_mul(outstanding));
            step.depth = step.depth.saturating_add(within.saturating_mul(u64::from(self.depth)));
            from = end;
            self.at += 1;
            let step = &mut self.steps[self.at];
            step.depth_max = step.depth_max.max(self.depth);
        }
        self.end_ns = self.start_ns.saturating_add((self.at as u64 + 1).saturating_mul(1 << self.shift));
        past_start - from
    }

    /// `None` without events.
    pub fn finish(&self) -> Option<Timeline> {
        if !self.started {
            return None;
        }
        let steps = &self.steps[..=self.at];
        let width = 1_u64 << self.shift;
        // The last step ends with the last event.
        let last = (self.now_ns - self.start_ns).saturating_sub((self.at as u64) << self.shift).max(1);
        let mean = |of: fn(&Step) -> u64| {
            let width_of = |i: usize| if i == self.at { last } else { width };
            steps.iter().enumerate().map(|(i, step)| rounded(of(step) as f64 / width_of(i) as f64)).collect()
        };
        let column = |of: fn(&Step) -> u64| steps.iter().map(of).collect();
        Some(Timeline {
            start_ns: self.start_ns,
            step_ns: width,
            queued: column(|s| s.queued),
            issued: column(|s| s.issued),
            completed: column(|s| s.completed),
            read_bytes: column(|s| s.read_bytes),
            write_bytes: column(|s| s.write_bytes),
            outstanding: mean(|s| s.outstanding),
            depth: mean(|s| s.depth),
            depth_max: steps.iter().map(|s| s.depth_max).collect(),
        })
    }
}

/// Fills a [`Timeline`] with requests whose beginning and end are known, in no strict order.
#[derive(Debug)]
pub(super) struct Spans {
    clock: Clock,
}

impl Spans {
    pub fn new() -> Self {
        Self { clock: Clock::new() }
    }

    /// Adds a request: it is outstanding from when it was queued and with the device from when it was issued.
    pub fn push(&mut self, request: &Request) {
        let clock = &mut self.clock;
        if !clock.started {
            (clock.started, clock.start_ns, clock.now_ns) = (true, request.queued_ns, request.queued_ns);
        }
        clock.advance(request.completed_ns, 0);
        let to_ns = request.completed_ns;
        self.spread(request.queued_ns, to_ns, |step, ns| {
            step.outstanding = step.outstanding.saturating_add(ns)
        });
        self.spread(request.issued_ns, to_ns, |step, ns| step.depth = step.depth.saturating_add(ns));
        self.step_at(request.queued_ns).queued += 1;
        self.step_at(request.issued_ns).issued += 1;
        let step = self.step_at(to_ns);
        step.completed += 1;
        match request.operation {
            Operation::Read => step.read_bytes += request.bytes,
            Operation::Write => step.write_bytes += request.bytes,
            Operation::Flush | Operation::Discard => {}
        }
    }

    fn index(&self, time_ns: u64) -> usize {
        let past = time_ns.saturating_sub(self.clock.start_ns) >> self.clock.shift;
        (past as usize).min(self.clock.at)
    }

    fn step_at(&mut self, time_ns: u64) -> &mut Step {
        let at = self.index(time_ns);
        &mut self.clock.steps[at]
    }

    fn spread(&mut self, from_ns: u64, to_ns: u64, add: impl Fn(&mut Step, u64)) {
        let (start_ns, shift) = (self.clock.start_ns, self.clock.shift);
        let mut from = from_ns.saturating_sub(start_ns);
        let to = to_ns.saturating_sub(start_ns);
        for at in self.index(from_ns)..=self.index(to_ns) {
            let end = (at as u64 + 1).saturating_mul(1 << shift).min(to);
            add(&mut self.clock.steps[at], end.saturating_sub(from));
            from = from.max(end);
        }
    }

    /// `None` without requests. The largest depth is not known, because the order is not.
    pub fn finish(&self) -> Option<Timeline> {
        let timeline = self.clock.finish()?;
        Some(Timeline { depth_max: Vec::new(), ..timeline })
    }
}

/// To thousandths, so that stored results stay short.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_averaged_over_time_however_wide_the_steps_become() {
        let mut clock = Clock::new();
        // One request of 750 ms in every second, for a thousand seconds.
        for second in 0..1000_u64 {
            let start = 5_000 + second * 1_000_000_000;
            clock.push(start, Happened::Queued, 0);
            clock.push(start, Happened::Issued, 1);
            clock.push(start + 750_000_000, Happened::CompletedRead(4096), 1);
        }
        let timeline = clock.finish().unwrap();
        assert!((Timeline::MOST_STEPS / 2..=Timeline::MOST_STEPS).contains(&timeline.depth.len()));
        assert_eq!(timeline.queued.iter().sum::<u64>(), 1000);
        assert_eq!(timeline.read_bytes.iter().sum::<u64>(), 4_096_000);
        assert!((timeline.mean_depth().unwrap() - 0.75).abs() < 0.01, "{:?}", timeline.mean_depth());
        assert_eq!(timeline.outstanding, timeline.depth);
        assert!(timeline.depth_max.iter().all(|&depth| depth == 1));
    }

    #[test]
    fn clocks_that_jump_do_no_harm() {
        let mut clock = Clock::new();
        for time_ns in [100, 0, u64::MAX, 5, u64::MAX - 1] {
            clock.push(time_ns, Happened::Issued, 3);
        }
        let timeline = clock.finish().unwrap();
        assert_eq!(timeline.issued.iter().sum::<u64>(), 5);
    }
}
