//! Which data of TCP was sent before, by its sequence numbers.

use std::collections::HashMap;

use crate::segment::{Flow, Segment};

/// Connections that are remembered; a guest that has more begins anew.
const MOST_FLOWS: usize = 4096;

/// How far each connection of one direction has come.
#[derive(Default)]
pub struct Sequences {
    next: HashMap<Flow, u32>,
}

impl Sequences {
    /// Takes a segment; how many bytes of its data were sent before. Sequence numbers are used again after 4 GiB (RFC 9293, 3.4).
    pub fn sent_before(&mut self, segment: &Segment) -> usize {
        // The longest segment that is taken has 64 KiB.
        let end = segment.sequence.wrapping_add(u32::try_from(segment.bytes).unwrap_or(u32::MAX));
        if self.next.len() == MOST_FLOWS && !self.next.contains_key(&segment.flow) {
            self.next.clear();
        }
        let next = self.next.entry(segment.flow).or_insert(segment.sequence);
        let is_ahead = |of: u32, other: u32| of.wrapping_sub(other).cast_signed() > 0;
        let before = if is_ahead(*next, segment.sequence) { next.wrapping_sub(segment.sequence) } else { 0 };
        if is_ahead(end, *next) {
            *next = end;
        }
        segment.bytes.min(usize::try_from(before).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(flow: u8, sequence: u32, bytes: usize) -> Segment {
        Segment { flow: Flow::from([flow; Flow::BYTES]), sequence, bytes }
    }

    #[test]
    fn what_begins_before_the_end_of_what_was_sent_was_sent_before() {
        let mut sequences = Sequences::default();
        let sent =
            [(1, 100, 50), (1, 150, 50), (1, 150, 50), (2, 150, 50), (1, 190, 20), (1, 400, 5), (1, 199, 1)];
        let before =
            sent.map(|(flow, sequence, bytes)| sequences.sent_before(&segment(flow, sequence, bytes)));
        assert_eq!(before, [0, 0, 50, 0, 10, 0, 1]);
    }

    #[test]
    fn numbers_begin_again_and_connections_without_end_are_forgotten() {
        let mut sequences = Sequences::default();
        assert_eq!(sequences.sent_before(&segment(1, u32::MAX - 9, 20)), 0);
        assert_eq!(sequences.sent_before(&segment(1, u32::MAX - 9, 20)), 20);
        assert_eq!(sequences.sent_before(&segment(1, 10, 20)), 0);
        for port in 0..10_000u32 {
            let mut flow = [9; Flow::BYTES];
            flow[..4].copy_from_slice(&port.to_le_bytes());
            sequences.sent_before(&Segment { flow: Flow::from(flow), sequence: 0, bytes: 1 });
        }
        assert!(sequences.next.len() <= MOST_FLOWS);
    }

    proptest! {
        #[test]
        fn no_more_was_sent_before_than_there_is(
            sent in proptest::collection::vec((0..3u8, any::<u32>(), 0..70_000usize), 0..50)
        ) {
            let mut sequences = Sequences::default();
            for (flow, sequence, bytes) in sent {
                prop_assert!(sequences.sent_before(&segment(flow, sequence, bytes)) <= bytes);
            }
        }
    }
}
