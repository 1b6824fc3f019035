//! Whether a stack can be built in a place: what is known of that before anything is started.

use crate::added_qemu::QEMU_OPTION;
use crate::error::Candidate;
use crate::layers::hypervisors::without_disk;
use crate::layers::sourced::{OVER, ServedOver};
use crate::{
    Crossing, HostTime, Layer, LayerDefinition, LayerIndex, LinkOptions, MachineIndex, MediumKind, Place,
    Relation, Stack, StackError,
};

/// Options of a link that it does not have on this machine's own kernel, and why.
const NOT_OF_KERNELS: [(&str, &str); 6] = [
    ("queue", "is of the modelled link, and here netem holds whatever waits for the wire"),
    ("cut-after", "is of the modelled link, and netem knows no times"),
    ("cut-for", "is of the modelled link, and netem knows no times"),
    ("memory", "is of emulated machines, and here the client shares this machine's memory"),
    ("available", "is of emulated machines, and here the client shares this machine's memory"),
    ("cpus", "is of emulated machines, and here the client shares this machine's processors"),
];

/// Why something of a stack cannot be in a place.
struct Misplaced {
    at: LayerIndex,
    /// The option to point at; the layer if `None`.
    option: Option<&'static str>,
    message: String,
    help: &'static str,
}

impl Misplaced {
    fn layer(at: LayerIndex, message: impl Into<String>, help: &'static str) -> Self {
        Self { at, option: None, message: message.into(), help }
    }

    fn option(at: LayerIndex, option: &'static str, message: impl Into<String>, help: &'static str) -> Self {
        Self { option: Some(option), ..Self::layer(at, message, help) }
    }
}

impl Stack {
    /// For those who build it in a place. An emulated host in real time has whatever one in virtual time has.
    ///
    /// # Errors
    ///
    /// If a layer or an option cannot be there, on whatever machines.
    pub fn require_place(&self, place: &Place) -> Result<(), StackError> {
        self.require_manager(place)?;
        if matches!(place, Place::Manager { .. }) {
            // Nothing of it is built there.
            return Ok(());
        }
        let misplaced = misplaced_source(self, place)
            .or_else(|| misplaced_link(self, place))
            .or_else(|| misplaced_medium(self, place))
            .or_else(|| misplaced_xen(self, place))
            .or_else(|| misplaced_kernel(self, place))
            .or_else(|| misplaced_qemu(self, place))
            .or_else(|| misplaced_hosted(self, place));
        let Some(Misplaced { at, option, message, help }) = misplaced else { return Ok(()) };
        Err(match option {
            Some(option) => StackError::at_option(self, at, option, message, help),
            None => StackError::at_layer(self, at, message, help),
        })
    }
}

/// What of a source only the lab has. Whether a place has two machines is a question of the link.
fn misplaced_source(stack: &Stack, place: &Place) -> Option<Misplaced> {
    let at = stack.sourced_image().filter(|_| !place.is_emulated())?;
    let image = stack.layer(at);
    if let Some(copy) = image.copy().filter(|copy| !copy.transfer.on_users_networks) {
        let message = format!(
            "{} sends to every machine of the network, and this is `--on {place}`",
            copy.transfer.name
        );
        return Some(Misplaced::layer(
            at,
            message,
            "use another protocol, as in copy:nbd, or `--on emulated`",
        ));
    }
    if image.overlay().is_some_and(|overlay| overlay.over == ServedOver::Nfs) {
        let message = "only repositories of the lab serve an overlay over NFS";
        return Some(Misplaced::option(
            at,
            OVER,
            message,
            "omit it: qemu-nbd serves it; or use `--on emulated`",
        ));
    }
    let hosted = stack.indexed_layers().find(|(_, layer)| layer.spec.hosted().is_some());
    hosted.map(|(at, layer)| {
        let message = format!("{} does not run images that come from a source", layer.name());
        Misplaced::layer(at, message, "use kvm or tcg, or an image without a source")
    })
}

fn misplaced_qemu(stack: &Stack, place: &Place) -> Option<Misplaced> {
    let (at, _) = stack.indexed_all().find(|(_, layer)| layer.added_qemu().is_some())?;
    let message = format!("a QEMU of your own is on this machine and in the lab, and this is `--on {place}`");
    let has_it = place.is_emulated() || *place == Place::This;
    let help = "use `--on emulated` or `--on this`, or omit `qemu`";
    (!has_it).then(|| Misplaced::option(at, QEMU_OPTION, message, help))
}

