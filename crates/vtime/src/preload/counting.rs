//! Counts the instructions of the machine by what the processor was doing: in a guest or not, in a kernel or not.
//!
//! The library makes itself a plugin of QEMU's translator. QEMU looks translated blocks up by the processor's flags, so all of a
//! block belongs to one [`Mode`], and code that QEMU puts before each instruction adds one to the count of that mode; no
//! instruction of the machine is added or changed, and no time passes. An instruction that ends in an exception is counted
//! by that code and again when it is repeated, but only once by QEMU's clock of instructions: when the exception is delivered, the counts are
//! made to agree with that clock ([`settle`]).
//!
//! A program in the machine marks a moment with an instruction that does nothing ([`MARK`]), in whatever guest it runs.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::controller;
use super::program::Program;
use super::protocol::{Counting, Instructions, MARK};
use super::qemu::qemu;
use super::system::{self, Where, function};

/// `HF_CPL_MASK` (target/i386/cpu.h): the processor's privilege, 0 in a kernel.
const PRIVILEGE: u32 = 3;
/// `HF_GUEST_MASK`: it is in a guest of AMD's SVM.
const IN_GUEST: u32 = 1 << 21;
/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const ADD: c_int = 0;
/// `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGISTERS: c_int = 0;

/// Version of QEMU's interface for plugins (`include/qemu/qemu-plugin.h`): that of 4.2 to 8.2. Later ones count otherwise.
#[cfg_attr(preload, unsafe(no_mangle))]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

/// What a processor is doing.
#[derive(Clone, Copy)]
enum Mode {
    HostUser,
    HostKernel,
    GuestUser,
    GuestKernel,
}

impl Mode {
    fn of(flags: u32) -> Self {
        match (flags & IN_GUEST != 0, flags & PRIVILEGE != 0) {
            (false, true) => Self::HostUser,
            (false, false) => Self::HostKernel,
            (true, true) => Self::GuestUser,
            (true, false) => Self::GuestKernel,
        }
    }
}

/// A count for each mode. Only the processor's thread touches them; there is one processor.
struct Counts(UnsafeCell<[u64; 4]>);

// SAFETY: all that read or write are called in the processor's thread.
unsafe impl Sync for Counts {}

static COUNTS: Counts = Counts(UnsafeCell::new([0; 4]));

impl Counts {
    fn place(&self, mode: Mode) -> *mut u64 {
        // SAFETY: a mode is less than 4.
        unsafe { self.0.get().cast::<u64>().add(mode as usize) }
    }

    fn read(&self) -> Instructions {
        // SAFETY: see `Sync`; translated code writes them too.
        let [host_user, host_kernel, guest_user, guest_kernel] = unsafe { self.0.get().read_volatile() };
        Instructions { host_user, host_kernel, guest_user, guest_kernel }
    }
}

type Register<F> = unsafe extern "C" fn(u64, F);
type Translated = extern "C" fn(u64, *mut c_void);
type Executed = extern "C" fn(c_uint, *mut c_void);

/// The functions of QEMU that a plugin of version 1 needs, and where a processor has its flags.
struct Translator {
    on_translation: Register<Translated>,
    instruction_count: unsafe extern "C" fn(*const c_void) -> usize,
    instruction: unsafe extern "C" fn(*const c_void, usize) -> *mut c_void,
    instruction_bytes: unsafe extern "C" fn(*const c_void) -> usize,
    instruction_data: unsafe extern "C" fn(*const c_void) -> *const u8,
    add_before: unsafe extern "C" fn(*mut c_void, c_int, *mut u64, u64),
    call_before: unsafe extern "C" fn(*mut c_void, Executed, c_int, *mut c_void),
    /// `qemu_plugin_opt_parse` and `qemu_plugin_load_list` (`include/qemu/plugin.h`).
    parse_option: unsafe extern "C" fn(*const c_char, *mut PluginList),
    load_list: unsafe extern "C" fn(*mut PluginList, *mut *mut c_void) -> c_int,
    /// Instructions that were executed: QEMU's own clock of them, without what was skipped.
    executed: unsafe extern "C" fn() -> i64,
    flags_at: usize,
}

/// `QemuPluginList`, a `QTAILQ_HEAD` (`include/qemu/queue.h`): the first, and where the last says what follows.
#[repr(C)]
struct PluginList {
    first: *mut c_void,
    last: *mut c_void,
}

static TRANSLATOR: OnceLock<Translator> = OnceLock::new();
static IS_COUNTING: AtomicBool = AtomicBool::new(false);
/// QEMU's clock of instructions when none was counted yet.
static BEGAN_AT: AtomicU64 = AtomicU64::new(NOT_BEGUN);
const NOT_BEGUN: u64 = u64::MAX;

/// Looks for what is needed to count.
pub fn look(program: &Program) -> Counting {
    let Some(flags_at) = program.field_offset(c"env.hflags", size_of::<u32>()) else {
        return Counting::NoFlags;
    };
    // SAFETY: the types are those of version 1 of the interface; later ones have no `add_before` of this name.
    let found = unsafe { find(flags_at) };
    match found {
        Some(translator) => {
            let _ = TRANSLATOR.set(translator);
            Counting::Possible
        }
        None => Counting::NoInterface,
    }
}

