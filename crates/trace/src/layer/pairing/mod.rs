//! Following requests from Q to C.
//!
//! What the layer above hands over (Q) is a *bio*; what is sent to the device (D) is a *request*: one bio, several
//! merged (M, F), or a part of one that was split (X). The same bytes are therefore followed as *pieces* of bios in
//! requests. A request is found by device, first sector and direction; among several with the same, the one with
//! the right length and state, oldest first (a merge: newest first, because it follows its Q at once).
//!
//! - Bios are ended by the completion of their last piece. If the block layer itself carries out FUA by a flush
//!   after the data (the D lacks the flag that the Q had), the kernel completes such a request a second time with
//!   zero bytes; that one ends the bio.
//! - An event that does not fit what is known is made to fit the shortest way: a longer request is cut, a shorter
//!   one takes in the requests behind it, and one that is not known at all begins its life there, without bios.
//!   So merges and splits that were not recorded do no harm.
//! - Flushes without data are paired in their order, apart from the rest.
//! - Memory is that of the requests in flight, at most [`MOST_IN_FLIGHT`]; beyond it the oldest are given up.

mod flushes;
mod request;
mod requests;

use super::slab::NONE;
use crate::event::{Action, BlockEvent, Device, Direction, Flags, SECTOR_BYTES};

use flushes::Flushes;
use request::{Request, Seen, State};
use requests::Requests;

/// Requests followed at once. A kernel's queues hold some thousands per device at most.
pub const MOST_IN_FLIGHT: usize = 1 << 16;

/// A request's life, reported when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLife {
    /// The device.
    pub device: Device,
    /// What it moved.
    pub direction: Direction,
    /// First sector when it was sent.
    pub sector: u64,
    /// Bytes when it was sent; 0 for a flush.
    pub bytes: u64,
    /// Modifiers of its first bio and those it was sent with.
    pub flags: Flags,
    /// The thread that queued its first bio; where that is not in the trace, the one that began it.
    pub pid: u32,
    /// Bios that were merged into it, counting those of which it has a part; 0 where none is in the trace.
    pub bios: u32,
    /// Q of the first of these bios.
    pub first_bio_ns: Option<u64>,
    /// Q of its first bio; `None` if that is not in the trace.
    pub queued_ns: Option<u64>,
    /// G.
    pub got_ns: Option<u64>,
    /// The first I; `None` if it was sent without being inserted.
    pub inserted_ns: Option<u64>,
    /// The last D; `None` on devices that have no requests.
    pub issued_ns: Option<u64>,
    /// The last C with data.
    pub completed_ns: u64,
}

/// A bio's life, reported when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BioLife {
    /// The device.
    pub device: Device,
    /// What it moved.
    pub direction: Direction,
    /// Q.
    pub queued_ns: u64,
    /// The C that ended it.
    pub completed_ns: u64,
}

/// Receives the lives that ended.
pub trait Observer {
    /// A request has ended.
    fn request_ended(&mut self, life: &RequestLife);
    /// A bio with data has ended.
    fn bio_ended(&mut self, life: &BioLife);
    /// A flush without data was sent (D) and has ended (C).
    fn flush_ended(&mut self, life: &RequestLife);
}

/// What could not be paired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpaired {
    /// Inserts and issues of requests whose Q is not in the trace.
    pub begun_before: u64,
    /// Merges of which one part is not in the trace.
    pub merges: u64,
    /// Completions of requests whose D is not in the trace.
    pub completions: u64,
    /// Given up because too many were in flight.
    pub given_up: u64,
    /// Events with impossible sectors.
    pub impossible: u64,
}

/// Follows requests; see the module.
#[derive(Debug)]
pub struct Pairing {
    requests: Requests,
    flushes: Flushes,
    unpaired: Unpaired,
}

impl Default for Pairing {
    fn default() -> Self {
        Self::new()
    }
}

impl Pairing {
    /// Nothing is in flight.
    pub fn new() -> Self {
        Self::with_most(MOST_IN_FLIGHT)
    }

