//! Where an array has its data, and what it does on its disks for a request. Pure.

use crate::log::Operation;

/// How an array guards its data against the loss of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// Not at all: RAID-0, chunk after chunk goes to disk after disk.
    None,
    /// One chunk of every row has the parity of the others, on another disk in every row: RAID-5, in the left-symmetric layout
    /// (`ALGORITHM_LEFT_SYMMETRIC`, drivers/md/raid5.c, Linux's default).
    Parity,
}

/// A request to one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What the disk is asked for.
    pub operation: Operation,
    /// Which disk.
    pub member: usize,
    /// First sector there.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
}

/// What an array does for a part of a request: first some pieces, at the same time, and when all are done some more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// At once.
    pub first: Vec<Piece>,
    /// When they are done: the new data and the new parity, which need the old ones.
    pub then: Vec<Piece>,
}

impl Step {
    /// Whether its writes need what is on the disks.
    pub fn reads_first(&self) -> bool {
        !self.then.is_empty()
    }
}

/// The layout of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayLayout {
    /// Number of disks.
    pub members: u32,
    /// Sectors on one disk before the next one's turn.
    pub chunk_sectors: u64,
    /// What guards the data.
    pub redundancy: Redundancy,
}

/// A range of sectors on a disk.
#[derive(Clone, Copy, Debug)]
struct Range {
    member: usize,
    start: u64,
    length: u64,
}

impl ArrayLayout {
    /// Disks' worth of data.
    pub fn data_members(&self) -> u64 {
        u64::from(self.members) - u64::from(self.redundancy == Redundancy::Parity)
    }

    /// What the array does for a request, of at least one sector unless it is a flush.
    pub fn steps(&self, operation: Operation, sector: u64, sectors: u64) -> Vec<Step> {
        match (operation, self.redundancy) {
            (Operation::Flush, _) => {
                let to_all = (0..self.members as usize).map(|member| Piece {
                    operation,
                    member,
                    sector: 0,
                    sectors: 0,
                });
                vec![Step { first: to_all.collect(), then: Vec::new() }]
            }
            (Operation::Write, Redundancy::Parity) => self.writes_with_parity(sector, sectors),
            _ => {
                let first = pieces(operation, self.data_ranges(sector, sectors));
                vec![Step { first, then: Vec::new() }]
            }
        }
    }

    /// The disk that has a row's parity.
    fn parity_member(&self, row: u64) -> usize {
        let members = u64::from(self.members);
        (members - 1 - row % members) as usize
    }

    /// The disk that has a chunk of a row, counted from 0.
    fn data_member(&self, row: u64, chunk: u64) -> usize {
        match self.redundancy {
            Redundancy::None => chunk as usize,
            // The first chunk is on the disk after that with the parity.
            Redundancy::Parity => (self.parity_member(row) + 1 + chunk as usize) % self.members as usize,
        }
    }

    /// Where a range of the array's sectors is, chunk by chunk.
    fn data_ranges(&self, sector: u64, sectors: u64) -> Vec<Range> {
        let (chunk, in_row) = (self.chunk_sectors, self.data_members());
        let (mut at, end) = (sector, sector + sectors);
        let mut ranges = Vec::new();
        while at < end {
            let (number, within) = (at / chunk, at % chunk);
            let (row, length) = (number / in_row, (chunk - within).min(end - at));
            let member = self.data_member(row, number % in_row);
            ranges.push(Range { member, start: row * chunk + within, length });
            at += length;
        }
        ranges
    }

    /// Writes of whole rows need nothing that is on the disks. In any other row, the new parity follows from the old data and the old parity
    /// (read-modify-write), or from the data that are not written (reconstruct-write), whichever needs fewer disks
    /// (`handle_stripe_dirtying`, drivers/md/raid5.c).
    fn writes_with_parity(&self, sector: u64, sectors: u64) -> Vec<Step> {
        let row_sectors = self.chunk_sectors * self.data_members();
        let end = sector + sectors;
        let (first_row, last_row) = (sector / row_sectors, (end - 1) / row_sectors);
        let mut whole = Vec::new();
        let mut steps = Vec::new();
        for row in first_row..=last_row {
            let begin = row * row_sectors;
            let (from, to) = (sector.max(begin) - begin, end.min(begin + row_sectors) - begin);
            if to - from == row_sectors {
                whole.extend((0..self.members as usize).map(|member| Range {
                    member,
                    start: row * self.chunk_sectors,
                    length: self.chunk_sectors,
                }));
            } else {
                steps.push(self.write_in_row(row, from, to));
            }
        }
        if !whole.is_empty() {
            steps.push(Step { first: pieces(Operation::Write, whole), then: Vec::new() });
        }
        steps
    }

