//! The requests of an Iometer worker, drawn one by one.

use nestor_statistics::SeededOrder;

/// What a stream is drawn by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Per cent of the requests that read.
    pub(super) read: u64,
    /// Per cent of the requests that seek.
    pub(super) random: u64,
    /// Blocks in the file. A block is what all sizes are multiples of.
    pub(super) blocks: u64,
    /// Sizes of requests in blocks, each with its weight; none is larger than the file.
    pub(super) sizes: Vec<(u64, u64)>,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Reads, or writes.
    pub(super) read: bool,
    /// At which block of the file it begins.
    pub(super) block: u64,
    /// Its size in blocks.
    pub(super) blocks: u64,
}

/// The requests of one worker; it has no end.
///
/// "Iometer computes the probability that the next operation is a read as p(read) = %read / 100, and that it should seek to a
/// random offset as p(seek) = %rand / 100" (paper A, §3.4; acceptance row A-14). A request that does not seek goes on where
/// the one before ended, whichever of the two did what: there is one position, not one for each direction. A request that would
/// go beyond the last block begins at the first. The first request that does not seek starts at the beginning of the file, as Iometer's starting
/// sector is 0 by default.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pattern: Pattern,
    random: SeededOrder,
    next: u64,
}

impl Stream {
    /// The stream of a worker; workers of a run share the seed and have streams of their own.
    pub(super) fn new(pattern: Pattern, seed: u64, worker: u64) -> Self {
        // The worker's place in the stream of the seed is its own seed: SplitMix64's way to split.
        let mut splitter = SeededOrder::new(seed);
        let mut own = splitter.next();
        for _ in 0..worker {
            own = splitter.next();
        }
        Self { pattern, random: SeededOrder::new(own), next: 0 }
    }
}

impl Iterator for Stream {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        // All are drawn always, so that streams that differ in one share the others.
        let read = (self.random.below(100) as u64) < self.pattern.read;
        let seeks = (self.random.below(100) as u64) < self.pattern.random;
        let anywhere = self.random.unit();
        let blocks = self.size();
        let places = self.pattern.blocks - blocks + 1;
        let block = match seeks {
            true => (anywhere * places as f64) as u64,
            false if self.next < places => self.next,
            false => 0,
        };
        self.next = block + blocks;
        Some(Request { read, block, blocks })
    }
}

impl Stream {
    fn size(&mut self) -> u64 {
        if let [(blocks, _)] = self.pattern.sizes[..] {
            return blocks;
        }
        let all: u64 = self.pattern.sizes.iter().map(|(_, weight)| weight).sum();
        let mut left = self.random.below(all as usize) as u64;
        for (blocks, weight) in &self.pattern.sizes {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *blocks,
            }
        }
        unreachable!("a number below the sum of weights is within one of them")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Six standard deviations of a binomial count: a share beyond them comes up once in 500 million.
    fn within_binomial(count: usize, of: usize, probability: f64) -> bool {
        let mean = of as f64 * probability;
        let deviation = (of as f64 * probability * (1.0 - probability)).sqrt();
        (count as f64 - mean).abs() <= 6.0 * deviation
    }

    const DRAWN: usize = 20_000;
    /// So many blocks that a seek ends by chance where the last request did in one of 10^9.
    const MANY: u64 = 1 << 30;

    /// Requests of one block.
    fn pattern(read: u64, random: u64, blocks: u64) -> Pattern {
        Pattern { read, random, blocks, sizes: vec![(1, 1)] }
    }

    fn draw(pattern: Pattern, seed: u64) -> Vec<Request> {
        Stream::new(pattern, seed, 0).take(DRAWN).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn shares_of_reads_and_of_seeks_are_the_probabilities(read in 0u64..=100, random in 0u64..=100, seed: u64) {
            let drawn = draw(pattern(read, random, MANY), seed);
            let reads = drawn.iter().filter(|r| r.read).count();
            let continued =
                std::iter::once(0).chain(drawn.iter().map(|r| r.block + 1)).zip(&drawn).filter(|(next, r)| *next == r.block).count();
            prop_assert!(within_binomial(reads, DRAWN, read as f64 / 100.0), "{} reads", reads);
            prop_assert!(within_binomial(DRAWN - continued, DRAWN, random as f64 / 100.0), "{} go on", continued);
            // Direction and position are independent.
            let seeking_reads =
                drawn.windows(2).filter(|w| w[1].read && w[1].block != w[0].block + 1).count();
            let both = (read * random) as f64 / 10_000.0;
            prop_assert!(within_binomial(seeking_reads, DRAWN - 1, both), "{} reads seek", seeking_reads);
        }

        #[test]
        fn seeks_are_uniform_over_the_blocks(seed: u64) {
            const BLOCKS: u64 = 16;
            let drawn = draw(pattern(50, 100, BLOCKS), seed);
            for block in 0..BLOCKS {
                let count = drawn.iter().filter(|r| r.block == block).count();
                prop_assert!(within_binomial(count, DRAWN, 1.0 / BLOCKS as f64), "block {} {} times", block, count);
            }
        }

        #[test]
        fn without_seeks_both_directions_share_one_position(read in 0u64..=100, blocks in 1u64..50, seed: u64) {
            let drawn = draw(pattern(read, 0, blocks), seed);
            prop_assert!(drawn.iter().enumerate().all(|(i, r)| r.block == i as u64 % blocks));
        }

        #[test]
        fn sizes_come_as_often_as_their_weights_say_and_stay_within_the_file(random in 0u64..=100, seed: u64) {
            let pattern = Pattern { read: 50, random, blocks: 40, sizes: vec![(1, 30), (2, 50), (16, 20)] };
            let drawn = draw(pattern.clone(), seed);
            for (blocks, weight) in pattern.sizes {
                let count = drawn.iter().filter(|r| r.blocks == blocks).count();
                prop_assert!(within_binomial(count, DRAWN, weight as f64 / 100.0), "{blocks} {count} times");
            }
            prop_assert!(drawn.iter().all(|r| r.block + r.blocks <= 40));
        }

        #[test]
        fn the_seed_and_the_worker_decide(seed: u64, worker in 0u64..50) {
            let stream = |seed, worker| Stream::new(pattern(50, 50, MANY), seed, worker).take(50).collect::<Vec<_>>();
            prop_assert_eq!(stream(seed, worker), stream(seed, worker));
            prop_assert_ne!(stream(seed, worker), stream(seed, worker + 1));
            prop_assert_ne!(stream(seed, worker), stream(seed.wrapping_add(1), worker));
        }
    }
}
