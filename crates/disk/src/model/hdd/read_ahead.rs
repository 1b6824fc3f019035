//! Reading on after a read, as long as nothing else is to be done: what makes sequential reads fast.

use super::arm::Arm;

/// The heads read on from `from` since `since_ns`, until the segment is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// First sector of the run that the segment holds.
    start: u64,
    from: u64,
    since_ns: u64,
    limit: u64,
    segment_sectors: u64,
    disk_sectors: u64,
}

impl ReadAhead {
    /// Reads on after a read of `start` to `end` that ended at `since_ns`.
    pub fn after(start: u64, end: u64, since_ns: u64, segment_sectors: u64, disk_sectors: u64) -> Self {
        let mut ahead = Self { start, from: end, since_ns, limit: end, segment_sectors, disk_sectors };
        ahead.limit = ahead.limit_after(end);
        ahead
    }

    /// A segment reserves half of its space for data to come.
    fn limit_after(&self, end: u64) -> u64 {
        (end + self.segment_sectors / 2).min(self.disk_sectors).max(end)
    }

    /// The sector up to which everything has been read at `now_ns`.
    pub fn reached(&self, arm: &Arm, now_ns: u64) -> u64 {
        let ns = now_ns.saturating_sub(self.since_ns);
        self.from + arm.geometry().passed(self.from, self.limit - self.from, ns)
    }

    /// What the segment holds at `now_ns`.
    pub fn held(&self, arm: &Arm, now_ns: u64) -> (u64, u64) {
        let reached = self.reached(arm, now_ns);
        (self.start.max(reached.saturating_sub(self.segment_sectors)), reached)
    }

    /// Whether a read from `start` on is best served by reading on.
    pub fn leads_to(&self, start: u64, arm: &Arm, now_ns: u64) -> bool {
        self.held(arm, now_ns).0 <= start && start <= self.limit
    }

    /// Whether any sector of the range is held or being read.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.limit
    }

    /// When everything up to `end` will have been read, and how much of the time until then is waiting for the
    /// rotation because the segment was full and the heads have to find their place again.
    pub fn when_read(&self, end: u64, arm: &Arm, now_ns: u64) -> (u64, u64) {
        let (resumed, rotation_ns) = self.resumed(end, arm, now_ns);
        let ns = arm.geometry().transfer_ns(resumed.from, end.saturating_sub(resumed.from));
        ((resumed.since_ns + ns).max(now_ns), rotation_ns)
    }

    /// Continues after the host has taken the data before `end`, which frees space.
    pub fn resumed(&self, end: u64, arm: &Arm, now_ns: u64) -> (Self, u64) {
        let limit = self.limit.max(self.limit_after(end));
        let (start, reached) = self.held(arm, now_ns);
        if reached < self.limit || limit == self.limit {
            // Counted from where the heads are now, so that a long stream is not counted from its beginning again.
            let since_ns = self.since_ns + arm.geometry().reach_ns(self.from, reached - self.from);
            return (Self { start, from: reached, since_ns, limit, ..*self }, 0);
        }
        let place = arm.geometry().place(self.limit);
        let rotation_ns = arm.rotation_ns(&place, now_ns);
        (Self { start, from: self.limit, since_ns: now_ns + rotation_ns, limit, ..*self }, rotation_ns)
    }
}
