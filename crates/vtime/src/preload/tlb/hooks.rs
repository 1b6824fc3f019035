//! The functions that stand in the place of QEMU's by which translations become invalid (include/exec/exec-all.h, and
//! `cpu_x86_update_cr3` of target/i386/helper.c).

use std::ffi::{CStr, c_void};
use std::mem::transmute_copy;
use std::sync::atomic::Ordering;

use super::super::patch::{Function, replace_all};
use super::super::qemu::qemu;
use super::super::system::{Where, function};
use super::guest::Load;
use super::layout::{Functions, Jumps};
use super::{FORGET, TLBS, Tlbs};

type FlushIndices = unsafe extern "C" fn(*mut c_void, u16);
type FlushPage = unsafe extern "C" fn(*mut c_void, u64, u16);
type ResetDirty = unsafe extern "C" fn(*mut c_void, u64, u64);

/// QEMU's functions as they were.
pub struct Originals {
    /// `tlb_flush_by_mmuidx`.
    pub flush_indices: FlushIndices,
    /// `tlb_flush_page_by_mmuidx`.
    flush_page: FlushPage,
    /// `tlb_reset_dirty`: what is written to these addresses of QEMU's is to be noted.
    reset_dirty: ResetDirty,
    pub load: Load,
}

/// Functions of QEMU, each with the one that takes its place.
pub struct Replaceable([(Function, *mut c_void); 6]);

const FLUSH_INDICES: usize = 0;
const RESET_DIRTY: usize = 1;

impl Replaceable {
    pub fn find() -> Option<Self> {
        let pair = |name: &CStr, ours| Some((Function::of(name)?, ours));
        Some(Self([
            pair(c"tlb_flush_by_mmuidx", flush_indices as FlushIndices as *mut c_void)?,
            pair(c"tlb_reset_dirty", reset_dirty as ResetDirty as *mut c_void)?,
            pair(c"tlb_flush", flush as unsafe extern "C" fn(_) as *mut c_void)?,
            pair(c"tlb_flush_page", flush_page as unsafe extern "C" fn(_, _) as *mut c_void)?,
            pair(c"cpu_x86_update_cr3", load_cr3 as unsafe extern "C" fn(_, _) as *mut c_void)?,
            pair(c"tcg_flush_jmp_cache", flush_jumps as unsafe extern "C" fn(_) as *mut c_void)?,
        ]))
    }

    pub fn originals(&self) -> Option<Originals> {
        // SAFETY: the types are those of QEMU's headers.
        unsafe {
            Some(Originals {
                flush_indices: transmute_copy(&self.0[FLUSH_INDICES].0.kept()?),
                reset_dirty: transmute_copy(&self.0[RESET_DIRTY].0.kept()?),
                flush_page: function(c"tlb_flush_page_by_mmuidx", Where::Program)?,
                load: function(c"x86_ldq_phys", Where::Program)?,
            })
        }
    }

    /// As [`replace_all`].
    ///
    /// # Safety
    ///
    /// No other thread calls any of these functions now.
    pub unsafe fn replace_if(&self, is_wanted: impl FnOnce() -> bool) -> bool {
        // SAFETY: each has the signature of the other, and the caller vouches for the rest.
        unsafe { replace_all(&self.0, is_wanted) }
    }
}

impl Functions {
    /// # Safety
    ///
    /// None of them is replaced yet.
    pub unsafe fn find() -> Option<Self> {
        // SAFETY: the types are those of QEMU's headers.
        unsafe {
            Some(Self {
                make: function(c"tlb_init", Where::Program)?,
                flush: function(c"tlb_flush_by_mmuidx", Where::Program)?,
                flush_jumps: function(c"tcg_flush_jmp_cache", Where::Program)?,
            })
        }
    }
}

/// In a thread that is not the processor's: does something as QEMU did it, to whichever TLB the processor has now. Both are
/// flushed before the processor uses another.
fn from_outside(change: impl FnOnce(&Tlbs)) {
    if let Some(tlbs) = TLBS.get() {
        FORGET.store(true, Ordering::Release);
        change(tlbs);
        FORGET.store(true, Ordering::Release);
    }
}

