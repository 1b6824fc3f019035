//! A domain of libvirt's (<https://libvirt.org/formatdomain.html>).

use std::path::PathBuf;

use nestor_stack::Bytes;
use nestor_stack::layers::hypervisors::{CacheMode, XenGuest};
use roxmltree::{Document, Node};

use crate::{Accelerated, CacheSwitches, ConfigError, Disk, LeftOut, Store, VirtualMachine};

const HELP: &str = "Nestor reads the XML of a domain, as `virsh dumpxml NAME` prints it";

/// Elements nested deeper than in any domain: the reader of XML would use the stack for each.
const DEEPEST: usize = 64;

/// Reads the description of a domain. `source_name` is the file's name in errors.
///
/// # Errors
/// It is no XML of a domain, or a value is none of libvirt's.
pub fn read(source_name: &str, text: &str) -> Result<VirtualMachine, ConfigError> {
    let wrong = |line, message| ConfigError::new(source_name, line, message, HELP);
    if depth(text) > DEEPEST {
        return Err(wrong(None, format!("its elements are nested deeper than {DEEPEST} times")));
    }
    let document =
        Document::parse(text).map_err(|e| wrong(Some(e.pos().row as usize), format!("it is no XML: {e}")))?;
    let root = document.root_element();
    // Of a snapshot or a saved machine, the domain is inside.
    let domain = root.descendants().find(|node| node.has_tag_name("domain"));
    let Some(domain) = domain else {
        let name = root.tag_name().name();
        return Err(wrong(Some(1), format!("its first element is <{name}>, and it has no <domain>")));
    };
    let line = |node: Node<'_, '_>| Some(document.text_pos_at(node.range().start).row as usize);
    let domain = Domain { node: domain };
    let mut left_out = Vec::new();
    let accelerated = domain.accelerated(&mut left_out);
    let mut disks = Vec::new();
    for disk in domain.devices().filter(|node| node.has_tag_name("disk")) {
        if is_removable(disk) {
            let name = child(disk, "target").and_then(|target| target.attribute("dev")).unwrap_or("disk");
            left_out.push(LeftOut::new(name, "it is no hard disk"));
            continue;
        }
        let found = domain.disk(disk).map_err(|message| wrong(line(disk), message))?;
        disks.push(Disk { line: line(disk), ..found });
    }
    let memory = domain.memory().map_err(|(node, message)| wrong(line(node), message))?;
    let cpus = domain.cpus().map_err(|(node, message)| wrong(line(node), message))?;
    left_out.extend(domain.others());
    Ok(VirtualMachine { name: text_of(domain.node, "name"), accelerated, memory, cpus, disks, left_out })
}

fn is_removable(disk: Node<'_, '_>) -> bool {
    !matches!(disk.attribute("device").unwrap_or("disk"), "disk" | "lun")
}

