//! The most frequent of many numbers.
//!
//! Each different number has a counter, up to a limit. Beyond it the rarest are dropped, as in lossy counting
//! (Manku and Motwani, VLDB 2002): a number that is more frequent than all that were dropped in between is not lost,
//! and its count is at most by the number of clearings too low.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// Counters at the beginning.
const FEWEST_SLOTS: usize = 1 << 10;
const LARGE_SLOTS: usize = 1 << 18;

/// Bits of a counter in its slot. What is more is carried to [`Modes::carried`].
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Larger numbers are counted as this one: 512 TiB in sectors.
const LARGEST: u64 = (1 << (u64::BITS - COUNT_BITS)) - 1;

/// 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, §6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug)]
pub(super) struct Modes {
    /// How often 0 was seen.
    zeros: u64,
    /// A number and how often it was seen, in one word; 0 where there is none. As many as a power of two; numbers stand
    /// at their hash or after it.
    slots: Slots,
    used: usize,
    most_slots: usize,
    carried: BTreeMap<u64, u64>,
    /// How often the rarest were dropped.
    clearings: u64,
}

fn number(slot: u64) -> u64 {
    slot >> COUNT_BITS
}

/// What was most frequent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    /// The smallest of the most frequent.
    pub value: u64,
    pub count: u64,
    /// How many are as frequent.
    pub values: u64,
    /// It may have been more often.
    pub is_lower_bound: bool,
}

impl Modes {
    /// Counts about `most` different numbers.
    pub fn new(most: usize) -> Self {
        Self {
            zeros: 0,
            slots: Slots::new(FEWEST_SLOTS),
            used: 0,
            most_slots: (most * 4 / 3).next_power_of_two().max(FEWEST_SLOTS),
            carried: BTreeMap::new(),
            clearings: 0,
        }
    }

    #[inline]
    pub fn count(&mut self, number: u64) {
        if number == 0 {
            self.zeros += 1;
            return;
        }
        self.add(number.min(LARGEST), 1);
    }

    /// Asks for the memory of a number's counter, which is likely not in the cache, for when it will be counted.
    #[inline]
    pub fn fetch(&self, number: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let slot = &self.slots[self.home(number)];
            // SAFETY: a hint that reads nothing, with a pointer to an element that exists.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(slot).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = number;
    }

