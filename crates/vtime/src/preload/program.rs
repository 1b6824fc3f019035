//! The program that this library was loaded into, as it lies in memory.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{ptr, slice};

use super::system::{PAGE_BYTES, PROT_READ_WRITE, mprotect};

/// `struct dl_phdr_info` (`link.h`), as far as it is used.
#[repr(C)]
struct ProgramInfo {
    base: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    header_count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: usize,
    physical: usize,
    file_bytes: usize,
    memory_bytes: usize,
    align: usize,
}

const PT_LOAD: u32 = 1;
const PF_W: u32 = 2;

unsafe extern "C" {
    fn dl_iterate_phdr(
        visit: extern "C" fn(*const ProgramInfo, usize, *mut c_void) -> c_int,
        context: *mut c_void,
    ) -> c_int;
}

/// A word of memory that may hold the address of a function.
#[repr(transparent)]
pub struct Slot(AtomicPtr<c_void>);

impl Slot {
    fn word(&self) -> *mut c_void {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether it holds this address.
    pub fn holds(&self, address: *mut c_void) -> bool {
        self.word() == address
    }

    /// Writes an address where writing is allowed.
    pub fn set(&self, address: *mut c_void) {
        self.0.store(address, Ordering::Release);
    }

    /// Writes an address, also where the linker has made tables read-only. Whether that was possible.
    pub fn replace(&self, address: *mut c_void) -> bool {
        let page = ptr::from_ref(self) as usize & !(PAGE_BYTES - 1);
        // SAFETY: an aligned word lies in one page, which is mapped, and only becomes writable.
        let is_writable = unsafe { mprotect(page as *mut c_void, PAGE_BYTES, PROT_READ_WRITE) == 0 };
        if is_writable {
            self.set(address);
        }
        is_writable
    }
}

/// `VMStateField` (`include/migration/vmstate.h`) in words: name, an old name, offset, size.
const FIELD_OFFSET_WORD: usize = 2;
const FIELD_SIZE_WORD: usize = 3;
const FIELD_WORDS: usize = 4;

/// What of a program is loaded as it stands in its file.
pub struct Program {
    constants: Vec<&'static [u8]>,
    data: Vec<&'static [Slot]>,
}

impl Program {
    /// The program.
    pub fn here() -> Self {
        let mut program = Self { constants: Vec::new(), data: Vec::new() };
        // SAFETY: `visit_program` expects a `Program`.
        unsafe { dl_iterate_phdr(visit_program, (&raw mut program).cast()) };
        program
    }

    /// All words that can be written, or could until the program was linked.
    pub fn data(&self) -> impl Iterator<Item = &'static Slot> {
        self.data.iter().flat_map(|words| words.iter())
    }

    /// The offset of the field of so many bytes that a description of QEMU's state with this name has.
    pub fn field_offset(&self, name: &CStr, bytes: usize) -> Option<usize> {
        let name = self.constants.iter().find_map(|segment| find_text(segment, name))?;
        let mut descriptions = self.data.iter().flat_map(|words| words.windows(FIELD_WORDS));
        descriptions
            .find(|words| {
                words[0].word().cast_const().cast() == name && words[FIELD_SIZE_WORD].word() as usize == bytes
            })
            .map(|words| words[FIELD_OFFSET_WORD].word() as usize)
    }
}

/// The first that is visited is the program.
extern "C" fn visit_program(info: *const ProgramInfo, _bytes: usize, program: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker describes the program truly, and `Program::here` gave one.
    unsafe {
        let program = &mut *program.cast::<Program>();
        let segments = slice::from_raw_parts((*info).headers, usize::from((*info).header_count));
        for segment in segments.iter().filter(|segment| segment.kind == PT_LOAD) {
            match segment.flags & PF_W {
                0 => program.constants.push(segment.bytes((*info).base)),
                _ => program.data.push(segment.words((*info).base)),
            }
        }
    }
    1
}

/// Where an address stands in the program and in all that was loaded since.
pub fn slots_of_all(address: *mut c_void) -> Vec<&'static Slot> {
    let mut search = (address, Vec::new());
    // SAFETY: `visit_any` expects a `Search`.
    unsafe { dl_iterate_phdr(visit_any, (&raw mut search).cast()) };
    search.1
}

type Search = (*mut c_void, Vec<&'static Slot>);

extern "C" fn visit_any(info: *const ProgramInfo, _bytes: usize, search: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker describes what is loaded truly, and `slots_of_all` gave a search.
    unsafe {
        let (address, found) = &mut *search.cast::<Search>();
        let segments = slice::from_raw_parts((*info).headers, usize::from((*info).header_count));
        for segment in segments.iter().filter(|segment| segment.kind == PT_LOAD && segment.flags & PF_W != 0)
        {
            found.extend(segment.words((*info).base).iter().filter(|slot| slot.holds(*address)));
        }
    }
    0
}

impl ProgramHeader {
    /// # Safety
    ///
    /// The segment is of a program that is loaded at `base` and can be read.
    unsafe fn bytes(&self, base: usize) -> &'static [u8] {
        // SAFETY: the caller's.
        unsafe { slice::from_raw_parts((base + self.address) as *const u8, self.file_bytes) }
    }

    /// # Safety
    ///
    /// As [`Self::bytes`].
    unsafe fn words(&self, base: usize) -> &'static [Slot] {
        let start = (base + self.address).next_multiple_of(size_of::<usize>());
        let end = base + self.address + self.file_bytes;
        // SAFETY: the caller's; whole words within the segment.
        unsafe { slice::from_raw_parts(start as *const Slot, end.saturating_sub(start) / size_of::<Slot>()) }
    }
}

/// Where a text that ends with a zero stands. Texts share their ends, so what stands before it does not matter.
fn find_text(bytes: &'static [u8], text: &CStr) -> Option<*const u8> {
    let text = text.to_bytes_with_nul();
    bytes.windows(text.len()).find(|window| *window == text).map(<[u8]>::as_ptr)
}
