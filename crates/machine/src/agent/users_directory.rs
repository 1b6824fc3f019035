//! Directories of the user's: a run has one of its own in them, and nothing else in them is touched.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nestor_kernel::mounts::{mount_of, mounted_below};
use nestor_stop::lock;
use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, mkdir, openat, statvfs};

use super::private::random_digits;
use super::requests::Obeyed;
use super::resource::Resource;
use super::{Agent, work_root};
use crate::message::Answer;
use crate::not_undone::NotUndone;
use crate::refusal::{Cause, FileKind, Refusal};
use crate::users_directory::OwnDirectory;

/// What the name of a run's own directory begins with.
const PREFIX: &str = "nestor-";

/// A file system with less room is full: some blocks it keeps to itself.
const FULL_BYTES: u64 = 16 << 20;

impl Agent {
    /// Makes a directory of a random name in one of the user's, which is removed with all that is in it. `kept` are directories of the
    /// laboratory, beside those that the agent knows.
    pub(super) fn make_own_directory(&self, within: &str, kept: &[String]) -> Obeyed {
        let within = checked(Path::new(within))?;
        let own =
            [work_root(), self.work_directory.clone()].into_iter().chain(kept.iter().map(PathBuf::from));
        own.map(real).try_for_each(|own| refuse_laboratory(&within, &own))?;
        refuse_without_room(&within)?;
        let digits = random_digits().map_err(|e| Refusal::of_io("no random name can be made", &e))?;
        let path = within.join(format!("{PREFIX}{digits}"));
        let text = path.to_str().ok_or_else(|| {
            Refusal::new(Cause::Other, format!("the path of {} is not UTF-8", within.display()))
        })?;
        // Its name is noted before it is made, and nobody else can have chosen it.
        let coming = self.enter(Resource::OwnDirectory { path: text.to_owned() })?;
        let described = mkdir(&path, Mode::RWXU)
            .map_err(|e| {
                let what = format!("a directory could not be made in {}", within.display());
                Refusal::of_io(&what, &e.into())
            })
            .and_then(|()| describe(&path, text));
        if described.is_err() {
            // Made or not.
            let _ = remove(text);
            lock(&self.ledger).strike(coming);
        }
        described.map(Answer::OwnDirectory)
    }

    pub(super) fn remove_own_directory(&self, path: &str) -> Obeyed {
        let is_it = |r: &Resource| matches!(r, Resource::OwnDirectory { path: p } if p == path);
        self.undo(&format!("{path} is no directory of this run"), is_it)
    }
}

/// The real path of a directory into which this user may write, and which no other user can replace.
fn checked(path: &Path) -> Result<PathBuf, Refusal> {
    let shown = path.display();
    let kind = match fs::metadata(path) {
        Ok(found) => FileKind::of(found.file_type()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(Refusal::new(Cause::NotThere, format!("the directory {shown} does not exist")));
        }
        Err(e) => return Err(Refusal::of_io(&format!("{shown} cannot be looked at"), &e)),
    };
    if kind != FileKind::Directory {
        let message = format!("{shown} is {kind}, not {}", FileKind::Directory);
        return Err(Refusal::new(Cause::OfAnotherKind { found: kind }, message));
    }
    nestor_ownership::resolved(path).map_err(|e| Refusal::new(Cause::NotPermitted, e.to_string()))
}

/// The path without links, as far as it exists.
fn real(path: PathBuf) -> PathBuf {
    fs::canonicalize(&path).unwrap_or(path)
}

/// What is measured must not be what the laboratory itself writes to.
fn refuse_laboratory(within: &Path, own: &Path) -> Result<(), Refusal> {
    if !own.starts_with(within) && !within.starts_with(own) {
        return Ok(());
    }
    let (within, own) = (within.display(), own.display());
    let message = format!(
        "{within} and the laboratory's own files in {own} are one within the other; name a directory beside them"
    );
    Err(Refusal::new(Cause::InUse, message))
}

fn refuse_without_room(within: &Path) -> Result<(), Refusal> {
    let shown = within.display();
    let found = statvfs(within)
        .map_err(|e| Refusal::of_io(&format!("the file system of {shown} cannot be looked at"), &e.into()))?;
    if found.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let message = format!("the file system of {shown} is mounted read-only");
        return Err(Refusal::new(Cause::NotPermitted, message));
    }
    // Of file systems without blocks, nothing is known.
    if found.f_blocks > 0 && found.f_bavail.saturating_mul(found.f_frsize) < FULL_BYTES {
        let message =
            format!("the file system of {shown} is full; free some space, or name another directory");
        return Err(Refusal::new(Cause::NoSpace, message));
    }
    Ok(())
}

fn describe(path: &Path, text: &str) -> Result<OwnDirectory, Refusal> {
    let failed = |e: io::Error| Refusal::of_io(&format!("the file system of {text} cannot be looked at"), &e);
    let unknown = || io::Error::other("it is not in the kernel's list of mounts");
    let mount = mount_of(path).and_then(|mount| mount.ok_or_else(unknown)).map_err(failed)?;
    Ok(OwnDirectory {
        path: text.to_owned(),
        file_system: mount.kind.clone(),
        source: mount.source_path().display().to_string(),
        mounted_at: mount.place().display().to_string(),
        takes_direct_io: takes_direct_io(path).map_err(failed)?,
    })
}

/// Whether a file in a directory can be opened for direct I/O.
fn takes_direct_io(directory: &Path) -> io::Result<bool> {
    let path = directory.join("probe");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::DIRECT;
    let opened = openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR);
    // Linux makes the file before it looks whether it can be opened in this way.
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    match opened {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::INVAL) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Removes a run's own directory with all that is in it; succeeds where it is not there.
///
/// # Errors
/// It is still there.
pub(super) fn remove(path: &str) -> Result<(), NotUndone> {
    let place = Path::new(path);
    match fs::symlink_metadata(place) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        // Not what was made.
        Ok(found) if !found.is_dir() => return Ok(()),
        _ => {}
    }
    let left = |why: String| NotUndone::OwnDirectoryLeft { path: path.to_owned(), why };
    // As when it was made: what another user can redirect, a process with more rights must not follow.
    match nestor_ownership::above(place) {
        Ok(real) if real == place => {}
        Ok(real) => return Err(left(format!("its path leads to {} now", real.display()))),
        Err(distrust) => return Err(left(distrust.to_string())),
    }
    match mounted_below(place) {
        Ok(None) => {}
        Ok(Some(mount)) => return Err(left(format!("something is mounted at {}", mount.display()))),
        Err(e) => return Err(left(format!("the list of mounts cannot be read: {e}"))),
    }
    match fs::remove_dir_all(place) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(NotUndone::Directory { path: path.to_owned(), error: (&e).into() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
