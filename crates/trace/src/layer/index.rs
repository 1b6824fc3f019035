//! Finding requests in flight by where they begin or end.

use super::slab::{Id, NONE};
use super::table::{Key, Table};

/// Requests in flight with the same boundary; more than these are not real.
const LONGEST_CHAIN: usize = 64;

/// From a boundary to the requests there, newest first, each naming the next.
#[derive(Debug, Default)]
pub(super) struct Index(Table);

impl Index {
    /// The newest request at a boundary, or [`NONE`].
    #[inline]
    pub fn newest(&self, at: Key) -> Id {
        self.0.get(at)
    }

    /// Adds a request; `next` is how a request names the one after it. Returns the oldest if there are too many.
    #[inline]
    pub fn link(&mut self, at: Key, id: Id, mut next: impl FnMut(Id, Option<Id>) -> Id) -> Option<Id> {
        let newest_before = self.0.set(at, id);
        next(id, Some(newest_before));
        if newest_before == NONE {
            return None;
        }
        let (mut last, mut length) = (id, 1);
        while next(last, None) != NONE {
            last = next(last, None);
            length += 1;
        }
        (length > LONGEST_CHAIN).then_some(last)
    }

    /// Removes a request that is there.
    #[inline]
    pub fn unlink(&mut self, at: Key, id: Id, mut next: impl FnMut(Id, Option<Id>) -> Id) {
        let after = next(id, None);
        let Some(mut before) = self.0.replace(at, id, after) else { return };
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
