//! A domain that `xl` made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nestor_kernel::ServedRequests;
use nestor_stack::layers::hypervisors::XenGuest;
use nestor_stop::lock;

use super::configuration::{self, DATA_DISK, DATA_DISK_NUMBER, DomainFiles};
use super::{XenDisk, console, tools};
use crate::agent::loop_device;
use crate::agent::process::Spawner;
use crate::boot_directory;
use crate::connection::{Connection, NoAnswer};
use crate::hypervisor::{OwnDisk, RunningMachine, last_lines, not_supported};
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, DiskBackend, MachineSpec};

/// What `libxl` runs when a disk comes (`add`) and goes (`remove`): it tells the back end which device that is, and the tool stack that it is
/// connected. Xen's own script does the same after a search for other users of the device, which takes seconds.
const DISK_SCRIPT: &str = r#"#!/bin/sh
case "$1" in
add)
    device=$(xenstore-read "$XENBUS_PATH/params") || exit 1
    xenstore-write "$XENBUS_PATH/physical-device" "$(stat -L -c %t:%T "$device")" \
        "$XENBUS_PATH/physical-device-path" "$device" "$XENBUS_PATH/hotplug-status" connected ;;
remove) xenstore-rm "$XENBUS_PATH/hotplug-status" ;;
esac
"#;

/// Lines of Xen's log that a message about a domain shows.
const LOG_LINES: usize = 24;

/// A running domain.
pub struct Domain {
    connection: Connection,
    guest: XenGuest,
    name: String,
    /// Xen's number of it.
    number: u32,
    directory: PathBuf,
    spawner: Spawner,
    /// The mark of the loop device of its disk, and the raw image that it is made of.
    loop_device: Mutex<Option<(String, String)>>,
}

impl Domain {
    /// Makes a domain and waits for its agent.
    ///
    /// # Errors
    /// Why it did not come up.
    pub fn boot(spec: &MachineSpec, directory: PathBuf, spawner: Spawner) -> Result<Self, Refusal> {
        let guest = spec
            .xen_guest
            .ok_or_else(|| Refusal::new(Cause::Other, "it is not said how Xen is to run the machine"))?;
        tools::make_ready(&spawner)?;
        if guest == XenGuest::Pvh {
            tools::require_support_for_machines(&spawner)?;
        }
        let name = format!("nestor-{}", spec.place);
        let configuration = prepare(spec, guest, &name, &directory)?;
        let limit = Duration::from_millis(spec.boot_timeout_ms);
        let deadline = Instant::now() + limit;
        let made = make(&spawner, &name, &configuration);
        let (number, connection) = match made {
            Ok(made) => made,
            Err(e) => {
                let _ = tools::run(&spawner, &[tools::XL, "destroy", &name]);
                let _ = fs::remove_dir_all(&directory);
                return Err(e);
            }
        };
        let domain =
            Self { connection, guest, name, number, directory, spawner, loop_device: Mutex::default() };
        let left = deadline.saturating_duration_since(Instant::now());
        domain.connection.wait_hello(left).map_err(|e| {
            let message = format!("{}{}", e.of_new_agent(), domain.last_words());
            Refusal::new(Cause::NotStarted, message)
        })?;
        Ok(domain)
    }

    fn xl(&self, words: &[&str]) -> Result<String, Refusal> {
        tools::run(&self.spawner, &[&[tools::XL], words].concat())
    }
}

/// Writes the files of a domain; the path of its configuration.
fn prepare(spec: &MachineSpec, guest: XenGuest, name: &str, directory: &Path) -> Result<PathBuf, Refusal> {
    let failed = |path: &Path, e: &std::io::Error| {
        Refusal::of_io(&format!("{} could not be written", path.display()), e)
    };
    let (archive, script) = (directory.join("initramfs.cpio"), directory.join("disk"));
    boot_directory::make(directory, &spec.modules_cpio, &archive)?;
    fs::write(&script, DISK_SCRIPT).map_err(|e| failed(&script, &e))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).map_err(|e| failed(&script, &e))?;
    let files = DomainFiles { initramfs: &archive, script: &script };
    let text = configuration::text(spec, guest, name, &files).ok_or_else(|| {
        Refusal::new(Cause::NotSupported, "the root of a domain has to be a file or a block device")
    })?;
    let path = directory.join("domain.cfg");
    fs::write(&path, text).map_err(|e| failed(&path, &e))?;
    Ok(path)
}

