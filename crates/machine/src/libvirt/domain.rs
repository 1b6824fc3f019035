//! A domain that libvirt made: a machine of QEMU's, with the agent in it.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nestor_stack::Accelerator;

use super::disk::DomainDisk;
use super::identity::{DomainIdentity, DomainProcess};
use super::live::LiveDevice;
use super::xml::Element;
use super::{description, live, virsh};
use crate::agent::process::Spawner;
use crate::boot_directory;
use crate::connection::{Connection, NoAnswer};
use crate::hypervisor::{OnStart, OutlivingMachine, OwnDisk, RunningMachine, Started, not_supported};
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::qemu::{GuestPaging, MachineFiles, Overtime, console_tail, guests_tick_offset};
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, DiskBackend, MachineSpec};

/// How often a machine is asked to release a device: a request that comes while it is busy with the plugging is lost.
const RELEASE_TRIES: u32 = 20;

/// How long it may take between two of them.
const RELEASE_PAUSE: Duration = Duration::from_millis(500);

/// A running domain.
pub struct Domain {
    connection: Connection,
    identity: DomainIdentity,
    process: DomainProcess,
    files: MachineFiles,
    spawner: Spawner,
    was_stopped: AtomicBool,
}

impl Domain {
    /// Has libvirt make a domain, and waits for its agent.
    ///
    /// # Errors
    /// libvirt is not there or refuses, or why the machine did not come up.
    pub fn boot(
        spec: &MachineSpec,
        accelerator: Accelerator,
        directory: PathBuf,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Self, Refusal> {
        let limit = Duration::from_millis(spec.boot_timeout_ms);
        let deadline = Instant::now() + limit;
        let identity = DomainIdentity::new(&directory, &spec.place.to_string())?;
        identity.uri.make_ready(spawner)?;
        let files = MachineFiles { directory };
        let made = prepare(spec, accelerator, &identity, &files)
            .and_then(|path| make(&identity, &path, &files, spawner, on_start));
        let (process, connection) = match made {
            Ok(made) => made,
            Err(e) => {
                let log = identity.log_tail();
                let _ = identity.end(spawner);
                let _ = fs::remove_dir_all(&files.directory);
                return Err(Refusal { message: format!("{}{log}", e.message), ..e });
            }
        };
        let was_stopped = AtomicBool::new(false);
        let domain = Self { connection, identity, process, files, spawner: spawner.clone(), was_stopped };
        domain.wait_for_agent(deadline.saturating_duration_since(Instant::now()), limit)?;
        Ok(domain)
    }

    fn wait_for_agent(&self, left: Duration, limit: Duration) -> Result<(), Refusal> {
        let overtime = Overtime::new(left, self.process.pid);
        self.connection.await_hello(left, &mut || overtime.left()).map_err(|e| {
            let what = match e {
                NoAnswer::TimedOut(_) => format!(
                    "it did not boot within its {} s; NESTOR_BOOT_LIMIT_S gives it more time",
                    limit.as_secs()
                ),
                NoAnswer::Gone(reason) => format!("it died while booting ({reason})"),
                NoAnswer::GivenUp(loss) => format!("it was given up while booting ({loss})"),
            };
            Refusal::new(Cause::NotStarted, format!("{what}{}", self.last_words()))
        })
    }

    fn virsh(&self, words: &[&str]) -> Result<String, Refusal> {
        virsh::run(&self.spawner, &self.identity.uri, words)
    }

    /// Writes the description of a device, and does something with it.
    fn with_device(&self, command: &str, name: &str, device: &Element) -> Result<(), Refusal> {
        let path = self.files.directory.join(format!("{name}.xml"));
        device.write(&path)?;
        self.virsh(&[command, &self.identity.uuid, &path.display().to_string(), "--live"]).map(drop)
    }

    /// Asks the machine to release a device until it has: libvirt waits for that only for a while. The domain has `live` as long as it has the
    /// device.
    fn release(&self, name: &str, device: &Element, live: &LiveDevice) -> Result<(), Refusal> {
        let mut last = Ok(());
        for _ in 0..RELEASE_TRIES {
            last = self.with_device("detach-device", name, device);
            if !live::devices(&self.spawner, &self.identity.uri, &self.identity.uuid)?.contains(live) {
                return Ok(());
            }
            std::thread::sleep(RELEASE_PAUSE);
        }
        last?;
        Err(Refusal::new(Cause::MachineSilent, format!("the guest did not release the device {name}")))
    }
}

/// Writes the files of a domain; the path of its description.
fn prepare(
    spec: &MachineSpec,
    accelerator: Accelerator,
    identity: &DomainIdentity,
    files: &MachineFiles,
) -> Result<PathBuf, Refusal> {
    boot_directory::make(&files.directory, &spec.modules_cpio, &files.initramfs())?;
    let domain = description::Domain {
        name: &identity.name,
        uuid: &identity.uuid,
        accelerator,
        files,
        uri: &identity.uri,
    };
    let description = description::of(spec, &domain, GuestPaging::here).ok_or_else(|| {
        Refusal::new(Cause::NotSupported, "the root of a domain has to be a file or a block device")
    })?;
    let path = files.directory.join("domain.xml");
    description.write(&path)?;
    Ok(path)
}

/// Makes the domain, which is gone for libvirt once it ends, and opens its agent's stream.
fn make(
    identity: &DomainIdentity,
    description: &Path,
    files: &MachineFiles,
    spawner: &Spawner,
    on_start: &mut OnStart<'_>,
) -> Result<(DomainProcess, Connection), Refusal> {
    on_start(Started::Outliving(OutlivingMachine::Libvirt(identity.clone())))?;
    let mut noted = Ok(());
    let words = ["create", &description.display().to_string()];
    virsh::run_noting(spawner, &identity.uri, &words, |tool| noted = on_start(Started::Tool(tool)))?;
    noted?;
    let process = identity.process().ok_or_else(|| {
        let message = "libvirt says that it started the machine, but no process of it is there";
        Refusal::new(Cause::NotStarted, message)
    })?;
    let socket = files.agent_socket();
    let opened = UnixStream::connect(&socket).and_then(|stream| Ok((stream.try_clone()?, stream)));
    let (reader, writer) = opened.map_err(|e| {
        Refusal::of_io(&format!("the agent's socket {} could not be opened", socket.display()), &e)
    })?;
    Ok((process, Connection::new(reader, writer)))
}

/// The disk, if it is one of libvirt's.
fn own<'a>(disk: &'a DiskAttachment, kind: &str) -> Result<&'a DomainDisk, Refusal> {
    match &disk.backend {
        DiskBackend::Own(OwnDisk::Libvirt(disk)) => Ok(disk),
        _ => Err(not_supported("a disk of another hypervisor cannot be plugged into", kind)),
    }
}

