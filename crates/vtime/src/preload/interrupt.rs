//! Delivers once what QEMU delivers twice.
//!
//! QEMU's `helper_vmrun` (target/i386/tcg/sysemu/svm_helper.c, 7.2 to 10.0 at least) delivers the interrupt that KVM injects
//! (`SVM_EVTINJ_TYPE_INTR`), but leaves its vector in `CPUState.exception_index`. If the processor leaves its loop before
//! something resets that, `cpu_handle_exception` delivers the vector again, whether the guest allows interrupts or not;
//! the guest's kernel then waits for a lock that it holds. No other way leads an external vector there but `int n`.

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::counting;
use super::program::Program;
use super::system::{Where, address_of};

type DoInterrupt = unsafe extern "C" fn(*mut c_char);

static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// Where `exception_index` is in a `CPUState`, in bytes.
static EXCEPTION_AT: AtomicUsize = AtomicUsize::new(0);

/// Vectors below are exceptions, which come this way.
const FIRST_EXTERNAL_VECTOR: c_int = 32;
const VECTORS: c_int = 256;
/// Linux's vector of `int 0x80`.
const SYSTEM_CALL_VECTOR: c_int = 0x80;

unsafe extern "C" fn do_interrupt_once(processor: *mut c_char) {
    counting::settle();
    // SAFETY: QEMU's own processor, and the place of a field of it.
    let vector = unsafe { processor.add(EXCEPTION_AT.load(Ordering::Relaxed)).cast::<c_int>().read() };
    if (FIRST_EXTERNAL_VECTOR..VECTORS).contains(&vector) && vector != SYSTEM_CALL_VECTOR {
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
    let found: Vec<_> = program.data().filter(|slot| slot.holds(original)).collect();
    match found[..] {
        [slot] if !slot.replace(do_interrupt_once as DoInterrupt as *mut c_void) => 0,
        _ => found.len() as u64,
    }
}
