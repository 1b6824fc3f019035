//! A modelled link: its server process on the ground.

use nestor_link::log::LogEnd;
use nestor_link::{End, LinkStatistics, PortIndex};
use nestor_machine::{InterfaceAttachment, InterfaceBackend, Machine, MachineError};
use nestor_stack::LayerIndex;
use nestor_stack::layers::network::{LinkCut, LinkOptions};
use serde::de::DeserializeOwned;

use crate::server_process::{ServedDevice, ServerProcess};

/// A link's server that runs on the ground.
pub(crate) struct ServedLink {
    server: ServerProcess,
    /// Its position in the stack, which is in the addresses of its interfaces.
    position: usize,
}

impl ServedLink {
    /// Starts the server of a link between so many machines on the ground.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start(
        ground: &Machine,
        work_directory: &str,
        (position, machines): (usize, usize),
        options: &LinkOptions,
        is_virtual: bool,
        seed: u64,
    ) -> Result<Self, MachineError> {
        let directory = format!("{work_directory}/link-{position}");
        let LinkOptions { rate, delay, queue, loss, cut, .. } = options;
        let mut arguments = Vec::new();
        let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        for at in PortIndex::all(machines) {
            option(end_name(at.end()), socket(&directory, at));
        }
        option("rate", rate.to_string());
        option("delay", delay.to_string());
        option("queue", queue.to_string());
        option("loss", loss.to_string());
        if let Some(LinkCut { after, lasts }) = cut {
            option("cut-after", after.to_string());
            option("cut-for", lasts.to_string());
        }
        option("seed", seed.to_string());
        option("time", if is_virtual { "virtual" } else { "real" }.to_owned());
        let server = ServerProcess::start(ground, ServedDevice::Link, directory, arguments)?;
        Ok(Self { server, position })
    }

    /// The interface of a machine.
    pub(crate) fn interface(&self, at: PortIndex) -> InterfaceAttachment {
        let position = self.position;
        InterfaceAttachment {
            name: format!("nestor-link-{position}"),
            backend: InterfaceBackend::Link { socket: socket(&self.server.directory, at) },
            // A locally administered address; `NES` in ASCII.
            mac: format!("02:4e:45:53:{position:02x}:{:02x}", at.index() + 1),
        }
    }

    /// The server's process on the ground.
    pub(crate) fn process(&self) -> u32 {
        self.server.process
    }

    /// The control socket.
    pub(crate) fn control(&self) -> String {
        self.server.control_socket()
    }

    /// Whether it is the link at that position of the stack.
    pub(crate) fn is_at(&self, index: LayerIndex) -> bool {
        self.position == index.position()
    }

    /// Switches the times of frames and their losses, when both machines stand; the delay remains.
    ///
    /// # Errors
    /// Its server does not answer.
    pub(crate) fn set_timing(&self, on: bool) -> Result<(), MachineError> {
        self.server.control(&["timing", if on { "on" } else { "off" }]).map(|_| ())
    }

    /// What it has done since it was started.
    ///
    /// # Errors
    /// Its server does not answer.
    pub(crate) fn statistics(&self) -> Result<LinkStatistics, MachineError> {
        self.answered(&["statistics"])
    }

    /// Starts to log frames; what it had done until then.
    ///
    /// # Errors
    /// Its server does not answer, or cannot log.
    pub(crate) fn start_log(&self) -> Result<LinkStatistics, MachineError> {
        self.answered(&["start-log", &self.log_path()])
    }

    /// Ends the log of frames: its path on the ground, and how it ended.
    ///
    /// # Errors
    /// Its server does not answer, or could not write all of it.
    pub(crate) fn stop_log(&self) -> Result<(String, LogEnd), MachineError> {
        Ok((self.log_path(), self.answered(&["stop-log"])?))
    }

    fn log_path(&self) -> String {
        format!("{}/frames.log", self.server.directory)
    }

    fn answered<T: DeserializeOwned>(&self, words: &[&str]) -> Result<T, MachineError> {
        let said = self.server.control(words)?;
        serde_json::from_str(&said).map_err(|e| self.server.not_understood(&e))
    }

    /// Ends the server.
    pub(crate) fn stop(self) {
        self.server.stop();
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Lower => "lower",
        End::Upper => "upper",
    }
}

/// Those of more than two machines are numbered.
fn socket(directory: &str, at: PortIndex) -> String {
    let name = end_name(at.end());
    match at.index() {
        0 | 1 => format!("{directory}/{name}.sock"),
        number => format!("{directory}/{name}-{number}.sock"),
    }
}
