//! Keeps the TLB of a host and of its guest apart, as processors with address space identifiers do.
//!
//! QEMU's processor forgets all translations of addresses whenever it enters a guest and whenever it leaves one
//! (`helper_vmrun` and `do_vmexit`, target/i386/tcg/sysemu/svm_helper.c, load CR3), some twelve times for one request of a guest's
//! disk, and looks each page up again through two levels of page tables. Nothing of that takes virtual time, but most of the real time of
//! a guest. Here the processor has two TLBs and exchanges them. A guest's is used again under the rules that AMD's manual gives for an
//! address space identifier (volume 2, 15.16), on which KVM relies: it is the same, a flush is not asked for, and what
//! the guest's translations depend on is as it was when the guest was left ([`guest::Translation`]).
//!
//! QEMU's calls that make translations invalid are turned to functions of ours ([`hooks`]), which do it in both TLBs, or
//! leave it where the processor only changes sides. What another thread of QEMU changes makes both invalid.
//!
//! All of it is tried when the processor is made. Where this QEMU is not as expected it stays as it is, and guests are slower.

mod guest;
mod hooks;
mod layout;

use std::cell::UnsafeCell;
use std::env;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::patch::Function;
use super::program::Program;
use super::protocol::ONE_TLB_VARIABLE;
use super::qemu::qemu;
use super::system::log;
use guest::{Fields, Translation};
use hooks::{Originals, Replaceable};
use layout::{Functions, Jumps, Kept, Layout};

/// `EXCP_VMEXIT` (target/i386/cpu.h): the processor is leaving a guest.
const LEAVES_GUEST: c_int = 0x100;

/// The fields of a processor, as long as there is none.
static FIELDS: OnceLock<Fields> = OnceLock::new();
/// Both TLBs, once they are used.
static TLBS: OnceLock<Tlbs> = OnceLock::new();
static TRIED: AtomicBool = AtomicBool::new(false);
/// Another thread has changed what translations depend on: neither TLB is valid.
static FORGET: AtomicBool = AtomicBool::new(false);

/// The TLBs of the processor. A machine that has a controller has one: QEMU counts instructions in one thread.
struct Tlbs {
    processor: *mut c_void,
    fields: Fields,
    layout: Layout,
    originals: Originals,
    /// Both caches of blocks, whichever the processor has.
    jumps: [Jumps; 2],
    /// QEMU makes translations invalid because we say so, not blocks. Set and read in one thread, through QEMU.
    is_ours: AtomicBool,
    /// Of the processor's thread alone.
    state: UnsafeCell<State>,
}

// SAFETY: `state` belongs to the processor's thread, what others may touch are atomics of QEMU's.
unsafe impl Sync for Tlbs {}
// SAFETY: as above; the processor lives as long as QEMU does.
unsafe impl Send for Tlbs {}

struct State {
    /// The processor's own TLB is the guest's.
    is_guests: bool,
    other: Kept,
    /// The other TLB is to be flushed before it is used.
    is_other_stale: bool,
    /// What the translations of the guest depended on when it was left, and of the host.
    left: [Option<Translation>; 2],
}

/// Looks for what is needed to keep two TLBs.
pub fn look(program: &Program) {
    let fields = Fields::of(program).filter(|_| env::var_os(ONE_TLB_VARIABLE).is_none());
    if let Some(fields) = fields {
        let _ = FIELDS.set(fields);
    }
}

/// Gives the processor a second TLB as soon as it is there. The caller is about to make the processor's thread, or another one.
pub fn before_thread() {
    let Some((qemu, fields)) = qemu().zip(FIELDS.get()) else { return };
    let processor = qemu.processor();
    if processor.is_null() || TRIED.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the processor is there, its thread is not.
    let prepared = unsafe { prepare(processor, *fields) };
    // SAFETY: the processor's thread is not there, and no other calls these functions now.
    let is_done = prepared
        .is_some_and(|(tlbs, replaceable)| unsafe { replaceable.replace_if(|| TLBS.set(tlbs).is_ok()) });
    if is_done {
        log("host and guest have a TLB each");
    } else {
        log(
            "this QEMU keeps its TLB in a way that is not known: guests are slower, and nothing else is different",
        );
    }
}

