//! Puts functions of ours in the place of functions of the program that it calls by address, not through a table.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use super::system::{PAGE_BYTES, PROT_READ_WRITE, Where, address_of, mprotect, symbol_bytes};

/// `jmp *0(%rip)`, followed by the address that it jumps to.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
const JUMP_BYTES: usize = JUMP.len() + size_of::<usize>();

const PROT_READ_EXEC: c_int = 5;
const PROT_ALL: c_int = 7;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;

unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
}

/// A function of the program that can be replaced.
#[derive(Clone, Copy)]
pub struct Function {
    address: *mut u8,
    bytes: usize,
}

impl Function {
    /// The function of this name, if the program exports it and it has room for a jump.
    pub fn of(name: &CStr) -> Option<Self> {
        let address = address_of(name, Where::Program);
        let bytes = symbol_bytes(address)?;
        (bytes >= JUMP_BYTES).then_some(Self { address: address.cast(), bytes })
    }

    /// Its instructions.
    pub fn code(&self) -> &'static [u8] {
        // SAFETY: the symbol says that the function is so long.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }

    /// A copy of the beginning that goes on behind it in the original: the function as it was before it was replaced. `None` where
    /// the beginning means something else at another address, or may.
    pub fn kept(&self) -> Option<*mut c_void> {
        let kept = movable(self.code(), JUMP_BYTES)?;
        let mut copy = self.code()[..kept].to_vec();
        copy.extend(jump_to(self.address as usize + kept));
        // SAFETY: a new page, large enough, which nobody else knows.
        unsafe {
            let page =
                mmap(ptr::null_mut(), PAGE_BYTES, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0).cast::<u8>();
            if page as isize == -1 {
                return None;
            }
            page.copy_from_nonoverlapping(copy.as_ptr(), copy.len());
            (mprotect(page.cast(), PAGE_BYTES, PROT_READ_EXEC) == 0).then_some(page.cast())
        }
    }

    /// The pages where its beginning is.
    fn pages(&self) -> (*mut c_void, usize) {
        let first = self.address as usize & !(PAGE_BYTES - 1);
        let end = (self.address as usize + JUMP_BYTES).next_multiple_of(PAGE_BYTES);
        (first as *mut c_void, end - first)
    }

    /// Whether its beginning can be written now.
    fn open(&self) -> bool {
        let (page, bytes) = self.pages();
        // SAFETY: the pages are the program's code, which stays executable.
        unsafe { mprotect(page, bytes, PROT_ALL) == 0 }
    }

    fn close(&self) {
        let (page, bytes) = self.pages();
        // SAFETY: as it was before.
        unsafe { mprotect(page, bytes, PROT_READ_EXEC) };
    }
}

/// Lets all that call functions call others from now on, if all of them can be replaced and it is still wanted then. Whether they were.
///
/// # Safety
///
/// Each other has the signature of the one, and no thread executes the beginning of one now.
pub unsafe fn replace_all(functions: &[(Function, *mut c_void)], is_wanted: impl FnOnce() -> bool) -> bool {
    let are_replaced = functions.iter().all(|(function, _)| function.open()) && is_wanted();
    for (function, other) in functions.iter().filter(|_| are_replaced) {
        let jump = jump_to(*other as usize);
        // SAFETY: it has room for a jump, and the caller vouches for the rest.
        unsafe { function.address.copy_from_nonoverlapping(jump.as_ptr(), jump.len()) };
    }
    functions.iter().for_each(|(function, _)| function.close());
    are_replaced
}

fn jump_to(address: usize) -> [u8; JUMP_BYTES] {
    let mut jump = [0; JUMP_BYTES];
    jump[..JUMP.len()].copy_from_slice(&JUMP);
    jump[JUMP.len()..].copy_from_slice(&address.to_le_bytes());
    jump
}

