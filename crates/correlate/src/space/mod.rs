//! How the space of one level lies in that of the next: an image file on a device.

mod parse;

pub use parse::{read_extents, read_extents_from};

/// A range of an upper space and where it begins in a lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedExtent {
    /// First byte above.
    pub upper: u64,
    /// First byte below.
    pub lower: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// From the space of a level to that of the next one down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpaceMap {
    /// The same offsets.
    #[default]
    Identity,
    /// The same offsets, later by so much: a partition on its disk.
    Shifted {
        /// Bytes before the upper space.
        bytes: u64,
    },
    /// Ranges of the upper space at places of the lower one.
    Extents(ExtentMap),
    /// Not known beforehand, but data keeps its position within a cluster (qcow2, vmdk, vdi: an image format that
    /// allocates clusters as they are written): learnt from the requests.
    Clusters {
        /// Bytes of a cluster, a power of two.
        bytes: u64,
    },
}

/// Extents, found from both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentMap {
    /// Sorted by `upper`, without overlap there.
    by_upper: Vec<MappedExtent>,
    /// Positions in `by_upper`, sorted by `lower`.
    by_lower: Vec<u32>,
}

/// Why extents make no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtentError {
    /// One is longer than a space can be.
    #[error("an extent of {bytes} bytes at {at} goes beyond 2^64")]
    BeyondTheSpace {
        /// Its first byte above.
        at: u64,
        /// Its length.
        bytes: u64,
    },
    /// Two hold the same byte of the upper space.
    #[error("two extents contain byte {byte} of the image")]
    Twice {
        /// The byte.
        byte: u64,
    },
    /// There are none.
    #[error("it has no extents")]
    None,
    /// More than can be counted.
    #[error("{0} extents are more than can be handled (at most {most})", most = u32::MAX)]
    TooMany(usize),
    /// One would leave the space.
    #[error("the shift goes beyond 2^64")]
    ShiftBeyondTheSpace,
}

/// A part of a mapped range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPiece {
    /// First byte above.
    pub upper: u64,
    /// First byte below; `None` where nothing is mapped (a hole).
    pub lower: Option<u64>,
    /// Length in bytes.
    pub bytes: u64,
}

impl ExtentMap {
    /// Makes a map of extents in any order; those that continue one another are joined.
    ///
    /// # Errors
    /// Two extents hold the same byte of the upper space, one is longer than a space can be, or there are none.
    pub fn new(mut extents: Vec<MappedExtent>) -> Result<Self, ExtentError> {
        extents.retain(|extent| extent.bytes > 0);
        extents.sort_unstable_by_key(|extent| extent.upper);
        let mut by_upper: Vec<MappedExtent> = Vec::with_capacity(extents.len());
        for extent in extents {
            let ends = extent.upper.checked_add(extent.bytes).zip(extent.lower.checked_add(extent.bytes));
            if ends.is_none() {
                return Err(ExtentError::BeyondTheSpace { at: extent.upper, bytes: extent.bytes });
            }
            match by_upper.last_mut() {
                Some(last) if last.upper + last.bytes > extent.upper => {
                    return Err(ExtentError::Twice { byte: extent.upper });
                }
                Some(last)
                    if last.upper + last.bytes == extent.upper && last.lower + last.bytes == extent.lower =>
                {
                    last.bytes += extent.bytes;
                }
                _ => by_upper.push(extent),
            }
        }
        if by_upper.is_empty() {
            return Err(ExtentError::None);
        }
        let Ok(count) = u32::try_from(by_upper.len()) else {
            return Err(ExtentError::TooMany(by_upper.len()));
        };
        let mut by_lower: Vec<u32> = (0..count).collect();
        by_lower.sort_unstable_by_key(|index| by_upper[*index as usize].lower);
        Ok(Self { by_upper, by_lower })
    }

    /// The extents, sorted by their place above.
    pub fn extents(&self) -> &[MappedExtent] {
        &self.by_upper
    }

