//! Keeping a trace's times.
//!
//! One thread sends and takes completions. Until shortly before the next request it sleeps (in the ring, where something is
//! in flight, so that completions are seen at once); the rest it spins, because a sleep ends late by what the machine takes
//! to wake up. How much that is is learnt from the sleeps themselves.

use std::io;

use nestor_trace::Operation;

use crate::clock::{now_ns, sleep_exactly, sleep_until};
use crate::engine::{Command, Completion, Engine};
use crate::plan::PlannedRequest;
use crate::speed::Speed;
use crate::watcher::{Step, Watcher};

/// From the start of the replay to the first request: everything is in place by then.
const LEAD_NS: u64 = 10_000_000;
/// The longest sleep, so that a request to stop is noticed.
const LONGEST_SLEEP_NS: u64 = 100_000_000;
/// A shorter sleep is not worth it.
const SHORTEST_SLEEP_NS: u64 = 20_000;
/// Requests handed over at once when several are due: more would let the first ones wait for the last.
const MOST_AT_ONCE: usize = 16;
/// How often progress is told.
const PROGRESS_NS: u64 = 250_000_000;

/// What is spun: at first, at least, at most.
const FIRST_SPIN_NS: u64 = 100_000;
const LEAST_SPIN_NS: u64 = 10_000;
const MOST_SPIN_NS: u64 = 400_000;

/// A moment that has not come.
pub(crate) const NEVER: u64 = u64::MAX;

/// How to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub speed: Speed,
    pub depth: usize,
    pub spin: bool,
}

/// A request that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub number: usize,
    pub result: i64,
}

/// What became of the requests; times count from when the first was intended.
#[derive(Debug)]
pub(crate) struct Paced {
    /// When each was sent, [`NEVER`] if it was not.
    pub submitted_ns: Vec<u64>,
    /// When each was complete, [`NEVER`] if it was not.
    pub completed_ns: Vec<u64>,
    /// How many were complete.
    pub done: u64,
    /// How many had to wait for room, because as many as may be were in flight.
    pub held_back: u64,
    /// Whether it was stopped.
    pub stopped: bool,
    /// The first that failed.
    pub failed: Option<Failed>,
}

/// How long before a request to wake up.
#[derive(Debug)]
pub(crate) struct Spin {
    enabled: bool,
    ns: u64,
}

impl Spin {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, ns: if enabled { FIRST_SPIN_NS } else { 0 } }
    }

    /// A sleep ended so late. Twice as much is spun from now on, if that is more than before; what was learnt fades away.
    pub(crate) fn woke_late(&mut self, late_ns: u64) {
        if self.enabled {
            let faded = self.ns - self.ns / 64;
            self.ns = faded.max(late_ns.saturating_mul(2)).clamp(LEAST_SPIN_NS, MOST_SPIN_NS);
        }
    }
}

struct Pacer<'a> {
    requests: &'a [PlannedRequest],
    engine: &'a mut dyn Engine,
    limits: &'a Limits,
    watcher: &'a dyn Watcher,
    begin_ns: u64,
    next: usize,
    in_flight: usize,
    spin: Spin,
    done: Vec<Completion>,
    batch: Vec<Command>,
    told_ns: u64,
    paced: Paced,
}

/// Sends all requests and waits until they are complete.
pub(crate) fn run_paced(
    requests: &[PlannedRequest],
    engine: &mut dyn Engine,
    limits: &Limits,
    watcher: &dyn Watcher,
) -> io::Result<Paced> {
    sleep_exactly();
    let begin_ns = now_ns() + LEAD_NS;
    let mut pacer = Pacer {
        requests,
        engine,
        limits,
        watcher,
        begin_ns,
        next: 0,
        in_flight: 0,
        spin: Spin::new(limits.spin),
        done: Vec::with_capacity(limits.depth.min(4096)),
        batch: Vec::with_capacity(MOST_AT_ONCE),
        told_ns: 0,
        paced: Paced {
            submitted_ns: vec![NEVER; requests.len()],
            completed_ns: vec![NEVER; requests.len()],
            done: 0,
            held_back: 0,
            stopped: false,
            failed: None,
        },
    };
    pacer.run()?;
    Ok(pacer.paced)
}

