//! Makes the thread of QEMU's processor late after it has executed `HLT` and before what it has executed is counted.
//!
//! A test compiles it to a library of its own and loads it into QEMU.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// `RTLD_DEFAULT` and `RTLD_NEXT` of `dlfcn.h`.
const DEFAULT: usize = 0;
const NEXT: usize = usize::MAX;

fn find(handle: usize, name: &CStr) -> *mut c_void {
    unsafe { dlsym(handle as *mut c_void, name.as_ptr()) }
}

/// QEMU's processor leaves its loop by a long jump. One of four times, at random, an idle one takes longer.
fn be_late() {
    let says = |name| {
        let function = find(DEFAULT, name);
        !function.is_null() && unsafe { transmute::<_, extern "C" fn() -> bool>(function)() }
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    if (now >> 4) % 4 == 0 && says(c"qemu_in_vcpu_thread") && says(c"all_cpu_threads_idle") {
        sleep(Duration::from_micros(300));
    }
}

fn jump(original: &CStr, place: *mut c_void, value: c_int) -> ! {
    be_late();
    let original: unsafe extern "C" fn(*mut c_void, c_int) -> ! = unsafe { transmute(find(NEXT, original)) };
    unsafe { original(place, value) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn siglongjmp(place: *mut c_void, value: c_int) -> ! {
    jump(c"siglongjmp", place, value)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __longjmp_chk(place: *mut c_void, value: c_int) -> ! {
    jump(c"__longjmp_chk", place, value)
}