    /// Moves everything below by `bytes`: from a partition to its disk.
    ///
    /// # Errors
    /// An extent would leave the space.
    pub fn shifted(&self, bytes: u64) -> Result<Self, ExtentError> {
        let moved = self.by_upper.iter().map(|extent| {
            let lower = extent.lower.checked_add(bytes).ok_or(ExtentError::ShiftBeyondTheSpace)?;
            Ok(MappedExtent { lower, ..*extent })
        });
        Self::new(moved.collect::<Result<_, _>>()?)
    }

    /// From the upper space of this map to the lower one of the map below it.
    ///
    /// # Errors
    /// No byte has a place in both.
    pub fn through(&self, below: &Self) -> Result<Self, ExtentError> {
        let extents = self.by_upper.iter().flat_map(|extent| {
            below.pieces(extent.lower, extent.bytes).filter_map(|piece| {
                let upper = extent.upper + (piece.upper - extent.lower);
                Some(MappedExtent { upper, lower: piece.lower?, bytes: piece.bytes })
            })
        });
        Self::new(extents.collect())
    }

    /// The byte after the last one that is mapped, above and below.
    pub fn ends(&self) -> (u64, u64) {
        let end =
            |at: fn(&MappedExtent) -> u64| self.by_upper.iter().map(|e| at(e) + e.bytes).max().unwrap_or(0);
        (end(|extent| extent.upper), end(|extent| extent.lower))
    }

    /// Cuts a range of the upper space where its place below changes.
    pub fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = MappedPiece> + '_ {
        let mut index = self.by_upper.partition_point(|extent| extent.upper + extent.bytes <= offset);
        let mut position = offset;
        let end = offset.saturating_add(bytes);
        std::iter::from_fn(move || {
            if position >= end {
                return None;
            }
            let upper = position;
            let (lower, piece_end) = match self.by_upper.get(index) {
                Some(extent) if extent.upper <= position => {
                    index += 1;
                    (Some(extent.lower + (position - extent.upper)), extent.upper + extent.bytes)
                }
                Some(extent) => (None, extent.upper),
                None => (None, end),
            };
            position = piece_end.min(end);
            Some(MappedPiece { upper, lower, bytes: position - upper })
        })
    }

    /// Calls `act` with each part of a range of the lower space that belongs to the map, as place above and length; returns the bytes that do
    /// not.
    pub fn for_each_piece_above(&self, lower: u64, bytes: u64, mut act: impl FnMut(u64, u64)) -> u64 {
        let end = lower.saturating_add(bytes);
        let (mut position, mut missing) = (lower, 0);
        let before = self.by_lower.partition_point(|index| self.by_upper[*index as usize].lower <= lower);
        for index in self.by_lower.iter().skip(before.saturating_sub(1)) {
            let extent = &self.by_upper[*index as usize];
            let extent_end = extent.lower + extent.bytes;
            if extent.lower >= end {
                break;
            }
            if extent_end <= position {
                continue;
            }
            let start = extent.lower.max(position);
            missing += start - position;
            let piece_end = extent_end.min(end);
            act(extent.upper + (start - extent.lower), piece_end - start);
            position = piece_end;
        }
        missing + (end - position)
    }

    /// Where a byte below is above, if it belongs to the map.
    pub fn above(&self, lower: u64) -> Option<u64> {
        let at = self.by_lower.partition_point(|index| self.by_upper[*index as usize].lower <= lower);
        let extent = &self.by_upper[*self.by_lower.get(at.checked_sub(1)?)? as usize];
        (lower - extent.lower < extent.bytes).then(|| extent.upper + (lower - extent.lower))
    }
}

impl SpaceMap {
    /// Moves everything below by `bytes`: from a partition to its disk.
    ///
    /// # Errors
    /// It would leave the space.
    pub fn shifted(self, bytes: u64) -> Result<Self, ExtentError> {
        match self {
            map if bytes == 0 => Ok(map),
            Self::Identity => Ok(Self::Shifted { bytes }),
            Self::Shifted { bytes: before } => {
                let bytes = before.checked_add(bytes).ok_or(ExtentError::ShiftBeyondTheSpace)?;
                Ok(Self::Shifted { bytes })
            }
            Self::Extents(map) => Ok(Self::Extents(map.shifted(bytes)?)),
            // A position is kept within as much of a cluster as the shift is a multiple of.
            Self::Clusters { bytes: cluster } => {
                Ok(Self::Clusters { bytes: cluster.min(1 << bytes.trailing_zeros()) })
            }
        }
    }