    /// Writes sectors `from..to` of a row's data. At each place of a chunk as many chunks are written.
    fn write_in_row(&self, row: u64, from: u64, to: u64) -> Step {
        let chunk = self.chunk_sectors;
        let mut edges = vec![0, from % chunk, (to - 1) % chunk + 1, chunk];
        edges.sort_unstable();
        edges.dedup();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for place in edges.windows(2) {
            let (low, length) = (place[0], place[1] - place[0]);
            let range = |member| Range { member, start: row * chunk + low, length };
            let is_written = |number: &u64| (from..to).contains(&(number * chunk + low));
            let (written, left): (Vec<u64>, Vec<u64>) = (0..self.data_members()).partition(is_written);
            if written.is_empty() {
                continue;
            }
            let on_disks = |numbers: &[u64]| -> Vec<Range> {
                numbers.iter().map(|number| range(self.data_member(row, *number))).collect()
            };
            let parity = range(self.parity_member(row));
            if written.len() + 1 < left.len() {
                reads.extend(on_disks(&written));
                reads.push(parity);
            } else {
                reads.extend(on_disks(&left));
            }
            writes.extend(on_disks(&written));
            writes.push(parity);
        }
        let writes = pieces(Operation::Write, writes);
        if reads.is_empty() {
            return Step { first: writes, then: Vec::new() };
        }
        Step { first: pieces(Operation::Read, reads), then: writes }
    }
}

