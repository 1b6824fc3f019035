//! Random numbers that a seed fixes, one stream for each thread.

use std::convert::Infallible;

use nestor_statistics::SeededOrder;
use nestor_wml::Value;

/// A thread's own stream.
///
/// The generator is `nestor-statistics`'s, so that a seed means the same in every version; `rand`'s distributions draw from it.
pub(crate) struct Stream(SeededOrder);

impl Stream {
    /// The stream of a thread, or of another part of a run, under a seed.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        Self(SeededOrder::for_part(seed, part))
    }

    /// A number below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound as usize) as u64
    }

    /// Puts the items into random order, each order equally likely.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        self.0.shuffle(items);
    }

    /// A number from 0 to 1, without 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.0.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The value of an attribute, for this use.
    pub(crate) fn value(&mut self, value: &Value) -> u64 {
        match value {
            Value::Fixed(number) => *number,
            // A negative draw of a normal distribution is no size and no count.
            Value::Drawn(variable) => variable.draw(self).max(0.0) as u64,
        }
    }
}

impl rand::TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next())
    }

    fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), Infallible> {
        for chunk in target.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_parts_differ_and_repeat() {
        let draw = |seed, part| {
            let mut stream = Stream::new(seed, part);
            (0..8).map(|_| stream.below(1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn nothing_is_drawn_outside_its_bounds() {
        let mut stream = Stream::new(7, 0);
        assert_eq!(stream.below(0), 0);
        assert!((0..10_000).all(|_| stream.below(3) < 3 && stream.fraction() < 1.0));
    }
}
