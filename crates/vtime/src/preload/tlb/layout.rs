//! Where QEMU's processor keeps its TLB, found in its memory and tried before it is used.
//!
//! QEMU describes this part of its state nowhere. In 7.2 it is, in this order (`CPUTLB`, include/exec/cpu-defs.h): what all of it has in
//! common, for each way to access memory ("MMU index") a description, and for each a mask and the address of its table. All are found by what they hold
//! before the processor has executed anything, and that they are it is tried with QEMU's own functions.

use std::ffi::c_void;
use std::slice;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU16, Ordering};

use super::super::system::malloc_usable_size;

/// A mask of a table that was not used yet: 256 entries of 32 bytes (`CPU_TLB_DYN_DEFAULT_BITS`, `CPU_TLB_ENTRY_BITS`).
const FRESH_MASK: usize = 255 << 5;
/// Words of a mask and the address of a table (`CPUTLBDescFast`).
const FAST_WORDS: usize = 2;
/// Words of what is common (`CPUTLBCommon`): a lock and the indices that were used, and how often indices were flushed: all, some, none
/// for they were not used.
const COMMON_WORDS: usize = 4;
const SOME_FLUSHED_WORD: usize = 2;
const NONE_FLUSHED_WORD: usize = 3;
/// The indices that were used stand behind the lock.
const USED_OFFSET: usize = 4;
/// Words that a description may have (`CPUTLBDesc`); it holds eight entries of 4 words and what belongs to them.
const DESCRIPTION_WORDS: std::ops::RangeInclusive<usize> = 40..=256;
/// `NB_MMU_MODES` is a number of bits of 16.
const MOST_INDICES: usize = 16;
/// Nothing, in an address or in a mask.
const NONE: usize = usize::MAX;

/// How `tcg_flush_jmp_cache` begins: `mov distance(%rdi),%rax`.
const LOAD_OF_PROCESSOR: [u8; 3] = [0x48, 0x8b, 0x87];
/// A cache of blocks by their address (`CPUJumpCache`): 4096 entries of 16 bytes, with what frees it.
const JUMPS_BYTES: std::ops::Range<usize> = 65_536..65_700;
const JUMP_BYTES: usize = 16;

/// Where a TLB is within words of a processor.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    common: usize,
    /// Descriptions, followed by masks and addresses.
    tables: std::ops::Range<usize>,
    indices: usize,
}

/// Finds the only TLB that has not been used yet.
fn find(words: &[usize]) -> Option<Place> {
    let is_fast =
        |at: usize| words.get(at) == Some(&FRESH_MASK) && words.get(at + 1).is_some_and(|table| *table != 0);
    let begins = |at: usize| is_fast(at) && (at < FAST_WORDS || !is_fast(at - FAST_WORDS));
    let mut found = (0..words.len()).filter(|at| begins(*at)).filter_map(|fast| {
        let indices = (0..=MOST_INDICES).take_while(|index| is_fast(fast + index * FAST_WORDS)).count();
        let common = common_before(words, fast, indices)?;
        let tables = common + COMMON_WORDS..fast + indices * FAST_WORDS;
        Some(Place { common, tables, indices })
    });
    found.next().filter(|_| found.next().is_none())
}

/// Where what is common begins, if descriptions of so many indices stand between that and the word `fast`.
fn common_before(words: &[usize], fast: usize, indices: usize) -> Option<usize> {
    let mut possible = DESCRIPTION_WORDS.filter_map(|length| {
        let first = fast.checked_sub(indices * length)?;
        // A large page that there is not, the same moment, and the address of the whole entries.
        let describes = |description: &[usize]| {
            let (moment, entries) = (description[2], description[length - 1]);
            description[..2] == [NONE; 2] && moment == words[first + 2] && ![0, NONE].contains(&entries)
        };
        let common = first.checked_sub(COMMON_WORDS)?;
        let is_it = words[first + 2] != NONE
            && words[common] == 0
            && words[first..fast].chunks_exact(length).all(describes);
        is_it.then_some(common)
    });
    possible.next().filter(|_| indices > 1 && indices < MOST_INDICES && possible.next().is_none())
}

