//! File sets on the disk: made, found again, removed.

mod names;
mod origin;
mod record;
mod seal;
mod tree_on_disk;

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nestor_wml::{FileSet, FileSetKind};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::ending::{End, Ending};
use crate::error::FlowError;
use crate::memory::WriteData;
use crate::options::FlowOptions;
use crate::pool::Pool;
use crate::random::Stream;
use crate::source::Source;
use crate::tree::Tree;
use names::Names;
use origin::{Origin, unmark};
use record::{Made, Memory};
use seal::Seal;
use tree_on_disk::{Found, Stranger, look_for_links, remove_made};

/// Files are filled in pieces of this size, as Filebench does.
const FILL_BYTES: u64 = 1 << 20;
/// Most threads that make the files of a set with `paralloc`: Filebench's limit.
const MOST_MAKERS: usize = 32;
/// So many for each processor: one waits for the disk while the other makes.
const MAKERS_PER_PROCESSOR: usize = 2;

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

/// Makes sets, or finds those that were made.
pub(crate) struct Maker<'m> {
    pub(crate) options: &'m FlowOptions,
    pub(crate) source: Source<'m>,
    pub(crate) data: &'m WriteData,
    pub(crate) ending: &'m Ending,
    pub(crate) progress: &'m (dyn Fn(&str, f64) + Sync),
}

impl Maker<'_> {
    /// Makes a set, or takes what is there.
    pub(crate) fn ready<'p>(&self, plan: &'p FileSet, tree: Tree) -> Result<Set<'p>, FlowError> {
        let parent = self.options.directory_of(plan);
        self.require_inside(plan, &parent)?;
        let path = parent.join(&plan.name);
        if let Some(bytes) = self.device_bytes(plan, &path)? {
            return Ok(finish(plan, Home::Device { path, bytes }, tree));
        }
        if !parent.is_dir() {
            return Err(FlowError::NoDirectory { path: parent });
        }
        let mut memory = Memory::read(&parent)?;
        let found = Found::at(&path)?;
        if matches!(found, Found::Other) {
            return Err(self.leads_out(plan, path));
        }
        let known = memory.sets.get(&plan.name);
        // This program made what is in the directory; where nothing was adopted since, it may be removed.
        let here = known.filter(|made| made.is_at(&path)).cloned();
        let ours = here.clone().filter(|made| made.ours);
        let mut made = Made {
            seed: self.options.data_seed,
            files: tree.files.len(),
            directories: tree.directories.len(),
            bytes: tree.preallocated_bytes(),
            used: false,
            ours: ours.is_some(),
            stays: here.as_ref().is_some_and(|made| made.stays),
            origin: here.as_ref().and_then(|made| made.origin.clone()),
            names: here.as_ref().map(|made| made.names.clone()).unwrap_or_default(),
            seal: None,
        };
        if self.options.prepared {
            let fresh = known.filter(|known| known.is_fresh(&made) && !matches!(found, Found::Nothing));
            self.take_prepared(plan, &path, fresh)?;
        } else if plan.trust_tree {
            self.adopt(plan, &path)?;
            made.ours = false;
        } else {
            let adopting = plan.reuse && matches!(found, Found::Filled);
            let mut adopted = None;
            match found {
                Found::Filled if adopting => {
                    self.adopt(plan, &path)?;
                    made.ours = false;
                    adopted = Some(Adopted { made: here.and_then(|here| here.names.names(&tree)) });
                }
                Found::Filled => {
                    let Some(ours) = ours else { return Err(FlowError::NotOurs { path }) };
                    (self.progress)(&format!("removing the old {}", plan.name), 0.0);
                    remove(&path, &ours, &tree)?;
                    made.begin(&path, &tree)?;
                }
                Found::Empty => {
                    made.stays |= ours.is_none();
                    made.begin(&path, &tree)?;
                }
                Found::Nothing | Found::Other => {
                    made.stays = false;
                    made.begin(&path, &tree)?;
                }
            }
            // Before anything is made: what a stopped run leaves is ours as well, and is no prepared set.
            memory.sets.insert(plan.name.clone(), Made { used: true, ..made.clone() });
            memory.write(&parent)?;
            if let Err(e) = self.make(plan, &tree, &path, adopted.as_ref()) {
                if self.options.remove {
                    forget(&parent, &plan.name, &path, &tree)?;
                }
                return Err(e);
            }
        }
        made.used = !self.options.only_prepare;
        if self.options.only_prepare {
            made.seal = Some(self.adopt(plan, &path)?);
        }
        memory.sets.insert(plan.name.clone(), made);
        memory.write(&parent)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|e| FlowError::call("cannot open", path.display().to_string(), e.into()))?;
        Ok(finish(plan, Home::Directory { handle, path }, tree))
    }

    fn leads_out(&self, plan: &FileSet, path: PathBuf) -> FlowError {
        FlowError::LeadsOut { set: plan.name.clone(), line: self.source.line_of(&plan.span), path }
    }

    /// What is in the directory that the user named stays in it: no link on the way leads elsewhere.
    fn require_inside(&self, plan: &FileSet, parent: &Path) -> Result<(), FlowError> {
        let Some(inside) = &self.options.inside else { return Ok(()) };
        let is_inside = parent.canonicalize().is_ok_and(|real| real.starts_with(inside));
        if is_inside { Ok(()) } else { Err(self.leads_out(plan, parent.to_owned())) }
    }

    /// Takes files that were prepared. They may have been replaced since, or a part of them may be a link to another place.
    fn take_prepared(&self, plan: &FileSet, path: &Path, known: Option<&Made>) -> Result<(), FlowError> {
        let Some(known) = known else {
            return Err(FlowError::NotPrepared { set: plan.name.clone(), path: path.to_owned() });
        };
        let found = self.adopt(plan, path)?;
        if known.is_untouched(path, &found) {
            Ok(())
        } else {
            Err(FlowError::Replaced { set: plan.name.clone(), path: path.to_owned() })
        }
    }

    /// Takes files that are there as they are, unless one of them is a way out; says which they are.
    fn adopt(&self, plan: &FileSet, path: &Path) -> Result<Seal, FlowError> {
        look_for_links(path).map_err(|stranger| match stranger {
            Stranger::LeadsOut(path) | Stranger::Named(path) => self.leads_out(plan, path),
            Stranger::Linked(path) => {
                FlowError::Linked { set: plan.name.clone(), line: self.source.line_of(&plan.span), path }
            }
            Stranger::Failed(error) => error,
        })
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

    fn make(
        &self,
        plan: &FileSet,
        tree: &Tree,
        path: &Path,
        adopted: Option<&Adopted>,
    ) -> Result<(), FlowError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let makers = if plan.parallel { MOST_MAKERS.min(MAKERS_PER_PROCESSOR * processors) } else { 1 };
        let root = rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|e| FlowError::call("cannot open", path.display().to_string(), e.into()))?;
        let making =
            Making { maker: self, plan, tree, path, root: root.as_fd(), adopted, done: AtomicU64::new(0) };
        making.check_lengths()?;
        making.directories()?;
        let order = tree.order(self.options.seed);
        let share = order.len().div_ceil(makers).max(1);
        let results: Vec<Result<(), FlowError>> = std::thread::scope(|scope| {
            let mut parts = Vec::new();
            let mut failed = None;
            for (i, part) in order.chunks(share).enumerate() {
                let making = &making;
                let maker = std::thread::Builder::new();
                match maker.spawn_scoped(scope, move || making.files(part, i as u64)) {
                    Ok(started) => parts.push(started),
                    Err(source) => {
                        failed = Some(FlowError::Threads { started: parts.len(), wanted: makers, source });
                        // Those that were started look for it.
                        self.ending.end(End::Interrupted);
                        break;
                    }
                }
            }
            let made = parts.into_iter().map(|part| part.join().expect("making files does not panic"));
            let made: Vec<_> = made.collect();
            failed.map(Err).into_iter().chain(made).collect()
        });
        results.into_iter().collect::<Result<(), FlowError>>()
    }
}

