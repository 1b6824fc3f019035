//! A frozen file system: everything is on the device, and no program writes until it thaws.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::freeze::{freeze, thaw};
use super::guard::Guard;
use super::mounts;

/// Thaws when it goes, whatever the reason; if this process is killed, its [`Guard`] does.
#[derive(Debug)]
pub(super) struct Frozen {
    directory: File,
    guard: Guard,
    thawed: bool,
}

impl Frozen {
    /// Freezes what is mounted at a directory from a device. Needs root.
    ///
    /// # Errors
    /// When something else is mounted there, or a part of this program or of the system would wait for it forever: it
    /// is the root, or holds this program or what it writes. When it cannot be frozen or is frozen already.
    pub(super) fn new(mount: &Path, device: &Path, output: Option<&Path>) -> Result<Self> {
        let shown = mount.display();
        let directory = File::open(mount).with_context(|| format!("{shown} could not be opened"))?;
        if !mounts::is_on(mount, device) {
            bail!(
                "{} is not mounted at {shown}; name its mount point, as findmnt shows it",
                device.display()
            );
        }
        let file_system = directory.metadata().with_context(|| format!("{shown} cannot be read"))?.dev();
        if let Some(why) = needed_here(file_system, output) {
            bail!("the file system at {shown} must not be frozen: {why}; unmount it and leave out --mount");
        }
        let mut guard = Guard::of(mount).with_context(|| {
            format!(
                "the process that would thaw {shown} if this program is killed could \
                                      not be started"
            )
        })?;
        let frozen = freeze(&directory);
        if frozen.is_err() {
            // Another program may have frozen it.
            guard.dismiss();
        }
        frozen.with_context(|| {
            format!(
                "the file system at {shown} could not be frozen (this needs root, and the file system \
                     must not be frozen already)"
            )
        })?;
        Ok(Self { directory, guard, thawed: false })
    }

    /// Thaws it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn thaw(mut self) -> Result<()> {
        self.release().context("the file system could not be thawed; thaw it with `fsfreeze --unfreeze`")
    }

    fn release(&mut self) -> io::Result<()> {
        self.thawed = true;
        let thawed = thaw(&self.directory);
        if thawed.is_ok() {
            self.guard.dismiss();
        }
        thawed
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if !self.thawed {
            // There is no caller left for an error.
            let _ = self.release();
        }
    }
}

/// Why a file system is needed while it would be frozen.
#[expect(clippy::disallowed_methods, reason = "the test prints nothing; it only inspects the options")]
fn needed_here(file_system: u64, output: Option<&Path>) -> Option<&'static str> {
    let is_there = |path: &Path| path.metadata().is_ok_and(|metadata| metadata.dev() == file_system);
    let stream =
        |stream: BorrowedFd<'_>| rustix::fs::fstat(stream).is_ok_and(|status| status.st_dev == file_system);
    let stdout = io::stdout();
    let stderr = io::stderr();
    if is_there(Path::new("/")) {
        return Some("it is the root of this system");
    }
    if is_there(Path::new("/proc/self/exe")) {
        return Some("this program is on it");
    }
    let directory = output.map(|output| output.parent().filter(|parent| *parent != Path::new("")));
    if directory.is_some_and(|directory| is_there(directory.unwrap_or(Path::new(".")))) {
        return Some("the layout would be written to it");
    }
    if stream(stdout.as_fd()) || stream(stderr.as_fd()) {
        return Some("the output of this program goes to it");
    }
    None
}