impl RunningMachine for Domain {
    fn kind(&self) -> &'static str {
        "a domain of libvirt"
    }

    fn request(&self, request: Request, limit: Duration) -> Result<Answer, NoAnswer> {
        let overtime = Overtime::new(limit, self.process.pid);
        self.connection.request_patiently(request, limit, &mut || overtime.left())
    }

    fn attach(&self, disk: &DiskAttachment) -> Result<(), Refusal> {
        let own = own(disk, self.kind())?;
        let controller = own.controller();
        if let Some(controller) = &controller {
            self.with_device("attach-device", "controller", controller)?;
        }
        self.with_device("attach-device", "disk", &own.element()).inspect_err(|_| {
            if let Some(controller) = &controller {
                let _ = self.release("controller", controller, &LiveDevice::ScsiController);
            }
        })
    }

    fn detach(&self, disk: &DiskAttachment) -> Result<(), Refusal> {
        let own = own(disk, self.kind())?;
        self.release("disk", &own.element(), &own.live())?;
        match own.controller() {
            Some(controller) => self.release("controller", &controller, &LiveDevice::ScsiController),
            None => Ok(()),
        }
    }

    fn tick_offset(&self) -> Result<i64, Refusal> {
        guests_tick_offset(self.process.pid)
    }

    fn stop(&self) {
        if !self.was_stopped.swap(true, Ordering::Relaxed) {
            // What still runs then, the ledger ends or names.
            let _ = self.identity.end(&self.spawner);
        }
        self.connection.close("it was shut down");
    }

    fn has_ended(&self) -> bool {
        !self.process.lives()
    }

    fn give_up(&self, loss: Loss) {
        self.connection.give_up(loss);
    }

    fn loss(&self) -> Option<Loss> {
        self.connection.loss()
    }

    fn last_words(&self) -> String {
        let state = if self.process.lives() { "" } else { "; its QEMU has ended" };
        format!("{state}{}{}", console_tail(&self.files), self.identity.log_tail())
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.files.directory);
    }
}