/// QEMU's functions with which a layout is tried.
pub struct Functions {
    /// `tlb_init`: makes a new TLB in the place of the processor's.
    pub make: unsafe extern "C" fn(*mut c_void),
    /// `tlb_flush_by_mmuidx`.
    pub flush: unsafe extern "C" fn(*mut c_void, u16),
    /// `tcg_flush_jmp_cache`.
    pub flush_jumps: unsafe extern "C" fn(*mut c_void),
}

/// Where a processor keeps its TLB.
pub struct Layout {
    lock: &'static AtomicI32,
    used: &'static AtomicU16,
    tables: *mut usize,
    words: usize,
    jumps: &'static AtomicPtr<c_void>,
    jumps_bytes: usize,
    pub all_indices: u16,
}

/// A TLB that is not the processor's at present.
pub struct Kept {
    tables: Vec<usize>,
    used: u16,
    jumps: *mut c_void,
}

impl Layout {
    /// The layout of a processor that has executed nothing, if it is as this module knows it.
    ///
    /// # Safety
    ///
    /// The processor is one of QEMU's, a piece of memory of the allocator's, and no thread executes it yet.
    pub unsafe fn of(processor: *mut c_void, functions: &Functions, jumps_code: &[u8]) -> Option<Self> {
        // SAFETY: the caller's.
        unsafe {
            let bytes = malloc_usable_size(processor);
            let place = find(slice::from_raw_parts(processor.cast::<usize>(), bytes / size_of::<usize>()))?;
            let common = processor.cast::<usize>().add(place.common);
            let distance = jumps_code.strip_prefix(&LOAD_OF_PROCESSOR)?.first_chunk().copied()?;
            let jumps_at = usize::try_from(i32::from_le_bytes(distance)).ok()?;
            if jumps_at % size_of::<usize>() != 0 || jumps_at + size_of::<usize>() > bytes {
                return None;
            }
            let jumps: &AtomicPtr<c_void> = AtomicPtr::from_ptr(processor.byte_add(jumps_at).cast());
            let cache = jumps.load(Ordering::Relaxed);
            if cache.is_null() || !(cache as usize).is_multiple_of(JUMP_BYTES) {
                return None;
            }
            let layout = Self {
                lock: AtomicI32::from_ptr(common.cast()),
                used: AtomicU16::from_ptr(common.byte_add(USED_OFFSET).cast()),
                tables: processor.cast::<usize>().add(place.tables.start),
                words: place.tables.len(),
                jumps,
                jumps_bytes: malloc_usable_size(cache),
                all_indices: u16::try_from((1_u32 << place.indices) - 1).ok()?,
            };
            layout.holds(processor, functions, common).then_some(layout)
        }
    }

    /// Whether QEMU's functions do with this layout what they have to.
    unsafe fn holds(&self, processor: *mut c_void, functions: &Functions, common: *const usize) -> bool {
        let indices = self.all_indices.count_ones() as usize;
        // SAFETY: the caller's.
        unsafe {
            let flushed = |word| common.add(word).read_volatile();
            let before = (flushed(SOME_FLUSHED_WORD), flushed(NONE_FLUSHED_WORD));
            (functions.flush)(processor, self.all_indices);
            if (flushed(SOME_FLUSHED_WORD), flushed(NONE_FLUSHED_WORD)) != (before.0, before.1 + indices) {
                return false;
            }
            self.used.store(1, Ordering::Relaxed);
            (functions.flush)(processor, self.all_indices);
            let after = (before.0 + 1, before.1 + 2 * indices - 1);
            if self.used.load(Ordering::Relaxed) != 0
                || (flushed(SOME_FLUSHED_WORD), flushed(NONE_FLUSHED_WORD)) != after
                || !JUMPS_BYTES.contains(&self.jumps_bytes)
            {
                return false;
            }
            let first = self.jumps.load(Ordering::Relaxed).cast::<usize>();
            let last = first.byte_add(JUMPS_BYTES.start - JUMP_BYTES);
            first.write(NONE);
            last.write(NONE);
            (functions.flush_jumps)(processor);
            let is_empty = [first, last].map(|word| word.read_volatile()) == [0; 2];
            first.write(0);
            last.write(0);
            is_empty
        }
    }

