//! What is written, and where what is read goes: one piece of memory each, shared by all requests.
//!
//! A request takes its data from a place in the pool that its number decides, so a replay of thousands of requests in
//! flight needs no memory of its own for each, and what was written can be checked. Reads all land in the same memory;
//! nobody looks at it.

use nestor_statistics::SeededOrder;
use serde::{Deserialize, Serialize};

/// Bytes of a pool. Longer requests use it several times over.
pub const POOL_BYTES: usize = 4 << 20;

/// Data are aligned as every device takes them for direct I/O.
const PAGE_BYTES: usize = 4096;
const PAGES: usize = POOL_BYTES / PAGE_BYTES;

/// What writes write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteData {
    /// Random bits, which do not compress. Fixed by the seed.
    Random {
        /// Decides the bits.
        seed: u64,
    },
    /// Zeros.
    Zeros,
}

impl Default for WriteData {
    fn default() -> Self {
        Self::Random { seed: 1 }
    }
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Memory for data, aligned to pages.
pub struct Pool {
    pages: Vec<Page>,
}

impl Pool {
    /// Full of `data`.
    pub fn new(data: WriteData) -> Self {
        let mut pages = vec![Page([0; PAGE_BYTES]); PAGES];
        if let WriteData::Random { seed } = data {
            let mut random = SeededOrder::new(seed);
            for word in pages.iter_mut().flat_map(|page| page.0.chunks_exact_mut(8)) {
                word.copy_from_slice(&random.next().to_le_bytes());
            }
        }
        Self { pages }
    }

    /// Without memory, to leave in another's place.
    pub(crate) fn empty() -> Self {
        Self { pages: Vec::new() }
    }

    /// The first byte of all.
    pub fn address(&mut self) -> *mut u8 {
        self.pages.as_mut_ptr().cast()
    }

    /// What a write of that number and length writes.
    pub fn bytes_of(&self, number: usize, bytes: u64) -> Vec<u8> {
        let start = place(number, bytes).unwrap_or(0);
        let byte = |at: usize| self.pages[at % POOL_BYTES / PAGE_BYTES].0[at % PAGE_BYTES];
        (start..start + bytes as usize).map(byte).collect()
    }
}

/// Where in a pool the data of a request are: the first byte, if all of them are there.
pub fn place(number: usize, bytes: u64) -> Option<usize> {
    let needed = usize::try_from(bytes).ok()?.div_ceil(PAGE_BYTES);
    let places = PAGES.checked_sub(needed)? + 1;
    // Fibonacci hashing: neighbours lie far apart.
    Some(((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % places * PAGE_BYTES)
}

/// The pieces of the pool at `address` that are a request's: one, or for a long request the whole pool several times.
pub fn pieces(address: *mut u8, number: usize, bytes: u64) -> Vec<libc::iovec> {
    let piece = |at: usize, length: usize| libc::iovec {
        // Within the pool, see `place`; it is only passed on to the kernel.
        iov_base: address.wrapping_add(at).cast(),
        iov_len: length,
    };
    match place(number, bytes) {
        Some(at) => vec![piece(at, bytes as usize)],
        None => {
            let whole = bytes / POOL_BYTES as u64;
            let rest = (bytes % POOL_BYTES as u64) as usize;
            let mut pieces: Vec<_> = (0..whole).map(|_| piece(0, POOL_BYTES)).collect();
            pieces.extend((rest > 0).then(|| piece(0, rest)));
            pieces
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_fixed_by_the_seed_and_the_number() {
        let (one, same) =
            (Pool::new(WriteData::Random { seed: 7 }), Pool::new(WriteData::Random { seed: 7 }));
        let other = Pool::new(WriteData::Random { seed: 8 });
        assert_eq!(one.bytes_of(3, 4096), same.bytes_of(3, 4096));
        assert_ne!(one.bytes_of(3, 4096), other.bytes_of(3, 4096));
        assert_ne!(one.bytes_of(3, 4096), one.bytes_of(4, 4096));
        assert!(Pool::new(WriteData::Zeros).bytes_of(3, 512).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn every_request_has_its_place_in_the_pool() {
        let mut pool = Pool::new(WriteData::Zeros);
        for (number, bytes) in [(0, 512), (99, 4096), (12_345, 1 << 20), (7, POOL_BYTES as u64)] {
            let place = place(number, bytes).unwrap();
            assert!(place.is_multiple_of(PAGE_BYTES) && place + bytes as usize <= POOL_BYTES);
        }
        assert_eq!(place(1, POOL_BYTES as u64 + 1), None);
        let pieces = pieces(pool.address(), 1, 2 * POOL_BYTES as u64 + 512);
        let lengths: Vec<_> = pieces.iter().map(|piece| piece.iov_len).collect();
        assert_eq!(lengths, [POOL_BYTES, POOL_BYTES, 512]);
    }
}
