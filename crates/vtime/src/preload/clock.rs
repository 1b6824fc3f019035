//! The clock that takes the place of QEMU's: for a processor that executes several instructions in a nanosecond, and for one whose
//! skipped time does not depend on when QEMU's threads run ([`idle`]).
//!
//! QEMU's virtual clock under `-icount shift=0` is the number of executed instructions and a bias, to which it adds the time that it
//! skips. The clock that takes its place divides the first by the instructions of a nanosecond and leaves the second: all that lives
//! by the clock (timers, the processor's time stamp counter, disks) keeps its times, and only instructions become shorter.
//!
//! QEMU makes budgets of instructions from nanoseconds with `icount_round`. Where its calls can be turned to a function of
//! ours, a budget reaches to the next timer. Elsewhere it falls short, and QEMU makes another from what is left, until it is there.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use super::idle;
use super::program::{Program, Slot, slots_of_all};
use super::protocol::SPEED_VARIABLE;
use super::system::{Where, address_of, function, log, malloc_usable_size};

/// The class with the functions of TCG that QEMU calls (`ACCEL_OPS_NAME("tcg")`, include/sysemu/accel-ops.h).
const CLASS: &CStr = c"tcg-accel-ops";
/// `get_virtual_clock` and `get_elapsed_ticks`.
const CLOCKS_OF_CLASS: usize = 2;

/// What the clock is made of.
struct Clock {
    /// Instructions of a nanosecond.
    per_ns: i64,
    /// Instructions that were executed, without what was skipped.
    executed: unsafe extern "C" fn() -> i64,
    /// Nanoseconds that were skipped: `timers_state.qemu_icount_bias`.
    skipped_ns: &'static AtomicI64,
    class_by_name: unsafe extern "C" fn(*const c_char) -> *mut c_void,
}

/// Empty where what QEMU's clock is made of was not found.
static CLOCK: OnceLock<Clock> = OnceLock::new();
static IS_SET: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn _exit(status: c_int) -> !;
}

/// Looks for what a clock in the place of QEMU's needs. Whether it was found.
pub fn look(program: &Program) -> bool {
    let per_ns = match env::var_os(SPEED_VARIABLE) {
        Some(asked) => asked.to_str().and_then(|text| text.parse().ok()).filter(|per_ns| *per_ns >= 1),
        None => Some(1),
    };
    let clock = per_ns.and_then(|per_ns| find(program, per_ns));
    clock.is_some_and(|clock| CLOCK.set(clock).is_ok())
}

fn find(program: &Program, per_ns: i64) -> Option<Clock> {
    let bias = program.field_offset(c"qemu_icount_bias", size_of::<i64>())?;
    let state = address_of(c"timers_state", Where::Program);
    if state.is_null() || address_of(c"icount_get", Where::Program).is_null() {
        return None;
    }
    // SAFETY: the types are those of the functions in QEMU's headers, and the offset is that of QEMU's own description of
    // its state, which is there for ever and read by QEMU itself without a lock.
    unsafe {
        Some(Clock {
            per_ns,
            executed: function(c"icount_get_raw", Where::Program)?,
            skipped_ns: AtomicI64::from_ptr(state.byte_add(bias).cast()),
            class_by_name: function(c"object_class_by_name", Where::Program)?,
        })
    }
}

impl Clock {
    fn now_ns(&self) -> i64 {
        loop {
            let skipped_ns = self.skipped_ns.load(Ordering::Acquire);
            // SAFETY: may be called by any thread that may ask for the time.
            let executed = unsafe { (self.executed)() };
            if self.skipped_ns.load(Ordering::Acquire) == skipped_ns {
                return skipped_ns + executed / self.per_ns;
            }
        }
    }

    /// How many instructions there are until so much time has passed, and not one more: QEMU's other threads run timers that
    /// are due as soon as they see it, while the processor executes what is left of its budget.
    fn instructions_in(&self, ns: i64) -> i64 {
        if ns <= 0 {
            return 0;
        }
        // SAFETY: QEMU makes budgets where the processor's thread may ask for the time.
        let executed = unsafe { (self.executed)() };
        ns.saturating_mul(self.per_ns) - executed % self.per_ns
    }

