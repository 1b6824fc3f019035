//! Finding requests in flight by where they begin or end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use super::slab::{Id, NONE};
use crate::event::Device;

/// Requests in flight with the same boundary; more than these are not real.
const LONGEST_CHAIN: usize = 64;

/// A boundary: device and sector.
pub(super) type Boundary = (u32, u64);

pub(super) fn boundary(device: Device, sector: u64) -> Boundary {
    (device.to_kernel(), sector)
}

/// Multiplies with 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, §6.4): sectors are
/// regular numbers, and a look-up is made for every event.
#[derive(Default)]
pub(super) struct Fibonacci(u64);

impl Hasher for Fibonacci {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// From a boundary to the requests there, newest first, each naming the next.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<Boundary, Id, BuildHasherDefault<Fibonacci>>);

impl Index {
    /// The newest request at a boundary, or [`NONE`].
    pub fn newest(&self, at: Boundary) -> Id {
        self.0.get(&at).copied().unwrap_or(NONE)
    }

    /// Adds a request; `next` is how a request names the one after it. Returns the oldest if there are too many.
    pub fn link(&mut self, at: Boundary, id: Id, mut next: impl FnMut(Id, Option<Id>) -> Id) -> Option<Id> {
        let newest_before = self.0.insert(at, id).unwrap_or(NONE);
        next(id, Some(newest_before));
        let (mut last, mut length) = (id, 1);
        while next(last, None) != NONE {
            last = next(last, None);
            length += 1;
        }
        (length > LONGEST_CHAIN).then_some(last)
    }

    /// Removes a request that is there.
    pub fn unlink(&mut self, at: Boundary, id: Id, mut next: impl FnMut(Id, Option<Id>) -> Id) {
        let after = next(id, None);
        let Entry::Occupied(mut newest) = self.0.entry(at) else { return };
        if *newest.get() == id {
            if after == NONE {
                newest.remove();
            } else {
                newest.insert(after);
            }
            return;
        }
        let mut before = *newest.get();
        while before != NONE {
            let following = next(before, None);
            if following == id {
                next(before, Some(after));
                return;
            }
            before = following;
        }
    }
}
