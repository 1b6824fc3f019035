//! The requests in flight and their bios.

use super::super::index::Index;
use super::super::slab::{Id, NONE, Slab};
use super::super::table::key;
use super::BioLife;
use super::request::{FirstBio, Request, Seen, State};
use crate::event::{BlockEvent, Device, Direction, Flags};

/// Pieces of bios for each request that may be in flight.
const PIECES: usize = 4;

/// A part of a bio in one request; the pieces of a request are in the order of their sectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    bio: Id,
    end: u64,
    next: Id,
}

#[derive(Clone, Copy, Debug)]
struct Bio {
    queued_ns: u64,
    pid: u32,
    flags: Flags,
    pieces: u32,
    /// A piece of it was given up, so its end cannot be seen.
    lost: bool,
}

#[derive(Debug)]
pub(super) struct Requests {
    requests: Slab<Request>,
    pieces: Slab<Piece>,
    bios: Slab<Bio>,
    by_start: Index,
    /// Made when the first merge asks for it: many traces have none.
    by_end: Option<Index>,
    oldest: Id,
    newest: Id,
    given_up: u64,
    most: usize,
    most_pieces: usize,
}

impl Requests {
    /// Follows at most `most` at once.
    pub fn new(most: usize) -> Self {
        Self {
            requests: Slab::new(),
            pieces: Slab::new(),
            bios: Slab::new(),
            by_start: Index::default(),
            by_end: None,
            oldest: NONE,
            newest: NONE,
            given_up: 0,
            most,
            most_pieces: most.saturating_mul(PIECES),
        }
    }

    pub fn in_flight(&self) -> usize {
        self.requests.in_use()
    }

    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    #[cfg(test)]
    pub fn pieces_in_use(&self) -> usize {
        self.pieces.in_use()
    }

    /// Gives up the oldest requests while there are too many pieces: bios that were merged into few requests, which
    /// alone would not be many. Call it when no request is being changed.
    #[inline(always)]
    pub fn bound_pieces(&mut self) {
        if self.pieces.in_use() >= self.most_pieces {
            self.give_up_oldest();
        }
    }

    #[cold]
    fn give_up_oldest(&mut self) {
        while self.pieces.in_use() >= self.most_pieces && self.oldest != NONE {
            self.given_up += 1;
            self.forget(self.oldest);
        }
    }

    #[inline]
    pub fn get(&self, id: Id) -> &Request {
        &self.requests[id]
    }

    #[inline]
    pub fn get_mut(&mut self, id: Id) -> &mut Request {
        &mut self.requests[id]
    }

    /// A new bio, which is a request of its own until it is merged or split.
    #[inline]
    pub fn queue(&mut self, event: &BlockEvent) {
        let bio = self.bios.add(Bio {
            queued_ns: event.time_ns,
            pid: event.pid,
            flags: event.flags,
            pieces: 1,
            lost: false,
        });
        let piece = self.pieces.add(Piece { bio, end: event.end_sector(), next: NONE });
        let mut request = Request::new(event);
        request.queued = Seen::at(event.time_ns);
        request.flush_follows = event.flags.contains(Flags::FUA);
        (request.first_piece, request.last_piece) = (piece, piece);
        self.add(request);
    }

    /// A request of which no bio is known.
    pub fn without_bio(&mut self, event: &BlockEvent) -> Id {
        self.add(Request::new(event))
    }

    /// The oldest request that begins where `event` does, moves the same way and is `wanted`; of several, one of the
    /// event's own length.
    #[inline]
    pub fn oldest_at(&self, event: &BlockEvent, wanted: impl Fn(&Request) -> bool) -> Id {
        let end = event.end_sector();
        let (mut best, mut best_fits) = (NONE, false);
        let mut id = self.by_start.newest(key(event.device, event.sector));
        while id != NONE {
            let request = &self.requests[id];
            if request.direction == event.direction && wanted(request) {
                let fits = request.end == end;
                if fits || !best_fits {
                    (best, best_fits) = (id, fits);
                }
            }
            id = request.next_start;
        }
        best
    }

    /// As [`Self::oldest_at`], the newest.
    pub fn newest_at(&self, event: &BlockEvent, wanted: impl Fn(&Request) -> bool) -> Id {
        let mut id = self.by_start.newest(key(event.device, event.sector));
        while id != NONE {
            let request = &self.requests[id];
            if request.direction == event.direction && wanted(request) {
                break;
            }
            id = request.next_start;
        }
        id
    }

    /// The newest request that has not been sent and ends where `event` begins, other than `but`.
    pub fn ending_at(&mut self, event: &BlockEvent, but: Id) -> Id {
        if self.by_end.is_none() {
            self.by_end = Some(Index::default());
            let mut id = self.oldest;
            while id != NONE {
                self.link_end(id);
                id = self.requests[id].newer;
            }
        }
        let ends = self.by_end.as_ref();
        let mut id = ends.map_or(NONE, |ends| ends.newest(key(event.device, event.sector)));
        while id != NONE {
            let request = &self.requests[id];
            if id != but && request.state != State::Issued && request.direction == event.direction {
                break;
            }
            id = request.next_end;
        }
        id
    }

