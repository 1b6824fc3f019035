//! Ways to an agent on the ground: a child process here, or a program started over ssh.

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::agent::process::{OWN_BINARY, wait_at_most};
use crate::connection::Connection;
use crate::error::MachineError;
use crate::machine::Machine;
use crate::ssh;

/// The agent nearest to the user. Dropping it takes down everything that was made through it.
pub struct Ground {
    machine: Machine,
    connection: Arc<Connection>,
    process: Child,
    /// Passes on what the agent says.
    said_all: JoinHandle<()>,
}

/// How long is waited for an agent's last words once it has ended.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(2);

/// How long an agent may take to say hello.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(20);

/// How long taking everything down may take before the agent is given up on.
pub(crate) const TAKE_DOWN_LIMIT: Duration = Duration::from_secs(60);

/// Bytes of what an agent says that are printed at once.
const LONGEST_LINE: u64 = 64 << 10;

/// The hidden command of the program that serves as agent on standard input and output.
pub const AGENT_COMMAND: &str = "agent";

/// The hidden command of the program that starts an agent in a domain of libvirt's and passes on what it says and hears.
pub const DOMAIN_AGENT_COMMAND: &str = "domain-agent";

/// How long that one may take to say hello: the program is copied into the domain before.
const DOMAIN_HELLO_LIMIT: Duration = Duration::from_secs(120);

impl Ground {
    /// An agent on this machine: a child process in a session of its own, so that an interrupt from the terminal
    /// reaches only its controller, and the agent outlives that long enough to clean up.
    ///
    /// # Errors
    /// When it does not start.
    pub fn here() -> Result<Self, MachineError> {
        let mut command = Command::new(OWN_BINARY);
        command.arg(AGENT_COMMAND);
        Self::start(command, "this machine", HELLO_LIMIT)
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
        let running = ssh::install(host, AGENT_COMMAND)?;
        let mut command = ssh::ssh(host);
        command.arg(running);
        Self::start(command, host, HELLO_LIMIT)
    }

    /// An agent in a virtual machine of this machine that libvirt runs: what is to it as ssh is to another machine is a child process.
    ///
    /// # Errors
    /// When it does not start.
    pub fn in_domain(name: &str) -> Result<Self, MachineError> {
        let mut command = Command::new(OWN_BINARY);
        command.args([DOMAIN_AGENT_COMMAND, name]);
        Self::start(command, &format!("the domain {name}"), DOMAIN_HELLO_LIMIT)
    }

    fn start(mut command: Command, label: &str, limit: Duration) -> Result<Self, MachineError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
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
        let said_all = pass_on(process.stderr.take());
        let connection = Arc::new(Connection::new(stdout, stdin));
        let machine = Machine::ground(Arc::clone(&connection), label);
        let ground = Self { machine, connection, process, said_all };
        ground.connection.wait_hello(limit).map_err(|e| {
            let reason = e.of_new_agent();
            MachineError::Ground(format!("the agent on {label} does not work: {reason}"))
        })?;
        Ok(ground)
    }

    /// Ends all requests in flight with a reason; the agent then takes down what was made.
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
        if let Err(MachineError::Refused { refusal, .. }) = self.machine.take_down() {
            nestor_terminal::errln!(
                "warning: not everything could be taken down: {refusal}\n  `nestor doctor --clean` tries again"
            );
        }
        // The agent ends at the end of its input.
        self.connection.hang_up();
        if !matches!(wait_at_most(&self.process, TAKE_DOWN_LIMIT), Ok(true)) {
            nestor_terminal::errln!(
                "warning: the agent did not exit; `nestor doctor --clean` removes what it leaves"
            );
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        // A program that the agent started may outlive it and hold the pipe.
        let deadline = Instant::now() + LAST_WORDS_LIMIT;
        while !self.said_all.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Prints the standard error of an agent or of ssh with the escapes for foreign text: the other machine may not be
/// trustworthy.
fn pass_on(from: Option<ChildStderr>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let Some(from) = from else { return };
        let mut lines = BufReader::new(from);
        let mut line = Vec::new();
        // A line that does not end cannot fill the memory.
        while matches!((&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(bytes) if bytes > 0) {
            nestor_terminal::err!("{}", String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}