    /// Where a byte of the upper space is below.
    pub fn below(&self, upper: u64) -> Option<u64> {
        match self {
            Self::Identity => Some(upper),
            Self::Shifted { bytes } => upper.checked_add(*bytes),
            Self::Extents(map) => map.pieces(upper, 1).next()?.lower,
            Self::Clusters { .. } => None,
        }
    }

    /// Calls `act` with each part of a range that is known below, as place below and length; returns the bytes that
    /// are not.
    pub fn for_each_piece(&self, offset: u64, bytes: u64, mut act: impl FnMut(u64, u64)) -> u64 {
        match self {
            Self::Identity => {
                if bytes > 0 {
                    act(offset, bytes);
                }
                0
            }
            Self::Shifted { bytes: shift } => {
                let Some(below) = offset.checked_add(*shift) else { return bytes };
                Self::Identity.for_each_piece(below, bytes, act)
            }
            Self::Extents(map) => {
                let mut missing = 0;
                for piece in map.pieces(offset, bytes) {
                    match piece.lower {
                        Some(lower) => act(lower, piece.bytes),
                        None => missing += piece.bytes,
                    }
                }
                missing
            }
            Self::Clusters { .. } => bytes,
        }
    }

    /// [`ExtentMap::for_each_piece_above`]; of clusters, nothing is known.
    pub fn for_each_piece_above(&self, lower: u64, bytes: u64, mut act: impl FnMut(u64, u64)) -> u64 {
        match self {
            Self::Identity => {
                if bytes > 0 {
                    act(lower, bytes);
                }
                0
            }
            Self::Shifted { bytes: shift } => {
                let before = shift.saturating_sub(lower).min(bytes);
                let above = (lower + before).saturating_sub(*shift);
                before + Self::Identity.for_each_piece_above(above, bytes - before, act)
            }
            Self::Extents(map) => map.for_each_piece_above(lower, bytes, act),
            Self::Clusters { .. } => bytes,
        }
    }

