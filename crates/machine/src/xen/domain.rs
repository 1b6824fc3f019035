//! A domain that `xl` or libvirt made.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nestor_kernel::ServedRequests;
use nestor_stack::layers::hypervisors::XenGuest;
use nestor_stop::lock;

use super::configuration::{self, DATA_DISK, DATA_DISK_NUMBER};
use super::identity::NotedDomain;
use super::role::{self, Owner};
use super::toolstack::{NewDomain, Toolstack};
use super::{XenDisk, console, daemons, memory, tools};
use crate::agent::loop_device;
use crate::agent::process::Spawner;
use crate::connection::{Connection, NoAnswer};
use crate::hypervisor::{
    OnStart, OutlivingMachine, OwnDisk, RunningMachine, Started, last_lines, not_supported,
};
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, DiskBackend, MachineSpec, RootDisk};

/// Lines of Xen's log that a message about a domain shows.
const LOG_LINES: usize = 24;

/// How long the terminal of a new domain's console may take to be there.
const CONSOLE_LIMIT: Duration = Duration::from_secs(20);

/// How often it is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A running domain.
pub struct Domain {
    connection: Connection,
    guest: XenGuest,
    toolstack: Toolstack,
    name: String,
    /// Xen's number of it.
    number: u32,
    directory: PathBuf,
    spawner: Spawner,
    /// Which domain it is in the ledger; in the lab, a domain of `xl`'s ends with its privileged domain and is not there.
    identity: Option<NotedDomain>,
    was_stopped: AtomicBool,
    /// The mark of the loop device of its disk, and the raw image that it is made of.
    loop_device: Mutex<Option<(String, String)>>,
}

impl Domain {
    /// Makes a domain and waits for its agent.
    ///
    /// # Errors
    /// Why it did not come up.
    pub fn boot(
        toolstack: Toolstack,
        spec: &MachineSpec,
        directory: PathBuf,
        spawner: Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Self, Refusal> {
        let guest = spec
            .xen_guest
            .ok_or_else(|| Refusal::new(Cause::Other, "it is not said how Xen is to run the machine"))?;
        let owner = Owner::here();
        daemons::make_ready(owner, &spawner)?;
        toolstack.make_ready(&spawner)?;
        if guest == XenGuest::Pvh {
            tools::require_support_for_machines(&spawner)?;
        }
        let limit = Duration::from_millis(spec.boot_timeout_ms);
        let deadline = Instant::now() + limit;
        if owner == Owner::User {
            memory::require(&spawner, spec)?;
        }
        let identity = identity_of(owner, toolstack, spec)?;
        let name = identity.as_ref().map_or_else(|| format!("nestor-{}", spec.place), |own| own.name.clone());
        let (uuid, root) = (identity.as_ref().map(|own| &*own.uuid), root_of(spec)?);
        let new = NewDomain { spec, guest, name: &name, uuid, root, directory: &directory };
        let made = match &identity {
            None => toolstack.prepare(&new).and_then(|path| make(toolstack, &spawner, &name, &path)),
            Some(own) => make_noted(&new, own, &spawner, on_start),
        };
        let (number, connection) = made.map_err(|e| {
            let left = end_unfinished(&spawner, &name, identity.as_ref());
            let _ = fs::remove_dir_all(&directory);
            Refusal { message: format!("{}{left}", e.message), ..e }
        })?;
        let (was_stopped, loop_device) = (AtomicBool::new(false), Mutex::default());
        let domain = Self {
            connection,
            guest,
            toolstack,
            name,
            number,
            directory,
            spawner,
            identity,
            was_stopped,
            loop_device,
        };
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

/// Which domain it is to be for the ledger, if it has to be there.
fn identity_of(
    owner: Owner,
    toolstack: Toolstack,
    spec: &MachineSpec,
) -> Result<Option<NotedDomain>, Refusal> {
    let root = match (owner, toolstack) {
        (Owner::Lab, Toolstack::Xl) => return Ok(None),
        // The root of a machine of the lab is a block device already.
        (Owner::Lab, Toolstack::Libvirt) => None,
        (Owner::User, _) => Some(root_of(spec)?),
    };
    NotedDomain::new(toolstack, &spec.place.to_string(), root).map(Some)
}

/// Ends what there is of a domain that did not come to be; what could not be, for a message.
fn end_unfinished(spawner: &Spawner, name: &str, identity: Option<&NotedDomain>) -> String {
    let Some(own) = identity else {
        let _ = tools::run(spawner, &[tools::XL, "destroy", name]);
        return String::new();
    };
    own.end(spawner).err().map_or_else(String::new, |left| format!("; {left}"))
}

/// The file or block device with the lab image's root.
fn root_of(spec: &MachineSpec) -> Result<&str, Refusal> {
    match &spec.root {
        RootDisk::Opened { path } => Ok(path),
        RootDisk::Served { .. } => {
            Err(Refusal::new(Cause::NotSupported, "the root of a domain has to be a file or a block device"))
        }
    }
}

/// Makes the domain and opens its console: its number, and the agent's stream.
fn make(
    toolstack: Toolstack,
    spawner: &Spawner,
    name: &str,
    description: &Path,
) -> Result<(u32, Connection), Refusal> {
    toolstack.create(spawner, description, |_| {})?;
    let said = tools::run(spawner, &[tools::XL, "domid", name])?;
    let number: u32 = said
        .parse()
        .map_err(|_| Refusal::new(Cause::Other, format!("`xl domid` said {said:?}, which is no number")))?;
    let terminal = tools::run(spawner, &["xenstore-read", &console_of(number)])?;
    Ok((number, connect(&terminal)?))
}

/// Where the store has the terminal of a domain's console.
fn console_of(number: u32) -> String {
    format!("/local/domain/{number}/console/tty")
}

fn connect(terminal: &str) -> Result<Connection, Refusal> {
    let opened = console::open(Path::new(terminal)).and_then(|stream| Ok((stream.try_clone()?, stream)));
    let (reader, writer) =
        opened.map_err(|e| Refusal::of_io(&format!("the console {terminal} could not be opened"), &e))?;
    Ok(Connection::new(reader, writer))
}

/// The same, where the ledger has the domain and its loop devices before they are made.
fn make_noted(
    new: &NewDomain<'_>,
    own: &NotedDomain,
    spawner: &Spawner,
    on_start: &mut OnStart<'_>,
) -> Result<(u32, Connection), Refusal> {
    if own.by == Toolstack::Xl {
        configuration::require_plain(new.directory)?;
    }
    on_start(Started::Outliving(OutlivingMachine::Xen(own.clone())))?;
    let path = match &own.root {
        None => own.by.prepare(new)?,
        Some(root) => {
            let device = loop_device::attach_to_read(Path::new(&root.file), &root.mark)
                .map_err(|e| Refusal::of_io(&format!("no loop device could be made of {}", root.file), &e))?;
            own.by.prepare(&NewDomain { root: &device, ..*new })?
        }
    };
    let mut noted = Ok(());
    own.by
        .create(spawner, &path, |tool| noted = on_start(Started::Tool(tool)))
        .map_err(|e| memory::of_failed_create(spawner, e))?;
    noted?;
    let number = own.number(spawner)?.ok_or_else(|| {
        let message = format!("`{}` says that it made the domain, but there is none", own.by.program());
        Refusal::new(Cause::NotStarted, message)
    })?;
    let deadline = Instant::now() + CONSOLE_LIMIT;
    loop {
        match tools::run(spawner, &["xenstore-read", &console_of(number)]) {
            Ok(terminal) => return Ok((number, connect(&terminal)?)),
            Err(e) if e.cause == Cause::TimedOut || Instant::now() >= deadline => {
                return Err(e.within("xenconsoled made no terminal of the domain's console"));
            }
            Err(_) => std::thread::sleep(LOOK_AGAIN),
        }
    }
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
                let mark = match &self.identity {
                    None => loop_device::new_mark().map_err(failed)?,
                    Some(own) => own.disk_mark.clone(),
                };
                let device = loop_device::attach(Path::new(path), true, &mark).map_err(failed)?;
                *lock(&self.loop_device) = Some((mark, path.clone()));
                device
            }
        };
        self.toolstack
            .attach(&self.spawner, &self.name, &device, &self.directory)
            .inspect_err(|_| self.forget_loop_device())
    }

