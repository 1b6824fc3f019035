//! The program as a user meets it, in a place of its own, and a look at what it left behind.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub mod lab_machine;
pub mod load_wml;
pub mod loop_mount;
pub mod made_traces;
pub mod pseudo_terminal;
pub mod simulated;
pub mod slurm_cluster;
pub mod study_outcomes;
pub mod tracing_instances;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as OsCommand, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;

/// The program under test, if it is another one than the debug build: `make test` names the release build, which
/// is what users have and which boots faster.
const BINARY_VARIABLE: &str = "NESTOR_TEST_BINARY";

/// No test waits longer for one command. None measures time, this only ends what hangs.
pub const LIMIT: Duration = Duration::from_secs(600);

/// The program's path.
pub fn binary() -> PathBuf {
    match std::env::var_os(BINARY_VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env!("CARGO_BIN_EXE_nestor")),
    }
}

/// Copies a program to where everybody may run it.
///
/// Another process writes it. A file that is open for writing here would be inherited by a child that another test
/// starts at the same moment, and running it would fail with `ETXTBSY` until that child's `exec`.
pub fn copy_program(from: &Path, to: &Path) {
    let status = OsCommand::new("install").args(["-m", "755"]).args([from, to]).status();
    assert!(status.expect("install runs").success(), "{} is installed", to.display());
}

/// Writes a script where everybody may run it, as [`copy_program`] does.
pub fn write_program(path: &Path, script: &str) {
    let text = tempfile::NamedTempFile::new().expect("a file");
    fs::write(text.path(), script).expect("the script can be written");
    copy_program(text.path(), path);
}

/// Runs the program, which has to succeed; what it prints.
pub fn said(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.nestor(arguments).assert().success().get_output().stdout.clone();
    String::from_utf8(output).expect("text is UTF-8")
}

/// Runs the program, which has to fail without a result; what it says.
pub fn refused(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.nestor(arguments).assert().failure().stdout("").get_output().stderr.clone();
    String::from_utf8(output).expect("messages are UTF-8")
}

