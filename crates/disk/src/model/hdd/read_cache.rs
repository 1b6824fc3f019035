//! The read side of the drive's buffer: segments, each a run of consecutive sectors.

/// A run of consecutive sectors that the buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First sector.
    pub start: u64,
    /// Sector after the last.
    pub end: u64,
    last_used: u64,
}

/// Least recently used segments make room for new ones.
#[derive(Clone, Debug)]
pub struct ReadCache {
    segments: Vec<Segment>,
    most: usize,
    segment_sectors: u64,
    uses: u64,
}

impl ReadCache {
    /// A buffer of `sectors` in at most `segments` runs.
    pub fn new(sectors: u64, segments: u32) -> Self {
        let most = segments.max(1);
        Self {
            segments: Vec::new(),
            most: most as usize,
            segment_sectors: (sectors / u64::from(most)).max(1),
            uses: 0,
        }
    }

    /// Sectors that one segment holds.
    pub fn segment_sectors(&self) -> u64 {
        self.segment_sectors
    }

    /// Whether the whole range is held; marks it as used.
    pub fn hit(&mut self, start: u64, end: u64) -> bool {
        self.uses += 1;
        let uses = self.uses;
        let segment = self.segments.iter_mut().find(|s| s.start <= start && end <= s.end);
        segment.map(|s| s.last_used = uses).is_some()
    }

    /// Keeps data that was read: extends the segment that ends or reaches there, or takes a new one.
    pub fn insert(&mut self, start: u64, end: u64) {
        self.uses += 1;
        let size = self.segment_sectors;
        if let Some(segment) = self.segments.iter_mut().find(|s| s.start <= start && start <= s.end) {
            segment.end = segment.end.max(end);
            segment.start = segment.start.max(segment.end.saturating_sub(size));
            segment.last_used = self.uses;
            return;
        }
        if self.segments.len() == self.most {
            let oldest = (0..self.most).min_by_key(|i| self.segments[*i].last_used);
            oldest.map(|i| self.segments.swap_remove(i));
        }
        self.segments.push(Segment { start: start.max(end.saturating_sub(size)), end, last_used: self.uses });
    }

    /// Forgets segments that overlap a range that is written.
    pub fn invalidate(&mut self, start: u64, end: u64) {
        self.segments.retain(|s| s.end <= start || end <= s.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_one_segment_and_the_oldest_makes_room() {
        let mut cache = ReadCache::new(300, 3);
        cache.insert(0, 60);
        cache.insert(60, 120);
        assert!(cache.hit(100, 120) && !cache.hit(0, 10), "a segment holds its last 100 sectors");
        cache.insert(1000, 1010);
        cache.insert(2000, 2010);
        assert!(cache.hit(20, 30));
        cache.insert(3000, 3010);
        assert!(cache.hit(20, 30) && !cache.hit(1000, 1010), "the least recently used went");
        cache.invalidate(25, 26);
        assert!(!cache.hit(20, 30));
    }
}
