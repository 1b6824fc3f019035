//! Builds network disks: the server's `qemu-nbd` serves a block device or an image, of which the client's kernel makes a block device.

use std::time::Duration;

use nestor_machine::{Cause, Command, Machine, MachineError, ReadySign};
use nestor_stack::layers::network::NetworkDiskOptions;
use nestor_stack::{LayerIndex, MachineIndex};

use crate::built::{NetworkDisk, ServingProgram, UndoStep};
use crate::lab_problem::LabProblem;
use crate::link_problem::LinkProblem;
use crate::progressing::{Offered, Progressing, Remote, Thing};
use crate::server_process::said;
use crate::tuning::tune;
use crate::{BuildError, Lab, Network};

/// The port of the protocol (IANA's registry of service names, `nbd`).
pub(crate) const PORT: u16 = 10809;

/// What the server calls the disk, and the client asks for.
const EXPORT: &str = "nestor";

/// The client's block device. A machine has one network disk at most: each is on a link, which begins a machine.
const DEVICE: &str = "/dev/nbd0";

/// The process that has connected the block device; there only while it is connected (`pid_attr` in drivers/block/nbd.c).
const HOLDER: &str = "/sys/block/nbd0/pid";

/// The sectors of the client's block device, in bytes, as those of modelled disks.
const SECTOR_BYTES: &str = "512";

/// How long the server may take to open the disk, in the machine's own time.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

/// A file that no server makes.
const NEVER_MADE: &str = "/proc/self/nestor-never-made";

/// Modules of the kernel's client.
pub const CLIENT_MODULES: &[&str] = &["nbd"];

impl Lab {
    /// Serves a block device or an image and makes a block device of it at the other end of the link.
    pub(crate) fn build_network_disk(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        offered: Offered,
    ) -> Result<Offered, BuildError> {
        let layer = progressing.stack.layer(index);
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let (Some(options), Offered { on, thing: Thing::Remote { thing, remote } }) =
            (layer.network_disk(), offered)
        else {
            return Err(BuildError::refused(layer, "it is not on a link"));
        };
        let Some(served) = Served::of(*thing) else {
            return Err(BuildError::refused(layer, "what is at the other end of the link is not a disk"));
        };
        let client = progressing.machine(on);
        self.load_modules(&client, CLIENT_MODULES);
        serve(progressing, index, (&options, &served), &remote).map_err(failed)?;
        let device = DEVICE.to_owned();
        if self.place.is_emulated() {
            client.run_ok(Command::new(attach(&options, &remote))).map_err(failed)?;
        } else {
            hold(progressing, (index, on), &client, attach(&options, &remote)).map_err(failed)?;
        }
        // What holds the device in the foreground does not end before it is taken away.
        progressing.note_undo(on, UndoStep::DetachNetworkDisk(device.clone()));
        tune(progressing, on, layer, &device)?;
        Ok(progressing.offer_device(index, on, device, served.zeroed))
    }

    /// What the servers of network disks, and that of an image at the repository, said that have ended although what was built of the stack
    /// still stands.
    pub fn ended_servers(&self, of: Network<'_>) -> Vec<String> {
        let stack = of.stack;
        let disks = of.network_disks.iter().map(|disk| (disk.layer, disk.server, &disk.program));
        let image = stack.sourced_image().zip(stack.repository()).zip(of.image_server);
        let image = image.map(|((layer, repository), program)| (layer, repository, program));
        let ended_of = |(layer, machine, program): (LayerIndex, MachineIndex, &ServingProgram)| {
            ended(&stack.layer(layer).label(), program, &of.machines.get(machine)?.machine)
        };
        disks.chain(image).filter_map(ended_of).collect()
    }
}

/// What a server serves.
struct Served {
    path: String,
    image: Option<LayerIndex>,
    zeroed: bool,
}

impl Served {
    fn of(thing: Thing) -> Option<Self> {
        match thing {
            Thing::Block { device, zeroed } => Some(Self { path: device, image: None, zeroed }),
            Thing::Image { path, layer } => Some(Self { path, image: Some(layer), zeroed: true }),
            Thing::Directory { .. } | Thing::Remote { .. } => None,
        }
    }
}

/// Starts the server and waits until it takes connections.
fn serve(
    progressing: &mut Progressing<'_>,
    index: LayerIndex,
    (options, served): (&NetworkDiskOptions, &Served),
    remote: &Remote,
) -> Result<(), MachineError> {
    let on: MachineIndex = remote.server;
    let (server, stack) = (progressing.machine(on), progressing.stack);
    let work_directory = &progressing.machines[on].facts.work_directory;
    let own = |ending: &str| format!("{work_directory}/nbd-{}.{ending}", index.position());
    let (ready, log) = (own("pid"), own("txt"));
    // Of an earlier stack, whose server left it.
    server.run_ok(Command::new(["rm", "-f", "--", &ready]))?;
    let disk = options.block.disk(served.image.map(|image| stack.layer(image)), &served.path);
    let argv = server_command(options, remote, &ready, &format!("json:{disk}"));
    let process = server.start_process(Command::new(argv), &log)?;
    progressing.note_undo(on, UndoStep::EndProcess(process));
    server
        .await_ready(process, ReadySign::File(ready), SERVER_LIMIT)
        .map_err(|e| e.saying(&said(&server, &log)))?;
    let image = served.image;
    progressing.network_disks.push(NetworkDisk {
        layer: index,
        server: on,
        image,
        program: ServingProgram { process, log },
    });
    Ok(())
}

