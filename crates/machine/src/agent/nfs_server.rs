//! Ending the kernel's NFS server that was started for one export, also by a later process.
//!
//! The server is started only where none runs and nothing is exported. As long as the export is there, it is that server; one without it is another's.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use nestor_kernel::mounts;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde::{Deserialize, Serialize};

use super::undoing::By;
use crate::nfs_export::{EXPORTED, NfsExport};
use crate::not_undone::NotUndone;

/// Where the server is controlled, and the file system there.
const CONTROL: &str = "/proc/fs/nfsd";
const CONTROL_KIND: &str = "nfsd";

/// What the kernel says of its server; there is none without the module `nfsd` (`nfsd_proc_ops` in fs/nfsd/stats.c).
const COUNTERS: &str = "/proc/net/rpc/nfsd";

/// Seconds that the kernel keeps from one server to the next; they can be written while none runs (`__nfsd4_write_time` in
/// fs/nfsd/nfsctl.c). They are there while the file system `nfsd` is mounted.
const TIMES: [&str; 2] = ["/proc/fs/nfsd/nfsv4leasetime", "/proc/fs/nfsd/nfsv4gracetime"];

/// What a kernel without a server keeps for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTimes([Option<u32>; 2]);

impl ServerTimes {
    /// What it keeps now; nothing without version 4.
    pub(super) fn now() -> Self {
        Self(TIMES.map(|path| fs::read_to_string(path).ok()?.trim().parse().ok()))
    }

    fn set_back(&self) -> io::Result<()> {
        for (path, seconds) in TIMES.iter().zip(self.0) {
            let Some(seconds) = seconds else { continue };
            match fs::OpenOptions::new().write(true).open(path) {
                Ok(mut file) => io::Write::write_all(&mut file, format!("{seconds}\n").as_bytes())?,
                // They are gone with the kernel's module or the mount.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Whether the file system is mounted by which the server is controlled.
///
/// # Errors
/// The mounts cannot be listed.
pub(super) fn is_controlled() -> io::Result<bool> {
    let is_it = |line: &mounts::Line| line.kind == CONTROL_KIND && line.place() == Path::new(CONTROL);
    Ok(mounts::all()?.iter().any(is_it))
}

/// Mounts it.
///
/// # Errors
/// The kernel does not.
pub(super) fn mount_control() -> io::Result<()> {
    Ok(mount(CONTROL_KIND, CONTROL, CONTROL_KIND, MountFlags::empty(), None)?)
}

/// Ends the server, unless something else is exported by now, and withdraws the export, in this order: what fails can be tried again.
/// At last unmounts what controls servers, if that was mounted for this one and none runs: it shows the kernel's own state, so no other
/// program misses what was mounted there in particular.
///
/// # Errors
/// The server has other exports, or does not end.
pub(super) fn end(
    export: &NfsExport,
    former: &ServerTimes,
    is_control_ours: bool,
    by: By,
) -> Result<(), NotUndone> {
    end_server(export, former, by)?;
    if !is_control_ours || threads() > 0 || !is_controlled().unwrap_or(false) {
        return Ok(());
    }
    unmount(CONTROL, UnmountFlags::empty())
        .map_err(|e| NotUndone::Mount { target: CONTROL.to_owned(), error: e.into() })
}

fn end_server(export: &NfsExport, former: &ServerTimes, by: By) -> Result<(), NotUndone> {
    let failed = |said: String| NotUndone::NfsServer { export: export.to_string(), said };
    let exports = exported().map_err(|e| failed(format!("{EXPORTED}: {e}")))?;
    let steps = Steps::of(&exports, export, threads() > 0, matches!(by, By::Maker));
    if steps.end {
        run(&["rpc.nfsd", "0"]).map_err(failed)?;
        former.set_back().map_err(|e| failed(format!("its times could not be set back: {e}")))?;
    }
    if steps.withdraw {
        run(&["exportfs", "-u", &export.to_string()]).map_err(failed)?;
    }
    match steps.leave {
        Some(others) => Err(NotUndone::NfsServerLeft { export: export.to_string(), others }),
        None => Ok(()),
    }
}

/// What is to be done, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Steps {
    /// The server ends.
    end: bool,
    /// The export is withdrawn.
    withdraw: bool,
    /// The server is left to so many other exports.
    leave: Option<usize>,
}

impl Steps {
    /// `knows`: this process has started the server, so it is not another's although its export is not listed.
    fn of(exports: &[NfsExport], export: &NfsExport, runs: bool, knows: bool) -> Self {
        let others = exports.iter().filter(|found| *found != export).count();
        let withdraw = others < exports.len();
        let is_ours = runs && (withdraw || knows);
        Self { end: is_ours && others == 0, withdraw, leave: (is_ours && others > 0).then_some(others) }
    }
}

/// Threads of the server (`nfsd_show` in fs/nfsd/stats.c, the line `th`).
pub(super) fn threads() -> u32 {
    threads_in(&fs::read_to_string(COUNTERS).unwrap_or_default())
}

fn threads_in(counters: &str) -> u32 {
    let line = counters.lines().find_map(|line| line.strip_prefix("th "));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn exported() -> io::Result<Vec<NfsExport>> {
    match fs::read_to_string(EXPORTED) {
        Ok(text) => Ok(NfsExport::list(&text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Runs a tool of the server; what it says if it fails.
fn run(argv: &[&str]) -> Result<(), String> {
    match Command::new(argv[0]).args(&argv[1..]).env("LC_ALL", "C").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(e) => Err(format!("{}: {e}", argv[0])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_has_this_export_and_no_other_is_ended() {
        let export = |path: &str| NfsExport { client: "198.18.1.2".to_owned(), path: path.to_owned() };
        let (ours, others) = (export("/work/1"), export("/srv"));
        let both = [others.clone(), ours.clone()];
        let alone = std::slice::from_ref(&ours);
        for knows in [true, false] {
            assert_eq!(
                Steps::of(alone, &ours, true, knows),
                Steps { end: true, withdraw: true, leave: None }
            );
            assert_eq!(Steps::of(alone, &ours, false, knows), Steps { withdraw: true, ..Steps::default() });
            let left = Steps { withdraw: true, leave: Some(1), end: false };
            assert_eq!(Steps::of(&both, &ours, true, knows), left);
            assert_eq!(Steps::of(&[], &ours, false, knows), Steps::default());
        }
        // Without its export, a server is another's, unless this process has started it.
        assert_eq!(Steps::of(&[], &ours, true, false), Steps::default());
        assert_eq!(Steps::of(std::slice::from_ref(&others), &ours, true, false), Steps::default());
        assert_eq!(Steps::of(&[], &ours, true, true), Steps { end: true, ..Steps::default() });
        assert_eq!(Steps::of(&[others], &ours, true, true), Steps { leave: Some(1), ..Steps::default() });
    }

    #[test]
    fn threads_are_read_from_their_line() {
        assert_eq!(threads_in("rc 0 0 0\nth 8 0 0.000 0.000\nra 32 0\n"), 8);
        assert_eq!(threads_in("rc 0 0 0\n"), 0);
        assert_eq!(threads_in(""), 0);
    }
}