    /// Where a byte below is above, if it belongs to the map.
    pub fn above(&self, lower: u64) -> Option<u64> {
        match self {
            Self::Identity => Some(lower),
            Self::Shifted { bytes } => lower.checked_sub(*bytes),
            Self::Extents(map) => map.above(lower),
            Self::Clusters { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_map() -> impl Strategy<Value = ExtentMap> {
        // Gaps and lengths above; below the extents lie in another order, one after the other.
        prop::collection::vec((0..5_u64, 1..9_u64), 1..20).prop_map(|parts| {
            let mut extents = Vec::new();
            let (mut upper, mut lower) = (0, 1000);
            for (gap, bytes) in parts {
                upper += gap;
                extents.push(MappedExtent { upper, lower: 0, bytes });
                upper += bytes;
            }
            for extent in extents.iter_mut().rev() {
                extent.lower = lower;
                lower += extent.bytes;
            }
            ExtentMap::new(extents).unwrap()
        })
    }

    proptest! {
        #[test]
        fn a_byte_comes_back_to_where_it_was(map in any_map(), offset in 0..300_u64, bytes in 0..60_u64) {
            let mut position = offset;
            for piece in map.pieces(offset, bytes) {
                prop_assert_eq!(piece.upper, position);
                prop_assert!(piece.bytes > 0);
                position += piece.bytes;
                if let Some(lower) = piece.lower {
                    for byte in 0..piece.bytes {
                        prop_assert_eq!(map.above(lower + byte), Some(piece.upper + byte));
                    }
                }
            }
            prop_assert_eq!(position, offset + bytes);
        }

        #[test]
        fn a_range_below_comes_from_the_same_bytes_as_each_of_it(map in any_map(), offset in 990..1200_u64, bytes in 0..60_u64) {
            let mut found = Vec::new();
            let missing = map.for_each_piece_above(offset, bytes, |upper, bytes| found.extend(upper..upper + bytes));
            let each: Vec<u64> = (offset..offset + bytes).filter_map(|byte| map.above(byte)).collect();
            prop_assert_eq!(missing, bytes - each.len() as u64);
            prop_assert_eq!(found, each);
        }
    }

    fn any_space() -> impl Strategy<Value = SpaceMap> {
        let shifted = (0..200_u64).prop_map(|bytes| SpaceMap::Shifted { bytes });
        prop_oneof![Just(SpaceMap::Identity), shifted, any_map().prop_map(SpaceMap::Extents)]
    }

    fn pieces(map: &SpaceMap, offset: u64, bytes: u64) -> (Vec<(u64, u64)>, u64) {
        let mut pieces = Vec::new();
        let missing = map.for_each_piece(offset, bytes, |lower, bytes| pieces.push((lower, bytes)));
        (pieces, missing)
    }

    proptest! {
        #[test]
        fn what_lies_in_a_partition_lies_later_on_its_disk(
            map in any_space(), shift in 0..100_000_u64, offset in 0..300_u64, bytes in 0..60_u64,
        ) {
            let shifted = map.clone().shifted(shift).unwrap();
            let (before, missing) = pieces(&map, offset, bytes);
            let later: Vec<_> = before.into_iter().map(|(lower, bytes)| (lower + shift, bytes)).collect();
            prop_assert_eq!(pieces(&shifted, offset, bytes), (later, missing));
            let below = map.below(offset);
            prop_assert_eq!(shifted.below(offset), below.map(|lower| lower + shift));
            if let Some(lower) = below {
                prop_assert_eq!(shifted.above(lower + shift), Some(offset));
            }
            if shift > 0 {
                prop_assert_eq!(shifted.above(shift - 1), None);
                prop_assert_eq!(shifted.for_each_piece_above(0, shift, |_, _| panic!("nothing is before it")), shift);
            }
        }
    }

    #[test]
    fn clusters_of_a_partition_keep_what_the_shift_leaves_of_them() {
        let shifted = |cluster, by| SpaceMap::Clusters { bytes: cluster }.shifted(by).unwrap();
        assert_eq!(shifted(4096, 63 * 512), SpaceMap::Clusters { bytes: 512 });
        assert_eq!(shifted(4096, 1 << 20), SpaceMap::Clusters { bytes: 4096 });
        assert_eq!(shifted(4096, 0), SpaceMap::Clusters { bytes: 4096 });
        assert!(SpaceMap::Shifted { bytes: u64::MAX }.shifted(1).is_err());
    }

    proptest! {
        #[test]
        fn a_byte_lies_below_two_maps_where_each_says(
            upper in any_map(),
            // The lower places of the upper map begin at 1000.
            lower in any_map().prop_filter_map("no byte", |map| {
                let moved = map.extents().iter().map(|e| MappedExtent { upper: e.upper + 1000, ..*e });
                ExtentMap::new(moved.collect()).ok()
            }),
            offset in 0..300_u64,
        ) {
            let [first, second] = [&upper, &lower].map(|map| SpaceMap::Extents(map.clone()));
            let expected = first.below(offset).and_then(|between| second.below(between));
            match upper.through(&lower) {
                Ok(both) => prop_assert_eq!(SpaceMap::Extents(both).below(offset), expected),
                Err(e) => prop_assert_eq!((e, expected), (ExtentError::None, None)),
            }
        }
    }

    #[test]
    fn a_map_that_contradicts_itself_is_refused() {
        let extent = |upper, lower, bytes| MappedExtent { upper, lower, bytes };
        assert_eq!(
            ExtentMap::new(vec![extent(0, 0, 10), extent(5, 90, 10)]).unwrap_err(),
            ExtentError::Twice { byte: 5 }
        );
        assert!(ExtentMap::new(vec![extent(u64::MAX - 2, 0, 10)]).is_err());
        assert!(ExtentMap::new(vec![extent(7, 0, 0)]).is_err());
        let joined = ExtentMap::new(vec![extent(10, 110, 10), extent(0, 100, 10)]).unwrap();
        assert_eq!(joined.extents(), [extent(0, 100, 20)]);
        assert_eq!(joined.shifted(7).unwrap().extents(), [extent(0, 107, 20)]);
    }
}
