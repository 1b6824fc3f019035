//! One set being made: its directories, its files and what is in them.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nestor_wml::FileSet;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::Maker;
use super::names::Names;
use crate::error::FlowError;
use crate::random::Stream;
use crate::tree::Tree;

/// Files are filled in pieces of this size, as Filebench does.
const FILL_BYTES: u64 = 1 << 20;
/// How many pieces of a file are written between two looks at the progress.
const FILLS_PER_LOOK: u64 = 64;
/// How many files are made between two looks at the progress.
const FILES_PER_LOOK: u64 = 256;

/// A set that is to be made, and its directory.
pub(super) struct Place<'m> {
    pub(super) plan: &'m FileSet,
    pub(super) tree: &'m Tree,
    pub(super) path: &'m Path,
}

/// Files that were there and are kept.
pub(super) struct Adopted {
    /// Those that this program made; `None`: it made none, or it is not known which.
    pub(super) made: Option<Names>,
}

impl Adopted {
    /// Whether a file may be made longer or shorter.
    fn may_change(&self, path: &CStr) -> bool {
        self.made.as_ref().is_some_and(|names| names.has_path(path))
    }
}

/// One set being made.
pub(super) struct Making<'m> {
    maker: &'m Maker<'m>,
    plan: &'m FileSet,
    tree: &'m Tree,
    path: &'m Path,
    root: BorrowedFd<'m>,
    adopted: Option<&'m Adopted>,
    done: AtomicU64,
}

impl<'m> Making<'m> {
    /// In `root`, which is the directory of the place.
    pub(super) fn new(
        maker: &'m Maker<'m>,
        place: &Place<'m>,
        root: BorrowedFd<'m>,
        adopted: Option<&'m Adopted>,
    ) -> Self {
        let Place { plan, tree, path } = *place;
        Self { maker, plan, tree, path, root, adopted, done: AtomicU64::new(0) }
    }

    /// Makes the directories of the tree, and those leaf directories that are there from the beginning.
    pub(super) fn directories(&self) -> Result<(), FlowError> {
        let make = |path: &str| match rustix::fs::mkdirat(self.root, path, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) if self.adopted.is_some() => Ok(()),
            other => other.map_err(|e| FlowError::call("cannot create", self.full(path), e.into())),
        };
        // The first is the set's own.
        for (number, path) in self.tree.directories.iter().enumerate().skip(1) {
            make(path)?;
            if (number as u64).is_multiple_of(FILES_PER_LOOK) {
                self.look("making directories of", number as f64 / self.tree.directories.len() as f64)?;
            }
        }
        let mut path = Vec::new();
        for (entry, made) in self.tree.leaf_directories.iter().zip(&self.tree.leaf_preallocated) {
            if *made {
                self.tree.path_of(*entry, &mut path);
                make(std::str::from_utf8(&path[..path.len() - 1]).expect("digits and slashes"))?;
            }
        }
        Ok(())
    }

    fn wrong_length(&self, name: &CStr, found: u64, wanted: u64) -> FlowError {
        FlowError::Length {
            set: self.plan.name.clone(),
            line: self.maker.source.line_of(&self.plan.span),
            path: self.path.join(&*name.to_string_lossy()),
            found,
            wanted,
        }
    }

    /// Before anything is made: what was adopted and is not this program's has the right lengths, for it is not changed.
    pub(super) fn check_lengths(&self) -> Result<(), FlowError> {
        let Some(adopted) = self.adopted else { return Ok(()) };
        let mut path = Vec::new();
        for file in (0..self.tree.files.len()).filter(|file| self.tree.preallocated[*file]) {
            self.tree.path_of(self.tree.files[file], &mut path);
            let name = CStr::from_bytes_with_nul(&path).expect("paths end with one NUL");
            let wanted = self.tree.file_bytes[file];
            // What cannot be looked at is not there, or fails when it is made.
            let Ok(found) = rustix::fs::statat(self.root, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let found = found.st_size as u64;
            if found != wanted && !adopted.may_change(name) {
                return Err(self.wrong_length(name, found, wanted));
            }
        }
        Ok(())
    }

    /// Makes some of the files; no other part of the set has the same number.
    pub(super) fn files(&self, part: &[u32], number: u64) -> Result<(), FlowError> {
        let mut random = Stream::new(self.maker.options.data_seed, (1 << 62) | number);
        let mut path = Vec::new();
        let mut since_look = 0;
        for &file in part.iter().filter(|file| self.tree.preallocated[**file as usize]) {
            self.tree.path_of(self.tree.files[file as usize], &mut path);
            self.file(&path, self.tree.file_bytes[file as usize], &mut random)?;
            since_look += 1;
            if since_look == FILES_PER_LOOK {
                since_look = 0;
                let done = self.done.fetch_add(FILES_PER_LOOK, Ordering::Relaxed) + FILES_PER_LOOK;
                self.look("making files of", done as f64 / self.tree.files.len() as f64)?;
            }
        }
        Ok(())
    }

    fn look(&self, what: &str, share: f64) -> Result<(), FlowError> {
        (self.maker.progress)(&format!("{what} {}", self.plan.name), share);
        if self.maker.ending.is_over() { Err(FlowError::Interrupted) } else { Ok(()) }
    }

    fn full(&self, path: &str) -> String {
        self.path.join(path).display().to_string()
    }

    fn file(&self, path: &[u8], bytes: u64, random: &mut Stream) -> Result<(), FlowError> {
        let name = CStr::from_bytes_with_nul(path).expect("paths end with one NUL");
        let failed = |what, e: Errno| FlowError::call(what, self.full(&name.to_string_lossy()), e.into());
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = rustix::fs::openat(
            self.root,
            name,
            flags | OFlags::CREATE | OFlags::EXCL,
            Mode::from_raw_mode(0o644),
        );
        let file = match (created, self.adopted) {
            (Err(Errno::EXIST), Some(adopted)) => {
                let flags = if adopted.may_change(name) { flags } else { flags.difference(OFlags::RDWR) };
                let file = rustix::fs::openat(self.root, name, flags, Mode::empty())
                    .map_err(|e| failed("cannot open", e))?;
                let there = rustix::fs::fstat(&file).map_err(|e| failed("cannot look at", e))?.st_size as u64;
                if there != bytes && !adopted.may_change(name) {
                    return Err(self.wrong_length(name, there, bytes));
                }
                if there >= bytes {
                    if there > bytes {
                        rustix::fs::ftruncate(&file, bytes).map_err(|e| failed("cannot shorten", e))?;
                    }
                    return Ok(());
                }
                file
            }
            (created, _) => created.map_err(|e| failed("cannot create", e))?,
        };
        let mut left = bytes;
        while left > 0 {
            let some = self.maker.data.some(left.min(FILL_BYTES) as usize, random);
            left -= rustix::io::write(&file, some).map_err(|e| failed("cannot write", e))? as u64;
            // One file may be all of a set.
            if left > 0 && ((bytes - left) / FILL_BYTES).is_multiple_of(FILLS_PER_LOOK) {
                let what = format!("making a file of {}", self.plan.name);
                (self.maker.progress)(&what, (bytes - left) as f64 / bytes as f64);
                if self.maker.ending.is_over() {
                    return Err(FlowError::Interrupted);
                }
            }
        }
        Ok(())
    }
}
