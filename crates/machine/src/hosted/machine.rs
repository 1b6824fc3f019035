//! A machine that a hosted hypervisor runs, with the agent in it.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nestor_stack::HypervisorKind;

use super::disk::HostedDisk;
use super::identity::HostedIdentity;
use super::tool::Tool;
use super::{Plan, Product, boot_disc, boot_modules, descriptor, guest};
use crate::agent::process::Spawner;
use crate::boot_directory;
use crate::connection::{Connection, NoAnswer};
use crate::hypervisor::{
    OnStart, OutlivingMachine, OwnDisk, RunningMachine, Started, file_tail, not_supported,
};
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::refusal::{Cause, Refusal};
use crate::spec::{DiskAttachment, DiskBackend, MachineSpec, RootDisk};

/// How often is looked whether a machine has connected to its agent's socket.
const POLL: Duration = Duration::from_millis(20);

/// Lines of the console, and of the program's log, that a message about a machine shows.
const LINES: usize = 12;

/// A running machine.
pub struct HostedMachine {
    connection: Connection,
    identity: HostedIdentity,
    spawner: Spawner,
    was_stopped: AtomicBool,
}

impl HostedMachine {
    /// Has the program of a kind run a machine, and waits for its agent.
    ///
    /// # Errors
    /// Something is not installed, the program refuses or does not answer, or why the machine did not come up.
    pub fn boot(
        kind: HypervisorKind,
        spec: &MachineSpec,
        directory: PathBuf,
        spawner: &Spawner,
        on_start: &mut OnStart<'_>,
    ) -> Result<Self, Refusal> {
        let limit = Duration::from_millis(spec.boot_timeout_ms);
        let deadline = Instant::now() + limit;
        let identity = HostedIdentity::new(kind, &directory, &spec.place.to_string())?;
        let product = identity.product()?;
        let made = make(spec, product, &identity, deadline, spawner, on_start);
        let connection = made.map_err(|e| {
            let words = last_words(&identity);
            let _ = identity.end(spawner);
            let _ = fs::remove_dir_all(&identity.directory);
            Refusal { message: format!("{}{words}", e.message), ..e }
        })?;
        let machine =
            Self { connection, identity, spawner: spawner.clone(), was_stopped: AtomicBool::new(false) };
        machine.connection.wait_hello(deadline.saturating_duration_since(Instant::now())).map_err(|e| {
            let what = match e {
                NoAnswer::TimedOut(_) => did_not_boot(limit),
                other => format!("it died while booting ({})", other.of_new_agent()),
            };
            Refusal::new(Cause::NotStarted, format!("{what}{}", machine.last_words()))
        })?;
        Ok(machine)
    }
}

fn did_not_boot(limit: Duration) -> String {
    format!("it did not boot within its {} s; NESTOR_BOOT_LIMIT_S gives it more time", limit.as_secs())
}

/// Writes the files of a machine, has it started, and takes the stream of its agent.
fn make(
    spec: &MachineSpec,
    product: &dyn Product,
    identity: &HostedIdentity,
    deadline: Instant,
    spawner: &Spawner,
    on_start: &mut OnStart<'_>,
) -> Result<Connection, Refusal> {
    let initramfs = identity.directory.join("initramfs.cpio");
    boot_directory::make(&identity.directory, &spec.modules_cpio, &initramfs)?;
    let on_start = RefCell::new(on_start);
    let heard = |pid| {
        // Whoever is not told of a call cannot cut it short; the machine is ended all the same.
        let _ = on_start.borrow_mut()(Started::Tool(pid));
    };
    let tool = Tool::new(product, identity, &identity.directory, spawner).heard_by(&heard);
    product.known().require(product.name(), product.tool(), &product.version(&tool)?)?;
    let disk = own_disk(spec)?;
    let plan = prepare(spec, identity, disk, &initramfs, &tool)?;
    let listener = listen(&plan.agent_socket())?;
    on_start.borrow_mut()(Started::Outliving(OutlivingMachine::Hosted(identity.clone())))?;
    product.start(&plan, &tool)?;
    let stream = accept(&listener, deadline, spec, identity)?;
    let reader =
        stream.try_clone().map_err(|e| Refusal::of_io("the agent's stream could not be shared", &e))?;
    Ok(Connection::new(reader, stream))
}

