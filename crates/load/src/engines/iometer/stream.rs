//! The requests of an Iometer worker, drawn one by one.

use nestor_model::SeededOrder;

/// What a stream is drawn by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Per cent of the requests that read.
    pub(super) read: u64,
    /// Per cent of the requests that seek.
    pub(super) random: u64,
    /// Blocks in the file.
    pub(super) blocks: u64,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Reads, or writes.
    pub(super) read: bool,
    /// Which block of the file.
    pub(super) block: u64,
}

/// The requests of one worker; it has no end.
///
/// "Iometer computes the probability that the next operation is a read as p(read) = %read / 100, and that it should seek to a
/// random offset as p(seek) = %rand / 100" (paper A, §3.4; acceptance row A-14). A request that does not seek goes on where
/// the one before ended, whichever of the two did what: there is one position, not one for each direction. After the last
/// block comes the first. The first request that does not seek starts at the beginning of the file, as Iometer's starting
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
        // All three are drawn always, so that streams that differ in one share the others.
        let read = (self.random.below(100) as u64) < self.pattern.read;
        let seeks = (self.random.below(100) as u64) < self.pattern.random;
        let anywhere = self.random.below(self.pattern.blocks as usize) as u64;
        let block = if seeks { anywhere } else { self.next };
        self.next = if block + 1 == self.pattern.blocks { 0 } else { block + 1 };
        Some(Request { read, block })
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

    fn draw(pattern: Pattern, seed: u64) -> Vec<Request> {
        Stream::new(pattern, seed, 0).take(DRAWN).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn shares_of_reads_and_of_seeks_are_the_probabilities(read in 0u64..=100, random in 0u64..=100, seed: u64) {
            let drawn = draw(Pattern { read, random, blocks: MANY }, seed);
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
            let drawn = draw(Pattern { read: 50, random: 100, blocks: BLOCKS }, seed);
            for block in 0..BLOCKS {
                let count = drawn.iter().filter(|r| r.block == block).count();
                prop_assert!(within_binomial(count, DRAWN, 1.0 / BLOCKS as f64), "block {} {} times", block, count);
            }
        }

        #[test]
        fn without_seeks_both_directions_share_one_position(read in 0u64..=100, blocks in 1u64..50, seed: u64) {
            let drawn = draw(Pattern { read, random: 0, blocks }, seed);
            prop_assert!(drawn.iter().enumerate().all(|(i, r)| r.block == i as u64 % blocks));
        }

        #[test]
        fn the_seed_and_the_worker_decide(seed: u64, worker in 0u64..50) {
            let pattern = Pattern { read: 50, random: 50, blocks: MANY };
            let stream = |seed, worker| Stream::new(pattern, seed, worker).take(50).collect::<Vec<_>>();
            prop_assert_eq!(stream(seed, worker), stream(seed, worker));
            prop_assert_ne!(stream(seed, worker), stream(seed, worker + 1));
            prop_assert_ne!(stream(seed, worker), stream(seed.wrapping_add(1), worker));
        }
    }
}
