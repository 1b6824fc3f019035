//! Delivers once what QEMU delivers twice.
//!
//! QEMU's `helper_vmrun` (target/i386/tcg/sysemu/svm_helper.c, 7.2 to 10.0 at least) delivers the interrupt that KVM injects
//! (`SVM_EVTINJ_TYPE_INTR`), but leaves its vector in `CPUState.exception_index`. If the processor leaves its loop before
//! something resets that, `cpu_handle_exception` delivers the vector again, whether the guest allows interrupts or not;
//! the guest's kernel then waits for a lock that it holds. No other way leads an external vector there but `int n`, of which QEMU notes that it
//! is one (`env.exception_is_int`): programs of a PC's firmware and boot loaders use vectors such as 0x6d and 0x22 in this way.

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::counting;
use super::patch::Function;
use super::program::Program;
use super::system::{Where, address_of, log};

type DoInterrupt = unsafe extern "C" fn(*mut c_char);

static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// Where `exception_index` is in a `CPUState`, in bytes.
static EXCEPTION_AT: AtomicUsize = AtomicUsize::new(0);
/// Where `env.exception_is_int` is in it, in bytes; 0 where this is not known.
static IS_INT_AT: AtomicUsize = AtomicUsize::new(0);

/// What stands before `env.dr` (`CPUX86State` in target/i386/cpu.h, 7.2 to 10.0), the bytes from there to it: `error_code`,
/// `exception_is_int`, `exception_next_eip`.
const BEFORE_DEBUG_REGISTERS: [usize; 3] = [16, IS_INT_BEFORE, 8];
const IS_INT_BEFORE: usize = 12;

/// Vectors below are exceptions, which come this way.
const FIRST_EXTERNAL_VECTOR: c_int = 32;
const VECTORS: c_int = 256;
/// Linux's vector of `int 0x80`.
const SYSTEM_CALL_VECTOR: c_int = 0x80;

unsafe extern "C" fn do_interrupt_once(processor: *mut c_char) {
    counting::settle();
    // SAFETY: QEMU's own processor, and the places of fields of it.
    let field = |at: usize| unsafe { processor.add(at).cast::<c_int>().read() };
    let vector = field(EXCEPTION_AT.load(Ordering::Relaxed));
    let is_instruction = || match IS_INT_AT.load(Ordering::Relaxed) {
        0 => vector == SYSTEM_CALL_VECTOR,
        at => field(at) != 0,
    };
    if (FIRST_EXTERNAL_VECTOR..VECTORS).contains(&vector) && !is_instruction() {
        return;
    }
    // SAFETY: the original is set before this function can be called, and is such a function.
    unsafe { transmute::<*mut c_void, DoInterrupt>(ORIGINAL.load(Ordering::Relaxed))(processor) };
}

/// Replaces the function by which QEMU delivers interrupts. Returns the number of places where it stood.
pub fn mend(program: &Program) -> u64 {
    let original = address_of(c"x86_cpu_do_interrupt", Where::Program);
    let Some(field) =
        program.field_offset(c"exception_index", size_of::<c_int>()).filter(|_| !original.is_null())
    else {
        return 0;
    };
    ORIGINAL.store(original, Ordering::Relaxed);
    EXCEPTION_AT.store(field, Ordering::Relaxed);
    match place_of_is_int(program) {
        Some(at) => IS_INT_AT.store(at, Ordering::Relaxed),
        None => log("guests cannot execute `int` with vectors from 32 on: this QEMU is not as expected"),
    }
    let found: Vec<_> = program.data().filter(|slot| slot.holds(original)).collect();
    match found[..] {
        [slot] if !slot.replace(do_interrupt_once as DoInterrupt as *mut c_void) => 0,
        _ => found.len() as u64,
    }
}

fn place_of_is_int(program: &Program) -> Option<usize> {
    let registers = program.field_offset(c"env.dr", size_of::<u64>())?;
    let code = Function::of(c"x86_cpu_do_interrupt")?.code();
    reads_all_before(code, registers).then(|| registers - IS_INT_BEFORE)
}

/// Whether the function that delivers an interrupt reads the three fields before the debug registers, which are at `registers`.
fn reads_all_before(code: &[u8], registers: usize) -> bool {
    let places = BEFORE_DEBUG_REGISTERS
        .map(|bytes| registers.checked_sub(bytes).and_then(|at| u32::try_from(at).ok()));
    places.iter().all(|place| {
        place.is_some_and(|at| code.windows(size_of::<u32>()).any(|word| word == at.to_le_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov 0x4730(%rax),%ecx; mov 0x4734(%rax),%edx; mov 0x4738(%rax),%r8`, of a processor whose debug registers are at 0x4740.
    const KNOWN: [u8; 19] =
        [0x8b, 0x88, 0x30, 0x47, 0, 0, 0x8b, 0x90, 0x34, 0x47, 0, 0, 0x4c, 0x8b, 0x80, 0x38, 0x47, 0, 0];

    #[test]
    fn the_place_of_what_says_that_it_is_an_instruction_is_known_where_qemu_reads_it() {
        assert!(reads_all_before(&KNOWN, 0x4740));
        assert!(!reads_all_before(&KNOWN, 0x4748), "another field is between");
        assert!(!reads_all_before(&KNOWN[..12], 0x4740), "it reads too little");
        assert!(!reads_all_before(&KNOWN, 4), "there is no room before them");
    }
}
