//! Devices and files of the user's, claimed so that no other program uses them at the same time.

mod contents;
mod users;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use nestor_kernel::in_use;
use nestor_text::units::listed;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

pub(super) use contents::{Identity, found_in};
use users::User;

use crate::refusal::{Cause, FileKind, Refusal};

/// Device managers and indexers hold a device or file for the moment in which they look at it.
const MOMENT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 2000 });

/// Opens and locks a medium; the locks live as long as the file, so they never outlive the agent.
///
/// # Errors
/// That it is not there or something else, or who uses it, as far as the kernel reports.
pub(super) fn claim(path: &str, kind: FileKind) -> Result<File, Refusal> {
    let could_not_open = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => Refusal::new(Cause::NotThere, format!("{path} does not exist")),
        _ => Refusal::of_io(&format!("{path} could not be opened"), &e),
    };
    let require_kind = |metadata: fs::Metadata| match FileKind::of(metadata.file_type()) {
        found if found == kind => Ok(()),
        found => Err(Refusal::new(Cause::OfAnotherKind { found }, format!("{path} is {found}, not {kind}"))),
    };
    require_kind(fs::metadata(path).map_err(could_not_open)?)?;
    let is_device = kind == FileKind::BlockDevice;
    if is_device && let Some(why) = in_use::refusal_to_take(Path::new(path)).map_err(could_not_open)? {
        return Err(used_by_another(format!("{path} is {why}")));
    }
    // The end of a device that was open for writing makes device managers look at it.
    let file = OpenOptions::new().read(true).write(!is_device).open(path).map_err(could_not_open)?;
    // The path may lead to something else by now.
    require_kind(file.metadata().map_err(could_not_open)?)?;
    let medium = Medium { path, file: &file, deadline: Instant::now() + MOMENT };
    medium.lock()?;
    if is_device {
        medium.refuse_users_of_device()?
    } else {
        medium.take_file()?
    }
    Ok(file)
}

/// A medium that is being claimed; until the deadline others may hold it.
struct Medium<'m> {
    path: &'m str,
    file: &'m File,
    deadline: Instant,
}

impl Medium<'_> {
    /// Tries until it succeeds or the deadline is over. Programs that this process is just starting have a descriptor of an earlier
    /// claim until they run, however long that takes: they count as nobody.
    fn in_a_moment(&self, attempt: impl Fn() -> Result<(), Refusal>) -> Result<(), Refusal> {
        loop {
            match attempt() {
                Ok(()) => return Ok(()),
                Err(_)
                    if Instant::now() < self.deadline || users::is_held_by_a_starting_program(self.file) =>
                {
                    std::thread::sleep(Duration::from_millis(50));
                }
                // The one that held it when this was tried may have begun to run since.
                Err(_) => return attempt(),
            }
        }
    }

    fn lock(&self) -> Result<(), Refusal> {
        self.in_a_moment(|| match flock(self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => Err(self.locked()),
            Err(e) => Err(self.not_locked(e)),
        })
    }

    fn refuse_users_of_device(&self) -> Result<(), Refusal> {
        self.in_a_moment(|| match users::bytes_are_locked(self.file) {
            Ok(true) => Err(self.locked()),
            _ => Ok(()),
        })?;
        self.in_a_moment(|| self.refuse_writers())
    }

    /// Locks the bytes of a file, and refuses one that has a loop device or that others have open.
    fn take_file(&self) -> Result<(), Refusal> {
        // A file with a loop device is in use, but not by another Nestor, which would have locked it.
        if let Some(why) = in_use::refusal_of_file(Path::new(self.path)) {
            return Err(used_by_another(format!("{} is {why}", self.path)));
        }
        self.in_a_moment(|| match users::lock_bytes(self.file) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(self.locked()),
            Err(e) => Err(self.not_locked(e)),
        })?;
        self.in_a_moment(|| match users::is_open_elsewhere(self.file) {
            Some(false) => Ok(()),
            Some(true) => match users::users_of(self.file) {
                users if users.is_empty() => Err(used_by_another(format!(
                    "{} is in use: another program has it open, which is not visible from here",
                    self.path
                ))),
                users => self.refuse(&users),
            },
            None => self.refuse_writers(),
        })
    }

    fn refuse_writers(&self) -> Result<(), Refusal> {
        let writers: Vec<User> = users::users_of(self.file).into_iter().filter(|user| user.writes).collect();
        self.refuse(&writers)
    }

    fn refuse(&self, users: &[User]) -> Result<(), Refusal> {
        if users.is_empty() {
            return Ok(());
        }
        let how = if users.iter().any(|user| user.writes) { "for writing " } else { "" };
        let (path, users) = (self.path, listed(users));
        Err(used_by_another(format!(
            "{path} is in use: it is open {how}in {users}; wait until that program ends"
        )))
    }

    fn locked(&self) -> Refusal {
        let who = match users::users_of(self.file).as_slice() {
            [] => String::new(),
            users => format!("; it is open in {}", listed(users)),
        };
        used_by_another(format!(
            "{} is in use: another program has locked it, perhaps another run of nestor or a virtual machine{who}; \
             wait until that program ends",
            self.path
        ))
    }

    fn not_locked(&self, error: Errno) -> Refusal {
        Refusal::of_io(&format!("{} could not be locked", self.path), &error.into())
    }
}

fn used_by_another(message: String) -> Refusal {
    Refusal::new(Cause::InUse, message)
}

#[cfg(test)]
mod tests;
