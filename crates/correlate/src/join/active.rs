//! Requests that are under way, or that others still point to.

use nestor_layout::Class;
use nestor_trace::Request;

use super::ranges::Kept;
use crate::tree::{LevelIndex, Origin};

/// Levels that can be joined at once: a machine in a machine in a machine has eight.
pub(crate) const MOST_LEVELS: usize = 12;
/// No class: the level is not attributed, or the request has no ancestor there.
const NO_CLASS: u8 = u8::MAX;

/// What a request comes from, kept with it so that it outlives its ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ancestry {
    classes: [u8; MOST_LEVELS],
    /// Range of the topmost ancestor: offset and bytes.
    pub top: Option<(u64, u64)>,
    /// When the guest's request on its virtual disk was answered.
    pub answered: Option<i64>,
}

impl Ancestry {
    /// Of a request that no request above caused.
    pub const NONE: Self = Self { classes: [NO_CLASS; MOST_LEVELS], top: None, answered: None };

    /// The same with the class at one level.
    #[must_use]
    pub fn with(mut self, level: LevelIndex, class: Class) -> Self {
        self.classes[level.position()] = class as u8;
        self
    }

    /// The class at a level.
    pub fn class(&self, level: LevelIndex) -> Option<Class> {
        Class::from_number(self.classes[level.position()])
    }
}

/// A request with its times on the clock of the topmost level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub request: Request,
    pub queued: i64,
    pub issued: i64,
    pub completed: i64,
}

impl Timed {
    /// The byte after its last one.
    pub fn end(&self) -> u64 {
        self.request.offset.saturating_add(self.request.bytes)
    }

    /// From when on it cannot have been caused by what came later: a request that was put together of several was
    /// complete only when it was issued.
    pub fn begun(&self) -> i64 {
        if self.request.bios > 1 { self.issued } else { self.queued }
    }

    /// The request with its times on the topmost level's clock.
    pub fn on_top(&self) -> Request {
        let at = |time: i64| time.max(0) as u64;
        Request {
            queued_ns: at(self.queued),
            issued_ns: at(self.issued),
            completed_ns: at(self.completed),
            ..self.request
        }
    }
}

/// A request that is under way at its level.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    pub timed: Timed,
    pub origin: Origin,
    pub ancestry: Ancestry,
    /// How many requests above it serves.
    pub parents: u32,
    /// How many of them still point to it.
    held_by: u32,
    ended: bool,
    /// Some of its data appeared below although it did not wait for that: in time, or not.
    pub appeared: Option<Kept>,
    /// Requests of the next level, in the order of issue.
    pub children: Vec<u32>,
    /// Ranges that children have carried, sorted, without overlap; in the space in which the two levels meet.
    served: Vec<(u64, u64)>,
}

impl Active {
    /// The parts of a range that no child has carried yet.
    pub fn unserved(&self, from: u64, to: u64, mut act: impl FnMut(u64, u64)) {
        let mut at = from;
        for (start, end) in &self.served {
            if *end <= at {
                continue;
            }
            if *start >= to {
                break;
            }
            if *start > at {
                act(at, *start);
            }
            at = at.max(*end);
        }
        if at < to {
            act(at, to);
        }
    }

    /// Bytes of a range that no child has carried yet.
    pub fn unserved_bytes(&self, from: u64, to: u64) -> u64 {
        if self.served.is_empty() {
            return to.saturating_sub(from);
        }
        let mut bytes = 0;
        self.unserved(from, to, |start, end| bytes += end - start);
        bytes
    }

    /// A child has carried this range.
    pub fn serve(&mut self, from: u64, to: u64) {
        let at = self.served.partition_point(|(_, end)| *end < from);
        let (mut from, mut to) = (from, to);
        let mut until = at;
        while let Some((start, end)) = self.served.get(until).filter(|(start, _)| *start <= to) {
            from = from.min(*start);
            to = to.max(*end);
            until += 1;
        }
        self.served.splice(at..until, [(from, to)]);
    }
}

/// The requests of one level that are under way.
#[derive(Debug, Default)]
pub(crate) struct Actives {
    slots: Vec<Active>,
    free: Vec<u32>,
}

impl Actives {
    /// Takes a request in.
    pub fn insert(&mut self, timed: Timed) -> u32 {
        if let Some(slot) = self.free.pop() {
            let active = &mut self.slots[slot as usize];
            active.timed = timed;
            active.origin = Origin::Unknown;
            active.ancestry = Ancestry::NONE;
            active.parents = 0;
            active.held_by = 0;
            active.ended = false;
            active.appeared = None;
            active.children.clear();
            active.served.clear();
            return slot;
        }
        self.slots.push(Active {
            timed,
            origin: Origin::Unknown,
            ancestry: Ancestry::NONE,
            parents: 0,
            held_by: 0,
            ended: false,
            appeared: None,
            children: Vec::new(),
            served: Vec::new(),
        });
        (self.slots.len() - 1) as u32
    }

    /// One more request above points to it.
    pub fn hold(&mut self, slot: u32) {
        let active = &mut self.slots[slot as usize];
        active.held_by += 1;
        active.parents += 1;
    }

    /// It is needed although no request above points to it yet.
    pub fn keep(&mut self, slot: u32) {
        self.slots[slot as usize].held_by += 1;
    }

    /// Whether it is needed for a request above that is not known yet.
    pub fn is_kept(&self, slot: u32) -> bool {
        self.slots[slot as usize].held_by > self.slots[slot as usize].parents
    }

    /// A request above points to what was [kept](Self::keep) for it.
    pub fn adopt(&mut self, slot: u32) {
        self.slots[slot as usize].parents += 1;
    }

    /// A request above no longer points to it. True if it is not needed any more.
    pub fn release(&mut self, slot: u32) -> bool {
        let active = &mut self.slots[slot as usize];
        active.held_by -= 1;
        active.held_by == 0 && active.ended
    }

    /// It is complete. True if it is not needed any more.
    pub fn end(&mut self, slot: u32) -> bool {
        let active = &mut self.slots[slot as usize];
        active.ended = true;
        active.held_by == 0
    }

    /// Its place may be used again.
    pub fn remove(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many there were at most.
    pub fn most(&self) -> usize {
        self.slots.len()
    }
}

impl std::ops::Index<u32> for Actives {
    type Output = Active;

    fn index(&self, slot: u32) -> &Active {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Actives {
    fn index_mut(&mut self, slot: u32) -> &mut Active {
        &mut self.slots[slot as usize]
    }
}
