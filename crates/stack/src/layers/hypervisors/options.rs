//! The options of a virtual machine and its disk.

use super::super::options::{
    AVAILABLE, CPUS, HOST_MEMORY_OPTION, MEMORY, MERGES, READAHEAD, SCHED, check_available,
};
use super::block::{AIO, CACHE, DISCARD};
use super::devices::{self, Attach, DeviceModelSpec, QueueDepth};
use super::managed::{self, IMAGE, POLL, TEMPLATE, TYPE};
use super::run_by::{self, BY, RunBy};
use super::{CacheMode, HostBlockOptions, HostedDisk, XenGuest};
use crate::added_qemu::QEMU_OPTION;
use crate::memory::LEAST_BESIDE_GUEST;
use crate::{
    Accelerator, BlockTuning, Bytes, Conflict, HypervisorKind, Layer, LayerDefinition, OptionKind,
    OptionSpec, SizeRule,
};

/// Debian packages.
pub(super) const PACKAGES: &[&str] = &["qemu-system-x86"];

/// Memory of the machine around a guest.
pub(super) const HOST_MEMORY: OptionSpec = OptionSpec {
    name: HOST_MEMORY_OPTION,
    summary: "memory of the machine that runs this guest, of which the guest's is a part; only where that machine is made \
              for the stack (unset: as much as it needs, and room for a page cache)",
    kind: OptionKind::Size {
        min: Bytes::mib(512),
        max: Bytes::gib(1024),
        rule: SizeRule::MultipleOf(1 << 20),
    },
    default: None,
};

/// The QEMU that runs the machine.
const QEMU: OptionSpec = OptionSpec {
    name: QEMU_OPTION,
    summary: "QEMU that runs the virtual machine, by the name under which `nestor lab qemu` added it (unset: the lab image's)",
    kind: OptionKind::Added { command: "nestor lab qemu NAME FILE" },
    default: None,
};

/// The options of every hypervisor that is QEMU.
pub(super) static OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "disk",
        summary: "device model: the disk controller that the guest sees",
        kind: OptionKind::Choice(&devices::NAMES),
        default: Some(devices::NAMES[0]),
    },
    CACHE,
    AIO,
    OptionSpec {
        name: "iothread",
        summary: "serve the disk in its own thread; needs disk=virtio-blk or virtio-scsi",
        kind: OptionKind::Flag,
        default: Some("off"),
    },
    DISCARD,
    MEMORY,
    AVAILABLE,
    HOST_MEMORY,
    CPUS,
    SCHED,
    READAHEAD,
    MERGES,
    QEMU,
    BY,
    IMAGE,
    TYPE,
    TEMPLATE,
    POLL,
];

/// A disk on a controller that QEMU emulates.
#[derive(Clone, Copy, Debug)]
pub struct QemuDisk {
    /// The controller.
    pub device: &'static DeviceModelSpec,
    /// How the disk is opened in the machine around the guest.
    pub block: HostBlockOptions,
    /// Whether the disk is served by a thread of its own.
    pub iothread: bool,
}

/// How a guest has its disk.
#[derive(Clone, Copy, Debug)]
pub enum GuestDisk {
    /// On a controller that QEMU emulates.
    Qemu(QemuDisk),
    /// By Xen's blkfront from the blkback of the privileged domain.
    Xen(XenGuest),
    /// On a controller that a program of the user's emulates.
    Hosted(HostedDisk),
}

impl GuestDisk {
    fn of(layer: &Layer, kind: HypervisorKind) -> Option<Self> {
        Some(match kind {
            HypervisorKind::Qemu | HypervisorKind::Libvirt => Self::Qemu(QemuDisk {
                device: devices::device_model(layer.option("disk")?)?,
                block: layer.host_block()?,
                iothread: layer.is_on("iothread"),
            }),
            HypervisorKind::Xen | HypervisorKind::XenByLibvirt => Self::Xen(XenGuest::of(layer)?),
            HypervisorKind::VirtualBox | HypervisorKind::Vmware => Self::Hosted(HostedDisk::of(layer)?),
        })
    }

