//! The command line that boots a lab machine: pure, from a [`MachineSpec`].

use std::path::{Path, PathBuf};

use nestor_stack::Accelerator;
use serde_json::Value;

use super::agent_port;
use super::disk::{DiskObjects, IOTHREAD};
use super::version::GuestPaging;
use crate::disks::ROOT_SERIAL;
use crate::hypervisor::OwnDisk;
use crate::init::GUEST_MARK;
use crate::spec::{DiskBackend, FeaturesLeftOut, MachineSpec, MachineTime, RootDisk, UnderXen};

/// Where a machine's sockets and logs are, in a directory of its own.
#[derive(Clone, Debug)]
pub struct MachineFiles {
    /// The directory.
    pub directory: PathBuf,
}

impl MachineFiles {
    /// The agent's stream.
    pub fn agent_socket(&self) -> PathBuf {
        self.directory.join("agent.sock")
    }

    /// QEMU's monitor.
    pub fn qmp_socket(&self) -> PathBuf {
        self.directory.join("qmp.sock")
    }

    /// What the machine's kernel printed.
    pub fn console(&self) -> PathBuf {
        self.directory.join("console.log")
    }

    /// What QEMU itself printed.
    pub fn qemu_log(&self) -> PathBuf {
        self.directory.join("qemu.log")
    }

    /// A second monitor, for recorders of QEMU's trace events.
    pub fn trace_monitor(&self) -> PathBuf {
        self.directory.join(TRACE_MONITOR)
    }

    /// Where QEMU writes its trace events while no recorder runs: see [`WATCHED_EVENT`].
    pub fn event_log(&self) -> PathBuf {
        self.directory.join(EVENT_LOG)
    }

    /// Where the library of virtual time speaks to the controller.
    pub fn time_socket(&self) -> PathBuf {
        self.directory.join("time.sock")
    }

    /// Kernel modules and agent for the first moments of the machine.
    pub fn initramfs(&self) -> PathBuf {
        self.directory.join("initramfs.cpio")
    }
}

/// Name of the second monitor's socket in a machine's directory.
const TRACE_MONITOR: &str = "trace.sock";

/// Name of the event log in a machine's directory.
const EVENT_LOG: &str = "events.log";

/// The trace event that QEMU logs from the start: drivers that take over or release a virtio device. QEMU's events
/// name devices by their addresses, which appear nowhere else; the last line has the device that was plugged in last.
const WATCHED_EVENT: &str = "virtio_set_status";

/// Kernel command line of a lab machine, after the word that makes it one ([`GUEST_MARK`]).
///
/// `panic=-1` with `-no-reboot` turns a kernel panic into QEMU's end, which the machine that booted it notices at once. Without
/// `pci=noearly`, the kernel looks twice for an AGP bridge at 8192 places (`search_agp_bridge`, arch/x86/kernel/aperture_64.c), and each
/// look is two exits to the hypervisor: a fifth of all exits while a guest boots.
const KERNEL_COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic random.trust_cpu=on mitigations=off nmi_watchdog=0 pci=noearly rdinit=/init";

/// Additional kernel options of a machine with emulated processors.
///
/// QEMU's TCG gives all of a machine's processors one counter (`cpus_get_elapsed_ticks`), but does not
/// report it, and the kernel then reads the time from the HPET, a device under QEMU's global lock.
///
/// See [`GuestPaging`] and [`TICK_NEVER_STOPS`] for what is added.
const EMULATED_KERNEL_OPTIONS: &str = " tsc=reliable";

/// The scheduler's tick never stops. TCG's SVM code changes the pending interrupts of a processor without the lock
/// that others take for it, so that an interrupt between processors is lost now and then; a halted processor without a tick
/// then sleeps for ever (1 of 57 cells); with one it wakes at the next tick. In virtual time there is one processor, and each tick
/// of an idle machine is one more moment to which its clock does not jump at once.
const TICK_NEVER_STOPS: &str = " nohz=off";

