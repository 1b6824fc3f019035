//! A modelled link: its server process on the ground.

use std::time::{Duration, Instant};

use nestor_link::End;
use nestor_machine::{Cause, Command, InterfaceAttachment, Machine, MachineError, Refusal};
use nestor_stack::layers::network::LinkOptions;

/// How long a server may take to listen, in the ground's own time.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

/// A link's server that runs on the ground.
pub(crate) struct ServedLink {
    ground: Machine,
    process: u32,
    directory: String,
    /// Its position in the stack, which is in the addresses of its interfaces.
    position: usize,
}

impl ServedLink {
    /// Starts the server of a link on the ground.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start(
        ground: &Machine,
        work_directory: &str,
        (position, options): (usize, &LinkOptions),
        is_virtual: bool,
        seed: u64,
    ) -> Result<Self, MachineError> {
        let directory = format!("{work_directory}/link-{position}");
        ground.make_directory(&directory)?;
        let LinkOptions { rate, delay, queue, loss, .. } = options;
        let mut argv: Vec<String> = ["{nestor}", "link", "serve"].map(str::to_owned).into();
        let mut option = |name: &str, value: String| argv.extend([format!("--{name}"), value]);
        for end in End::BOTH {
            option(end_name(end), socket(&directory, end));
        }
        option("control", control_socket(&directory));
        option("rate", rate.to_string());
        option("delay", delay.to_string());
        option("queue", queue.to_string());
        option("loss", loss.to_string());
        option("seed", seed.to_string());
        option("time", if is_virtual { "virtual" } else { "real" }.to_owned());
        let process = ground.start_process(Command::new(argv), &format!("{directory}/log.txt"))?;
        let link = Self { ground: ground.clone(), process, directory, position };
        match link.wait_until_listening() {
            Ok(()) => Ok(link),
            Err(e) => {
                let said = ground.read_file(&format!("{}/log.txt", link.directory)).unwrap_or_default();
                let e = e.saying(String::from_utf8_lossy(&said).trim());
                link.stop();
                Err(e)
            }
        }
    }

    /// The interface of the machine at an end.
    pub(crate) fn interface(&self, end: End) -> InterfaceAttachment {
        let position = self.position;
        InterfaceAttachment {
            name: format!("nestor-link-{position}"),
            socket: socket(&self.directory, end),
            // A locally administered address; `NES` in ASCII.
            mac: format!("02:4e:45:53:{position:02x}:{:02x}", end.index() + 1),
        }
    }

    /// The control socket.
    pub(crate) fn control(&self) -> String {
        control_socket(&self.directory)
    }

    /// A socket is there a moment before its server listens.
    fn wait_until_listening(&self) -> Result<(), MachineError> {
        let control = self.control();
        self.ground.await_file(self.process, &control, SERVER_LIMIT)?;
        let deadline = Instant::now() + SERVER_LIMIT;
        loop {
            let asked = Command::new(["{nestor}", "link", "control", "--control", &control, "statistics"]);
            match self.ground.run_ok(asked) {
                Ok(_) => return Ok(()),
                Err(e) if e.machine_is_lost() => return Err(e),
                // That the program that asks has failed says nothing of the link.
                Err(e) if Instant::now() >= deadline => {
                    let refusal =
                        Refusal::new(Cause::Other, format!("the link's server does not answer: {e}"));
                    return Err(MachineError::Refused { machine: self.ground.label().to_owned(), refusal });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Ends the server.
    pub(crate) fn stop(self) {
        let _ = self.ground.stop_process(self.process, 5_000);
        let _ = self.ground.run(Command::new(["rm", "-rf", "--", &self.directory]));
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Lower => "lower",
        End::Upper => "upper",
    }
}

fn socket(directory: &str, end: End) -> String {
    format!("{directory}/{}.sock", end_name(end))
}

fn control_socket(directory: &str) -> String {
    format!("{directory}/control.sock")
}
