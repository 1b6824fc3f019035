//! Ending the kernel's NFS server that was started for one export, also by a later process.
//!
//! The server is started only where none runs and nothing is exported. As long as the export is there, it is that server; one without it is another's.

use std::process::Command;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::nfs_export::{EXPORTED, NfsExport};
use crate::not_undone::NotUndone;

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

/// Ends the server, unless something else is exported by now, and withdraws the export, in this order: what fails can be tried again.
///
/// # Errors
/// The server has other exports, or does not end.
pub(super) fn end(export: &NfsExport, former: &ServerTimes) -> Result<(), NotUndone> {
    let failed = |said: String| NotUndone::NfsServer { export: export.to_string(), said };
    let exports = exported().map_err(|e| failed(format!("{EXPORTED}: {e}")))?;
    let running = threads() > 0;
    let step = step(&exports, export, running);
    match step {
        Step::Nothing => return Ok(()),
        Step::EndServer => {
            run(&["rpc.nfsd", "0"]).map_err(failed)?;
            former.set_back().map_err(|e| failed(format!("its times could not be set back: {e}")))?;
        }
        Step::Withdraw { .. } => {}
    }
    run(&["exportfs", "-u", &export.to_string()]).map_err(failed)?;
    match step {
        Step::Withdraw { others } if running => {
            Err(NotUndone::NfsServerLeft { export: export.to_string(), others })
        }
        _ => Ok(()),
    }
}

/// What is to be done besides withdrawing the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There is no such export, so a server is another's.
    Nothing,
    /// The server has no other exports.
    EndServer,
    /// There are other exports, or no server.
    Withdraw { others: usize },
}

fn step(exports: &[NfsExport], export: &NfsExport, running: bool) -> Step {
    let others = exports.iter().filter(|found| *found != export).count();
    match (others == exports.len(), others) {
        (true, _) => Step::Nothing,
        (false, 0) if running => Step::EndServer,
        (false, others) => Step::Withdraw { others },
    }
}

/// Threads of the server (`nfsd_show` in fs/nfsd/stats.c, the line `th`).
fn threads() -> u32 {
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
        assert_eq!(step(&[], &ours, true), Step::Nothing);
        assert_eq!(step(std::slice::from_ref(&others), &ours, true), Step::Nothing);
        assert_eq!(step(std::slice::from_ref(&ours), &ours, true), Step::EndServer);
        assert_eq!(step(std::slice::from_ref(&ours), &ours, false), Step::Withdraw { others: 0 });
        assert_eq!(step(&[others, ours.clone()], &ours, true), Step::Withdraw { others: 1 });
    }

    #[test]
    fn threads_are_read_from_their_line() {
        assert_eq!(threads_in("rc 0 0 0\nth 8 0 0.000 0.000\nra 32 0\n"), 8);
        assert_eq!(threads_in("rc 0 0 0\n"), 0);
        assert_eq!(threads_in(""), 0);
    }
}
