//! Making, removing and listing directories.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir};

use crate::error::FlowError;
use crate::pool::From;
use crate::program::Step;
use crate::sets::Set;
use crate::worker::{Next, Worker};

/// Bytes of directory entries asked for at once; the C library's.
const LIST_BYTES: usize = 32 << 10;

impl<'p> Worker<'_, 'p> {
    fn leaf_from(&mut self, step: &Step<'_>, set: &Set<'_>) -> From<'static> {
        match &step.flowop.index {
            // `flowop_library.c`, `flowoplib_pickleafdir`: the index is in halves of the number of directories.
            Some(value) => {
                let count = set.tree.leaf_directories.len().max(1) as u64;
                From::Number((self.random.value(value).wrapping_mul(count / 2) % count) as u32)
            }
            None => From::Shared,
        }
    }

    fn leaf_path<'s>(&'s mut self, set: &Set<'_>, number: u32) -> &'s CStr {
        set.tree.path_of(set.tree.leaf_directories[number as usize], &mut self.path);
        CStr::from_bytes_with_nul(&self.path).expect("paths end with one NUL")
    }

    fn leaf_failed(
        &mut self,
        what: &'static str,
        set: &Set<'_>,
        number: u32,
        error: rustix::io::Errno,
    ) -> FlowError {
        let root = set.path().to_owned();
        let path = root.join(&*self.leaf_path(set, number).to_string_lossy());
        FlowError::call(what, path.display().to_string(), error.into())
    }

    fn tree_of(&self, step: &Step<'p>) -> Result<(&'p Set<'p>, std::os::fd::BorrowedFd<'p>), FlowError> {
        let (_, set) = self.set_of(step)?;
        match set.directory() {
            Some(directory) => Ok((set, directory)),
            None => {
                Err(self.wrong(step.flowop, format!("needs directories, and {} is a device", set.plan.name)))
            }
        }
    }

    pub(crate) fn make_directory(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let (set, root) = self.tree_of(step)?;
        let (from, ending) = (self.leaf_from(step, set), self.shared.ending);
        let number = match set.leaf_directories.take_absent(from, &|| ending.is_over()) {
            Ok(number) => number,
            Err(starved) => return Ok(self.starved(step, set, "directory that does not exist yet", starved)),
        };
        let begin = Instant::now();
        let made = rustix::fs::mkdirat(root, self.leaf_path(set, number), Mode::from_raw_mode(0o755));
        self.record(step, begin, 0);
        match made {
            Ok(()) => set.leaf_directories.made(number, 0),
            Err(e) => {
                set.leaf_directories.not_made(number);
                return Err(self.leaf_failed("cannot create", set, number, e));
            }
        }
        Ok(Next::Step)
    }

    pub(crate) fn remove_directory(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let (set, root) = self.tree_of(step)?;
        let (from, ending) = (self.leaf_from(step, set), self.shared.ending);
        let number = match set.leaf_directories.take_existing(from, &|| ending.is_over()) {
            Ok(Some(number)) => number,
            Ok(None) => return Ok(Next::Step),
            Err(starved) => return Ok(self.starved(step, set, "existing directory", starved)),
        };
        let begin = Instant::now();
        let removed = rustix::fs::unlinkat(root, self.leaf_path(set, number), AtFlags::REMOVEDIR);
        self.record(step, begin, 0);
        set.leaf_directories.removed(number);
        removed.map_err(|e| self.leaf_failed("cannot remove", set, number, e))?;
        Ok(Next::Step)
    }

    /// Reads all names of a directory: opening, reading and closing is one operation.
    pub(crate) fn list_directory(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let (set, root) = self.tree_of(step)?;
        let count = set.tree.directories.len();
        let number = set.next_directory.fetch_add(1, Ordering::Relaxed) % count;
        let path: &str = match &*set.tree.directories[number] {
            "" => ".",
            path => path,
        };
        let failed = |e: rustix::io::Errno| {
            FlowError::call("cannot list", set.path().join(path).display().to_string(), e.into())
        };
        let mut memory = [MaybeUninit::uninit(); LIST_BYTES];
        let begin = Instant::now();
        let directory = rustix::fs::openat(
            root,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(failed)?;
        let mut bytes = 0;
        let mut entries = RawDir::new(&directory, &mut memory);
        while let Some(entry) = entries.next() {
            bytes += entry.map_err(failed)?.file_name().to_bytes().len() as u64;
        }
        drop(directory);
        self.record(step, begin, bytes);
        Ok(Next::Step)
    }
}