/// Kernel options about the processor.
fn kernel_options(processor: Processor, paging: GuestPaging) -> String {
    let tick = match processor {
        Processor::Kvm => return String::new(),
        Processor::Emulated => TICK_NEVER_STOPS,
        Processor::Counted { .. } => "",
    };
    let paging = match paging {
        GuestPaging::Shadow => " kvm_amd.npt=0",
        GuestPaging::Nested => " kvm_amd.npt=1",
    };
    format!("{EMULATED_KERNEL_OPTIONS}{paging}{tick}")
}

/// The whole command line of a machine. `paging` is asked for only if its processors are emulated.
pub fn command_line(
    spec: &MachineSpec,
    accelerator: Accelerator,
    files: &MachineFiles,
    paging: impl FnOnce() -> GuestPaging,
) -> Vec<String> {
    let processor = match spec.time {
        MachineTime::Virtual { seed, .. } => Processor::Counted { seed },
        MachineTime::Real => Processor::of(accelerator),
    };
    let paging = processor.paging(paging);
    let model = processor.model(spec.under_xen.is_some(), &spec.left_out, paging);
    // A parallel ATA controller can only be added to the board that has none of its own; everything else is plugged
    // into the running machine, which the older board does without bridges.
    let board = if spec.disks_at_start.is_empty() { "pc" } else { "q35" };
    let mut argv = bare_machine(
        board,
        &spec.place.to_string(),
        spec.memory_bytes,
        spec.cpus,
        (processor, &model),
        spec.shared_memory,
        files,
    );
    let options = kernel_options(processor, paging);
    argv.extend(match &spec.under_xen {
        None => boot(&spec.kernel, &files.initramfs(), &options),
        Some(xen) => boot_xen(xen, &spec.kernel, &files.initramfs(), &options),
    });
    argv.extend(tracing(files));
    if spec.kept_state.is_some() {
        argv.extend(["-incoming", "defer"].map(str::to_owned));
    }
    if spec.disk_thread {
        argv.extend(["-object".into(), format!("iothread,id={IOTHREAD}")]);
    }
    match &spec.root {
        RootDisk::Served { socket } => argv.extend(vhost_user_disk(ROOT_SERIAL, socket, 1)),
        RootDisk::Opened { path } => argv.extend(root_disk(path)),
    }
    for disk in &spec.disks_at_start {
        match &disk.backend {
            DiskBackend::Server { socket, queues } => {
                argv.extend(vhost_user_disk(&disk.serial, socket, *queues));
            }
            DiskBackend::Own(OwnDisk::Qemu(DiskObjects { nodes, devices, .. })) => {
                argv.extend(nodes.iter().flat_map(|n| ["-blockdev".into(), n.to_string()]));
                argv.extend(devices.iter().flat_map(|d| ["-device".into(), d.to_string()]));
            }
            // Only domains have such disks.
            DiskBackend::Own(OwnDisk::Xen(_) | OwnDisk::Libvirt(_) | OwnDisk::Hosted(_)) => {}
        }
    }
    argv
}

/// The command line of a machine that only says that it booted: no disk, little memory.
pub fn probe_command_line(kernel: &str, accelerator: Accelerator, files: &MachineFiles) -> Vec<String> {
    let processor = Processor::of(accelerator);
    let model = processor.model(false, &FeaturesLeftOut::default(), GuestPaging::Nested);
    let mut argv = bare_machine("pc", "probe", 256 << 20, 1, (processor, &model), false, files);
    argv.extend(boot(kernel, &files.initramfs(), " nestor.probe"));
    argv
}

/// A disk that is there from the start, behind a disk server's socket.
fn vhost_user_disk(serial: &str, socket: &str, queues: u16) -> [String; 4] {
    let device = vhost_user_device(serial, queues, serial).to_string();
    ["-chardev".into(), format!("socket,id={serial},path={socket}"), "-device".into(), device]
}