    fn detach(&self, _disk: &DiskAttachment) -> Result<(), Refusal> {
        let detached = self.toolstack.detach(&self.spawner, &self.name);
        self.forget_loop_device();
        detached
    }

    fn tick_offset(&self) -> Result<i64, Refusal> {
        match self.guest {
            // `tsc_mode=native`: the counter of the processor as it is, here and there.
            XenGuest::Pv if Owner::here() == Owner::Lab || role::is_paravirtualised() => Ok(0),
            // Its counter begins when it is made; Xen does not tell when, of the processor's counter, that was.
            XenGuest::Pv | XenGuest::Pvh => {
                Err(not_supported("the offset of the counter is not known of", self.kind()))
            }
        }
    }

    fn served_requests(&self) -> Result<ServedRequests, Refusal> {
        ServedRequests::of_xen(self.number, DATA_DISK_NUMBER).map_err(|e| {
            Refusal::of_io(&format!("the statistics of blkback for {DATA_DISK} could not be read"), &e)
        })
    }

    fn stop(&self) {
        match &self.identity {
            None => {
                let _ = self.xl(&["destroy", &self.name]);
                self.forget_loop_device();
            }
            Some(own) if !self.was_stopped.swap(true, Ordering::Relaxed) => {
                // What is still there then, the ledger ends or names.
                let _ = own.end(&self.spawner);
            }
            Some(_) => {}
        }
        self.connection.close("it was shut down");
    }

    fn has_ended(&self) -> bool {
        match &self.identity {
            None => self.xl(&["domid", &self.name]).is_err(),
            Some(own) => !own.may_be_there(&self.spawner),
        }
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
            // In the lab, the privileged domain ends with all that is in it; elsewhere, the ledger has the mark.
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
