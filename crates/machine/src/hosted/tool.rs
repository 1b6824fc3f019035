//! Calls of the tool of a hosted hypervisor: each a vector of arguments with a time limit, and nothing on its standard input. A call may leave a
//! program of the product running, which keeps what it inherits: so output goes to a file, whose end nobody has to wait for, and of the process
//! group of a call that has succeeded nothing is ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use super::Product;
use super::identity::{HostedIdentity, MACHINE_VARIABLE};
use crate::agent::process::{self, Spawner};
use crate::command_line::shown;
use crate::hypervisor::last_lines;
use crate::message::{Command, Finished};
use crate::refusal::{Cause, Refusal};

/// Gives calls another time limit.
pub const LIMIT_VARIABLE: &str = "NESTOR_CALL_LIMIT_S";

/// Seconds that a call may take. The longest starts a machine, and none takes ten seconds on a machine that has the time for it.
const LIMIT_S: u64 = 120;

/// Lines of a tool's output that a message shows where none of them says that it is an error.
const LINES: usize = 6;

/// What ends a question, in small letters and without the colon or brackets that may follow.
const QUESTIONS: [&str; 4] = ["?", "y/n", "yes/no", "password"];

/// A tool, told of one machine.
pub struct Tool<'a> {
    program: &'static str,
    product: &'static str,
    environment: Vec<(&'static str, String)>,
    directory: PathBuf,
    spawner: &'a Spawner,
    heard: &'a dyn Fn(u32),
    calls: AtomicU32,
}

/// How a call ended, and what it printed.
struct Called {
    finished: Finished,
    said: String,
}

impl<'a> Tool<'a> {
    /// That of a product, for a machine; what it prints goes through files in `directory`.
    pub fn new(
        product: &dyn Product,
        identity: &HostedIdentity,
        directory: &Path,
        spawner: &'a Spawner,
    ) -> Self {
        let mut environment = product.environment(identity);
        environment.push((MACHINE_VARIABLE, identity.uuid.clone()));
        Self {
            program: product.tool(),
            product: product.name(),
            environment,
            directory: directory.to_owned(),
            spawner,
            heard: &|_| {},
            calls: AtomicU32::new(0),
        }
    }

    /// The same; `heard` hears the process of each call, so that it can be cut short.
    pub fn heard_by(self, heard: &'a dyn Fn(u32)) -> Self {
        Self { heard, ..self }
    }

    /// One for tests, told of no machine.
    #[cfg(test)]
    pub fn for_tests(program: &'static str, directory: &Path, spawner: &'a Spawner) -> Self {
        Self {
            program,
            product: "the product",
            environment: Vec::new(),
            directory: directory.to_owned(),
            spawner,
            heard: &|_| {},
            calls: AtomicU32::new(0),
        }
    }

    /// A call that has to succeed; what it printed.
    ///
    /// # Errors
    /// It is not installed, does not end in time, asks something, or what it said when it failed.
    pub fn call(&self, words: &[&str]) -> Result<String, Refusal> {
        self.run(words).and_then(|(argv, called)| self.understood(&argv, called))
    }

    /// A call of which only matters what it prints, however it ends.
    ///
    /// # Errors
    /// It is not installed, does not end in time, or asks something.
    pub fn ask(&self, words: &[&str]) -> Result<String, Refusal> {
        let (argv, called) = self.run(words)?;
        if called.finished.timed_out || question(&called.said).is_some() {
            return self.understood(&argv, called);
        }
        Ok(called.said)
    }

    /// Runs a program of the system's, which has to succeed.
    ///
    /// # Errors
    /// It is not installed, or what it said when it failed.
    pub fn other(&self, argv: &[String]) -> Result<(), Refusal> {
        let command = Command::new(argv.iter().cloned()).timeout_s(LIMIT_S);
        let finished = process::run(self.spawner, &command, |child| (self.heard)(child.id()))?;
        if finished.succeeded() {
            return Ok(());
        }
        let ended = finished.end(LIMIT_S);
        let said = last_lines(&finished.stderr_text(), "it says", LINES);
        let message = format!("`{}` failed ({ended}){said}", shown(argv));
        Err(Refusal::new(Cause::ProgramFailed { program: argv[0].clone(), ended }, message))
    }

    fn run(&self, words: &[&str]) -> Result<(Vec<String>, Called), Refusal> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let output = self.directory.join(format!("call-{number}.txt"));
        let mut command = Command::new([self.program].into_iter().chain(words.iter().copied()));
        command.environment =
            self.environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let child = process::start(self.spawner, &command, &output.display().to_string())?;
        (self.heard)(child.id());
        let ended = end(child, Duration::from_secs(limit_s()));
        let said = String::from_utf8_lossy(&fs::read(&output).unwrap_or_default()).into_owned();
        let _ = fs::remove_file(&output);
        let finished =
            ended.map_err(|e| Refusal::of_io(&format!("waiting for `{}` failed", self.program), &e))?;
        Ok((command.argv, Called { finished, said }))
    }

    fn understood(&self, argv: &[String], called: Called) -> Result<String, Refusal> {
        let Called { finished, said } = called;
        if finished.succeeded() {
            return Ok(said);
        }
        let call = format!("`{}`", shown(argv));
        if let Some(asked) = question(&said) {
            let message = format!(
                "{call} asks something, which Nestor does not answer for you: {asked}; run `{}` once yourself, and answer it there",
                self.program
            );
            return Err(Refusal::new(Cause::NotSupported, message));
        }
        if finished.timed_out {
            let message = format!(
                "{call} did not end within {} s: {} hangs, or the machine is overloaded; {LIMIT_VARIABLE} gives it more time",
                limit_s(),
                self.product
            );
            return Err(Refusal::new(Cause::TimedOut, message));
        }
        let ended = finished.end(limit_s());
        let message = format!("{call} failed ({ended}){}", what_is_wrong(&said));
        Err(Refusal::new(Cause::ProgramFailed { program: self.program.to_owned(), ended }, message))
    }
}