/// In the place of `tlb_flush`.
unsafe extern "C" fn flush(_processor: *mut c_void) {
    let Some((tlbs, state)) = Tlbs::of_this_thread() else {
        // SAFETY: any thread may call it.
        return from_outside(|tlbs| unsafe {
            (tlbs.originals.flush_indices)(tlbs.processor, tlbs.layout.all_indices);
        });
    };
    // On its way to the other side the processor loads CR0 and CR4 before CR3, and uses no translation.
    let is_between =
        if state.is_guests { !tlbs.is_in_guest() && tlbs.leaves_guest() } else { tlbs.is_in_guest() };
    if !is_between {
        tlbs.flush_both(state);
    }
}

/// In the place of `tlb_flush_by_mmuidx`.
unsafe extern "C" fn flush_indices(_processor: *mut c_void, indices: u16) {
    let Some((tlbs, state)) = Tlbs::of_this_thread() else {
        // SAFETY: any thread may call it.
        return from_outside(|tlbs| unsafe { (tlbs.originals.flush_indices)(tlbs.processor, indices) });
    };
    // When it enters or leaves a guest, QEMU flushes the index for the guest's physical addresses: its TLB is kept, and the host's
    // has nothing of it.
    if tlbs.leaves_guest() || !tlbs.layout.is_used(indices) {
        return;
    }
    tlbs.flush_both(state);
}

/// In the place of `tlb_flush_page`.
unsafe extern "C" fn flush_page(_processor: *mut c_void, address: u64) {
    // SAFETY: any thread may call it.
    let flush = |tlbs: &Tlbs| unsafe {
        (tlbs.originals.flush_page)(tlbs.processor, address, tlbs.layout.all_indices);
    };
    match Tlbs::of_this_thread() {
        Some((tlbs, state)) => tlbs.in_both(state, || flush(tlbs)),
        None => from_outside(flush),
    }
}

/// In the place of `tlb_reset_dirty`.
unsafe extern "C" fn reset_dirty(_processor: *mut c_void, address: u64, bytes: u64) {
    // SAFETY: any thread may call it.
    let reset = |tlbs: &Tlbs| unsafe { (tlbs.originals.reset_dirty)(tlbs.processor, address, bytes) };
    match Tlbs::of_this_thread() {
        Some((tlbs, state)) => tlbs.in_both(state, || reset(tlbs)),
        None => from_outside(reset),
    }
}

/// In the place of `cpu_x86_update_cr3`.
unsafe extern "C" fn load_cr3(_registers: *mut c_void, value: u64) {
    let Some((tlbs, state)) = Tlbs::of_this_thread() else {
        return from_outside(|tlbs| {
            // SAFETY: another thread loads CR3 only while the processor stands.
            unsafe {
                if tlbs.fields.load_cr3(tlbs.processor, value) {
                    (tlbs.originals.flush_indices)(tlbs.processor, tlbs.layout.all_indices);
                }
            }
        });
    };
    // SAFETY: the processor's own field, in its thread.
    let is_paging = unsafe { tlbs.fields.load_cr3(tlbs.processor, value) };
    if tlbs.is_in_guest() != state.is_guests {
        tlbs.change_sides(state);
    } else if is_paging {
        tlbs.flush_own();
    }
}

/// In the place of `tcg_flush_jmp_cache`. Unless only translations become invalid, because we say so, blocks themselves may
/// have, which both caches hold.
unsafe extern "C" fn flush_jumps(_processor: *mut c_void) {
    let Some(tlbs) = TLBS.get() else { return };
    if tlbs.is_ours.load(Ordering::Relaxed) && qemu().is_some_and(|qemu| qemu.is_processor()) {
        tlbs.layout.jumps().empty();
    } else {
        tlbs.jumps.into_iter().for_each(Jumps::empty);
    }
}
