//! Checks the numbers and times that recorders give events.

use std::collections::HashMap;

use super::ReadWarnings;
use crate::event::{BlockEvent, Device};

/// Recorders that are told apart: every device has one on every CPU. Events of further ones are not checked.
const MOST_RECORDERS: usize = 1 << 16;

/// An idle time that is taken for a jump of the clock: a day. A machine that sleeps stops `CLOCK_MONOTONIC`.
const JUMP_NS: u64 = 86_400 * 1_000_000_000;

/// What the last event of a recorder was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    sequence: u32,
    time_ns: u64,
}

/// Finds losses and disorder in the events of each recorder.
#[derive(Debug, Default)]
pub(crate) struct SequenceCheck {
    /// The recorder of the last event, for events mostly come in rows of one.
    current: Option<((Device, u32), Last)>,
    others: HashMap<(Device, u32), Last>,
}

impl SequenceCheck {
    /// Whether an event is simply the next one of the recorder of the last; if so, it is judged.
    #[inline(always)]
    pub fn follows(&mut self, recorder: (Device, u32), sequence: u32, time_ns: u64) -> bool {
        let Some((current, last)) = &mut self.current else { return false };
        let follows = *current == recorder
            && sequence == last.sequence.wrapping_add(1)
            && time_ns.wrapping_sub(last.time_ns) <= JUMP_NS;
        if follows {
            *last = Last { sequence, time_ns };
        }
        follows
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
            _ => self.switch(recorder),
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
    fn switch(&mut self, recorder: (Device, u32)) -> Option<Last> {
        if let Some((before, last)) = self.current.take()
            && (self.others.len() < MOST_RECORDERS || self.others.contains_key(&before))
        {
            self.others.insert(before, last);
        }
        self.others.get(&recorder).copied()
    }
}