    /// Follows at most `most` requests at once.
    pub(super) fn with_most(most: usize) -> Self {
        Self { requests: Requests::new(most), flushes: Flushes::default(), unpaired: Unpaired::default() }
    }

    /// What could not be paired so far.
    pub fn unpaired(&self) -> Unpaired {
        Unpaired { given_up: self.requests.given_up(), ..self.unpaired }
    }

    /// Requests that have begun and not ended.
    pub fn in_flight(&self) -> usize {
        self.requests.in_flight()
    }

    /// Takes the next event, in the order of time.
    pub fn push(&mut self, event: &BlockEvent, observer: &mut impl Observer) {
        self.take(event.action, event, observer);
    }

    /// As [`Self::push`]; `action` is the event's action, which the caller knows.
    #[inline(always)]
    pub(super) fn take(&mut self, action: Action, event: &BlockEvent, observer: &mut impl Observer) {
        if event.flags.contains(Flags::PASSTHROUGH) {
            return;
        }
        if action == Action::Queue && event.flags.contains(Flags::FLUSH) {
            self.flushes.asked(event);
        }
        if event.bytes < SECTOR_BYTES {
            self.flushes.push(event, observer);
            return;
        }
        if event.sector.checked_add(event.bytes / SECTOR_BYTES).is_none() {
            self.unpaired.impossible += 1;
            return;
        }
        self.requests.bound_pieces();
        match action {
            Action::Queue => {
                self.requests.queue(event);
            }
            Action::GetRequest => self.got(event),
            Action::BackMerge => self.back_merge(event),
            Action::FrontMerge => self.front_merge(event),
            Action::Split { new_sector } => self.split(event, new_sector),
            Action::Insert => self.insert(event),
            Action::Issue => self.issue(event),
            Action::Requeue => self.requeue(event),
            Action::Complete => self.complete(event, observer),
            _ => {}
        }
    }

    /// Ends what still waits for a second completion that will not come; call it after the last event.
    pub fn finish(&mut self, observer: &mut impl Observer) {
        self.flushes.finish(observer);
    }

    fn got(&mut self, event: &BlockEvent) {
        let id = self.requests.oldest_at(event, |r| r.state == State::Queued && !r.got.is_seen());
        if id != NONE {
            self.requests.fit(id, event.end_sector());
            self.requests.get_mut(id).got = Seen::at(event.time_ns);
        }
    }

    fn back_merge(&mut self, event: &BlockEvent) {
        let end = event.end_sector();
        let part = self.requests.newest_at(event, |r| r.state != State::Issued && r.end == end);
        let whole = self.requests.ending_at(event, part);
        self.merge(whole, part, event, false);
    }

    fn front_merge(&mut self, event: &BlockEvent) {
        let end = event.end_sector();
        let part = self.requests.newest_at(event, |r| r.state != State::Issued && r.end == end);
        let behind = BlockEvent { sector: end, ..*event };
        let whole = self.requests.newest_at(&behind, |r| r.state != State::Issued);
        self.merge(whole, part, event, true);
    }

    fn merge(&mut self, whole: u32, part: u32, event: &BlockEvent, front: bool) {
        match (whole, part) {
            (NONE, NONE) => self.unpaired.merges += 1,
            (NONE, part) => {
                // It went into a request that began before the trace and cannot be found again by its sector.
                self.unpaired.merges += 1;
                self.requests.forget(part);
            }
            (whole, NONE) => {
                self.unpaired.merges += 1;
                if front {
                    self.requests.set_start(whole, event.sector);
                } else {
                    self.requests.set_end(whole, event.end_sector());
                }
            }
            (whole, part) if front => self.requests.join(part, whole, whole),
            (whole, part) => self.requests.join(whole, part, whole),
        }
    }

    fn split(&mut self, event: &BlockEvent, new_sector: u64) {
        let holds = |r: &Request| r.state != State::Issued && new_sector > r.start && new_sector < r.end;
        let id = self.requests.newest_at(event, holds);
        if id != NONE {
            self.requests.cut(id, new_sector);
        }
    }

