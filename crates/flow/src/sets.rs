//! File sets on the disk: made, found again, removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nestor_wml::{FileSet, FileSetKind};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::ending::Ending;
use crate::error::FlowError;
use crate::memory::WriteData;
use crate::options::FlowOptions;
use crate::pool::Pool;
use crate::random::Stream;
use crate::tree::Tree;

/// Files are filled in pieces of this size, as Filebench does.
const FILL_BYTES: u64 = 1 << 20;
/// Most threads that make the files of a set with `paralloc`: Filebench's limit.
const MOST_MAKERS: usize = 32;
/// So many for each processor: one waits for the disk while the other makes.
const MAKERS_PER_PROCESSOR: usize = 2;
/// What is remembered of the sets that were made in a directory, so that they may be replaced or used again.
const MEMORY: &str = ".nestor-filesets.json";

/// A file set that is ready for use.
pub(crate) struct Set<'p> {
    pub(crate) plan: &'p FileSet,
    pub(crate) home: Home,
    pub(crate) tree: Tree,
    pub(crate) files: Pool,
    pub(crate) leaf_directories: Pool,
    /// The directory that is listed next.
    pub(crate) next_directory: AtomicUsize,
}

/// Where a set is.
pub(crate) enum Home {
    /// The directory with its files.
    Directory {
        /// Open, so that paths are resolved from here.
        handle: OwnedFd,
        path: PathBuf,
    },
    /// The set is a block device.
    Device { path: PathBuf, bytes: u64 },
}

impl Set<'_> {
    /// The open directory, or `None` for a device.
    pub(crate) fn directory(&self) -> Option<BorrowedFd<'_>> {
        match &self.home {
            Home::Directory { handle, .. } => Some(handle.as_fd()),
            Home::Device { .. } => None,
        }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        match &self.home {
            Home::Directory { path, .. } | Home::Device { path, .. } => path,
        }
    }

    /// Bytes that its files, or the device, can hold.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.home {
            Home::Directory { .. } => self.tree.bytes(),
            Home::Device { bytes, .. } => *bytes,
        }
    }
}

/// What is remembered of the sets in a directory.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Memory {
    sets: BTreeMap<String, Made>,
}

/// How a set was made; equal ones are the same files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Made {
    seed: u64,
    files: usize,
    directories: usize,
    bytes: u64,
    /// Whether a workload has changed the files since.
    used: bool,
}

/// Makes sets, or finds those that were made.
pub(crate) struct Maker<'m> {
    pub(crate) options: &'m FlowOptions,
    pub(crate) data: &'m WriteData,
    pub(crate) ending: &'m Ending,
    pub(crate) progress: &'m (dyn Fn(&str, f64) + Sync),
}

impl Maker<'_> {
    /// Makes a set, or takes what is there.
    pub(crate) fn ready<'p>(&self, plan: &'p FileSet, tree: Tree) -> Result<Set<'p>, FlowError> {
        let parent = self.options.directory_of(plan);
        let path = parent.join(&plan.name);
        if let Some(bytes) = self.device_bytes(plan, &path)? {
            return Ok(finish(plan, Home::Device { path, bytes }, tree));
        }
        if !parent.is_dir() {
            return Err(FlowError::NoDirectory { path: parent });
        }
        let mut memory = Memory::read(&parent);
        let mut made = Made {
            seed: self.options.data_seed,
            files: tree.files.len(),
            directories: tree.directories.len(),
            bytes: tree.preallocated_bytes(),
            used: false,
        };
        if self.options.prepared {
            if memory.sets.get(&plan.name) != Some(&made) || !path.is_dir() {
                return Err(FlowError::NotPrepared { set: plan.name.clone(), path });
            }
        } else if !plan.trust_tree {
            let reusing = plan.reuse && path.is_dir();
            if !reusing {
                self.clear(&memory, &plan.name, &path)?;
            }
            // Before anything is made: what a stopped run leaves is ours as well, and is no prepared set.
            memory.sets.insert(plan.name.clone(), Made { used: true, ..made.clone() });
            memory.write(&parent)?;
            if let Err(e) = self.make(plan, &tree, &path, reusing) {
                if self.options.remove {
                    forget(&parent, &plan.name, &path)?;
                }
                return Err(e);
            }
        }
        made.used = !self.options.only_prepare;
        memory.sets.insert(plan.name.clone(), made);
        memory.write(&parent)?;
        let handle =
            rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| FlowError::call("cannot open", path.display().to_string(), e.into()))?;
        Ok(finish(plan, Home::Directory { handle, path }, tree))
    }

    /// The size of a block device; `None` if it is none.
    fn device_bytes(&self, plan: &FileSet, path: &Path) -> Result<Option<u64>, FlowError> {
        let is_device = fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
        if !is_device || plan.kind != FileSetKind::File {
            return Ok(None);
        }
        if !plan.read_only && !self.options.overwrite.iter().any(|named| named == path) {
            return Err(FlowError::Device { set: plan.name.clone(), path: path.to_owned() });
        }
        let size = || -> io::Result<u64> {
            use std::io::Seek;
            use std::os::unix::fs::OpenOptionsExt;
            // A device that is mounted, or part of something, cannot be opened exclusively.
            let exclusively = if plan.read_only { 0 } else { libc::O_EXCL };
            File::options().read(true).custom_flags(exclusively).open(path)?.seek(io::SeekFrom::End(0))
        };
        size().map(Some).map_err(|e| FlowError::call("cannot open", path.display().to_string(), e))
    }

    /// Removes what this program made before; refuses what others made.
    fn clear(&self, memory: &Memory, name: &str, path: &Path) -> Result<(), FlowError> {
        let mut entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(FlowError::call("cannot look into", path.display().to_string(), e)),
        };
        if entries.next().is_none() {
            return Ok(());
        }
        if !memory.sets.contains_key(name) {
            return Err(FlowError::NotOurs { path: path.to_owned() });
        }
        (self.progress)(&format!("removing the old {name}"), 0.0);
        remove(path)
    }

    fn make(&self, plan: &FileSet, tree: &Tree, path: &Path, reusing: bool) -> Result<(), FlowError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let makers = if plan.parallel { MOST_MAKERS.min(MAKERS_PER_PROCESSOR * processors) } else { 1 };
        fs::create_dir_all(path)
            .map_err(|e| FlowError::call("cannot create", path.display().to_string(), e))?;
        let root =
            rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| FlowError::call("cannot open", path.display().to_string(), e.into()))?;
        let making =
            Making { maker: self, plan, tree, path, root: root.as_fd(), reusing, done: AtomicU64::new(0) };
        making.directories()?;
        let share = tree.order.len().div_ceil(makers).max(1);
        let results: Vec<Result<(), FlowError>> = std::thread::scope(|scope| {
            let parts: Vec<_> = tree
                .order
                .chunks(share)
                .enumerate()
                .map(|(i, part)| {
                    scope.spawn({
                        let making = &making;
                        move || making.files(part, i as u64)
                    })
                })
                .collect();
            parts.into_iter().map(|part| part.join().expect("making files does not panic")).collect()
        });
        results.into_iter().collect::<Result<(), FlowError>>()
    }
}