/// Requests for ranges, by disk and place; those that are next to each other are one.
fn pieces(operation: Operation, mut ranges: Vec<Range>) -> Vec<Piece> {
    ranges.sort_by_key(|range| (range.member, range.start));
    let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.member == range.member && last.start + last.length == range.start => {
                last.length += range.length;
            }
            _ => merged.push(range),
        }
    }
    let piece = |range: Range| Piece {
        operation,
        member: range.member,
        sector: range.start,
        sectors: u32::try_from(range.length).unwrap_or(u32::MAX),
    };
    merged.into_iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const STRIPED: ArrayLayout = ArrayLayout { members: 14, chunk_sectors: 32, redundancy: Redundancy::None };
    const GUARDED: ArrayLayout =
        ArrayLayout { members: 5, chunk_sectors: 128, redundancy: Redundancy::Parity };

    /// Disk, first sector and length of pieces.
    fn told(pieces: &[Piece]) -> Vec<(usize, u64, u32)> {
        pieces.iter().map(|piece| (piece.member, piece.sector, piece.sectors)).collect()
    }

    #[test]
    fn a_long_request_to_striped_disks_is_one_piece_on_each() {
        // Two and a half rows of 14 chunks of 32 sectors, from the middle of a chunk.
        let [step] = &STRIPED.steps(Operation::Read, 16, 14 * 32 * 2 + 7 * 32)[..] else { panic!() };
        let pieces = told(&step.first);
        assert_eq!(pieces.len(), 14);
        assert_eq!(pieces[0], (0, 16, 16 + 32 + 32));
        assert_eq!(pieces[6], (6, 0, 32 * 3));
        assert_eq!(pieces[7], (7, 0, 32 * 2 + 16));
        assert_eq!(pieces[13], (13, 0, 32 * 2));
    }

    #[test]
    fn parity_moves_from_row_to_row_and_data_begins_after_it() {
        // Left-symmetric, five disks: D0 D1 D2 D3 P | D5 D6 D7 P D4 | D10 D11 P D8 D9.
        let member = |chunk: u64| GUARDED.data_ranges(chunk * 128, 1)[0].member;
        assert_eq!((0..12).map(member).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
        assert_eq!((0..6).map(|row| GUARDED.parity_member(row)).collect::<Vec<_>>(), [4, 3, 2, 1, 0, 4]);
    }

    #[test]
    fn a_small_write_reads_what_it_replaces_and_the_parity() {
        let [step] = &GUARDED.steps(Operation::Write, 8, 8)[..] else { panic!() };
        assert_eq!(told(&step.first), [(0, 8, 8), (4, 8, 8)]);
        assert!(step.first.iter().all(|piece| piece.operation == Operation::Read));
        assert_eq!(told(&step.then), [(0, 8, 8), (4, 8, 8)]);
        // Of four chunks of data, two are written: the other two are read, not three.
        let [step] = &GUARDED.steps(Operation::Write, 0, 256)[..] else { panic!() };
        assert_eq!(told(&step.first), [(2, 0, 128), (3, 0, 128)]);
        assert_eq!(told(&step.then), [(0, 0, 128), (1, 0, 128), (4, 0, 128)]);
    }

    #[test]
    fn a_write_of_whole_rows_reads_nothing() {
        let [step] = &GUARDED.steps(Operation::Write, 512, 1024)[..] else { panic!() };
        assert_eq!(told(&step.first), (0..5).map(|member| (member, 128, 256)).collect::<Vec<_>>());
        assert!(step.then.is_empty() && step.first.iter().all(|piece| piece.operation == Operation::Write));
    }

    /// Each sector on a disk that pieces touch.
    fn touched<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Vec<(usize, u64)> {
        let sectors = |piece: &Piece| {
            let (member, start) = (piece.member, piece.sector);
            (start..start + u64::from(piece.sectors)).map(move |at| (member, at)).collect::<Vec<_>>()
        };
        pieces.into_iter().flat_map(sectors).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pieces_cover_a_request_once(
            sector in 0u64..100_000,
            sectors in 1u64..3000,
            is_guarded in any::<bool>(),
        ) {
            let layout = if is_guarded { GUARDED } else { STRIPED };
            let ranges = layout.data_ranges(sector, sectors);
            let expected: BTreeSet<(usize, u64)> = ranges.iter().flat_map(|range| {
                (range.start..range.start + range.length).map(move |at| (range.member, at))
            }).collect();
            prop_assert_eq!(expected.len() as u64, sectors, "no two sectors are at one place");
            let steps = layout.steps(Operation::Read, sector, sectors);
            let read = touched(steps.iter().flat_map(|step| &step.first));
            prop_assert_eq!(read.len() as u64, sectors);
            prop_assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), expected);
        }

        #[test]
        fn a_write_touches_its_data_and_the_parity_of_each_row_once_and_reads_what_that_needs(
            sector in 0u64..20_000,
            sectors in 1u64..3000,
        ) {
            let data = touched(&pieces(Operation::Write, GUARDED.data_ranges(sector, sectors)));
            let data: BTreeSet<_> = data.into_iter().collect();
            let steps = GUARDED.steps(Operation::Write, sector, sectors);
            let of = |operation| {
                let all = steps.iter().flat_map(|step| step.first.iter().chain(&step.then));
                touched(all.filter(|piece| piece.operation == operation))
            };
            let (written, read) = (of(Operation::Write), of(Operation::Read));
            let places: BTreeSet<_> = written.iter().copied().collect();
            prop_assert_eq!(places.len(), written.len(), "nothing is written twice");
            let parity: BTreeSet<_> = data.iter().map(|(_, at)| (GUARDED.parity_member(at / 128), *at)).collect();
            prop_assert_eq!(&places, &data.union(&parity).copied().collect());
            let read: BTreeSet<_> = read.into_iter().collect();
            for (member, at) in parity {
                let others = (0..5).filter(|other| *other != member);
                let (new, old): (Vec<_>, Vec<_>) = others.partition(|other| data.contains(&(*other, at)));
                let reconstructs = old.iter().all(|other| read.contains(&(*other, at)));
                let modifies = read.contains(&(member, at)) && new.iter().all(|other| read.contains(&(*other, at)));
                prop_assert!(reconstructs || modifies);
            }
        }
    }
}
