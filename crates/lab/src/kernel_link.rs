//! A link of this machine's own kernel: the client is a network namespace with an agent of its own, and the wire a pair of virtual interfaces.
//! The wire between two machines of the user's is in `wire.rs`.
//!
//! Rate, delay and loss are netem's at each end. The qdisc tbf would hold the rate too, but less exactly: it counts tokens, so a timer that is
//! late by more than the bucket's time loses rate, and a larger bucket lets a burst pass at once. netem computes when each frame arrives from when the
//! last one did (`netem_enqueue` in net/sched/sch_netem.c): at the later of its own time and the delay, and the frame before it, plus the time of its bytes. A
//! late timer loses nothing then, and this is what the modelled link does.

use std::collections::BTreeSet;

use nestor_link::{End, FRAME_OVERHEAD_BYTES};
use nestor_machine::{Cause, Command, EXPORTED, Machine, MachineError, MachinePlace, NfsExport, ProgramEnd};
use nestor_stack::layers::network::{LinkOptions, NfsVersion};
use nestor_stack::layers::sourced::transfers::USERS_PORT;
use nestor_stack::{Accelerator, LayerIndex, MachineIndex, Place, Relation, Stack};
use serde::Deserialize;

use crate::built::UndoStep;
use crate::kernel_parts::file_systems;
use crate::lab_problem::LabProblem;
use crate::link::{bring_up, enable_loopback};
use crate::link_counters::{KernelLink, LinkEnd, from_json};
use crate::link_problem::{KernelPart, LinkProblem, NetworkService};
use crate::progressing::{Offered, Progressing, Thing};
use crate::root_machine::Guests;
use crate::standing::Standing;
use crate::{BuildError, Lab, network_disk, network_file_system};

/// What this machine is called to the user.
const THIS_MACHINE: &str = "this machine";

/// Modules of the ends of a link.
const MODULES: &[&str] = &["veth", "sch_netem"];

/// What netem may hold besides what is on the wire, in frames. It drops what is more, and TCP sends no more than its windows (`tcp_rmem`, by default
/// 6 MiB).
const WAITING_FRAMES: u64 = 1_000_000;

/// The shortest frame with all that it takes on the wire, in bytes (IEEE 802.3, 3.1.1 and 4.4.2).
const SHORTEST_ON_WIRE_BYTES: u64 = nestor_link::SHORTEST_FRAME_BYTES + FRAME_OVERHEAD_BYTES;

/// The state of a TCP socket that listens (`TCP_LISTEN` in include/net/tcp_states.h), as /proc/net/tcp has it.
const LISTENS: &str = "0A";

/// The ports of the servers that NFS needs (RFC 1833, RFC 7530, and where `rpc.mountd` is started).
const NFS_PORTS: [(u16, NetworkService); 3] = [
    (111, NetworkService::PortMapper),
    (2049, NetworkService::Nfs),
    (network_file_system::MOUNT_PORT, NetworkService::Mount),
];

impl Lab {
    /// Makes the machine beside that with the medium, and the link of a stack, on the kernel of this machine, before anything else of it is made, so
    /// that what the kernel cannot do is known first. That machine is the client, or the repository of a source.
    ///
    /// # Errors
    /// What this machine cannot do, or what of the user's is in the way.
    pub(crate) fn prepare_kernel_link(
        &mut self,
        progressing: &mut Progressing<'_>,
    ) -> Result<(), BuildError> {
        let stack = progressing.stack;
        let mut links = stack.indexed_all().filter_map(|(index, layer)| Some((index, layer.link()?)));
        let Some((index, options)) = links.next().filter(|_| !self.place.is_emulated()) else {
            return Ok(());
        };
        drop(links);
        let host = self.host(stack, Guests::Kept)?.machine.clone();
        if matches!(self.place, Place::SshPair { .. }) {
            return self.prepare_wire(progressing, index, &host);
        }
        self.load_modules(&host, MODULES);
        self.check_services(stack, [&host, &host])?;
        check_network(&host, index)?;
        let beside_index = stack.machine_across(index).unwrap_or(MachineIndex::OUTERMOST);
        let beside = self.start_beside(stack, (index, beside_index), &host)?;
        progressing.note_undo(beside_index, UndoStep::Stop);
        let (machines, apart) = (in_order(stack, host, beside), end_beside(stack));
        let interfaces = join((machines.each_ref(), apart), stack, index, &options)?;
        let mut ends = machines
            .into_iter()
            .zip(interfaces)
            .zip(End::BOTH)
            .map(|((machine, interface), end)| LinkEnd { machine, interface, address: address(index, end) });
        if let (Some(lower), Some(upper)) = (ends.next(), ends.next()) {
            self.kernel_links.push(KernelLink { index, ends: [lower, upper] });
        }
        Ok(())
    }

