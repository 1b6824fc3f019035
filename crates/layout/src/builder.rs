//! Putting a layout together from ranges found in any order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::layout::{Class, Extent, Layout};

/// How many ranges are collected before they are sorted and joined for the first time.
const FIRST_COMPACTION: usize = 1 << 16;

/// Collects ranges. Those that are neighbours in every respect become one. Where two overlap, the one of the class
/// that cannot be mistaken wins (a superblock, a bitmap: found by position; before what an inode claims), of equals
/// the one that was added first; and a remark says so.
///
/// Memory is bounded by the device, not by how often a damaged file system claims the same blocks: ranges are sorted
/// and freed of overlaps whenever their number has doubled.
#[derive(Debug)]
pub(crate) struct LayoutBuilder {
    layout: Layout,
    claims: Vec<Claim>,
    compact_at: usize,
    sharing: bool,
    doubtful: Doubtful,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    extent: Extent,
    /// Lower wins.
    rank: (u8, u32),
}

#[derive(Clone, Copy, Debug, Default)]
struct Doubtful {
    claimed_twice: u64,
    first_claimed_twice: Option<u64>,
    outside: u64,
    first_outside: Option<u64>,
}

#[allow(dead_code, reason = "file systems use what they need")]
impl LayoutBuilder {
    /// For a file system of `total_bytes` from the device's beginning (at most the device: the caller sees to that).
    pub(crate) fn new(file_system: &str, block_bytes: u64, total_bytes: u64) -> Self {
        let file_system = file_system.to_owned();
        let layout = Layout { file_system, block_bytes, total_bytes, ..Layout::default() };
        Self {
            layout,
            claims: Vec::new(),
            compact_at: FIRST_COMPACTION,
            sharing: false,
            doubtful: Doubtful::default(),
        }
    }

    /// Files may share their data (reflinks, snapshots): no remark then when two claim the same bytes.
    pub(crate) fn sharing(mut self) -> Self {
        self.sharing = true;
        self
    }

    /// Something that makes the layout less certain. At most 100 are kept.
    pub(crate) fn remark(&mut self, remark: impl Into<String>) {
        if self.layout.remarks.len() < 100 {
            self.layout.remarks.push(remark.into());
        }
    }

    /// A range that belongs to no inode.
    pub(crate) fn add(&mut self, class: Class, start: u64, bytes: u64) {
        self.add_extent(Extent { start, bytes, class, inode: None, file_offset: None });
    }

    /// A range of an inode. `file_offset` is known of the contents of files and directories.
    pub(crate) fn add_of_inode(
        &mut self,
        class: Class,
        start: u64,
        bytes: u64,
        inode: u64,
        file_offset: Option<u64>,
    ) {
        self.add_extent(Extent { start, bytes, class, inode: Some(inode), file_offset });
    }

    /// A range. What lies beyond the file system's end is left out, with a remark at the end.
    pub(crate) fn add_extent(&mut self, mut extent: Extent) {
        if extent.bytes > 0 && extent.end() > self.layout.total_bytes {
            let inside = self.layout.total_bytes.saturating_sub(extent.start);
            self.doubtful.outside = self.doubtful.outside.saturating_add(extent.bytes - inside);
            self.doubtful.first_outside.get_or_insert(extent.start);
            extent.bytes = inside;
        }
        if extent.bytes == 0 {
            return;
        }
        if let Some(last) = self.claims.last_mut()
            && continues(&last.extent, &extent)
        {
            last.extent.bytes += extent.bytes;
            return;
        }
        let sequence = u32::try_from(self.claims.len()).unwrap_or(u32::MAX);
        self.claims.push(Claim { extent, rank: (rank(extent.class), sequence) });
        if self.claims.len() >= self.compact_at {
            self.compact();
            self.compact_at = (self.claims.len() * 2).max(FIRST_COMPACTION);
        }
    }

    /// The layout.
    pub(crate) fn finish(mut self) -> Layout {
        self.compact();
        if let Some(first) = self.doubtful.first_claimed_twice {
            let bytes = self.doubtful.claimed_twice;
            self.remark(format!(
                "{bytes} bytes, the first at byte {first}, are claimed by more than one structure or file: the file \
                 system is damaged or was in use; check it with its fsck"
            ));
        }
        if let Some(first) = self.doubtful.first_outside {
            let bytes = self.doubtful.outside;
            self.remark(format!(
                "{bytes} bytes, the first at byte {first}, are claimed beyond the end of the file system: it is \
                 damaged or was in use; check it with its fsck"
            ));
        }
        self.layout.extents = self.claims.into_iter().map(|claim| claim.extent).collect();
        self.layout.extents.shrink_to_fit();
        self.layout
    }

