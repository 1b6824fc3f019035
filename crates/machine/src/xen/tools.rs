//! Xen's tools in the privileged domain: the daemons that domains need, and `xl`.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::agent::process::{self, Spawner};
use crate::message::Command;
use crate::refusal::{Cause, Refusal};

/// Xen's own tool for people and scripts.
pub const XL: &str = "xl";

/// Where Debian has the programs of Xen that are on no search path.
const PROGRAMS: &str = "/usr/lib/xen-4.17/bin";

/// Where the store, which holds what domains know of each other, is asked.
const STORE_SOCKET: &str = "/var/run/xenstored/socket";

/// What the daemons print.
const LOG: &str = "/var/log/xen/daemons.log";

/// What loads the back end of disks, and the ways from programs to Xen.
const MODULES: [&str; 8] =
    ["modprobe", "--all", "xen-evtchn", "xen-gntdev", "xen-gntalloc", "xen-privcmd", "xenfs", "xen-blkback"];

/// How long the store may take to answer.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// How long a tool may take.
const LIMIT_MS: u64 = 60_000;

/// The directories that the tools expect.
const DIRECTORIES: [&str; 5] =
    ["/var/run/xen", "/var/run/xenstored", "/var/lib/xenstored", "/var/log/xen", "/var/lib/xen"];

/// Xen's version, of the tool that is here.
pub fn version() -> Option<String> {
    let output = std::process::Command::new(program(XL)).arg("version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned).filter(|line| !line.is_empty())
}

/// Runs a tool; what it printed.
///
/// # Errors
/// It is not there, or what it said when it failed.
pub fn run(spawner: &Spawner, words: &[&str]) -> Result<String, Refusal> {
    let finished = process::run(spawner, &command(words), |_| {})?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if finished.succeeded() {
        return Ok(said(&finished.stdout));
    }
    let ended = finished.end(LIMIT_MS / 1000);
    let (program, why) = (words[0].to_owned(), said(&finished.stderr));
    let message = format!("`{}` failed ({ended}): {why}", words.join(" "));
    Err(Refusal::new(Cause::ProgramFailed { program, ended }, message))
}

fn command(words: &[&str]) -> Command {
    let program = program(words[0]);
    let argv = std::iter::once(&*program).chain(words[1..].iter().copied());
    Command { timeout_ms: LIMIT_MS, ..Command::new(argv) }
}

/// Starts what domains need, unless it runs.
///
/// # Errors
/// This machine is not a privileged domain, or a tool failed.
pub fn make_ready(spawner: &Spawner) -> Result<(), Refusal> {
    if !is_privileged_domain() {
        let message = "this machine is not the privileged domain of a Xen, which alone starts domains";
        return Err(Refusal::new(Cause::NotSupported, message));
    }
    // Before the store runs, whoever asks it waits for ever.
    if is_store_there() {
        return Ok(());
    }
    for directory in DIRECTORIES {
        fs::create_dir_all(directory)
            .map_err(|e| Refusal::of_io(&format!("the directory {directory} could not be made"), &e))?;
    }
    run(spawner, &MODULES)?;
    start(spawner, &["xenstored", "-N", "--pid-file", "/var/run/xenstored.pid"])?;
    let deadline = Instant::now() + READY_LIMIT;
    while !is_store_there() {
        if Instant::now() > deadline {
            return Err(Refusal::new(
                Cause::NotStarted,
                format!("xenstored does not answer; its output is in {LOG}"),
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    run(spawner, &["xen-init-dom0"])?;
    start(spawner, &["xenconsoled", "--interactive", "--pid-file=/var/run/xenconsoled.pid"])
}

/// A domain of type `pvh` runs in what processors have for virtual machines.
///
/// # Errors
/// Xen does not use that here, or its tool failed.
pub fn require_support_for_machines(spawner: &Spawner) -> Result<(), Refusal> {
    let said = run(spawner, &[XL, "info", "virt_caps"])?;
    if supports_machines(&said) {
        return Ok(());
    }
    let message = "Xen has no support for virtual machines from this processor, which a domain of type pvh needs: switch SVM or VT-x on in the \
                   firmware, or use xen:guest=pv";
    Err(Refusal::new(Cause::NotSupported, message))
}

/// What Xen says that it can run (`virt_caps` of `xl info`, xl(1)): `pv hvm hap shadow`. `hvm` is the processor's support, which `pvh` uses too.
fn supports_machines(capabilities: &str) -> bool {
    capabilities.split_whitespace().any(|word| word == "hvm")
}

/// Starts a daemon in the foreground, so that it ends with the agent.
fn start(spawner: &Spawner, words: &[&str]) -> Result<(), Refusal> {
    process::start(spawner, &command(words), LOG).map(drop)
}

fn is_store_there() -> bool {
    UnixStream::connect(STORE_SOCKET).is_ok()
}

/// Whether this machine is the privileged domain of a Xen.
pub fn is_privileged_domain() -> bool {
    // Needs xenfs, which nothing else mounts.
    let _ = rustix::mount::mount("xenfs", "/proc/xen", "xenfs", rustix::mount::MountFlags::empty(), None);
    fs::read_to_string("/proc/xen/capabilities").is_ok_and(|text| text.contains("control_d"))
}

/// A tool on the search path, or where Debian has it.
fn program(name: &str) -> String {
    let debians = Path::new(PROGRAMS).join(name);
    if debians.is_file() { debians.display().to_string() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hvm_among_the_capabilities_is_the_support_of_the_processor() {
        assert!(supports_machines("pv hvm hap shadow vmtrace gnttab-v1 gnttab-v2"));
        assert!(!supports_machines("pv pv_directio shadow gnttab-v1"));
        assert!(!supports_machines("pv hvm_directio"));
        assert!(!supports_machines(""));
    }
}
