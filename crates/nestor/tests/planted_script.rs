//! What another user of the machine prepares is not run: as two real users, which needs root.

mod support;

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{LIMIT, Sandbox, binary, can_run, copy_program};

/// Who runs Nestor.
const VICTIM: u32 = 65534;
/// Who prepares what he would have it run.
const ATTACKER: u32 = 12345;

/// Two reads of one file.
const SCRIPT: &str = "\
define fileset name=docs,path=/tmp,entries=4,size=4k,dirwidth=2,prealloc
define process name=p {
  thread name=t {
    flowop openfile name=open,filesetname=docs,fd=1
    flowop readwholefile name=read,fd=1
    flowop closefile name=close,fd=1
  }
}
run 60
";

/// A shell's line as another user.
fn as_user(user: u32, line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).uid(user).gid(user).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
    command
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory with named pipes in place of the script: the first reader gets what the program wrote, and every program that opens it
/// next to read gets the attacker's script.
struct Planted {
    directory: PathBuf,
    attacker: Child,
}

impl Planted {
    fn new(directory: &str, script: &Path) -> Self {
        let line = "umask 0; mkdir \"$1\" && mkfifo \"$1/script.f\" && cat \"$1/script.f\" >/dev/null; \
                    cat \"$2\" >\"$1/script.f\"";
        let mut command = as_user(ATTACKER, line);
        command.arg("sh").arg(directory).arg(script);
        // A group of its own, so that its readers end with it.
        let attacker = command.process_group(0).stderr(Stdio::null()).spawn().expect("a shell");
        let directory = PathBuf::from(directory);
        wait_until("the pipe is there", || {
            fs::metadata(directory.join("script.f")).is_ok_and(|m| m.file_type().is_fifo())
        });
        assert_eq!(fs::metadata(&directory).expect("a directory").uid(), ATTACKER);
        Self { directory, attacker }
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let group = i32::try_from(self.attacker.id()).ok().and_then(rustix::process::Pid::from_raw);
        let _ = group.map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
        let _ = self.attacker.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn a_script_directory_that_another_user_planted_is_not_run_from() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::set_permissions(sandbox.path(""), Permissions::from_mode(0o755)).expect("its mode can be changed");
    let home = sandbox.path("home");
    for name in ["home", "home/work", "home/files"] {
        fs::create_dir(sandbox.path(name)).expect("a directory");
        chown(sandbox.path(name), Some(VICTIM), Some(VICTIM)).expect("root may give it away");
    }
    let program = sandbox.path("nestor");
    copy_program(&binary(), &program);
    let (script, evil, taken) = (sandbox.path("script.f"), sandbox.path("evil.f"), home.join("taken"));
    fs::write(&script, SCRIPT).expect("a file");
    fs::write(&evil, format!("system \"id -u >{}\"\n", taken.display())).expect("a file");

    // Its number is known before the program begins, and stays: an attacker would try all that may come next.
    let mut command = as_user(VICTIM, "read go; exec \"$0\" \"$@\"");
    command.arg(&program).args(["load", "wml"]).arg(&script).arg("--dir").arg(home.join("files"));
    command.args(["--machines", "this,this", "--cached", "--operations", "30", "--remove"]);
    command.env("HOME", &home).env("NESTOR_WORK", home.join("work"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut victim = command.spawn().expect("a shell");
    let planted =
        [1, 2].map(|number| Planted::new(&format!("/var/tmp/nestor-load-{}-{number}", victim.id()), &evil));
    victim.stdin.take().expect("a pipe").write_all(b"\n").expect("the shell waits");
    let ended = victim.wait_with_output().expect("it can be waited for");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!taken.exists(), "the attacker's command was run as {}", fs::read_to_string(&taken).unwrap());
    assert!(ended.status.success(), "{said}");
    let report = String::from_utf8_lossy(&ended.stdout);
    assert!(report.contains("60 operations by 2 threads"), "{report}");
    // Nothing of the run is left, and what the attacker made was not touched.
    for planted in &planted {
        assert!(fs::metadata(planted.directory.join("script.f")).is_ok_and(|m| m.file_type().is_fifo()));
    }
    let left: Vec<_> = fs::read_dir(home.join("files")).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_script_that_is_no_file_is_refused() {
    let sandbox = Sandbox::new();
    let pipe = sandbox.path("script.f");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a named pipe");
    for words in [&["load", "wml"][..], &["load", "wml", "--check"], &["load", "check"]] {
        // It has no writer: opening it to read would wait for ever.
        let output = sandbox.nestor(words).arg(&pipe).assert().failure().get_output().clone();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("is not a regular file"), "{said}");
    }
}
