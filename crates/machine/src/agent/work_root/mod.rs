//! Where agents have their work directories: made where no other user can plant one, and checked before anything in them
//! is trusted.
//!
//! ```text
//! <root>/                    this user's, mode 0700, not a link
//! <root>/<process>/          one run's, likewise
//! <root>/<process>/lock      held for as long as the run's agent lives
//! <root>/<process>/ledger.json
//! ```
//!
//! Everything in a root is reached from its open directory (`openat`), never through a link.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, mkdirat, openat, renameat,
    statat,
};
use rustix::io::Errno;

use nestor_kernel::mounts::mounted_below;
use nestor_ownership::{self as ownership, Above, Distrust, NotMade, PUBLIC_PLACE, WORK_VARIABLE};

/// Held by the agent whose run directory it is in; beside the ledger, because that is replaced whenever it changes.
const LOCK_FILE: &str = "lock";

/// The longest path of a root, in bytes: a socket's has at most 107 (`sun_path`, unix(7)), and run directory, machine and
/// socket take up to 30.
const MAX_ROOT_BYTES: usize = 75;

/// Why a root or a run's directory in it is not used.
#[derive(Debug, thiserror::Error)]
pub enum WorkRootError {
    /// It is not this user's alone.
    #[error(
        "{0}; nothing in it was trusted or changed. Set {WORK_VARIABLE} to a directory of your own, or have that directory removed"
    )]
    NotOurs(#[from] Distrust),
    /// Others may read or write it.
    #[error(
        "{} is open to other users (mode {mode:04o}, not 0700); nothing in it was trusted or changed. Remove it, or \
         run `chmod 700` on it if no other user wrote to it, or set {WORK_VARIABLE} to another directory",
        .path.display()
    )]
    Open {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Sockets in it would have paths that are too long.
    #[error(
        "{} is too long for the paths of sockets in it ({} bytes, at most {MAX_ROOT_BYTES}); set {WORK_VARIABLE} to a \
         directory with a shorter path",
        .path.display(), .path.as_os_str().len()
    )]
    TooLong {
        /// The directory.
        path: PathBuf,
    },
    /// The system refuses.
    #[error(
        "{} cannot be used as a work directory: {source}; set {WORK_VARIABLE} to a directory that you may write to, with 4 \
         GiB free",
        .path.display()
    )]
    System {
        /// The directory.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

/// The directory below which agents of this user have their work directories: `nestor-UID` in `$NESTOR_WORK`; else
/// `nestor/work` in the user's cache directory, if that is his own; else `/var/tmp/nestor-UID`.
pub fn work_root() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    root_from(variable, is_own)
}

fn root_from(variable: impl Fn(&str) -> Option<PathBuf>, is_own: impl Fn(&Path) -> bool) -> PathBuf {
    let name = format!("nestor-{}", ownership::user());
    if let Some(place) = variable(WORK_VARIABLE) {
        return place.join(name);
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache
        .map(|cache| cache.join("nestor/work"))
        .filter(|root| root.is_absolute() && root.as_os_str().len() <= MAX_ROOT_BYTES && is_own(root))
        .unwrap_or_else(|| Path::new(PUBLIC_PLACE).join(name))
}

/// Whether the nearest directory above that is there belongs to this user; `/` is not a user's home.
fn is_own(path: &Path) -> bool {
    let above = path.ancestors().find_map(|above| Some((above, fs::metadata(above).ok()?)));
    above.is_some_and(|(above, metadata)| {
        use std::os::unix::fs::MetadataExt;
        metadata.is_dir() && metadata.uid() == ownership::user() && above != Path::new("/")
    })
}

/// The open root.
#[derive(Debug)]
pub struct WorkRoot {
    path: PathBuf,
    directory: OwnedFd,
}

/// Flags for a directory that is not a link.
const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// Flags that every file gets: not through a link, and not waiting if it is a pipe.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl WorkRoot {
    /// The root at `path`, made if it is not there.
    ///
    /// # Errors
    /// It is not this user's alone, or another user could replace it, or it cannot be made.
    pub fn make(path: &Path) -> Result<Self, WorkRootError> {
        // Before anything is made, how long it is.
        let Above { directory: above, path } = ownership::make_above(&place_of(path)?)?;
        let name = Path::new(path.file_name().unwrap_or_default());
        match mkdirat(&above, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(system(&path, e.into())),
        }
        let directory = open_private(&above, name, &path)?;
        Ok(Self { path, directory })
    }

    /// The root at `path`, or `None` if it does not exist.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn open(path: &Path) -> Result<Option<Self>, WorkRootError> {
        let path = place_of(path)?;
        match statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(e) => return Err(system(&path, e.into())),
            Ok(_) => {}
        }
        let directory = open_private(&CWD, &path, &path)?;
        Ok(Some(Self { path, directory }))
    }

    /// Where it is, without a link in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new run directory, named after this process, and locked.
    ///
    /// # Errors
    /// The system refuses; some network file systems do not support locks.
    pub fn make_run(&self) -> Result<RunDirectory, WorkRootError> {
        let pid = std::process::id();
        let names = std::iter::once(pid.to_string()).chain((1..).map(|n: u64| format!("{pid}-{n}")));
        // A directory of this number is another agent's: a dead one's, or a living one's of another pid namespace.
        for name in names {
            match mkdirat(&self.directory, &name, Mode::RWXU) {
                Ok(()) => return self.open_run(&name)?.locked(),
                Err(Errno::EXIST) => {}
                Err(e) => {
                    return Err(WorkRootError::System { path: self.path.join(name), source: e.into() });
                }
            }
        }
        unreachable!("there are more names than directories")
    }

    /// An existing run directory.
    ///
    /// # Errors
    /// It is not this user's alone.
    pub fn open_run(&self, name: &str) -> Result<RunDirectory, WorkRootError> {
        let path = self.path.join(name);
        let directory = open_private(&self.directory, Path::new(name), &path)?;
        let root = self.directory.try_clone().map_err(|e| system(&path, e))?;
        Ok(RunDirectory { path, name: name.to_owned(), directory, root, lock: None })
    }

    /// Names of all directories in it, sorted.
    pub fn runs(&self) -> Vec<String> {
        let Ok(entries) = Dir::read_from(&self.directory) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != "..")
            .filter(|name| {
                statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
            })
            .collect();
        names.sort();
        names
    }
}

