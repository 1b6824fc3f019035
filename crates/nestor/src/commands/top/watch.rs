//! Events in, intervals out, until somebody has enough.

use std::time::Duration;

use anyhow::{Context, Result};
use nestor_capture::{LiveCapture, LiveEvent, LiveOptions, remove_stale_instances};
use nestor_kernel::processes::threads;
use nestor_top::{Fold, Happened};
use nestor_trace::recording::Moment;

use super::find::Found;
use super::output::{Kind, Output};
use crate::interrupt::stopped_by_signals;

/// How often the kernel's buffers are read, and how long a key may wait.
const PAUSE: Duration = Duration::from_millis(50);
/// After this time every event of a moment can be read: an event is in its buffer within microseconds, and a processor may be taken
/// away from who writes it.
const SETTLED_NS: u64 = 50_000_000;

/// Watches until the user, the virtual machine or the count ends it.
///
/// # Errors
/// The layers cannot be watched (that needs root and tracefs), or the terminal is gone.
pub fn watch(found: &Found, kind: Kind, interval: Duration, intervals: Option<u32>) -> Result<()> {
    let stop = stopped_by_signals()?;
    // Of a recorder that was killed.
    remove_stale_instances();
    let mut watching = Watching::start(found)?;
    let mut output = Output::open(kind, &found.layers, watching.remarks())?;
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let mut left = intervals;
    let mut next_ns = watching.begun_ns.saturating_add(interval_ns);
    while left != Some(0) {
        let goes_on = output.wait(PAUSE, &stop)?;
        watching.read()?;
        let is_over = !goes_on || !found.is_there();
        if is_over {
            if output.stays() {
                output.show(watching.rest()?)?;
            }
            break;
        }
        if now_ns() >= next_ns.saturating_add(SETTLED_NS) {
            watching.read()?;
            output.show(watching.cut(next_ns))?;
            next_ns = next_ns.saturating_add(interval_ns);
            left = left.map(|left| left - 1);
        }
    }
    Ok(())
}

fn now_ns() -> u64 {
    Moment::now().monotonic_ns
}

/// A capture with what is made of it.
struct Watching<'a> {
    found: &'a Found,
    capture: LiveCapture,
    fold: Fold,
    begun_ns: u64,
    lost_events: u64,
}

impl<'a> Watching<'a> {
    fn start(found: &'a Found) -> Result<Self> {
        let threads_now = || found.process.map(threads).unwrap_or_default();
        let options = LiveOptions { devices: found.layers.devices(), threads: threads_now() };
        let capture = LiveCapture::start(&options);
        let mut capture = match rustix::process::geteuid().is_root() {
            true => capture?,
            false => capture.context("watching a device needs root; use `sudo`")?,
        };
        while capture.add_threads(&threads_now())? {}
        let begun_ns = now_ns();
        let mut fold = Fold::new(found.layers.clone(), begun_ns);
        fold.set_machine(found.machine());
        Ok(Self { found, capture, fold, begun_ns, lost_events: 0 })
    }

    /// What is missing in all intervals.
    fn remarks(&self) -> Vec<String> {
        let no_calls =
            self.capture.no_calls().map(|why| format!("the hypervisor's calls are not seen: {why}"));
        no_calls.into_iter().collect()
    }

    fn read(&mut self) -> Result<()> {
        let fold = &mut self.fold;
        self.capture.read(&mut |event| {
            fold.push(match event {
                LiveEvent::Block(event) => Happened::Block(event),
                LiveEvent::FileIo(event) => Happened::FileIo(event),
            });
        })?;
        Ok(())
    }

    fn cut(&mut self, until_ns: u64) -> nestor_top::Interval {
        // Listed after all that is counted now, and before what follows.
        let machine = self.found.machine();
        let mut interval = self.fold.cut(until_ns);
        if self.found.is_there() {
            self.fold.set_machine(machine);
        }
        let lost_events = self.capture.lost_events();
        interval.lost_events = lost_events.saturating_sub(self.lost_events);
        self.lost_events = lost_events;
        interval
    }

    /// What happened until now and was not shown.
    fn rest(&mut self) -> Result<nestor_top::Interval> {
        let until_ns = now_ns();
        std::thread::sleep(Duration::from_nanos(SETTLED_NS));
        self.read()?;
        Ok(self.cut(until_ns))
    }
}