    /// Sorts, resolves overlaps and joins neighbours.
    fn compact(&mut self) {
        self.claims.sort_by_key(|claim| (claim.extent.start, claim.rank));
        let overlaps = self.claims.windows(2).any(|pair| end(&pair[0].extent) > pair[1].extent.start);
        if overlaps {
            self.claims = self.resolve();
        }
        join(&mut self.claims);
        // What is here already was added before whatever comes.
        for claim in &mut self.claims {
            claim.rank.1 = 0;
        }
    }

    /// Goes through the sorted claims from the device's beginning to its end; at each place the best of those that
    /// cover it wins.
    fn resolve(&mut self) -> Vec<Claim> {
        let claims = std::mem::take(&mut self.claims);
        let mut resolved: Vec<Claim> = Vec::with_capacity(claims.len());
        let mut open: BinaryHeap<Reverse<((u8, u32), usize)>> = BinaryHeap::new();
        let mut next = 0;
        let mut position = 0;
        loop {
            while let Some(&Reverse((_, best))) = open.peek()
                && end(&claims[best].extent) <= position
            {
                open.pop();
            }
            if open.is_empty() {
                let Some(claim) = claims.get(next) else { break };
                position = position.max(claim.extent.start);
            }
            while let Some(claim) = claims.get(next)
                && claim.extent.start <= position
            {
                open.push(Reverse((claim.rank, next)));
                next += 1;
            }
            let Some(&Reverse((_, best))) = open.peek() else { continue };
            let best_end = end(&claims[best].extent);
            let until = claims.get(next).map_or(best_end, |claim| best_end.min(claim.extent.start));
            if until > position {
                self.note_shared(&claims, &open, best, position, until);
                push(&mut resolved, &claims[best], position, until);
                position = until;
            }
        }
        resolved
    }

    /// Counts what more than one claims between two positions.
    fn note_shared(
        &mut self,
        claims: &[Claim],
        open: &BinaryHeap<Reverse<((u8, u32), usize)>>,
        best: usize,
        position: u64,
        until: u64,
    ) {
        let contents = |class| matches!(class, Class::FileData | Class::ImageData);
        // A few are enough to see it: looking at all of a hostile file system's claims would take forever.
        let others = open.iter().take(64).map(|Reverse((_, index))| &claims[*index].extent);
        let best = &claims[best].extent;
        let not_shared = |other: &&Extent| !(self.sharing && contents(other.class) && contents(best.class));
        let doubly = others.filter(|other| *other != best).filter(not_shared).map(end).max().unwrap_or(0);
        if doubly > position {
            self.doubtful.claimed_twice += doubly.min(until) - position;
            self.doubtful.first_claimed_twice.get_or_insert(position);
        }
    }
}

/// Adds the part of `claim` between two positions.
fn push(resolved: &mut Vec<Claim>, claim: &Claim, position: u64, until: u64) {
    let skipped = position - claim.extent.start;
    let file_offset = claim.extent.file_offset.map(|offset| offset.saturating_add(skipped));
    let extent = Extent { start: position, bytes: until - position, file_offset, ..claim.extent };
    resolved.push(Claim { extent, rank: claim.rank });
}

/// Makes one of neighbours that continue each other.
fn join(claims: &mut Vec<Claim>) {
    claims.dedup_by(|later, earlier| {
        let joined = continues(&earlier.extent, &later.extent);
        if joined {
            earlier.extent.bytes += later.extent.bytes;
        }
        joined
    });
}

fn end(extent: &Extent) -> u64 {
    extent.start.saturating_add(extent.bytes)
}

/// Whether `later` goes on where `earlier` ends, on the device and in its inode.
fn continues(earlier: &Extent, later: &Extent) -> bool {
    end(earlier) == later.start
        && earlier.class == later.class
        && earlier.inode == later.inode
        && match (earlier.file_offset, later.file_offset) {
            (None, None) => true,
            (Some(offset), Some(next)) => offset.checked_add(earlier.bytes) == Some(next),
            _ => false,
        }
}