    /// # Safety
    ///
    /// Nobody else touches them: the caller is the processor's thread and holds the lock, or that thread is not there yet.
    unsafe fn tables(&self) -> &'static mut [usize] {
        // SAFETY: they are there as long as the processor is, for ever.
        unsafe { slice::from_raw_parts_mut(self.tables, self.words) }
    }

    /// Another TLB, which was not used yet. `None` if QEMU does not make one.
    ///
    /// # Safety
    ///
    /// As [`Self::of`].
    pub unsafe fn another(&self, processor: *mut c_void, functions: &Functions) -> Option<Kept> {
        // SAFETY: the caller's; what was there is put back.
        let (own, tables) = unsafe {
            let own = self.tables().to_vec();
            (functions.make)(processor);
            let tables = self.tables().to_vec();
            self.tables().copy_from_slice(&own);
            (own, tables)
        };
        let fast = self.words - self.all_indices.count_ones() as usize * FAST_WORDS;
        let is_new = (fast..self.words).all(|word| (own[word] == tables[word]) == (own[word] == FRESH_MASK));
        let jumps = vec![0_u128; self.jumps_bytes.div_ceil(JUMP_BYTES)].leak();
        is_new.then(|| Kept { tables, used: 0, jumps: jumps.as_mut_ptr().cast() })
    }

    /// Whether an index of these was used since it was flushed.
    pub fn is_used(&self, indices: u16) -> bool {
        self.used.load(Ordering::Relaxed) & indices != 0
    }

    /// Gives the processor the other TLB, and keeps its own. The caller is the processor's thread.
    pub fn exchange(&self, kept: &mut Kept) {
        while self.lock.swap(1, Ordering::Acquire) != 0 {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is taken, in the processor's thread.
        unsafe { self.tables() }.swap_with_slice(&mut kept.tables);
        kept.used = self.used.swap(kept.used, Ordering::Relaxed);
        self.lock.store(0, Ordering::Release);
        kept.jumps = self.jumps.swap(kept.jumps, Ordering::AcqRel);
    }

    /// The cache of blocks that the processor has now.
    pub fn jumps(&self) -> Jumps {
        Jumps(self.jumps.load(Ordering::Acquire))
    }
}

impl Kept {
    /// Its cache of blocks.
    pub fn jumps(&self) -> Jumps {
        Jumps(self.jumps)
    }
}

/// A cache of blocks by their address, there for ever.
#[derive(Clone, Copy)]
pub struct Jumps(*mut c_void);

impl Jumps {
    /// Empties it, as `tcg_flush_jmp_cache` does: the block of each entry, not its address.
    pub fn empty(self) {
        for entry in 0..JUMPS_BYTES.start / JUMP_BYTES {
            // SAFETY: it has so many entries, which begin with the address of a block; any thread may write that.
            let block = unsafe { AtomicPtr::<c_void>::from_ptr(self.0.byte_add(entry * JUMP_BYTES).cast()) };
            block.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 63;

    /// A processor with a TLB of so many indices, not used yet.
    fn processor(indices: usize) -> Vec<usize> {
        let mut words = vec![7; 100];
        words.extend([0, 0, 0, 40]);
        for index in 0..indices {
            let mut description = vec![NONE; LENGTH];
            description[2..6].copy_from_slice(&[1_700, 0, 0, 0]);
            description[38..LENGTH - 1].fill(0);
            description[LENGTH - 1] = 0x5000 + index;
            words.extend(description);
        }
        words.extend((0..indices).flat_map(|index| [FRESH_MASK, 0x9000 + index]));
        words.extend([3; 50]);
        words
    }

    #[test]
    fn a_tlb_is_found_by_what_it_holds_before_it_is_used() {
        for indices in [3, 5, 8] {
            let tables = 104..104 + indices * (LENGTH + FAST_WORDS);
            assert_eq!(find(&processor(indices)), Some(Place { common: 100, tables, indices }));
        }
    }

    #[test]
    fn what_was_used_or_is_there_twice_or_never_is_not_found() {
        let twice = [processor(5), processor(5)].concat();
        let mut locked = processor(5);
        locked[100] = 1;
        let mut used = processor(5);
        used[104] = 0x1000;
        let mut without_entries = processor(5);
        without_entries[104 + LENGTH - 1] = 0;
        for words in [
            twice,
            locked,
            used,
            without_entries,
            vec![FRESH_MASK; 900],
            vec![NONE; 900],
            vec![0; 900],
            vec![],
        ] {
            assert_eq!(find(&words), None);
        }
    }
}