    #[inline]
    fn home(&self, number: u64) -> usize {
        (number.wrapping_mul(GOLDEN) >> 32) as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn add(&mut self, wanted: u64, times: u64) {
        let mask = self.slots.len() - 1;
        let mut at = self.home(wanted);
        loop {
            let slot = self.slots[at];
            if number(slot) == wanted {
                if (slot & COUNT) + times > COUNT {
                    self.carry(at, times);
                } else {
                    self.slots[at] = slot + times;
                }
                return;
            }
            if slot == 0 {
                self.slots[at] = (wanted << COUNT_BITS) | times;
                self.used += 1;
                if self.used * 4 >= self.slots.len() * 3 {
                    self.make_room();
                }
                return;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn carry(&mut self, at: usize, times: u64) {
        let slot = self.slots[at];
        *self.carried.entry(number(slot)).or_default() += (slot & COUNT) + times;
        self.slots[at] = slot & !COUNT;
    }

    #[cold]
    fn make_room(&mut self) {
        let mut floor = 0;
        if self.slots.len() >= self.most_slots {
            self.clearings += 1;
            // At least the rarer half goes, so that the next clearing is far away.
            let mut counts: Vec<u64> = self.slots.iter().filter(|s| **s != 0).map(|s| s & COUNT).collect();
            let middle = counts.len() / 2;
            floor = *counts.select_nth_unstable(middle).1;
        }
        // Small ones grow fast, for each step touches all memory; of large ones the unused part would cost more.
        let times = if self.slots.len() < LARGE_SLOTS { 4 } else { 2 };
        let size = (self.slots.len() * times).min(self.most_slots);
        let old = std::mem::replace(&mut self.slots, Slots::new(size));
        self.used = 0;
        let carried = std::mem::take(&mut self.carried);
        let stays = |slot: u64| slot & COUNT > floor || carried.contains_key(&number(slot));
        for slot in old.iter().copied().filter(|&slot| slot != 0 && stays(slot)) {
            self.add(number(slot), slot & COUNT);
        }
        self.carried = carried;
    }

    pub fn finish(&self) -> Mode {
        let mut mode = Mode { is_lower_bound: self.clearings > 0, ..Mode::default() };
        if self.zeros > 0 {
            (mode.count, mode.values) = (self.zeros, 1);
        }
        for &slot in self.slots.iter().filter(|slot| **slot != 0) {
            let value = number(slot);
            let count = (slot & COUNT) + self.carried.get(&value).unwrap_or(&0);
            if count > mode.count {
                (mode.value, mode.count, mode.values) = (value, count, 1);
            } else if count == mode.count {
                mode.value = mode.value.min(value);
                mode.values += 1;
            }
        }
        mode
    }
}

/// The counters' memory, all 0 at first.
///
/// Counters are met in no order: with pages of 4 KiB the search for the page takes as long as the counting. Large ones
/// therefore begin at a huge page, for which there is room before them.
#[derive(Debug)]
struct Slots {
    memory: Vec<u64>,
    from: usize,
    length: usize,
}

impl Slots {
    const HUGE_PAGE: usize = 2 << 20;

    fn new(length: usize) -> Self {
        if length * size_of::<u64>() < Self::HUGE_PAGE {
            return Self { memory: vec![0; length], from: 0, length };
        }
        let room = Self::HUGE_PAGE / size_of::<u64>();
        let memory = vec![0_u64; length + room];
        let from = memory.as_ptr().align_offset(Self::HUGE_PAGE).min(room);
        let mut slots = Self { memory, from, length };
        let start = slots.as_mut_ptr();
        // All pages will be needed, so they are asked for at once and not one by one, when each is first met.
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE] {
            // SAFETY: the range is the slice's, which begins at a page and consists of whole ones, and the advice changes
            // how the memory is mapped, not what is in it. That it may be refused does no harm.
            unsafe {
                libc::madvise(start.cast(), length * size_of::<u64>(), advice);
            }
        }
        slots
    }
}

impl Deref for Slots {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.memory[self.from..self.from + self.length]
    }
}

impl DerefMut for Slots {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.memory[self.from..self.from + self.length]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_are_those_of_a_map(numbers in prop::collection::vec(0..40_u64, 0..5000)) {
            let (mut modes, mut map) = (Modes::new(1 << 12), BTreeMap::<u64, u64>::new());
            for &number in &numbers {
                modes.count(number * 8);
                *map.entry(number * 8).or_default() += 1;
            }
            let found = modes.finish();
            let most = map.values().copied().max().unwrap_or(0);
            let values: Vec<u64> = map.iter().filter(|(_, n)| **n == most).map(|(v, _)| *v).collect();
            prop_assert_eq!((found.count, found.values), (most, values.len() as u64));
            prop_assert_eq!(found.value, values.first().copied().unwrap_or(0));
            prop_assert!(!found.is_lower_bound);
        }
    }

    #[test]
    fn with_too_many_numbers_the_frequent_one_is_still_found_in_bounded_memory() {
        let mut modes = Modes::new(FEWEST_SLOTS / 2);
        for number in 0..100_000_u64 {
            modes.count(number.wrapping_mul(GOLDEN) >> 25);
            if number % 50 == 0 {
                modes.count(7);
            }
        }
        assert_eq!(modes.slots.len(), FEWEST_SLOTS);
        let mode = modes.finish();
        assert_eq!(mode.value, 7);
        assert!(mode.is_lower_bound && (1000..=2000).contains(&mode.count), "{mode:?}");
    }
}
