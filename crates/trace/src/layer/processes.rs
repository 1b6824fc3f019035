//! Requests by thread, for a bounded number of threads.

use super::histogram::{CoarseHistogram, Exact};
use super::slab::NONE;
use super::table::{Key, Table, key};
use crate::event::{BlockEvent, Device, Direction, Flags};
use crate::metrics::{Phase, ProcessIntervals, ProcessMetrics};

/// The most threads of a device that are distinguished; the others are counted together.
pub(super) const MOST_PROCESSES: usize = 512;

/// How many [`Phase`]s a bio has: the first ones. Those after them are of requests.
pub(super) const PHASES: usize = Phase::Q2C as usize + 1;

#[derive(Clone, Debug, Default)]
struct Process {
    pid: u32,
    threads: u64,
    last_queued_ns: Option<u64>,
    read: (u64, u64),
    write: (u64, u64),
    flushes: u64,
    merged: u64,
    phases: [CoarseHistogram; PHASES],
}

/// The threads of one device's trace. The first slot holds those that found no place.
#[derive(Debug)]
pub(super) struct Processes {
    slots: Vec<Process>,
    by_pid: Table,
    most: usize,
    /// The pid that was asked for last and its slot: events of a thread come in bunches.
    last: (u32, u32),
}

fn key_of(pid: u32) -> Key {
    key(Device::default(), u64::from(pid))
}

impl Processes {
    /// Tells at most `most` threads apart.
    pub fn new(most: usize) -> Self {
        Self { slots: vec![Process::default()], by_pid: Table::default(), most, last: (0, NONE) }
    }

    /// The slot of a thread.
    #[inline]
    pub fn slot(&mut self, pid: u32) -> u32 {
        if self.last.0 == pid && self.last.1 != NONE {
            return self.last.1;
        }
        let mut slot = self.by_pid.get(key_of(pid));
        if slot == NONE {
            slot = self.admit(pid);
        }
        self.last = (pid, slot);
        slot
    }

    #[cold]
    fn admit(&mut self, pid: u32) -> u32 {
        if self.slots.len() > self.most {
            return 0;
        }
        let slot = self.slots.len() as u32;
        self.slots.push(Process { pid, threads: 1, ..Process::default() });
        self.by_pid.set(key_of(pid), slot);
        slot
    }

    /// Counts a bio with data.
    #[inline]
    pub fn queued(&mut self, slot: u32, event: &BlockEvent) {
        let process = &mut self.slots[slot as usize];
        let count = if event.direction == Direction::Read { &mut process.read } else { &mut process.write };
        count.0 += 1;
        count.1 += event.bytes;
        process.flushes += u64::from(event.flags.contains(Flags::FLUSH));
        if let Some(before) = process.last_queued_ns.replace(event.time_ns) {
            process.phases[Phase::Q2Q as usize].record(interval(before, event.time_ns));
        }
    }

    /// Counts a flush without data.
    pub fn flushed(&mut self, pid: u32) {
        let slot = self.slot(pid);
        self.slots[slot as usize].flushes += 1;
    }

    pub fn merged(&mut self, slot: u32) {
        self.slots[slot as usize].merged += 1;
    }

    #[inline]
    pub fn record(&mut self, slot: u32, phase: Phase, ns: u64) {
        self.slots[slot as usize].phases[phase as usize].record(ns);
    }

    /// Count, sum and extremes of an interval, of each thread.
    pub fn exact(&self, phase: Phase) -> impl Iterator<Item = &Exact> {
        self.slots.iter().map(move |process| process.phases[phase as usize].exact())
    }

    /// The largest by bytes first, those without a slot of their own last.
    pub fn finish(mut self, name_of: &dyn Fn(u32) -> Option<String>) -> Vec<ProcessMetrics> {
        let rest = std::mem::take(&mut self.slots[0]);
        let used = |p: &Process| p.read.0 + p.write.0 + p.flushes > 0;
        let mut own: Vec<_> = self.slots.into_iter().skip(1).filter(used).collect();
        own.sort_by_key(|p| (std::cmp::Reverse(p.read.1 + p.write.1), p.pid));
        let mut all: Vec<_> = own.iter().map(|p| metrics(p, Some(p.pid), name_of(p.pid))).collect();
        if used(&rest) {
            all.push(metrics(&rest, None, None));
        }
        all
    }
}

/// btt takes what is not after its beginning to have lasted 1 ns.
#[inline]
pub(super) fn interval(from: u64, to: u64) -> u64 {
    if to > from { to - from } else { 1 }
}

fn metrics(process: &Process, pid: Option<u32>, name: Option<String>) -> ProcessMetrics {
    let interval_of = |phase: Phase| process.phases[phase as usize].summary();
    ProcessMetrics {
        pid,
        name,
        threads: process.threads,
        read_queued: process.read.0,
        read_queued_bytes: process.read.1,
        write_queued: process.write.0,
        write_queued_bytes: process.write.1,
        flushes_queued: process.flushes,
        merged: process.merged,
        intervals: ProcessIntervals {
            q2q: interval_of(Phase::Q2Q),
            q2a: interval_of(Phase::Q2A),
            q2g: interval_of(Phase::Q2G),
            s2g: interval_of(Phase::S2G),
            g2i: interval_of(Phase::G2I),
            q2m: interval_of(Phase::Q2M),
            i2d: interval_of(Phase::I2D),
            m2d: interval_of(Phase::M2D),
            d2c: interval_of(Phase::D2C),
            q2c: interval_of(Phase::Q2C),
        },
    }
}