    /// What a machine is called to the user.
    pub(crate) fn name_of_end(&self, end: End) -> String {
        match (&self.place, end) {
            (Place::SshPair { server, .. }, End::Lower) => server.clone(),
            (Place::SshPair { client, .. }, End::Upper) => client.clone(),
            _ => THIS_MACHINE.to_owned(),
        }
    }

    /// Refuses a stack of which a kernel lacks a part, for which a program is not installed, or that would disturb servers of the user's.
    pub(crate) fn check_services(
        &mut self,
        stack: &Stack,
        [server, client]: [&Machine; 2],
    ) -> Result<(), BuildError> {
        let mut ports = Vec::new();
        if stack.sourced_image().is_some() {
            self.check_programs(stack, [server, client])?;
            ports.push((USERS_PORT, NetworkService::Images));
        }
        for layer in stack.layers() {
            if let Some(options) = layer.network_file_system() {
                self.load_modules(server, network_file_system::SERVER_MODULES);
                self.load_modules(client, network_file_system::CLIENT_MODULES);
                self.check_file_systems(server, End::Lower, &[("nfsd", KernelPart::NfsServer)])?;
                self.check_file_systems(client, End::Upper, &[("nfs", KernelPart::NfsClient)])?;
                if options.version != NfsVersion::V3 {
                    self.check_file_systems(client, End::Upper, &[("nfs4", KernelPart::NfsClient4)])?;
                }
                ports.extend(NFS_PORTS);
            }
            if layer.network_disk().is_some() {
                self.load_modules(client, network_disk::CLIENT_MODULES);
                if !has_driver(&client.read_text("/proc/devices")?, "nbd") {
                    return Err(lacks(self.name_of_end(End::Upper), KernelPart::NetworkDisk, None));
                }
                network_disk::check_free(client)?;
                ports.push((network_disk::PORT, NetworkService::NetworkDisk));
            }
        }
        let mut listening = BTreeSet::new();
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            // A kernel without IPv6 has only the first.
            listening.extend(listening_ports(&server.read_text(table).unwrap_or_default()));
        }
        match ports.into_iter().find(|(port, _)| listening.contains(port)) {
            Some((port, service)) => {
                let machine = self.name_of_end(End::Lower);
                Err(problem(LinkProblem::ServiceRuns { machine, service, port }))
            }
            None if stack.layers().iter().any(|layer| layer.network_file_system().is_some()) => {
                check_exports(server, self.name_of_end(End::Lower))
            }
            None => Ok(()),
        }
    }

    fn check_file_systems(
        &self,
        machine: &Machine,
        end: End,
        parts: &[(&str, KernelPart)],
    ) -> Result<(), BuildError> {
        let known = machine.read_text("/proc/filesystems")?;
        let known: BTreeSet<&str> = file_systems(&known).collect();
        match parts.iter().find(|(name, _)| !known.contains(name)) {
            Some((_, part)) => Err(lacks(self.name_of_end(end), *part, None)),
            None => Ok(()),
        }
    }

    /// Starts the agent of the client, or of the repository, in namespaces of its own.
    fn start_beside(
        &mut self,
        stack: &Stack,
        (link, index): (LayerIndex, MachineIndex),
        server: &Machine,
    ) -> Result<Machine, BuildError> {
        let label = stack.machines()[index].label;
        (self.progress)(&format!("starting the {label} in a network namespace"));
        // A machine of an earlier stack may stand at that place.
        self.stop_guests(index);
        let machine = server
            .start_apart(MachinePlace::Root(index), &label.to_string())
            .map_err(|said| not_made(stack.layer(link).label(), KernelPart::Namespaces, said))?;
        let standing = Standing {
            machine: machine.clone(),
            accelerator: Accelerator::Hardware,
            facts: machine.facts()?,
            greeted_ns: None,
            booted: None,
        };
        self.machines.insert(index, Relation::Beside(MachineIndex::OUTERMOST), standing);
        Ok(machine)
    }

    /// The machines of a link that is there since [`Self::prepare_kernel_link`].
    pub(crate) fn offer_over_kernel_link(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        Offered { on: server, thing }: Offered,
    ) -> Result<Offered, BuildError> {
        let stack = progressing.stack;
        let client = stack.machine_across(index).unwrap_or(server);
        let label = stack.machines()[client].label;
        let on = progressing.machines.push(Relation::Beside(server), self.standing(client)?.built(label));
        let Some(link) = self.kernel_link(index) else {
            return Err(BuildError::refused(stack.layer(index), "its interfaces were not made"));
        };
        let mtu = stack.layer(index).link().map_or(0, |options| options.mtu);
        let (remote, _) = link.to_server(server, mtu);
        Ok(Offered { on, thing: Thing::Remote { thing: Box::new(thing), remote } })
    }

    /// A link of the stack that is the kernel's.
    pub(crate) fn kernel_link(&self, index: LayerIndex) -> Option<&KernelLink> {
        self.kernel_links.iter().find(|link| link.index == index)
    }

    /// Whether the links of this place log their frames. Of the kernel's, only the interfaces' counters are known.
    pub fn logs_frames(&self) -> bool {
        self.place.is_emulated()
    }
}

