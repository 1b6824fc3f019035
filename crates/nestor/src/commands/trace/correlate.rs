//! `nestor trace correlate`: the requests of a guest joined with those below it.

mod load;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nestor_correlate::{
    CacheBetween, CorrelateOptions, ExtentMap, LevelInput, RecordedLevel, Recording, SpaceMap, correlate,
    read_extents,
};
use nestor_ownership::{place_for_temporary, temporary_directory_in};
use nestor_stack::layers::hypervisors::CacheMode;

use crate::output::{columns, print_json};
use load::{Role, Wanted, load};

/// Arguments of `nestor trace correlate`.
#[derive(Args, Debug)]
#[command(
    after_help = "A trace is a directory of `nestor trace record`, blktrace's files or blkparse's output, \
                  or a request file.\n\nExamples:\n  nestor run ext3/kvm/raw/jfs/hdd fio:seq-write \
                  --trace-to traces\n  \
nestor trace correlate traces\n  nestor trace correlate --guest vda --host sda --image <(filefrag -v disk.img)\n  \
nestor trace correlate --guest guest.requests --host host.requests --medium disk.log \\\n    \
--image host.layout --image-inode 131 --cache writeback"
)]
pub struct CorrelateArguments {
    /// A directory made by `nestor run --trace-to`, which holds every trace of a cell and how they belong together
    #[arg(value_name = "DIRECTORY", conflicts_with_all = [
        "guest", "hypervisor", "hypervisor_file", "host", "medium", "image", "image_inode", "image_shift", "cluster",
        "guest_layout", "host_layout", "guest_device", "host_device", "cache",
    ])]
    recording: Option<PathBuf>,
    /// Trace of the guest's disk, taken in the guest
    #[arg(long, value_name = "TRACE", required_unless_present = "recording")]
    guest: Option<PathBuf>,
    /// Requests of the guest as its hypervisor saw them
    #[arg(long, value_name = "TRACE")]
    hypervisor: Option<PathBuf>,
    /// The hypervisor's requests on the image file, where its format is not raw
    #[arg(long, value_name = "TRACE", requires = "hypervisor")]
    hypervisor_file: Option<PathBuf>,
    /// Trace of the host's disk, taken on the host
    #[arg(long, value_name = "TRACE", required_unless_present = "recording")]
    host: Option<PathBuf>,
    /// Log of the modelled disk below, or a trace from whatever is below the host
    #[arg(long, value_name = "TRACE")]
    medium: Option<PathBuf>,
    /// Where the image lies on the host's disk: output of `filefrag -v` or `xfs_bmap -v`, JSON or CSV of image offset,
    /// device offset and bytes, or a layout of `nestor trace layout` [default: the guest's disk is the host's]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// The image's inode, where the map is a layout that knows several images
    #[arg(long, value_name = "NUMBER")]
    image_inode: Option<u64>,
    /// Where the host's file system begins on the traced disk, in bytes
    #[arg(long, value_name = "BYTES", default_value = "0", requires = "image")]
    image_shift: nestor_stack::Bytes,
    /// Bytes of a cluster of the image's format
    #[arg(long, value_name = "BYTES", default_value = "64K")]
    cluster: nestor_stack::Bytes,
    /// Layout of the guest's file system, to say what its requests are for
    #[arg(long, value_name = "FILE")]
    guest_layout: Option<PathBuf>,
    /// Layout of the host's file system
    #[arg(long, value_name = "FILE")]
    host_layout: Option<PathBuf>,
    /// The disk in the guest's trace, where it has several (8:0)
    #[arg(long, value_name = "DEVICE")]
    guest_device: Option<String>,
    /// The disk in the host's trace, where it has several
    #[arg(long, value_name = "DEVICE")]
    host_device: Option<String>,
    /// What the hypervisor caches on the host, by QEMU's name of its cache mode [default: inferred]
    #[arg(long, value_name = "MODE", value_parser = cache_mode())]
    cache: Option<CacheMode>,
    /// Requests around the trace's middle to keep with their children
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    timeline: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn cache_mode() -> impl TypedValueParser<Value = CacheMode> {
    let cached = |mode: CacheMode| match (mode.direct(), mode.write_cache(), mode.no_flush()) {
        (true, true, _) => "nothing",
        (true, false, _) => "nothing, and every write is flushed",
        (false, false, _) => "reads",
        (false, true, false) => "reads and writes",
        (false, true, true) => "reads and writes, and flushes are ignored",
    };
    PossibleValuesParser::new(CacheMode::ALL.map(|mode| PossibleValue::new(mode.name()).help(cached(mode))))
        .try_map(|name| CacheMode::from_name(&name).ok_or("not a cache mode"))
}

