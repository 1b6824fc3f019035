//! Which domain it is, for whoever ends it: also a later process, which knows it from the ledger.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::process::all_processes;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::connection::Uri;
use super::virsh;
use crate::agent::ledger::{is_same_live_process, process_start_ticks};
use crate::agent::process::Spawner;
use crate::agent::random;
use crate::hypervisor::file_tail;
use crate::not_undone::NotUndone;
use crate::refusal::Refusal;

/// A domain of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainIdentity {
    /// The libvirt that runs it.
    pub uri: Uri,
    /// Its name, for people.
    pub name: String,
    /// Drawn for it, so that no other domain is taken for it.
    pub uuid: String,
}

/// The process that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainProcess {
    /// Its number.
    pub pid: u32,
    start_ticks: u64,
}

/// How long a process may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Lines of libvirt's log that a message shows.
const LOG_LINES: usize = 6;

impl DomainIdentity {
    /// Of a machine at a place, whose files are in `directory`.
    ///
    /// # Errors
    /// The user has named a libvirt that runs no machines of Nestor's, or there is nothing random.
    pub fn new(directory: &Path, place: &str) -> Result<Self, Refusal> {
        let uuid = random::uuid()
            .map_err(|e| Refusal::of_io("a UUID for the domain could not be drawn", &e))?
            .to_string();
        // Several runs may have a machine of this place.
        let name = format!("nestor-{place}-{}", &uuid[..8]);
        Ok(Self { uri: Uri::here(directory)?, name, uuid })
    }

    /// The process that runs it: QEMU's, which libvirt gives the UUID.
    pub fn process(&self) -> Option<DomainProcess> {
        let is_its = |argv: &[String]| argv.windows(2).any(|two| two[0] == "-uuid" && two[1] == self.uuid);
        let process = all_processes()
            .ok()?
            .flatten()
            .find(|process| process.cmdline().is_ok_and(|argv| is_its(&argv)))?;
        let pid = u32::try_from(process.pid).ok()?;
        Some(DomainProcess { pid, start_ticks: process_start_ticks(pid)? })
    }

    /// Ends it; succeeds when there is nothing (any more) to end.
    ///
    /// # Errors
    /// It still runs.
    pub fn end(&self, spawner: &Spawner) -> Result<(), NotUndone> {
        // That there is none is no failure, and the same to its tool.
        let destroyed = virsh::run(spawner, &self.uri, &["destroy", &self.uuid]);
        let Some(process) = self.process() else { return Ok(()) };
        if process.ends_within(END_LIMIT) {
            return Ok(());
        }
        // A libvirt that does not answer keeps no machine alive.
        process.kill();
        if process.ends_within(END_LIMIT) {
            return Ok(());
        }
        let said = destroyed.err().map_or_else(|| "libvirt says that it ended it".to_owned(), |e| e.message);
        Err(NotUndone::Domain { name: self.name.clone(), uri: self.uri.to_string(), said })
    }

    /// The end of what QEMU said to libvirt, for a message.
    pub fn log_tail(&self) -> String {
        self.log().map_or_else(String::new, |path| file_tail(&path, "libvirt's log of it ends", LOG_LINES))
    }

    /// Where libvirt keeps it (<https://libvirt.org/drvqemu.html#location-of-configuration-files>).
    fn log(&self) -> Option<PathBuf> {
        let directory = match &self.uri {
            Uri::System => PathBuf::from("/var/log/libvirt/qemu"),
            Uri::Session => match std::env::var_os("XDG_CACHE_HOME") {
                Some(cache) => PathBuf::from(cache).join("libvirt/qemu/log"),
                None => PathBuf::from(std::env::var_os("HOME")?).join(".cache/libvirt/qemu/log"),
            },
            Uri::Embedded { root } => root.join("log/qemu"),
        };
        Some(directory.join(format!("{}.log", self.name)))
    }
}

impl DomainProcess {
    /// Whether it runs.
    pub fn lives(&self) -> bool {
        // In a machine of the lab, nobody asks for the end of what libvirt has left to the first process.
        is_same_live_process(self.pid, self.start_ticks)
    }

    fn kill(&self) {
        if self.lives()
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.lives() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_process_of_a_domain_is_the_one_with_its_uuid() {
        let uuid = random::uuid().unwrap().to_string();
        let identity = DomainIdentity { uri: Uri::Session, name: "nestor-guest".into(), uuid: uuid.clone() };
        assert_eq!(identity.process(), None);
        // A shell that waits keeps its arguments. It has them from some time after its start on: once it says something.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "echo; read answer", "sh", "-uuid", &uuid])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let found = identity.process().unwrap();
        assert_eq!(found.pid, child.id());
        assert!(found.lives());
        let other = DomainProcess { start_ticks: found.start_ticks + 1, ..found };
        other.kill();
        assert!(found.lives(), "a process of the same number is not it");
        found.kill();
        child.wait().unwrap();
        assert!(found.ends_within(END_LIMIT));
    }
}