/// At which end of its link the machine is that is beside the one with the medium: above it, or below that of a source.
fn end_beside(stack: &Stack) -> End {
    if stack.source().is_empty() { End::Upper } else { End::Lower }
}

/// The machine with the medium and the one beside it, the one at the lower end of their link first.
pub(crate) fn in_order(stack: &Stack, host: Machine, beside: Machine) -> [Machine; 2] {
    if end_beside(stack) == End::Lower { [beside, host] } else { [host, beside] }
}

pub(crate) fn problem(link: LinkProblem) -> BuildError {
    LabProblem::Link(link).into()
}

fn lacks(machine: String, part: KernelPart, said: Option<MachineError>) -> BuildError {
    problem(LinkProblem::KernelLacks { machine, part, said })
}

/// A step that the kernel or the program that asks it refuses shows what the kernel lacks. Other failures are what they say.
fn not_made(layer: String, part: KernelPart, said: MachineError) -> BuildError {
    match said.cause() {
        Cause::ProgramFailed { ended: ProgramEnd::Code(_), .. } | Cause::NotSupported => {
            lacks(THIS_MACHINE.to_owned(), part, Some(said))
        }
        _ => BuildError::Layer { layer, source: said },
    }
}

/// Refuses to start an NFS server that would also offer what is listed for one of the user's.
fn check_exports(server: &Machine, machine: String) -> Result<(), BuildError> {
    // There is no list where no server ever ran.
    let listed = server.read_text(EXPORTED).unwrap_or_default();
    match NfsExport::list(&listed).into_iter().next() {
        Some(export) => Err(problem(LinkProblem::Exported { machine, export })),
        None => Ok(()),
    }
}

