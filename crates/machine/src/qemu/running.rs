//! A machine that QEMU runs, with its monitor and its agent.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nestor_stack::Accelerator;
use nestor_stop::lock;
use rustix::process::Signal;

use super::QEMU;
use super::arguments::{self, MachineFiles};
use super::doing;
use super::joining::{Joining, WhyNotJoined};
use super::kept_state;
use super::own_machine::{console_tail, guests_tick_offset, tail};
use super::plugging;
use super::prefetch;
use super::progress::{Overtime, Patience, Progress, STANDSTILL_LIMIT};
use super::qmp::Qmp;
use super::version::GuestPaging;
use crate::agent::process::{Spawner, kill_group, wait_at_most};
use crate::boot_directory;
use crate::connection::{Connection, NoAnswer};
use crate::hypervisor::{OnStart, RunningMachine, Started};
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::prefetch::Prefetch;
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, InterfaceAttachment, MachineSpec, MachineTime};
use crate::virtual_time::{TimeKeeper, Watched};
use nestor_processor::ProcessorSpeed;
use nestor_processor::{InstructionMarks, WhyNotCounted};

/// A booted machine.
pub struct QemuMachine {
    connection: Connection,
    files: MachineFiles,
    qemu: Mutex<Child>,
    qmp: Mutex<Qmp>,
    /// Keeps its time, which stops while no request is in flight, so that the machine does nothing by itself; `None` in real
    /// time.
    keeper: Option<TimeKeeper>,
    speed: ProcessorSpeed,
}

/// Milliseconds of its own time in which a machine releases a device.
const PAUSE_MS: u64 = 200;

/// The additional real time that such a pause may take.
const PAUSE_LIMIT: Duration = Duration::from_secs(60);

/// How long a machine that has answered every request may take to stop.
const STAND_LIMIT: Duration = Duration::from_secs(10);

/// How long a machine may take to come to rest after the machine at the other end of its link has answered, in real time: it is at most one
/// delay of the link behind.
const REST_LIMIT: Duration = Duration::from_secs(60);

