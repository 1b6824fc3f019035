//! Which machine it is, for whoever ends it: also a later process, which knows it from the ledger.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nestor_stack::HypervisorKind;
use procfs::process::all_processes;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::tool::Tool;
use super::{Product, product};
use crate::agent::ledger::{is_same_live_process, process_start_ticks};
use crate::agent::process::Spawner;
use crate::agent::random;
use crate::not_undone::NotUndone;
use crate::refusal::{Cause, Refusal};

/// Has the UUID of the machine in the environment of each process that the program starts for it. They inherit it from the tool.
pub const MACHINE_VARIABLE: &str = "NESTOR_MACHINE";

/// How long processes may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A machine of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedIdentity {
    /// What runs it.
    pub kind: HypervisorKind,
    /// Its name, for people.
    pub name: String,
    /// Drawn for it, so that no other machine is taken for it.
    pub uuid: String,
    /// The directory with its files, and with all that the program keeps of it.
    pub directory: PathBuf,
}

/// A process that runs for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runner {
    pid: u32,
    start_ticks: u64,
}

impl HostedIdentity {
    /// Of a machine at a place.
    ///
    /// # Errors
    /// There is nothing random.
    pub fn new(kind: HypervisorKind, directory: &Path, place: &str) -> Result<Self, Refusal> {
        let uuid = random::uuid()
            .map_err(|e| Refusal::of_io("a UUID for the machine could not be drawn", &e))?
            .to_string();
        // Several runs may have a machine of this place.
        let name = format!("nestor-{place}-{}", &uuid[..8]);
        Ok(Self { kind, name, uuid, directory: directory.to_owned() })
    }

    /// The program that runs it.
    ///
    /// # Errors
    /// It is none of these: the ledger was written by another version.
    pub fn product(&self) -> Result<&'static dyn Product, Refusal> {
        product(self.kind)
            .ok_or_else(|| Refusal::new(Cause::NotSupported, "its hypervisor is not a hosted one"))
    }

    /// What its kernel printed.
    pub fn console(&self) -> PathBuf {
        self.directory.join("console.log")
    }

    /// The agent's stream.
    pub fn agent_socket(&self) -> PathBuf {
        self.directory.join("agent.sock")
    }

    /// What the program says that it does for it.
    pub fn log(&self) -> Option<PathBuf> {
        product(self.kind).map(|product| product.log(self))
    }

    /// Whether nothing runs for it any more.
    pub fn has_ended(&self) -> bool {
        self.runners().is_empty()
    }

    /// Ends it and removes what the program keeps of it; succeeds when there is nothing (any more) to end.
    ///
    /// # Errors
    /// Something of it still runs.
    pub fn end(&self, spawner: &Spawner) -> Result<(), NotUndone> {
        let Ok(product) = self.product() else { return Ok(()) };
        let said = match self.directory.is_dir() {
            true => product.end(self, &Tool::new(product, self, &self.directory, spawner)).err(),
            false => None,
        };
        let left = self.end_runners();
        for stray in product.strays(self) {
            let _ = fs::remove_dir_all(stray);
        }
        if left.is_empty() {
            let _ = fs::remove_dir_all(&self.directory);
            return Ok(());
        }
        let said =
            said.map_or_else(|| "its program says that it ended it".to_owned(), |refusal| refusal.message);
        Err(NotUndone::Hosted { name: self.name.clone(), pids: left, said })
    }

    /// Ends whatever runs for it; those that do not end. A program that does not answer keeps no machine alive.
    fn end_runners(&self) -> Vec<u32> {
        let deadline = Instant::now() + END_LIMIT;
        loop {
            // One that is just being started may come after the first look.
            let runners = self.runners();
            if runners.is_empty() || Instant::now() >= deadline {
                return runners.iter().map(|runner| runner.pid).collect();
            }
            runners.iter().for_each(Runner::kill);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The processes that live and have its mark.
    fn runners(&self) -> Vec<Runner> {
        let mark = format!("{MACHINE_VARIABLE}={}", self.uuid);
        let has_mark = |pid: u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let pids = all_processes()
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|process| u32::try_from(process.pid).ok());
        let runners = pids.filter(|&pid| pid != std::process::id() && has_mark(pid));
        runners
            .filter_map(|pid| Some(Runner { pid, start_ticks: process_start_ticks(pid)? }))
            .filter(|runner| is_same_live_process(runner.pid, runner.start_ticks))
            .collect()
    }
}

impl Runner {
    fn kill(&self) {
        if is_same_live_process(self.pid, self.start_ticks)
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_runs_for_a_machine_is_known_by_its_mark_and_ended() {
        let directory = tempfile::tempdir().unwrap();
        let gone = directory.path().join("gone");
        let one = HostedIdentity::new(HypervisorKind::VirtualBox, &gone, "guest").unwrap();
        let other = HostedIdentity::new(HypervisorKind::VirtualBox, &gone, "guest").unwrap();
        assert!(one.has_ended());
        // A process has its environment from some time after its start on: once it says something.
        let start = |identity: &HostedIdentity| {
            let mut command = Command::new("sh");
            command.args(["-c", "echo; read answer"]).env(MACHINE_VARIABLE, &identity.uuid);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            child
        };
        let (mut ours, mut theirs) = (start(&one), start(&other));
        let spawner = Spawner::new();
        one.end(&spawner).unwrap();
        assert!(!ours.wait().unwrap().success());
        assert!(theirs.try_wait().unwrap().is_none(), "another machine's is left alone");
        assert!(!other.has_ended());
        other.end(&spawner).unwrap();
        theirs.wait().unwrap();
        assert!(one.has_ended() && other.has_ended());
        one.end(&spawner).unwrap();
    }

    #[test]
    fn the_ledger_keeps_what_is_needed_to_end_it() {
        let identity = HostedIdentity::new(HypervisorKind::Vmware, Path::new("/none"), "guest").unwrap();
        let text = serde_json::to_string(&identity).unwrap();
        assert_eq!(serde_json::from_str::<HostedIdentity>(&text).unwrap(), identity);
        assert!(identity.name.starts_with("nestor-guest-"));
    }
}
