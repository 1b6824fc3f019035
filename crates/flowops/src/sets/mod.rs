//! File sets on the disk: made, found again, removed.

mod making;
mod names;
mod origin;
mod record;
mod seal;
mod tree_on_disk;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use nestor_wml::{FileSet, FileSetKind};
use rustix::fs::{Mode, OFlags};

use crate::ending::{End, Ending};
use crate::error::FlowError;
use crate::memory::WriteData;
use crate::options::FlowOptions;
use crate::pool::Pool;
use crate::source::Source;
use crate::tree::Tree;
use making::{Adopted, Making, Place};
use names::Names;
use origin::{Origin, unmark};
use record::{Made, Memory};
use seal::Seal;
use tree_on_disk::{Found, Stranger, look_for_links, remove_made};

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
        let mut made = self.planned(&tree, here.as_ref());
        if self.options.prepared {
            let fresh = known.filter(|known| known.is_fresh(&made) && !matches!(found, Found::Nothing));
            self.take_prepared(plan, &path, fresh)?;
        } else if plan.trust_tree {
            self.adopt(plan, &path)?;
            made.ours = false;
        } else {
            let place = Place { plan, tree: &tree, path: &path };
            let adopted = self.begin(&place, found, here, &mut made)?;
            // Before anything is made: what a stopped run leaves is ours as well, and is no prepared set.
            memory.sets.insert(plan.name.clone(), Made { used: true, ..made.clone() });
            memory.write(&parent)?;
            if let Err(e) = self.make(&place, adopted.as_ref()) {
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
        let handle = open_directory(&path)?;
        Ok(finish(plan, Home::Directory { handle, path }, tree))
    }

    /// What will be remembered of a set, given what is remembered of the directory where it goes.
    fn planned(&self, tree: &Tree, here: Option<&Made>) -> Made {
        Made {
            seed: self.options.data_seed,
            files: tree.files.len(),
            directories: tree.directories.len(),
            bytes: tree.preallocated_bytes(),
            used: false,
            ours: here.is_some_and(|made| made.ours),
            stays: here.is_some_and(|made| made.stays),
            origin: here.and_then(|made| made.origin.clone()),
            names: here.map(|made| made.names.clone()).unwrap_or_default(),
            seal: None,
        }
    }

    /// Gets the directory ready in which a set is made: adopts what is in it, or removes it if this program made it.
    /// Returns what was adopted.
    fn begin(
        &self,
        place: &Place<'_>,
        found: Found,
        here: Option<Made>,
        made: &mut Made,
    ) -> Result<Option<Adopted>, FlowError> {
        let Place { plan, tree, path } = *place;
        match found {
            Found::Filled if plan.reuse => {
                self.adopt(plan, path)?;
                made.ours = false;
                return Ok(Some(Adopted { made: here.and_then(|here| here.names.names(tree)) }));
            }
            Found::Filled => {
                let Some(ours) = here.filter(|made| made.ours) else {
                    return Err(FlowError::NotOurs { path: path.to_owned() });
                };
                (self.progress)(&format!("removing the old {}", plan.name), 0.0);
                remove(path, &ours, tree)?;
            }
            Found::Empty => made.stays |= !here.is_some_and(|made| made.ours),
            Found::Nothing | Found::Other => made.stays = false,
        }
        made.begin(path, tree)?;
        Ok(None)
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

    fn make(&self, place: &Place<'_>, adopted: Option<&Adopted>) -> Result<(), FlowError> {
        let Place { plan, tree, path } = *place;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let makers = if plan.parallel { MOST_MAKERS.min(MAKERS_PER_PROCESSOR * processors) } else { 1 };
        let root = open_directory(path)?;
        let making = Making::new(self, place, root.as_fd(), adopted);
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

/// Opens a set's directory, which is no link.
fn open_directory(path: &Path) -> Result<OwnedFd, FlowError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|e| FlowError::call("cannot open", path.display().to_string(), e.into()))
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
