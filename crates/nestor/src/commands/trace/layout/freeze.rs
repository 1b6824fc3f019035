//! Freezing and thawing file systems.

use std::fs::File;
use std::io;

use rustix::ioctl::{NoArg, Opcode, ioctl, opcode};

/// `FIFREEZE` and `FITHAW` (include/uapi/linux/fs.h); the number they are declared to take is not used.
const FREEZE: Opcode = opcode::read_write::<i32>(b'X', 119);
const THAW: Opcode = opcode::read_write::<i32>(b'X', 120);

/// Freezes what a directory is on.
pub(super) fn freeze(directory: &File) -> io::Result<()> {
    // SAFETY: the request takes no argument (`ioctl_fsfreeze`, fs/ioctl.c).
    Ok(unsafe { ioctl(directory, NoArg::<FREEZE>::new()) }?)
}

/// Thaws what a directory is on.
pub(super) fn thaw(directory: &File) -> io::Result<()> {
    // SAFETY: the request takes no argument (`ioctl_fsthaw`, fs/ioctl.c).
    Ok(unsafe { ioctl(directory, NoArg::<THAW>::new()) }?)
}
