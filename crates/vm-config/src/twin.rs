//! The stack that a virtual disk is, and what it leaves out.

use nestor_stack::layers::hypervisors::XenGuest;
use nestor_stack::layers::hypervisors::devices::device_model;
use nestor_stack::{Bytes, DeviceKind, Link, MediumClass, Stack, registry};

use crate::{Accelerated, Disk, HostFacts, ImageFacts, LeftOut, Store, VirtualMachine};

/// The file system of a guest, or of a host, of which nothing is known.
const USUAL_FILE_SYSTEM: &str = "ext4";

/// A stack for one disk of a virtual machine.
#[derive(Clone, Debug)]
pub struct Twin {
    /// The disk as its description calls it.
    pub disk: String,
    /// Line of the description, where lines are.
    pub line: Option<usize>,
    /// The stack.
    pub stack: Stack,
    /// What is left out or taken for granted.
    pub left_out: Vec<LeftOut>,
}

/// A stack for each disk. `facts` is asked for what is below a disk.
///
/// # Errors
/// Nestor's own grammar refuses a plain stack, which is a defect of Nestor.
pub fn twins(
    machine: &VirtualMachine,
    mut facts: impl FnMut(&Disk) -> HostFacts,
) -> Result<Vec<Twin>, nestor_stack::StackError> {
    machine.disks.iter().map(|disk| twin(machine, disk, &facts(disk))).collect()
}

fn twin(machine: &VirtualMachine, disk: &Disk, facts: &HostFacts) -> Result<Twin, nestor_stack::StackError> {
    let mut left_out = disk.left_out.clone();
    left_out.extend(facts.unknown.iter().map(|why| LeftOut::new(&disk.name, why)));
    let below = below(disk, facts, &mut left_out);
    let hypervisor = match machine.accelerated {
        Accelerated::Kvm => vec!["kvm".to_owned()],
        Accelerated::Emulated => vec!["tcg".to_owned()],
        Accelerated::Xen(XenGuest::Pv) => vec!["xen".to_owned()],
        Accelerated::Xen(guest) => vec!["xen".to_owned(), format!("guest={}", guest.name())],
    };
    let mut draft = Draft { hypervisor, image: below.image, rest: below.rest };
    if let Accelerated::Xen(_) = machine.accelerated {
        draft.fit_xen(disk, &mut left_out);
    }
    let mut stack = draft.stack()?;
    for wish in of_machine(machine, disk, &mut left_out) {
        draft.hypervisor.push(wish.option);
        stack = draft.accepted(stack, wish.what, Part::Hypervisor, &mut left_out);
    }
    for wish in of_image(disk, facts.image.as_ref(), &draft.image, &mut left_out) {
        draft.image.push(wish.option);
        stack = draft.accepted(stack, wish.what, Part::Image, &mut left_out);
    }
    let why = format!("not in the description; the stack has {USUAL_FILE_SYSTEM} with its defaults");
    left_out.push(LeftOut::new("the guest's file system", why));
    Ok(Twin { disk: disk.name.clone(), line: disk.line, stack, left_out })
}

/// A stack in parts, each a name and its options.
struct Draft {
    hypervisor: Vec<String>,
    /// Empty if the disk is a block device.
    image: Vec<String>,
    rest: String,
}

enum Part {
    Hypervisor,
    Image,
}

impl Draft {
    fn stack(&self) -> Result<Stack, nestor_stack::StackError> {
        let mut layers = vec![USUAL_FILE_SYSTEM.to_owned(), self.hypervisor.join(":")];
        if !self.image.is_empty() {
            layers.push(self.image.join(":"));
        }
        layers.push(self.rest.clone());
        Stack::parse(&layers.join("/"))
    }

    /// Leaves out what Xen has no back end for: its disks are raw images and devices of the machine around it.
    fn fit_xen(&mut self, disk: &Disk, left_out: &mut Vec<LeftOut>) {
        if let Some(format) = self.image.first_mut().filter(|format| *format != "raw") {
            let why = "Xen's block back end reads raw images only; the stack has raw";
            left_out.push(LeftOut::new(format!("{}: image format {format}", disk.name), why));
            *format = "raw".to_owned();
        }
        if self.rest.starts_with("nfs/") {
            let why =
                format!("stacks have no link below Xen; the stack has {USUAL_FILE_SYSTEM} on a hard disk");
            left_out.push(LeftOut::new(format!("{}: the server", disk.name), why));
            self.rest = format!("{USUAL_FILE_SYSTEM}/hdd");
        }
    }

    /// The stack with the option that was just added, or without it if Nestor refuses it.
    fn accepted(&mut self, before: Stack, what: String, part: Part, left_out: &mut Vec<LeftOut>) -> Stack {
        self.stack().unwrap_or_else(|error| {
            let options = match part {
                Part::Hypervisor => &mut self.hypervisor,
                Part::Image => &mut self.image,
            };
            let option = options.pop().unwrap_or_default();
            let said = error.to_string();
            // The line with the caret says why, and the next one what would do.
            let mut lines = said.lines().skip_while(|line| !line.contains("^ "));
            let why = lines.next().and_then(|line| line.split_once("^ ")).map_or("", |(_, why)| why);
            let help = lines.next().unwrap_or_default().trim();
            left_out.push(LeftOut::new(what, format!("stacks cannot have {option} here: {why}; {help}")));
            before
        })
    }
}