/// Makes the domain and opens its console: its number, and the agent's stream.
fn make(spawner: &Spawner, name: &str, configuration: &Path) -> Result<(u32, Connection), Refusal> {
    tools::run(spawner, &[tools::XL, "create", "-q", "-e", &configuration.display().to_string()])?;
    let said = tools::run(spawner, &[tools::XL, "domid", name])?;
    let number: u32 = said
        .parse()
        .map_err(|_| Refusal::new(Cause::Other, format!("`xl domid` said {said:?}, which is no number")))?;
    let path = format!("/local/domain/{number}/console/tty");
    let terminal = tools::run(spawner, &["xenstore-read", &path])?;
    let opened = console::open(Path::new(&terminal)).and_then(|stream| Ok((stream.try_clone()?, stream)));
    let (reader, writer) =
        opened.map_err(|e| Refusal::of_io(&format!("the console {terminal} could not be opened"), &e))?;
    Ok((number, Connection::new(reader, writer)))
}

impl RunningMachine for Domain {
    fn kind(&self) -> &'static str {
        "a domain of Xen"
    }

    fn request(&self, request: Request, limit: Duration) -> Result<Answer, NoAnswer> {
        self.connection.request(request, limit)
    }

    fn attach(&self, disk: &DiskAttachment) -> Result<(), Refusal> {
        let DiskBackend::Own(OwnDisk::Xen(disk)) = &disk.backend else {
            return Err(not_supported("a disk of another hypervisor cannot be plugged into", self.kind()));
        };
        let device = match disk {
            XenDisk::Device(device) => device.clone(),
            XenDisk::RawImage(path) => {
                let failed = |e: std::io::Error| {
                    Refusal::of_io(&format!("no loop device could be made of {path}"), &e)
                };
                let mark = loop_device::new_mark().map_err(failed)?;
                let device = loop_device::attach(Path::new(path), true, &mark).map_err(failed)?;
                *lock(&self.loop_device) = Some((mark, path.clone()));
                device
            }
        };
        let words = configuration::disk(DATA_DISK, &device, true, &self.directory.join("disk"));
        self.xl(&["block-attach", &self.name, &words]).map(drop).inspect_err(|_| self.forget_loop_device())
    }

    fn detach(&self, _disk: &DiskAttachment) -> Result<(), Refusal> {
        let detached = self.xl(&["block-detach", &self.name, DATA_DISK]).map(drop);
        self.forget_loop_device();
        detached
    }

    fn tick_offset(&self) -> Result<i64, Refusal> {
        match self.guest {
            // `tsc_mode=native`: the counter of the processor as it is.
            XenGuest::Pv => Ok(0),
            // Its counter begins when it is made; Xen does not tell when, of the processor's counter, that was.
            XenGuest::Pvh => Err(not_supported("the offset of the counter is not known of", self.kind())),
        }
    }

    fn served_requests(&self) -> Result<ServedRequests, Refusal> {
        ServedRequests::of_xen(self.number, DATA_DISK_NUMBER).map_err(|e| {
            Refusal::of_io(&format!("the statistics of blkback for {DATA_DISK} could not be read"), &e)
        })
    }

    fn stop(&self) {
        let _ = self.xl(&["destroy", &self.name]);
        self.forget_loop_device();
        self.connection.close("it was shut down");
    }

    fn has_ended(&self) -> bool {
        self.xl(&["domid", &self.name]).is_err()
    }

    fn give_up(&self, loss: Loss) {
        self.connection.give_up(loss);
    }

    fn loss(&self) -> Option<Loss> {
        self.connection.loss()
    }

    fn last_words(&self) -> String {
        let said = |words: &[&str]| self.xl(words).unwrap_or_else(|e| e.message);
        let state = last_lines(&said(&["list", &self.name]), "Xen says of it", 1);
        state + &last_lines(&said(&["dmesg"]), "Xen's log ends", LOG_LINES)
    }
}

impl Domain {
    fn forget_loop_device(&self) {
        if let Some((mark, image)) = lock(&self.loop_device).take() {
            // The privileged domain ends with all that is in it.
            let _ = loop_device::detach(&mark, &image);
        }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
