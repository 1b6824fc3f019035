//! What Nestor's own QEMU is, for another program that is to run the same machine.

use std::path::Path;

pub use super::agent_port::NAME as AGENT_PORT;
pub use super::arguments::{
    AGENT_BUS_PORTS, MachineFiles, kernel_command_line_of as kernel_command_line, tracing,
};
pub use super::progress::Overtime;
use super::tick_offset;
pub use super::version::GuestPaging;
use crate::hypervisor::file_tail;
use crate::refusal::{Cause, Refusal};

/// Features that emulated processors lack of those that QEMU emulates.
pub const EMULATED_WITHOUT: [&str; 2] = ["erms", "fsrm"];

/// Lines of the console that a message about a dead machine shows.
const CONSOLE_LINES: usize = 12;

/// What is added to this machine's counter in the guest that a process of QEMU's runs.
///
/// # Errors
/// KVM does not report it.
pub fn guests_tick_offset(process: u32) -> Result<i64, Refusal> {
    tick_offset::in_guest_of(process).map_err(|e| {
        let what =
            format!("the offset that KVM adds to the counter of process {process}'s guest is not known");
        Refusal::new(Cause::NotSupported, format!("{what}: {e}"))
    })
}

/// The end of a machine's console, for a message.
pub fn console_tail(files: &MachineFiles) -> String {
    tail(&files.console(), "its console ends")
}

/// The end of a file, for a message.
pub fn tail(file: &Path, heading: &str) -> String {
    file_tail(file, heading, CONSOLE_LINES)
}

#[cfg(test)]
mod tests {
    use super::super::arguments::EMULATED_MODEL;
    use super::*;

    #[test]
    fn the_emulated_processor_is_the_same() {
        let without: String = EMULATED_WITHOUT.iter().map(|feature| format!(",{feature}=off")).collect();
        assert_eq!(format!("max{without}"), EMULATED_MODEL);
    }
}
