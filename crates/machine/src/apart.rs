//! A machine that is this one's kernel with a network and mounts of its own: an agent in a network namespace and a mount namespace.
//!
//! Both go with the last process in them (`namespaces(7)`), and with the network namespace the virtual interfaces in it and their peers
//! outside (`default_device_exit_batch` in net/core/dev.c, `veth_dellink` in drivers/net/veth.c). The agent's programs die with it, and it dies
//! with the agent that started it, so nothing of it can be left.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use nestor_ownership::WORK_VARIABLE;
use nestor_stop::lock;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::Signal;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::agent::process::{OWN_BINARY, Spawner, kill_group, wait_at_most};
use crate::connection::{Connection, NoAnswer};
use crate::hypervisor::{OnStart, RunningMachine, Started};
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::refusal::{Cause, Refusal};
use crate::transport::{AGENT_COMMAND, HELLO_LIMIT, TAKE_DOWN_LIMIT};

/// An agent in namespaces of its own.
pub(crate) struct ApartMachine {
    connection: Connection,
    agent: Mutex<Child>,
}

impl ApartMachine {
    /// Starts the agent and waits until it answers; `on_start` hears its process. Its work directory is in `directory`, that of the agent that
    /// starts it, and so goes with that one: a ledger of a mount namespace that is gone would be taken for a container's.
    ///
    /// # Errors
    /// This user may not make namespaces, the kernel has none, or the agent does not come up.
    pub(crate) fn start(
        spawner: &Spawner,
        directory: &Path,
        on_start: &mut OnStart<'_>,
    ) -> Result<Self, Refusal> {
        let mut command = Command::new(OWN_BINARY);
        command.arg(AGENT_COMMAND).env(WORK_VARIABLE, directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: between fork and exec only two system calls are made; the process has one thread then, so no other is left in the former
        // namespaces.
        unsafe {
            command.pre_exec(|| enter_own_namespaces().map_err(Into::into));
        }
        let mut agent = spawner.spawn(command).map_err(|e| {
            Refusal::of_io("an agent with a network namespace and a mount namespace could not be started", &e)
        })?;
        // Without a ledger the agent still dies with this one.
        let _ = on_start(Started::Process(agent.id()));
        let (Some(stdin), Some(stdout)) = (agent.stdin.take(), agent.stdout.take()) else {
            let message = "an agent in namespaces of its own has no standard input or output";
            return Err(Refusal::new(Cause::NotStarted, message));
        };
        let machine = Self { connection: Connection::new(stdout, stdin), agent: Mutex::new(agent) };
        machine.connection.wait_hello(HELLO_LIMIT).map_err(|e| {
            machine.stop();
            let reason = e.of_new_agent();
            Refusal::new(
                Cause::NotStarted,
                format!("the agent in namespaces of its own does not work: {reason}"),
            )
        })?;
        Ok(machine)
    }
}

/// A network of its own, and the mounts as they are. What is mounted or unmounted there later shows only there; what is unmounted outside does not
/// stay in use by a copy here, where the mount is shared as systemd has it.
fn enter_own_namespaces() -> rustix::io::Result<()> {
    // SAFETY: the descriptors of the process stay shared with nobody.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS)? };
    mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
}

impl RunningMachine for ApartMachine {
    fn kind(&self) -> &'static str {
        "a machine that is a namespace of this one"
    }

    fn request(&self, request: Request, limit: Duration) -> Result<Answer, NoAnswer> {
        self.connection.request(request, limit)
    }

    fn tick_offset(&self) -> Result<i64, Refusal> {
        // It has this machine's counter.
        Ok(0)
    }

    fn stop(&self) {
        // The agent takes down what was made through it at the end of its input.
        self.connection.hang_up();
        let mut agent = lock(&self.agent);
        if !matches!(wait_at_most(&agent, TAKE_DOWN_LIMIT), Ok(true)) {
            kill_group(&agent, Signal::KILL);
        }
        let _ = agent.wait();
        drop(agent);
        self.connection.close("it was ended");
    }

    fn has_ended(&self) -> bool {
        lock(&self.agent).try_wait().is_ok_and(|status| status.is_some())
    }

    fn give_up(&self, loss: Loss) {
        self.connection.give_up(loss);
    }

    fn loss(&self) -> Option<Loss> {
        self.connection.loss()
    }

    fn last_words(&self) -> String {
        let status = lock(&self.agent).try_wait().ok().flatten();
        status.map_or_else(String::new, |status| format!("; its agent has ended ({status})"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Needs root.
    #[test]
    fn a_machine_apart_has_a_network_of_its_own_and_its_mounts_show_nowhere_else() {
        let _alone = crate::agent::alone();
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().display().to_string();
        let before = nestor_kernel::mounts::all().unwrap();
        // The binary of the test is no agent, so only the namespaces are tried.
        let mut command = Command::new("sh");
        let script =
            "mount -t tmpfs none \"$0\" && readlink /proc/self/ns/net && grep -c \"$0\" /proc/self/mounts";
        command.args(["-c", script, &target]);
        // SAFETY: as in `ApartMachine::start`.
        unsafe {
            command.pre_exec(|| enter_own_namespaces().map_err(Into::into));
        }
        let output = match command.output() {
            Ok(output) if output.status.success() => output,
            other => {
                eprintln!("not tried: this user may not make namespaces or mount: {other:?}");
                return;
            }
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let own_network = fs::read_link("/proc/self/ns/net").unwrap().display().to_string();
        let lines: Vec<&str> = said.lines().collect();
        assert_ne!(lines[0], own_network);
        assert_eq!(lines[1], "1", "it sees its mount");
        assert_eq!(nestor_kernel::mounts::all().unwrap(), before, "nothing is mounted here");
    }
}