/// The open work directory of one run.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    name: String,
    directory: OwnedFd,
    root: OwnedFd,
    lock: Option<File>,
}

impl RunDirectory {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As it was opened.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    fn locked(mut self) -> Result<Self, WorkRootError> {
        let failed = |source: io::Error| {
            let source = match source.raw_os_error() {
                Some(code)
                    if code == Errno::NOLCK.raw_os_error() || code == Errno::OPNOTSUPP.raw_os_error() =>
                {
                    io::Error::other("its file system has no locks")
                }
                _ => source,
            };
            system(&self.path, source)
        };
        let flags = FILE | OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let lock = openat(&self.directory, LOCK_FILE, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| failed(e.into()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|e| failed(e.into()))?;
        self.lock = Some(lock.into());
        Ok(self)
    }

    /// Takes the lock that a living agent holds. `None` if the lock file does not exist.
    ///
    /// # Errors
    /// A living agent has it, or it cannot be taken.
    pub(super) fn take_lock(&mut self) -> Result<Option<()>, Errno> {
        let lock = match openat(&self.directory, LOCK_FILE, FILE | OFlags::RDWR, Mode::empty()) {
            Ok(lock) => lock,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(e),
        };
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        self.lock = Some(lock.into());
        Ok(Some(()))
    }

    /// A file in it that is this user's alone, to be read; `None` if it does not exist.
    ///
    /// # Errors
    /// It is another user's, or a link, or cannot be opened.
    pub(super) fn open_file(&self, name: &str) -> Result<Option<File>, WorkRootError> {
        let path = self.path.join(name);
        let file = match openat(&self.directory, name, FILE | OFlags::RDONLY, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(Distrust::Kind { path, wanted: "a file" }.into()),
            Err(e) => return Err(system(&path, e.into())),
        };
        let stat = fstat(&file).map_err(|e| system(&path, e.into()))?;
        check(&path, &stat, FileType::RegularFile)?;
        Ok(Some(file.into()))
    }

    /// Replaces a file in it, whole or not at all.
    pub(super) fn replace_file(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        let partial = format!("{name}.partial");
        let flags = FILE | OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY;
        let mut file = File::from(openat(&self.directory, &partial, flags, Mode::RUSR | Mode::WUSR)?);
        io::Write::write_all(&mut file, contents)?;
        Ok(renameat(&self.directory, &partial, &self.directory, name)?)
    }

    /// Removes it with everything in it, unless something is mounted in it: that would lose what it holds, or take it from who
    /// mounted it in another mount namespace.
    ///
    /// # Errors
    /// Something in it could not be removed, or a mount of unknown origin is in it.
    pub fn remove(&self) -> io::Result<()> {
        if let Some(place) = mounted_below(&self.path)? {
            return Err(io::Error::other(format!(
                "something is mounted at {}, as this or another mount namespace names it (`findmnt --task PID`)",
                place.display()
            )));
        }
        // From the open root on: whatever now is where the root was is another one.
        fs::remove_dir_all(format!("/proc/self/fd/{}/{}", self.root.as_raw_fd(), self.name))
    }
}

/// The real path of a root, if no other user can replace it.
fn place_of(path: &Path) -> Result<PathBuf, WorkRootError> {
    let path = ownership::above(path)?;
    if path.as_os_str().len() > MAX_ROOT_BYTES { Err(WorkRootError::TooLong { path }) } else { Ok(path) }
}

impl From<NotMade> for WorkRootError {
    fn from(error: NotMade) -> Self {
        match error {
            NotMade::NotOurs(distrust) => distrust.into(),
            NotMade::System { path, source } => Self::System { path, source },
        }
    }
}

fn system(path: &Path, source: io::Error) -> WorkRootError {
    WorkRootError::System { path: path.to_owned(), source }
}

/// Opens a directory that is not a link, this user's, and closed to all others.
fn open_private(at: &impl AsFd, name: &Path, path: &Path) -> Result<OwnedFd, WorkRootError> {
    // Looked at first, so that the error for a directory that may not be opened names its owner.
    let stat = statat(at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| system(path, e.into()))?;
    check(path, &stat, FileType::Directory)?;
    let directory = openat(at, name, DIRECTORY, Mode::empty()).map_err(|e| system(path, e.into()))?;
    let stat = fstat(&directory).map_err(|e| system(path, e.into()))?;
    check(path, &stat, FileType::Directory)?;
    Ok(directory)
}

fn check(path: &Path, stat: &Stat, kind: FileType) -> Result<(), WorkRootError> {
    let path = path.to_owned();
    if stat.st_uid != ownership::user() {
        return Err(Distrust::Owner { path, owner: stat.st_uid }.into());
    }
    if FileType::from_raw_mode(stat.st_mode) != kind {
        let wanted = if kind == FileType::Directory { "a directory" } else { "a file" };
        return Err(Distrust::Kind { path, wanted }.into());
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        return Err(WorkRootError::Open { path, mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