/// `device_add` arguments of a vhost-user-blk disk whose character device is `chardev`.
pub fn vhost_user_device(id: &str, queues: u16, chardev: &str) -> Value {
    serde_json::json!({ "driver": "vhost-user-blk-pci", "id": format!("{id}-device"), "chardev": chardev,
        "num-queues": queues, "queue-size": 256 })
}

/// Properties of QEMU's network interface that make it offer something which its guest asks for on the control queue.
const CONTROLLED: [&str; 7] = [
    "ctrl_vq",
    "ctrl_rx",
    "ctrl_vlan",
    "ctrl_rx_extra",
    "ctrl_mac_addr",
    "ctrl_guest_offloads",
    "guest_announce",
];

/// `device_add` arguments of a network interface whose back end has its name.
///
/// Without a control queue, which QEMU would serve in its main loop, so at no certain virtual time; Linux refuses an interface without
/// it that offers anything for it (`virtnet_validate_features`, drivers/net/virtio_net.c). Without MSI-X: for such an interface QEMU 7.2 asks
/// KVM for its interrupts, whether there is KVM or not, and crashes with emulated processors (`kvm_virtio_pci_irqfd_use`,
/// hw/virtio/virtio-pci.c).
pub fn network_interface(name: &str, mac: &str) -> Value {
    let mut device = serde_json::json!({ "driver": "virtio-net-pci", "id": format!("{name}-device"), "netdev": name,
        "mac": mac, "rx_queue_size": 1024, "tx_queue_size": 1024, "vectors": 0 });
    for property in CONTROLLED {
        device[property] = false.into();
    }
    device
}

/// What runs a machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Processor {
    Kvm,
    Emulated,
    /// Emulated, and its instructions are the clock of the machine's own time.
    Counted {
        seed: u64,
    },
}

impl Processor {
    fn of(accelerator: Accelerator) -> Self {
        if accelerator == Accelerator::Kvm { Self::Kvm } else { Self::Emulated }
    }

    /// How guests in the machine are paged. Real processors are not asked.
    fn paging(self, ask: impl FnOnce() -> GuestPaging) -> GuestPaging {
        if self == Self::Kvm { GuestPaging::Nested } else { ask() }
    }

    /// What QEMU is told of the model, for a machine under Xen or not.
    fn model(self, under_xen: bool, left_out: &FeaturesLeftOut, paging: GuestPaging) -> String {
        if self == Self::Kvm {
            return "host".into();
        }
        let model = if under_xen { EMULATED_MODEL_UNDER_XEN } else { EMULATED_MODEL };
        let where_shadowed = left_out.where_shadowed.iter().filter(|_| paging == GuestPaging::Shadow);
        let without = left_out.always.iter().chain(where_shadowed).map(|feature| format!(",{feature}=off"));
        [model.to_owned()].into_iter().chain(without).collect()
    }

    fn arguments(self, cpus: u32, model: &str) -> Vec<String> {
        let accelerator = match self {
            Self::Kvm => "kvm",
            Self::Emulated => "tcg,thread=multi",
            Self::Counted { .. } => "tcg,thread=single",
        };
        let cpus = if matches!(self, Self::Counted { .. }) { 1 } else { cpus.max(1) };
        let mut argv: Vec<String> =
            ["-accel", accelerator, "-cpu", model, "-smp", &cpus.to_string()].map(str::to_owned).into();
        if let Self::Counted { seed } = self {
            argv.extend(["-icount", "shift=0,sleep=off"].map(str::to_owned));
            argv.extend(["-rtc".into(), format!("base={VIRTUAL_START},clock=vm")]);
            // QEMU takes 64 bits, but refuses what `strtoull` reads as negative.
            argv.extend(["-seed".into(), (seed >> 1).to_string()]);
        }
        argv
    }

    /// Whether the machine's controller decides when its time advances.
    fn is_counted(self) -> bool {
        matches!(self, Self::Counted { .. })
    }
}

