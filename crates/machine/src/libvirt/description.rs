//! What libvirt is told of a machine: pure, from a [`MachineSpec`] (<https://libvirt.org/formatdomain.html>).
//!
//! It is the machine that Nestor's own QEMU would be: the same board, processor, agent's port and console. What libvirt has no words for, the
//! second monitor of recorders of QEMU's trace events, is said in QEMU's.

use nestor_stack::Accelerator;

use super::connection::Uri;
use super::disk::IOTHREAD;
use super::xml::Element;
use crate::disks::ROOT_SERIAL;
use crate::hypervisor::OwnDisk;
use crate::qemu::{GuestPaging, MachineFiles, own_machine};
use crate::spec::{DiskBackend, MachineSpec, RootDisk};

/// Of arguments for QEMU itself (<https://libvirt.org/drvqemu.html#pass-through-of-arbitrary-qemu-commands>).
const QEMU_NAMESPACE: &str = "http://libvirt.org/schemas/domain/qemu/1.0";

/// What libvirt calls the disk with the lab image's root: not one of the names of device models' disks.
const ROOT_TARGET: &str = "vdz";

/// A domain that is to be made.
pub struct Domain<'a> {
    /// Its name.
    pub name: &'a str,
    /// By what it is known for good.
    pub uuid: &'a str,
    /// What executes its instructions.
    pub accelerator: Accelerator,
    /// Its files.
    pub files: &'a MachineFiles,
    /// The libvirt that is to make it.
    pub uri: &'a Uri,
}

/// The description of a machine; `None` if its root is not a file or device. `paging` is asked for only if its processors are emulated.
pub fn of(spec: &MachineSpec, domain: &Domain<'_>, paging: impl FnOnce() -> GuestPaging) -> Option<Element> {
    let RootDisk::Opened { path: root } = &spec.root else { return None };
    let text = |name, text: String| Element::new(name).text(text);
    let kind = if domain.accelerator == Accelerator::Kvm { "kvm" } else { "qemu" };
    let ended = ["on_poweroff", "on_reboot", "on_crash"].map(|event| text(event, "destroy".to_owned()));
    let iothreads = spec.disk_thread.then(|| text("iothreads", "1".to_owned()));
    debug_assert_eq!(IOTHREAD, "1", "libvirt numbers them from 1");
    let description = Element::new("domain")
        .with("type", kind)
        .with("xmlns:qemu", QEMU_NAMESPACE)
        .holding([
            text("name", domain.name.to_owned()),
            text("uuid", domain.uuid.to_owned()),
            text("memory", (spec.memory_bytes >> 20).to_string()).with("unit", "MiB"),
            text("vcpu", spec.cpus.max(1).to_string()),
        ])
        .holding(iothreads)
        .holding([
            boot(spec, domain, paging),
            Element::new("features").holding([Element::new("acpi"), Element::new("apic")]),
            processor(domain.accelerator),
            Element::new("clock").with("offset", "utc"),
        ])
        .holding(ended)
        .holding([devices(spec, root, domain.files)])
        .holding(domain.uri.runs_as_user().map(as_user))
        .holding([to_qemu(domain.files)]);
    Some(description)
}

fn boot(spec: &MachineSpec, domain: &Domain<'_>, paging: impl FnOnce() -> GuestPaging) -> Element {
    let path = |name, path: String| Element::new(name).text(path);
    Element::new("os").holding([
        Element::new("type").with("arch", "x86_64").with("machine", "pc").text("hvm"),
        path("kernel", spec.kernel.clone()),
        path("initrd", domain.files.initramfs().display().to_string()),
        path("cmdline", own_machine::kernel_command_line(domain.accelerator, paging)),
    ])
}

/// The same as Nestor's own QEMU has.
fn processor(accelerator: Accelerator) -> Element {
    if accelerator == Accelerator::Kvm {
        return Element::new("cpu").with("mode", "host-passthrough");
    }
    let without = own_machine::EMULATED_WITHOUT
        .iter()
        .map(|feature| Element::new("feature").with("policy", "disable").with("name", *feature));
    Element::new("cpu").with("mode", "maximum").holding(without)
}

fn devices(spec: &MachineSpec, root: &str, files: &MachineFiles) -> Element {
    let at_start = spec.disks_at_start.iter().filter_map(|disk| match &disk.backend {
        DiskBackend::Own(OwnDisk::Libvirt(disk)) => Some(disk),
        _ => None,
    });
    let none = |name, kind: Option<&str>| {
        let element = Element::new(name);
        kind.map_or(element.clone(), |kind| element.with("type", kind)).with("model", "none")
    };
    Element::new("devices")
        .holding([root_disk(root)])
        .holding(at_start.flat_map(|disk| disk.controller().into_iter().chain([disk.element()])))
        .holding([
            none("controller", Some("usb")),
            Element::new("controller")
                .with("type", "virtio-serial")
                .with("index", "0")
                .with("ports", own_machine::AGENT_BUS_PORTS.to_string()),
            Element::new("channel").with("type", "unix").holding([
                Element::new("source")
                    .with("mode", "bind")
                    .with("path", files.agent_socket().display().to_string()),
                Element::new("target").with("type", "virtio").with("name", own_machine::AGENT_PORT),
            ]),
            Element::new("serial").with("type", "file").holding([
                Element::new("source").with("path", files.console().display().to_string()),
                Element::new("target").with("type", "isa-serial").with("port", "0"),
            ]),
            none("memballoon", None),
            Element::new("rng")
                .with("model", "virtio")
                .holding([Element::new("backend").with("model", "builtin")]),
        ])
}

