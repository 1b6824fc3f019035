//! What libvirt is told of a domain: pure, from a [`NewDomain`] (<https://libvirt.org/formatdomain.html>, <https://libvirt.org/drvxen.html>). It
//! is the domain that `xl` is told of ([`configuration`](super::configuration)).

use std::path::Path;

use nestor_stack::layers::hypervisors::XenGuest;

use super::configuration::{ROOT_DISK, kernel_command_line};
use super::toolstack::NewDomain;
use crate::libvirt::xml::Element;

/// The description of a domain with its root disk; `initramfs` has kernel modules and agent.
pub fn of(domain: &NewDomain<'_>, initramfs: &Path) -> Element {
    let (spec, guest) = (domain.spec, domain.guest);
    let text = |name, text: String| Element::new(name).text(text);
    let ended = ["on_poweroff", "on_reboot", "on_crash"].map(|event| text(event, "destroy".to_owned()));
    // As xl has it: not emulated, because Xen cannot emulate RDTSCP under QEMU.
    let counter = Element::new("timer").with("name", "tsc").with("mode", "native");
    Element::new("domain")
        .with("type", "xen")
        .holding([text("name", domain.name.to_owned())])
        .holding(domain.uuid.map(|uuid| text("uuid", uuid.to_owned())))
        .holding([
            text("memory", (spec.memory_bytes >> 20).to_string()).with("unit", "MiB"),
            text("vcpu", spec.cpus.to_string()),
            Element::new("os").holding([
                kind(guest),
                text("kernel", spec.kernel.clone()),
                text("initrd", initramfs.display().to_string()),
                text("cmdline", kernel_command_line(guest)),
            ]),
        ])
        .holding(features(guest))
        .holding([Element::new("clock").with("offset", "utc").holding([counter])])
        .holding(ended)
        .holding([Element::new("devices").holding([
            disk(ROOT_DISK, domain.root, false),
            Element::new("console").with("type", "pty").holding([Element::new("target").with("type", "xen")]),
        ])])
}

/// How Xen runs it, in libvirt's words.
fn kind(guest: XenGuest) -> Element {
    let (machine, kind) = match guest {
        XenGuest::Pv => ("xenpv", "linux"),
        XenGuest::Pvh => ("xenpvh", "xenpvh"),
    };
    Element::new("type").with("arch", "x86_64").with("machine", machine).text(kind)
}

/// What `xl` gives a domain by itself, and libvirt only if it is told.
fn features(guest: XenGuest) -> Option<Element> {
    let both = [Element::new("acpi"), Element::new("apic")];
    (guest == XenGuest::Pvh).then(|| Element::new("features").holding(both))
}

/// A disk that blkback serves from a block device.
pub fn disk(name: &str, device: &str, writable: bool) -> Element {
    let disk = Element::new("disk").with("type", "block").with("device", "disk").holding([
        Element::new("driver").with("name", "phy"),
        Element::new("source").with("dev", device),
        Element::new("target").with("dev", name).with("bus", "xen"),
    ]);
    if writable { disk } else { disk.holding([Element::new("readonly")]) }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::machine;
    use super::*;

    fn described(guest: XenGuest) -> String {
        let spec = machine(guest);
        let new = NewDomain {
            spec: &spec,
            guest,
            name: "nestor-guest-6c35a1b20d52",
            uuid: Some("6c35a1b2-0d52-4c7e-9d5e-000000000001"),
            root: "/dev/loop3",
            directory: Path::new("/work/it's"),
        };
        of(&new, &new.directory.join("initramfs.cpio")).to_string().replace("><", ">\n<")
    }

    #[test]
    fn libvirt_is_told_of_the_domain_that_xl_is_told_of() {
        insta::assert_snapshot!(described(XenGuest::Pv), @r"
        <domain type='xen'>
        <name>nestor-guest-6c35a1b20d52</name>
        <uuid>6c35a1b2-0d52-4c7e-9d5e-000000000001</uuid>
        <memory unit='MiB'>256</memory>
        <vcpu>1</vcpu>
        <os>
        <type arch='x86_64' machine='xenpv'>linux</type>
        <kernel>/lab/vmlinuz</kernel>
        <initrd>/work/it&#39;s/initramfs.cpio</initrd>
        <cmdline>nestor.guest=1 console=ttyS0 norandmaps quiet loglevel=0 panic=-1 oops=panic random.trust_cpu=on mitigations=off nmi_watchdog=0 rdinit=/init console=hvc1</cmdline>
        </os>
        <clock offset='utc'>
        <timer name='tsc' mode='native'/>
        </clock>
        <on_poweroff>destroy</on_poweroff>
        <on_reboot>destroy</on_reboot>
        <on_crash>destroy</on_crash>
        <devices>
        <disk type='block' device='disk'>
        <driver name='phy'/>
        <source dev='/dev/loop3'/>
        <target dev='xvda' bus='xen'/>
        <readonly/>
        </disk>
        <console type='pty'>
        <target type='xen'/>
        </console>
        </devices>
        </domain>
        ");
    }

    #[test]
    fn a_pvh_domain_has_what_xl_gives_it_by_itself() {
        let text = described(XenGuest::Pvh);
        for part in [
            "<type arch='x86_64' machine='xenpvh'>xenpvh</type>",
            "earlyprintk=xen,keep</cmdline>",
            "<features>\n<acpi/>\n<apic/>\n</features>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_disk_of_the_layer_can_be_written_to() {
        insta::assert_snapshot!(disk("xvdb", "/dev/loop4", true), @"<disk type='block' device='disk'><driver name='phy'/><source dev='/dev/loop4'/><target dev='xvdb' bus='xen'/></disk>");
    }
}
