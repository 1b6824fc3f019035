//! Ways to an agent on the ground: a child process here, or a program started over ssh.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::agent::process::{OWN_BINARY, wait_at_most};
use crate::connection::{Connection, NoAnswer};
use crate::error::MachineError;
use crate::machine::Machine;
use crate::ssh;

/// The agent nearest to the user. Dropping it takes down everything that was made through it.
pub struct Ground {
    machine: Machine,
    connection: Arc<Connection>,
    process: Child,
}

/// How long an agent may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(20);

/// How long taking everything down may take before the agent is given up on.
const TAKE_DOWN_LIMIT: Duration = Duration::from_secs(60);

/// The hidden command of the program that serves as agent on standard input and output.
pub const AGENT_COMMAND: &str = "agent";

impl Ground {
    /// An agent on this machine: a child process in a session of its own, so that an interrupt from the terminal
    /// reaches only its controller, and the agent outlives that long enough to clean up.
    ///
    /// # Errors
    /// When it does not start.
    pub fn here() -> Result<Self, MachineError> {
        let mut command = Command::new(OWN_BINARY);
        command.arg(AGENT_COMMAND);
        Self::start(command, "this machine")
    }

    /// An agent on another machine, reached by ssh. The program is copied there once per version, and looked
    /// at each time.
    ///
    /// # Errors
    /// When ssh does not reach it, or it is not an x86-64 Linux.
    pub fn over_ssh(host: &str) -> Result<Self, MachineError> {
        if host.is_empty() || host.starts_with('-') {
            return Err(MachineError::Ground(format!("`{host}` is not the name of a host for ssh")));
        }
        let path = ssh::install(host)?;
        let mut command = ssh::ssh(host);
        command.arg(ssh::in_sh(&format!("exec {path} {AGENT_COMMAND}")));
        Self::start(command, host)
    }

    fn start(mut command: Command, label: &str) -> Result<Self, MachineError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        // SAFETY: setsid is async-signal-safe; nothing else happens between fork and exec.
        unsafe {
            command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(Into::into));
        }
        let mut process = command
            .spawn()
            .map_err(|e| MachineError::Ground(format!("the agent on {label} could not be started: {e}")))?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(MachineError::Ground(format!(
                "the agent on {label} has no standard input or output"
            )));
        };
        let connection = Arc::new(Connection::new(stdout, stdin));
        let ground = Self { machine: Machine::ground(Arc::clone(&connection), label), connection, process };
        ground.connection.wait_hello(HELLO_LIMIT).map_err(|e| {
            let reason = match e {
                NoAnswer::Gone(reason) => reason,
                NoAnswer::TimedOut(limit) => format!("it did not answer within {} s", limit.as_secs()),
            };
            MachineError::Ground(format!("the agent on {label} does not work: {reason}"))
        })?;
        Ok(ground)
    }

    /// Ends all requests that are under way with a reason; the agent then takes down what was made.
    pub fn interrupter(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let connection = Arc::clone(&self.connection);
        move |reason| connection.close(reason)
    }

    /// The machine itself.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(MachineError::Refused { message, .. }) = self.machine.take_down() {
            eprintln!(
                "warning: not everything could be taken down: {message}\n  `nestor doctor --clean` tries again"
            );
        }
        // The end of its input tells the agent to end.
        self.connection.hang_up();
        if !matches!(wait_at_most(&self.process, TAKE_DOWN_LIMIT), Ok(true)) {
            eprintln!("warning: the agent does not end; `nestor doctor --clean` removes what it leaves");
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}