/// An option that the stack is to have, and what it stands for.
struct Wish {
    option: String,
    what: String,
}

impl Wish {
    fn new(disk: &Disk, key: &str, value: impl std::fmt::Display) -> Self {
        Self { option: format!("{key}={value}"), what: format!("{}: {key} {value}", disk.name) }
    }
}

fn of_machine(machine: &VirtualMachine, disk: &Disk, left_out: &mut Vec<LeftOut>) -> Vec<Wish> {
    let mut wishes = match machine.accelerated {
        Accelerated::Kvm | Accelerated::Emulated => of_disk(disk, left_out),
        // Its disks are those of blkfront, whatever QEMU would do.
        Accelerated::Xen(_) => Vec::new(),
    };
    if let Some(memory) = machine.memory {
        let whole = Bytes::mib(memory.get() >> 20);
        wishes.push(Wish { option: format!("memory={whole}"), what: format!("memory of {memory}") });
    }
    if let Some(cpus) = machine.cpus {
        wishes.push(Wish { option: format!("cpus={cpus}"), what: format!("{cpus} virtual processors") });
    }
    wishes
}

/// How QEMU has a disk.
fn of_disk(disk: &Disk, left_out: &mut Vec<LeftOut>) -> Vec<Wish> {
    let mut wishes = Vec::new();
    if let Some(controller) = disk.controller {
        wishes.push(Wish::new(disk, "disk", controller));
    }
    let (mode, is_exact) = disk.cache.mode();
    if !is_exact {
        let what = format!("{}: a cache that ignores flushes with other settings than `unsafe`", disk.name);
        left_out.push(LeftOut::new(what, "the stack has cache=unsafe"));
    }
    wishes.push(Wish::new(disk, "cache", mode.name()));
    wishes.push(Wish::new(disk, "aio", &disk.aio));
    if disk.iothread && disk.controller.and_then(device_model).is_some_and(|model| model.iothread) {
        wishes.push(Wish::new(disk, "iothread", "on"));
    }
    if disk.discard {
        wishes.push(Wish::new(disk, "discard", "unmap"));
    }
    wishes
}

fn of_image(
    disk: &Disk,
    image: Option<&ImageFacts>,
    layer: &[String],
    left_out: &mut Vec<LeftOut>,
) -> Vec<Wish> {
    let mut wishes = Vec::new();
    let backing = image.map_or(disk.backing.as_ref(), |image| image.backing.as_ref());
    if let Some(backing) = backing {
        let why = "the stack has an image of its own, without one below it";
        left_out.push(LeftOut::new(format!("{}: backing image {backing}", disk.name), why));
    }
    let Some(format) = layer.first() else { return wishes };
    let is_qcow2 = format == "qcow2";
    if let (true, Some(size)) = (is_qcow2, disk.l2_cache) {
        wishes.push(Wish::new(disk, "l2-cache", size));
    }
    let Some(image) = image else { return wishes };
    if is_qcow2 {
        wishes.extend(image.cluster.map(|cluster| Wish::new(disk, "cluster", cluster)));
        if image.lazy_refcounts {
            wishes.push(Wish::new(disk, "lazy-refcounts", "on"));
        }
    }
    let is_full = image.allocated >= image.virtual_size && image.virtual_size > Bytes(0);
    match format.as_str() {
        "raw" if is_full => wishes.push(Wish::new(disk, "alloc", "full")),
        "qcow2" if is_full => wishes.push(Wish::new(disk, "prealloc", "full")),
        "vmdk" => wishes.extend(image.create_type.as_ref().map(|kind| Wish::new(disk, "subformat", kind))),
        _ => {}
    }
    if image.encrypted {
        let why = "the stack has an image that is not encrypted";
        left_out.push(LeftOut::new(format!("{}: encryption", disk.name), why));
    }
    wishes
}

/// What is below the hypervisor.
struct Below {
    /// Name of the image's layer; none of a block device.
    image: Vec<String>,
    /// Everything below it.
    rest: String,
}

