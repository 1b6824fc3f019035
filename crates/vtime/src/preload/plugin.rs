//! QEMU's interface for plugins of its translator (`include/qemu/qemu-plugin.h`), as far as counting needs it.
//!
//! Version 1 (QEMU 4.2 to 8.2) adds to a number at an address. Since version 2 (9.0) numbers stand in a scoreboard, an array with an
//! element for each processor. Version 3 (9.1) gives the bytes of an instruction into a buffer instead of saying where they are.
//! Version 4 is that of 10.0. Newer ones are not known, so that they are refused: each of these has changed a function's signature.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use super::protocol::MARK;
use super::system::{self, Where, function};

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const ADD: c_int = 0;
/// `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGISTERS: c_int = 0;
/// The newest version of the interface whose functions are known.
const NEWEST: c_int = 4;
/// The version from which on the bytes of an instruction are copied.
const FIRST_THAT_COPIES: c_int = 3;

/// The version that QEMU is told: the oldest in which the functions are that were found. QEMU reads it when it loads the library.
#[cfg_attr(preload, unsafe(no_mangle))]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

type Register<F> = unsafe extern "C" fn(u64, F);
type Translated = extern "C" fn(u64, *mut c_void);
type Executed = extern "C" fn(c_uint, *mut c_void);

/// Numbers that translated code adds to, four for the one processor.
type Numbers = [u64; 4];

/// `qemu_plugin_u64`: a place in each element of a scoreboard.
#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    scoreboard: *mut c_void,
    offset: usize,
}

/// Adds to what stands at an address, before a block or an instruction is executed.
type AddToAddress = unsafe extern "C" fn(*mut c_void, c_int, *mut u64, u64);
/// Adds to what stands at a place of a scoreboard.
type AddToPlace = unsafe extern "C" fn(*mut c_void, c_int, Place, u64);

/// Two functions, one for each kind of what is executed.
struct Before<F> {
    block: F,
    instruction: F,
}

/// How translated code adds to a number.
enum Adding {
    /// Version 1.
    ToAddress(Before<AddToAddress>),
    /// Versions 2 and later.
    ToScoreboard {
        make: unsafe extern "C" fn(usize) -> *mut c_void,
        find: unsafe extern "C" fn(*mut c_void, c_uint) -> *mut Numbers,
        add: Before<AddToPlace>,
    },
}

/// What is executed, as QEMU gives it.
#[derive(Clone, Copy)]
enum Code {
    Block(*mut c_void),
    Instruction(*mut c_void),
}

impl<F: Copy> Before<F> {
    /// # Safety
    ///
    /// As [`function`].
    unsafe fn find(block: &CStr, instruction: &CStr) -> Option<Self> {
        // SAFETY: the caller's.
        unsafe {
            Some(Self {
                block: function(block, Where::Program)?,
                instruction: function(instruction, Where::Program)?,
            })
        }
    }

    fn of(&self, code: Code) -> (F, *mut c_void) {
        match code {
            Code::Block(block) => (self.block, block),
            Code::Instruction(instruction) => (self.instruction, instruction),
        }
    }
}

/// QEMU's functions for a plugin.
pub struct Interface {
    on_translation: Register<Translated>,
    instruction_count: unsafe extern "C" fn(*const c_void) -> usize,
    instruction: unsafe extern "C" fn(*const c_void, usize) -> *mut c_void,
    instruction_bytes: unsafe extern "C" fn(*const c_void) -> usize,
    /// Before [`FIRST_THAT_COPIES`] it takes only the instruction, and what it returns is the address of its bytes. A caller that says
    /// more than is asked for does no harm in the calling convention of x86-64.
    instruction_data: unsafe extern "C" fn(*const c_void, *mut u8, usize) -> *const u8,
    call_before: unsafe extern "C" fn(*mut c_void, Executed, c_int, *mut c_void),
    adding: Adding,
    /// `qemu_plugin_opt_parse` and `qemu_plugin_load_list` (`include/qemu/plugin.h`).
    parse_option: unsafe extern "C" fn(*const c_char, *mut PluginList),
    load_list: unsafe extern "C" fn(*mut PluginList, *mut *mut c_void) -> c_int,
}

