//! Finding bios by device and sector, in the lists of the bios that begin near a sector.

use super::{Bio, Bios, LIST_SHIFT, NEVER, list_of};
use crate::event::{BlockEvent, Device};
use crate::layer::slab::{Id, NONE};
use crate::layer::table::{Key, key};

impl Bios {
    /// The bio that begins at a sector.
    #[inline]
    pub(super) fn beginning_at(&self, device: Device, sector: u64) -> Id {
        // Mostly the next event is of the same bio. One that has ended keeps its sectors but not its time.
        if let Some(bio) = self.bios.get(self.last)
            && bio.start == sector
            && bio.device == device
            && bio.queued_ns != NEVER
        {
            return self.last;
        }
        let mut id = self.lists.get(list_of(device, sector));
        while id != NONE {
            let bio = &self.bios[id];
            if bio.start == sector && bio.device == device {
                break;
            }
            id = bio.next;
        }
        id
    }

    /// The bio that begins at a sector, else one that contains the sector: a bio that was split.
    #[inline]
    pub(super) fn find(&self, device: Device, sector: u64) -> Id {
        let id = self.beginning_at(device, sector);
        if id == NONE { self.around(device, sector) } else { id }
    }

    #[cold]
    fn around(&self, device: Device, sector: u64) -> Id {
        let holds = |bio: &Bio| bio.start < sector && sector < bio.end && bio.device == device;
        let lists = (self.longest >> LIST_SHIFT) + 1;
        if lists > self.lists.len() as u64 {
            // Fewer lists than places where one might be.
            let mut all = self.bios.ids();
            return all.find(|&id| self.bios[id].queued_ns != NEVER && holds(&self.bios[id])).unwrap_or(NONE);
        }
        let last = sector >> LIST_SHIFT;
        for list in (last.saturating_sub(lists)..=last).rev() {
            let mut id = self.lists.get(key(device, list));
            while id != NONE && !holds(&self.bios[id]) {
                id = self.bios[id].next;
            }
            if id != NONE {
                return id;
            }
        }
        NONE
    }

    /// Calls `then` for every bio within the event's sectors; it may remove that bio.
    #[inline]
    pub(super) fn each_within(&mut self, event: &BlockEvent, mut then: impl FnMut(&mut Self, Id)) {
        let (start, end) = (event.sector, event.end_sector());
        let (first, last) = (start >> LIST_SHIFT, end.saturating_sub(1) >> LIST_SHIFT);
        if last.saturating_sub(first) > self.lists.len() as u64 {
            // Fewer lists than places where one might be.
            for id in self.bios.ids() {
                let bio = &self.bios[id];
                if bio.queued_ns != NEVER
                    && bio.device == event.device
                    && bio.start >= start
                    && bio.end <= end
                {
                    then(self, id);
                }
            }
            return;
        }
        for list in first..=last {
            let mut id = self.lists.get(key(event.device, list));
            while id != NONE {
                let bio = &self.bios[id];
                let next = bio.next;
                if bio.device == event.device && bio.start >= start && bio.end <= end {
                    then(self, id);
                }
                id = next;
            }
        }
    }

    #[inline]
    pub(super) fn unlink(&mut self, id: Id, list: Key) {
        let next = self.bios[id].next;
        // Free for all who look through the bios themselves.
        self.bios[id].queued_ns = NEVER;
        self.bios.free(id);
        let Some(mut before) = self.lists.replace(list, id, next) else { return };
        while before != NONE {
            let after = self.bios[before].next;
            if after == id {
                self.bios[before].next = next;
                return;
            }
            before = after;
        }
    }

    /// Gives up a bio that btt would keep: one that was split, or whose end is not in the trace.
    #[cold]
    pub(super) fn give_up(&mut self) {
        const LOOK_AT: u32 = 8;
        let mut oldest = NONE;
        for _ in 0..LOOK_AT {
            self.hand = (self.hand + 1) % self.most.max(1) as u32;
            let bio = &self.bios[self.hand];
            if bio.queued_ns != NEVER && (oldest == NONE || bio.queued_ns < self.bios[oldest].queued_ns) {
                oldest = self.hand;
            }
        }
        if oldest != NONE {
            let bio = &self.bios[oldest];
            let list = list_of(bio.device, bio.start);
            self.unlink(oldest, list);
        }
    }
}
