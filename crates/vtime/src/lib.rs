//! Puts a QEMU machine, its disks and its controller on one virtual clock.
//!
//! Under QEMU's `-icount shift=0,sleep=off` one instruction of the machine is one nanosecond, and time in which it
//! has nothing to do is skipped. What is outside of QEMU knows nothing of that clock. The library that this crate
//! carries is preloaded into QEMU and joins them to it:
//!
//! - **Disks** ([`protocol::DISK_TIME_SUFFIX`]): a notification of the guest takes the virtual time to the disk and waits for the
//!   time of the disk's next event; when that comes, the same again. So a request arrives and is answered at exact times.
//! - **The controller** ([`protocol::CONTROL_VARIABLE`]): when the agent in the machine has answered, time stands until the controller
//!   has said what comes next. So real time does not enter between two requests.
//! - **Instructions** are counted by what the processor was doing when it executed them (`preload/counting.rs`).
//! - **The processor** can execute several instructions in a nanosecond instead of one ([`protocol::SPEED_VARIABLE`]).
//! - **Two TLBs**, one of the host and one of its guest, make guests faster, and change nothing else (`preload/tlb`).
//! - **Interrupts** that QEMU's emulation of AMD's SVM delivers twice are delivered once (`preload/interrupt.rs`).
//!
//! QEMU programs that are built with loadable modules, as Debian, Ubuntu and Fedora build them, export all their
//! functions, and the library uses QEMU's own timers. Where it cannot, [`protocol::Hello`] says so.

#[cfg(not(preload))]
mod preload;
#[path = "preload/protocol.rs"]
pub mod protocol;
#[cfg(not(preload))]
pub use preload::NEEDED_FUNCTIONS;

/// The library, to be written to a file and named in `LD_PRELOAD`.
pub static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vtime.so"));

#[cfg(test)]
mod tests {
    use super::LIBRARY;

    #[test]
    fn the_library_is_a_shared_object_that_replaces_what_it_has_to() {
        assert_eq!(&LIBRARY[..4], b"\x7fELF");
        assert_eq!(LIBRARY[16], 3, "e_type is ET_DYN");
        for name in [
            "\0write\0",
            "\0sendmsg\0",
            "\0recvmsg\0",
            "\0accept4\0",
            "\0close\0",
            "\0pthread_mutex_unlock\0",
            "\0pthread_create\0",
            "\0gettimeofday\0",
            "\0siglongjmp\0",
            "\0__longjmp_chk\0",
            "\0qemu_plugin_install\0",
            "\0qemu_plugin_version\0",
        ] {
            assert!(LIBRARY.windows(name.len()).any(|window| window == name.as_bytes()), "{name:?}");
        }
    }
}