/// The one disk that a machine has from the start.
fn own_disk(spec: &MachineSpec) -> Result<&HostedDisk, Refusal> {
    match &spec.disks_at_start[..] {
        [DiskAttachment { backend: DiskBackend::Own(OwnDisk::Hosted(disk)), .. }] => Ok(disk),
        _ => Err(Refusal::new(
            Cause::NotSupported,
            "a machine of a hosted hypervisor has one disk, from its start on",
        )),
    }
}

/// The disc it boots from, and the descriptors of its disks.
fn prepare<'a>(
    spec: &'a MachineSpec,
    identity: &'a HostedIdentity,
    disk: &'a HostedDisk,
    initramfs: &Path,
    tool: &Tool<'_>,
) -> Result<Plan<'a>, Refusal> {
    let RootDisk::Opened { path: root } = &spec.root else {
        return Err(Refusal::new(Cause::NotSupported, "the root of such a machine has to be a file"));
    };
    let at = |name: &str| identity.directory.join(name);
    boot_modules::add(Path::new(root), initramfs, &at("taken"), tool)?;
    let command_line = guest::command_line(Path::new(root))
        .map_err(|e| Refusal::of_io(&format!("the lab image's root {root} could not be read"), &e))?;
    let contents =
        boot_disc::Contents { kernel: Path::new(&spec.kernel), initramfs, command_line: &command_line };
    boot_disc::make(&contents, &at("disc"), &at("boot.iso"), tool)?;
    descriptor::write(&at("root.vmdk"), root, descriptor::Extent::of(Path::new(root)))?;
    let medium = disk.medium(&identity.directory)?;
    Ok(Plan { identity, spec, disc: at("boot.iso"), root: at("root.vmdk"), disk, medium })
}

/// Listens before the machine is there: so there is no moment in which it says something that nobody hears.
fn listen(socket: &Path) -> Result<UnixListener, Refusal> {
    let listener = UnixListener::bind(socket).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|e| {
        Refusal::of_io(&format!("the agent's socket {} could not be made", socket.display()), &e)
    })
}

/// The machine's end of the agent's stream.
fn accept(
    listener: &UnixListener,
    deadline: Instant,
    spec: &MachineSpec,
    identity: &HostedIdentity,
) -> Result<UnixStream, Refusal> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                return stream
                    .set_nonblocking(false)
                    .map(|()| stream)
                    .map_err(|e| Refusal::of_io("the agent's stream could not be used", &e));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(Refusal::of_io("the machine could not be let to its agent's socket", &e)),
        }
        if identity.has_ended() {
            return Err(Refusal::new(Cause::NotStarted, "it ended before it had opened its serial port"));
        }
        if Instant::now() >= deadline {
            return Err(Refusal::new(
                Cause::NotStarted,
                did_not_boot(Duration::from_millis(spec.boot_timeout_ms)),
            ));
        }
        std::thread::sleep(POLL);
    }
}

/// What is to be said of a machine that is of no use: the ends of its console and of its program's log.
fn last_words(identity: &HostedIdentity) -> String {
    let log = identity.log().map(|path| file_tail(&path, "its program's log ends", LINES));
    file_tail(&identity.console(), "its console ends", LINES) + &log.unwrap_or_default()
}

impl RunningMachine for HostedMachine {
    fn kind(&self) -> &'static str {
        "a machine of a hosted hypervisor"
    }

    fn request(&self, request: Request, limit: Duration) -> Result<Answer, NoAnswer> {
        self.connection.request(request, limit)
    }

    fn tick_offset(&self) -> Result<i64, Refusal> {
        Err(not_supported("the offset of the counter is not known of", self.kind()))
    }

    fn stop(&self) {
        if !self.was_stopped.swap(true, Ordering::Relaxed) {
            // What still runs then, the ledger ends or names.
            let _ = self.identity.end(&self.spawner);
        }
        self.connection.close("it was shut down");
    }

    fn has_ended(&self) -> bool {
        self.identity.has_ended()
    }

    fn give_up(&self, loss: Loss) {
        self.connection.give_up(loss);
    }

    fn loss(&self) -> Option<Loss> {
        self.connection.loss()
    }

    fn last_words(&self) -> String {
        let state = if self.has_ended() { "; nothing of its program runs any more" } else { "" };
        format!("{state}{}", last_words(&self.identity))
    }
}

impl Drop for HostedMachine {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.identity.directory);
    }
}