/// Runs it.
///
/// # Errors
/// When a trace cannot be read, or they do not belong together.
pub fn run(arguments: &CorrelateArguments) -> Result<()> {
    let converted = temporary_directory_in(&place_for_temporary(), "nestor-correlate-")
        .context("no directory for the requests of the traces")?;
    let mut remarks = Vec::new();
    let levels = match (&arguments.recording, &arguments.guest, &arguments.host) {
        (Some(directory), ..) => recorded_levels(directory, &mut remarks)?,
        (None, Some(guest), Some(host)) => levels(arguments, guest, host, converted.path(), &mut remarks)?,
        _ => bail!("name a directory of `nestor run --trace-to`, or --guest and --host"),
    };
    let options = CorrelateOptions { timeline_trees: arguments.timeline };
    let mut correlation = correlate(&levels, &options)?;
    correlation.remarks.splice(0..0, remarks);
    if arguments.json {
        return print_json(&correlation);
    }
    out!("{}", correlation.to_text(columns()));
    Ok(())
}

/// The levels of a directory that `nestor run --trace-to` left.
fn recorded_levels(directory: &Path, remarks: &mut Vec<String>) -> Result<Vec<LevelInput<'static>>> {
    let Some(recording) = Recording::find(directory)? else {
        bail!(
            "{} is not a directory that `nestor run --trace-to` made; for single traces, use --guest and \
             --host",
            directory.display()
        );
    };
    let idle = recording.levels.iter().filter(|level| level.header.records == 0);
    remarks.extend(idle.map(|level| format!("no request reached {}", level.header.layer)));
    Ok(recording.busy_levels().map(RecordedLevel::input).collect())
}

fn levels(
    arguments: &CorrelateArguments,
    guest: &Path,
    host: &Path,
    converted: &Path,
    remarks: &mut Vec<String>,
) -> Result<Vec<LevelInput<'static>>> {
    let mut levels = Vec::new();
    let mut add = |path: &Path, role: Role, layout: Option<&Path>, device: Option<&str>| {
        let to = converted.join(format!("{}.requests", levels.len()));
        let wanted = Wanted { path, role, layout, device, image_inode: arguments.image_inode, to: &to };
        let (level, said) = load(&wanted)?;
        remarks.extend(said);
        levels.push(level);
        anyhow::Ok(())
    };
    add(guest, Role::Guest, arguments.guest_layout.as_deref(), arguments.guest_device.as_deref())?;
    if let Some(path) = &arguments.hypervisor {
        add(path, Role::Hypervisor, None, None)?;
    }
    if let Some(path) = &arguments.hypervisor_file {
        add(path, Role::ImageFile, None, None)?;
    }
    add(host, Role::Host, arguments.host_layout.as_deref(), arguments.host_device.as_deref())?;
    if let Some(path) = &arguments.medium {
        add(path, Role::Medium, None, None)?;
    }
    let image = image(arguments)?;
    let host = levels.len() - 1 - usize::from(arguments.medium.is_some());
    let file = arguments.hypervisor_file.as_ref().map(|_| host - 1);
    let described = levels.into_iter().enumerate().map(|(index, level)| {
        if index == host {
            let map = image.clone().map_or(SpaceMap::Identity, SpaceMap::Extents);
            let cache = arguments.cache.map_or(CacheBetween::UNKNOWN, CacheBetween::of);
            level.with_map(map).with_cache(cache)
        } else if Some(index) == file {
            // An image format answers reads of what was never written, and writes of zeros, by itself.
            level.with_map(SpaceMap::Clusters { bytes: arguments.cluster.get() })
        } else {
            level.with_cache(CacheBetween::NONE)
        }
    });
    Ok(described.collect())
}

/// Where the image lies on the host's disk.
fn image(arguments: &CorrelateArguments) -> Result<Option<ExtentMap>> {
    let Some(path) = &arguments.image else { return Ok(None) };
    let map = read_extents(path, arguments.image_inode)?;
    let shift = arguments.image_shift.get();
    let map = map.shifted(shift).map_err(|reason| anyhow::anyhow!("{}: {reason}", path.display()))?;
    Ok(Some(map))
}