/// What the program printed with `--json`.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Directories of one test: whatever the program makes outside of the user's cache is in here.
pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    /// An empty one. Its path is short, for sockets are in it.
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir_in("/var/tmp").expect("/var/tmp can be written to") }
    }

    /// One with a longer path.
    pub fn with_longer_path() -> Self {
        let mut builder = tempfile::Builder::new();
        let directory = builder.prefix("in-a-directory-with-a-longer-name-").tempdir_in("/var/tmp");
        Self { directory: directory.expect("/var/tmp can be written to") }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A path in it as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A sparse file in it, to be a disk.
    pub fn disk(&self, name: &str, bytes: u64) -> String {
        let path = self.path(name);
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("a sparse file can be made");
        path.display().to_string()
    }

    fn variables(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("NESTOR_WORK", self.path("")),
            ("XDG_DATA_HOME", self.path("data")),
            // So that a relative path in an argument lands here too.
            ("PWD", self.path("")),
        ]
    }

    /// The program with arguments, its files in here.
    pub fn nestor<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).envs(self.variables()).current_dir(self.path("")).timeout(LIMIT);
        // Whatever the terminal of who runs the tests is like.
        command.env_remove("COLUMNS");
        command
    }

    /// The program, running in the background while the test does something to it.
    pub fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Running<'_> {
        let errors = self.path("stderr.txt");
        let output = self.path("stdout.txt");
        let child = OsCommand::new(binary())
            .args(arguments)
            .envs(self.variables())
            .env("NESTOR_LOG_REQUESTS", "1")
            .envs(variables.iter().copied())
            .current_dir(self.path(""))
            .stdin(Stdio::null())
            .stdout(File::create(&output).expect("the sandbox can be written to"))
            .stderr(File::create(&errors).expect("the sandbox can be written to"))
            .spawn()
            .expect("the program starts");
        Running { sandbox: self, child, output, errors }
    }

    /// The program, running beside others; its output is collected by who waits for it.
    pub fn nestor_in_background(&self, arguments: &[&str]) -> Child {
        let mut command = OsCommand::new(binary());
        command.args(arguments).envs(self.variables()).current_dir(self.path("")).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// The exit code of the program, which writes its output there.
    pub fn code_writing_to(&self, output: impl Into<Stdio>, arguments: &[&str]) -> Option<i32> {
        let mut command = OsCommand::new(binary());
        command.args(arguments).envs(self.variables()).current_dir(self.path("")).stdin(Stdio::null());
        command.stdout(output).stderr(Stdio::null()).status().expect("the program starts").code()
    }

    /// The program in the background, with its standard input to be written to, after it has printed its first line.
    pub fn nestor_with_input(&self, arguments: &[&str]) -> Child {
        let mut command = OsCommand::new(binary());
        command.args(arguments).envs(self.variables()).current_dir(self.path(""));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it says something");
        child
    }

    /// Everything of this sandbox's runs that is still there: processes, mounts, loop devices, work directories.
    pub fn left_behind(&self) -> Vec<String> {
        let place = self.text("");
        let place = place.trim_end_matches('/');
        let mut left: Vec<String> =
            self.processes().map(|p| format!("process {} {}", p.pid, p.command)).collect();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        left.extend(
            mounts.lines().filter(|l| l.contains(&format!("{place}/nestor-"))).map(|l| format!("mount {l}")),
        );
        for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let backing = fs::read_to_string(block.path().join("loop/backing_file")).unwrap_or_default();
            if backing.starts_with(place) && !backing.contains("/kept-") {
                left.push(format!(
                    "loop device {} of {}",
                    block.file_name().to_string_lossy(),
                    backing.trim()
                ));
            }
        }
        for root in self.work_roots() {
            for work in fs::read_dir(root).into_iter().flatten().flatten() {
                left.push(format!("work directory {}", work.path().display()));
            }
        }
        left
    }

    /// Fails if something is left a while after the program ended: an agent whose controller was killed needs a moment.
    pub fn assert_nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let left = self.left_behind();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind:\n  {}", left.join("\n  "));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn work_roots(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(self.path("")).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("nestor-")))
    }

    /// Numbers of the living processes that run for this sandbox, the oldest first.
    pub fn process_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.processes().map(|p| p.pid).collect();
        ids.sort_unstable();
        ids
    }

    /// Living processes that run for this sandbox, known by their environment.
    fn processes(&self) -> impl Iterator<Item = Process> + use<> {
        // Also those of hosts that a test makes in the sandbox.
        let mark = format!("NESTOR_WORK={}", self.text(""));
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        numbers.filter_map(move |entry| {
            let pid: u32 = entry.file_name().to_string_lossy().parse().ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let is_ours =
                environment.split(|&byte| byte == 0).any(|variable| variable.starts_with(mark.as_bytes()));
            let command = fs::read(entry.path().join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            is_ours.then_some(Process { pid, command })
        })
    }
}

struct Process {
    pid: u32,
    command: String,
}

/// The program while it runs. Killed if the test ends before it does.
pub struct Running<'a> {
    sandbox: &'a Sandbox,
    child: Child,
    output: PathBuf,
    errors: PathBuf,
}

/// How it ended.
pub struct Ended {
    /// Whether with exit code 0.
    pub succeeded: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Running<'_> {
    /// Waits for a process of this run whose command line has all of `words`.
    pub fn wait_for_process(&mut self, words: &[&str]) -> u32 {
        self.wait_until(&format!("a process with {words:?}"), |sandbox, _| {
            sandbox.processes().find(|p| words.iter().all(|word| p.command.contains(word))).map(|p| p.pid)
        })
    }

