//! Bounds on the numbers that follow from the stack and the workload alone.

use nestor_disk::{HddProfile, Medium, Profile, SsdProfile};
use nestor_stack::{Layer, LayerIndex, Stack};
use nestor_workload::Workload;

use crate::medium_profile;

/// Bounds on the numbers of a cell. All are optional.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Operations that a closed-loop workload keeps outstanding: depth times jobs or workers.
    pub concurrency: Option<f64>,
    /// The fastest the medium can move data, bytes per second: what it holds in its own cache goes at the rate of its
    /// interface.
    pub medium_bytes_per_s: Option<f64>,
    /// The most requests per second the medium can serve, all of them from its own cache.
    pub medium_requests_per_s: Option<f64>,
    /// Every write of the application goes past the page cache of its machine, to blocks that nothing makes smaller.
    pub writes_directly: bool,
    /// The layer below which reads are missing that went to another machine.
    pub reads_leave_at: Option<LayerIndex>,
    /// Virtual disks whose written bytes must all reach the block device of the machine around them.
    pub direct_disks: Vec<DirectDisk>,
}

/// A virtual disk that is opened past the page cache around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectDisk {
    /// The hypervisor: the lower edge of what is above it is the virtual disk, as its guest sees it.
    pub hypervisor: LayerIndex,
    /// The layer whose lower edge is the block device below the virtual disk.
    pub host: LayerIndex,
}

impl Expected {
    /// The bounds of a stack and a workload.
    pub fn of(stack: &Stack, workload: &Workload) -> Self {
        let demand = workload.demand();
        let profile = medium_profile(stack).ok().flatten();
        Self {
            concurrency: demand.outstanding.map(|outstanding| outstanding as f64),
            medium_bytes_per_s: profile.and_then(most_bytes_per_s),
            medium_requests_per_s: profile.and_then(most_requests_per_s),
            writes_directly: demand.past_page_cache
                && stack.layers().first().is_none_or(|top| !may_write_less(top)),
            reads_leave_at: stack.reads_leave_at(),
            direct_disks: direct_disks(stack),
        }
    }
}

/// The rate of the interface. A disk's own buffer is as fast, so nothing less holds for every workload.
fn most_bytes_per_s(profile: &Profile) -> Option<f64> {
    match &profile.medium {
        Medium::Null => None,
        Medium::Hdd(hdd) => Some(hdd.interface_mb_s.value() * 1e6),
        Medium::Array(raid) => Some(raid.bus_mb_s.value() * 1e6),
        // Its published rates are those of a saturated interface; of reads and writes together the faster is the limit.
        Medium::Ssd(ssd) => Some(ssd.read_mb_s.value().max(ssd.write_mb_s.value()) * 1e6),
    }
}

/// Little's law: a disk holds at most its queue's depth, each command for at least its overhead. A flash disk's rates are
/// published.
fn most_requests_per_s(profile: &Profile) -> Option<f64> {
    let commands = |hdd: &HddProfile| hdd.queue_depth.value() / (hdd.command_overhead_us.value() / 1e6);
    let flash = |ssd: &SsdProfile| ssd.read_iops_queued.value().max(ssd.write_iops_queued.value());
    match &profile.medium {
        Medium::Null => None,
        Medium::Hdd(hdd) => Some(commands(hdd)),
        Medium::Array(raid) => Some(f64::from(raid.members) * commands(&raid.member)),
        Medium::Ssd(ssd) => Some(flash(ssd)),
    }
}

/// Whether a layer may write less than it was given, by when that is asked: it compresses, or is a program that writes through a page
/// cache whatever its callers asked for.
fn may_write_less(layer: &Layer) -> bool {
    layer
        .file_system()
        .is_some_and(|file_system| file_system.program.is_some() || (file_system.may_compress)(layer))
}

/// The virtual disks past whose page cache every write goes, and the block device below each.
fn direct_disks(stack: &Stack) -> Vec<DirectDisk> {
    let direct = |layer: &Layer| layer.hypervisor().is_some_and(|h| h.disk.cache().direct());
    let disk = |(hypervisor, _): (LayerIndex, &Layer)| {
        let host = match stack.below(hypervisor) {
            // The requests at the lower edge of a hypervisor on a block device are those of that device.
            [below, ..] if below.medium_kind().is_some() => hypervisor,
            [format, below, ..]
                if format.image_format().is_some()
                    && below.file_system().is_some()
                    && !may_write_less(below) =>
            {
                hypervisor.below().below()
            }
            _ => return None,
        };
        Some(DirectDisk { hypervisor, host })
    };
    stack.indexed_layers().filter(|(_, layer)| direct(layer)).filter_map(disk).collect()
}