impl QemuMachine {
    /// Boots a machine and waits for its agent. `directory` is made for its files; `on_start` hears the number of QEMU's process.
    ///
    /// # Errors
    /// Why it did not come up, with the end of its console.
    pub fn boot(
        spec: &MachineSpec,
        accelerator: Accelerator,
        directory: PathBuf,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Self, Refusal> {
        let files = prepare_files(directory, &spec.modules_cpio)?;
        let program = spec.qemu.clone().unwrap_or_else(|| vec![QEMU.to_owned()]);
        let mut argv = arguments::command_line(spec, accelerator, &files, || GuestPaging::of(&program));
        argv.splice(..1, program);
        let limit = Duration::from_millis(spec.boot_timeout_ms);
        let kept_state = spec.kept_state.as_deref().map(Path::new);
        Self::start(&argv, files, (spec.time, kept_state), limit, spawner, on_start)
    }

    /// Boots a machine that only says hello and ends.
    ///
    /// # Errors
    /// Why it did not.
    pub fn probe(
        kernel: &str,
        modules_cpio: &str,
        accelerator: Accelerator,
        directory: PathBuf,
        limit: Duration,
        spawner: &Spawner,
    ) -> Result<(), Refusal> {
        let files = prepare_files(directory, modules_cpio)?;
        let argv = arguments::probe_command_line(kernel, accelerator, &files);
        let machine = Self::start(&argv, files, (MachineTime::Real, None), limit, spawner, &mut |_| Ok(()))?;
        machine.stop();
        Ok(())
    }

    fn start(
        argv: &[String],
        files: MachineFiles,
        (time, kept_state): (MachineTime, Option<&Path>),
        limit: Duration,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Self, Refusal> {
        let deadline = Instant::now() + limit;
        let started =
            Self::spawn(argv, &files, time, kept_state.is_some(), spawner).and_then(|(mut qemu, joining)| {
                // Without a ledger the machine still dies with the agent.
                let _ = on_start(Started::Process(qemu.id()));
                match Self::connect(&mut qemu, &files, joining.as_ref(), deadline, limit) {
                    Ok((connection, qmp)) => {
                        Ok((qemu, qmp, connection, joining.map(|joining| joining.keeper)))
                    }
                    Err(e) => {
                        kill_group(&qemu, Signal::KILL);
                        let _ = qemu.wait();
                        Err(e.explained(&files.qemu_log()))
                    }
                }
            });
        match started {
            Ok((qemu, qmp, connection, keeper)) => {
                let speed = time.speed();
                let machine =
                    Self { connection, files, qemu: Mutex::new(qemu), qmp: Mutex::new(qmp), keeper, speed };
                match kept_state {
                    None => machine.wait_for_agent(deadline, limit)?,
                    Some(path) => {
                        machine.load(path, deadline)?;
                    }
                }
                Ok(machine)
            }
            Err(e) => {
                // The machine may be started again, with files of its own in the same place.
                let _ = fs::remove_dir_all(&files.directory);
                Err(e)
            }
        }
    }

    fn spawn(
        argv: &[String],
        files: &MachineFiles,
        time: MachineTime,
        is_loaded: bool,
        spawner: &Spawner,
    ) -> Result<(Child, Option<Joining>), Refusal> {
        let log = fs::File::create(files.qemu_log()).map_err(|e| {
            Refusal::of_io(&format!("{} could not be written", files.qemu_log().display()), &e)
        })?;
        let mut command = std::process::Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let joining = match time {
            MachineTime::Real => None,
            MachineTime::Virtual { speed, .. } => {
                Some(Joining::prepare(&mut command, files, speed, is_loaded)?)
            }
        };
        let qemu = spawner.spawn(command).map_err(|e| Refusal::cannot_start(argv, &e))?;
        Ok((qemu, joining))
    }

    fn connect(
        qemu: &mut Child,
        files: &MachineFiles,
        joining: Option<&Joining>,
        deadline: Instant,
        limit: Duration,
    ) -> Result<(Connection, Qmp), NotUp> {
        if let Some(joining) = joining {
            joining.meet(qemu, &files.agent_socket(), deadline).map_err(|e| match qemu.try_wait() {
                Ok(Some(status)) => NotUp::EndedAtOnce(status),
                _ => NotUp::NotJoined(e),
            })?;
        }
        let agent = connect_when_there(&files.agent_socket(), qemu, deadline, limit)?;
        let reader = agent.try_clone().map_err(NotUp::NotShared)?;
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let qmp = Qmp::connect(&files.qmp_socket(), left).map_err(|e| {
            if Instant::now() >= deadline {
                NotUp::Late("QEMU's monitor did not answer", limit)
            } else {
                NotUp::NoMonitor(e)
            }
        })?;
        let connection = match joining {
            None => Connection::new(reader, agent),
            Some(Joining { keeper, .. }) => {
                Connection::watched(Watched::new(reader, keeper.clone()), agent, Arc::new(keeper.clone()))
            }
        };
        Ok((connection, qmp))
    }

    fn patience(&self, limit: Duration) -> Patience {
        match self.keeper {
            Some(_) => Patience::Virtual(Progress::new(limit, self.speed)),
            None => Patience::Real(Overtime::new(limit, lock(&self.qemu).id())),
        }
    }

    /// How much longer to wait for something that has taken its limit of real time.
    fn longer(&self, patience: &mut Patience) -> Option<Duration> {
        match patience {
            Patience::Virtual(progress) => {
                // If the monitor does not answer either, the machine makes no progress.
                let executed = lock(&self.qmp).executed().ok()?;
                progress.is_to_be_awaited(executed).then_some(STANDSTILL_LIMIT)
            }
            Patience::Real(overtime) => overtime.left(),
        }
    }

    fn wait_for_agent(&self, deadline: Instant, limit: Duration) -> Result<(), Refusal> {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut patience = self.patience(left);
        self.connection.await_hello(left, &mut || self.longer(&mut patience)).map_err(|e| {
            let what = match e {
                NoAnswer::TimedOut(_) => late("it did not boot", limit),
                NoAnswer::Gone(reason) => format!("it died while booting ({reason})"),
                NoAnswer::GivenUp(loss) => format!("it was given up while booting ({loss})"),
            };
            let last_words = self.last_words();
            self.stop();
            Refusal::new(Cause::NotStarted, format!("{what}{last_words}"))
        })
    }

    fn load(&self, path: &Path, deadline: Instant) -> Result<(), Refusal> {
        // The monitor is let go of before it is asked for the last words.
        let loaded = kept_state::load(&mut lock(&self.qmp), path, deadline);
        loaded.map_err(|e| Refusal::new(Cause::NotLoaded, format!("{e}{}", self.last_words())))
    }

    /// If time stops between requests, lets some of it pass, so that the machine reacts to its hardware.
    fn let_time_pass(&self) {
        if self.keeper.is_some() {
            let pause = Request::Pause { ms: PAUSE_MS };
            // If the machine is gone, the caller that waits for its reaction gets that error.
            let _ = self.request(pause, Duration::from_millis(PAUSE_MS) + PAUSE_LIMIT);
        }
    }
}

impl RunningMachine for QemuMachine {
    fn kind(&self) -> &'static str {
        "a machine of QEMU"
    }

    fn request(&self, request: Request, limit: Duration) -> Result<Answer, NoAnswer> {
        let mut patience = self.patience(limit);
        let answer = self.connection.request_patiently(request, limit, &mut || self.longer(&mut patience));
        let Some(keeper) = &self.keeper else { return answer };
        if let Err(NoAnswer::Gone(_) | NoAnswer::GivenUp(_)) = answer {
            return answer;
        }
        // What the caller does next, to a disk for example, is to happen at a certain time of the machine's peer, too.
        if keeper.await_rest(Instant::now() + REST_LIMIT) {
            return answer;
        }
        Err(NoAnswer::Gone("the machine at the other end of its link does not come to rest".to_owned()))
    }

    fn attach(&self, disk: &DiskAttachment) -> Result<(), Refusal> {
        let mut qmp = lock(&self.qmp);
        plugging::attach_disk(&mut qmp, disk)
    }

    fn prefetch(&self, disk: &str) -> Result<Prefetch, Refusal> {
        Ok(prefetch::state(&mut lock(&self.qmp), disk)?)
    }

    fn attach_interface(&self, interface: &InterfaceAttachment) -> Result<(), Refusal> {
        let mut qmp = lock(&self.qmp);
        plugging::attach_interface(&mut qmp, interface)
    }

    fn detach_interface(&self, interface: &InterfaceAttachment) -> Result<(), Refusal> {
        plugging::detach_interface(&self.qmp, interface, || self.let_time_pass())
    }

    fn time_keeper(&self) -> Option<&TimeKeeper> {
        self.keeper.as_ref()
    }

    fn detach(&self, disk: &DiskAttachment) -> Result<(), Refusal> {
        plugging::detach_disk(&self.qmp, disk, || self.let_time_pass())
    }

    fn keep_state(&self, path: &Path, limit: Duration) -> Result<(), Refusal> {
        let Some(keeper) = &self.keeper else {
            let message = "only the state of a machine in virtual time can be kept";
            return Err(Refusal::new(Cause::NotSupported, message));
        };
        let mut qmp = lock(&self.qmp);
        keeper.stop();
        kept_state::keep(&mut qmp, path, limit)
    }

    fn take_instructions(&self) -> InstructionMarks {
        match &self.keeper {
            Some(keeper) => keeper.take_instructions(Instant::now() + STAND_LIMIT),
            None => InstructionMarks { why_not: Some(WhyNotCounted::RealTime), marks: Vec::new() },
        }
    }

    fn tick_offset(&self) -> Result<i64, Refusal> {
        guests_tick_offset(lock(&self.qemu).id())
    }

    fn stop(&self) {
        let mut qemu = lock(&self.qemu);
        kill_group(&qemu, Signal::KILL);
        let _ = qemu.wait();
        drop(qemu);
        self.connection.close("it was shut down");
    }

    fn has_ended(&self) -> bool {
        lock(&self.qemu).try_wait().is_ok_and(|status| status.is_some())
    }

    fn give_up(&self, loss: Loss) {
        self.connection.give_up(loss);
    }

    fn loss(&self) -> Option<Loss> {
        self.connection.loss()
    }

    fn last_words(&self) -> String {
        let ended = {
            let mut qemu = lock(&self.qemu);
            // A kernel that panics makes QEMU end a moment after the connection broke.
            let has_ended = matches!(wait_at_most(&qemu, Duration::from_millis(500)), Ok(true));
            if has_ended { qemu.try_wait().ok().flatten() } else { None }
        };
        let state = match ended {
            Some(status) => format!("; its QEMU has ended ({status})"),
            // A monitor that does not answer has nothing to add.
            None => doing::in_words(&mut lock(&self.qmp)).unwrap_or_default(),
        };
        // Who is killed says nothing of it: what was printed until then is of other things.
        if ended.is_some_and(|status| status.signal() == Some(Signal::KILL.as_raw())) {
            return "; its QEMU was killed, for example because memory ran out (see `dmesg`)".to_owned();
        }
        let console = console_tail(&self.files);
        let qemu = tail(&self.files.qemu_log(), "QEMU said");
        if ended.is_some() && console.is_empty() && qemu.is_empty() {
            return format!(
                "{state} without a message: it was killed, for example because memory ran out, or reset itself"
            );
        }
        format!("{state}{console}{qemu}")
    }
}

impl Drop for QemuMachine {
    fn drop(&mut self) {
        self.stop();
        // Scratch files of a machine that is gone; the agent's work directory goes as a whole later anyway.
        let _ = fs::remove_dir_all(&self.files.directory);
    }
}

fn prepare_files(directory: PathBuf, modules_cpio: &str) -> Result<MachineFiles, Refusal> {
    let files = MachineFiles { directory };
    boot_directory::make(&files.directory, modules_cpio, &files.initramfs())?;
    Ok(files)
}

/// What to do about a machine that is not up in time: it hangs, or the machine around it is slow.
fn late(what: &str, limit: Duration) -> String {
    format!("{what} within its {} s; NESTOR_BOOT_LIMIT_S gives it more time", limit.as_secs())
}

/// Why a QEMU that was started did not come up.
#[derive(Debug, thiserror::Error)]
enum NotUp {
    /// It runs, and waits for us.
    #[error("{0}; `--on emulated:time=real` does not need it")]
    NotJoined(WhyNotJoined),
    /// Its process has ended.
    #[error("QEMU ended at once ({0})")]
    EndedAtOnce(ExitStatus),
    /// What it has not done in time.
    #[error("{}", late(.0, *.1))]
    Late(&'static str, Duration),
    /// Its agent's socket is there and cannot be used.
    #[error("the socket {} could not be opened: {source}", path.display())]
    NotOpened {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The same socket cannot be read and written at once.
    #[error("the agent's socket could not be shared: {0}")]
    NotShared(io::Error),
    /// Its monitor answers something else, or nothing.
    #[error("QEMU's monitor does not answer: {0}")]
    NoMonitor(io::Error),
}

impl NotUp {
    fn explained(&self, qemu_log: &Path) -> Refusal {
        match self {
            Self::NotJoined(why) => Refusal::new(why.cause(), self.to_string()),
            // What QEMU itself says belongs to it.
            _ => Refusal::new(Cause::NotStarted, format!("{self}{}", tail(qemu_log, "QEMU said"))),
        }
    }
}

fn connect_when_there(
    socket: &Path,
    qemu: &mut Child,
    deadline: Instant,
    limit: Duration,
) -> Result<UnixStream, NotUp> {
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                if let Ok(Some(status)) = qemu.try_wait() {
                    return Err(NotUp::EndedAtOnce(status));
                }
                if Instant::now() > deadline {
                    return Err(NotUp::Late("QEMU did not open its sockets", limit));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(source) => return Err(NotUp::NotOpened { path: socket.to_owned(), source }),
        }
    }
}