    /// Waits until standard error, where requests are logged, has all of `words`.
    pub fn wait_for_log(&mut self, words: &[&str]) {
        self.wait_until(&format!("{words:?} in the log"), |_, log| {
            words.iter().all(|word| log.contains(word)).then_some(())
        });
    }

    /// Waits until standard error, where requests are logged, has so many lines; `None` if the program ends before.
    pub fn when_log_has_lines(&mut self, lines: usize) -> Option<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let ended = self.child.try_wait().expect("the program can be waited for").is_some();
            if fs::read_to_string(&self.errors).unwrap_or_default().lines().count() >= lines {
                return Some(());
            }
            if ended {
                return None;
            }
            assert!(Instant::now() < deadline, "there never were {lines} lines in the log");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until a file is there.
    pub fn wait_for_file(&mut self, path: &Path) {
        self.wait_until(&format!("the file {}", path.display()), |_, _| path.exists().then_some(()));
    }

    fn wait_until<T>(&mut self, what: &str, mut look: impl FnMut(&Sandbox, &str) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            let log = fs::read_to_string(&self.errors).unwrap_or_default();
            if let Some(found) = look(self.sandbox, &log) {
                return found;
            }
            let ended = self.child.try_wait().expect("the program can be waited for");
            let said = || fs::read_to_string(&self.output).unwrap_or_default();
            assert!(ended.is_none(), "it ended before there was {what}:\n{}\n{log}", said());
            assert!(Instant::now() < deadline, "there never was {what}:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the program can be waited for").is_none()
    }

    /// Where its agent keeps what it makes.
    pub fn work_directory(&self) -> PathBuf {
        let runs =
            self.sandbox.work_roots().flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
        let mut found = runs.map(|run| run.path()).filter(|path| path.join("ledger.json").is_file());
        found.next().expect("the agent has a directory")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub fn end(self) -> Ended {
        self.end_within(LIMIT)
    }

    /// Waits for its end, which may take this long.
    pub fn end_within(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the program can be waited for") {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        Ended { succeeded: status.success(), stdout: text(&self.output), stderr: text(&self.errors) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // After its end this does nothing; before it, the agent takes everything down.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("the process is there");
}

/// Waits until no other test boots machines: two at once would wait for each other's processors.
pub fn alone() -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines.lock");
    let file = File::create(path).expect("the build's directory for tests can be written to");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    file
}

/// Whether a test that needs root, and the lab image, can run; says so if not.
pub fn can_run(root: bool, lab_image: bool) -> bool {
    if root && !rustix::process::geteuid().is_root() {
        eprintln!("not tried: this needs root");
        return false;
    }
    if lab_image && !OsCommand::new(binary()).args(["lab", "show"]).output().is_ok_and(|o| o.status.success())
    {
        // `make test` makes it first and names the program; without either this is a quick `cargo test`.
        assert!(std::env::var_os(BINARY_VARIABLE).is_none(), "there is no lab image");
        eprintln!("not tried: there is no lab image; `make lab` makes it");
        return false;
    }
    true
}

/// Whether a program is in the usual places.
pub fn has_program(name: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|d| Path::new(d).join(name).exists())
}

/// Bytes of the layer of that name in one element of `nestor run --json`.
pub fn layer_bytes(view: &Value, layer: &str) -> Option<u64> {
    let layers = view["layers"].as_array()?;
    layers.iter().find(|row| row["layer"].as_str().is_some_and(|l| l.starts_with(layer)))?["bytes"].as_u64()
}

/// Names of the marks of one element of `nestor run --json`.
pub fn marks(view: &Value) -> Vec<String> {
    let marks = view["summary"]["marks"].as_array().cloned().unwrap_or_default();
    marks
        .iter()
        .filter_map(|m| m["mark"]["mark"].as_str().or(m["mark"].as_str()).map(str::to_owned))
        .collect()
}

/// The messages of the runs that failed, of one element of `nestor run --json`.
pub fn failures(view: &Value) -> String {
    view["summary"]["failures"].to_string()
}
