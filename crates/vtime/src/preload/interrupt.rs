//! Delivers once what QEMU delivers twice.
//!
//! QEMU's `helper_vmrun` (target/i386/tcg/sysemu/svm_helper.c, 7.2 to 10.0 at least) delivers the interrupt that KVM injects
//! (`SVM_EVTINJ_TYPE_INTR`), but leaves its vector in `CPUState.exception_index`. If the processor leaves its loop before
//! something resets that, `cpu_handle_exception` delivers the vector again, whether the guest allows interrupts or not;
//! the guest's kernel then waits for a lock that it holds. No other way leads an external vector there but `int n`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

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
    // SAFETY: QEMU's own processor, and the place of a field of it.
    let vector = unsafe { processor.add(EXCEPTION_AT.load(Ordering::Relaxed)).cast::<c_int>().read() };
    if (FIRST_EXTERNAL_VECTOR..VECTORS).contains(&vector) && vector != SYSTEM_CALL_VECTOR {
        return;
    }
    // SAFETY: the original is set before this function can be called, and is such a function.
    unsafe { transmute::<*mut c_void, DoInterrupt>(ORIGINAL.load(Ordering::Relaxed))(processor) };
}

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
const PAGE_BYTES: usize = 4096;
const PROT_READ_WRITE: c_int = 3;

unsafe extern "C" {
    fn dl_iterate_phdr(
        visit: extern "C" fn(*const ProgramInfo, usize, *mut c_void) -> c_int,
        context: *mut c_void,
    ) -> c_int;
    fn mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int;
}

/// `VMStateField` (`include/migration/vmstate.h`) in words: name, an old name, offset, size.
const FIELD_OFFSET_WORD: usize = 2;
const FIELD_SIZE_WORD: usize = 3;
const FIELD_WORDS: usize = 4;

/// Replaces the function by which QEMU delivers interrupts. Returns the number of places where it stood.
pub fn mend() -> u64 {
    let original = address_of(c"x86_cpu_do_interrupt", Where::Program);
    if original.is_null() {
        return 0;
    }
    ORIGINAL.store(original, Ordering::Relaxed);
    let mut slots: u64 = 0;
    // SAFETY: `visit_program` expects a count.
    unsafe { dl_iterate_phdr(visit_program, (&raw mut slots).cast()) };
    slots
}

/// The first that is visited is the program.
extern "C" fn visit_program(info: *const ProgramInfo, _bytes: usize, slots: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker describes the program truly, and `mend` gave a count.
    unsafe {
        let segments = std::slice::from_raw_parts((*info).headers, usize::from((*info).header_count));
        let loaded = || segments.iter().filter(|segment| segment.kind == PT_LOAD);
        let name = loaded()
            .filter(|s| s.flags & PF_W == 0)
            .find_map(|s| find_text(s.bytes((*info).base), c"exception_index"));
        let data: Vec<&[*mut c_void]> =
            loaded().filter(|s| s.flags & PF_W != 0).map(|s| s.words((*info).base)).collect();
        let Some(field) = name.and_then(|name| field_offset(&data, name)) else { return 1 };
        EXCEPTION_AT.store(field, Ordering::Relaxed);
        let original = ORIGINAL.load(Ordering::Relaxed);
        let found: Vec<*const *mut c_void> = data
            .iter()
            .flat_map(|words| words.iter())
            .filter(|word| **word == original)
            .map(ptr::from_ref)
            .collect();
        *slots.cast::<u64>() = found.len() as u64;
        let replaced = match found[..] {
            [slot] => replace(slot.cast_mut()),
            _ => true,
        };
        if !replaced {
            *slots.cast::<u64>() = 0;
        }
    }
    1
}

impl ProgramHeader {
    /// # Safety
    ///
    /// The segment is of a program that is loaded at `base` and can be read.
    unsafe fn bytes(&self, base: usize) -> &'static [u8] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts((base + self.address) as *const u8, self.file_bytes) }
    }

    /// # Safety
    ///
    /// As [`Self::bytes`].
    unsafe fn words(&self, base: usize) -> &'static [*mut c_void] {
        let start = (base + self.address).next_multiple_of(size_of::<usize>());
        let end = base + self.address + self.file_bytes;
        // SAFETY: the caller's; whole words within the segment.
        unsafe {
            std::slice::from_raw_parts(
                start as *const *mut c_void,
                end.saturating_sub(start) / size_of::<usize>(),
            )
        }
    }
}

/// Where a text that ends with a zero stands. Texts share their ends, so what stands before it does not matter.
fn find_text(bytes: &'static [u8], text: &CStr) -> Option<*const u8> {
    let text = text.to_bytes_with_nul();
    bytes.windows(text.len()).find(|window| *window == text).map(<[u8]>::as_ptr)
}

/// The offset of the field of four bytes that a description with this name has.
fn field_offset(data: &[&[*mut c_void]], name: *const u8) -> Option<usize> {
    let descriptions = data.iter().flat_map(|words| words.windows(FIELD_WORDS));
    let mut offsets = descriptions
        .filter(|words| {
            words[0].cast_const().cast() == name && words[FIELD_SIZE_WORD] as usize == size_of::<c_int>()
        })
        .map(|words| words[FIELD_OFFSET_WORD] as usize);
    offsets.next()
}

/// # Safety
///
/// The slot is a word of the program's data that holds the original.
unsafe fn replace(slot: *mut *mut c_void) -> bool {
    let page = slot as usize & !(PAGE_BYTES - 1);
    // SAFETY: a slot may lie across no page, for it is aligned; tables that the linker made read-only become writable.
    unsafe {
        if mprotect(page as *mut c_void, PAGE_BYTES, PROT_READ_WRITE) != 0 {
            return false;
        }
        slot.write(do_interrupt_once as DoInterrupt as *mut c_void);
    }
    true
}