/// The seconds that each call has.
pub fn limit_s() -> u64 {
    let said = std::env::var(LIMIT_VARIABLE).ok().and_then(|text| text.parse().ok());
    said.filter(|&seconds| seconds > 0).unwrap_or(LIMIT_S)
}

/// Waits for the end of a call, at most for `limit`: then all of its group is ended.
fn end(mut child: Child, limit: Duration) -> std::io::Result<Finished> {
    use std::os::unix::process::ExitStatusExt as _;
    let timed_out = !process::wait_at_most(&child, limit)?;
    if timed_out {
        process::kill_group(&child, Signal::KILL);
    }
    let status = child.wait()?;
    Ok(Finished { exit_code: status.code(), signal: status.signal(), timed_out, ..Finished::default() })
}

/// The question with which what was printed ends, if it does.
fn question(said: &str) -> Option<&str> {
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let small = last.to_lowercase();
    let end = small.trim_end_matches([':', ')', ']', ' ']);
    QUESTIONS.iter().any(|question| end.ends_with(question)).then_some(last)
}

/// The lines that say that something is wrong, without where in the source that is; the last ones if none does.
fn what_is_wrong(said: &str) -> String {
    let is_error = |line: &&str| {
        let small = line.to_lowercase();
        small.contains("error:") && !small.contains("error: details:") && !small.contains("error: context:")
    };
    let errors: Vec<&str> = said.lines().map(str::trim).filter(is_error).collect();
    match errors.is_empty() {
        true => last_lines(said, "it says", LINES),
        false => last_lines(&errors.join("\n"), "it says", LINES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Result<String, Refusal> {
        let directory = tempfile::tempdir().unwrap();
        let spawner = Spawner::new();
        let tool = Tool::for_tests("sh", directory.path(), &spawner);
        let said = tool.call(&["-c", script]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "its output is removed");
        said
    }

    #[test]
    fn what_a_call_leaves_running_is_neither_waited_for_nor_ended() {
        let said = sh("sleep 600 & echo $!").unwrap();
        let pid = rustix::process::Pid::from_raw(said.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }

    #[test]
    fn an_error_is_shown_without_where_in_the_source_it_is() {
        let script = "echo 'VBoxManage: error: Too many storage controllers of this type'; \
                      echo 'VBoxManage: error: Details: code NS_ERROR_INVALID_ARG (0x80070057)'; \
                      echo 'VBoxManage: error: Context: \"AddStorageController\"' >&2; exit 1";
        let refused = sh(script).unwrap_err();
        assert!(refused.message.ends_with("Too many storage controllers of this type"), "{refused}");
        assert!(matches!(refused.cause, Cause::ProgramFailed { .. }), "{refused:?}");
    }

    #[test]
    fn a_question_is_told_from_a_failure() {
        let refused =
            sh("echo 'You must accept the licence.'; printf 'Do you agree? [y/N] '; read answer || exit 1")
                .unwrap_err();
        assert!(
            refused.message.contains("which Nestor does not answer for you: Do you agree? [y/N]"),
            "{refused}"
        );
        assert_eq!(refused.cause, Cause::NotSupported);
        for asked in ["Do you agree? (yes/no):", "Continue [Y/n] ", "Password: ", "Go on?", "Accept (y/n)?"] {
            assert_eq!(question(&format!("Terms\n{asked}\n")), Some(asked.trim()));
        }
        assert_eq!(question("Why?\nBecause."), None);
        assert_eq!(question(""), None);
    }

    #[test]
    fn who_does_not_answer_is_told_from_who_refuses() {
        let directory = tempfile::tempdir().unwrap();
        let spawner = Spawner::new();
        let tool = Tool::for_tests("vbox", directory.path(), &spawner);
        let hangs = Finished { signal: Some(9), timed_out: true, ..Finished::default() };
        let argv = ["vbox".to_owned(), "startvm".to_owned()];
        let refused = tool.understood(&argv, Called { finished: hangs, said: String::new() }).unwrap_err();
        assert_eq!(refused.cause, Cause::TimedOut);
        assert!(refused.message.starts_with("`vbox startvm` did not end within "), "{refused}");
        assert!(refused.message.contains("the product hangs"), "{refused}");
    }

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let spawner = Spawner::new();
        let refused =
            Tool::for_tests("no-such-tool", directory.path(), &spawner).call(&["list"]).unwrap_err();
        assert!(matches!(refused.cause, Cause::NotInstalled { .. }), "{refused:?}");
    }
}