    /// Makes a request end at `end`: cuts off what is behind, or takes in the requests behind it that were not sent.
    #[inline(always)]
    pub fn fit(&mut self, id: Id, end: u64) {
        if self.requests[id].end != end {
            self.refit(id, end);
        }
    }

    #[cold]
    fn refit(&mut self, id: Id, end: u64) {
        if self.requests[id].end > end && self.requests[id].start < end {
            self.cut(id, end);
            return;
        }
        while self.requests[id].end < end {
            let request = self.requests[id];
            let mut behind = self.by_start.newest(key(request.device, request.end));
            while behind != NONE {
                let next = &self.requests[behind];
                let joins =
                    next.state != State::Issued && next.direction == request.direction && next.end <= end;
                if joins {
                    break;
                }
                behind = next.next_start;
            }
            if behind == NONE {
                self.set_end(id, end);
            } else {
                self.join(id, behind, id);
            }
        }
    }

    /// Makes one request of two adjacent ones. The times of `survivor` hold, with the earliest Q of both.
    pub fn join(&mut self, front: Id, back: Id, survivor: Id) {
        let gone = if survivor == front { back } else { front };
        let (start, end) = (self.requests[front].start, self.requests[back].end);
        let (first, last) = match (self.requests[front].first_piece, self.requests[back].first_piece) {
            (NONE, first) => (first, self.requests[back].last_piece),
            (first, NONE) => (first, self.requests[front].last_piece),
            (first, second) => {
                let joint = self.requests[front].last_piece;
                self.pieces[joint].next = second;
                (first, self.requests[back].last_piece)
            }
        };
        let absorbed = self.requests[gone];
        self.remove(gone);
        self.set_start(survivor, start);
        self.set_end(survivor, end);
        let request = &mut self.requests[survivor];
        (request.first_piece, request.last_piece) = (first, last);
        request.flush_follows |= absorbed.flush_follows;
        request.queued = request.queued.first(absorbed.queued);
    }

    /// Makes two requests of one; the second begins at `at`, and its times are the first's up to Q.
    pub fn cut(&mut self, id: Id, at: u64) {
        self.cut_pieces(id, at);
        let mut second = self.requests[id];
        second.start = at;
        second.state = State::Queued;
        (second.got, second.inserted, second.sent) = (Seen::NEVER, Seen::NEVER, Seen::NEVER);
        // The pieces up to `at` stay.
        let (mut last, mut piece) = (NONE, self.requests[id].first_piece);
        while piece != NONE && self.pieces[piece].end <= at {
            last = piece;
            piece = self.pieces[piece].next;
        }
        second.first_piece = piece;
        if let Some(first_ns) = self.first_queued(piece, NONE) {
            second.queued = Seen::at(first_ns);
        }
        if piece == NONE {
            second.last_piece = NONE;
        }
        if let Some(first_ns) = self.first_queued(self.requests[id].first_piece, piece) {
            self.requests[id].queued = Seen::at(first_ns);
        }
        let first = &mut self.requests[id];
        first.last_piece = last;
        if last == NONE {
            first.first_piece = NONE;
        } else {
            self.pieces[last].next = NONE;
        }
        self.set_end(id, at);
        self.add(second);
    }

    /// Cuts the piece that crosses `at`, if there is one.
    pub fn cut_pieces(&mut self, id: Id, at: u64) {
        let mut from = self.requests[id].start;
        let mut piece = self.requests[id].first_piece;
        while piece != NONE && self.pieces[piece].end <= at {
            from = self.pieces[piece].end;
            piece = self.pieces[piece].next;
        }
        if piece == NONE || from >= at {
            return;
        }
        let behind = self.pieces[piece];
        let rest = self.pieces.add(behind);
        self.pieces[piece].end = at;
        self.pieces[piece].next = rest;
        self.bios[behind.bio].pieces += 1;
        if self.requests[id].last_piece == piece {
            self.requests[id].last_piece = rest;
        }
    }

    /// Takes the first piece off a request if it ends at or before `end`.
    #[inline]
    pub fn take_first_piece(&mut self, id: Id, end: u64) -> Option<Piece> {
        let first = self.requests[id].first_piece;
        if first == NONE || self.pieces[first].end > end {
            return None;
        }
        let piece = self.pieces[first];
        self.pieces.free(first);
        let request = &mut self.requests[id];
        request.first_piece = piece.next;
        if piece.next == NONE {
            request.last_piece = NONE;
        }
        Some(piece)
    }

