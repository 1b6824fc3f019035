//! Where the bytes of a file lie on the device of its file system.

/// The extents of a file: position in it, position on the device, and bytes; in the order of the positions in it, without overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileExtents(Vec<(u64, u64, u64)>);

impl FileExtents {
    /// Of extents as [`Layout::file`](nestor_layout::Layout::file) gives them. What a damaged file system has twice counts as where it is first.
    pub fn new(mut extents: Vec<(u64, u64, u64)>) -> Self {
        extents.sort_unstable();
        let mut end = 0_u64;
        extents.retain_mut(|(at, device, bytes)| {
            let cut = end.saturating_sub(*at).min(*bytes);
            (*at, *device, *bytes) = (at.saturating_add(cut), device.saturating_add(cut), *bytes - cut);
            end = end.max(at.saturating_add(*bytes));
            *bytes > 0
        });
        Self(extents)
    }

    /// The parts of a range of the file on the device: position and bytes. Holes have none.
    pub fn parts(&self, offset: u64, bytes: u64) -> Vec<(u64, u64)> {
        let end = offset.saturating_add(bytes);
        let first = self.0.partition_point(|(at, _, bytes)| at.saturating_add(*bytes) <= offset);
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for (at, device, bytes) in self.0[first..].iter().take_while(|(at, ..)| *at < end) {
            let from = offset.max(*at);
            let length = end.min(at.saturating_add(*bytes)) - from;
            let place = device.saturating_add(from - at);
            match parts.last_mut() {
                Some((start, so_far)) if start.saturating_add(*so_far) == place => *so_far += length,
                _ => parts.push((place, length)),
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_the_extents_a_range_has_each_byte_once(
            extents in proptest::collection::vec((0..200_u64, any::<u64>(), 0..80_u64), 0..12),
            offset in 0..220_u64,
            bytes in 0..100_u64,
        ) {
            let has = |byte: &u64| extents.iter().any(|(at, _, bytes)| (*at..at + bytes).contains(byte));
            let known = (offset..offset + bytes).filter(has).count() as u64;
            let parts = FileExtents::new(extents.clone()).parts(offset, bytes);
            prop_assert_eq!(parts.iter().map(|(_, bytes)| bytes).sum::<u64>(), known);
        }
    }

    #[test]
    fn a_range_has_the_parts_of_its_extents_without_holes() {
        let file = FileExtents::new(vec![(0, 1000, 100), (100, 1100, 50), (200, 5000, 100)]);
        assert_eq!(file.parts(50, 100), [(1050, 100)], "what continues is one part");
        assert_eq!(file.parts(140, 100), [(1140, 10), (5000, 40)]);
        assert_eq!(file.parts(150, 50), []);
        assert_eq!(file.parts(290, u64::MAX), [(5090, 10)]);
    }
}