/// How many bytes the first instructions have that cover so many bytes, if all of them mean the same at any address.
fn movable(code: &[u8], at_least: usize) -> Option<usize> {
    let mut bytes = 0;
    while bytes < at_least {
        bytes += movable_instruction(code.get(bytes..)?)?;
    }
    (bytes <= code.len()).then_some(bytes)
}

/// The length of an instruction as functions begin with: pushes, moves between registers, constants, room on the stack, comparing
/// a byte of a structure. `None` for any other.
fn movable_instruction(code: &[u8]) -> Option<usize> {
    /// Both operands are registers.
    const REGISTERS: u8 = 0b11 << 6;
    /// A register and a distance of 32 bits, not relative to the instruction; without a byte that scales.
    const DISTANT: u8 = 0b10 << 6;
    let is_distant = |modes: u8| modes & REGISTERS == DISTANT && modes & 7 != 4;
    match *code {
        [0xf3, 0x0f, 0x1e, 0xfa, ..] => Some(4),
        [0x50..=0x57, ..] => Some(1),
        [0x41, 0x50..=0x57, ..] => Some(2),
        [0x48..=0x4f, 0x89 | 0x8b | 0x31, modes, ..] if modes & REGISTERS == REGISTERS => Some(3),
        [0x89 | 0x8b | 0x31, modes, ..] if modes & REGISTERS == REGISTERS => Some(2),
        [0x0f, 0xb6 | 0xb7, modes, ..] if modes & REGISTERS == REGISTERS => Some(3),
        [0x41..=0x45, 0x0f, 0xb6 | 0xb7, modes, ..] if modes & REGISTERS == REGISTERS => Some(4),
        [0xb8..=0xbf, ..] => Some(5),
        [0x41, 0xb8..=0xbf, ..] => Some(6),
        [0x48, 0x83, 0xec, ..] => Some(4),
        [0x80, modes, ..] if is_distant(modes) => Some(7),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `push %r12; mov %rsi,%r8; mov %rdx,%r9; mov $1,%ecx; push %rbp`.
    const BEGINNING: [u8; 14] = [0x41, 0x54, 0x49, 0x89, 0xf0, 0x49, 0x89, 0xd1, 0xb9, 1, 0, 0, 0, 0x55];

    #[test]
    fn a_beginning_is_kept_in_whole_instructions() {
        assert_eq!(movable(&BEGINNING, 14), Some(14));
        assert_eq!(movable(&BEGINNING, 9), Some(13));
        assert_eq!(movable(&BEGINNING, 15), None, "it ends there");
    }

    #[test]
    fn what_depends_on_its_address_is_not_kept() {
        // A call, a jump, a short jump if equal, a comparison and an address relative to the instruction.
        for code in [
            &[0xe8, 1, 0, 0, 0][..],
            &[0xe9, 1, 0, 0, 0],
            &[0x74, 1],
            &[0x80, 0x3d, 1, 0, 0, 0, 0],
            &[0x48, 0x8d, 0x3d, 1, 0, 0, 0],
        ] {
            let mut code = code.to_vec();
            code.extend([0x90; 16]);
            assert_eq!(movable(&code, 5), None, "{code:x?}");
        }
    }

    #[inline(never)]
    extern "C" fn original(number: u64) -> u64 {
        std::hint::black_box(number) + std::hint::black_box(1)
    }

    extern "C" fn other(number: u64) -> u64 {
        number * 2
    }

    #[test]
    fn a_function_that_is_replaced_is_the_other_from_then_on() {
        type Plain = extern "C" fn(u64) -> u64;
        let function = Function { address: original as Plain as *mut u8, bytes: JUMP_BYTES };
        let pair = [(function, other as Plain as *mut c_void)];
        // SAFETY: both have one signature, and only this test calls them.
        unsafe {
            assert!(!replace_all(&pair, || false));
            assert_eq!(std::hint::black_box(original as Plain)(20), 21);
            assert!(replace_all(&pair, || true));
        }
        assert_eq!(std::hint::black_box(original as Plain)(20), 40);
    }
}
