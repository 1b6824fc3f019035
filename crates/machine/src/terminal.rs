//! Terminals that carry an agent's stream.

use std::fs::File;

use rustix::termios::{OptionalActions, isatty, speed, tcgetattr, tcsetattr};

/// Lets every byte through as it is, if it is a terminal.
///
/// # Errors
/// The kernel's.
pub fn make_raw(terminal: &File) -> rustix::io::Result<()> {
    if !isatty(terminal) {
        return Ok(());
    }
    let mut attributes = tcgetattr(terminal)?;
    attributes.make_raw();
    // The fastest of a serial port, in case its hypervisor keeps to it.
    attributes.set_speed(speed::B115200)?;
    tcsetattr(terminal, OptionalActions::Now, &attributes)
}
