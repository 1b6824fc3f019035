//! A machine as its controller sees it: a connection and the way through it.

mod counters;
pub(crate) mod request;
mod together;

use std::sync::Arc;
use std::time::{Duration, Instant};

use nestor_stack::Accelerator;

use self::request::{boots_in_virtual_time, describe, own_limit, request_name, runs_programs};
use crate::command_line::shown;
use crate::connection::{Connection, NoAnswer};
use crate::disks::DiskMark;
use crate::error::{FailedProgram, MachineError};
use crate::loss::Loss;
use crate::message::{Answer, Command, Facts, Finished, ReadySign, Request};
use crate::mounting::Mounting;
use crate::nfs_export::NfsExport;
use crate::place::MachinePlace;
use crate::refusal::{Cause, FileKind, Refusal};
use crate::spec::{DiskAttachment, InterfaceAttachment, MachineSpec, MachineTime};
use crate::users_directory::OwnDirectory;
pub use together::{OnEach, Timed, run_inside, run_together, shut_down_machines, start_machines};

/// A machine that carries out requests. A clone is another handle on the same machine.
#[derive(Clone)]
pub struct Machine {
    connection: Arc<Connection>,
    /// The machines on the way from the ground to this one, outermost first, and this one; none for the ground.
    route: Vec<MachinePlace>,
    label: String,
    /// The outermost of the machines on the way runs in virtual time. The machine that boots it watches its progress, and always answers.
    is_in_virtual_time: bool,
}

/// How a machine was booted.
#[derive(Clone, Debug, PartialEq)]
pub struct Boot {
    /// What really executes its instructions.
    pub accelerator: Accelerator,
    /// Milliseconds until its agent answered.
    pub boot_ms: u64,
}

/// Most bytes of a file that is read as a whole where nothing else is said: files of `/proc` and `/sys`, what a program said.
pub const SMALL_FILE_BYTES: u64 = 16 << 20;

/// Bytes of a large file that are asked for at once: far below a frame's limit, because every machine on the way holds
/// them in memory.
const FETCH_BYTES: u64 = 4 << 20;

/// What each level on the way may add.
const LEVEL_ALLOWANCE: Duration = Duration::from_secs(10);

/// How often the limit of a request to a machine in real time may pass once more. The agent that watches the machine answers: it knows how long
/// the machine waited for processors. This ends the wait for an agent that does not.
const MORE_LIMITS: u32 = 9;

/// Whether to wait longer than a request's limit for the agent that watches the machine.
struct Patience {
    in_virtual_time: bool,
    more: u32,
}

impl Patience {
    fn is_to_be_awaited(&mut self) -> bool {
        let is_left = self.more > 0;
        self.more = self.more.saturating_sub(1);
        self.in_virtual_time || is_left
    }
}

impl Machine {
    /// The machine at the other end of `connection`.
    pub(crate) fn ground(connection: Arc<Connection>, label: &str) -> Self {
        Self { connection, route: Vec::new(), label: label.to_owned(), is_in_virtual_time: false }
    }

