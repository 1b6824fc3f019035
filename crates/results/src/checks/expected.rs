//! Bounds on the numbers that follow from the stack and the workload alone.

use nestor_disk::{HddProfile, Medium, Profile, SsdProfile};
use nestor_stack::{Layer, LayerDefinition, Stack};
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
    /// Virtual disks whose written bytes must all reach the block device of the machine around them.
    pub direct_disks: Vec<DirectDisk>,
}

/// A virtual disk that is opened past the page cache around it; places are those of
/// [`Measured::layers`](crate::Measured::layers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectDisk {
    /// The layer whose lower edge is the virtual disk, as its guest sees it.
    pub guest: usize,
    /// The layer whose lower edge is the block device below the virtual disk.
    pub host: usize,
}

impl Expected {
    /// The bounds of a stack and a workload.
    pub fn of(stack: &Stack, workload: &Workload) -> Self {
        let number = |option| workload.value(option).and_then(|value| value.to_string().parse::<f64>().ok());
        let switch = |option| workload.value(option).is_some_and(|value| value.to_string() == "on");
        let layers = stack.layers();
        let profile = medium_profile(stack).ok().flatten();
        Self {
            concurrency: number("depth")
                .map(|depth| depth * number("numjobs").or_else(|| number("workers")).unwrap_or(1.0)),
            medium_bytes_per_s: profile.and_then(most_bytes_per_s),
            medium_requests_per_s: profile.and_then(most_requests_per_s),
            writes_directly: switch("direct") && layers.first().is_none_or(|top| !makes_smaller(top)),
            direct_disks: direct_disks(layers),
        }
    }
}

/// The rate of the interface. A disk's own buffer is as fast, so nothing less holds for every workload.
fn most_bytes_per_s(profile: &Profile) -> Option<f64> {
    match &profile.medium {
        Medium::Null => None,
        Medium::Hdd(hdd) => Some(hdd.interface_mb_s.value() * 1e6),
        Medium::Raid0(raid) => Some(raid.bus_mb_s.value() * 1e6),
        // Its published rates are those of a saturated interface; of reads and writes together the faster is the limit.
        Medium::Ssd(ssd) => Some(ssd.read_mb_s.value().max(ssd.write_mb_s.value()) * 1e6),
    }
}

/// Little's law: a disk holds at most its queue's depth, each command for at least its overhead. A flash disk's rates are
/// published.
fn most_requests_per_s(profile: &Profile) -> Option<f64> {
    let commands = |hdd: &HddProfile| hdd.queue_depth.value() / (hdd.command_overhead_us.value() / 1e6);
    let flash = |ssd: &SsdProfile| ssd.read_iops_32.value().max(ssd.write_iops_32.value());
    match &profile.medium {
        Medium::Null => None,
        Medium::Hdd(hdd) => Some(commands(hdd)),
        Medium::Raid0(raid) => Some(f64::from(raid.members) * commands(&raid.member)),
        Medium::Ssd(ssd) => Some(flash(ssd)),
    }
}

/// Whether a layer may write less than it was given: file systems that compress do it by an option of mount (`compress`,
/// `compress-force`, `compress_algorithm`).
fn makes_smaller(layer: &Layer) -> bool {
    layer.list("mount").any(|option| option.starts_with("compress"))
}

/// The virtual disks past whose page cache every write goes, and the block device below each. `layers` is the stack, to
/// which [`Measured::layers`](crate::Measured::layers) adds the application in front.
fn direct_disks(layers: &[Layer]) -> Vec<DirectDisk> {
    let direct = |layer: &Layer| layer.hypervisor().is_some_and(|h| h.block.cache.direct());
    layers
        .iter()
        .enumerate()
        .filter(|(_, layer)| direct(layer))
        .filter_map(|(index, _)| {
            let image = |layer: &Layer| matches!(layer.definition(), LayerDefinition::ImageFormat(_));
            let file_system = |layer: &Layer| matches!(layer.definition(), LayerDefinition::FileSystem(_));
            let host = match &layers[index + 1..] {
                // The requests at the lower edge of a hypervisor on a block device are those of that device.
                [below, ..] if matches!(below.definition(), LayerDefinition::Medium(_)) => index + 1,
                [format, below, ..] if image(format) && file_system(below) && !makes_smaller(below) => {
                    index + 3
                }
                _ => return None,
            };
            // The layer above the hypervisor in the list has the virtual disk at its lower edge.
            Some(DirectDisk { guest: index, host })
        })
        .collect()
}