    fn insert(&mut self, event: &BlockEvent) {
        let mut id = self.requests.oldest_at(event, |r| r.state == State::Queued);
        if id == NONE && self.requests.oldest_at(event, |r| r.state == State::Inserted) != NONE {
            // Put back into the scheduler after a requeue.
            return;
        }
        if id == NONE {
            id = self.begun_before(event);
        }
        self.requests.fit(id, event.end_sector());
        let request = self.requests.get_mut(id);
        if !request.inserted.is_seen() {
            request.inserted = Seen::at(event.time_ns);
        }
        request.state = State::Inserted;
    }

    fn issue(&mut self, event: &BlockEvent) {
        let mut id = self.requests.oldest_at(event, |r| r.state != State::Issued);
        if id == NONE {
            // Sent again without a recorded requeue.
            let end = event.end_sector();
            id = self.requests.oldest_at(event, |r| r.end == end);
        }
        if id == NONE {
            id = self.begun_before(event);
        }
        self.requests.fit(id, event.end_sector());
        self.requests.get_mut(id).issued(event);
    }

    fn begun_before(&mut self, event: &BlockEvent) -> u32 {
        self.unpaired.begun_before += 1;
        self.requests.without_bio(event)
    }

    fn requeue(&mut self, event: &BlockEvent) {
        let id = self.requests.oldest_at(event, |r| r.state == State::Issued);
        if id != NONE {
            let request = self.requests.get_mut(id);
            request.state = if request.inserted.is_seen() { State::Inserted } else { State::Queued };
        }
    }

    fn complete(&mut self, event: &BlockEvent, observer: &mut impl Observer) {
        let end = event.end_sector();
        let mut id = self.requests.oldest_at(event, |r| r.state == State::Issued);
        if id == NONE {
            // Devices without requests complete bios that were never issued.
            id = self.requests.oldest_at(event, |r| r.end == end);
        }
        if id == NONE {
            self.unpaired.completions += 1;
            return;
        }
        let partial = self.requests.get(id).end > end;
        if partial {
            self.requests.cut_pieces(id, end);
        }
        let request = self.requests.get(id);
        let flush_follows = request.flush_follows && request.sent.is_seen() && !partial;
        let (of, start) = ((request.device, request.direction), request.start);
        while let Some(piece) = self.requests.take_first_piece(id, end) {
            self.requests.note_bio(id, &piece);
            if let Some(life) = self.requests.end_piece(piece, of, event.time_ns) {
                if flush_follows {
                    self.flushes.await_second_completion(start, life, observer);
                } else {
                    observer.bio_ended(&life);
                }
            }
        }
        if partial {
            self.requests.set_start(id, end);
            return;
        }
        observer.request_ended(&self.requests.get(id).life(event.time_ns));
        self.requests.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Observer for Nobody {
        fn request_ended(&mut self, _: &RequestLife) {}
        fn bio_ended(&mut self, _: &BioLife) {}
        fn flush_ended(&mut self, _: &RequestLife) {}
    }

    /// One request is in flight all the time, and would hold any number of bios.
    #[test]
    fn bios_merged_without_end_are_given_up() {
        let mut pairing = Pairing::with_most(16);
        let event = |n: u64, action: Action| BlockEvent {
            time_ns: n,
            sequence: 0,
            cpu: 0,
            pid: 1,
            device: Device { major: 8, minor: 0 },
            action,
            direction: Direction::Write,
            flags: Flags::default(),
            sector: n * 8,
            bytes: 4096,
            error: 0,
        };
        for n in 0..1000 {
            pairing.push(&event(n, Action::Queue), &mut Nobody);
            if n > 0 {
                pairing.push(&event(n, Action::BackMerge), &mut Nobody);
            }
            assert!(pairing.requests.pieces_in_use() <= 64, "{n}");
        }
        assert!(pairing.unpaired().given_up > 0);
    }
}