    /// The earliest Q of the bios of the pieces from `piece` up to, not including, `end`.
    fn first_queued(&self, mut piece: Id, end: Id) -> Option<u64> {
        let mut first = None;
        while piece != NONE && piece != end {
            let Piece { bio, next, .. } = self.pieces[piece];
            let queued_ns = self.bios[bio].queued_ns;
            first = Some(first.map_or(queued_ns, |f: u64| f.min(queued_ns)));
            piece = next;
        }
        first
    }

    /// Notes in the request that a piece ends with it.
    #[inline]
    pub fn note_bio(&mut self, id: Id, piece: &Piece) {
        let Bio { queued_ns, pid, flags, .. } = self.bios[piece.bio];
        let request = &mut self.requests[id];
        request.bios += 1;
        if request.first_bio.is_none_or(|first| queued_ns < first.queued_ns) {
            request.first_bio = Some(FirstBio { queued_ns, pid, flags });
        }
    }

    /// Ends a piece; if it was the last of its bio, reports the life of the bio.
    #[inline]
    pub fn end_piece(
        &mut self,
        piece: Piece,
        (device, direction): (Device, Direction),
        completed_ns: u64,
    ) -> Option<BioLife> {
        let bio = &mut self.bios[piece.bio];
        bio.pieces -= 1;
        if bio.pieces > 0 {
            return None;
        }
        let bio = *bio;
        self.bios.free(piece.bio);
        (!bio.lost).then_some(BioLife { device, direction, queued_ns: bio.queued_ns, completed_ns })
    }

    /// Removes a request that has ended and what it still holds.
    #[inline]
    pub fn remove(&mut self, id: Id) {
        let request = self.requests[id];
        self.unlink_start(id);
        self.unlink_end(id);
        match request.older {
            NONE => self.oldest = request.newer,
            older => self.requests[older].newer = request.newer,
        }
        match request.newer {
            NONE => self.newest = request.older,
            newer => self.requests[newer].older = request.older,
        }
        self.requests.free(id);
    }

    /// Removes a request whose end cannot be seen, with its bios.
    pub fn forget(&mut self, id: Id) {
        let request = self.requests[id];
        while let Some(piece) = self.take_first_piece(id, u64::MAX) {
            self.bios[piece.bio].lost = true;
            self.end_piece(piece, (request.device, request.direction), 0);
        }
        self.remove(id);
    }

    pub fn set_start(&mut self, id: Id, start: u64) {
        if self.requests[id].start != start {
            self.unlink_start(id);
            self.requests[id].start = start;
            self.link_start(id);
        }
    }

    pub fn set_end(&mut self, id: Id, end: u64) {
        if self.requests[id].end != end {
            self.unlink_end(id);
            self.requests[id].end = end;
            self.link_end(id);
        }
    }

    #[inline]
    fn add(&mut self, mut request: Request) -> Id {
        if self.requests.in_use() >= self.most {
            self.given_up += 1;
            self.forget(self.oldest);
        }
        (request.older, request.newer) = (self.newest, NONE);
        let id = self.requests.add(request);
        match self.newest {
            NONE => self.oldest = id,
            newest => self.requests[newest].newer = id,
        }
        self.newest = id;
        self.link_start(id);
        self.link_end(id);
        id
    }

    #[inline]
    fn link_start(&mut self, id: Id) {
        let at = key(self.requests[id].device, self.requests[id].start);
        let requests = &mut self.requests;
        let surplus = self.by_start.link(at, id, |id, set| {
            let next = &mut requests[id].next_start;
            set.inspect(|&set| *next = set);
            *next
        });
        self.give_up(surplus);
    }

    #[inline]
    fn link_end(&mut self, id: Id) {
        let Some(by_end) = &mut self.by_end else { return };
        let at = key(self.requests[id].device, self.requests[id].end);
        let requests = &mut self.requests;
        let surplus = by_end.link(at, id, |id, set| {
            let next = &mut requests[id].next_end;
            set.inspect(|&set| *next = set);
            *next
        });
        self.give_up(surplus);
    }

    #[inline]
    fn unlink_start(&mut self, id: Id) {
        let at = key(self.requests[id].device, self.requests[id].start);
        let requests = &mut self.requests;
        self.by_start.unlink(at, id, |id, set| {
            let next = &mut requests[id].next_start;
            set.inspect(|&set| *next = set);
            *next
        });
    }

    #[inline]
    fn unlink_end(&mut self, id: Id) {
        let Some(by_end) = &mut self.by_end else { return };
        let at = key(self.requests[id].device, self.requests[id].end);
        let requests = &mut self.requests;
        by_end.unlink(at, id, |id, set| {
            let next = &mut requests[id].next_end;
            set.inspect(|&set| *next = set);
            *next
        });
    }

    fn give_up(&mut self, surplus: Option<Id>) {
        if let Some(id) = surplus {
            self.given_up += 1;
            self.forget(id);
        }
    }
}
