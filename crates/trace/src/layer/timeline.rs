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
    Completed { read_bytes: u64, write_bytes: u64 },
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
            Happened::Completed { read_bytes, write_bytes } => {
                step.completed += 1;
                step.read_bytes += read_bytes;
                step.write_bytes += write_bytes;
            }
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
pub(crate) struct Spans {
    clock: Clock,
    /// Every request came with the depth that it met.
    depths_known: bool,
}

impl Spans {
    pub fn new() -> Self {
        Self { clock: Clock::new(), depths_known: true }
    }

    /// Adds a request that a device logged: it is with the device from when it arrived there, and `depth` requests
    /// were then, itself included.
    pub fn push_at_device(&mut self, request: &Request, depth: u32) {
        let known = self.depths_known;
        self.push(&Request { issued_ns: request.queued_ns, ..*request });
        self.depths_known = known;
        let step = self.step_at(request.queued_ns);
        step.depth_max = step.depth_max.max(depth);
    }

    /// Adds a request: it is outstanding from when it was queued and with the device from when it was issued.
    pub fn push(&mut self, request: &Request) {
        self.depths_known = false;
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

    /// `None` without requests. The largest depth is known only if every request said which it met, because the order
    /// is not.
    pub fn finish(&self) -> Option<Timeline> {
        let mut timeline = self.clock.finish()?;
        if !self.depths_known {
            timeline.depth_max = Vec::new();
            return Some(timeline);
        }
        // Depth rises only when a request arrives, so a step's largest is what it met or what the step began with.
        let mut begun_with = 0_u64;
        for (at, most) in timeline.depth_max.iter_mut().enumerate() {
            *most = (*most).max(u32::try_from(begun_with).unwrap_or(u32::MAX));
            begun_with = (begun_with + timeline.issued[at]).saturating_sub(timeline.completed[at]);
        }
        Some(timeline)
    }
}

/// To thousandths, so that stored results stay short.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(queued_ns: u64, issued_ns: u64, completed_ns: u64) -> Request {
        Request {
            id: 0,
            operation: Operation::Write,
            flags: crate::event::Flags::default(),
            class: nestor_layout::Class::Unknown,
            offset: 0,
            bytes: 4096,
            queued_ns,
            issued_ns,
            completed_ns,
            bios: 1,
            pid: 0,
        }
    }

    #[test]
    fn depth_is_averaged_over_time_however_wide_the_steps_become() {
        let mut clock = Clock::new();
        // One request of 750 ms in every second, for a thousand seconds.
        for second in 0..1000_u64 {
            let start = 5_000 + second * 1_000_000_000;
            clock.push(start, Happened::Queued, 0);
            clock.push(start, Happened::Issued, 1);
            let read = Happened::Completed { read_bytes: 4096, write_bytes: 0 };
            clock.push(start + 750_000_000, read, 1);
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
    fn a_devices_log_gives_the_same_depths_as_the_events() {
        // Requests of 10 us that begin every 3 us, and after them one alone; the second is overtaken by the third.
        let mut requests: Vec<(u64, u64)> = (0..40).map(|i| (i * 3_000, i * 3_000 + 10_000)).collect();
        (requests[1].1, requests[2].1) = (requests[2].1, requests[1].1);
        requests.push((1_000_000, 1_000_500));
        let mut events: Vec<(u64, bool, u64)> =
            requests.iter().flat_map(|&(from, to)| [(from, false, 4096), (to, true, 4096)]).collect();
        events.sort_unstable();
        let mut clock = Clock::new();
        let mut met = std::collections::HashMap::new();
        let mut outstanding = 0;
        for (time_ns, completes, bytes) in events {
            if completes {
                clock.push(time_ns, Happened::Completed { read_bytes: 0, write_bytes: bytes }, outstanding);
                outstanding -= 1;
            } else {
                clock.push(time_ns, Happened::Queued, outstanding);
                outstanding += 1;
                clock.push(time_ns, Happened::Issued, outstanding);
                met.insert(time_ns, outstanding as u32);
            }
        }
        requests.sort_unstable_by_key(|&(_, to)| to);
        let mut spans = Spans::new();
        for (queued_ns, completed_ns) in requests {
            // When the device began with it is its own affair.
            let request = write(queued_ns, completed_ns - 1, completed_ns);
            spans.push_at_device(&request, met[&queued_ns]);
        }
        let (expected, found) = (clock.finish().unwrap(), spans.finish().unwrap());
        assert_eq!(found, expected);
        assert_eq!(found.depth_max.iter().max(), Some(&4));
        assert!(found.mean_depth().unwrap() > 0.3);
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
