//! The kernel's file systems for tracing: found where they are mounted, or mounted for as long as they are needed.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use nestor_kernel::mounts::{self, Line};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use nestor_trace::TraceError;

/// A mounted file system; unmounted at the end if it was mounted here.
pub(super) struct Mounted {
    pub path: PathBuf,
    ours: bool,
}

impl Mounted {
    /// debugfs, with blktrace's relay files. blktrace looks for it at this place only.
    pub fn debugfs() -> Result<Self, TraceError> {
        Self::at_least_once(c"debugfs", Path::new("/sys/kernel/debug"))
    }

    /// tracefs.
    pub fn tracefs() -> Result<Self, TraceError> {
        Self::at_least_once(c"tracefs", Path::new("/sys/kernel/tracing"))
    }

    fn at_least_once(kind: &CStr, usual: &Path) -> Result<Self, TraceError> {
        let name = kind.to_string_lossy();
        if let Some(path) = find(&name, usual) {
            return Ok(Self { path, ours: false });
        }
        mount(kind, usual, kind, MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None).map_err(|error| {
            let action = "mount the kernel's file system for tracing (which needs root and a kernel with tracefs) at";
            TraceError::io(action, usual)(error.into())
        })?;
        Ok(Self { path: usual.to_path_buf(), ours: true })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.ours {
            // Another recorder may use it meanwhile; then it stays, which does no harm.
            let _ = unmount(&self.path, UnmountFlags::empty());
        }
    }
}

/// Where a kind of file system is mounted, at its usual place if it is there.
pub(super) fn find(kind: &str, usual: &Path) -> Option<PathBuf> {
    let mounts = mounts::all().ok()?;
    let mut places = mounts.iter().filter(|mount| mount.kind == kind).map(Line::place);
    let first = places.next()?;
    if first == usual || places.any(|place| place == usual) { Some(usual.to_path_buf()) } else { Some(first) }
}
