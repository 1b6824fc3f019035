//! Who else has a file or device open.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use procfs::process::Process;
use rustix::io::Errno;

/// A lock on all bytes of a file, of the kind that belongs to the open file and not to the process.
fn whole(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Locks all bytes of a file for ourselves, as long as it is open. QEMU locks single bytes of its images this way
/// (`raw_apply_lock_bytes` in block/file-posix.c: 100 and 200 upwards), databases ranges of theirs.
///
/// # Errors
/// [`Errno::AGAIN`] while another program holds such a lock on any byte.
pub(super) fn lock_bytes(file: &File) -> Result<(), Errno> {
    let lock = whole(libc::F_WRLCK);
    // SAFETY: the descriptor is open and the kernel only reads the structure, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        -1 => Err(match last_error() {
            Errno::ACCESS => Errno::AGAIN,
            error => error,
        }),
        _ => Ok(()),
    }
}

/// Whether another program has locked any byte. Takes no lock: a hypervisor of ours may be about to.
///
/// # Errors
/// When the system does not say.
pub(super) fn bytes_are_locked(file: &File) -> Result<bool, Errno> {
    let mut lock = whole(libc::F_WRLCK);
    // SAFETY: the descriptor is open and the structure is ours to be written to during the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        -1 => Err(last_error()),
        _ => Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK),
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Whether another process has a regular file open, in any namespace: only then does the kernel refuse a lease for
/// writing (fcntl(2)). `None` if the file system does not support leases.
pub(super) fn is_open_elsewhere(file: &File) -> Option<bool> {
    // SAFETY: no memory is passed; the descriptor is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } {
        -1 => (last_error() == Errno::AGAIN).then_some(true),
        _ => {
            // SAFETY: as above. Given back at once: a program that opens the file would wait for this one.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
            Some(false)
        }
    }
}

/// A process that has something open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pid: u32,
    name: String,
    pub(super) writes: bool,
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// The other processes that have this file or device open, as far as `/proc` shows them.
pub(super) fn users_of(file: &File) -> Vec<User> {
    holders_of(file).into_iter().filter(|user| !is_starting(user.pid)).collect()
}

/// Whether a program that this process is just starting still has the file open, because descriptors are closed when it has
/// become that program. It does not use the file, and shares the locks of a descriptor that is closed here.
pub(super) fn is_held_by_a_starting_program(file: &File) -> bool {
    holders_of(file).iter().any(|user| is_starting(user.pid))
}

/// Whether a process is a copy of this one, made by it to become another program: until then it has the same command line, and while it
/// becomes that program none, from the new memory to its arguments (Linux, `begin_new_exec` in fs/exec.c: descriptors are closed in between).
fn is_starting(pid: u32) -> bool {
    let parent = Process::new(pid.cast_signed()).and_then(|process| process.stat()).map(|stat| stat.ppid);
    let command_line = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).ok();
    let own = std::process::id();
    parent.is_ok_and(|parent| parent == own.cast_signed())
        && command_line(pid).is_some_and(|line| line.is_empty() || Some(line) == command_line(own))
}

fn holders_of(file: &File) -> Vec<User> {
    let Ok(wanted) = file.metadata() else { return Vec::new() };
    let is_it = |found: &fs::Metadata| match wanted.file_type().is_block_device() {
        true => found.file_type().is_block_device() && found.rdev() == wanted.rdev(),
        false => (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()),
    };
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    numbers
        .filter(|&pid| pid != std::process::id())
        .filter_map(|pid| {
            let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let of_it: Vec<_> =
                open.filter(|entry| fs::metadata(entry.path()).is_ok_and(|found| is_it(&found))).collect();
            let writes = of_it.iter().any(|entry| {
                let path = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
                fs::read_to_string(path).is_ok_and(|text| is_for_writing(&text))
            });
            let name = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            (!of_it.is_empty()).then(|| User { pid, name: name().trim_end().to_owned(), writes })
        })
        .collect()
}

/// Whether a descriptor is open for writing, from its `fdinfo`, where the flags are octal.
fn is_for_writing(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

/// A lock of one byte for reading, as QEMU takes them.
#[cfg(test)]
pub(super) fn tests_lock(byte: libc::off_t) -> libc::flock {
    libc::flock { l_start: byte, l_len: 1, ..whole(libc::F_RDLCK) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_who_writes() {
        assert!(is_for_writing("pos:\t0\nflags:\t0100002\nmnt_id:\t29\n"));
        assert!(is_for_writing("flags:\t0100001\n"));
        assert!(!is_for_writing("pos:\t0\nflags:\t0100000\n"));
        assert!(!is_for_writing(""));
    }
}
