//! What is written, and where is read to.

use std::alloc::{Layout, alloc_zeroed};

use crate::random::Stream;

/// Alignment that direct I/O asks for on every device.
pub(crate) const ALIGNMENT: usize = 4096;

/// Bytes of random data that all threads write from. Small enough to stay in a processor's cache and in a small guest's
/// memory, large enough that two blocks written are hardly ever equal.
const POOL_BYTES: usize = 4 << 20;

/// Memory whose address is a multiple of [`ALIGNMENT`].
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub(crate) fn new(length: usize) -> Self {
        Self::of(vec![0u8; length + ALIGNMENT], length)
    }

    /// The same, or `None` where there is no such memory. Pages are taken when they are first touched: a hundred threads with
    /// room for the largest operation each take only what they read.
    pub(crate) fn try_new(length: usize) -> Option<Self> {
        let layout = Layout::array::<u8>(length.checked_add(ALIGNMENT)?).ok()?;
        // SAFETY: the layout is not empty, as ALIGNMENT is not.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the global allocator gave this memory for this layout, which is that of so many bytes, and all are zero.
        let memory = unsafe { Vec::from_raw_parts(start, layout.size(), layout.size()) };
        Some(Self::of(memory, length))
    }

    fn of(memory: Vec<u8>, length: usize) -> Self {
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, length }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// Random data, the source of every write.
///
/// Filebench writes from each thread's own memory of `memsize` bytes, which it fills with zeros before: a hundred threads of 10 MB
/// push the page cache out of a small guest, and zeros are what image formats and disks can leave out. One pool
/// that no layer can compress or skip does neither.
pub(crate) struct WriteData(Aligned);

impl WriteData {
    /// A pool for writes of up to `largest` bytes.
    pub(crate) fn new(seed: u64, largest: usize) -> Self {
        let mut memory = Aligned::new(POOL_BYTES + largest.next_multiple_of(ALIGNMENT));
        let mut random = Stream::new(seed, u64::MAX);
        let words = memory.bytes_mut().chunks_exact_mut(8);
        for word in words {
            word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
        }
        Self(memory)
    }

    /// Most bytes that can be written at once.
    pub(crate) fn largest(&self) -> usize {
        self.0.len() - POOL_BYTES
    }

    /// Some of the data.
    pub(crate) fn some(&self, length: usize, random: &mut Stream) -> &[u8] {
        let places = (POOL_BYTES / ALIGNMENT) as u64;
        let start = random.below(places) as usize * ALIGNMENT;
        &self.0.bytes()[start..start + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_aligned_and_do_not_repeat() {
        let data = WriteData::new(1, 1 << 20);
        let mut random = Stream::new(1, 1);
        for length in [1, 4096, 1 << 20] {
            let some = data.some(length, &mut random);
            assert_eq!((some.len(), some.as_ptr().align_offset(ALIGNMENT)), (length, 0));
        }
        let all = data.some(1 << 20, &mut random);
        let mut blocks: Vec<&[u8]> = all.chunks(512).collect();
        blocks.sort();
        blocks.dedup();
        assert_eq!(blocks.len(), (1 << 20) / 512);
    }
}
