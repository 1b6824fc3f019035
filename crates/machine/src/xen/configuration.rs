//! What `xl` is told of a domain: pure, from a [`MachineSpec`] (xl.cfg(5), xl-disk-configuration(5)).

use std::path::Path;

use nestor_stack::layers::hypervisors::XenGuest;

use crate::init::GUEST_MARK;
use crate::refusal::{Cause, Refusal};
use crate::spec::MachineSpec;

/// The domain's first disk has the lab image's root.
pub const ROOT_DISK: &str = "xvda";

/// The disk of the hypervisor's layer.
pub const DATA_DISK: &str = "xvdb";

/// Its number: major 202, minor 16 (xen-vbd-interface(7)).
pub const DATA_DISK_NUMBER: u32 = 202 << 8 | 16;

/// Kernel command line of a domain, after the word that makes it a lab machine. Its console is the agent's, so the kernel gets another, which
/// nothing reads. Without random places of programs, QEMU translates each program once; with them, to free the memory of a domain in which
/// ten thousand programs have run takes hours (`tb_page_remove` in accel/tcg/translate-all.c walks a list of all translations).
const KERNEL_COMMAND_LINE: &str = "console=ttyS0 norandmaps quiet loglevel=0 panic=-1 oops=panic random.trust_cpu=on mitigations=off \
                                   nmi_watchdog=0 rdinit=/init";

/// Lets the kernel write to Xen's own log, which `xl dmesg` shows. A paravirtualised kernel would write to the agent's console instead
/// (`xenboot_write_console` in drivers/tty/hvc/hvc_xen.c).
const TO_XENS_LOG: &str = "earlyprintk=xen,keep";

/// A paravirtualised kernel takes its first console for its own unless it is told of another of its kind, which need not be there
/// (`xen_start_kernel` in arch/x86/xen/enlighten_pv.c). It would write there, and take a byte 15 and the next one for a key of SysRq
/// (`__hvc_poll` in drivers/tty/hvc/hvc_console.c).
const NO_CONSOLE: &str = "console=hvc1";

/// The files of a domain in its privileged domain.
pub struct DomainFiles<'a> {
    /// The block device with the lab image's root.
    pub root: &'a str,
    /// Kernel modules and agent.
    pub initramfs: &'a Path,
    /// The script that `libxl` runs when a disk comes and goes.
    pub script: &'a Path,
}

/// The kernel's command line of a domain of either type.
pub fn kernel_command_line(guest: XenGuest) -> String {
    let log = match guest {
        XenGuest::Pv => NO_CONSOLE,
        XenGuest::Pvh => TO_XENS_LOG,
    };
    format!("{GUEST_MARK} {KERNEL_COMMAND_LINE} {log}")
}

/// The configuration of a domain with its root disk: its name, and the UUID that was drawn for it, if one was.
pub fn text(
    spec: &MachineSpec,
    guest: XenGuest,
    (name, uuid): (&str, Option<&str>),
    files: &DomainFiles<'_>,
) -> String {
    let words = [
        ("type", guest.name().to_owned()),
        // Xen cannot emulate RDTSCP under QEMU, whose SVM does not tell how long an instruction is.
        ("tsc_mode", "native".to_owned()),
        ("kernel", spec.kernel.clone()),
        ("ramdisk", files.initramfs.display().to_string()),
        ("extra", kernel_command_line(guest)),
        ("on_poweroff", "destroy".to_owned()),
        ("on_reboot", "destroy".to_owned()),
        ("on_crash", "destroy".to_owned()),
    ];
    let who = [("name", Some(name)), ("uuid", uuid)];
    let who = who.into_iter().filter_map(|(key, value)| Some((key, value?.to_owned())));
    let words: String =
        who.chain(words).map(|(key, value)| format!("{key} = \"{}\"\n", escaped(&value))).collect();
    let disk = escaped(&disk(ROOT_DISK, files.root, false, files.script));
    let (mib, cpus) = (spec.memory_bytes >> 20, spec.cpus);
    format!("{words}memory = {mib}\nvcpus = {cpus}\ndisk = [ \"{disk}\" ]\n")
}

/// Refuses a directory whose path `xl` would take for several words of a disk (xl-disk-configuration(5)).
///
/// # Errors
/// It has such characters.
pub fn require_plain(directory: &Path) -> Result<(), Refusal> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != ',';
    let text = directory.to_str().filter(|text| text.chars().all(is_plain));
    text.map(drop).ok_or_else(|| {
        let message = format!(
            "Xen's tool cannot be told of the work directory {}: it has a comma, white space or a character that is not \
             UTF-8; set NESTOR_WORK to another",
            directory.display()
        );
        Refusal::new(Cause::NotSupported, message)
    })
}

/// A disk that blkback serves from a block device.
pub fn disk(name: &str, device: &str, writable: bool, script: &Path) -> String {
    let access = if writable { "rw" } else { "ro" };
    let script = script.display();
    format!("vdev={name},access={access},format=raw,backendtype=phy,script={script},target={device}")
}

/// In a string of that configuration, quotation marks and backslashes are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::super::made_up::machine;
    use super::*;

    fn configuration(guest: XenGuest, name: &str, uuid: Option<&str>) -> String {
        let [initramfs, script] = ["/work/guest/initramfs.cpio", "/work/guest/disk"].map(Path::new);
        text(&machine(guest), guest, (name, uuid), &DomainFiles { root: "/dev/loop3", initramfs, script })
    }

    #[test]
    fn a_domain_on_a_users_xen_is_told_with_its_uuid() {
        let uuid = Some("6c35a1b2-0d52-4c7e-9d5e-000000000001");
        insta::assert_snapshot!(configuration(XenGuest::Pv, "nestor-guest-6c35a1b20d52", uuid), @r#"
        name = "nestor-guest-6c35a1b20d52"
        uuid = "6c35a1b2-0d52-4c7e-9d5e-000000000001"
        type = "pv"
        tsc_mode = "native"
        kernel = "/lab/vmlinuz"
        ramdisk = "/work/guest/initramfs.cpio"
        extra = "nestor.guest=1 console=ttyS0 norandmaps quiet loglevel=0 panic=-1 oops=panic random.trust_cpu=on mitigations=off nmi_watchdog=0 rdinit=/init console=hvc1"
        on_poweroff = "destroy"
        on_reboot = "destroy"
        on_crash = "destroy"
        memory = 256
        vcpus = 1
        disk = [ "vdev=xvda,access=ro,format=raw,backendtype=phy,script=/work/guest/disk,target=/dev/loop3" ]
        "#);
    }

    #[test]
    fn in_the_lab_it_has_its_place_for_a_name_and_no_uuid() {
        let text = configuration(XenGuest::Pvh, "nestor-guest", None);
        assert!(text.starts_with("name = \"nestor-guest\"\ntype = \"pvh\"\n"), "{text}");
        assert!(!text.contains("uuid") && text.contains(TO_XENS_LOG), "{text}");
    }

    #[test]
    fn a_path_that_would_be_several_words_is_refused() {
        require_plain(Path::new("/root/.cache/nestor/work/7/guest")).unwrap();
        for path in ["/srv/a,b", "/srv/a b", "/srv/a\nb"] {
            let said = require_plain(Path::new(path)).unwrap_err().message;
            assert!(said.contains("set NESTOR_WORK"), "{said}");
        }
    }
}