/// The server of a disk (`qemu-nbd(8)`). Its connections share the disk. It writes `ready` once it takes them.
fn server_command(options: &NetworkDiskOptions, remote: &Remote, ready: &str, disk: &str) -> Vec<String> {
    let connections = options.connections.to_string();
    // What is served says how its file is opened; the cache mode also says whether the server flushes every write.
    let cache = format!("--cache={}", options.block.cache.name());
    let port = PORT.to_string();
    let mut argv = vec!["qemu-nbd", "--persistent", "--bind", &remote.server_address, "--port", &port];
    argv.extend(["--export-name", EXPORT, "--shared", &connections, &cache, "--pid-file", ready, disk]);
    argv.into_iter().map(str::to_owned).collect()
}

/// Makes the block device of the client (`nbd-client(8)`), which stays with the kernel.
fn attach(options: &NetworkDiskOptions, remote: &Remote) -> Vec<String> {
    let (connections, timeout_s) = (options.connections.to_string(), options.timeout_s.to_string());
    let port = PORT.to_string();
    let mut argv = vec!["nbd-client", &remote.server_address, &port, DEVICE, "-name", EXPORT];
    argv.extend(["-connections", &connections, "-timeout", &timeout_s, "-block-size", SECTOR_BYTES]);
    argv.into_iter().map(str::to_owned).collect()
}

/// Makes the block device of a client that is a network namespace. The kernel takes such orders by netlink in its first network namespace only
/// (`nbd_genl_family` in drivers/block/nbd.c has no `netnsok`), so a process keeps the connection: the block device ends with it.
fn hold(
    progressing: &mut Progressing<'_>,
    (index, on): (LayerIndex, MachineIndex),
    client: &Machine,
    mut argv: Vec<String>,
) -> Result<(), MachineError> {
    argv.extend(["-nonetlink", "-nofork"].map(str::to_owned));
    let work_directory = &progressing.machines[on].facts.work_directory;
    let log = format!("{work_directory}/nbd-client-{}.txt", index.position());
    let process = client.start_process(Command::new(argv), &log)?;
    progressing.note_undo(on, UndoStep::EndProcess(process));
    client
        .await_ready(process, ReadySign::File(HOLDER.to_owned()), SERVER_LIMIT)
        .map_err(|e| e.saying(&said(client, &log)))
}

/// Refuses a block device that another program has.
///
/// # Errors
/// Which process has it.
pub(crate) fn check_free(client: &Machine) -> Result<(), LabProblem> {
    let Ok(process) = client.read_file(HOLDER) else { return Ok(()) };
    let process = String::from_utf8_lossy(&process).trim().to_owned();
    Err(LinkProblem::DeviceInUse { device: DEVICE.to_owned(), process }.into())
}

/// Takes the block device of a client away.
pub(crate) fn detach(client: &Machine, device: &str) -> Result<(), MachineError> {
    client.run_ok(Command::new(["nbd-client", "-d", device])).map(|_| ())
}

/// What is to be said of a server that has ended; `None` of one that runs, or whose machine does not answer.
fn ended(layer: &str, program: &ServingProgram, server: &Machine) -> Option<String> {
    // A program that runs is told from one that has ended by why it has not made a file.
    let waited =
        server.await_ready(program.process, ReadySign::File(NEVER_MADE.to_owned()), Duration::ZERO).err()?;
    let Cause::ProgramFailed { ended, .. } = waited.cause() else { return None };
    let said = said(server, &program.log);
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Some(format!("{}: the server of {layer} {ended}{said}", server.label()))
}

#[cfg(test)]
mod tests {
    use nestor_stack::Stack;

    use super::*;

    #[test]
    fn both_ends_use_the_same_address_name_and_number_of_connections() {
        let stack = Stack::parse("nbd:connections=2:timeout=7:cache=writethrough/link:cpus=2/hdd").unwrap();
        let options = stack.layers()[0].network_disk().unwrap();
        let remote = Remote {
            server: MachineIndex::OUTERMOST,
            server_address: "10.78.1.1".to_owned(),
            client_address: "10.78.1.2".to_owned(),
            interface: "eth0".to_owned(),
            mtu: 1500,
        };
        assert_eq!(
            server_command(&options, &remote, "/w/nbd-0.pid", "json:{}").join(" "),
            "qemu-nbd --persistent --bind 10.78.1.1 --port 10809 --export-name nestor --shared 2 \
             --cache=writethrough --pid-file /w/nbd-0.pid json:{}"
        );
        assert_eq!(
            attach(&options, &remote).join(" "),
            "nbd-client 10.78.1.1 10809 /dev/nbd0 -name nestor -connections 2 -timeout 7 -block-size 512"
        );
    }
}
