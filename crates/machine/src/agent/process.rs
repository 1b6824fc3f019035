//! Running programs: with a time limit, in their own process group, and never longer than the agent lives.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command as OsCommand, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, set_parent_process_death_signal,
};

use super::private;
use crate::command_line::{OWN_PROGRAM, shown_program};
use crate::message::{Command, Finished, MAX_FRAME_BYTES};
use crate::refusal::{Cause, Refusal};

/// Most bytes kept of each output stream: both together fit one frame.
const MAX_OUTPUT_BYTES: u64 = MAX_FRAME_BYTES as u64 / 2 - 4096;

type SpawnRequest = (OsCommand, Sender<io::Result<Child>>);

/// Starts processes from one thread that lives as long as the agent.
///
/// A process is to be killed when the agent dies, whatever killed it (`PR_SET_PDEATHSIG`), but the kernel sends that
/// signal when the *thread* that forked ends, and requests are served by short-lived threads.
#[derive(Clone, Debug)]
pub struct Spawner(Sender<SpawnRequest>);

impl Spawner {
    /// Starts the thread.
    pub fn new() -> Self {
        let (sender, receiver) = channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, answer) in receiver {
                // If the send fails, the caller no longer waits; the child then dies with the agent.
                let _ = answer.send(command.spawn());
            }
        });
        Self(sender)
    }

    /// Starts `command` in a process group of its own that dies with the agent.
    ///
    /// # Errors
    /// As [`OsCommand::spawn`].
    pub fn spawn(&self, mut command: OsCommand) -> io::Result<Child> {
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe calls (prctl, umask, signal) are made.
        unsafe {
            command.pre_exec(|| {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                // SIGINT ends a program. An agent that a script started in the background ignores SIGINT, and
                // its children would inherit that.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
                Ok(())
            });
        }
        let (sender, receiver) = channel();
        let gone = || io::Error::other("the thread that starts processes has ended");
        self.0.send((command, sender)).map_err(|_| gone())?;
        receiver.recv().map_err(|_| gone())?
    }
}

impl Default for Spawner {
    fn default() -> Self {
        Self::new()
    }
}

/// The agent's own binary, also after the file it was started from has been replaced or is out of reach.
pub const OWN_BINARY: &str = "/proc/self/exe";

/// Turns a message into something that can be spawned.
///
/// # Errors
/// If the command is empty.
pub fn os_command(command: &Command) -> Result<OsCommand, Refusal> {
    let (program, arguments) = command
        .argv
        .split_first()
        .ok_or_else(|| Refusal::new(Cause::Other, "a program to run has no name"))?;
    let mut os = OsCommand::new(if program == OWN_PROGRAM { OWN_BINARY } else { program });
    // What programs say of the kernel's errors is read in one language.
    os.args(arguments).env("LC_ALL", "C").envs(&command.environment);
    Ok(os)
}