/// The network of a link: its part of what is kept for tests of networks (RFC 2544, C.2.2: 198.18.0.0/15), where nothing of the user's is.
fn network(index: LayerIndex) -> String {
    format!("198.18.{}.0/24", index.position())
}

fn address(index: LayerIndex, end: End) -> String {
    format!("198.18.{}.{}", index.position(), end.index() + 1)
}

#[derive(Deserialize)]
struct Route {
    dst: String,
}

/// Refuses to take a network that something here has a route to, other than the default one.
fn check_network(server: &Machine, index: LayerIndex) -> Result<(), BuildError> {
    let network = network(index);
    for which in ["root", "match"] {
        let argv = ["ip", "-json", "-4", "route", "show", "table", "main", which, &network];
        let routes: Vec<Route> = from_json(server, &argv)?;
        if let Some(route) = routes.into_iter().map(|route| route.dst).find(|dst| dst != "default") {
            return Err(problem(LinkProblem::NetworkInUse { network, route }));
        }
    }
    Ok(())
}

/// Makes the pair of interfaces, gives each its address, and the wire its properties; what each machine calls its interface. The machine at one of
/// the ends is in a namespace.
fn join(
    (machines, apart): ([&Machine; 2], End),
    stack: &Stack,
    index: LayerIndex,
    options: &LinkOptions,
) -> Result<[String; 2], BuildError> {
    let (beside, host) = (machines[apart.index()], machines[apart.other().index()]);
    let not_made = |part| move |said| not_made(stack.layer(index).label(), part, said);
    let process = beside.facts()?.pid.to_string();
    let name = format!("nestor{process}");
    let mac = |end: End| format!("02:4e:45:55:{:02x}:{:02x}", index.position(), end.index() + 1);
    let macs = End::BOTH.map(mac);
    let (host_mac, beside_mac) = (&macs[apart.other().index()], &macs[apart.index()]);
    let pair = ["ip", "link", "add", "name", &name, "address", host_mac, "type", "veth"];
    let peer = ["peer", "name", "eth0", "address", beside_mac, "netns", &process];
    let made = host.run_ok(Command::new([&pair[..], &peer[..]].concat()));
    made.map_err(not_made(KernelPart::VirtualInterfaces))?;
    enable_loopback(beside)?;
    let mut interfaces = [String::new(), String::new()];
    for ((machine, mac), end) in machines.iter().zip(&macs).zip(End::BOTH) {
        let interface = if end == apart { "eth0" } else { name.as_str() };
        // One frame at a time comes to the wire, as from a real card: netem would take a segment of 64 KiB for one frame.
        let one_frame = ["ip", "link", "set", "dev", interface, "gso_max_segs", "1"];
        machine.run_ok(Command::new(one_frame))?;
        // No other traffic than the stack's: an address of IPv6 would be announced.
        let _ = machine.run(Command::new(["ip", "link", "set", "dev", interface, "addrgenmode", "none"]));
        let shaped = machine.run_ok(Command::new(shaping(interface, options)));
        shaped.map_err(not_made(KernelPart::Shaping))?;
        interfaces[end.index()] = bring_up(machine, mac, &address(index, end), options.mtu)?;
    }
    Ok(interfaces)
}

/// What gives an end of the link its properties (`tc-netem(8)`).
fn shaping(interface: &str, options: &LinkOptions) -> Vec<String> {
    let LinkOptions { rate, delay, loss, .. } = options;
    let on_wire_bytes = u128::from(rate.0) * u128::from(delay.0) / 8 / 1_000_000_000;
    let on_wire = u64::try_from(on_wire_bytes).unwrap_or(u64::MAX) / SHORTEST_ON_WIRE_BYTES;
    let limit = (WAITING_FRAMES + on_wire).min(u64::from(u32::MAX)).to_string();
    let words = ["tc", "qdisc", "add", "dev", interface, "root", "netem", "limit", &limit];
    let mut argv: Vec<String> = words.map(str::to_owned).into();
    // It knows no nanoseconds, but fractions of microseconds.
    argv.extend(["delay".to_owned(), format!("{}.{:03}us", delay.0 / 1000, delay.0 % 1000)]);
    if loss.0 > 0 {
        argv.extend(["loss".to_owned(), format!("{}%", loss.share() * 100.0)]);
    }
    // The second number is what each frame takes besides what the machine sends.
    argv.extend(["rate".to_owned(), format!("{}bit", rate.0), FRAME_OVERHEAD_BYTES.to_string()]);
    argv
}

