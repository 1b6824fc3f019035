//! Functions of the C library that the standard library does not have, or that have to be called past our own.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write as _;
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `struct msghdr` of Linux (`bits/socket.h`).
#[repr(C)]
pub struct MessageHeader {
    pub name: *mut c_void,
    pub name_bytes: u32,
    pub pieces: *mut Piece,
    pub piece_count: usize,
    pub control: *mut c_void,
    pub control_bytes: usize,
    pub flags: c_int,
}

/// `struct iovec`.
#[repr(C)]
pub struct Piece {
    pub base: *mut c_void,
    pub bytes: usize,
}

/// `struct cmsghdr`, followed by its data.
#[repr(C)]
pub struct ControlHeader {
    pub bytes: usize,
    pub level: c_int,
    pub kind: c_int,
}

/// `struct sockaddr_un`.
#[repr(C)]
struct SocketAddress {
    family: u16,
    path: [u8; 108],
}

/// `struct pollfd`.
#[repr(C)]
struct Polled {
    fd: c_int,
    events: i16,
    returned: i16,
}

/// `Dl_info` (`dlfcn.h`).
#[repr(C)]
struct SymbolInfo {
    file: *const c_char,
    base: *mut c_void,
    name: *const c_char,
    address: *mut c_void,
}

impl SymbolInfo {
    fn new() -> Self {
        Self { file: ptr::null(), base: ptr::null_mut(), name: ptr::null(), address: ptr::null_mut() }
    }
}

/// `Elf64_Sym` (`elf.h`).
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    address: usize,
    bytes: usize,
}

/// Of memory whose protection is changed.
pub const PAGE_BYTES: usize = 4096;
/// `PROT_READ | PROT_WRITE` of `sys/mman.h`.
pub const PROT_READ_WRITE: c_int = 3;

unsafe extern "C" {
    /// The size of what the allocator gave.
    pub fn malloc_usable_size(memory: *mut c_void) -> usize;
    /// Changes the protection of pages.
    pub fn mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int;
    fn dladdr(address: *const c_void, info: *mut SymbolInfo) -> c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn getsockname(fd: c_int, address: *mut SocketAddress, bytes: *mut u32) -> c_int;
    fn getpeername(fd: c_int, address: *mut SocketAddress, bytes: *mut u32) -> c_int;
    fn poll(polled: *mut Polled, count: u64, timeout_ms: c_int) -> c_int;
}

const AF_UNIX: u16 = 1;
const POLLIN: i16 = 1;
const POLLOUT: i16 = 4;

/// Where [`dlsym`] looks: in the whole program, or behind this library.
#[derive(Clone, Copy)]
pub enum Where {
    Program,
    Behind,
}

/// The address of a function, null if there is none of that name.
pub fn address_of(name: &CStr, whence: Where) -> *mut c_void {
    // RTLD_DEFAULT and RTLD_NEXT of `dlfcn.h`.
    let handle = match whence {
        Where::Program => ptr::null_mut(),
        Where::Behind => -1isize as *mut c_void,
    };
    // SAFETY: both handles are valid, and the name ends with a zero.
    unsafe { dlsym(handle, name.as_ptr()) }
}

/// How long the function that begins at an address is. `None` where the C library does not say it; only glibc does.
pub fn symbol_bytes(address: *const c_void) -> Option<usize> {
    type Find = unsafe extern "C" fn(*const c_void, *mut SymbolInfo, *mut *const Symbol, c_int) -> c_int;
    /// `dlfcn.h`: the symbol is asked for as well.
    const RTLD_DL_SYMENT: c_int = 1;
    let (mut info, mut symbol) = (SymbolInfo::new(), ptr::null());
    // SAFETY: the type is that of `dlfcn.h`, both are valid for the call, and what was loaded stays.
    unsafe {
        let dladdr1: Find = function(c"dladdr1", Where::Program)?;
        let found = dladdr1(address, &raw mut info, &raw mut symbol, RTLD_DL_SYMENT) != 0;
        let symbol = symbol.as_ref().filter(|_| found && std::ptr::eq(info.address, address))?;
        Some(symbol.bytes)
    }
}

/// The file that this library was loaded from.
pub fn own_file() -> Option<&'static CStr> {
    let mut info = SymbolInfo::new();
    // SAFETY: the address is one of this library, which is never unloaded, so that its name stays.
    unsafe {
        let found = dladdr(own_file as *const c_void, &raw mut info) != 0 && !info.file.is_null();
        found.then(|| CStr::from_ptr(info.file))
    }
}

/// A function of the program by its name.
///
/// # Safety
///
/// `F` is a function pointer with the signature that the function has.
pub unsafe fn function<F: Copy>(name: &CStr, whence: Where) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = address_of(name, whence);
    // SAFETY: the caller vouches for the type, and the address is not null.
    (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
}

/// A function of the C library that one of ours stands before, looked up once.
pub struct Replaced {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Replaced {
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// # Safety
    ///
    /// `F` is a function pointer with the signature that the function has.
    pub unsafe fn get<F: Copy>(&self) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = address_of(self.name, Where::Behind);
            if address.is_null() {
                std::process::abort();
            }
            self.address.store(address, Ordering::Relaxed);
        }
        // SAFETY: the caller vouches for the type, and the address is not null.
        unsafe { transmute_copy(&address) }
    }
}

fn path_of(ask: impl FnOnce(*mut SocketAddress, *mut u32) -> c_int) -> Option<String> {
    let mut address = SocketAddress { family: 0, path: [0; 108] };
    let mut bytes = u32::try_from(size_of::<SocketAddress>()).ok()?;
    if ask(&raw mut address, &raw mut bytes) != 0 || address.family != AF_UNIX {
        return None;
    }
    let length = address.path.iter().position(|&byte| byte == 0).unwrap_or(address.path.len());
    String::from_utf8(address.path[..length].to_vec()).ok().filter(|path| !path.is_empty())
}

/// The path of a UNIX socket.
pub fn own_path(fd: c_int) -> Option<String> {
    // SAFETY: both pointers are valid for the call.
    path_of(|address, bytes| unsafe { getsockname(fd, address, bytes) })
}

/// The path of the UNIX socket at the other end.
pub fn peer_path(fd: c_int) -> Option<String> {
    // SAFETY: both pointers are valid for the call.
    path_of(|address, bytes| unsafe { getpeername(fd, address, bytes) })
}

/// Waits until a socket takes more.
pub fn wait_until_writable(fd: c_int) {
    let mut polled = Polled { fd, events: POLLOUT, returned: 0 };
    // SAFETY: one entry, valid for the call.
    unsafe { poll(&raw mut polled, 1, -1) };
}

/// Whether there is something to read, or nobody left to write it, within so many milliseconds.
pub fn is_readable_within(fd: c_int, limit_ms: c_int) -> bool {
    let mut polled = Polled { fd, events: POLLIN, returned: 0 };
    // SAFETY: one entry, valid for the call.
    unsafe { poll(&raw mut polled, 1, limit_ms) > 0 }
}

/// Writes a line to the standard error of QEMU, which is its log.
#[expect(
    clippy::disallowed_methods,
    reason = "QEMU's standard error is a file, and this library has no dependencies"
)]
pub fn log(line: &str) {
    // Nobody is left to be told that it failed.
    let _ = std::io::stderr().write_all(format!("nestor: {line}\n").as_bytes());
}
