//! Running the programs of a build: their output line by line, and an end to all of them when the caller asks for it.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nestor_text::c_library::says_no_space;
use rustix::process::{Pid, Signal};

use super::error::LabImageError;

/// Lines of output that are remembered to explain a failure.
const REMEMBERED_LINES: usize = 400;

/// Lines of output that an error message shows.
const SHOWN_LINES: usize = 8;

/// How long killed processes may take to be gone.
const TIME_TO_VANISH: Duration = Duration::from_secs(5);

/// How often a running program is compared with the wish to stop.
const POLL: Duration = Duration::from_millis(100);

/// How a program ended that did not succeed.
#[derive(Debug)]
pub enum ToolFailure {
    /// It could not be started.
    NotStarted { program: String, source: io::Error },
    /// It ended with an error.
    Failed { program: String, status: ExitStatus, output: Vec<String> },
    /// It was ended because the caller asked to stop.
    Interrupted,
}

/// Runs `command` to its end and hands every line it prints to `on_line`.
///
/// The program gets a process group of its own, so that a key pressed at the terminal reaches only the caller, who sets
/// `interrupted`; then the group is killed. The program also gets a signal when the caller dies.
pub fn run(
    command: &mut Command,
    interrupted: &AtomicBool,
    on_line: &mut dyn FnMut(&str),
) -> Result<(), ToolFailure> {
    let program =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let not_started = |source| ToolFailure::NotStarted { program: program.clone(), source };
    let (mut child, lines) = start(command).map_err(not_started)?;
    let mut output = VecDeque::new();
    let status = loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => {
                on_line(&line);
                output.push_back(line);
                if output.len() > REMEMBERED_LINES {
                    output.pop_front();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                break wait_or_stop(&mut child, interrupted).map_err(not_started)?;
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            end_group(&mut child);
            return Err(ToolFailure::Interrupted);
        }
    };
    match status {
        None => Err(ToolFailure::Interrupted),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(ToolFailure::Failed { program, status, output: output.into() }),
    }
}

fn start(command: &mut Command) -> io::Result<(Child, Receiver<String>)> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer).process_group(0);
    // SAFETY: between fork and exec the closure only makes two system calls, neither of which allocates or locks.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            // A user's stricter umask would give the image directories that only root may enter.
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
            Ok(())
        });
    }
    let child = command.spawn();
    // The command holds the writing end, without which the reader would never see the end of the output.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = child?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || read_lines(reader, |line| sender.send(line).is_ok()));
    Ok((child, receiver))
}

/// Splits at line ends and at carriage returns, with which programs redraw their progress.
fn read_lines(reader: impl Read, mut deliver: impl FnMut(String) -> bool) {
    let mut line = Vec::new();
    for byte in BufReader::new(reader).bytes().map_while(Result::ok) {
        if byte == b'\n' || byte == b'\r' {
            if !deliver(String::from_utf8_lossy(&line).into_owned()) {
                return;
            }
            line.clear();
        } else {
            line.push(byte);
        }
    }
    if !line.is_empty() {
        deliver(String::from_utf8_lossy(&line).into_owned());
    }
}

/// Waits for a program that has closed its output; nothing if it had to be stopped.
fn wait_or_stop(child: &mut Child, interrupted: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if interrupted.load(Ordering::Relaxed) {
            end_group(child);
            return Ok(None);
        }
        std::thread::sleep(POLL / 10);
    }
}

/// Without asking first: mmdebstrap would answer by going on to its end, and what it leaves is removed anyway.
fn end_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        kill_group(group);
    }
    let _ = child.wait();
}

/// Kills a process group and waits, as long as a killed process can reasonably take, until none of it runs any more: what
/// its last member still writes could not be removed.
pub fn kill_group(group: Pid) {
    let deadline = Instant::now() + TIME_TO_VANISH;
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    while Instant::now() < deadline && group_runs(group) {
        std::thread::sleep(POLL / 10);
    }
}

/// Whether the group has a member besides zombies, which remain for as long as their parents like.
fn group_runs(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes.flatten().any(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // proc_pid_stat(5): after the name in parentheses come the state, the parent and the group.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<_> = after_name.split_whitespace().take(3).collect();
        matches!(fields[..], [state, _, member_of]
            if !["Z", "X"].contains(&state) && member_of.parse() == Ok(group.as_raw_pid()))
    })
}

