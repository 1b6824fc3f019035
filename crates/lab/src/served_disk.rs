//! A modelled disk: its server process on the ground and the switches of its control socket.

use std::path::Path;
use std::time::{Duration, Instant};

use nestor_machine::{
    Cause, Command, DiskAttachment, DiskBackend, DiskMark, Machine, MachineError, ROOT_SERIAL, Refusal,
};
use nestor_stack::Layer;

use crate::BuildError;
use crate::lab_problem::LabProblem;
use crate::seed::Seed;
use nestor_stack::HostTime;

/// Request queues of a modelled disk: the lab's hosts have two processors, and one queue keeps arrival order exact.
const QUEUES: u16 = 1;

/// The serial number of the medium in its machine.
const SERIAL: &str = "nestor-medium";

/// How long a server may take to listen, in the ground's own time.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

/// A disk server that runs on the ground.
pub struct ServedDisk {
    ground: Machine,
    process: u32,
    directory: String,
    /// The layer it was started for, in canonical notation without what only concerns the kernel above.
    pub key: String,
}

impl ServedDisk {
    /// Starts the server of a modelled medium on the ground, timing off. In virtual time the seed says where its platters stand.
    ///
    /// # Errors
    /// When its profile is not known or it does not start.
    pub fn start(
        ground: &Machine,
        work_directory: &str,
        layer: &Layer,
        time: HostTime,
        seed: Seed,
    ) -> Result<Self, BuildError> {
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let directory = format!("{work_directory}/disk");
        ground.make_directory(&directory).map_err(failed)?;
        let process = ground
            .start_process(
                Command::new(serve_command(layer, &directory, time, seed)),
                &format!("{directory}/log.txt"),
            )
            .map_err(failed)?;
        let disk = Self { ground: ground.clone(), process, directory, key: disk_key(layer) };
        match wait_until_listening(ground, process, &disk.directory) {
            Ok(()) => Ok(disk),
            Err(e) => {
                disk.stop();
                Err(failed(e))
            }
        }
    }

    /// What a machine plugs in.
    pub fn attachment(&self) -> DiskAttachment {
        DiskAttachment {
            serial: SERIAL.into(),
            backend: DiskBackend::Server { socket: format!("{}/disk.sock", self.directory), queues: QUEUES },
        }
    }

    /// Sends a command to the server's control socket; its answer as JSON text.
    fn control(&self, words: &[&str]) -> Result<String, MachineError> {
        control(&self.ground, &self.directory, words)
    }

    /// Switches the model's timing; the switch happens with an empty queue.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn set_timing(&self, on: bool) -> Result<(), BuildError> {
        self.control(&["timing", if on { "on" } else { "off" }])?;
        Ok(())
    }

    /// Forgets all data and state: a new disk.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn reset(&self) -> Result<(), BuildError> {
        self.control(&["reset"])?;
        Ok(())
    }

    /// Starts logging requests.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn start_log(&self) -> Result<(), BuildError> {
        self.control(&["start-log", &self.log_path()])?;
        Ok(())
    }

    /// Stops logging requests; the log's path on the ground.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stop_log(&self) -> Result<String, BuildError> {
        self.control(&["stop-log"])?;
        Ok(self.log_path())
    }

    /// Starts to note the marks in the data of requests, for checks of joins.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn start_stamps(&self) -> Result<(), BuildError> {
        self.control(&["start-stamps", &self.stamps_path()])?;
        Ok(())
    }

    /// Stops noting marks; the path of their file on the ground.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stop_stamps(&self) -> Result<String, BuildError> {
        self.control(&["stop-stamps"])?;
        Ok(self.stamps_path())
    }

    fn stamps_path(&self) -> String {
        format!("{}/stamps", self.directory)
    }

    fn log_path(&self) -> String {
        format!("{}/requests.log", self.directory)
    }

    /// Ends the server and removes the disk's data.
    pub fn stop(self) {
        let _ = self.ground.stop_process(self.process, 5_000);
        let _ = self.ground.run(Command::new(["rm", "-rf", "--", &self.directory]));
    }
}

