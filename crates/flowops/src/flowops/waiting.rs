//! Waiting for other threads, for rates and for time; using the processor; ending.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nestor_wml::{FlowopKind, Value};

use crate::program::Step;
use crate::worker::{Next, Own, Worker};

/// One event of a bandwidth limit: `flowoplib_bwlimit`.
const BANDWIDTH_EVENT_BYTES: u64 = 1 << 20;

/// Turns of a hog between two looks whether the run is over: some milliseconds.
const HOG_PIECE: u64 = 1 << 22;

impl<'p> Worker<'_, 'p> {
    pub(crate) fn block(&mut self, step: &Step<'p>) -> Next {
        let Some(point) = self.waiting_points[step.number].clone() else { return Next::Step };
        let begin = Instant::now();
        point.block(self.shared.ending);
        self.record(step, begin, 0);
        Next::Step
    }

    pub(crate) fn wake_up(&mut self, step: &Step<'p>) -> Next {
        let begin = Instant::now();
        for point in self.targets(step) {
            point.wake();
        }
        self.record(step, begin, 0);
        Next::Step
    }

    pub(crate) fn semaphore_block(&mut self, step: &Step<'p>) -> Next {
        let value = self.random.value(&step.flowop.value);
        let Some(point) = self.waiting_points[step.number].clone() else { return Next::Step };
        let begin = Instant::now();
        point.wait_for(value, self.shared.ending);
        self.record(step, begin, 0);
        Next::Step
    }

    pub(crate) fn semaphore_post(&mut self, step: &Step<'p>) -> Next {
        let value = self.random.value(&step.flowop.value);
        let begin = Instant::now();
        for point in self.targets(step) {
            point.post(value, step.flowop.blocking, self.shared.ending);
        }
        self.record(step, begin, 0);
        Next::Step
    }

    fn targets(&self, step: &Step<'_>) -> &'_ [std::sync::Arc<crate::signals::WaitingPoint>] {
        let target = step.flowop.target.as_deref().unwrap_or_default();
        self.shared.waiting_points.get(target).map_or(&[], Vec::as_slice)
    }

    /// Uses the processor: `value` times as much as storing a byte.
    pub(crate) fn hog(&mut self, step: &Step<'p>) -> Next {
        let value = self.random.value(&step.flowop.value);
        let begin = Instant::now();
        let mut byte = 0u8;
        let mut left = value;
        while left > 0 {
            let some = left.min(HOG_PIECE);
            for _ in 0..some {
                byte = std::hint::black_box(1);
            }
            left -= some;
            if self.shared.ending.is_over() {
                return Next::Over;
            }
        }
        std::hint::black_box(byte);
        self.record(step, begin, 0);
        Next::Step
    }

    /// Sleeps for `value` seconds.
    pub(crate) fn delay(&mut self, step: &Step<'p>) -> Next {
        let seconds = match &step.flowop.value {
            Value::Fixed(seconds) => *seconds as f64,
            Value::Drawn(variable) => variable.draw(&mut self.random).max(0.0),
        };
        let begin = Instant::now();
        let slept = match Duration::try_from_secs_f64(seconds).ok().and_then(|time| begin.checked_add(time)) {
            Some(due) => self.shared.ending.sleep_until(due),
            // Longer than clocks count: until the run is over.
            None => self.shared.ending.sleep_until(begin + Duration::from_secs(u64::from(u32::MAX))),
        };
        if !slept {
            return Next::Over;
        }
        self.record(step, begin, 0);
        Next::Step
    }

    pub(crate) fn event_limit(&mut self, step: &Step<'p>) -> Next {
        self.pay(step, 1)
    }

    /// Waits for the next events.
    fn pay(&mut self, step: &Step<'p>, events: u64) -> Next {
        let Some(pace) = &self.shared.events else { return Next::Step };
        let begin = Instant::now();
        if pace.take(events, self.shared.ending).is_none() {
            return Next::Over;
        }
        self.record(step, begin, 0);
        Next::Step
    }

    /// `bwlimit`, `iopslimit`, `opslimit`: pays in events for what was done since the last time.
    pub(crate) fn limit(&mut self, step: &Step<'p>) -> Next {
        if self.shared.events.is_none() {
            return Next::Step;
        }
        let unit = if step.flowop.kind == FlowopKind::BandwidthLimit { BANDWIDTH_EVENT_BYTES } else { 1 };
        let events = match self.target_number(step) {
            Some(target) => {
                let Own { operations, bytes, .. } = self.own[target];
                let done = if unit > 1 { bytes } else { operations } / unit;
                done - std::mem::replace(&mut self.own[step.number].paid, done)
            }
            None => {
                let totals = &self.shared.totals;
                let done = match step.flowop.kind {
                    FlowopKind::BandwidthLimit => &totals.bytes,
                    FlowopKind::IopsLimit => &totals.reads_and_writes,
                    _ => &totals.operations,
                };
                self.shared.limits[step.row].owed(done.load(Ordering::Relaxed) / unit)
            }
        };
        if events == 0 { Next::Step } else { self.pay(step, events) }
    }

    pub(crate) fn finish_on(&mut self, step: &Step<'p>) -> Next {
        let wanted = self.random.value(&step.flowop.value);
        let by_bytes = step.flowop.kind == FlowopKind::FinishOnBytes;
        let reached = match self.target_number(step) {
            Some(target) if by_bytes => self.own[target].bytes > wanted,
            Some(target) => self.own[target].operations >= wanted,
            None if by_bytes => self.shared.totals.bytes.load(Ordering::Relaxed) > wanted,
            None => self.shared.totals.operations.load(Ordering::Relaxed) >= wanted,
        };
        if reached { Next::Done(None) } else { Next::Step }
    }

    /// The step of this thread that a limit is about.
    fn target_number(&self, step: &Step<'_>) -> Option<usize> {
        fn find(steps: &[Step<'_>], name: &str) -> Option<usize> {
            steps.iter().find_map(|step| {
                if step.flowop.name == name { Some(step.number) } else { find(&step.inner, name) }
            })
        }
        step.flowop.target.as_deref().and_then(|name| find(&self.plan.steps, name))
    }

    pub(crate) fn print(&mut self, step: &Step<'p>) -> Next {
        let text = step.flowop.text.as_deref().unwrap_or_default();
        (self.shared.say)(&format!("{}: {text}", self.name));
        Next::Step
    }

    pub(crate) fn test_random_variable(&mut self, step: &Step<'p>) -> Next {
        let drawn = match &step.flowop.value {
            Value::Fixed(number) => *number as f64,
            Value::Drawn(variable) => variable.draw(&mut self.random),
        };
        let own = &mut self.own[step.number];
        own.operations += 1;
        own.drawn.0 += drawn;
        own.drawn.1 += drawn * drawn;
        Next::Step
    }
}
