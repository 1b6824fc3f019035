//! The daemons of Xen that domains need: started in a machine of the lab, asked for on a user's.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use procfs::process::all_processes;

use super::role::{self, Owner, XenRole};
use super::tools;
use crate::agent::process::{self, Spawner};
use crate::refusal::{Cause, Refusal};

/// Where the store, which holds what domains know of each other, is asked.
const STORE_SOCKET: &str = "/var/run/xenstored/socket";

/// What the daemons print.
const LOG: &str = "/var/log/xen/daemons.log";

/// What loads the back end of disks, and the ways from programs to Xen.
const MODULES: [&str; 8] =
    ["modprobe", "--all", "xen-evtchn", "xen-gntdev", "xen-gntalloc", "xen-privcmd", "xenfs", "xen-blkback"];

/// How long the store may take to answer.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// The directories that the tools expect.
const DIRECTORIES: [&str; 5] =
    ["/var/run/xen", "/var/run/xenstored", "/var/lib/xenstored", "/var/log/xen", "/var/lib/xen"];

/// The daemon that makes a terminal of a domain's console.
const CONSOLE_DAEMON: &str = "xenconsoled";

/// What starts the daemons on a user's machine, in Xen's own units and in Debian's.
const STARTS: &str =
    "`systemctl start xenstored xen-init-dom0 xenconsoled` starts it, on Debian `service xen start`";

/// Makes sure that what domains need is there: in a machine of the lab it is started, on a user's nothing is.
///
/// # Errors
/// This machine is not a privileged domain, a tool failed, or what does not run, with what to do.
pub fn make_ready(owner: Owner, spawner: &Spawner) -> Result<(), Refusal> {
    match owner {
        Owner::Lab => make_ready_in_lab(spawner),
        Owner::User => {
            require_privileged_domain(role::role())?;
            require_daemons()?;
            // The back end of disks, which is a module; a kernel may have it built in.
            let _ = tools::run(spawner, &["modprobe", "--quiet", "xen-blkback"]);
            require_names(spawner)
        }
    }
}

fn make_ready_in_lab(spawner: &Spawner) -> Result<(), Refusal> {
    if !role::is_labs_privileged_domain() {
        return Err(not_privileged());
    }
    // Before the store runs, whoever asks it waits for ever.
    if is_store_there() {
        return Ok(());
    }
    for directory in DIRECTORIES {
        fs::create_dir_all(directory)
            .map_err(|e| Refusal::of_io(&format!("the directory {directory} could not be made"), &e))?;
    }
    tools::run(spawner, &MODULES)?;
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
    tools::run(spawner, &["xen-init-dom0"])?;
    start(spawner, &[CONSOLE_DAEMON, "--interactive", "--pid-file=/var/run/xenconsoled.pid"])
}

/// Starts a daemon in the foreground, so that it ends with the agent.
fn start(spawner: &Spawner, words: &[&str]) -> Result<(), Refusal> {
    process::start(spawner, &tools::command(words), LOG).map(drop)
}

fn is_store_there() -> bool {
    UnixStream::connect(STORE_SOCKET).is_ok()
}

fn not_privileged() -> Refusal {
    let message = "this machine is not the privileged domain of a Xen, which alone starts domains";
    Refusal::new(Cause::NotSupported, message)
}

/// Refuses a machine that cannot make domains.
///
/// # Errors
/// What it is.
pub fn require_privileged_domain(role: Option<XenRole>) -> Result<(), Refusal> {
    match role {
        Some(XenRole::Privileged) => Ok(()),
        Some(XenRole::Guest) => Err(not_privileged()),
        None => Err(Refusal::new(Cause::NotSupported, "this machine does not run under Xen")),
    }
}

/// Refuses a user's machine on which a daemon does not run. None of them is asked anything: before the store runs, whoever asks it waits for ever.
///
/// # Errors
/// Which does not run, with what starts it.
pub fn require_daemons() -> Result<(), Refusal> {
    if let Err(e) = UnixStream::connect(STORE_SOCKET) {
        return Err(does_not_run("xenstored", &format!(" (no answer at {STORE_SOCKET}: {e})")));
    }
    let runs = |name: &str| {
        let mut processes = all_processes().into_iter().flatten().flatten();
        processes.any(|process| process.stat().is_ok_and(|stat| stat.comm == name && stat.state != 'Z'))
    };
    if !runs(CONSOLE_DAEMON) {
        return Err(does_not_run(CONSOLE_DAEMON, ", which connects the agent in a domain"));
    }
    Ok(())
}

fn does_not_run(daemon: &str, more: &str) -> Refusal {
    Refusal::new(Cause::NotThere, format!("{daemon} does not run{more}; {STARTS}"))
}

/// Without its own number in the store, the privileged domain makes no others.
fn require_names(spawner: &Spawner) -> Result<(), Refusal> {
    tools::run(spawner, &["xenstore-read", "domid"]).map(drop).map_err(|e| match e.cause {
        Cause::ProgramFailed { .. } => {
            let message =
                format!("the store does not know the privileged domain: xen-init-dom0 was not run; {STARTS}");
            Refusal::new(Cause::NotThere, message)
        }
        _ => e,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_privileged_domain_makes_others() {
        assert_eq!(require_privileged_domain(Some(XenRole::Privileged)), Ok(()));
        let said = |role| require_privileged_domain(role).unwrap_err().message;
        assert!(said(Some(XenRole::Guest)).contains("not the privileged domain"));
        assert_eq!(said(None), "this machine does not run under Xen");
    }

    #[test]
    fn a_daemon_that_does_not_run_is_named_with_what_starts_it() {
        let said = does_not_run(CONSOLE_DAEMON, "").message;
        insta::assert_snapshot!(said, @"xenconsoled does not run; `systemctl start xenstored xen-init-dom0 xenconsoled` starts it, on Debian `service xen start`");
    }
}
