//! A small hash table from places on devices to numbers of things, for look-ups at every event.
//!
//! Open addressing with linear probing, at most half full; what is removed leaves no tombstone (Knuth, The Art of
//! Computer Programming 3, §6.4, algorithm R). In use it holds what is in flight, so it stays in the cache.

use super::slab::{Id, NONE};
use crate::event::Device;

/// 2^64 divided by the golden ratio: sectors are regular numbers, and this scatters them (ibid.).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

const FEWEST_SLOTS: usize = 256;

/// A place: device and position. Different places may share a key where positions are beyond any device's size, so
/// what is found is always compared with what was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64);

#[inline]
pub(super) fn key(device: Device, position: u64) -> Key {
    Key(position ^ u64::from(device.to_kernel()).rotate_right(16))
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Key,
    /// [`NONE`] in a free slot.
    id: Id,
}

const FREE: Slot = Slot { key: Key(0), id: NONE };

#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    used: usize,
    shift: u32,
    /// The key that was set last, with what is there, until it is removed: the next look-ups are mostly for it.
    last: Slot,
}

impl Default for Table {
    fn default() -> Self {
        Self::with_slots(FEWEST_SLOTS)
    }
}

impl Table {
    fn with_slots(slots: usize) -> Self {
        Self { slots: vec![FREE; slots], used: 0, shift: u64::BITS - slots.trailing_zeros(), last: FREE }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.used
    }

    #[inline]
    fn home(&self, key: Key) -> usize {
        (key.0.wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    /// The slot of a key, or the free one where it would stand.
    #[inline]
    fn find(&self, key: Key) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        loop {
            let slot = &self.slots[at & mask];
            if slot.id == NONE || slot.key == key {
                return at & mask;
            }
            at += 1;
        }
    }

    /// The number at a key, or [`NONE`].
    #[inline]
    pub fn get(&self, key: Key) -> Id {
        if self.last.key == key && self.last.id != NONE {
            return self.last.id;
        }
        self.slots[self.find(key)].id
    }

    /// Sets the number at a key and returns the one before, or [`NONE`].
    #[inline]
    pub fn set(&mut self, key: Key, id: Id) -> Id {
        let mut at = self.find(key);
        let before = self.slots[at].id;
        if before == NONE {
            if self.used * 2 >= self.slots.len() {
                self.grow();
                at = self.find(key);
            }
            self.used += 1;
        }
        self.last = Slot { key, id };
        self.slots[at] = self.last;
        before
    }

    /// Puts `after` at a key where there is `id`, or removes the key if that is [`NONE`]; else returns what is there.
    #[inline]
    pub fn replace(&mut self, key: Key, id: Id, after: Id) -> Option<Id> {
        let at = self.find(key);
        let there = self.slots[at].id;
        if there != id {
            return Some(there);
        }
        if self.last.key == key {
            self.last = FREE;
        }
        if after == NONE {
            self.remove_at(at);
        } else {
            self.slots[at].id = after;
        }
        None
    }

    #[inline]
    fn remove_at(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        self.used -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.id == NONE {
                break;
            }
            // It may move into the hole if the hole is not before its home.
            let home = self.home(slot.key);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = FREE;
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Self::with_slots(self.slots.len() * 2);
        for slot in self.slots.iter().filter(|slot| slot.id != NONE) {
            let at = larger.find(slot.key);
            larger.slots[at] = *slot;
            larger.used += 1;
        }
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..600_u64, any::<bool>()), 0..3000)) {
            let (mut table, mut map) = (Table::default(), HashMap::new());
            for (n, (position, remove)) in steps.into_iter().enumerate() {
                let key = key(Device { major: 8, minor: 0 }, position * 8);
                if remove {
                    if let Some(there) = map.remove(&position) {
                        prop_assert_eq!(table.replace(key, there + 1, NONE), Some(there));
                        prop_assert_eq!(table.replace(key, there, NONE), None);
                    }
                    prop_assert_eq!(table.get(key), NONE);
                } else {
                    let before = map.insert(position, n as Id).unwrap_or(NONE);
                    prop_assert_eq!(table.set(key, n as Id), before);
                }
                prop_assert_eq!(table.len(), map.len());
            }
            for position in 0..600 {
                let key = key(Device { major: 8, minor: 0 }, position * 8);
                prop_assert_eq!(table.get(key), map.get(&position).copied().unwrap_or(NONE));
            }
        }
    }
}