/// # Safety
///
/// `flags_at` is where a processor has its flags.
unsafe fn find(flags_at: usize) -> Option<Translator> {
    // SAFETY: see `look`.
    unsafe {
        Some(Translator {
            on_translation: function(c"qemu_plugin_register_vcpu_tb_trans_cb", Where::Program)?,
            instruction_count: function(c"qemu_plugin_tb_n_insns", Where::Program)?,
            instruction: function(c"qemu_plugin_tb_get_insn", Where::Program)?,
            instruction_bytes: function(c"qemu_plugin_insn_size", Where::Program)?,
            instruction_data: function(c"qemu_plugin_insn_data", Where::Program)?,
            add_before: function(c"qemu_plugin_register_vcpu_insn_exec_inline", Where::Program)?,
            call_before: function(c"qemu_plugin_register_vcpu_insn_exec_cb", Where::Program)?,
            parse_option: function(c"qemu_plugin_opt_parse", Where::Program)?,
            load_list: function(c"qemu_plugin_load_list", Where::Program)?,
            executed: function(c"icount_get_raw", Where::Program)?,
            flags_at,
        })
    }
}

/// Makes this library a plugin. The caller is QEMU's main thread, when the machine is there and its processor is not yet.
pub fn begin() {
    let Some(translator) = TRANSLATOR.get().filter(|_| !IS_COUNTING.load(Ordering::Relaxed)) else { return };
    let Some(option) = system::own_file().and_then(|path| {
        let path = path.to_str().ok()?.replace(',', ",,");
        std::ffi::CString::new(format!("file={path}")).ok()
    }) else {
        return;
    };
    let mut list = PluginList { first: ptr::null_mut(), last: ptr::null_mut() };
    list.last = (&raw mut list).cast();
    let mut error = ptr::null_mut();
    // SAFETY: an empty list of QEMU's kind; what is loaded is taken off it.
    unsafe {
        (translator.parse_option)(option.as_ptr(), &raw mut list);
        (translator.load_list)(&raw mut list, &raw mut error);
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
    _info: *const c_void,
    _count: c_int,
    _arguments: *mut *mut c_char,
) -> c_int {
    let Some(translator) = TRANSLATOR.get() else { return 1 };
    IS_COUNTING.store(true, Ordering::Release);
    // SAFETY: it is QEMU's number for this plugin.
    unsafe { (translator.on_translation)(id, translated) };
    0
}

/// A block has been translated, and is about to be executed by the processor as it now is.
extern "C" fn translated(_plugin: u64, block: *mut c_void) {
    let Some((translator, mode)) = TRANSLATOR.get().and_then(|t| Some((t, t.mode()?))) else { return };
    let count = COUNTS.place(mode);
    // SAFETY: the block is there during this call; the counts are for ever.
    unsafe {
        for at in 0..(translator.instruction_count)(block) {
            let instruction = (translator.instruction)(block, at);
            (translator.add_before)(instruction, ADD, count, 1);
            let bytes = (translator.instruction_bytes)(instruction);
            let data = (translator.instruction_data)(instruction);
            if bytes == MARK.len() && std::slice::from_raw_parts(data, bytes) == MARK {
                (translator.call_before)(instruction, marked, NO_REGISTERS, ptr::null_mut());
            }
        }
    }
}

extern "C" fn marked(_processor: c_uint, _context: *mut c_void) {
    controller::marked(COUNTS.read());
}

impl Translator {
    fn mode(&self) -> Option<Mode> {
        let processor = qemu()?.processor();
        // SAFETY: the offset is that of QEMU's own description of the processor's state.
        (!processor.is_null())
            .then(|| Mode::of(unsafe { processor.byte_add(self.flags_at).cast::<u32>().read() }))
    }
}

/// Makes the counts agree with QEMU's clock of instructions. What was begun and not done was begun in the processor's present mode.
///
/// The caller is the processor's thread, between two instructions.
pub fn settle() {
    if !IS_COUNTING.load(Ordering::Relaxed) {
        return;
    }
    let Some((translator, mode)) = TRANSLATOR.get().and_then(|t| Some((t, t.mode()?))) else { return };
    // SAFETY: between two instructions the clock may be read.
    let now = unsafe { (translator.executed)() }.cast_unsigned();
    let counted = COUNTS.read().sum();
    let began_at = match BEGAN_AT.load(Ordering::Relaxed) {
        NOT_BEGUN => {
            let began_at = if counted == 0 { now } else { 0 };
            BEGAN_AT.store(began_at, Ordering::Relaxed);
            began_at
        }
        began_at => began_at,
    };
    let surplus = counted.wrapping_sub(now.wrapping_sub(began_at));
    let count = COUNTS.place(mode);
    // SAFETY: see `Counts`.
    unsafe { count.write_volatile(count.read_volatile().wrapping_sub(surplus)) };
}

/// What was counted; `None` where nothing is.
///
/// The caller is the processor's thread, between two instructions.
pub fn counted() -> Option<Instructions> {
    IS_COUNTING.load(Ordering::Relaxed).then(|| {
        settle();
        COUNTS.read()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_told_by_privilege_and_guest() {
        // 64-bit code, protected mode, paging: what else is in the flags.
        const OTHERS: u32 = 1 << 15 | 1 << 7 | 1 << 4;
        let mode = |flags| Mode::of(OTHERS | flags) as usize;
        assert_eq!([3, 0, IN_GUEST | 3, IN_GUEST].map(mode), [0, 1, 2, 3], "in the order of the counts");
    }

    #[test]
    fn nothing_is_counted_in_a_program_that_is_not_qemu() {
        assert_ne!(look(&Program::here()), Counting::Possible);
        begin();
        settle();
        assert_eq!(counted(), None);
    }
}