/// Other machines are as they are, and their guests boot the lab image.
fn misplaced_kernel(stack: &Stack, place: &Place) -> Option<Misplaced> {
    let (at, _) = stack.indexed_all().find(|(_, layer)| layer.added_kernel().is_some())?;
    let message = format!("a machine of the lab boots a kernel of your own, and this is `--on {place}`");
    (!place.is_emulated()).then(|| Misplaced::layer(at, message, "use `--on emulated`, or omit `kernel`"))
}

fn misplaced_link(stack: &Stack, place: &Place) -> Option<Misplaced> {
    // From the server up: what is joined to the others last is what is too much.
    let mut links = stack.indexed_all().rev().filter_map(|(at, layer)| Some((at, layer.link()?)));
    let first = links.next();
    let second = links.next().map(|(at, _)| at);
    match (first, place) {
        (_, Place::Emulated(HostTime::Real)) => None,
        (Some(link), Place::Emulated(HostTime::Virtual(_))) => in_virtual_time(link, second),
        (Some((at, _)), Place::Ssh(_) | Place::Domain(_) | Place::Manager { .. }) => Some(Misplaced::layer(
            at,
            format!("a link joins two machines, but `--on {place}` is one"),
            "name both, as in `--on ssh:CLIENT,ssh:SERVER`, or use `--on emulated` or `--on this`, where the client is a network namespace",
        )),
        (Some((at, _)), Place::This) => of_this_kernel(stack, at, second),
        (Some((at, _)), Place::SshPair { .. }) => between_two(stack, at, second),
        (None, Place::SshPair { .. }) => Some(Misplaced::layer(
            stack.medium_index(),
            format!("`--on {place}` is two machines, but this stack has no link between them"),
            "add a link, as in nfs/link/ext4/…, or a source, as in kvm/copy:scp/ext4/…//link/raw/ext4/…, or name one machine: `--on ssh:HOST`",
        )),
        (None, _) => None,
    }
}

/// Xen runs below the machine with the medium: that is made for the stack, or it is this one. Whether this one runs under Xen, the stack
/// does not know.
fn misplaced_xen(stack: &Stack, place: &Place) -> Option<Misplaced> {
    match place {
        Place::Emulated(_) | Place::This => return None,
        Place::Ssh(_) | Place::Domain(_) | Place::SshPair { .. } | Place::Manager { .. } => {}
    }
    let at = stack.lowest_under_xen()?;
    let message =
        format!("Nestor uses Xen only on its emulated host and on this machine, but this is `--on {place}`");
    Some(Misplaced::layer(at, message, "use `--on emulated`, or run nestor on that machine with `--on this`"))
}

/// What the user has installed is on the user's machine alone, unless a pack brings it to the lab's host.
fn misplaced_hosted(stack: &Stack, place: &Place) -> Option<Misplaced> {
    let (at, hosted) = stack.indexed_layers().find_map(|(at, layer)| Some((at, layer.spec.hosted()?)))?;
    let (name, product) = (stack.layer(at).name(), hosted.product);
    let has_it = match place {
        Place::Emulated(_) => hosted.lab_pack.is_some(),
        Place::This | Place::Ssh(_) => true,
        Place::Domain(_) | Place::SshPair { .. } | Place::Manager { .. } => false,
    };
    let is_outermost = stack.below(at).iter().all(|layer| layer.crossing() == Crossing::None);
    let message = match (has_it, is_outermost) {
        (true, true) => return None,
        (true, false) => {
            let message = format!(
                "{name} is in a machine of the lab that does not have the medium, and none of those has {product}"
            );
            return Some(Misplaced::layer(at, message, "leave out the virtual machine or link below it"));
        }
        _ if place.is_emulated() => {
            format!("no machine of the lab has {product}, and this is `--on {place}`")
        }
        _ => {
            format!("Nestor runs {product} with `--on this` and `--on ssh:HOST`, but this is `--on {place}`")
        }
    };
    let help = "use `--on this` on a machine that has it, with a disk of yours: dev:/dev/… or file:/…";
    Some(Misplaced::layer(at, message, help))
}

/// Two machines at most have one virtual time, each with one processor.
fn in_virtual_time((at, link): (LayerIndex, LinkOptions), second: Option<LayerIndex>) -> Option<Misplaced> {
    let several = second.map(|second| {
        let message = "virtual time holds two machines together, and a second link makes them three";
        Misplaced::layer(second, message, "use one link, or `--on emulated:time=real`")
    });
    several.or_else(|| {
        (link.cpus > 1).then(|| {
            let message = "a machine in virtual time has one processor, and only its guests have more";
            Misplaced::option(at, "cpus", message, "omit cpus, or use `--on emulated:time=real`")
        })
    })
}