/// The time of day for QEMU in the processor's thread, in microseconds: it asks for it at each flush and makes a TLB larger or smaller
/// by what was used of it since a tenth of a second. As fast as the processor executes that, its clock would decide which
/// translations are replaced, and with them which pages Linux finds accessed. `None` in other threads.
pub fn time_of_day_us() -> Option<i64> {
    /// Later than any true time, so that whatever began before has passed: in 2096.
    const BEGIN_US: i64 = 4_000_000_000_000_000;
    /// About what passes between two flushes.
    const STEP_US: i64 = 10;
    static ASKED: AtomicI64 = AtomicI64::new(0);
    qemu()
        .is_some_and(|qemu| qemu.is_processor())
        .then(|| BEGIN_US + ASKED.fetch_add(1, Ordering::Relaxed) * STEP_US)
}

/// # Safety
///
/// The processor is one of QEMU's, which no thread executes yet.
unsafe fn prepare(processor: *mut c_void, fields: Fields) -> Option<(Tlbs, Replaceable)> {
    let replaceable = Replaceable::find()?;
    let originals = replaceable.originals()?;
    // SAFETY: the types are those of QEMU's headers, the rest is the caller's.
    unsafe {
        let functions = Functions::find()?;
        let jumps = Function::of(c"tcg_flush_jmp_cache")?;
        let layout = Layout::of(processor, &functions, jumps.code())?;
        let other = layout.another(processor, &functions)?;
        let state = State { is_guests: false, other, is_other_stale: false, left: [None; 2] };
        let tlbs = Tlbs {
            processor,
            fields,
            originals,
            jumps: [layout.jumps(), state.other.jumps()],
            layout,
            is_ours: AtomicBool::new(false),
            state: UnsafeCell::new(state),
        };
        Some((tlbs, replaceable))
    }
}

impl Tlbs {
    /// Both TLBs, for the processor's thread, after what other threads have changed is forgotten. `None` in any other thread.
    fn of_this_thread() -> Option<(&'static Self, &'static mut State)> {
        let tlbs = TLBS.get().filter(|_| qemu().is_some_and(|qemu| qemu.is_processor()))?;
        // SAFETY: only the processor's thread comes here, and a function that has the state calls nothing of QEMU's that would
        // come here again but `tcg_flush_jmp_cache`, whose replacement does not.
        let state = unsafe { &mut *tlbs.state.get() };
        if FORGET.swap(false, Ordering::AcqRel) {
            tlbs.flush_both(state);
            state.is_guests = tlbs.is_in_guest();
        }
        Some((tlbs, state))
    }

    fn is_in_guest(&self) -> bool {
        // SAFETY: the processor's own fields, read in its thread.
        unsafe { self.fields.is_in_guest(self.processor) }
    }

    /// Whether the processor is leaving a guest.
    fn leaves_guest(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.fields.exception(self.processor) == LEAVES_GUEST }
    }

    /// The processor has got as far that its translations are those of the other side.
    fn change_sides(&self, state: &mut State) {
        // SAFETY: as above; where a guest's state lies the processor has read itself.
        let translation = unsafe { self.fields.translation(self.processor, &self.originals.load) };
        let to_guest = !state.is_guests;
        state.left[usize::from(!state.is_guests)] = translation;
        self.layout.exchange(&mut state.other);
        state.is_guests = to_guest;
        // What another thread has changed since this function began, it has changed in one of both.
        if FORGET.swap(false, Ordering::AcqRel) {
            return self.flush_both(state);
        }
        let left = state.left[usize::from(!to_guest)];
        let is_same = match (left, translation) {
            (Some(left), Some(now)) if to_guest => left.is_same_for_guest(&now),
            (Some(left), Some(now)) => left.is_same_for_host(&now),
            _ => false,
        };
        if !is_same || state.is_other_stale {
            self.flush_own();
        }
        state.is_other_stale = false;
    }

    fn flush_own(&self) {
        // SAFETY: QEMU's own processor, in its thread.
        self.ours(|| unsafe { (self.originals.flush_indices)(self.processor, self.layout.all_indices) });
    }

    /// Calls QEMU, which makes translations invalid.
    fn ours(&self, change: impl FnOnce()) {
        self.is_ours.store(true, Ordering::Relaxed);
        change();
        self.is_ours.store(false, Ordering::Relaxed);
    }

    fn flush_both(&self, state: &mut State) {
        self.flush_own();
        state.is_other_stale = true;
    }

    /// Does something with the processor's own TLB and with the other, unless that is to be flushed anyway.
    fn in_both(&self, state: &mut State, change: impl Fn()) {
        self.ours(&change);
        if !state.is_other_stale {
            self.layout.exchange(&mut state.other);
            self.ours(&change);
            self.layout.exchange(&mut state.other);
        }
    }
}