/// Sends a command to the control socket of the server in a directory.
fn control(ground: &Machine, directory: &str, words: &[&str]) -> Result<String, MachineError> {
    let socket = format!("{directory}/control.sock");
    let mut argv = vec!["{nestor}", "disk", "control", "--control", &socket];
    argv.extend(words);
    // A switch of the timing waits until the queue has drained, a full write cache included.
    ground.run_ok(Command::new(argv).timeout_s(120))
}

/// Waits until the server in a directory answers; an error has what it said.
fn wait_until_listening(ground: &Machine, process: u32, directory: &str) -> Result<(), MachineError> {
    ground
        .await_file(process, &format!("{directory}/control.sock"), SERVER_LIMIT)
        .and_then(|()| await_answer(ground, directory))
        .map_err(|e| {
            let said = ground.read_file(&format!("{directory}/log.txt")).unwrap_or_default();
            e.saying(String::from_utf8_lossy(&said).trim())
        })
}

/// A socket is there a moment before its server listens.
fn await_answer(ground: &Machine, directory: &str) -> Result<(), MachineError> {
    let deadline = Instant::now() + SERVER_LIMIT;
    loop {
        match control(ground, directory, &["statistics"]) {
            Ok(_) => return Ok(()),
            Err(e) if e.machine_is_lost() => return Err(e),
            // That the program that asks has failed says nothing of the disk.
            Err(e) if Instant::now() >= deadline => {
                let refusal = Refusal::new(Cause::Other, format!("the disk server does not answer: {e}"));
                return Err(MachineError::Refused { machine: ground.label().to_owned(), refusal });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The lab image's root for a host in virtual time: QEMU would read it in real time.
pub struct ServedRoot {
    ground: Machine,
    process: u32,
    /// Its vhost-user socket.
    pub socket: String,
}

impl ServedRoot {
    /// Starts its server on the ground.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(ground: &Machine, directory: &str, root: &str) -> Result<Self, BuildError> {
        ground.make_directory(directory)?;
        let size = ground.run_ok(Command::new(["stat", "--format=%s", "--", root]))?;
        let path = |name: &str| format!("{directory}/{name}");
        let argv = [
            "{nestor}",
            "disk",
            "serve",
            "null",
            "--socket",
            &path("disk.sock"),
            "--data",
            root,
            "--read-only",
            "--control",
            &path("control.sock"),
            "--serial",
            ROOT_SERIAL,
            "--size",
            size.trim(),
            "--time",
            "virtual",
        ];
        let process = ground.start_process(Command::new(argv), &path("log.txt"))?;
        let root = Self { ground: ground.clone(), process, socket: path("disk.sock") };
        match wait_until_listening(ground, process, directory) {
            Ok(()) => Ok(root),
            Err(source) => {
                root.stop();
                Err(LabProblem::RootNotServed { source }.into())
            }
        }
    }

    /// Ends its server.
    pub fn stop(self) {
        let _ = self.ground.stop_process(self.process, 5_000);
    }
}

/// The identity of a disk: everything but the settings of the kernel above it.
pub fn disk_key(layer: &Layer) -> String {
    let option = |name: &str| layer.option(name).unwrap_or_default().to_owned();
    ["profile", "size", "at", "wcache"]
        .iter()
        .fold(layer.name().to_owned(), |key, name| key + ":" + &option(name))
}

fn serve_command(layer: &Layer, directory: &str, time: HostTime, seed: Seed) -> Vec<String> {
    let path = |name: &str| Path::new(directory).join(name).display().to_string();
    let mut argv: Vec<String> = ["{nestor}", "disk", "serve", profile_name(layer)].map(str::to_owned).into();
    argv.extend(["--socket".into(), path("disk.sock"), "--data".into(), path("data.img")]);
    argv.extend(["--control".into(), path("control.sock"), "--serial".into(), SERIAL.into()]);
    argv.extend(["--timing".into(), "off".into()]);
    if time.is_virtual() {
        argv.extend(["--time".into(), "virtual".into()]);
        // In real time the position of the platters is arbitrary when a run begins, and a disk stays for several runs.
        argv.extend(["--turned".into(), seed.turned().to_string()]);
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