/// Runs a program to its end or its time limit.
///
/// # Errors
/// When it cannot be started.
pub fn run(spawner: &Spawner, command: &Command, on_start: impl FnOnce(&Child)) -> Result<Finished, Refusal> {
    let mut os = os_command(command)?;
    os.stdin(if command.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
    os.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = spawner.spawn(os).map_err(|e| Refusal::cannot_start(&command.argv, &e))?;
    on_start(&child);
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    if let Some(mut pipe) = child.stdin.take() {
        let bytes = command.stdin.clone();
        // A program that does not read its input ends the pipe; that is its affair.
        std::thread::spawn(move || pipe.write_all(&bytes));
    }
    let timed_out = !wait_at_most(&child, Duration::from_millis(command.timeout_ms))
        .map_err(|e| cannot_wait(command, &e))?;
    if timed_out {
        kill_group(&child, Signal::KILL);
    }
    let status = child.wait().map_err(|e| cannot_wait(command, &e))?;
    let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // Processes that the program left running hold the pipes open. They are in its group, so this ends them too.
    kill_group(&child, Signal::KILL);
    use std::os::unix::process::ExitStatusExt;
    Ok(Finished {
        exit_code: status.code(),
        signal: status.signal(),
        timed_out,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
        elapsed_ns,
    })
}

fn cannot_wait(command: &Command, error: &io::Error) -> Refusal {
    let program = command.argv.first().map_or("", |program| shown_program(program));
    Refusal::of_io(&format!("waiting for `{program}` failed"), error)
}

/// Starts a program in the background; its output is appended to a file.
///
/// # Errors
/// When it cannot be started or the file cannot be opened.
pub fn start(spawner: &Spawner, command: &Command, output: &str) -> Result<Child, Refusal> {
    let mut os = os_command(command)?;
    let file = private::open_to_write(Path::new(output), OFlags::APPEND)
        .map_err(|e| Refusal::of_io(&format!("the output file {output} could not be opened"), &e))?;
    let error_file = file
        .try_clone()
        .map_err(|e| Refusal::of_io(&format!("the output file {output} could not be shared"), &e))?;
    os.stdin(Stdio::null()).stdout(file).stderr(error_file);
    spawner.spawn(os).map_err(|e| Refusal::cannot_start(&command.argv, &e))
}

/// Asks a started program to end, kills it after `grace`, and says how it ended.
///
/// # Errors
/// When waiting for it fails.
pub fn stop(child: &mut Child, grace: Duration) -> io::Result<Finished> {
    let started = Instant::now();
    // Only the leader gets the signal: a tool such as blktrace stops its own helpers.
    let lives = child.try_wait()?.is_none();
    if let Some(pid) = process_id(child).filter(|_| lives) {
        let _ = rustix::process::kill_process(pid, Signal::INT);
    }
    let timed_out = !wait_at_most(child, grace)?;
    kill_group(child, Signal::KILL);
    let status = child.wait()?;
    use std::os::unix::process::ExitStatusExt;
    Ok(Finished {
        exit_code: status.code(),
        signal: status.signal(),
        timed_out,
        elapsed_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        ..Finished::default()
    })
}

/// Sends a signal to a child and everything it started.
pub fn kill_group(child: &Child, signal: Signal) {
    if let Some(pid) = process_id(child) {
        let _ = kill_process_group(pid, signal);
    }
}

fn process_id(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Waits until the child has ended; `false` if it has not within `limit`.
///
/// # Errors
/// When the kernel has no pidfds (before 5.3).
pub fn wait_at_most(child: &Child, limit: Duration) -> io::Result<bool> {
    let Some(pid) = process_id(child) else { return Ok(true) };
    let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::SRCH) => return Ok(true),
        Err(e) => return Err(e.into()),
    };
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A broken pipe means the program is gone; what came before it is kept.
            let _ = (&mut pipe).take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_here(command: &Command) -> Result<Finished, Refusal> {
        let spawner = Spawner::new();
        run(&spawner, command, |_| {})
    }

    #[test]
    fn output_input_and_exit_code_come_back() {
        let command =
            Command { stdin: b"hello".to_vec(), ..Command::new(["sh", "-c", "cat; echo no >&2; exit 3"]) };
        let finished = run_here(&command).unwrap();
        assert_eq!((finished.exit_code, finished.stdout.as_slice()), (Some(3), b"hello".as_slice()));
        assert_eq!(finished.stderr_text(), "no");
    }

    #[test]
    fn a_program_that_runs_too_long_is_killed_with_all_it_started() {
        let command = Command { timeout_ms: 200, ..Command::new(["sh", "-c", "sleep 600 & echo $!; wait"]) };
        let finished = run_here(&command).unwrap();
        assert!(finished.timed_out && !finished.succeeded());
        let grandchild = finished.stdout_text().trim().to_owned();
        let gone = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat"));
            state.map_or(true, |s| s.contains(") Z "))
        });
        assert!(gone, "process {grandchild} outlived its time limit");
    }

    #[test]
    fn what_a_program_makes_is_closed_to_other_users() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        // QEMU makes its sockets so; perl, which every Debian has, does as well.
        let socket = "use IO::Socket::UNIX; IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die";
        let made = run_here(&Command::new(["perl", "-e", socket, at("socket").to_str().unwrap()])).unwrap();
        assert!(made.succeeded(), "{}", String::from_utf8_lossy(&made.stderr));
        let script = "touch \"$0/file\"; mkdir \"$0/directory\"";
        run_here(&Command::new(["sh", "-c", script, directory.path().to_str().unwrap()])).unwrap();
        assert!(std::fs::metadata(at("socket")).unwrap().file_type().is_socket());
        for name in ["socket", "file", "directory"] {
            let mode = std::fs::metadata(at(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{name}");
        }
    }

    #[test]
    fn a_program_that_is_not_installed_is_named() {
        let error = run_here(&Command::new(["no-such-program-anywhere"])).unwrap_err();
        assert!(matches!(error.cause, crate::Cause::NotInstalled { .. }), "{error:?}");
        assert!(error.message.contains("`no-such-program-anywhere` is not installed"), "{error}");
    }

    #[test]
    fn a_started_program_is_asked_to_end() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        let script = "sleep 100 & trap 'kill $!; echo asked; exit 0' INT; echo ready; wait";
        // The child lives as long as the thread of its spawner.
        let spawner = Spawner::new();
        let mut child =
            start(&spawner, &Command::new(["sh", "-c", script]), output.to_str().unwrap()).unwrap();
        let ready = (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            std::fs::read_to_string(&output).unwrap().contains("ready")
        });
        assert!(ready, "the program did not start");
        let finished = stop(&mut child, Duration::from_secs(20)).unwrap();
        assert!(finished.succeeded());
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "ready\nasked\n");
    }
}
