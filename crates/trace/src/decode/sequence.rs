//! Checks the numbers and times that recorders give events.

use std::collections::HashMap;

use super::ReadWarnings;
use crate::event::{BlockEvent, Device};

/// The most recorders that are distinguished: every device has one on every CPU. Events of further ones are not checked.
const MOST_RECORDERS: usize = 1 << 12;

/// An idle time that is taken for a jump of the clock: a day. A machine that sleeps stops `CLOCK_MONOTONIC`.
const JUMP_NS: u64 = 86_400 * 1_000_000_000;

/// What the last event of a recorder was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    sequence: u32,
    time_ns: u64,
}

/// The last event of all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latest {
    pub device: Device,
    pub cpu: u32,
    pub sequence: u32,
    pub time_ns: u64,
}

impl Latest {
    /// Whether an event of the same recorder is simply the next one, with nothing to remark on.
    #[inline(always)]
    pub fn is_before(&self, sequence: u32, time_ns: u64) -> bool {
        sequence == self.sequence.wrapping_add(1) && time_ns.wrapping_sub(self.time_ns) <= JUMP_NS
    }
}

/// Finds losses and disorder in the events of each recorder.
#[derive(Debug, Default)]
pub(crate) struct SequenceCheck {
    /// The recorder of the last event, for events mostly come in rows of one.
    current: Option<((Device, u32), Last)>,
    others: HashMap<(Device, u32), Last>,
}

impl SequenceCheck {
    /// The last event, for who follows events for a while by [`Latest::is_before`].
    pub fn latest(&self) -> Option<Latest> {
        let ((device, cpu), Last { sequence, time_ns }) = self.current?;
        Some(Latest { device, cpu, sequence, time_ns })
    }

    /// Takes over again: `latest` is the last event now.
    pub fn resume(&mut self, latest: &Latest) {
        let Latest { device, cpu, sequence, time_ns } = *latest;
        self.current = Some(((device, cpu), Last { sequence, time_ns }));
    }

    /// Judges the next event.
    ///
    /// blktrace numbers a recorder's events from 1 when it has room for them, so a gap is a loss. Events without a number
    /// have 0.
    #[inline]
    pub fn check(&mut self, event: &BlockEvent, warnings: &mut ReadWarnings) {
        let recorder = (event.device, event.cpu);
        let now = Last { sequence: event.sequence, time_ns: event.time_ns };
        let last = match self.current {
            Some((current, last)) if current == recorder => Some(last),
            _ => self.switch(recorder, warnings),
        };
        self.current = Some((recorder, now));
        let Some(last) = last else { return };
        let step = now.time_ns.wrapping_sub(last.time_ns);
        if step > JUMP_NS {
            if now.time_ns < last.time_ns { warnings.out_of_order += 1 } else { warnings.clock_jumps += 1 }
        }
        if last.sequence != 0 && now.sequence > last.sequence {
            warnings.missing_records += u64::from(now.sequence - last.sequence - 1);
        }
    }

    #[cold]
    fn switch(&mut self, recorder: (Device, u32), warnings: &mut ReadWarnings) -> Option<Last> {
        if let Some((before, last)) = self.current.take()
            && (self.others.len() < MOST_RECORDERS || self.others.contains_key(&before))
        {
            self.others.insert(before, last);
        }
        let found = self.others.get(&recorder).copied();
        warnings.unchecked_events += u64::from(found.is_none() && self.others.len() >= MOST_RECORDERS);
        found
    }
}