    /// What results call the controller.
    pub const fn model(&self) -> &'static str {
        match self {
            Self::Qemu(disk) => disk.device.name,
            Self::Xen(_) => "xen-blkfront",
            Self::Hosted(disk) => disk.controller.name,
        }
    }

    /// When it can be attached.
    pub const fn attach(&self) -> Attach {
        match self {
            Self::Qemu(disk) => disk.device.attach,
            Self::Xen(_) => Attach::Running,
            // Some of those programs plug disks into some controllers. All of them take disks at the start.
            Self::Hosted(_) => Attach::AtStart,
        }
    }

    /// Modules the guest's kernel needs, in the order in which to load them.
    pub const fn kernel_modules(&self) -> &'static [&'static str] {
        match self {
            Self::Qemu(disk) => disk.device.kernel_modules,
            Self::Xen(_) => &["xen-blkfront"],
            Self::Hosted(disk) => disk.controller.kernel_modules,
        }
    }

    /// How many requests it holds. blkfront's ring of one page has 32 (`BLK_RING_SIZE` in drivers/block/xen-blkfront.c).
    pub const fn queue(&self) -> QueueDepth {
        match self {
            Self::Qemu(disk) => disk.device.queue,
            Self::Xen(_) => QueueDepth::Narrow,
            Self::Hosted(disk) => disk.controller.queue,
        }
    }

    /// How the machine around the guest opens it. blkback hands requests on as they are, and the loop device that Nestor gives it bypasses
    /// the page cache.
    pub const fn cache(&self) -> CacheMode {
        match self {
            Self::Qemu(disk) => disk.block.cache,
            Self::Xen(_) => CacheMode::None,
            Self::Hosted(disk) => disk.cache,
        }
    }

    /// How Xen runs the guest, if Xen does.
    pub const fn xen_guest(&self) -> Option<XenGuest> {
        match self {
            Self::Qemu(_) | Self::Hosted(_) => None,
            Self::Xen(guest) => Some(*guest),
        }
    }

    /// Whether the guest has to be told that it is to write through, because it may choose.
    pub const fn guest_is_to_write_through(&self) -> bool {
        match self {
            Self::Qemu(disk) => disk.device.guest_sets_write_cache && !disk.block.cache.write_cache(),
            Self::Xen(_) | Self::Hosted(_) => false,
        }
    }
}

/// The options of a hypervisor layer, typed.
#[derive(Clone, Copy, Debug)]
pub struct HypervisorOptions<'a> {
    /// The program that runs the guest.
    pub kind: HypervisorKind,
    /// What executes the guest's instructions.
    pub accelerator: Accelerator,
    /// How the guest has its disk.
    pub disk: GuestDisk,
    /// Memory of the guest.
    pub memory: Bytes,
    /// What programs and the page cache of the guest have of its memory; `None` for what its kernel leaves.
    pub available: Option<Bytes>,
    /// Memory of the machine that runs the guest; `None` for as much as it needs.
    pub host_memory: Option<Bytes>,
    /// Virtual CPUs.
    pub cpus: u32,
    /// How the guest treats the disk.
    pub tuning: BlockTuning<'a>,
}

impl Layer {
    /// The options of a hypervisor; `None` for other layers.
    pub fn hypervisor(&self) -> Option<HypervisorOptions<'_>> {
        let LayerDefinition::Hypervisor(spec) = self.definition() else { return None };
        Some(HypervisorOptions {
            kind: RunBy::of(self).unwrap_or(RunBy::Nestor).kind(spec.kind),
            accelerator: spec.accelerator,
            disk: GuestDisk::of(self, spec.kind)?,
            memory: self.size("memory")?,
            available: self.size(AVAILABLE.name),
            host_memory: self.size(HOST_MEMORY_OPTION),
            cpus: self.value("cpus")?,
            tuning: self.block_tuning(),
        })
    }
}

/// The options that say something of the disk.
const OF_THE_DISK: [&str; 8] =
    ["disk", CACHE.name, AIO.name, "iothread", DISCARD.name, SCHED.name, READAHEAD.name, MERGES.name];

/// The same virtual machine without what is said of its disk.
pub(crate) fn without_disk(layer: Layer) -> Layer {
    OF_THE_DISK.into_iter().fold(layer, Layer::without)
}

