//! Devices and files of the user's, claimed so that no other program uses them at the same time.

mod contents;
mod users;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nestor_kernel::in_use;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

pub(super) use contents::{Identity, found_in};
use users::User;

/// Device managers and indexers hold a device or file for the moment in which they look at it.
const MOMENT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 2000 });

/// Opens and locks a medium; the locks live as long as the file, so they never outlive the agent.
///
/// # Errors
/// Who uses it, as far as the kernel reports.
pub(super) fn claim(path: &str) -> Result<File, String> {
    let could_not_open = |e: std::io::Error| format!("{path} could not be opened: {e}");
    let is_device = fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
    let number = fs::metadata(path).map_or(0, |m| m.rdev());
    if is_device && let Some(used) = in_use::of_device(number) {
        return Err(format!(
            "{path} is in use: {used}; nothing was written. Unmount it first, or name another device (`lsblk` lists them)"
        ));
    }
    if is_device {
        // The kernel lets only one user at a time have a device exclusively: a mount, a swap area, an array, a volume
        // group. Claimed and given back at once, because we want to mount it.
        let exclusive =
            OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits().cast_signed()).open(path);
        if let Err(e) = exclusive {
            return Err(match e.raw_os_error() {
                Some(code) if code == Errno::BUSY.raw_os_error() => {
                    format!(
                        "{path} is in use: the kernel says that it is busy (mounted, swap, part of an array or a volume group?)"
                    )
                }
                _ => could_not_open(e),
            });
        }
    }
    // The end of a device that was open for writing makes device managers look at it.
    let file = OpenOptions::new().read(true).write(!is_device).open(path).map_err(could_not_open)?;
    let deadline = Instant::now() + MOMENT;
    let in_a_moment = |attempt: &dyn Fn() -> Result<(), String>| loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            ended => return ended,
        }
    };
    in_a_moment(&|| match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(locked(path, &file)),
        Err(e) => Err(format!("{path} could not be locked: {e}")),
    })?;
    if is_device {
        in_a_moment(&|| match users::bytes_are_locked(&file) {
            Ok(true) => Err(locked(path, &file)),
            _ => Ok(()),
        })?;
        in_a_moment(&|| refuse_users(path, users::users_of(&file).into_iter().filter(|user| user.writes)))?;
    } else {
        refuse_loop_device(path)?;
        in_a_moment(&|| match users::lock_bytes(&file) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(locked(path, &file)),
            Err(e) => Err(format!("{path} could not be locked: {e}")),
        })?;
        in_a_moment(&|| match users::is_open_elsewhere(&file) {
            Some(false) => Ok(()),
            Some(true) => match users::users_of(&file) {
                users if users.is_empty() => Err(format!(
                    "{path} is in use: another program has it open, which is not visible from here"
                )),
                users => refuse_users(path, users.into_iter()),
            },
            None => refuse_users(path, users::users_of(&file).into_iter().filter(|user| user.writes)),
        })?;
    }
    Ok(file)
}

/// A file with a loop device is in use, but not by another Nestor, which would have locked it.
fn refuse_loop_device(path: &str) -> Result<(), String> {
    match in_use::loop_device_of(Path::new(path)).map(|device| device.display().to_string()) {
        Some(device) => Err(format!(
            "{path} is in use as the loop device {device}; `losetup --detach {device}` detaches it"
        )),
        None => Ok(()),
    }
}

fn locked(path: &str, file: &File) -> String {
    let who = match users::users_of(file).as_slice() {
        [] => String::new(),
        users => format!("; it is open in {}", in_words(users)),
    };
    format!(
        "{path} is in use: another program has locked it, perhaps another run of nestor or a virtual machine{who}; \
         wait until that program ends"
    )
}

fn refuse_users(path: &str, users: impl Iterator<Item = User>) -> Result<(), String> {
    match users.collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        users => {
            let how = if users.iter().any(|user| user.writes) { "for writing " } else { "" };
            Err(format!(
                "{path} is in use: it is open {how}in {}; wait until that program ends",
                in_words(users)
            ))
        }
    }
}

fn in_words(users: &[User]) -> String {
    users.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
