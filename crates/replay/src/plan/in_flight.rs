//! Which completions end which requests of a plan.
//!
//! A completion is of sectors; requests (or bios, replayed from Q) were merged and split on their way. So each request is
//! kept as the pieces of it that are not complete, by direction and first sector, and a completion takes away the pieces
//! that it covers, the oldest first among several of the same sectors. That is also btt's rule, except that btt does not
//! follow splits.

use std::collections::{BTreeMap, HashMap, VecDeque};

use nestor_trace::event::{BlockEvent, Direction, Flags};

use super::PlannedRequest;

/// Pieces looked through for one that a completion cuts.
const MOST_LOOKED_AT: usize = 16;

/// Writes with FUA that may be followed by a flush of the block layer's own; more are those of devices without a cache.
const MOST_AWAITED: usize = 256;

type Piece = (u8, u64, usize);

/// Requests of one device that are not complete.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// (direction, first sector, request) to the sector after.
    pieces: BTreeMap<Piece, u64>,
    /// Requests of more than one piece: how many.
    several: HashMap<usize, u32>,
    /// Flushes that no D has taken yet.
    asked: VecDeque<usize>,
    /// Those that one D has taken.
    sent: VecDeque<Vec<usize>>,
    /// Whether flushes are sent at all: devices without requests only complete them.
    sends_flushes: bool,
    /// Writes with FUA whose data are complete, by first sector.
    awaited: VecDeque<(u64, usize)>,
}

fn lane(direction: Direction) -> u8 {
    direction as u8
}

impl InFlight {
    /// A request with data has begun.
    pub fn begin(&mut self, event: &BlockEvent, request: usize) {
        self.pieces.insert((lane(event.direction), event.sector, request), event.end_sector());
    }

    /// The request with these sectors that has begun, if one has.
    pub fn find(&self, event: &BlockEvent) -> Option<usize> {
        let lane = lane(event.direction);
        let mut same = self.pieces.range((lane, event.sector, 0)..=(lane, event.sector, usize::MAX));
        same.find(|(_, end)| **end == event.end_sector()).map(|((_, _, request), _)| *request)
    }

    /// A flush was queued.
    pub fn flush_asked(&mut self, request: usize) {
        self.asked.push_back(request);
    }

    /// A flush was sent to the driver: it is for all that asked until then (`block/blk-flush.c`).
    pub fn flush_sent(&mut self) {
        self.sends_flushes = true;
        self.sent.push_back(self.asked.drain(..).collect());
    }

    /// An event of completion.
    pub fn complete(&mut self, event: &BlockEvent, requests: &mut [PlannedRequest]) {
        if event.bytes == 0 {
            self.complete_empty(event, requests);
            return;
        }
        let (lane, end) = (lane(event.direction), event.end_sector());
        let mut at = event.sector;
        self.cut(lane, at);
        while let Some((&(_, start, request), &piece_end)) =
            self.pieces.range((lane, at, 0)..(lane, end, 0)).next()
        {
            self.pieces.remove(&(lane, start, request));
            if piece_end > end {
                self.pieces.insert((lane, end, request), piece_end);
                return;
            }
            at = piece_end;
            if self.is_last_piece(request) {
                self.end(event, request, requests);
            }
        }
    }

    fn end(&mut self, event: &BlockEvent, request: usize, requests: &mut [PlannedRequest]) {
        let ended = &mut requests[request];
        ended.completed_ns = Some(event.time_ns);
        // The block layer carries out FUA itself: a flush follows, and then a completion without bytes.
        if ended.is_fua() && !event.flags.contains(Flags::FUA) {
            if self.awaited.len() == MOST_AWAITED {
                self.awaited.pop_front();
            }
            self.awaited.push_back((ended.sector, request));
        }
    }

    fn is_last_piece(&mut self, request: usize) -> bool {
        match self.several.get_mut(&request) {
            Some(pieces) if *pieces > 1 => {
                *pieces -= 1;
                false
            }
            Some(_) => {
                self.several.remove(&request);
                true
            }
            None => true,
        }
    }

    /// Makes two pieces of one that holds `sector` inside, if none begins there.
    fn cut(&mut self, lane: u8, sector: u64) {
        if self.pieces.range((lane, sector, 0)..=(lane, sector, usize::MAX)).next().is_some() {
            return;
        }
        let before = self.pieces.range((lane, 0, 0)..(lane, sector, 0)).rev().take(MOST_LOOKED_AT);
        let Some((piece, end)) = before.filter(|(_, end)| **end > sector).map(|(p, e)| (*p, *e)).last()
        else {
            return;
        };
        self.pieces.insert(piece, sector);
        self.pieces.insert((lane, sector, piece.2), end);
        *self.several.entry(piece.2).or_insert(1) += 1;
    }

    fn complete_empty(&mut self, event: &BlockEvent, requests: &mut [PlannedRequest]) {
        if !event.is_empty_flush() {
            let at = self.awaited.iter().position(|(sector, _)| *sector == event.sector);
            if let Some((_, request)) = at.and_then(|at| self.awaited.remove(at)) {
                requests[request].completed_ns = Some(event.time_ns);
            }
            return;
        }
        let ended = match self.sent.pop_front() {
            Some(ended) => ended,
            None if self.sends_flushes => Vec::new(),
            None => self.asked.pop_front().into_iter().collect(),
        };
        for request in ended {
            requests[request].completed_ns = Some(event.time_ns);
        }
    }
}
