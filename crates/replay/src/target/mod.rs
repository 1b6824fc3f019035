//! What a trace is replayed on: a device, a file, a file made for it, or nothing.

mod fill;
mod in_use;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nestor_trace::event::SECTOR_BYTES;
use rustix::fs::{AtFlags, StatxFlags, ioctl_blksszget, statx};
use serde::{Deserialize, Serialize};

use crate::error::ReplayError;
use crate::watcher::Watcher;

/// The name of a file that is made in a directory.
pub const MADE_NAME: &str = "nestor-replay.data";

/// How to open a target.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions {
    /// Whether the replay writes; see [`ReplayPlan::writes`](crate::ReplayPlan::writes).
    pub writes: bool,
    /// Targets that may be overwritten, named exactly as the target is.
    pub overwrite: Vec<PathBuf>,
    /// Through the page cache.
    pub buffered: bool,
    /// In a directory: the size of the file to make.
    pub made_bytes: u64,
    /// Remove the file that was made in a directory when the target is closed.
    pub remove: bool,
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// A block device.
    Device,
    /// A file that was there.
    File,
    /// A file that was made for the replay.
    MadeFile,
    /// Nothing: requests are not sent.
    Nothing,
}

/// An open target.
#[derive(Debug)]
pub struct Target {
    kind: TargetKind,
    path: PathBuf,
    file: Option<File>,
    size_bytes: u64,
    block_bytes: u64,
    direct: bool,
    remove: bool,
    remarks: Vec<String>,
}

impl Target {
    /// Opens a device or file, or makes a file in a directory.
    ///
    /// # Errors
    /// It is not there, is in use, or would be overwritten and was not named for that; there is no room for the file.
    pub fn open(path: &Path, options: &TargetOptions, watcher: &dyn Watcher) -> Result<Self, ReplayError> {
        let metadata = path.metadata().map_err(|source| {
            let refused = |why: &str| ReplayError::Refused { path: path.to_path_buf(), why: why.to_owned() };
            match source.kind() {
                ErrorKind::NotFound => refused(
                    "there is no such device or file; name a device (`lsblk` lists them), or a directory, \
                     in which a file is made",
                ),
                _ => ReplayError::io("look at", path)(source),
            }
        })?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Self::make(&path.join(MADE_NAME), options, watcher);
        }
        if !kind.is_block_device() && !kind.is_file() {
            let why =
                "it is neither a block device nor a file; name one, or a directory in which a file is made";
            return Err(ReplayError::Refused { path: path.to_path_buf(), why: why.to_owned() });
        }
        if options.writes {
            may_overwrite(path, kind.is_block_device(), &options.overwrite)?;
            match kind.is_block_device() {
                true => in_use::refuse_device(path, metadata.rdev())?,
                false => in_use::refuse_loop_file(path)?,
            }
        }
        let kind = if kind.is_block_device() { TargetKind::Device } else { TargetKind::File };
        Self::of_file(path, kind, options)
    }

    /// A target of a size to which nothing is sent: what is left is how exactly times are kept.
    pub fn nothing(size_bytes: u64) -> Self {
        Self {
            kind: TargetKind::Nothing,
            path: PathBuf::from("nothing"),
            file: None,
            size_bytes,
            block_bytes: SECTOR_BYTES,
            direct: false,
            remove: false,
            remarks: Vec::new(),
        }
    }

    fn make(path: &Path, options: &TargetOptions, watcher: &dyn Watcher) -> Result<Self, ReplayError> {
        fill::make(path, options.made_bytes, watcher)?;
        Self::of_file(path, TargetKind::MadeFile, options).inspect_err(|_| {
            // This call made it, so it holds no data.
            let _ = std::fs::remove_file(path);
        })
    }

    fn of_file(path: &Path, kind: TargetKind, options: &TargetOptions) -> Result<Self, ReplayError> {
        let is_device = kind == TargetKind::Device;
        let open = |flags: i32| {
            let exclusive = match kind {
                TargetKind::Device if options.writes => libc::O_EXCL,
                // Made a moment ago, as a file.
                TargetKind::MadeFile => libc::O_NOFOLLOW,
                _ => 0,
            };
            OpenOptions::new().read(true).write(options.writes).custom_flags(flags | exclusive).open(path)
        };
        let mut remarks = Vec::new();
        let opened = match open(if options.buffered { 0 } else { libc::O_DIRECT }) {
            Ok(file) => Ok((file, !options.buffered)),
            // Some file systems have no direct I/O.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !options.buffered => {
                remarks.push(
                    "the file system does not support direct I/O: requests go through the page cache"
                        .to_owned(),
                );
                open(0).map(|file| (file, false))
            }
            Err(error) => Err(error),
        };
        let (mut file, direct) = opened.map_err(|error| busy_or(error, path, is_device))?;
        let size_bytes = file.seek(SeekFrom::End(0)).map_err(ReplayError::io("find the size of", path))?;
        let block_bytes = match (direct, is_device) {
            (false, _) => SECTOR_BYTES,
            (true, true) => u64::from(
                ioctl_blksszget(&file)
                    .map_err(|error| ReplayError::io("find the block size of", path)(error.into()))?,
            ),
            (true, false) => direct_alignment(&file),
        };
        if options.buffered {
            remarks.push("through the page cache: latencies are mostly those of memory".to_owned());
        }
        let remove = options.remove && kind == TargetKind::MadeFile;
        Ok(Self {
            kind,
            path: path.to_path_buf(),
            file: Some(file),
            size_bytes,
            block_bytes,
            direct,
            remove,
            remarks,
        })
    }

    /// What it is.
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// What it is called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The unit of its requests.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Whether requests go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// What belongs beside the result.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Removes the file when this is closed, if it was made for the replay.
    pub fn remove_when_closed(&mut self) {
        self.remove = self.kind == TargetKind::MadeFile;
    }

    /// Whether the file at the path is the one that is open, and not another that took its place.
    fn is_still_there(&self) -> bool {
        let open = self.file.as_ref().and_then(|file| file.metadata().ok());
        let there = self.path.symlink_metadata().ok();
        open.zip(there).is_some_and(|(open, there)| (open.dev(), open.ino()) == (there.dev(), there.ino()))
    }

    /// The open file, if it is one.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.remove && self.is_still_there() {
            // It does not matter if it was removed before.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Refuses to overwrite what was not named for it.
fn may_overwrite(path: &Path, is_device: bool, overwrite: &[PathBuf]) -> Result<(), ReplayError> {
    if overwrite.iter().any(|named| named == path) {
        return Ok(());
    }
    let what = if is_device { "device" } else { "file" };
    let why = format!(
        "the trace has writes, which would destroy the contents of the {what}; nothing was written. If you \
         can lose all of it, use `--overwrite {}`",
        path.display()
    );
    Err(ReplayError::Refused { path: path.to_path_buf(), why })
}

fn busy_or(error: io::Error, path: &Path, is_device: bool) -> ReplayError {
    if is_device && error.raw_os_error() == Some(libc::EBUSY) {
        return in_use::busy(path);
    }
    ReplayError::io("open", path)(error)
}

/// The unit of direct I/O on a file; 512 where the kernel does not tell (before 6.1): a request that does not fit then
/// fails with a message of its own.
fn direct_alignment(file: &File) -> u64 {
    let known = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let known = known.map(|found| u64::from(found.stx_dio_offset_align));
    known.filter(|bytes| *bytes >= SECTOR_BYTES && bytes.is_power_of_two()).unwrap_or(SECTOR_BYTES)
}
