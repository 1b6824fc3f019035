//! What `xl` is told of a domain: pure, from a [`MachineSpec`] (xl.cfg(5), xl-disk-configuration(5)).

use std::path::Path;

use nestor_stack::layers::hypervisors::XenGuest;

use crate::init::GUEST_MARK;
use crate::spec::{MachineSpec, RootDisk};

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
    /// Kernel modules and agent.
    pub initramfs: &'a Path,
    /// The script that `libxl` runs when a disk comes and goes.
    pub script: &'a Path,
}

/// The configuration of a domain with its root disk.
pub fn text(spec: &MachineSpec, guest: XenGuest, name: &str, files: &DomainFiles<'_>) -> Option<String> {
    let log = match guest {
        XenGuest::Pv => NO_CONSOLE,
        XenGuest::Pvh => TO_XENS_LOG,
    };
    let RootDisk::Opened { path: root } = &spec.root else { return None };
    let words = [
        ("name", name.to_owned()),
        ("type", guest.name().to_owned()),
        // Xen cannot emulate RDTSCP under QEMU, whose SVM does not tell how long an instruction is.
        ("tsc_mode", "native".to_owned()),
        ("kernel", spec.kernel.clone()),
        ("ramdisk", files.initramfs.display().to_string()),
        ("extra", format!("{GUEST_MARK} {KERNEL_COMMAND_LINE} {log}")),
        ("on_poweroff", "destroy".to_owned()),
        ("on_reboot", "destroy".to_owned()),
        ("on_crash", "destroy".to_owned()),
    ];
    let words: String =
        words.iter().map(|(key, value)| format!("{key} = \"{}\"\n", escaped(value))).collect();
    let disk = escaped(&disk(ROOT_DISK, root, false, files.script));
    let (mib, cpus) = (spec.memory_bytes >> 20, spec.cpus);
    Some(format!("{words}memory = {mib}\nvcpus = {cpus}\ndisk = [ \"{disk}\" ]\n"))
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
