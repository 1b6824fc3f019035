//! Lets an interrupt come as soon as it may.
//!
//! After `STI` a processor executes one more instruction before an interrupt may come. QEMU translates that instruction by itself and looks for
//! interrupts behind it, unless it is a return or another jump to an address that is computed: then QEMU goes on to the next block
//! without a look (`do_gen_eob_worker` with `jr`, target/i386/tcg/translate.c, 7.2). What waits comes when the processor leaves its loop for any
//! other reason, and whether it does depends on real time. Xen's idle loop has such a return; without this, no run under Xen repeats.
//!
//! The processor's own flags of translation (`CPUState.tcg_cflags`) can say that such jumps leave the loop. Here they say so for that one
//! instruction, while an interrupt waits.

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::controller;
use super::patch::Function;
use super::program::Program;
use super::qemu::qemu;
use super::system::{Where, address_of, log};

type ExecuteInterrupt = unsafe extern "C" fn(*mut c_char, c_int) -> bool;

/// `HF_INHIBIT_IRQ_MASK` (target/i386/cpu.h): the next instruction is the one after `STI`.
const IN_SHADOW: u32 = 1 << 3;
/// `CF_NO_GOTO_PTR` (include/exec/exec-all.h, 7.2): jumps to computed addresses leave the processor's loop.
const LEAVES_AT_JUMPS: u32 = 0x400;
/// `CF_USE_ICOUNT`: all that else is among the flags of a processor whose instructions are the clock.
const USUAL: u32 = 0x2_0000;

/// How `curr_cflags` (accel/tcg/cpu-exec.c, 7.2) ends where each instruction is to be by itself: `or $0xe01,%eax; ret`, with
/// [`LEAVES_AT_JUMPS`] among the flags. Another QEMU may give the bits another meaning.
const SINGLE_STEPS: [u8; 6] = [0x0d, 0x01, 0x0e, 0, 0, 0xc3];
/// How it reads the flags: `mov OFFSET(%rdi),%eax`.
const READS_FLAGS: [u8; 2] = [0x8b, 0x87];

static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// Where `env.hflags` is in a processor, in bytes.
static FLAGS_AT: AtomicUsize = AtomicUsize::new(0);
/// Where `tcg_cflags` is.
static TRANSLATION_AT: AtomicUsize = AtomicUsize::new(0);

/// QEMU asks only if something is requested, of whatever kind: a device's interrupt, or a guest's that its hypervisor has made to wait.
unsafe extern "C" fn execute_interrupt(processor: *mut c_char, requested: c_int) -> bool {
    if controller::is_to_stand() {
        // Whether one came before time stands, and another of its vector after it, or both as one, would be up to real time.
        if let Some(qemu) = qemu() {
            qemu.leave_processor_loop();
        }
        return false;
    }
    // SAFETY: QEMU's own processor, and the places of fields of it.
    let (flags, translation) = unsafe {
        (
            processor.add(FLAGS_AT.load(Ordering::Relaxed)).cast::<u32>(),
            processor.add(TRANSLATION_AT.load(Ordering::Relaxed)).cast::<u32>(),
        )
    };
    // SAFETY: the original is set before this function can be called, and is such a function; only this thread uses both fields.
    unsafe {
        let is_usual = *translation & !LEAVES_AT_JUMPS == USUAL;
        if is_usual {
            *translation = USUAL;
        }
        let came = transmute::<*mut c_void, ExecuteInterrupt>(ORIGINAL.load(Ordering::Relaxed))(
            processor, requested,
        );
        if is_usual && !came && *flags & IN_SHADOW != 0 {
            *translation |= LEAVES_AT_JUMPS;
        }
        came
    }
}

/// Replaces the function that looks whether an interrupt may come. A QEMU that is not as expected stays as it is, and says so.
pub fn mend(program: &Program) {
    if try_to_mend(program).is_none() {
        log("interrupts may come late after STI: this QEMU is not as expected");
    }
}

fn try_to_mend(program: &Program) -> Option<()> {
    let original = address_of(c"x86_cpu_exec_interrupt", Where::Program);
    let flags = program.field_offset(c"env.hflags", size_of::<u32>()).filter(|_| !original.is_null())?;
    let translation = place_of_flags(Function::of(c"curr_cflags")?.code())?;
    ORIGINAL.store(original, Ordering::Relaxed);
    FLAGS_AT.store(flags, Ordering::Relaxed);
    TRANSLATION_AT.store(translation, Ordering::Relaxed);
    let found: Vec<_> = program.data().filter(|slot| slot.holds(original)).collect();
    match found[..] {
        [slot] => slot.replace(execute_interrupt as ExecuteInterrupt as *mut c_void).then_some(()),
        _ => None,
    }
}

/// From which place in a processor `curr_cflags` reads; `None` if the function is another one.
fn place_of_flags(code: &[u8]) -> Option<usize> {
    code.windows(SINGLE_STEPS.len()).find(|window| *window == SINGLE_STEPS)?;
    let mut reads = code.windows(READS_FLAGS.len() + 4).filter(|window| window.starts_with(&READS_FLAGS));
    let (Some(read), None) = (reads.next(), reads.next()) else { return None };
    let offset = i32::from_le_bytes(read[READS_FLAGS.len()..].try_into().ok()?);
    usize::try_from(offset).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov 0xdc(%rdi),%ecx; mov 0x2f8(%rdi),%eax; or $0xe01,%eax; ret`.
    const KNOWN: [u8; 18] =
        [0x8b, 0x8f, 0xdc, 0, 0, 0, 0x8b, 0x87, 0xf8, 0x02, 0, 0, 0x0d, 0x01, 0x0e, 0, 0, 0xc3];

    #[test]
    fn the_place_of_the_flags_is_read_from_the_function() {
        assert_eq!(place_of_flags(&KNOWN), Some(0x2f8));
    }

    #[test]
    fn another_function_says_nothing() {
        assert_eq!(place_of_flags(&KNOWN[..12]), None, "its bits may mean something else");
        assert_eq!(place_of_flags(&KNOWN[12..]), None, "it reads nothing");
        let twice = [&KNOWN[6..12], &KNOWN[..]].concat();
        assert_eq!(place_of_flags(&twice), None, "it reads twice");
        let mut negative = KNOWN;
        negative[11] = 0xff;
        assert_eq!(place_of_flags(&negative), None, "it reads before the processor");
    }
}
