//! What the translations of a guest's addresses depend on besides its page tables.

use std::ffi::{CStr, c_void};

use super::super::program::Program;
use super::super::qemu::IN_GUEST;

/// `CR0_PG_MASK`: addresses are translated.
const PAGING: u64 = 1 << 31;

/// Offsets in a control block of a virtual machine (AMD64 Architecture Programmer's Manual, volume 2, appendix B). The identifier of the
/// address space and, in the byte behind it, what is to be flushed.
const IDENTIFIER: u64 = 0x58;
/// Whether there are nested page tables, and where.
const NESTED: [u64; 2] = [0x90, 0xb0];
/// EFER, CR4, CR3 and CR0 of the guest.
const REGISTERS: [u64; 4] = [0x400 + 0xd0, 0x400 + 0x148, 0x400 + 0x150, 0x400 + 0x158];
const FLUSH_SHIFT: u32 = 32;
const FLUSH_MASK: u64 = 0xff;

/// `x86_ldq_phys`: a word of the machine's memory.
pub type Load = unsafe extern "C" fn(*mut c_void, u64) -> u64;

/// Offsets of fields of a processor, in bytes, as QEMU's description of its state gives them.
#[derive(Clone, Copy)]
pub struct Fields {
    flags: usize,
    cr0: usize,
    cr3: usize,
    keys: usize,
    control_block: usize,
    exception: usize,
}

impl Fields {
    pub fn of(program: &Program) -> Option<Self> {
        let field = |name: &CStr, bytes| program.field_offset(name, bytes);
        Some(Self {
            flags: field(c"env.hflags", size_of::<u32>())?,
            cr0: field(c"env.cr[0]", size_of::<u64>())?,
            cr3: field(c"env.cr[3]", size_of::<u64>())?,
            keys: field(c"env.pkru", size_of::<u32>())?,
            control_block: field(c"env.vm_vmcb", size_of::<u64>())?,
            exception: field(c"exception_index", size_of::<i32>())?,
        })
    }

    /// # Safety
    ///
    /// The processor is one of QEMU's, and `T` is the field's type.
    unsafe fn read<T: Copy>(processor: *mut c_void, offset: usize) -> T {
        // SAFETY: the caller's.
        unsafe { processor.byte_add(offset).cast::<T>().read_volatile() }
    }

    /// # Safety
    ///
    /// As [`Self::translation`].
    pub unsafe fn is_in_guest(&self, processor: *mut c_void) -> bool {
        // SAFETY: the caller's.
        unsafe { Self::read::<u32>(processor, self.flags) & IN_GUEST != 0 }
    }

    /// # Safety
    ///
    /// As [`Self::translation`].
    pub unsafe fn exception(&self, processor: *mut c_void) -> i32 {
        // SAFETY: the caller's.
        unsafe { Self::read(processor, self.exception) }
    }

    /// Loads CR3. Whether addresses are translated.
    ///
    /// # Safety
    ///
    /// As [`Self::translation`].
    pub unsafe fn load_cr3(&self, processor: *mut c_void, value: u64) -> bool {
        // SAFETY: the caller's.
        unsafe {
            processor.byte_add(self.cr3).cast::<u64>().write(value);
            Self::read::<u64>(processor, self.cr0) & PAGING != 0
        }
    }

    /// What the translations of the guest depend on that the processor is about to enter or leaves. `None` if there is none.
    ///
    /// # Safety
    ///
    /// The processor is QEMU's, and the caller is its thread.
    pub unsafe fn translation(&self, processor: *mut c_void, load: &Load) -> Option<Translation> {
        // SAFETY: the caller's.
        unsafe {
            let block = Some(Self::read::<u64>(processor, self.control_block)).filter(|block| *block != 0)?;
            let word = |offset: u64| load(processor, block + offset);
            let identifier = word(IDENTIFIER);
            Some(Translation {
                flush: identifier >> FLUSH_SHIFT & FLUSH_MASK,
                identifier: identifier & u64::from(u32::MAX),
                block,
                nested: NESTED.map(word),
                registers: REGISTERS.map(word),
                keys: Self::read(processor, self.keys),
            })
        }
    }
}

/// What the translations of a guest depend on.
#[derive(Clone, Copy)]
pub struct Translation {
    block: u64,
    identifier: u64,
    flush: u64,
    nested: [u64; 2],
    registers: [u64; 4],
    /// The rights of user pages' keys (PKRU), which host and guest share.
    keys: u32,
}

impl Translation {
    /// Whether the host asks for a flush when it enters the guest.
    pub fn asks_for_flush(&self) -> bool {
        self.flush != 0
    }

    /// Whether what the host's translations depend on, and what the guest can change, is the same.
    pub fn is_same_for_host(&self, now: &Self) -> bool {
        self.keys == now.keys
    }

    /// Whether translations of this guest are valid for another state of it.
    pub fn is_same_for_guest(&self, now: &Self) -> bool {
        let all = |of: &Self| (of.block, of.identifier, of.nested, of.registers, of.keys);
        all(self) == all(now) && !now.asks_for_flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Translation = Translation {
        block: 0x1000,
        identifier: 1,
        flush: 0,
        nested: [1, 0x2000],
        registers: [1, 2, 3, 4],
        keys: 0,
    };

    #[test]
    fn a_guest_that_is_entered_as_it_was_left_keeps_its_translations() {
        assert!(LEFT.is_same_for_guest(&LEFT));
        let was_flushed = Translation { flush: 3, ..LEFT };
        assert!(was_flushed.is_same_for_guest(&LEFT), "the flush was done when it was entered");
    }

    #[test]
    fn whatever_translations_depend_on_makes_them_invalid() {
        let others = [
            Translation { block: 0x3000, ..LEFT },
            Translation { identifier: 2, ..LEFT },
            Translation { flush: 1, ..LEFT },
            Translation { flush: 3, ..LEFT },
            Translation { nested: [0, 0x2000], ..LEFT },
            Translation { nested: [1, 0x3000], ..LEFT },
            Translation { registers: [1, 2, 9, 4], ..LEFT },
            Translation { keys: 4, ..LEFT },
        ];
        for now in others {
            assert!(!LEFT.is_same_for_guest(&now));
            assert_eq!(LEFT.is_same_for_host(&now), now.keys == 0);
        }
    }
}
