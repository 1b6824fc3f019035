//! The process of a server of modelled devices on the ground, in a directory of its own with its control socket and its log.

use std::time::Duration;

use nestor_machine::{Cause, Command, Machine, MachineError, ReadySign, Refusal};

/// How long a server may take to listen, in the ground's own time.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

/// Milliseconds that a server gets to end by itself.
const GRACE_MS: u64 = 5_000;

/// What a server serves, which is also the command of Nestor that starts and controls it.
#[derive(Clone, Copy)]
pub(crate) enum ServedDevice {
    Disk,
    Link,
}

impl ServedDevice {
    /// `nestor disk serve`, `nestor link control`.
    fn command(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Link => "link",
        }
    }
}

/// A server that runs on the ground.
pub(crate) struct ServerProcess {
    ground: Machine,
    device: ServedDevice,
    pub(crate) process: u32,
    pub(crate) directory: String,
}

impl ServerProcess {
    /// Starts a server in a directory, with what follows `nestor … serve`, and waits until it answers.
    ///
    /// # Errors
    /// When it does not start; it has ended then. The error has what it said.
    pub(crate) fn start(
        ground: &Machine,
        device: ServedDevice,
        directory: String,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, MachineError> {
        ground.make_directory(&directory)?;
        let argv = ["{nestor}", device.command(), "serve"].map(str::to_owned).into_iter();
        let argv = argv.chain(arguments).chain(["--control".to_owned(), control_socket(&directory)]);
        let log = format!("{directory}/log.txt");
        let process = ground.start_process(Command::new(argv), &log)?;
        let server = Self { ground: ground.clone(), device, process, directory };
        let sign = ReadySign::Socket(server.control_socket());
        match ground.await_ready(process, sign, SERVER_LIMIT) {
            Ok(()) => Ok(server),
            Err(e) => {
                let said = said(ground, &log);
                server.stop();
                Err(e.saying(&said))
            }
        }
    }

    /// Its control socket.
    pub(crate) fn control_socket(&self) -> String {
        control_socket(&self.directory)
    }

    /// Sends a command to the control socket; its answer as JSON text.
    pub(crate) fn control(&self, words: &[&str]) -> Result<String, MachineError> {
        let socket = self.control_socket();
        let mut argv = vec!["{nestor}", self.device.command(), "control", "--control", &socket];
        argv.extend(words);
        // A switch of a disk's timing waits until the queue has drained, a full write cache included.
        self.ground.run_ok(Command::new(argv).timeout_s(120))
    }

    /// What it answered is not what was asked for: it is another version.
    pub(crate) fn not_understood(&self, why: &dyn std::fmt::Display) -> MachineError {
        let device = self.device.command();
        self.refused(format!("the {device} server's answer is not understood: {why}"))
    }

    fn refused(&self, reason: String) -> MachineError {
        let refusal = Refusal::new(Cause::Other, reason);
        MachineError::Refused { machine: self.ground.label().to_owned(), refusal }
    }

    /// Ends the server; its directory stays.
    pub(crate) fn end(&self) {
        let _ = self.ground.stop_process(self.process, GRACE_MS);
    }

    /// Ends the server and removes its directory.
    pub(crate) fn stop(self) {
        self.end();
        let _ = self.ground.run(Command::new(["rm", "-rf", "--", &self.directory]));
    }
}

fn control_socket(directory: &str) -> String {
    format!("{directory}/control.sock")
}

/// What a program of a machine has printed so far.
pub(crate) fn said(machine: &Machine, log: &str) -> String {
    String::from_utf8_lossy(&machine.read_file(log).unwrap_or_default()).trim().to_owned()
}
