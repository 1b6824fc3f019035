//! Counts the instructions of the machine by what the processor was doing: in a guest or not, in a kernel or not.
//!
//! The library makes itself a plugin of QEMU's translator. QEMU looks translated blocks up by the processor's flags, so all of a
//! block belongs to one [`Mode`], and code that QEMU puts before each block adds its instructions to the count of that mode; no
//! instruction of the machine is added or changed, and no time passes. A block that is left before its end was counted whole, but not by
//! QEMU's clock of instructions: before the processor leaves it, and when an exception is delivered, the counts are made to agree with that
//! clock ([`before_jump`], [`settle`]).
//!
//! A program in the machine marks a moment with an instruction that does nothing ([`MARK`]), in whatever guest it runs.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::controller;
use super::plugin::{Counters, Info, Interface};
use super::program::Program;
use super::protocol::{Counting, Instructions};
use super::qemu::{IN_GUEST, qemu};
use super::system::{Where, function};

/// `HF_CPL_MASK` (target/i386/cpu.h): the processor's privilege, 0 in a kernel.
const PRIVILEGE: u32 = 3;
/// Where the addresses of kernels begin (Documentation/x86/x86_64/mm.rst of Linux).
const KERNEL_ADDRESSES: u64 = 1 << 63;
/// `CPUState.exception_index` where there is none (include/hw/core/cpu.h): -1.
const NO_EXCEPTION: u32 = u32::MAX;

/// What a processor is doing.
#[derive(Clone, Copy)]
enum Mode {
    HostUser,
    HostKernel,
    GuestUser,
    GuestKernel,
}

impl Mode {
    /// A kernel that runs without privilege is one of a paravirtualised domain of Xen; programs of 64 bits never run at its addresses.
    fn of(flags: u32, instruction_at: u64) -> Self {
        let is_program = flags & PRIVILEGE != 0 && instruction_at < KERNEL_ADDRESSES;
        match (flags & IN_GUEST != 0, is_program) {
            (false, true) => Self::HostUser,
            (false, false) => Self::HostKernel,
            (true, true) => Self::GuestUser,
            (true, false) => Self::GuestKernel,
        }
    }
}

/// QEMU's translator, and where a processor has its flags.
struct Translator {
    interface: Interface,
    /// Instructions that were executed: QEMU's own clock of them, without what was skipped.
    executed: unsafe extern "C" fn() -> i64,
    flags_at: usize,
    /// Of 64 bits.
    instruction_at: usize,
    exception_at: usize,
}

static TRANSLATOR: OnceLock<Translator> = OnceLock::new();
/// A count for each mode, once QEMU has loaded the library as a plugin.
static COUNTERS: OnceLock<Counters> = OnceLock::new();
/// QEMU's clock of instructions when none was counted yet.
static BEGAN_AT: AtomicU64 = AtomicU64::new(NOT_BEGUN);
const NOT_BEGUN: u64 = u64::MAX;

/// Looks for what is needed to count.
pub fn look(program: &Program) -> Counting {
    let field = |name| program.field_offset(name, size_of::<u32>());
    let instruction = program.field_offset(c"env.eip", size_of::<u64>());
    let fields = field(c"env.hflags").zip(field(c"exception_index")).zip(instruction);
    let Some(((flags_at, exception_at), instruction_at)) = fields else {
        return Counting::NoFlags;
    };
    // SAFETY: the type is that of QEMU's header.
    let executed = unsafe { function(c"icount_get_raw", Where::Program) };
    match Interface::find().zip(executed) {
        Some((interface, executed)) => {
            let _ =
                TRANSLATOR.set(Translator { interface, executed, flags_at, instruction_at, exception_at });
            Counting::Possible
        }
        None => Counting::NoInterface,
    }
}

/// Makes this library a plugin. The caller is QEMU's main thread, when the machine is there and its processor is not yet.
pub fn begin() {
    if let Some(translator) = TRANSLATOR.get().filter(|_| COUNTERS.get().is_none()) {
        translator.interface.load();
    }
}

/// Called by QEMU when it has loaded the library as a plugin.
///
/// # Safety
///
/// As `qemu_plugin_install` of `include/qemu/qemu-plugin.h`.
#[cfg_attr(preload, unsafe(no_mangle))]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    _count: c_int,
    _arguments: *mut *mut c_char,
) -> c_int {
    let begun = TRANSLATOR.get().and_then(|translator| {
        // SAFETY: QEMU has called this function.
        unsafe { translator.interface.begin(id, info, translated) }
    });
    c_int::from(begun.is_none_or(|counters| COUNTERS.set(counters).is_err()))
}

