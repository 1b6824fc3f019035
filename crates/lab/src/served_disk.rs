//! A modelled disk: its server process on the ground and the switches of its control socket.

use std::path::Path;

use nestor_disk::log::LogSummary;
use nestor_disk::model::MediumWork;
use nestor_machine::{Command, DiskAttachment, DiskBackend, DiskMark, Machine, ROOT_SERIAL};
use nestor_stack::{Layer, MachineIndex};

use crate::BuildError;
use crate::lab_problem::LabProblem;
use crate::seed::Seed;
use crate::server_process::{ServedDevice, ServerProcess};
use nestor_stack::HostTime;

/// Request queues of a modelled disk: the lab's hosts have two processors, and one queue keeps arrival order exact.
const QUEUES: u16 = 1;

/// The serial number of the medium in its machine.
const SERIAL: &str = "nestor-medium";

/// A request log that is whole.
#[derive(Clone, Debug)]
pub struct DiskLog {
    /// Its path on the ground.
    pub path: String,
    /// What the medium did below the requests meanwhile.
    pub work: MediumWork,
}

/// A disk server that runs on the ground.
pub struct ServedDisk {
    server: ServerProcess,
    /// The layer it was started for, in canonical notation without what only concerns the kernel above.
    pub key: String,
}

impl ServedDisk {
    /// Starts the server of a modelled medium of a machine on the ground, timing off. In virtual time the seed says where its platters stand.
    ///
    /// # Errors
    /// When its profile is not known or it does not start.
    pub fn start(
        ground: &Machine,
        work_directory: &str,
        (machine, layer): (MachineIndex, &Layer),
        time: HostTime,
        seed: Seed,
    ) -> Result<Self, BuildError> {
        let directory = match machine.position() {
            0 => format!("{work_directory}/disk"),
            position => format!("{work_directory}/disk-{position}"),
        };
        let arguments = serve_arguments(layer, &directory, time, seed.turned(machine));
        let server = ServerProcess::start(ground, ServedDevice::Disk, directory, arguments);
        let server = server.map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
        Ok(Self { server, key: disk_key(layer) })
    }

    /// What a machine plugs in.
    pub fn attachment(&self) -> DiskAttachment {
        DiskAttachment {
            serial: SERIAL.into(),
            backend: DiskBackend::Server {
                socket: format!("{}/disk.sock", self.server.directory),
                queues: QUEUES,
            },
        }
    }

    /// Switches the model's timing; the switch happens with an empty queue.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn set_timing(&self, on: bool) -> Result<(), BuildError> {
        self.server.control(&["timing", if on { "on" } else { "off" }])?;
        Ok(())
    }

    /// Forgets all data and state: a new disk.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn reset(&self) -> Result<(), BuildError> {
        self.server.control(&["reset"])?;
        Ok(())
    }

    /// Starts logging requests.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn start_log(&self) -> Result<(), BuildError> {
        self.server.control(&["start-log", &self.log_path()])?;
        Ok(())
    }

    /// Stops logging requests.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stop_log(&self) -> Result<DiskLog, BuildError> {
        let said = self.server.control(&["stop-log"])?;
        let summary: LogSummary = serde_json::from_str(&said).map_err(|e| self.server.not_understood(&e))?;
        Ok(DiskLog { path: self.log_path(), work: summary.work })
    }

    /// Starts to note the marks in the data of requests, for checks of joins.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn start_stamps(&self) -> Result<(), BuildError> {
        self.server.control(&["start-stamps", &self.stamps_path()])?;
        Ok(())
    }

    /// Stops noting marks; the path of their file on the ground.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stop_stamps(&self) -> Result<String, BuildError> {
        self.server.control(&["stop-stamps"])?;
        Ok(self.stamps_path())
    }

    fn stamps_path(&self) -> String {
        format!("{}/stamps", self.server.directory)
    }

    fn log_path(&self) -> String {
        format!("{}/requests.log", self.server.directory)
    }

    /// Ends the server and removes the disk's data.
    pub fn stop(self) {
        self.server.stop();
    }
}

/// The lab image's root for a host in virtual time: QEMU would read it in real time.
pub struct ServedRoot {
    server: ServerProcess,
    /// Its vhost-user socket.
    pub socket: String,
}

impl ServedRoot {
    /// Starts its server on the ground.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(ground: &Machine, directory: &str, root: &str) -> Result<Self, BuildError> {
        let size = ground.run_ok(Command::new(["stat", "--format=%s", "--", root]))?;
        let socket = format!("{directory}/disk.sock");
        let arguments = ["null", "--socket", &socket, "--data", root, "--read-only", "--serial", ROOT_SERIAL];
        let arguments = arguments.into_iter().chain(["--size", size.trim(), "--time", "virtual"]);
        let arguments = arguments.map(str::to_owned);
        let server = ServerProcess::start(ground, ServedDevice::Disk, directory.to_owned(), arguments)
            .map_err(|source| LabProblem::RootNotServed { source })?;
        Ok(Self { server, socket })
    }

    /// Ends its server.
    pub fn stop(self) {
        self.server.end();
    }
}

/// The identity of a disk: everything but the settings of the kernel above it.
pub fn disk_key(layer: &Layer) -> String {
    let option = |name: &str| layer.option(name).unwrap_or_default().to_owned();
    ["profile", "size", "at", "wcache"]
        .iter()
        .fold(layer.name().to_owned(), |key, name| key + ":" + &option(name))
}

fn serve_arguments(layer: &Layer, directory: &str, time: HostTime, turned: f64) -> Vec<String> {
    let path = |name: &str| Path::new(directory).join(name).display().to_string();
    let mut argv = vec![profile_name(layer).to_owned()];
    argv.extend(["--socket".into(), path("disk.sock"), "--data".into(), path("data.img")]);
    argv.extend(["--serial".into(), SERIAL.into(), "--timing".into(), "off".into()]);
    if time.is_virtual() {
        argv.extend(["--time".into(), "virtual".into()]);
        // In real time the position of the platters is arbitrary when a run begins, and a disk stays for several runs.
        argv.extend(["--turned".into(), turned.to_string()]);
    }
    for (option, flag) in [("size", "--size"), ("at", "--at"), ("wcache", "--write-cache")] {
        if let Some(value) = layer.option(option) {
            argv.extend([flag.to_owned(), value.to_owned()]);
        }
    }
    argv
}

/// The profile a medium names, or its kind, which stands for the kind's own default.
pub(crate) fn profile_name(layer: &Layer) -> &str {
    layer.option("profile").unwrap_or(layer.name())
}

/// How the machine finds the medium.
pub fn mark() -> DiskMark {
    DiskMark::Serial(SERIAL.to_owned())
}