/// `QemuPluginList`, a `QTAILQ_HEAD` (`include/qemu/queue.h`): the first, and where the last says what follows.
#[repr(C)]
struct PluginList {
    first: *mut c_void,
    last: *mut c_void,
}

/// The beginning of `qemu_info_t`, the same in all versions.
#[repr(C)]
pub struct Info {
    target: *const c_char,
    oldest_version: c_int,
    version: c_int,
}

/// What a plugin counts in, once QEMU has loaded it. Only the processor's thread touches the numbers; there is one processor.
pub struct Counters {
    version: c_int,
    /// Null until code is translated, where they stand in a scoreboard: QEMU says where only when there is a processor.
    numbers: AtomicPtr<Numbers>,
    /// Null where there is none.
    scoreboard: AtomicPtr<c_void>,
}

impl Interface {
    /// The functions, if the program has all of those of a known version.
    pub fn find() -> Option<Self> {
        // SAFETY: the types are those of QEMU's headers in the versions that have functions of these names.
        unsafe {
            Some(Self {
                on_translation: function(c"qemu_plugin_register_vcpu_tb_trans_cb", Where::Program)?,
                instruction_count: function(c"qemu_plugin_tb_n_insns", Where::Program)?,
                instruction: function(c"qemu_plugin_tb_get_insn", Where::Program)?,
                instruction_bytes: function(c"qemu_plugin_insn_size", Where::Program)?,
                instruction_data: function(c"qemu_plugin_insn_data", Where::Program)?,
                call_before: function(c"qemu_plugin_register_vcpu_insn_exec_cb", Where::Program)?,
                adding: Adding::find()?,
                parse_option: function(c"qemu_plugin_opt_parse", Where::Program)?,
                load_list: function(c"qemu_plugin_load_list", Where::Program)?,
            })
        }
    }

    /// Has QEMU load this library as a plugin. The caller is its main thread, when the machine is there and its processor is not yet.
    pub fn load(&self) {
        let Some(option) = system::own_file().and_then(|path| {
            let path = path.to_str().ok()?.replace(',', ",,");
            CString::new(format!("file={path}")).ok()
        }) else {
            return;
        };
        qemu_plugin_version.store(self.adding.declared_version(), Ordering::Release);
        let mut list = PluginList { first: ptr::null_mut(), last: ptr::null_mut() };
        list.last = (&raw mut list).cast();
        let mut error = ptr::null_mut();
        // SAFETY: an empty list of QEMU's kind; what is loaded is taken off it.
        unsafe {
            (self.parse_option)(option.as_ptr(), &raw mut list);
            (self.load_list)(&raw mut list, &raw mut error);
        }
    }

    /// Begins, in what QEMU calls `plugin`; `None` if its version is not known.
    ///
    /// # Safety
    ///
    /// The caller was called by QEMU as `qemu_plugin_install`, with this number and these facts.
    pub unsafe fn begin(&self, plugin: u64, info: *const Info, translated: Translated) -> Option<Counters> {
        // SAFETY: QEMU gives facts.
        let version = unsafe { (*info).version };
        if version > NEWEST {
            return None;
        }
        let (numbers, scoreboard) = match self.adding {
            // For ever: translated code adds to them.
            Adding::ToAddress(_) => (Box::into_raw(Box::new(Numbers::default())), ptr::null_mut()),
            // SAFETY: it has room for processors that are not there yet, and moves only when there are more.
            Adding::ToScoreboard { make, .. } => (ptr::null_mut(), unsafe { make(size_of::<Numbers>()) }),
        };
        // SAFETY: it is QEMU's number for this plugin.
        unsafe { (self.on_translation)(plugin, translated) };
        Some(Counters { version, numbers: AtomicPtr::new(numbers), scoreboard: AtomicPtr::new(scoreboard) })
    }

    /// Has a block add its instructions to a number, and each [`MARK`] call a function. The number is exact at a mark.
    ///
    /// # Safety
    ///
    /// The block was given by QEMU, which has called the caller with it, and `number` is less than 4.
    pub unsafe fn count(&self, block: *mut c_void, counters: &Counters, number: usize, marked: Executed) {
        // SAFETY: the caller's; instructions are there as long as their block is.
        unsafe {
            self.adding.locate(counters);
            let count = (self.instruction_count)(block);
            let instructions = || (0..count).map(|at| (self.instruction)(block, at));
            let is_mark = |instruction: &*mut c_void| self.is_mark(*instruction, counters.version);
            if !instructions().any(|instruction| is_mark(&instruction)) {
                return self.adding.add(Code::Block(block), count as u64, counters, number);
            }
            for instruction in instructions() {
                self.adding.add(Code::Instruction(instruction), 1, counters, number);
                if is_mark(&instruction) {
                    (self.call_before)(instruction, marked, NO_REGISTERS, ptr::null_mut());
                }
            }
        }
    }