/// Whether a driver of block devices is registered (/proc/devices).
fn has_driver(devices: &str, name: &str) -> bool {
    let block = devices.split_once("Block devices:").map_or("", |(_, block)| block);
    block.lines().any(|line| line.split_whitespace().nth(1) == Some(name))
}

/// The ports that are listened at (`get_tcp4_sock` in net/ipv4/tcp_ipv4.c: number, local address and port, remote ones, state).
fn listening_ports(table: &str) -> impl Iterator<Item = u16> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (_, port) = local.rsplit_once(':').filter(|_| state == LISTENS)?;
        u16::from_str_radix(port, 16).ok()
    })
}

#[cfg(test)]
mod tests {
    use nestor_machine::Refusal;

    use super::*;

    #[test]
    fn the_wire_has_what_the_link_says() {
        let stack = Stack::parse("nfs/link:rate=100mbit:delay=1ms:loss=0.5%/ext4/file:/d").unwrap();
        let options = stack.layers()[1].link().unwrap();
        assert_eq!(
            shaping("eth0", &options).join(" "),
            "tc qdisc add dev eth0 root netem limit 1000148 delay 1000.000us loss 0.5% rate 100000000bit 24"
        );
        let usual = Stack::parse("nfs/link/ext4/file:/d").unwrap().layers()[1].link().unwrap();
        assert!(!shaping("eth0", &usual).iter().any(|word| word == "loss"));
    }

    #[test]
    fn only_what_the_kernel_refuses_shows_that_it_lacks_a_part() {
        let said = |cause| {
            let refusal = Refusal::new(cause, "as it says");
            let said = MachineError::Refused { machine: "host".to_owned(), refusal };
            not_made("link".to_owned(), KernelPart::Shaping, said)
        };
        let ended = |ended| Cause::ProgramFailed { program: "tc".to_owned(), ended };
        for lacking in [ended(ProgramEnd::Code(2)), Cause::NotSupported] {
            let problem = said(lacking);
            let part = KernelPart::Shaping;
            assert!(
                matches!(problem, BuildError::Lab(LabProblem::Link(LinkProblem::KernelLacks { part: p, .. })) if p == part)
            );
        }
        let missing = Cause::NotInstalled { program: "tc".to_owned() };
        for other in [missing, ended(ProgramEnd::Signal(9)), Cause::MachineLost, Cause::NotPermitted] {
            assert!(matches!(said(other), BuildError::Layer { .. }));
        }
    }

    #[test]
    fn only_ports_that_are_listened_at_are_in_the_way() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
             0: 00000000:006F 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1\n\
             1: 0100007F:0801 0100007F:C001 01 00000000:00000000 00:00000000 00000000 0 0 2\n";
        assert_eq!(listening_ports(table).collect::<Vec<_>>(), [111]);
        let table6 = "  sl  local_address                         remote_address                        st\n\
             0: 00000000000000000000000000000000:0801 00000000000000000000000000000000:0000 0A 0:0\n";
        assert_eq!(listening_ports(table6).collect::<Vec<_>>(), [2049]);
        assert_eq!(listening_ports("").count(), 0);
    }

    #[test]
    fn drivers_of_block_devices_are_not_those_of_characters() {
        let devices = "Character devices:\n 43 nbd\n\nBlock devices:\n  7 loop\n254 virtblk\n";
        assert!(has_driver(devices, "loop") && !has_driver(devices, "nbd"));
    }
}
