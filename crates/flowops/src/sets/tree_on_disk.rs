//! What is really in a set's directory: looked through and removed without ever leaving it.
//!
//! All that this program makes in a set's directory are the directories and regular files of the planned tree. Nothing else is ever
//! removed, and no link is followed.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

use super::names::{Names, Place};
use super::seal::{self, Seal};
use crate::error::FlowError;

/// What stands at a set's place.
pub(super) enum Found {
    Nothing,
    /// A directory without anything in it.
    Empty,
    /// A directory with something in it.
    Filled,
    /// No directory: a file, or a link, wherever it leads.
    Other,
}

impl Found {
    /// Looks, without following a link at the place itself.
    pub(super) fn at(path: &Path) -> Result<Self, FlowError> {
        let failed = |e: Errno| FlowError::call("cannot look into", path.display().to_string(), e.into());
        let directory = match open(CWD, path) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(Self::Nothing),
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Self::Other),
            Err(e) => return Err(failed(e)),
        };
        let mut entries = Dir::read_from(&directory).map_err(failed)?.filter(is_entry);
        Ok(match entries.next() {
            None => Self::Empty,
            Some(Ok(_)) => Self::Filled,
            Some(Err(e)) => return Err(failed(e)),
        })
    }
}

/// Something that a set's directory has and that this program did not make.
pub(super) enum Stranger {
    /// A link, or something that is neither a file nor a directory, where a file of the set would be.
    LeadsOut(PathBuf),
    /// Something with another name.
    Named(PathBuf),
    /// A file with other names elsewhere.
    Linked(PathBuf),
    /// It could not be looked at or removed.
    Failed(FlowError),
}

/// What is done with the entries of a directory.
#[derive(Clone, Copy)]
enum Task<'n> {
    /// Entries whose names are numbers are checked; all others are ignored.
    Adopt,
    /// All are looked at: there are none but these.
    Inspect(&'n Names),
    /// These are removed.
    Remove(&'n Names),
}

/// Looks for links, also hard ones, below names that sets have; says what else it has seen there.
pub(super) fn look_for_links(path: &Path) -> Result<Seal, Stranger> {
    walk(path, Task::Adopt)
}

/// Removes what this program made, or nothing if there is anything else; the directory itself too, unless it `stays`.
pub(super) fn remove_made(path: &Path, stays: bool, names: &Names) -> Result<(), Stranger> {
    match Found::at(path).map_err(Stranger::Failed)? {
        Found::Nothing => return Ok(()),
        Found::Other => return Err(Stranger::Named(path.to_owned())),
        Found::Empty => {}
        Found::Filled => {
            walk(path, Task::Inspect(names))?;
            walk(path, Task::Remove(names))?;
        }
    }
    if stays {
        return Ok(());
    }
    match std::fs::remove_dir(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Stranger::Failed(FlowError::call("cannot remove", path.display().to_string(), e)))
        }
        _ => Ok(()),
    }
}

fn open(directory: BorrowedFd<'_>, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, path, flags, Mode::empty())
}

fn is_entry(entry: &Result<rustix::fs::DirEntry, Errno>) -> bool {
    entry.as_ref().map_or(true, |entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
}

/// Whether sets have entries of this form.
fn is_number(name: &CStr) -> bool {
    let name = name.to_bytes();
    (8..=10).contains(&name.len()) && name.iter().all(u8::is_ascii_digit)
}

fn walk(path: &Path, task: Task<'_>) -> Result<Seal, Stranger> {
    let failed = |e: Errno| {
        Stranger::Failed(FlowError::call("cannot look into", path.display().to_string(), e.into()))
    };
    let directory = open(CWD, path).map_err(failed)?;
    let root_bytes = path.as_os_str().len();
    let mut walk = Walk { task, path: path.to_owned(), root_bytes, seal: Seal::default() };
    walk.directory(&directory, Place::At(0))?;
    Ok(walk.seal)
}

struct Walk<'n> {
    task: Task<'n>,
    /// Of what is looked at.
    path: PathBuf,
    /// Length of the part of it that leads to the set's directory.
    root_bytes: usize,
    /// What was adopted.
    seal: Seal,
}

impl Walk<'_> {
    fn failed(&self, what: &'static str, e: Errno) -> Stranger {
        Stranger::Failed(FlowError::call(what, self.path.display().to_string(), e.into()))
    }

    /// Trees are at most 400 levels deep, so are the calls; what is adopted may be deeper.
    fn directory(&mut self, directory: &OwnedFd, place: Place) -> Result<(), Stranger> {
        if matches!(self.task, Task::Adopt) {
            let found = seal::look(directory, "", AtFlags::EMPTY_PATH);
            let found = found.map_err(|e| self.failed("cannot look at", e))?;
            self.seal.add_directory(&self.path.as_os_str().as_bytes()[self.root_bytes..], &found);
        }
        let entries = Dir::read_from(directory).map_err(|e| self.failed("cannot look into", e))?;
        for entry in entries.filter(is_entry) {
            let entry = entry.map_err(|e| self.failed("cannot look into", e))?;
            let name = entry.file_name();
            if !is_number(name) && matches!(self.task, Task::Adopt) {
                continue;
            }
            self.path.push(&*name.to_string_lossy());
            self.entry(directory.as_fd(), name, entry.file_type(), place)?;
            self.path.pop();
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        mut kind: FileType,
        place: Place,
    ) -> Result<(), Stranger> {
        // File systems that do not say it in the list.
        if kind == FileType::Unknown {
            let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            kind = FileType::from_raw_mode(found.map_err(|e| self.failed("cannot look at", e))?.st_mode);
        }
        let stranger = |walk: &Self| match kind {
            FileType::RegularFile | FileType::Directory => Stranger::Named(walk.path.clone()),
            _ => Stranger::LeadsOut(walk.path.clone()),
        };
        let flags = match (kind, self.task) {
            (FileType::RegularFile, Task::Adopt) => {
                let found = seal::look(directory, name, AtFlags::SYMLINK_NOFOLLOW);
                let found = found.map_err(|e| self.failed("cannot look at", e))?;
                if found.stx_nlink > 1 {
                    return Err(Stranger::Linked(self.path.clone()));
                }
                self.seal.add_file(&self.path.as_os_str().as_bytes()[self.root_bytes..], &found);
                AtFlags::empty()
            }
            (FileType::RegularFile, Task::Inspect(names) | Task::Remove(names))
                if names.has_file(place, name) =>
            {
                AtFlags::empty()
            }
            (FileType::Directory, task) => {
                let inner_place = match task {
                    Task::Adopt => Some(Place::Leaf),
                    Task::Inspect(names) | Task::Remove(names) => names.directory(place, name),
                };
                let Some(inner_place) = inner_place else { return Err(stranger(self)) };
                let inner = open(directory, name).map_err(|e| self.failed("cannot look into", e))?;
                self.directory(&inner, inner_place)?;
                AtFlags::REMOVEDIR
            }
            _ => return Err(stranger(self)),
        };
        if matches!(self.task, Task::Remove(_)) {
            unlinkat(directory, name, flags).map_err(|e| self.failed("cannot remove", e))?;
        }
        Ok(())
    }
}
