//! The library itself, loaded into QEMU before anything else.
//!
//! Compiled twice: to the shared library (`cfg(preload)`), and as a part of the crate, where nothing of it is exported
//! and it is only checked and tested.
#![cfg_attr(not(preload), allow(dead_code))]

mod clock;
mod controller;
mod counting;
mod devices;
mod hooks;
mod idle;
mod interrupt;
mod patch;
mod plugin;
mod program;
#[cfg(preload)]
mod protocol;
mod qemu;
mod shadow;
mod system;
mod tlb;

#[cfg(not(preload))]
use crate::protocol;
#[cfg(not(preload))]
pub use qemu::NEEDED_FUNCTIONS;

/// Called by the dynamic linker when the library has been loaded.
#[cfg(preload)]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        controller::begin();
    }
    begin
};