/// How deep elements are nested at most, without reading them.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for pair in text.as_bytes().windows(2) {
        match pair {
            [b'<', b'/'] | [b'/', b'>'] => depth = depth.saturating_sub(1),
            [b'<', b'!' | b'?'] => {}
            [b'<', _] => depth += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

struct Domain<'a, 'input> {
    node: Node<'a, 'input>,
}

type Wrong<'a, 'input> = (Node<'a, 'input>, String);

impl<'a, 'input> Domain<'a, 'input> {
    fn devices(&self) -> impl Iterator<Item = Node<'a, 'input>> + use<'a, 'input> {
        child(self.node, "devices").into_iter().flat_map(|devices| devices.children())
    }

    fn accelerated(&self, left_out: &mut Vec<LeftOut>) -> Accelerated {
        match self.node.attribute("type") {
            Some("qemu") => Accelerated::Emulated,
            None | Some("kvm") => Accelerated::Kvm,
            Some("xen") => self.xen_guest(left_out),
            Some(other) => {
                let why = "stacks have none like it; the stack has kvm";
                left_out.push(LeftOut::new(format!("hypervisor {other}"), why));
                Accelerated::Kvm
            }
        }
    }

    /// How Xen runs the domain (`<os><type>`).
    fn xen_guest(&self, left_out: &mut Vec<LeftOut>) -> Accelerated {
        let kind = child(self.node, "os").and_then(|os| text_of(os, "type"));
        Accelerated::Xen(match kind.as_deref() {
            Some("xenpvh") => XenGuest::Pvh,
            Some("hvm") => {
                let why = "stacks have no devices that QEMU emulates for Xen; the stack has guest=pvh";
                left_out.push(LeftOut::new("a domain of the type hvm", why));
                XenGuest::Pvh
            }
            _ => XenGuest::Pv,
        })
    }

    /// What the domain has at most, in KiB unless it says otherwise.
    fn memory(&self) -> Result<Option<Bytes>, Wrong<'a, 'input>> {
        self.size("memory")
    }

    /// Said where the domain has less memory than at most.
    fn less_memory(&self) -> Option<LeftOut> {
        let (most, now) = (self.size("memory").ok()??, self.size("currentMemory").ok()??);
        let said =
            || LeftOut::new(format!("<currentMemory> of {now}"), "the stack's guest has all of its memory");
        (now < most).then(said)
    }

    fn size(&self, name: &str) -> Result<Option<Bytes>, Wrong<'a, 'input>> {
        let Some(node) = child(self.node, name) else { return Ok(None) };
        let text = node.text().unwrap_or_default().trim();
        let unit: Option<u64> = Some(match node.attribute("unit").unwrap_or("KiB") {
            "b" | "bytes" => 1,
            "KB" => 1_000,
            "k" | "KiB" => 1 << 10,
            "MB" => 1_000_000,
            "M" | "MiB" => 1 << 20,
            "GB" => 1_000_000_000,
            "G" | "GiB" => 1 << 30,
            "TB" => 1_000_000_000_000,
            "T" | "TiB" => 1 << 40,
            _ => 0,
        })
        .filter(|unit| *unit > 0);
        let size = unit.and_then(|unit| text.parse::<u64>().ok()?.checked_mul(unit));
        size.map(|size| Some(Bytes(size))).ok_or_else(|| (node, format!("<{name}>: `{text}` is no size")))
    }

    fn cpus(&self) -> Result<Option<u64>, Wrong<'a, 'input>> {
        let Some(node) = child(self.node, "vcpu") else { return Ok(None) };
        let text = node.attribute("current").or(node.text()).unwrap_or_default().trim();
        match text.parse::<u64>() {
            Ok(cpus) if cpus > 0 => Ok(Some(cpus)),
            _ => Err((node, format!("<vcpu>: `{text}` is no number of processors"))),
        }
    }

    fn disk(&self, disk: Node<'a, 'input>) -> Result<Disk, String> {
        let driver = child(disk, "driver");
        let of_driver = |key: &str| driver.and_then(|driver| driver.attribute(key));
        let target = child(disk, "target");
        let of_target = |key: &str| target.and_then(|target| target.attribute(key));
        let name = of_target("dev").unwrap_or("disk").to_owned();
        let mode = of_driver("cache").filter(|mode| *mode != "default").unwrap_or("writeback");
        let cache =
            CacheMode::from_name(mode).ok_or_else(|| format!("{name}: cache='{mode}' is no cache mode"))?;
        let mut left_out = Vec::new();
        let (controller, scsi) = self.controller(disk, of_target("bus"), &mut left_out);
        let on_controller = scsi.and_then(|node| child(node, "driver"));
        let iothread =
            |node: Node<'_, '_>| node.attribute("iothread").is_some() || child(node, "iothreads").is_some();
        others_of_disk(disk, driver, &mut left_out);
        let l2_cache = driver.and_then(|driver| {
            child(child(driver, "metadata_cache")?, "max_size")?.text()?.trim().parse().ok().map(Bytes)
        });
        Ok(Disk {
            left_out: left_out
                .into_iter()
                .map(|one| LeftOut::new(format!("{name}: {}", one.what), one.why))
                .collect(),
            name,
            line: None,
            controller,
            store: store(disk),
            format: of_driver("type").map(str::to_owned),
            cache: CacheSwitches::of(cache),
            aio: of_driver("io").unwrap_or("threads").to_owned(),
            iothread: driver.is_some_and(iothread) || on_controller.is_some_and(iothread),
            discard: of_driver("discard") == Some("unmap"),
            l2_cache,
            backing: backing(disk),
        })
    }

    /// The controller of a disk as stacks call it, and the element that describes it.
    fn controller(
        &self,
        disk: Node<'a, 'input>,
        bus: Option<&str>,
        left_out: &mut Vec<LeftOut>,
    ) -> (Option<&'static str>, Option<Node<'a, 'input>>) {
        let index = child(disk, "address").and_then(|at| at.attribute("controller")).unwrap_or("0");
        let found = self.devices().find(|node| {
            node.has_tag_name("controller")
                && node.attribute("type") == bus
                && node.attribute("index").unwrap_or("0") == index
        });
        let model = found.and_then(|node| node.attribute("model"));
        let known = match (bus, model) {
            (None | Some("virtio"), _) => Some("virtio-blk"),
            (Some("sata"), _) => Some("ahci"),
            (Some("ide"), _) => Some("ide"),
            (Some("nvme"), _) => Some("nvme"),
            // Of Xen's own front end, which its stacks have anyway.
            (Some("xen"), _) => return (None, found),
            (
                Some("scsi"),
                Some("virtio-scsi" | "virtio-transitional" | "virtio-non-transitional" | "auto"),
            ) => Some("virtio-scsi"),
            // What libvirt takes on x86 where no model is said.
            (Some("scsi"), None | Some("lsilogic")) => Some("lsi"),
            (Some("scsi"), Some("lsisas1068")) => Some("mptsas"),
            (Some("scsi"), Some("vmpvscsi")) => Some("pvscsi"),
            _ => None,
        };
        if known.is_none() {
            let what = format!("controller {} {}", bus.unwrap_or_default(), model.unwrap_or_default());
            left_out.push(LeftOut::new(what.trim(), "stacks have none like it; the stack has virtio-blk"));
        }
        (known, found)
    }

    fn others(&self) -> Vec<LeftOut> {
        let said: &[(&str, &str)] = &[
            ("blkiotune", "stacks have no limits"),
            ("memoryBacking", "stacks have memory as their host's kernel gives it"),
            ("numatune", "stacks have memory as their host's kernel gives it"),
            ("cputune", "stacks share processors equally"),
        ];
        let mut found: Vec<LeftOut> = said
            .iter()
            .filter(|(name, _)| child(self.node, name).is_some())
            .map(|(name, why)| LeftOut::new(format!("<{name}>"), *why))
            .collect();
        found.extend(self.less_memory());
        let devices: &[(&str, &str)] = &[
            ("hostdev", "stacks have no devices that are passed on"),
            ("filesystem", "stacks have no directories of the host in the guest"),
        ];
        for (name, why) in devices {
            let count = self.devices().filter(|node| node.has_tag_name(*name)).count();
            let of_them = if count > 1 { format!("<{name}>, {count} of them") } else { format!("<{name}>") };
            found.extend((count > 0).then(|| LeftOut::new(of_them, *why)));
        }
        let emulator = self.devices().find(|node| node.has_tag_name("emulator")).and_then(|node| node.text());
        let is_own = |path: &&str| !USUAL_PLACES.iter().any(|place| path.starts_with(place));
        found.extend(emulator.map(str::trim).filter(is_own).map(|path| {
            LeftOut::new(
                format!("<emulator> {path}"),
                "the stack has the lab's QEMU; `nestor lab qemu` adds another",
            )
        }));
        // It is in a name space of its own.
        let commandline = |node: &Node<'_, '_>| node.tag_name().name() == "commandline";
        if self.node.children().any(|node| commandline(&node)) {
            found.push(LeftOut::new("<qemu:commandline>", "arguments for QEMU itself are not read"));
        }
        found
    }
}

/// Where distributions have the QEMU that libvirt takes by itself.
const USUAL_PLACES: [&str; 3] = ["/usr/bin/", "/usr/libexec/", "/usr/lib/xen"];

/// The image below the disk's image; an empty element says that there is none.
fn backing(disk: Node<'_, '_>) -> Option<String> {
    let below = child(disk, "backingStore").filter(|below| below.has_children())?;
    let source = child(below, "source");
    let place =
        source.and_then(|source| ["file", "dev", "name"].into_iter().find_map(|key| source.attribute(key)));
    Some(place.unwrap_or("of another kind").to_owned())
}

fn others_of_disk(disk: Node<'_, '_>, driver: Option<Node<'_, '_>>, left_out: &mut Vec<LeftOut>) {
    let elements: &[(&str, &str)] = &[
        ("iotune", "stacks have no limits"),
        ("readonly", "stacks have disks that can be written"),
        ("transient", "writes go to the image and not to a temporary file"),
        ("encryption", "the stack has an image that is not encrypted"),
        ("mirror", "the stack has no copy that goes on beside"),
        ("blockio", "the stack's disk has blocks of its own size"),
        ("shareable", "one machine alone has the stack's disk"),
    ];
    if disk.attribute("device") == Some("lun") {
        left_out.push(LeftOut::new("device='lun'", "the stack has a disk that passes no SCSI commands on"));
    }
    let source = child(disk, "source");
    let is_there = |name: &str| child(disk, name).or_else(|| child(source?, name)).is_some();
    for (name, why) in elements.iter().filter(|(name, _)| is_there(name)) {
        left_out.push(LeftOut::new(format!("<{name}>"), *why));
    }
    let attributes: &[(&str, &str)] = &[
        ("detect_zeroes", "writes of zeros are writes"),
        ("copy_on_read", "stacks have no filters"),
        ("queues", "the stack has QEMU's own number, one for each processor"),
        ("queue_size", "the stack has QEMU's own size"),
    ];
    for (key, why) in attributes {
        let value = driver.and_then(|driver| driver.attribute(*key)).filter(|value| *value != "off");
        left_out.extend(value.map(|value| LeftOut::new(format!("{key}='{value}'"), *why)));
    }
}

fn store(disk: Node<'_, '_>) -> Store {
    let source = child(disk, "source");
    let attribute = |key: &str| source.and_then(|source| source.attribute(key));
    match (disk.attribute("type").unwrap_or("file"), attribute("file"), attribute("dev")) {
        ("file", Some(file), _) => Store::File(PathBuf::from(file)),
        ("block", _, Some(device)) => Store::Device(PathBuf::from(device)),
        ("network", ..) => {
            Store::Other(format!("a disk by {}", attribute("protocol").unwrap_or("a network")))
        }
        ("nvme", ..) => Store::Nvme("a disk of the type nvme".to_owned()),
        ("file" | "block", ..) => Store::Other("a drive without an image".to_owned()),
        (kind, ..) => Store::Other(format!("a disk of the type {kind}")),
    }
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn text_of(node: Node<'_, '_>, name: &str) -> Option<String> {
    Some(child(node, name)?.text()?.trim().to_owned())
}