/// What wins where two claim the same bytes; lower is better.
fn rank(class: Class) -> u8 {
    match class {
        Class::Superblock => 0,
        Class::AllocationMap | Class::Inode | Class::Journal => 1,
        Class::MixedMetadata | Class::ExtentMap | Class::Directory | Class::OtherMetadata => 2,
        Class::FileData | Class::ImageData => 3,
        Class::Flush | Class::Free | Class::Unknown => 4,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Byte by byte, as slowly and simply as can be: (class, inode, position in it).
    type Model = Vec<Option<(Class, Option<u64>, Option<u64>)>>;

    const TOTAL: u64 = 200;

    fn model(added: &[Extent]) -> Model {
        let mut model: Model = vec![None; TOTAL as usize];
        for extent in added {
            for byte in extent.start..extent.end().min(TOTAL) {
                let offset = extent.file_offset.map(|offset| offset + byte - extent.start);
                let slot = &mut model[byte as usize];
                if slot.is_none_or(|(class, ..)| rank(extent.class) < rank(class)) {
                    *slot = Some((extent.class, extent.inode, offset));
                }
            }
        }
        model
    }

    fn extents() -> impl Strategy<Value = Vec<Extent>> {
        let class =
            prop::sample::select(&[Class::Superblock, Class::Inode, Class::Directory, Class::FileData][..]);
        let extent =
            (0..TOTAL + 20, 0_u64..40, class, prop::option::of(0_u64..2), prop::option::of(0_u64..3));
        let extent = extent.prop_map(|(start, bytes, class, inode, offset)| {
            // Positions that often continue the neighbour's.
            let file_offset = offset.map(|offset| start + offset * 1000);
            Extent { start, bytes, class, inode, file_offset }
        });
        prop::collection::vec(extent, 0..40)
    }

    proptest! {
        #[test]
        fn each_byte_is_what_won_it(added in extents(), compactions in prop::collection::vec(any::<bool>(), 40)) {
            let mut builder = LayoutBuilder::new("test", 1, TOTAL);
            for (extent, compact) in added.iter().zip(&compactions) {
                builder.add_extent(*extent);
                if *compact {
                    builder.compact();
                }
            }
            let layout = builder.finish();
            for pair in layout.extents.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].start && !continues(&pair[0], &pair[1]), "{:?}", pair);
            }
            let mut found: Model = vec![None; TOTAL as usize];
            for extent in &layout.extents {
                for byte in extent.start..extent.end() {
                    let offset = extent.file_offset.map(|offset| offset + byte - extent.start);
                    found[byte as usize] = Some((extent.class, extent.inode, offset));
                }
            }
            prop_assert_eq!(found, model(&added));
            let outside = added.iter().any(|extent| extent.bytes > 0 && extent.end() > TOTAL);
            prop_assert_eq!(outside, layout.remarks.iter().any(|remark| remark.contains("beyond the end")));
        }

        #[test]
        fn pieces_cover_a_range_once(added in extents(), offset in 0..TOTAL + 50, bytes in 0..TOTAL) {
            let mut builder = LayoutBuilder::new("test", 1, TOTAL);
            added.iter().for_each(|extent| builder.add_extent(*extent));
            let layout = builder.finish();
            let mut position = offset;
            for piece in layout.pieces(offset, bytes) {
                prop_assert!(piece.start == position && piece.bytes > 0);
                position += piece.bytes;
                let expected = layout.extents.iter().find(|e| e.start <= piece.start && piece.start < e.end());
                prop_assert_eq!(piece.extent, expected);
                let free = if piece.start < TOTAL { Class::Free } else { Class::Unknown };
                prop_assert_eq!(piece.class, expected.map_or(free, |extent| extent.class));
            }
            prop_assert_eq!(position, offset + bytes);
        }
    }

    #[test]
    fn neighbours_join_and_overlaps_are_told() {
        let mut builder = LayoutBuilder::new("test", 10, 1000);
        builder.add_of_inode(Class::FileData, 20, 10, 5, Some(10));
        builder.add_of_inode(Class::FileData, 10, 10, 5, Some(0));
        builder.add_of_inode(Class::FileData, 30, 10, 5, Some(50));
        builder.add(Class::Superblock, 35, 10);
        let layout = builder.finish();
        let ranges: Vec<_> =
            layout.extents.iter().map(|e| (e.start, e.bytes, e.class, e.file_offset)).collect();
        let expected = [
            (10, 20, Class::FileData, Some(0)),
            (30, 5, Class::FileData, Some(50)),
            (35, 10, Class::Superblock, None),
        ];
        assert_eq!(ranges, expected);
        assert_eq!(layout.file(5), [(0, 10, 20), (50, 30, 5)]);
        let expected = "5 bytes, the first at byte 35, are claimed by more than one structure or file";
        assert!(layout.remarks[0].starts_with(expected), "{:?}", layout.remarks);
    }

    #[test]
    fn shared_data_is_no_damage() {
        let mut builder = LayoutBuilder::new("test", 10, 1000).sharing();
        builder.add_of_inode(Class::FileData, 20, 10, 5, Some(0));
        builder.add_of_inode(Class::FileData, 20, 20, 6, Some(0));
        let layout = builder.finish();
        assert_eq!(layout.remarks, [""; 0]);
        assert_eq!((layout.file(5), layout.file(6)), (vec![(0, 20, 10)], vec![(10, 30, 10)]));
    }
}
