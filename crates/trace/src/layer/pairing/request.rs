//! A request in flight.

use super::super::slab::{Id, NONE};
use super::RequestLife;
use crate::event::{BlockEvent, Device, Direction, Flags, SECTOR_BYTES};

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    Inserted,
    Issued,
}

/// A time, or that it was not seen; in one word, because requests are copied about for every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen(u64);

impl Seen {
    pub const NEVER: Self = Self(u64::MAX);

    pub fn at(time_ns: u64) -> Self {
        Self(time_ns.min(u64::MAX - 1))
    }

    pub fn is_seen(self) -> bool {
        self != Self::NEVER
    }

    pub fn ns(self) -> Option<u64> {
        self.is_seen().then_some(self.0)
    }

    /// The earlier one; what was not seen is later than all.
    pub fn first(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub device: Device,
    pub direction: Direction,
    pub state: State,
    /// Sectors still to be completed.
    pub start: u64,
    pub end: u64,
    /// Sectors when it was sent.
    pub issued: (u64, u64),
    /// A bio asked for FUA and the device was not asked for it.
    pub flush_follows: bool,
    pub queued: Seen,
    pub got: Seen,
    pub inserted: Seen,
    pub sent: Seen,
    /// Of the event that began it or sent it.
    pub(super) flags: Flags,
    /// The thread of that event.
    pub(super) pid: u32,
    /// Of the bios that have ended with it so far: the first, and how many.
    pub(super) first_bio: Option<FirstBio>,
    pub(super) bios: u32,
    pub(super) first_piece: Id,
    pub(super) last_piece: Id,
    /// The next with the same start, the next with the same end.
    pub(super) next_start: Id,
    pub(super) next_end: Id,
    /// Neighbours in the order of beginning.
    pub(super) older: Id,
    pub(super) newer: Id,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FirstBio {
    pub(super) queued_ns: u64,
    pub(super) pid: u32,
    pub(super) flags: Flags,
}

impl Request {
    /// A request that an event begins.
    pub fn new(event: &BlockEvent) -> Self {
        Self {
            device: event.device,
            direction: event.direction,
            state: State::Queued,
            start: event.sector,
            end: event.end_sector(),
            issued: (event.sector, event.end_sector()),
            flush_follows: false,
            queued: Seen::NEVER,
            got: Seen::NEVER,
            inserted: Seen::NEVER,
            sent: Seen::NEVER,
            flags: event.flags,
            pid: event.pid,
            first_bio: None,
            bios: 0,
            first_piece: NONE,
            last_piece: NONE,
            next_start: NONE,
            next_end: NONE,
            older: NONE,
            newer: NONE,
        }
    }

    /// It was sent.
    pub fn issued(&mut self, event: &BlockEvent) {
        self.sent = Seen::at(event.time_ns);
        self.state = State::Issued;
        self.issued = (self.start, self.end);
        self.flush_follows &= !event.flags.contains(Flags::FUA);
        self.flags = event.flags;
    }

    pub fn life(&self, completed_ns: u64) -> RequestLife {
        let (start, end) = if self.sent.is_seen() { self.issued } else { (self.start, self.end) };
        RequestLife {
            device: self.device,
            direction: self.direction,
            sector: start,
            bytes: end.saturating_sub(start).saturating_mul(SECTOR_BYTES),
            flags: self.first_bio.map_or(self.flags, |bio| self.flags.union(bio.flags)),
            pid: self.first_bio.map_or(self.pid, |bio| bio.pid),
            bios: self.bios,
            first_bio_ns: self.first_bio.map(|bio| bio.queued_ns),
            queued_ns: self.queued.ns(),
            got_ns: self.got.ns(),
            inserted_ns: self.inserted.ns(),
            issued_ns: self.sent.ns(),
            completed_ns,
        }
    }
}
