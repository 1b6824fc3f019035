//! Opening, making, closing, removing, looking at files, and having them written.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use nestor_wml::{FileSet, FileSetKind, Flowop};
use rustix::fs::{Advice, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::FlowError;
use crate::pool::From;
use crate::program::Step;
use crate::sets::{Home, Set};
use crate::worker::{Next, Slot, Worker};

/// How a set's files are opened.
fn access(set: &FileSet) -> OFlags {
    match (set.read_only, set.write_only) {
        (true, _) => OFlags::RDONLY,
        (_, true) => OFlags::WRONLY,
        _ => OFlags::RDWR,
    }
}

/// What a flowop asks for beyond that.
fn manner(flowop: &Flowop) -> OFlags {
    let mut flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if flowop.synchronous {
        flags |= OFlags::SYNC;
    }
    if flowop.direct {
        flags |= OFlags::DIRECT;
    }
    flags
}

impl<'p> Worker<'_, 'p> {
    pub(crate) fn open_file(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let slot = self.slot_of(step.flowop);
        self.open_in(step, slot, true)
    }

    /// The file that `indexed` names, or the one whose turn it is.
    fn chosen(&mut self, flowop: &Flowop, set: &Set<'_>) -> From<'static> {
        match &flowop.index {
            Some(value) => {
                From::Number((self.random.value(value) % set.tree.files.len().max(1) as u64) as u32)
            }
            None => From::Shared,
        }
    }

    /// Opens an existing file in a slot that must be free. A file that is opened by the way, because an operation needs it, is
    /// not counted: in Filebench it is, among reads or writes.
    fn open_in(&mut self, step: &Step<'p>, slot: usize, counted: bool) -> Result<Next, FlowError> {
        let flowop = step.flowop;
        let (index, set) = self.set_of(step)?;
        if self.slots[slot].file.is_some() {
            return Err(self
                .wrong(flowop, format!("opens a file on fd={slot}, which is open already: close it first")));
        }
        if let Home::Device { path, .. } = &set.home {
            // The user named it, perhaps by a link (/dev/disk/by-id).
            let flags = access(set.plan) | manner(flowop).difference(OFlags::NOFOLLOW);
            let file = rustix::fs::open(path, flags, Mode::empty())
                .map_err(|e| FlowError::call("cannot open", path.display().to_string(), e.into()))?;
            self.advise(flowop, &file)?;
            self.slots[slot] = Slot { file: Some(file), entry: None, position: 0 };
            return Ok(Next::Step);
        }
        let ending = self.shared.ending;
        let ended = || ending.is_over();
        let chosen = match self.chosen(flowop, set) {
            From::Shared if flowop.rotate => set.files.open(From::Own(&self.own_turns[index]), &ended),
            from => set.files.open(from, &ended),
        };
        let number = match chosen {
            Ok(number) => number,
            Err(_) if set.plan.kind == FileSetKind::File && !set.plan.read_only => {
                return self.open_new(step, slot, index, set);
            }
            Err(starved) => return Ok(self.starved(step, set, "existing file", starved)),
        };
        let begin = Instant::now();
        let opened = self.open_path(set, number, access(set.plan) | manner(flowop));
        if counted {
            self.record(step, begin, 0);
        }
        match opened {
            Ok(file) => {
                self.advise(flowop, &file)?;
                self.slots[slot] = Slot { file: Some(file), entry: Some((index, number)), position: 0 };
                Ok(Next::Step)
            }
            Err(e) => {
                set.files.release(number);
                Err(self.failed("cannot open", set, number, e))
            }
        }
    }

    /// A `file` that was not made before comes into being when it is first used, as in the first versions of Filebench.
    fn open_new(
        &mut self,
        step: &Step<'p>,
        slot: usize,
        index: usize,
        set: &'p Set<'p>,
    ) -> Result<Next, FlowError> {
        let ending = self.shared.ending;
        let Ok(number) = set.files.take_absent(From::Shared, &|| ending.is_over()) else {
            // Another thread was quicker.
            return if ending.is_over() { Ok(Next::Over) } else { self.open_in(step, slot, false) };
        };
        match self.open_path(set, number, access(set.plan) | manner(step.flowop) | OFlags::CREATE) {
            Ok(file) => {
                set.files.made(number, 1);
                self.slots[slot] = Slot { file: Some(file), entry: Some((index, number)), position: 0 };
                Ok(Next::Step)
            }
            Err(e) => {
                set.files.not_made(number);
                Err(self.failed("cannot create", set, number, e))
            }
        }
    }

    fn advise(&self, flowop: &Flowop, file: &OwnedFd) -> Result<(), FlowError> {
        if flowop.no_read_ahead {
            rustix::fs::fadvise(file, 0, None, Advice::Random).map_err(|e| {
                FlowError::call("cannot switch off read-ahead of", flowop.name.clone(), e.into())
            })?;
        }
        Ok(())
    }

    fn open_path(&mut self, set: &Set<'_>, number: u32, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (directory, path) = self.path_to(set, number);
        rustix::fs::openat(directory, path, flags, Mode::from_raw_mode(0o666))
    }

    /// The open directory of a set and the path of a file below it.
    fn path_to<'s>(&'s mut self, set: &'s Set<'_>, number: u32) -> (std::os::fd::BorrowedFd<'s>, &'s CStr) {
        set.tree.path_of(set.tree.files[number as usize], &mut self.path);
        let directory = set.directory().expect("only sets in directories have numbered files");
        (directory, CStr::from_bytes_with_nul(&self.path).expect("paths end with one NUL"))
    }

    /// A system call on a file of a set failed.
    pub(crate) fn failed(
        &mut self,
        what: &'static str,
        set: &Set<'_>,
        number: u32,
        error: Errno,
    ) -> FlowError {
        let root = set.path().to_owned();
        let (_, path) = self.path_to(set, number);
        FlowError::call(what, root.join(&*path.to_string_lossy()).display().to_string(), error.into())
    }

    /// A system call on an open file failed.
    pub(crate) fn failed_in(&mut self, what: &'static str, slot: usize, error: Errno) -> FlowError {
        match self.slots[slot].entry {
            Some((index, number)) => {
                let set = &self.shared.sets[index];
                self.failed(what, set, number, error)
            }
            None => FlowError::call(what, "the device".to_owned(), error.into()),
        }
    }

    pub(crate) fn create_file(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let flowop = step.flowop;
        let slot = self.slot_of(flowop);
        let (index, set) = self.set_of(step)?;
        if self.slots[slot].file.is_some() {
            return Err(self
                .wrong(flowop, format!("makes a file on fd={slot}, which is open already: close it first")));
        }
        if set.directory().is_none() {
            return Err(self
                .wrong(flowop, format!("cannot make files in {}, which is a block device", set.plan.name)));
        }
        let from = self.chosen(flowop, set);
        let ending = self.shared.ending;
        let number = match set.files.take_absent(from, &|| ending.is_over()) {
            Ok(number) => number,
            Err(starved) => return Ok(self.starved(step, set, "file that does not exist yet", starved)),
        };
        let flags = access(set.plan) | manner(flowop) | OFlags::CREATE;
        let begin = Instant::now();
        let opened = self.open_path(set, number, flags);
        self.record(step, begin, 0);
        match opened {
            Ok(file) => {
                set.files.made(number, 1);
                self.advise(flowop, &file)?;
                self.slots[slot] = Slot { file: Some(file), entry: Some((index, number)), position: 0 };
                Ok(Next::Step)
            }
            Err(e) => {
                set.files.not_made(number);
                Err(self.failed("cannot create", set, number, e))
            }
        }
    }

    pub(crate) fn close_file(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let slot = self.slot_of(step.flowop);
        self.settle(slot)?;
        let Some(file) = self.slots[slot].file.take() else {
            return Err(self.wrong(step.flowop, format!("closes fd={slot}, which is not open")));
        };
        let begin = Instant::now();
        drop(file);
        self.record(step, begin, 0);
        // Which file it was is remembered: `deletefile` with the same fd means it.
        if let Some((index, number)) = self.slots[slot].entry {
            self.shared.sets[index].files.release(number);
        }
        Ok(Next::Step)
    }

    pub(crate) fn delete_file(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let flowop = step.flowop;
        let slot = self.slot_of(flowop);
        self.settle(slot)?;
        let (set, number) = match self.slots[slot].entry.filter(|_| slot > 0) {
            Some((index, number)) => {
                self.slots[slot].entry = None;
                let own = u32::from(self.slots[slot].file.is_some());
                let set = &self.shared.sets[index];
                if !set.files.take_this(number, own) {
                    return Ok(Next::Step);
                }
                (set, number)
            }
            None => {
                let (_, set) = self.set_of(step)?;
                if set.directory().is_none() {
                    let problem = format!("cannot remove {}, which is a block device", set.plan.name);
                    return Err(self.wrong(flowop, problem));
                }
                let from = self.chosen(flowop, set);
                let ending = self.shared.ending;
                match set.files.take_existing(from, &|| ending.is_over()) {
                    Ok(Some(number)) => (set, number),
                    // Others have it open: it is left, and that is no operation.
                    Ok(None) => return Ok(Next::Step),
                    Err(starved) => return Ok(self.starved(step, set, "existing file", starved)),
                }
            }
        };
        let begin = Instant::now();
        let (directory, path) = self.path_to(set, number);
        let removed = rustix::fs::unlinkat(directory, path, AtFlags::empty());
        self.record(step, begin, 0);
        set.files.removed(number);
        removed.map_err(|e| self.failed("cannot remove", set, number, e))?;
        Ok(Next::Step)
    }

    pub(crate) fn stat_file(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let flowop = step.flowop;
        let slot = self.slot_of(flowop);
        if slot > 0 && self.slots[slot].file.is_some() {
            let begin = Instant::now();
            let looked = self.slots[slot].file.as_ref().map_or(Err(Errno::BADF), rustix::fs::fstat);
            self.record(step, begin, 0);
            looked.map_err(|e| self.failed_in("cannot look at", slot, e))?;
            return Ok(Next::Step);
        }
        let (_, set) = self.set_of(step)?;
        if set.directory().is_none() {
            return Err(
                self.wrong(flowop, format!("cannot look up {}, which is a block device", set.plan.name))
            );
        }
        let from = self.chosen(flowop, set);
        let ending = self.shared.ending;
        let number = match set.files.open(from, &|| ending.is_over()) {
            Ok(number) => number,
            Err(starved) => return Ok(self.starved(step, set, "existing file", starved)),
        };
        let begin = Instant::now();
        let (directory, path) = self.path_to(set, number);
        let looked = rustix::fs::statat(directory, path, AtFlags::empty());
        self.record(step, begin, 0);
        set.files.release(number);
        looked.map_err(|e| self.failed("cannot look at", set, number, e))?;
        Ok(Next::Step)
    }

    pub(crate) fn fsync(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let slot = self.slot_of(step.flowop);
        let Some(file) = &self.slots[slot].file else {
            return Err(self.wrong(step.flowop, format!("syncs fd={slot}, which is not open")));
        };
        let begin = Instant::now();
        let synced = rustix::fs::fsync(file);
        self.record(step, begin, 0);
        synced.map_err(|e| self.failed_in("cannot sync", slot, e))?;
        Ok(Next::Step)
    }

    /// Syncs every file of the set that this thread has open.
    pub(crate) fn fsync_set(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        let (index, _) = self.set_of(step)?;
        for slot in 0..self.slots.len() {
            let Slot { file: Some(file), entry: Some((of, _)), .. } = &self.slots[slot] else { continue };
            if *of == index {
                let begin = Instant::now();
                let synced = rustix::fs::fsync(file);
                self.record(step, begin, 0);
                synced.map_err(|e| self.failed_in("cannot sync", slot, e))?;
            }
        }
        Ok(Next::Step)
    }

    /// The open file of a flowop that reads or writes; opened if it is not.
    pub(crate) fn file_of(&mut self, step: &Step<'p>) -> Result<Result<usize, Next>, FlowError> {
        let flowop = step.flowop;
        let slot = self.slot_of(flowop);
        if let (true, Some((index, _)), Some(wanted)) = (slot > 0, self.slots[slot].entry, flowop.file_set)
            && self.slots[slot].file.is_some()
            && index != wanted
        {
            let names = |i: usize| self.shared.sets[i].plan.name.as_str();
            return Err(self.wrong(
                flowop,
                format!(
                    "names {}, but fd={slot} is a file of {}: remove one of them",
                    names(wanted),
                    names(index)
                ),
            ));
        }
        if self.slots[slot].file.is_none() {
            if flowop.file_set.is_none() {
                return Err(self.wrong(flowop, format!("uses fd={slot}, which is not open: open it first")));
            }
            match self.open_in(step, slot, false)? {
                Next::Step => {}
                other => return Ok(Err(other)),
            }
        }
        Ok(Ok(slot))
    }

    /// Bytes of the file in a slot, as it was made.
    pub(crate) fn file_bytes(&self, slot: usize, step: &Step<'_>) -> u64 {
        match self.slots[slot].entry {
            Some((index, number)) => self.shared.sets[index].tree.file_bytes[number as usize],
            None => step.flowop.file_set.map_or(0, |index| match &self.shared.sets[index].home {
                Home::Device { bytes, .. } => *bytes,
                Home::Directory { .. } => 0,
            }),
        }
    }

    /// The descriptor in a slot that was opened before.
    pub(crate) fn descriptor(&self, slot: usize) -> &OwnedFd {
        self.slots[slot].file.as_ref().expect("opened by `file_of`")
    }
}

/// Allows as many open files as the machine does.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit { current: now.maximum, maximum: now.maximum };
    // Without it, opening fails with a message that names the limit.
    let _ = setrlimit(Resource::Nofile, most);
    // Root may raise the hard limit as well, up to the kernel's.
    let kernels =
        std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok());
    if let Some(kernels) = kernels {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(kernels), maximum: Some(kernels) });
    }
}
