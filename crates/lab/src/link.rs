//! Builds a link: a second machine of the lab beside the first, an interface in each, and the modelled wire between them. The links of
//! this machine's own kernel are in `kernel_link.rs`.

use nestor_link::PortIndex;
use nestor_machine::{Cause, Command, Machine, MachineError, MachinePlace, MachineSpec, Refusal};
use nestor_stack::layers::network::LinkOptions;
use nestor_stack::{LayerIndex, MachineIndex, Relation};
use serde::Deserialize;

use crate::built::UndoStep;
use crate::held_memory::hold_memory;
use crate::progressing::{Offered, Progressing, Remote, Thing};
use crate::root_machine::RootMachine;
use crate::served_link::ServedLink;
use crate::{BuildError, Lab, memory};

/// How often it is looked whether a new interface is there.
const LOOKS: u32 = 100;

/// How long to wait between looks, in the machine's own time.
const LOOK_EVERY_S: &str = "0.02";

/// Modules of an interface.
pub const MODULES: &[&str] = &["virtio_net"];

impl Lab {
    /// Makes what a machine has available to a new one beside it.
    pub(crate) fn build_link(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        Offered { on: server, thing }: Offered,
    ) -> Result<Offered, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(index);
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let Some(options) = layer.link() else { return Err(BuildError::refused(layer, "it is not a link")) };
        if !self.place.is_emulated() {
            return self.offer_over_kernel_link(progressing, index, Offered { on: server, thing });
        }
        let relation = Relation::Beside(server);
        let on = stack.machine_across(index).unwrap_or(server);
        self.root_beside(progressing, RootMachine::beside(stack, on, server))?;
        let label = stack.machines()[on].label;
        progressing.machines.insert(on, relation, self.standing(on)?.built(label));
        if let Some(available) = options.available {
            hold_memory(progressing, on, layer, available)?;
        }
        let server = (server, progressing.machine(server));
        let client = (on, progressing.machine(on));
        let (mut remotes, _) =
            self.connect(progressing, (index, &options), vec![server, client]).map_err(failed)?;
        let remote = remotes.pop().ok_or_else(|| BuildError::refused(layer, "it has no client"))?;
        Ok(Offered { on, thing: Thing::Remote { thing: Box::new(thing), remote } })
    }

    /// The machine at the upper end of a link: the one that stands, if it fits, otherwise a new one.
    pub(crate) fn root_beside(
        &mut self,
        progressing: &Progressing<'_>,
        root: RootMachine,
    ) -> Result<(), BuildError> {
        let stack = progressing.stack;
        let (needed, cpus) = (memory::guest_needs(stack, root.like), self.root_cpus(stack, root));
        let kernel = self.files_for(stack, root.like)?.kernel;
        let stands = self.machines.get(root.index).and_then(|standing| standing.booted.as_ref());
        let fits = |spec: &MachineSpec| {
            spec.place == root.place()
                && spec.memory_bytes >= needed
                && spec.cpus == cpus
                && spec.kernel == kernel
        };
        if stands.is_some_and(|booted| fits(&booted.spec)) {
            return Ok(());
        }
        self.stop_guests(root.index);
        if self.place.is_in_virtual_time() {
            self.go_on_from_kept(stack, root, needed)
        } else {
            self.boot_root(stack, root, needed, None)
        }
    }

    /// Serves the link and gives each machine its interface, the first at the lower end: the ends of each of the others, and what the first
    /// calls its own interface.
    pub(crate) fn connect(
        &mut self,
        progressing: &mut Progressing<'_>,
        (index, options): (LayerIndex, &LinkOptions),
        machines: Vec<(MachineIndex, Machine)>,
    ) -> Result<(Vec<Remote>, String), MachineError> {
        let (ground, work_directory) = (self.ground().clone(), self.ground_facts.work_directory.clone());
        let is_virtual = self.place.is_in_virtual_time();
        let seed = self.seed.lost_frames(index);
        let position = index.position();
        let served = (position, machines.len());
        let link = ServedLink::start(&ground, &work_directory, served, options, is_virtual, seed)?;
        link.set_timing(false)?;
        let (server, control) = (link.process(), link.control());
        let interfaces: Vec<_> = PortIndex::all(machines.len()).map(|at| (at, link.interface(at))).collect();
        self.links.push(link);
        let places = machines.iter().map(|(on, _)| MachinePlace::Root(*on)).collect();
        let lower = machines.first().map_or(MachineIndex::OUTERMOST, |(on, _)| *on);
        let server_address = address(position, PortIndex::LOWER);
        let (mtu, mut remotes) = (options.mtu, Vec::new());
        for ((on, machine), (at, interface)) in machines.into_iter().zip(interfaces) {
            self.load_modules(&machine, MODULES);
            ground.attach_interface(MachinePlace::Root(on), &interface)?;
            progressing.note_undo(on, UndoStep::DetachInterface(interface.clone()));
            let own = address(position, at);
            let name = bring_up(&machine, &interface.mac, &own, mtu)?;
            let server_address = server_address.clone();
            remotes.push(Remote { server: lower, server_address, client_address: own, interface: name, mtu });
        }
        ground.join_machines(places, server, &control)?;
        let server_interface = remotes.remove(0).interface;
        Ok((remotes, server_interface))
    }
}

/// The address of a machine at the link at a position, in a network of its own.
fn address(position: usize, at: PortIndex) -> String {
    format!("10.78.{position}.{}", at.index() + 1)
}

/// Switches on the interface by which a machine reaches itself, which a new machine does not have.
pub(crate) fn enable_loopback(machine: &Machine) -> Result<(), MachineError> {
    machine.run_ok(Command::new(["ip", "link", "set", "dev", "lo", "up"])).map(drop)
}

#[derive(Deserialize)]
struct IpLink {
    ifname: String,
    address: Option<String>,
}

/// Gives the interface with a hardware address its network address, and switches it on; what the machine calls it.
pub(crate) fn bring_up(
    machine: &Machine,
    mac: &str,
    address: &str,
    mtu: u16,
) -> Result<String, MachineError> {
    let name = find_interface(machine, mac)?;
    let mtu = mtu.to_string();
    machine.run_ok(Command::new(["ip", "address", "add", &format!("{address}/24"), "dev", &name]))?;
    machine.run_ok(Command::new(["ip", "link", "set", "dev", &name, "mtu", &mtu, "up"]))?;
    Ok(name)
}

fn find_interface(machine: &Machine, mac: &str) -> Result<String, MachineError> {
    for _ in 0..LOOKS {
        let said = machine.run_ok(Command::new(["ip", "-json", "link"]))?;
        let links: Vec<IpLink> = serde_json::from_str(&said).unwrap_or_default();
        let found = links.into_iter().find(|link| link.address.as_deref() == Some(mac));
        if let Some(found) = found {
            return Ok(found.ifname);
        }
        machine.run(Command::new(["sleep", LOOK_EVERY_S]))?;
    }
    let refusal = Refusal::new(Cause::NotThere, format!("the network interface {mac} did not appear"));
    Err(MachineError::Refused { machine: machine.label().to_owned(), refusal })
}