/// Every feature that QEMU emulates, but for ERMS: with it, Linux copies memory by `rep movsb`, which QEMU executes and
/// counts byte by byte, so that a copy costs a nanosecond for each byte in virtual time (1 GB/s); without, by `rep movsq`,
/// eight bytes an instruction, as fast as processors copy (Linux, `arch/x86/lib/copy_user_64.S`). FSRM, which newer QEMUs
/// emulate too, goes with it: it implies ERMS to Linux, whose `memmove` checks no length where there is FSRM, and without ERMS copies less
/// than 32 bytes without end (Linux 6.1, `arch/x86/lib/memmove_64.S`).
pub const EMULATED_MODEL: &str = "max,erms=off,fsrm=off";

/// The same without what QEMU 7.2 and Xen 4.17 do not get right together: with SMAP, the privileged domain dies at once; with AVX, domains
/// are told that they have it, and their instructions fault (seen with `raid6_pq` in a domain of type pvh).
const EMULATED_MODEL_UNDER_XEN: &str = "max,erms=off,fsrm=off,smap=off,avx=off,avx2=off";

/// The bus of the agent's port. It has as many ports as are needed: port 0 is a console's. QEMU's main loop asks for the
/// notifications of every port, used or not, whenever anything happens: with the 31 of the default these are 64 descriptors, and
/// a fifth of the instructions of a request to a disk was spent on them.
pub const AGENT_BUS_PORTS: u32 = 2;

/// When virtual time begins.
const VIRTUAL_START: &str = "2026-01-01";

fn bare_machine(
    board: &str,
    name: &str,
    memory_bytes: u64,
    cpus: u32,
    (processor, model): (Processor, &str),
    shared_memory: bool,
    files: &MachineFiles,
) -> Vec<String> {
    let memory_mib = (memory_bytes >> 20).max(128);
    let backend = if shared_memory { ",memory-backend=memory" } else { "" };
    let machine = format!("{board}{backend}");
    let counted = processor.is_counted();
    let mut argv: Vec<String> = [
        super::QEMU,
        "-name",
        name,
        "-machine",
        &machine,
        "-m",
        &format!("{memory_mib}M"),
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-serial",
        &format!("file:{}", path(&files.console())),
        "-qmp",
        &format!("unix:{},server=on,wait=off", path(&files.qmp_socket())),
    ]
    .map(str::to_owned)
    .into();
    argv.extend(agent_port(counted, files));
    argv.extend(processor.arguments(cpus, model));
    if !counted {
        // Elsewhere the processor's own generator follows the seed, and this would not.
        argv.extend(["-device".into(), "virtio-rng-pci".into()]);
    }
    if shared_memory {
        argv.extend([
            "-object".into(),
            format!("memory-backend-memfd,id=memory,size={memory_mib}M,share=on"),
        ]);
    }
    argv
}

/// What the agent is reached through.
fn agent_port(counted: bool, files: &MachineFiles) -> [String; 6] {
    // A notification that goes through the main loop would be seen at no certain virtual time.
    let notifications = if counted { ",ioeventfd=off" } else { "" };
    // The agent's port is open from the machine's first moment on, and not at some time during its boot.
    let wait = if counted { "on" } else { "off" };
    [
        "-device".into(),
        format!("virtio-serial-pci,max_ports={AGENT_BUS_PORTS}{notifications}"),
        "-chardev".into(),
        format!("socket,id=agent,path={},server=on,wait={wait}", path(&files.agent_socket())),
        "-device".into(),
        format!("virtserialport,chardev=agent,name={}", agent_port::NAME),
    ]
}

/// Lets programs other than the agent switch trace events on and off. Times are only in the log when QEMU puts them
/// into its messages as well.
pub fn tracing(files: &MachineFiles) -> [String; 8] {
    [
        "-qmp".into(),
        format!("unix:{},server=on,wait=off", path(&files.trace_monitor())),
        "-msg".into(),
        "timestamp=on".into(),
        "-D".into(),
        path(&files.event_log()),
        "-trace".into(),
        format!("enable={WATCHED_EVENT}"),
    ]
}