/// The disk with the lab image's root.
fn root_disk(path: &str) -> Element {
    let (kind, attribute) = if path.starts_with("/dev/") { ("block", "dev") } else { ("file", "file") };
    Element::new("disk").with("type", kind).with("device", "disk").holding([
        Element::new("driver").with("name", "qemu").with("type", "raw"),
        Element::new("source").with(attribute, path),
        Element::new("target").with("dev", ROOT_TARGET).with("bus", "virtio"),
        Element::new("readonly"),
        Element::new("serial").text(ROOT_SERIAL),
    ])
}

/// The machine's QEMU runs as this user and not as libvirt's own, and libvirt gives no file another owner: nothing of the user's is changed, and
/// the machine's sockets can stay private.
fn as_user((user, group): (u32, u32)) -> Element {
    Element::new("seclabel")
        .with("type", "static")
        .with("model", "dac")
        .with("relabel", "no")
        .holding([Element::new("label").text(format!("+{user}:+{group}"))])
}

fn to_qemu(files: &MachineFiles) -> Element {
    let arguments =
        own_machine::tracing(files).into_iter().map(|word| Element::new("qemu:arg").with("value", word));
    Element::new("qemu:commandline").holding(arguments)
}

#[cfg(test)]
mod tests {
    use nestor_stack::{HypervisorKind, MachineIndex};

    use super::*;
    use crate::place::MachinePlace;
    use crate::spec::{FeaturesLeftOut, HardwareTrial, MachineTime};

    fn spec(root: &str) -> MachineSpec {
        MachineSpec {
            place: MachinePlace::Root(MachineIndex::OUTERMOST),
            memory_bytes: 256 << 20,
            cpus: 2,
            hypervisor: HypervisorKind::Libvirt,
            qemu: None,
            accelerator: None,
            under_xen: None,
            left_out: FeaturesLeftOut::default(),
            xen_guest: None,
            kernel: "/boot/vmlinuz".into(),
            modules_cpio: "/boot/modules.cpio".into(),
            root: RootDisk::Opened { path: root.into() },
            time: MachineTime::Real,
            kept_state: None,
            shared_memory: false,
            disk_thread: true,
            disks_at_start: Vec::new(),
            hardware_trial: HardwareTrial::Probe,
            probe_timeout_ms: 1,
            boot_timeout_ms: 1,
        }
    }

    fn described(accelerator: Accelerator, uri: &Uri) -> String {
        let files = MachineFiles { directory: "/run/it's".into() };
        let domain = Domain { name: "nestor-guest", uuid: "u", accelerator, files: &files, uri };
        of(&spec("/dev/vda"), &domain, || GuestPaging::Shadow).unwrap().to_string()
    }

    #[test]
    fn a_machine_of_kvm_has_the_processor_of_its_host_and_no_device_that_is_not_needed() {
        let text = described(Accelerator::Kvm, &Uri::Session);
        for part in [
            "<domain type='kvm' ",
            "<memory unit='MiB'>256</memory><vcpu>2</vcpu><iothreads>1</iothreads>",
            "<cpu mode='host-passthrough'/>",
            "<controller type='usb' model='none'/>",
            "<controller type='virtio-serial' index='0' ports='2'/>",
            "<source mode='bind' path='/run/it&#39;s/agent.sock'/>",
            "<target dev='vdz' bus='virtio'/><readonly/><serial>nestor-root</serial>",
            "<qemu:arg value='unix:/run/it&#39;s/trace.sock,server=on,wait=off'/>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("seclabel"), "the user's own libvirt runs it as the user: {text}");
    }

    #[test]
    fn an_emulated_one_has_what_qemu_emulates_but_for_what_is_slow() {
        let text = described(Accelerator::Tcg, &Uri::Session);
        assert!(text.contains("<domain type='qemu' "), "{text}");
        let without = "<feature policy='disable' name='erms'/><feature policy='disable' name='fsrm'/>";
        assert!(text.contains(&format!("<cpu mode='maximum'>{without}</cpu>")), "{text}");
        assert!(text.contains("kvm_amd.npt=0"), "{text}");
    }

    #[test]
    fn the_machines_libvirt_is_told_to_give_no_file_another_owner() {
        let text = described(Accelerator::Kvm, &Uri::System);
        assert!(text.contains("<seclabel type='static' model='dac' relabel='no'><label>+"), "{text}");
    }
}