/// Refuses options of the disk of a virtual machine that has none, because a network is below it.
pub(crate) fn check_without_disk(layer: &Layer) -> Result<(), Conflict> {
    let Some(option) = OF_THE_DISK.into_iter().find(|option| layer.is_set(option)) else { return Ok(()) };
    Err(Conflict {
        option: Some(option),
        message: format!("{} is joined to a network here and has no disk", layer.name()),
        help: format!("omit {option}, or put nbd or nfs below {}", layer.name()),
    })
}

/// Refuses what QEMU refuses, or would silently not do.
pub(super) fn check(layer: &Layer, below: Option<&Layer>) -> Result<(), Conflict> {
    let Some(options) = layer.hypervisor() else { return Ok(()) };
    if let GuestDisk::Qemu(disk) = options.disk {
        check_disk(&disk, below)?;
        run_by::check(layer, &disk, below)?;
    }
    managed::check(layer)?;
    check_qemu(layer)?;
    check_memory(&options)
}

/// Refuses a QEMU of the user's for a machine that another program runs.
fn check_qemu(layer: &Layer) -> Result<(), Conflict> {
    if !layer.is_set(QEMU_OPTION) || RunBy::of(layer).is_none_or(|by| by == RunBy::Nestor) {
        return Ok(());
    }
    Err(Conflict {
        option: Some(QEMU_OPTION),
        message: "only Nestor itself runs its machines with a QEMU of your own".to_owned(),
        help: format!("omit qemu, or omit {}", BY.name),
    })
}

fn check_disk(disk: &QemuDisk, below: Option<&Layer>) -> Result<(), Conflict> {
    disk.block.check(below)?;
    if disk.iothread && !disk.device.iothread {
        let with: Vec<&str> =
            devices::device_models().iter().filter(|d| d.iothread).map(|d| d.name).collect();
        return Err(Conflict {
            option: Some("iothread"),
            message: format!("{} cannot be served by an iothread", disk.device.name),
            help: format!("use disk={} with iothread, or omit iothread", with.join(" or disk=")),
        });
    }
    Ok(())
}

/// Refuses memory of a guest and of the machine around it that do not fit together.
pub(super) fn check_memory(options: &HypervisorOptions<'_>) -> Result<(), Conflict> {
    check_available("guest", options.memory, options.available)?;
    let least = Bytes(options.memory.get().saturating_add(LEAST_BESIDE_GUEST.get()));
    if options.host_memory.is_some_and(|host| host < least) {
        return Err(Conflict {
            option: Some(HOST_MEMORY_OPTION),
            message: format!(
                "a host of a guest with {} needs {} itself: together at least {least}",
                options.memory, LEAST_BESIDE_GUEST
            ),
            help: format!("use host-memory={least} or more, or a smaller memory"),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Aio, CacheMode, Discard};
    use super::*;
    use crate::Stack;

    #[test]
    fn every_choice_is_understood() {
        for (option, names) in [
            ("disk", &devices::NAMES[..]),
            ("cache", CacheMode::NAMES),
            ("aio", Aio::NAMES),
            ("discard", Discard::NAMES),
        ] {
            for name in names {
                let stack = Stack::parse(&format!("kvm:{option}={name}/hdd")).unwrap();
                let options = stack.layers()[0].hypervisor().expect("kvm is a hypervisor");
                let GuestDisk::Qemu(QemuDisk { device, block, .. }) = options.disk else {
                    panic!("kvm is QEMU")
                };
                match option {
                    "disk" => assert_eq!(device.name, *name),
                    "aio" => assert_eq!(block.aio.name(), *name),
                    "discard" => assert_eq!(block.discard.name(), *name),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn cache_modes_are_those_of_qemus_table() {
        let row = |name| {
            let mode = CacheMode::from_name(name).unwrap();
            (mode.write_cache(), mode.direct(), mode.no_flush())
        };
        assert_eq!(row("writeback"), (true, false, false));
        assert_eq!(row("none"), (true, true, false));
        assert_eq!(row("writethrough"), (false, false, false));
        assert_eq!(row("directsync"), (false, true, false));
        assert_eq!(row("unsafe"), (true, false, true));
    }
}