fn kernel_command_line(extra: &str) -> String {
    format!("{GUEST_MARK} {KERNEL_COMMAND_LINE}{extra}")
}

/// The kernel command line of a machine in real time. `paging` is asked for only if its processors are emulated.
pub fn kernel_command_line_of(accelerator: Accelerator, paging: impl FnOnce() -> GuestPaging) -> String {
    let processor = Processor::of(accelerator);
    let paging = processor.paging(paging);
    kernel_command_line(&kernel_options(processor, paging))
}

fn boot(kernel: &str, initramfs: &Path, extra: &str) -> [String; 6] {
    [
        "-kernel".into(),
        kernel.into(),
        "-initrd".into(),
        path(initramfs),
        "-append".into(),
        kernel_command_line(extra),
    ]
}

/// Xen first, with the kernel of its privileged domain and its initramfs as modules (multiboot). In the text of a module, a comma is written
/// twice (`mb_add_mod` and `get_opt_value` in QEMU's hw/i386/multiboot.c).
fn boot_xen(xen: &UnderXen, kernel: &str, initramfs: &Path, extra: &str) -> [String; 6] {
    let word = |text: &str| text.replace(',', ",,");
    let command_line = KERNEL_COMMAND_LINE.replace("console=ttyS0", "console=hvc0 norandmaps");
    let kernel = word(&format!("{kernel} {GUEST_MARK} {command_line}{extra}"));
    [
        "-kernel".into(),
        xen.hypervisor.clone(),
        "-initrd".into(),
        format!("{kernel},{}", word(&path(initramfs))),
        "-append".into(),
        xen_options(xen.privileged_memory_bytes),
    ]
}

/// Command line of Xen. Its console is the machine's, to which the privileged domain's goes too.
///
/// Xen changes the registers of the floating point unit with the domain, as processors with a fault of theirs need it. By default it waits until
/// a domain uses them, which a processor says by `CR0.TS`. In QEMU, `XSAVE` and `XRSTOR` do not look at that (7.2, target/i386/tcg/translate.c), and
/// a domain's kernel takes another domain's registers for those of its process.
fn xen_options(privileged_memory_bytes: u64) -> String {
    let mib = privileged_memory_bytes >> 20;
    format!(
        "console=com1 com1=115200,8n1 loglvl=error guest_loglvl=all dom0_mem={mib}M,max:{mib}M no-bootscrub noreboot spec-ctrl=eager-fpu"
    )
}

fn root_disk(root: &str) -> Vec<String> {
    let driver = if root.starts_with("/dev/") { "host_device" } else { "file" };
    let file = serde_json::json!({ "driver": driver, "node-name": "root-file", "filename": root,
        "read-only": true, "auto-read-only": false, "locking": "off" });
    let raw =
        serde_json::json!({ "driver": "raw", "node-name": "root", "file": "root-file", "read-only": true });
    let device = serde_json::json!({ "driver": "virtio-blk-pci", "id": "root-device", "drive": "root",
        "serial": ROOT_SERIAL });
    vec![
        "-blockdev".into(),
        file.to_string(),
        "-blockdev".into(),
        raw.to_string(),
        "-device".into(),
        device.to_string(),
    ]
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_processors_lack_what_is_left_out() {
        let names = |name: &str| vec![name.to_owned()];
        let left_out = FeaturesLeftOut { always: names("la57"), where_shadowed: names("npt") };
        let model = |processor: Processor, paging| processor.model(false, &left_out, paging);
        let emulated = Processor::Counted { seed: 1 };
        assert_eq!(model(emulated, GuestPaging::Shadow), "max,erms=off,fsrm=off,la57=off,npt=off");
        assert_eq!(model(Processor::Emulated, GuestPaging::Nested), "max,erms=off,fsrm=off,la57=off");
        assert_eq!(model(Processor::Kvm, GuestPaging::Nested), "host");
        assert_eq!(emulated.model(false, &FeaturesLeftOut::default(), GuestPaging::Shadow), EMULATED_MODEL);
    }
}
