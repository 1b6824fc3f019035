//! libvirt for Xen (<https://libvirt.org/drvxen.html>): a daemon in the privileged domain. The driver for QEMU does without one, that for Xen does not.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use nestor_stack::layers::hypervisors::LIBVIRT_FOR_XEN;

use super::daemon::Daemon;
use super::virsh;
use crate::agent::process::{self, Spawner};
use crate::hypervisor::file_tail;
use crate::init::is_first_process;
use crate::message::Command;
use crate::refusal::{Cause, Refusal};

/// The libvirt for Xen of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XenUri;

/// What its tool is told.
const URI: &str = "xen:///system";

/// Where its daemon listens: the one for Xen (virtxend(8)), or the older one for everything.
const SOCKETS: [&str; 2] = ["/run/libvirt/virtxend-sock", "/run/libvirt/libvirt-sock"];

/// The program of the older one, which Debian 12 has.
const DAEMON: &str = "libvirtd";

/// What it prints.
const LOG: &str = "/var/log/libvirtd.log";

/// Where Debian has the drivers of libvirt.
const DRIVERS: &str = "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver";

/// The driver for Xen.
const DRIVER_FOR_XEN: &str = "libvirt_driver_libxl.so";

/// Where the daemon finds that driver and no other: those of networks, storage and QEMU would look for what no machine of the lab has.
const OUR_DRIVERS: &str = "/run/nestor-libvirt-drivers";

/// The variable that names such a directory (`virFileFindResourceFull` in src/util/virfile.c).
const DRIVERS_VARIABLE: &str = "LIBVIRT_DRIVER_DIR";

/// libvirt's list of models of processors.
const MODELS: &str = "/usr/share/libvirt/cpu_map/index.xml";

/// The first model in it.
const FIRST_MODEL: &str = "<include filename='x86_486.xml'/>";

/// A model for the lab's processor, beside that list. The driver does not start on a processor without one (`x86Decode` in src/cpu/cpu_x86.c). Each of
/// libvirt's has VME, which QEMU does not emulate, or SYSENTER, which Xen hides where the processor is AMD's (`init_amd` in
/// xen/arch/x86/cpu/amd.c). Domains do not see it.
const LABS_MODEL: &str =
    "<cpus><model name='nestor-lab'><decode host='on' guest='on'/><feature name='fpu'/></model></cpus>";

/// The file of that model.
const LABS_MODEL_FILE: &str = "x86_nestor-lab.xml";

/// The names of open files that udev makes, which no machine of the lab has: Xen's script for disks waits for ever without
/// (`claim_lock` in locking.sh).
const OPEN_FILES: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// How long it may take to answer: it asks Xen for all that it can do.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// How often it is asked.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Lines of what it prints that a message shows.
const LOG_LINES: usize = 6;

impl fmt::Display for XenUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(URI)
    }
}

impl XenUri {
    /// Makes sure that it answers: in a machine of the lab its daemon is started, on a user's it is not.
    ///
    /// # Errors
    /// It is not there, it has no driver for Xen, or it does not answer in time: with what to do.
    pub fn make_ready(self, spawner: &Spawner) -> Result<(), Refusal> {
        let packages: Vec<&str> =
            std::iter::once("libvirt-daemon-system").chain(LIBVIRT_FOR_XEN.iter().copied()).collect();
        let without = "`xen` without by=libvirt";
        let daemon = Daemon { uri: URI, sockets: SOCKETS, packages: &packages, without };
        let answers = || virsh::require_answer(spawner, &self);
        match daemon.check() {
            Ok(()) => answers(),
            Err(_) if is_first_process() => start(spawner, &daemon)
                .and_then(|()| answers())
                .map_err(|e| Refusal { message: format!("{}{}", e.message, log_tail()), ..e }),
            Err(e) => Err(e),
        }
    }
}

/// Starts it in the foreground, so that it ends with the agent, and waits until it answers.
///
/// # Errors
/// It cannot be started, or has ended.
fn start(spawner: &Spawner, daemon: &Daemon<'_>) -> Result<(), Refusal> {
    prepare().map_err(|e| Refusal::of_io("the machine could not be made ready for libvirt", &e))?;
    let mut command = Command::new([DAEMON]);
    command.environment.insert(DRIVERS_VARIABLE.to_owned(), OUR_DRIVERS.to_owned());
    let mut process = process::start(spawner, &command, LOG)?;
    let deadline = Instant::now() + READY_LIMIT;
    while daemon.check().is_err() {
        let has_ended = !matches!(process.try_wait(), Ok(None));
        if has_ended || Instant::now() > deadline {
            let what = if has_ended { "has ended" } else { "does not answer" };
            return Err(Refusal::new(Cause::NotStarted, format!("{DAEMON} {what}")));
        }
        std::thread::sleep(ASK_AGAIN);
    }
    Ok(())
}

/// Makes what it and its tools want to find in a machine.
fn prepare() -> io::Result<()> {
    for (name, target) in OPEN_FILES {
        link(Path::new(target), Path::new(name))?;
    }
    fs::create_dir_all(OUR_DRIVERS)?;
    link(&Path::new(DRIVERS).join(DRIVER_FOR_XEN), &Path::new(OUR_DRIVERS).join(DRIVER_FOR_XEN))?;
    fs::write(Path::new(MODELS).with_file_name(LABS_MODEL_FILE), LABS_MODEL)?;
    fs::write(MODELS, with_labs_model(&fs::read_to_string(MODELS)?))
}

/// Makes a symbolic link that is not there yet.
fn link(target: &Path, name: &Path) -> io::Result<()> {
    match symlink(target, name) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The list of models, with that of the lab's processor.
fn with_labs_model(models: &str) -> String {
    let added = format!("<include filename='{LABS_MODEL_FILE}'/>");
    if models.contains(&added) {
        return models.to_owned();
    }
    models.replacen(FIRST_MODEL, &format!("{added}{FIRST_MODEL}"), 1)
}

/// The end of what it printed, for a message.
fn log_tail() -> String {
    file_tail(Path::new(LOG), "the output of its daemon ends", LOG_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_processor_is_added_to_the_models_once() {
        let models = "<cpus><arch name='x86'><include filename='x86_486.xml'/></arch></cpus>";
        let added = with_labs_model(models);
        assert_eq!(
            added,
            "<cpus><arch name='x86'><include filename='x86_nestor-lab.xml'/><include filename='x86_486.xml'/></arch></cpus>"
        );
        assert_eq!(with_labs_model(&added), added);
    }

    #[test]
    fn a_daemon_that_is_not_there_is_not_started_on_a_users_machine() {
        if SOCKETS.iter().any(|socket| Path::new(socket).exists()) {
            return;
        }
        let said = XenUri.make_ready(&Spawner::new()).unwrap_err().message;
        assert!(said.contains("apt-get install libvirt-daemon-system libvirt-daemon-driver-xen"), "{said}");
    }
}