/// Files that were there and are kept.
struct Adopted {
    /// Those that this program made; `None`: it made none, or it is not known which.
    made: Option<Names>,
}

impl Adopted {
    /// Whether a file may be made longer or shorter.
    fn may_change(&self, path: &CStr) -> bool {
        self.made.as_ref().is_some_and(|names| names.has_path(path))
    }
}

/// One set being made.
struct Making<'m> {
    maker: &'m Maker<'m>,
    plan: &'m FileSet,
    tree: &'m Tree,
    path: &'m Path,
    root: BorrowedFd<'m>,
    adopted: Option<&'m Adopted>,
    done: AtomicU64,
}

/// How many pieces of a file are written between two looks at the progress.
const FILLS_PER_LOOK: u64 = 64;
/// How many files are made between two looks at the progress.
const FILES_PER_LOOK: u64 = 256;

impl Making<'_> {
    fn directories(&self) -> Result<(), FlowError> {
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
    fn check_lengths(&self) -> Result<(), FlowError> {
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

impl Made {
    /// Makes the directory of a set, or takes the empty one: from now on what is planned there is this program's.
    fn begin(&mut self, path: &Path, tree: &Tree) -> Result<(), FlowError> {
        fs::create_dir_all(path)
            .map_err(|e| FlowError::call("cannot create", path.display().to_string(), e))?;
        self.ours = true;
        self.origin = Origin::mark(path);
        self.names = Names::of(tree).recorded();
        Ok(())
    }
}

fn finish<'p>(plan: &'p FileSet, home: Home, tree: Tree) -> Set<'p> {
    let files = Pool::new(&tree.preallocated);
    let leaf_directories = Pool::new(&tree.leaf_preallocated);
    Set { plan, home, tree, files, leaf_directories, next_directory: AtomicUsize::new(0) }
}

/// Removes the files of a set and forgets it; what was adopted stays. Whether anything stays.
pub(crate) fn remove_set(set: &Set<'_>) -> Result<bool, FlowError> {
    match &set.home {
        Home::Directory { path, .. } => {
            path.parent().map_or(Ok(true), |parent| forget(parent, &set.plan.name, path, &set.tree))
        }
        Home::Device { .. } => Ok(true),
    }
}

fn forget(parent: &Path, name: &str, path: &Path, tree: &Tree) -> Result<bool, FlowError> {
    let memory = Memory::read(parent)?;
    let made = memory.sets.get(name).filter(|made| made.ours && made.is_at(path));
    let stays = made.is_none() && fs::symlink_metadata(path).is_ok();
    if let Some(made) = made {
        remove(path, made, tree)?;
    }
    memory.forget(parent, name).map(|()| stays)
}

/// Removes what this program made in a directory, if there is nothing else in it.
fn remove(path: &Path, made: &Made, tree: &Tree) -> Result<(), FlowError> {
    let Some(names) = made.names.names(tree) else {
        return Err(FlowError::NotOurs { path: path.to_owned() });
    };
    remove_made(path, made.stays, &names).map_err(|stranger| match stranger {
        Stranger::Named(stranger) | Stranger::LeadsOut(stranger) | Stranger::Linked(stranger) => {
            FlowError::Stranger { path: path.to_owned(), stranger }
        }
        Stranger::Failed(error) => error,
    })?;
    if made.stays {
        unmark(path);
    }
    Ok(())
}