impl Pacer<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut held = false;
        while self.next < self.requests.len() && self.paced.failed.is_none() {
            if self.watcher.stopped() {
                self.paced.stopped = true;
                break;
            }
            let now = now_ns();
            self.tell(now);
            let due = self.due_ns(self.next);
            if due > now {
                self.idle_until(due)?;
            } else if self.in_flight >= self.limits.depth {
                if !held {
                    self.paced.held_back += 1;
                }
                held = true;
                self.wait_until(now + LONGEST_SLEEP_NS)?;
            } else {
                held = false;
                self.send(now)?;
                self.reap()?;
            }
        }
        while self.in_flight > 0 {
            let now = now_ns();
            self.tell(now);
            self.wait_until(now + LONGEST_SLEEP_NS)?;
        }
        Ok(())
    }

    /// When a request is to be sent, on the clock.
    fn due_ns(&self, number: usize) -> u64 {
        match self.limits.speed.intended_ns(self.requests[number].time_ns) {
            Some(intended_ns) => self.begin_ns.saturating_add(intended_ns),
            None => self.begin_ns,
        }
    }

    /// Sends what is due, as far as there is room.
    fn send(&mut self, now: u64) -> io::Result<()> {
        let room = (self.limits.depth - self.in_flight).min(MOST_AT_ONCE);
        self.batch.clear();
        while self.batch.len() < room && self.next < self.requests.len() && self.due_ns(self.next) <= now {
            self.batch.push(Command { number: self.next, request: self.requests[self.next] });
            self.next += 1;
        }
        let submitted_ns = now_ns() - self.begin_ns;
        for command in &self.batch {
            self.paced.submitted_ns[command.number] = submitted_ns;
        }
        self.in_flight += self.batch.len();
        self.engine.submit(&self.batch)
    }

    /// Takes completions until a request is due, or something else may have to be done.
    fn idle_until(&mut self, due: u64) -> io::Result<()> {
        self.reap()?;
        let now = now_ns();
        let until = due.saturating_sub(self.spin.ns);
        if until > now.saturating_add(SHORTEST_SLEEP_NS) || (!self.limits.spin && until > now) {
            let until = until.min(now + LONGEST_SLEEP_NS);
            if self.in_flight > 0 {
                self.wait_until(until)?;
            } else {
                sleep_until(until);
            }
            // Woken by a completion or a signal it is early, and says nothing.
            let woken = now_ns();
            if woken >= until {
                self.spin.woke_late(woken - until);
            }
            return Ok(());
        }
        while now_ns() < due && self.paced.failed.is_none() {
            if self.engine.wants_the_processor() && self.in_flight > 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            self.reap()?;
        }
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        self.engine.reap(&mut self.done)?;
        self.note();
        Ok(())
    }

    fn wait_until(&mut self, until_ns: u64) -> io::Result<()> {
        self.engine.wait(until_ns, &mut self.done)?;
        self.note();
        Ok(())
    }

    fn note(&mut self) {
        for completion in self.done.drain(..) {
            let Completion { number, begun_ns, completed_ns, result } = completion;
            self.in_flight -= 1;
            if let Some(begun_ns) = begun_ns {
                self.paced.submitted_ns[number] = begun_ns.saturating_sub(self.begin_ns);
            }
            let request = &self.requests[number];
            let whole = match request.operation {
                Operation::Read | Operation::Write => result == request.bytes() as i64,
                Operation::Flush | Operation::Discard => result >= 0,
            };
            if whole {
                self.paced.completed_ns[number] = completed_ns.saturating_sub(self.begin_ns);
                self.paced.done += 1;
            } else if self.paced.failed.is_none() {
                self.paced.failed = Some(Failed { number, result });
            }
        }
    }

    fn tell(&mut self, now: u64) {
        if now.saturating_sub(self.told_ns) >= PROGRESS_NS {
            self.told_ns = now;
            self.watcher.progress(Step::Replaying, self.paced.done, self.requests.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spun_follows_what_sleeping_costs() {
        let mut spin = Spin::new(true);
        spin.woke_late(120_000);
        assert_eq!(spin.ns, 240_000);
        spin.woke_late(10_000_000);
        assert_eq!(spin.ns, MOST_SPIN_NS, "a machine that was away for long must not burn a core for ever");
        for _ in 0..1000 {
            spin.woke_late(2_000);
        }
        assert_eq!(spin.ns, LEAST_SPIN_NS);
        let mut none = Spin::new(false);
        none.woke_late(120_000);
        assert_eq!(none.ns, 0);
    }
}