impl ToolFailure {
    /// The error for the user; `directory` is where the program wrote.
    pub fn during(self, what: &'static str, directory: &Path) -> LabImageError {
        match self {
            ToolFailure::Interrupted => LabImageError::Interrupted,
            ToolFailure::NotStarted { program, source } => LabImageError::Program {
                what,
                program,
                ended: format!("could not be started: {source}"),
                output: String::new(),
            },
            ToolFailure::Failed { output, .. } if disk_is_full(&output) => {
                LabImageError::DiskFull { directory: directory.to_owned() }
            }
            ToolFailure::Failed { program, status, output } => {
                let shown = &output[output.len().saturating_sub(SHOWN_LINES)..];
                let output = shown.iter().map(|line| format!("\n  {line}")).collect();
                LabImageError::Program { what, program, ended: describe(status), output }
            }
        }
    }

    /// The same for a program whose failure most often means that packages could not be fetched.
    pub fn during_fetch(self, what: &'static str, directory: &Path) -> LabImageError {
        match &self {
            ToolFailure::Failed { output, .. } if !disk_is_full(output) => match fetch_complaint(output) {
                Some(detail) => LabImageError::Network { detail },
                None => self.during(what, directory),
            },
            _ => self.during(what, directory),
        }
    }
}

/// apt's own words for it, `You don't have enough free space in /var/cache/apt/archives/.`, which it says before it writes anything.
const NO_SPACE_OF_APT: &str = "enough free space in";

fn disk_is_full(output: &[String]) -> bool {
    output.iter().any(|line| says_no_space(line) || line.contains(NO_SPACE_OF_APT))
}

/// apt's first complaint about something it could not fetch or trust, without its prefix.
fn fetch_complaint(output: &[String]) -> Option<String> {
    const SIGNS: [&str; 9] = [
        "Failed to fetch",
        "Unable to fetch",
        "Could not resolve",
        "Temporary failure resolving",
        "Could not connect",
        "Unable to connect",
        "is not signed",
        "is not valid yet",
        "does not have a Release file",
    ];
    let line = output.iter().find(|line| SIGNS.iter().any(|sign| line.contains(sign)))?;
    let text = line.trim().trim_start_matches("E: ").trim_start_matches("W: ");
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn shell(script: &str, interrupted: &AtomicBool) -> (Result<(), ToolFailure>, Vec<String>) {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let result = run(&mut command, interrupted, &mut |line| lines.push(line.to_owned()));
        (result, lines)
    }

    #[test]
    fn every_line_is_delivered_in_order_from_both_outputs() {
        let (result, lines) = shell("echo a; echo b >&2; printf 'c\\rd'", &AtomicBool::new(false));
        result.unwrap();
        assert_eq!(lines, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_failure_shows_the_last_lines() {
        let (result, _) =
            shell("for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done; exit 3", &AtomicBool::new(false));
        let error = result.unwrap_err().during("installing the packages", Path::new("/cache"));
        assert_snapshot!(error, @"
        installing the packages failed: `sh` ended with exit code 3
          line 2
          line 3
          line 4
          line 5
          line 6
          line 7
          line 8
          line 9
        ");
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let (result, _) =
            shell("echo 'tar: x: Cannot write: No space left on device'; exit 2", &AtomicBool::new(false));
        let error = result.unwrap_err().during_fetch("fetching", Path::new("/cache"));
        assert!(matches!(error, LabImageError::DiskFull { .. }), "{error}");
    }

    #[test]
    fn a_missing_network_is_told_apart() {
        let script = "echo 'Err:1 http://mirror.example/debian bookworm InRelease'; \
            echo \"  Temporary failure resolving 'mirror.example'\"; echo 'E: Some index files failed'; exit 100";
        let (result, _) = shell(script, &AtomicBool::new(false));
        let error = result.unwrap_err().during_fetch("fetching", Path::new("/cache"));
        assert_snapshot!(error, @"could not fetch packages for the lab image: Temporary failure resolving 'mirror.example'; check the network, or set NESTOR_DEBIAN_MIRROR to the address of a mirror of Debian");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let result = run(&mut Command::new("/nonexistent/sqfstar"), &AtomicBool::new(false), &mut |_| {});
        let error = result.unwrap_err().during("packing the root", Path::new("/cache"));
        assert!(
            error.to_string().starts_with("packing the root failed: `sqfstar` could not be started"),
            "{error}"
        );
    }

    #[test]
    fn an_interruption_ends_the_program_and_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pid");
        let interrupted = AtomicBool::new(false);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("sleep 1000 & echo $! >{}; echo started; wait", pid_file.display())]);
        let result = run(&mut command, &interrupted, &mut |_| interrupted.store(true, Ordering::Relaxed));
        assert!(matches!(result, Err(ToolFailure::Interrupted)));
        let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        // The child may remain as a zombie until the process that adopted it collects it.
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z"), "still there: {state}");
    }
}