    /// Puts this clock in the place of QEMU's in the class, once QEMU has put that there. Whether it did.
    fn put_into_class(&self) -> bool {
        // SAFETY: the name ends with a zero, and QEMU's table of classes is there before threads are.
        let class = unsafe { (self.class_by_name)(CLASS.as_ptr()) };
        if class.is_null() {
            return false;
        }
        let original = address_of(c"icount_get", Where::Program);
        // SAFETY: a class is a piece of memory of its own, of which the allocator knows the size.
        let words: &[Slot] = unsafe {
            let bytes = malloc_usable_size(class);
            std::slice::from_raw_parts(class.cast(), bytes / size_of::<Slot>())
        };
        let slots: Vec<&Slot> = words.iter().filter(|word| word.holds(original)).collect();
        if slots.len() != CLOCKS_OF_CLASS {
            return false;
        }
        slots.iter().for_each(|slot| slot.set(now_ns as *mut c_void));
        true
    }
}

/// In the place of `icount_get`.
extern "C" fn now_ns() -> i64 {
    idle::wait_until_counted();
    CLOCK.get().map_or(0, Clock::now_ns)
}

/// In the place of `icount_round`.
extern "C" fn instructions_in(ns: i64) -> i64 {
    CLOCK.get().map_or(ns, |clock| clock.instructions_in(ns))
}

/// Called whenever a thread is about to be made, as the processor's is after QEMU has decided what its clock is: from then on this
/// clock is in its place, and the processor is as fast as it is to be. Nothing was executed before, so that the clock does not jump.
pub fn before_thread() {
    let Some(clock) = CLOCK.get().filter(|_| !is_set()) else { return };
    if !clock.put_into_class() {
        return;
    }
    // Where an instruction takes a nanosecond, QEMU's own budgets are right.
    if clock.per_ns != 1 {
        let original = address_of(c"icount_round", Where::Program);
        for slot in slots_of_all(original) {
            slot.replace(instructions_in as *mut c_void);
        }
    }
    IS_SET.store(true, Ordering::Release);
}

/// Whether this clock is in the place of QEMU's.
pub fn is_set() -> bool {
    IS_SET.load(Ordering::Acquire)
}

/// Ends QEMU if its own clock is still in its place; its log says so.
pub fn require() {
    if CLOCK.get().is_some() && !is_set() {
        log(
            "where this QEMU keeps its clock was not found, so its runs would not repeat; `--on emulated:time=real` does not need it",
        );
        // SAFETY: ends the process at once. QEMU's own end would wait for locks that this thread holds.
        unsafe { _exit(1) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicPtr;

    use super::*;

    static SKIPPED_NS: AtomicI64 = AtomicI64::new(7_000);

    extern "C" fn executed() -> i64 {
        4_003
    }

    extern "C" fn no_class(_name: *const c_char) -> *mut c_void {
        std::ptr::null_mut()
    }

    #[test]
    fn what_was_skipped_is_not_divided() {
        let clock = |per_ns| Clock { per_ns, executed, skipped_ns: &SKIPPED_NS, class_by_name: no_class };
        assert_eq!([1, 4, 16].map(|per_ns| clock(per_ns).now_ns()), [11_003, 8_000, 7_250]);
        assert!(!clock(4).put_into_class());
    }

    #[test]
    fn a_budget_ends_with_the_instruction_at_which_its_time_has_come() {
        for (per_ns, ns) in [(1, 5), (4, 1), (4, 5), (16, 1_000)] {
            let clock = Clock { per_ns, executed, skipped_ns: &SKIPPED_NS, class_by_name: no_class };
            let ends_at = executed() + clock.instructions_in(ns);
            assert_eq!((ends_at / per_ns, (ends_at - 1) / per_ns), {
                let due = executed() / per_ns + ns;
                (due, due - 1)
            });
            assert_eq!(clock.instructions_in(0), 0);
        }
    }

    #[test]
    fn in_a_program_that_is_not_qemu_there_is_no_clock() {
        assert!(find(&Program::here(), 4).is_none());
        before_thread();
        require();
    }

    #[test]
    fn an_address_is_found_wherever_it_stands_and_replaced_there() {
        static MEANT: u64 = 0x6e65_7374_6f72;
        static KEPT: AtomicPtr<c_void> = AtomicPtr::new((&raw const MEANT).cast_mut().cast());
        let found = slots_of_all(KEPT.load(Ordering::Relaxed));
        assert!(found.iter().any(|slot| std::ptr::from_ref(*slot).cast() == &raw const KEPT));
        for slot in found {
            assert!(slot.replace(std::ptr::null_mut()));
        }
        assert!(KEPT.load(Ordering::Relaxed).is_null());
    }
}