    /// Its name in messages and results: `this machine`, `host`, `guest`, `guest 2`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The same machine under another name.
    pub fn labelled(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    fn request(&self, request: Request) -> Result<Answer, MachineError> {
        let name = request_name(&request);
        let what = if request::are_logged() { describe(&request) } else { String::new() };
        if request::are_logged() && runs_programs(&request) {
            nestor_terminal::errln!("   begins  {}: {what}", self.label);
        }
        let mut patience = Patience {
            in_virtual_time: self.is_in_virtual_time || boots_in_virtual_time(&request),
            more: if self.route.is_empty() && !matches!(request, Request::StartMachine(_)) {
                0
            } else {
                MORE_LIMITS
            },
        };
        let mut limit = own_limit(&request);
        let mut request = request;
        for &machine in self.route.iter().rev() {
            let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            request = Request::Forward { machine, timeout_ms, request: Box::new(request) };
            limit += LEVEL_ALLOWANCE;
        }
        let started = Instant::now();
        let longer = &mut || patience.is_to_be_awaited().then_some(limit);
        let answered = self.connection.request_patiently(request, limit, longer);
        if request::are_logged() {
            nestor_terminal::errln!("{:>7.3} s  {}: {what}", started.elapsed().as_secs_f64(), self.label);
        }
        match answered {
            Ok(Answer::Failed(refusal)) => {
                Err(MachineError::Refused { machine: self.label.clone(), refusal })
            }
            Ok(answer) => Ok(answer),
            Err(NoAnswer::GivenUp(loss)) => Err(self.given_up(loss)),
            Err(NoAnswer::Gone(detail)) => Err(MachineError::Gone { machine: self.label.clone(), detail }),
            Err(NoAnswer::TimedOut(limit)) => {
                Err(MachineError::TimedOut { machine: self.label.clone(), request: name.into(), limit })
            }
        }
    }

    fn given_up(&self, loss: Loss) -> MachineError {
        MachineError::Refused { machine: self.label.clone(), refusal: Refusal::given_up(loss) }
    }

    fn out_of_turn(&self) -> MachineError {
        MachineError::OutOfTurn { machine: self.label.clone() }
    }

    fn done(&self, request: Request) -> Result<(), MachineError> {
        match self.request(request)? {
            Answer::Done => Ok(()),
            _ => Err(self.out_of_turn()),
        }
    }

    /// What the machine is.
    ///
    /// # Errors
    /// As every method: [`MachineError`].
    pub fn facts(&self) -> Result<Facts, MachineError> {
        match self.request(Request::Facts)? {
            Answer::Facts(facts) => Ok(facts),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Runs a program to its end, however it ends.
    pub fn run(&self, command: Command) -> Result<Finished, MachineError> {
        match self.request(Request::Run(command))? {
            Answer::Finished(finished) => Ok(finished),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Runs a program that has to succeed; its standard output as text.
    pub fn run_ok(&self, command: Command) -> Result<String, MachineError> {
        let finished = self.run(command.clone())?;
        self.succeeded(&command, finished).map(|finished| finished.stdout_text())
    }

    /// What a program left that had to succeed.
    ///
    /// # Errors
    /// It did not.
    pub fn succeeded(&self, command: &Command, finished: Finished) -> Result<Finished, MachineError> {
        if finished.succeeded() {
            return Ok(finished);
        }
        Err(self.program_error(&command.argv, &finished, command.timeout_ms / 1000))
    }

    /// The error for a program that did not succeed.
    pub fn program_error(&self, argv: &[String], finished: &Finished, timeout_s: u64) -> MachineError {
        let mut text = finished.stderr_text();
        if text.is_empty() {
            text = finished.stdout_text();
        }
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let output: String =
            lines[lines.len().saturating_sub(6)..].iter().map(|line| format!("\n    {line}")).collect();
        let ended = finished.end(timeout_s);
        let cause = Cause::of_program(argv.first().map_or("", String::as_str), ended, &text);
        let machine = self.label.clone();
        MachineError::Program(Box::new(FailedProgram { machine, program: shown(argv), ended, output, cause }))
    }

    /// Starts a program in the background; the number is for [`Self::stop_process`].
    pub fn start_process(&self, command: Command, output: &str) -> Result<u32, MachineError> {
        match self.request(Request::StartProcess { command, output: output.to_owned() })? {
            Answer::Started { process } => Ok(process),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Asks a started program to end and waits for it.
    pub fn stop_process(&self, process: u32, grace_ms: u64) -> Result<Finished, MachineError> {
        match self.request(Request::StopProcess { process, grace_ms })? {
            Answer::Finished(finished) => Ok(finished),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Waits until a started program is ready.
    ///
    /// # Errors
    /// It has ended before, or was not ready in `limit` of the machine's own time.
    pub fn await_ready(&self, process: u32, sign: ReadySign, limit: Duration) -> Result<(), MachineError> {
        let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.done(Request::AwaitReady { process, sign, timeout_ms })
    }

    /// Writes a whole file, with the directories above it.
    pub fn write_file(&self, path: &str, contents: &[u8]) -> Result<(), MachineError> {
        self.done(Request::WriteFile { path: path.to_owned(), contents: contents.to_vec() })
    }

    /// Reads a whole file of at most [`SMALL_FILE_BYTES`]; [`MachineError::TooLong`] of a longer one.
    pub fn read_file(&self, path: &str) -> Result<Vec<u8>, MachineError> {
        self.read_file_up_to(path, SMALL_FILE_BYTES)
    }

    /// The same as text.
    pub fn read_text(&self, path: &str) -> Result<String, MachineError> {
        Ok(String::from_utf8_lossy(&self.read_file(path)?).into_owned())
    }

    /// Reads a whole file of at most `max_bytes`, which one frame has to hold; [`MachineError::TooLong`] of a longer one.
    pub fn read_file_up_to(&self, path: &str, max_bytes: u64) -> Result<Vec<u8>, MachineError> {
        // One more, to see that there is more.
        let bytes = self.read_part(path, 0, max_bytes.saturating_add(1))?;
        if bytes.len() as u64 > max_bytes {
            return Err(self.too_long(path, max_bytes));
        }
        Ok(bytes)
    }

    fn read_part(&self, path: &str, offset: u64, max_bytes: u64) -> Result<Vec<u8>, MachineError> {
        match self.request(Request::ReadFile { path: path.to_owned(), offset, max_bytes })? {
            Answer::Bytes(bytes) if bytes.len() as u64 <= max_bytes => Ok(bytes),
            _ => Err(self.out_of_turn()),
        }
    }

    fn too_long(&self, path: &str, max_bytes: u64) -> MachineError {
        MachineError::TooLong { machine: self.label.clone(), path: path.to_owned(), max_bytes }
    }

    /// Copies a file of at most `max_bytes` to a writer, piece by piece; the bytes that were copied, or
    /// [`MachineError::TooLong`] once that many were.
    pub fn fetch_file(
        &self,
        path: &str,
        to: &mut dyn std::io::Write,
        max_bytes: u64,
    ) -> Result<u64, MachineError> {
        let mut offset = 0;
        loop {
            let bytes = self.read_part(path, offset, FETCH_BYTES)?;
            if bytes.is_empty() {
                return Ok(offset);
            }
            if bytes.len() as u64 > max_bytes - offset {
                return Err(self.too_long(path, max_bytes));
            }
            to.write_all(&bytes).map_err(|e| MachineError::Refused {
                machine: self.label.clone(),
                refusal: Refusal::of_io(&format!("its file {path} could not be written here"), &e),
            })?;
            offset += bytes.len() as u64;
        }
    }

    /// Makes a directory.
    pub fn make_directory(&self, path: &str) -> Result<(), MachineError> {
        self.done(Request::MakeDirectory { path: path.to_owned() })
    }

    /// Has all that the machine's kernel draws from now on follow from 64 bytes and its state.
    ///
    /// # Errors
    /// The kernel does not let the agent.
    pub fn mix_random(&self, data: Vec<u8>) -> Result<(), MachineError> {
        self.done(Request::MixRandom { data })
    }

    /// Makes a directory that did not exist and that only the agent's user may enter; its path. It goes with the agent.
    pub fn make_private_directory(&self, prefix: &str) -> Result<String, MachineError> {
        match self.request(Request::MakePrivateDirectory { prefix: prefix.to_owned() })? {
            Answer::Path(path) => Ok(path),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Makes a file that does not exist yet, for the agent's user alone.
    pub fn create_file(&self, path: &str, contents: &[u8]) -> Result<(), MachineError> {
        self.done(Request::CreateFile { path: path.to_owned(), contents: contents.to_vec() })
    }

    /// Mounts a file system.
    pub fn mount(&self, mounting: Mounting) -> Result<(), MachineError> {
        self.done(Request::Mount(mounting))
    }

    /// Unmounts it.
    pub fn unmount(&self, target: &str) -> Result<(), MachineError> {
        self.done(Request::Unmount { target: target.to_owned() })
    }

    /// Makes a block device of a file; its path.
    pub fn attach_loop(&self, file: &str, direct_io: bool) -> Result<String, MachineError> {
        match self.request(Request::AttachLoop { file: file.to_owned(), direct_io })? {
            Answer::Device(device) => Ok(device),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Undoes [`Self::attach_loop`].
    pub fn detach_loop(&self, device: &str) -> Result<(), MachineError> {
        self.done(Request::DetachLoop { device: device.to_owned() })
    }

    /// Makes a directory of the run's own in one of the user's, until [`Self::remove_own_directory`] or take-down. The directories `kept` are the
    /// laboratory's: the user's is refused if it is in one of them, or one of them in it.
    pub fn make_own_directory(&self, within: &str, kept: Vec<String>) -> Result<OwnDirectory, MachineError> {
        match self.request(Request::MakeOwnDirectory { within: within.to_owned(), kept })? {
            Answer::OwnDirectory(made) => Ok(made),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Removes it with all that is in it.
    pub fn remove_own_directory(&self, path: &str) -> Result<(), MachineError> {
        self.done(Request::RemoveOwnDirectory { path: path.to_owned() })
    }

    /// Takes a device or file of the user's for ourselves until [`Self::release`] or take-down.
    pub fn claim(&self, path: &str, kind: FileKind) -> Result<(), MachineError> {
        self.done(Request::Claim { path: path.to_owned(), kind })
    }

    /// What a claimed medium holds, in words; `None` if nothing but zeros was found.
    pub fn inspect(&self, path: &str) -> Result<Option<String>, MachineError> {
        match self.request(Request::Inspect { path: path.to_owned() })? {
            Answer::Found(found) => Ok(found),
            _ => Err(self.out_of_turn()),
        }
    }

    /// What a claimed medium carries from now on is erased when it is released.
    pub fn erase_at_release(&self, path: &str) -> Result<(), MachineError> {
        self.done(Request::EraseAtRelease { path: path.to_owned() })
    }

    /// Undoes [`Self::claim`].
    pub fn release(&self, path: &str) -> Result<(), MachineError> {
        self.done(Request::Release { path: path.to_owned() })
    }

    /// Changes a kernel setting; it is set back at take-down.
    pub fn set(&self, path: &str, value: &str) -> Result<(), MachineError> {
        self.done(Request::Set { path: path.to_owned(), value: value.to_owned() })
    }

    /// Waits for a disk; the path of its block device.
    pub fn find_disk(&self, mark: &DiskMark, timeout_ms: u64) -> Result<String, MachineError> {
        match self.request(Request::FindDisk { mark: mark.clone(), timeout_ms })? {
            Answer::Device(device) => Ok(device),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Boots a machine inside this one.
    pub fn start_machine(&self, spec: &MachineSpec, label: &str) -> Result<(Machine, Boot), MachineError> {
        match self.request(Request::StartMachine(Box::new(spec.clone())))? {
            Answer::Booted { accelerator, boot_ms } => {
                let mut machine = self.machine_inside(spec.place, label);
                machine.is_in_virtual_time |= spec.time != MachineTime::Real;
                Ok((machine, Boot { accelerator, boot_ms }))
            }
            _ => Err(self.out_of_turn()),
        }
    }

    /// Starts an agent on this machine's kernel with a network and mounts of its own: a machine that is ended as one that was booted.
    pub fn start_apart(&self, place: MachinePlace, label: &str) -> Result<Machine, MachineError> {
        self.done(Request::StartApart { machine: place })?;
        Ok(self.machine_inside(place, label))
    }

    /// Notes that the kernel's NFS server, which does not run, is started next, for one export: take-down ends it.
    pub fn own_nfs_server(&self, export: NfsExport) -> Result<(), MachineError> {
        self.done(Request::OwnNfsServer(export))
    }

    /// Has the machines that use the server given up as soon as it ends by itself: it runs now.
    pub fn watch_nfs_server(&self) -> Result<(), MachineError> {
        self.done(Request::WatchNfsServer)
    }

    /// Undoes it: withdraws the export and ends the server.
    pub fn end_nfs_server(&self, export: NfsExport) -> Result<(), MachineError> {
        self.done(Request::EndNfsServer(export))
    }

    /// Writes the state of a machine in virtual time that this one booted into a new file here; it does not continue.
    pub fn keep_machine(
        &self,
        machine: MachinePlace,
        path: &str,
        limit: Duration,
    ) -> Result<(), MachineError> {
        let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.done(Request::KeepMachine { machine, path: path.to_owned(), timeout_ms })
    }

    /// A machine in this one that was running when the state was kept that this one has loaded.
    pub fn machine_inside(&self, place: MachinePlace, label: &str) -> Machine {
        let mut route = self.route.clone();
        route.push(place);
        let (connection, label) = (Arc::clone(&self.connection), label.to_owned());
        Machine { connection, route, label, is_in_virtual_time: self.is_in_virtual_time }
    }

    /// By what the machine that booted it knows it; `None` for the ground.
    pub fn place(&self) -> Option<MachinePlace> {
        self.route.last().copied()
    }

    /// Ends a machine that this one booted, at once.
    pub fn stop_machine(&self, machine: MachinePlace) -> Result<(), MachineError> {
        self.done(Request::StopMachine { machine })
    }

    /// Plugs a disk into a machine that this one booted.
    pub fn attach_disk(&self, machine: MachinePlace, disk: &DiskAttachment) -> Result<(), MachineError> {
        self.done(Request::AttachDisk { machine, disk: Box::new(disk.clone()) })
    }

    /// Unplugs it.
    pub fn detach_disk(&self, machine: MachinePlace, disk: &DiskAttachment) -> Result<(), MachineError> {
        self.done(Request::DetachDisk { machine, disk: Box::new(disk.clone()) })
    }

    /// Plugs a network interface into a machine inside.
    pub fn attach_interface(
        &self,
        machine: MachinePlace,
        interface: &InterfaceAttachment,
    ) -> Result<(), MachineError> {
        self.done(Request::AttachInterface { machine, interface: interface.clone() })
    }

    /// Unplugs it.
    pub fn detach_interface(
        &self,
        machine: MachinePlace,
        interface: &InterfaceAttachment,
    ) -> Result<(), MachineError> {
        self.done(Request::DetachInterface { machine, interface: interface.clone() })
    }

    /// Makes two machines, which have the lower and the upper end of a link, belong together: one does not outlive the other or the link's
    /// server, and in virtual time they have one time. `control` is the control socket of the server, a process of this machine.
    pub fn join_machines(
        &self,
        machines: Vec<MachinePlace>,
        server: u32,
        control: &str,
    ) -> Result<(), MachineError> {
        self.done(Request::JoinMachines { machines, server, control: control.to_owned() })
    }

    /// Takes down everything this machine's agent made.
    pub fn take_down(&self) -> Result<(), MachineError> {
        self.done(Request::TakeDown)
    }
}

#[cfg(test)]
mod tests;