    /// # Safety
    ///
    /// As [`Self::count`].
    unsafe fn is_mark(&self, instruction: *const c_void, version: c_int) -> bool {
        let mut copied = [0; MARK.len()];
        // SAFETY: the caller's; at most as many bytes are copied as there is room for, and as many can be read as it has.
        unsafe {
            if (self.instruction_bytes)(instruction) != MARK.len() {
                return false;
            }
            let bytes = (self.instruction_data)(instruction, copied.as_mut_ptr(), copied.len());
            if version < FIRST_THAT_COPIES {
                std::slice::from_raw_parts(bytes, MARK.len()) == MARK
            } else {
                copied == MARK
            }
        }
    }
}

impl Adding {
    fn find() -> Option<Self> {
        // SAFETY: the types are those of QEMU's headers.
        unsafe {
            Before::find(
                c"qemu_plugin_register_vcpu_tb_exec_inline",
                c"qemu_plugin_register_vcpu_insn_exec_inline",
            )
            .map(Self::ToAddress)
            .or_else(|| {
                Some(Self::ToScoreboard {
                    make: function(c"qemu_plugin_scoreboard_new", Where::Program)?,
                    find: function(c"qemu_plugin_scoreboard_find", Where::Program)?,
                    add: Before::find(
                        c"qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu",
                        c"qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu",
                    )?,
                })
            })
        }
    }

    fn declared_version(&self) -> c_int {
        match self {
            Self::ToAddress(_) => 1,
            Self::ToScoreboard { .. } => 2,
        }
    }

    /// Finds the numbers in their scoreboard.
    ///
    /// # Safety
    ///
    /// There is a processor.
    unsafe fn locate(&self, counters: &Counters) {
        if let Self::ToScoreboard { find, .. } = self
            && counters.numbers.load(Ordering::Relaxed).is_null()
        {
            // SAFETY: the scoreboard was made by `Interface::begin`, and the caller vouches for the processor.
            let numbers = unsafe { find(counters.scoreboard.load(Ordering::Relaxed), 0) };
            counters.numbers.store(numbers, Ordering::Relaxed);
        }
    }

    /// # Safety
    ///
    /// As [`Interface::count`].
    unsafe fn add(&self, code: Code, count: u64, counters: &Counters, number: usize) {
        let offset = number * size_of::<u64>();
        // SAFETY: the caller's.
        unsafe {
            match self {
                Self::ToAddress(before) => {
                    let (add, code) = before.of(code);
                    let number = counters.numbers.load(Ordering::Relaxed).byte_add(offset);
                    add(code, ADD, number.cast(), count);
                }
                Self::ToScoreboard { add: before, .. } => {
                    let (add, code) = before.of(code);
                    let scoreboard = counters.scoreboard.load(Ordering::Relaxed);
                    add(code, ADD, Place { scoreboard, offset }, count);
                }
            }
        }
    }
}

impl Counters {
    /// What was counted. The caller is the processor's thread.
    pub fn read(&self) -> Numbers {
        let numbers = self.numbers.load(Ordering::Relaxed);
        // SAFETY: it is of this thread; translated code writes it too.
        if numbers.is_null() { Numbers::default() } else { unsafe { numbers.read_volatile() } }
    }

    /// Takes something off a number. The caller is the processor's thread, and the number is less than 4.
    pub fn take_off(&self, number: usize, surplus: u64) {
        let (place, mut numbers) = (self.numbers.load(Ordering::Relaxed), self.read());
        if let (Some(number), false) = (numbers.get_mut(number), place.is_null()) {
            *number = number.wrapping_sub(surplus);
            // SAFETY: see `read`; the processor executes nothing meanwhile.
            unsafe { place.write_volatile(numbers) };
        }
    }
}