/// One set being made.
struct Making<'m> {
    maker: &'m Maker<'m>,
    plan: &'m FileSet,
    tree: &'m Tree,
    path: &'m Path,
    root: BorrowedFd<'m>,
    reusing: bool,
    done: AtomicU64,
}

/// How many files are made between two looks at the progress.
const FILES_PER_LOOK: u64 = 256;

impl Making<'_> {
    fn directories(&self) -> Result<(), FlowError> {
        let make = |path: &str| match rustix::fs::mkdirat(self.root, path, Mode::from_raw_mode(0o755)) {
            Err(rustix::io::Errno::EXIST) if self.reusing => Ok(()),
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

    fn files(&self, part: &[u32], number: u64) -> Result<(), FlowError> {
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
        let name = std::ffi::CStr::from_bytes_with_nul(path).expect("paths end with one NUL");
        let failed =
            |what, e: rustix::io::Errno| FlowError::call(what, self.full(&name.to_string_lossy()), e.into());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.root, name, flags, Mode::from_raw_mode(0o644))
            .map_err(|e| failed("cannot create", e))?;
        if self.reusing {
            let there = rustix::fs::fstat(&file).map_err(|e| failed("cannot look at", e))?.st_size as u64;
            if there >= bytes {
                if there > bytes {
                    rustix::fs::ftruncate(&file, bytes).map_err(|e| failed("cannot shorten", e))?;
                }
                return Ok(());
            }
        }
        let mut left = bytes;
        while left > 0 {
            let some = self.maker.data.some(left.min(FILL_BYTES) as usize, random);
            left -= rustix::io::write(&file, some).map_err(|e| failed("cannot write", e))? as u64;
        }
        Ok(())
    }
}

fn finish<'p>(plan: &'p FileSet, home: Home, tree: Tree) -> Set<'p> {
    let files = Pool::new(&tree.preallocated);
    let leaf_directories = Pool::new(&tree.leaf_preallocated);
    Set { plan, home, tree, files, leaf_directories, next_directory: AtomicUsize::new(0) }
}

/// Removes the directory of a set and forgets it.
pub(crate) fn remove_set(set: &Set<'_>) -> Result<(), FlowError> {
    match &set.home {
        Home::Directory { path, .. } => {
            path.parent().map_or(Ok(()), |parent| forget(parent, &set.plan.name, path))
        }
        Home::Device { .. } => Ok(()),
    }
}

fn forget(parent: &Path, name: &str, path: &Path) -> Result<(), FlowError> {
    remove(path)?;
    let mut memory = Memory::read(parent);
    memory.sets.remove(name);
    if memory.sets.is_empty() {
        let file = parent.join(MEMORY);
        return fs::remove_file(&file)
            .map_err(|e| FlowError::call("cannot remove", file.display().to_string(), e));
    }
    memory.write(parent)
}

fn remove(path: &Path) -> Result<(), FlowError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(FlowError::call("cannot remove", path.display().to_string(), e))
        }
        _ => Ok(()),
    }
}

impl Memory {
    /// What cannot be read is nothing that is known.
    fn read(directory: &Path) -> Self {
        fs::read(directory.join(MEMORY))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    fn write(&self, directory: &Path) -> Result<(), FlowError> {
        let path = directory.join(MEMORY);
        let text = serde_json::to_vec_pretty(self).expect("a map of numbers is JSON");
        fs::write(&path, text).map_err(|e| FlowError::call("cannot write", path.display().to_string(), e))
    }
}