/// What the link of a kernel cannot have, whoever makes it.
fn only_one(second: Option<LayerIndex>) -> Option<Misplaced> {
    let message = "only machines of the lab have several links";
    second.map(|second| Misplaced::layer(second, message, "use one link, or `--on emulated:time=real`"))
}

fn of_this_kernel(stack: &Stack, at: LayerIndex, second: Option<LayerIndex>) -> Option<Misplaced> {
    only_one(second).or_else(|| {
        let (name, why) = NOT_OF_KERNELS.into_iter().find(|(name, _)| stack.layer(at).is_set(name))?;
        Some(Misplaced::option(at, name, format!("{name} {why}"), "omit it, or use `--on emulated`"))
    })
}

/// The wire between two machines is as it is, and there are guests only on the node of a source.
fn between_two(stack: &Stack, at: LayerIndex, second: Option<LayerIndex>) -> Option<Misplaced> {
    let option = || {
        let (name, _) = stack.layer(at).written_options().next()?;
        let message =
            format!("{name} is of links that Nestor makes, and the wire between two machines is as it is");
        Some(Misplaced::option(at, name, message, "omit it, or use `--on emulated`"))
    };
    let unusual = |(at, layer): (LayerIndex, &Layer)| match layer.definition() {
        LayerDefinition::NetworkDisk => Some(Misplaced::layer(
            at,
            "its server lets every machine that reaches it write to the disk, and here that may be any",
            "use nfs, or `--on this` or `--on emulated`",
        )),
        LayerDefinition::Hypervisor(_) if stack.source().is_empty() => Some(Misplaced::layer(
            at,
            "guests are not started on two machines of yours yet, except on the node of a source",
            "use `--on emulated` or `--on this`",
        )),
        _ => None,
    };
    only_one(second).or_else(option).or_else(|| stack.indexed_layers().find_map(unusual))
}

/// What is modelled needs the lab's machines, and what is the user's needs the user's.
fn misplaced_medium(stack: &Stack, place: &Place) -> Option<Misplaced> {
    stack.indexed_all().find_map(|(at, layer)| misplaced_kind(at, layer.medium_kind()?, place))
}

fn misplaced_kind(at: LayerIndex, kind: MediumKind, place: &Place) -> Option<Misplaced> {
    let (message, help) = match (kind.is_modelled(), place.is_emulated()) {
        (true, false) => (
            format!("a modelled disk needs the emulated host, but this is `--on {place}`"),
            "omit `--on`, or use a disk of yours: dev:/dev/… or file:/…",
        ),
        (false, true) => (
            "a device, file or directory of yours needs your own kernel, not the emulated host".to_owned(),
            "add `--on this` or `--on ssh:HOST`, or use a modelled disk: hdd, ssd, nvme, raid0, raid5, null",
        ),
        _ => return None,
    };
    Some(Misplaced::layer(at, message, help))
}

/// The link that joins a guest to another machine, which no place has.
pub(crate) fn link_of_a_guest(stack: &Stack) -> Option<LayerIndex> {
    let machines = stack.machines();
    let is_beside_a_guest =
        |relation| matches!(relation, Some(Relation::Beside(server)) if machines.parent(server).is_some());
    let of_guest = |(index, segment): (MachineIndex, &crate::MachineSegment<'_>)| {
        segment.crossing.filter(|_| is_beside_a_guest(machines.relation(index)))
    };
    machines.indexed().find_map(of_guest)
}

/// What to do about the link of a guest: the guest's hypervisor may be above the link, where a network is joined to it, or nowhere.
pub(crate) fn without_guest_below(stack: &Stack, link: LayerIndex) -> Vec<Candidate> {
    let below = stack.below(link);
    // Machines below another link are not around this one's server.
    let end = below.iter().position(|layer| layer.crossing() == Crossing::Beside).unwrap_or(below.len());
    let is_hypervisor = |(at, layer): &(usize, &Layer)| *at < end && layer.crossing() == Crossing::Inside;
    let moved = below.iter().enumerate().filter(is_hypervisor).map(|(_, layer)| without_disk(layer.clone()));
    let kept = below.iter().enumerate().filter(|layer| !is_hypervisor(layer)).map(|(_, layer)| layer.clone());
    let with = |moved: Vec<Layer>| {
        let layers = stack.above(link).iter().cloned().chain(moved);
        let layers = layers.chain([stack.layer(link).clone()]).chain(kept.clone());
        layers.map(|layer| layer.label()).collect::<Vec<_>>().join("/")
    };
    let candidate = |words: &str, moved| Candidate { words: words.to_owned(), text: with(moved) };
    vec![
        candidate("put the virtual machine above the link", moved.collect()),
        candidate("leave the virtual machine out", Vec::new()),
    ]
}