fn below(disk: &Disk, facts: &HostFacts, left_out: &mut Vec<LeftOut>) -> Below {
    let medium = medium(disk, facts, left_out);
    let between = |left_out: &mut Vec<LeftOut>| {
        for kind in &facts.under.between {
            let why = "between disk and virtual disk; the stack has no such layer";
            left_out.push(LeftOut::new(format!("{}: {kind}", disk.name), why));
        }
    };
    match &disk.store {
        Store::Nvme(what) => {
            let why = "QEMU drives it itself; the stack's host has a driver for it";
            left_out.push(LeftOut::new(format!("{}: {what}", disk.name), why));
            Below { image: Vec::new(), rest: medium }
        }
        Store::Other(what) => {
            let why = "stacks have nothing like it; the stack has a local disk";
            left_out.push(LeftOut::new(format!("{}: {what}", disk.name), why));
            Below { image: Vec::new(), rest: medium }
        }
        Store::Device(_) => {
            between(left_out);
            let format = disk.format.as_deref().filter(|format| *format != "raw");
            if let Some(format) = format {
                let why = "images of stacks lie in file systems; the stack has the device itself";
                left_out.push(LeftOut::new(format!("{}: format {format} on a block device", disk.name), why));
            }
            Below { image: Vec::new(), rest: medium }
        }
        Store::File(_) => {
            between(left_out);
            let format = format_of(disk, facts, left_out);
            let file_system = file_system(disk, facts, left_out);
            Below { image: vec![format], rest: format!("{file_system}/{medium}") }
        }
        Store::FileOnServer(_) => {
            let format = format_of(disk, facts, left_out);
            Below { image: vec![format], rest: on_server(disk, left_out) }
        }
    }
}

fn format_of(disk: &Disk, facts: &HostFacts, left_out: &mut Vec<LeftOut>) -> String {
    let probed = facts.image.as_ref().map(|image| image.format.as_str());
    // What QEMU was told counts: it opens a file of any kind as raw if it is told to.
    let format = disk.format.as_deref().or(probed);
    let is_known = |name: &str| registry().iter().any(|l| l.name == name && l.image_format().is_some());
    match format {
        Some(format) if is_known(format) => format.to_owned(),
        Some(format) => {
            let why = "stacks have no such image format; the stack has raw";
            left_out.push(LeftOut::new(format!("{}: image format {format}", disk.name), why));
            "raw".to_owned()
        }
        None => {
            let why = "neither said nor found out; the stack has raw";
            left_out.push(LeftOut::new(format!("{}: image format", disk.name), why));
            "raw".to_owned()
        }
    }
}

fn on_server(disk: &Disk, left_out: &mut Vec<LeftOut>) -> String {
    let why = format!(
        "what it has is not known from here; the stack has {USUAL_FILE_SYSTEM} on a hard disk, and a link as it is \
         without options"
    );
    left_out.push(LeftOut::new(format!("{}: the server", disk.name), why));
    format!("nfs/link/{USUAL_FILE_SYSTEM}/hdd")
}

fn file_system(disk: &Disk, facts: &HostFacts, left_out: &mut Vec<LeftOut>) -> String {
    let Some(kind) = facts.under.file_system.as_deref() else {
        let why = format!("not known; the stack has {USUAL_FILE_SYSTEM}");
        left_out.push(LeftOut::new(format!("{}: the host's file system", disk.name), why));
        return USUAL_FILE_SYSTEM.to_owned();
    };
    let names = |layer: &nestor_stack::LayerSpec| {
        layer.file_system().is_some_and(|spec| layer.name == kind || spec.mount_type == kind)
    };
    let exact = registry().iter().find(|layer| layer.name == kind && names(layer));
    match (kind, exact.or_else(|| registry().iter().find(|layer| names(layer)))) {
        ("nfs" | "nfs4", _) => on_server(disk, left_out).trim_end_matches("/hdd").to_owned(),
        (_, Some(layer)) => layer.name.to_owned(),
        (kind, None) => {
            let why = format!("stacks have no such file system; the stack has {USUAL_FILE_SYSTEM}");
            left_out.push(LeftOut::new(format!("{}: the host's file system {kind}", disk.name), why));
            USUAL_FILE_SYSTEM.to_owned()
        }
    }
}

fn medium(disk: &Disk, facts: &HostFacts, left_out: &mut Vec<LeftOut>) -> String {
    if let Store::Nvme(_) = disk.store {
        return "nvme".to_owned();
    }
    if matches!(disk.store, Store::Other(_) | Store::FileOnServer(_))
        || matches!(facts.under.file_system.as_deref(), Some("nfs" | "nfs4"))
    {
        return "hdd".to_owned();
    }
    let class = facts.under.class.unwrap_or(MediumClass::UNKNOWN);
    if class.disks > 1 {
        let what = format!("{}: {} disks below it", disk.name, class.disks);
        left_out.push(LeftOut::new(what, "the stack has one"));
    }
    let name = match class.kind {
        DeviceKind::HardDisk { .. } => "hdd",
        DeviceKind::Flash(Link::Nvme) => "nvme",
        DeviceKind::Flash(Link::Sata | Link::Sas) => "ssd",
        DeviceKind::Virtual | DeviceKind::Unknown => {
            let what = format!("{}: the kind of the host's disk", disk.name);
            let is_virtual = class.kind == DeviceKind::Virtual;
            let why = if is_virtual { "it is virtual itself" } else { "not known" };
            left_out.push(LeftOut::new(what, format!("{why}; the stack has a hard disk")));
            "hdd"
        }
    };
    name.to_owned()
}