/// A block has been translated, and is about to be executed by the processor as it now is.
extern "C" fn translated(_plugin: u64, block: *mut c_void) {
    let Some((translator, counters, mode)) = counting() else { return };
    // SAFETY: QEMU has called this function with the block, and a mode is less than 4.
    unsafe { translator.interface.count(block, counters, mode as usize, marked) };
}

extern "C" fn marked(_processor: c_uint, _context: *mut c_void) {
    if let Some(counters) = COUNTERS.get() {
        controller::marked(instructions(counters));
    }
}

/// What counts, and what the processor is doing.
fn counting() -> Option<(&'static Translator, &'static Counters, Mode)> {
    let (translator, counters) = TRANSLATOR.get().zip(COUNTERS.get())?;
    Some((translator, counters, translator.mode()?))
}

fn instructions(counters: &Counters) -> Instructions {
    let [host_user, host_kernel, guest_user, guest_kernel] = counters.read();
    Instructions { host_user, host_kernel, guest_user, guest_kernel }
}

impl Translator {
    /// The processor's field at this offset, which is that of QEMU's own description of its state, as is its size.
    fn field<T: Copy>(&self, offset: usize) -> Option<T> {
        let processor = qemu()?.processor();
        // SAFETY: a processor has its fields for ever.
        (!processor.is_null()).then(|| unsafe { processor.byte_add(offset).cast::<T>().read() })
    }

    /// In a block that is being translated, the instruction is its first.
    fn mode(&self) -> Option<Mode> {
        Some(Mode::of(self.field(self.flags_at)?, self.field(self.instruction_at)?))
    }

    /// Whether the processor leaves its block for no exception: it is going to execute the instruction it is at once more, by itself, as one
    /// that reaches a device has to be (`cpu_io_recompile`, accel/tcg/translate-all.c). QEMU does not have plugins count it then.
    fn repeats(&self) -> bool {
        self.field::<u32>(self.exception_at) == Some(NO_EXCEPTION)
    }
}

/// Makes the counts agree with QEMU's clock of instructions. What was begun and not done was begun in the processor's present mode.
///
/// The caller is the processor's thread, between two instructions.
pub fn settle() {
    if let Some((translator, counters, mode)) = counting() {
        settle_but(0, translator, counters, mode);
    }
}

/// The same, when the caller is about to jump to where the processor's loop was left for a block. Others jump as well: coroutines.
pub fn before_jump(environment: *mut c_void) {
    if !qemu().is_some_and(|qemu| qemu.is_processor() && qemu.is_in_processor(environment)) {
        return;
    }
    if let Some((translator, counters, mode)) = counting() {
        settle_but(u64::from(translator.repeats()), translator, counters, mode);
    }
}

/// Leaves so many that were counted and will not be once more.
fn settle_but(kept: u64, translator: &Translator, counters: &Counters, mode: Mode) {
    // SAFETY: between two instructions the clock may be read.
    let now = unsafe { (translator.executed)() }.cast_unsigned();
    let counted = instructions(counters).sum();
    let began_at = match BEGAN_AT.load(Ordering::Relaxed) {
        NOT_BEGUN => {
            let began_at = if counted == 0 { now } else { 0 };
            BEGAN_AT.store(began_at, Ordering::Relaxed);
            began_at
        }
        began_at => began_at,
    };
    let surplus = counted.wrapping_sub(now.wrapping_sub(began_at));
    counters.take_off(mode as usize, surplus.wrapping_sub(kept));
}

/// What was counted; `None` where nothing is.
///
/// The caller is the processor's thread, between two instructions.
pub fn counted() -> Option<Instructions> {
    COUNTERS.get().map(|counters| {
        settle();
        instructions(counters)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_told_by_privilege_and_guest() {
        // 64-bit code, protected mode, paging: what else is in the flags.
        const OTHERS: u32 = 1 << 15 | 1 << 7 | 1 << 4;
        let at = |instruction_at| move |flags| Mode::of(OTHERS | flags, instruction_at) as usize;
        let modes = [3, 0, IN_GUEST | 3, IN_GUEST];
        assert_eq!(modes.map(at(0x40_1000)), [0, 1, 2, 3], "in the order of the counts");
        let kernels = modes.map(at(0xffff_ffff_8100_0000));
        assert_eq!(kernels, [1, 1, 3, 3], "kernels of paravirtualised domains have no privilege");
    }

    #[test]
    fn nothing_is_counted_in_a_program_that_is_not_qemu() {
        assert_ne!(look(&Program::here()), Counting::Possible);
        begin();
        settle();
        assert_eq!(counted(), None);
    }
}
