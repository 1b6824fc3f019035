//! Every trace point of a cell, in the order from the application to the medium, and the requests joined through all
//! of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nestor_correlate::stamps::{Truth, correlate_checked, read_operations};
use nestor_correlate::{
    CacheBetween, CorrelateOptions, Correlation, ExtentMap, MappedExtent, RecordedCell, RecordedLevel,
    Recording, SharedClock, SpaceMap, correlate,
};
use nestor_lab::{BlockPoint, BuiltStack, Lab, VirtualDisk};
use nestor_stack::{LayerDefinition, LayerIndex, MachineName};
use nestor_trace::{CallMetrics, RequestHeader, RequestReader};
use nestor_workload::{OperationLog, StepOutput};

use super::calls::CallPoint;
use super::condense::{Condensed, condense};
use super::frames::keep_logs;
use super::image_layout::image_layouts;
use super::names::{ClockOf, PointName};
use super::observe::Recorded;
use super::scratch::Scratch;
use super::trace_problem::TraceProblem;
use super::{CellError, CellRequest};
use nestor_results::TraceMode;
use nestor_results::record::{ImageRecord, LayerRecord};

/// What was recorded, as it goes into a record.
pub(super) struct Joined {
    pub layers: Vec<LayerRecord>,
    pub cpu_busy: Vec<(MachineName, f64)>,
    pub images: Vec<ImageRecord>,
    pub correlation: Option<Correlation>,
    /// Of the network file systems whose calls were recorded, by their positions in the stack.
    pub calls: BTreeMap<LayerIndex, CallMetrics>,
    pub remarks: Vec<String>,
    /// Bytes of each class of operations in each second, where every operation was recorded.
    pub bytes_by_second: BTreeMap<String, Vec<u64>>,
}

/// More requests than this are not joined: it would take longer than the cell.
const MOST_REQUESTS: u64 = 20_000_000;

/// What image formats allocate at once unless the stack says otherwise: 64 KiB in qcow2, qed and vmdk; a divisor of
/// what vdi and vhdx allocate.
const CLUSTER_BYTES: u64 = 64 << 10;

/// Condenses what was recorded and joins its requests.
pub(super) fn condense_and_join(
    lab: &Lab,
    built: &BuiltStack,
    recorded: &Recorded,
    operation_log: Option<&OperationLog>,
    truth: Option<Truth>,
    request: &CellRequest<'_>,
) -> Result<Joined, CellError> {
    let scratch = match request.trace {
        TraceMode::Full => {
            Some(Scratch::of(lab, request).map_err(|source| TraceProblem::Directory { source })?)
        }
        _ => None,
    };
    let directory = scratch.as_ref().map(Scratch::path);
    // Before a guest's file system is frozen, which writes out what a server does not have yet.
    let mut seen = Vec::new();
    let image_layouts = match scratch.as_ref().filter(|scratch| scratch.is_kept()) {
        Some(scratch) => image_layouts(built, scratch.path(), &mut seen),
        None => BTreeMap::new(),
    };
    let mut condensed = condense(lab, built, recorded, operation_log, directory)?;
    condensed.requests.image_layouts = image_layouts;
    condensed.remarks.append(&mut seen);
    let mut remarks = std::mem::take(&mut condensed.remarks);
    let levels = match directory {
        Some(_) => levels(built, &condensed, &recorded.clocks, operation_log, &mut remarks)?,
        None => Vec::new(),
    };
    let cell = RecordedCell {
        stack: request.stack.to_string(),
        workload: request.workload.to_string(),
        block: request.block,
        seed: request.seed,
    };
    let recording = Recording { cell, levels };
    if let Some(scratch) = scratch.as_ref().filter(|s| s.is_kept()) {
        recording.write(scratch.path()).map_err(TraceProblem::from)?;
        let kept = keep_logs(&recorded.networks.logs, scratch.path());
        kept.map_err(|e| TraceProblem::write(scratch.path(), e))?;
    }
    Ok(Joined {
        correlation: join(&recording, truth.as_ref(), &mut remarks),
        layers: condensed.layers(built),
        calls: condensed.calls,
        cpu_busy: recorded.cpu_busy.clone(),
        images: condensed.images,
        remarks,
        bytes_by_second: condensed.bytes_by_second,
    })
}

/// The marks in the data, of a workload that writes them; `file` has its operations.
pub(super) fn truth(
    built: &BuiltStack,
    recorded: &Recorded,
    output: &StepOutput,
    file: &str,
) -> Option<Truth> {
    let (_, text) = output.files.iter().find(|(path, _)| path == file)?;
    let mut operations = read_operations(text.as_bytes()).ok()?;
    // Their places are those in a partition, which are others where its requests are recorded.
    let begins_at = built.recorded_at(LayerIndex::TOP).map_or(0, |(_, begins_at)| begins_at);
    for operation in &mut operations {
        operation.offset = operation.offset.checked_add(begins_at)?;
    }
    Some(Truth {
        log: Path::new(&recorded.disk_log.as_ref()?.path).to_path_buf(),
        stamps: recorded.stamps.clone()?,
        operations,
    })
}

fn join(recording: &Recording, truth: Option<&Truth>, remarks: &mut Vec<String>) -> Option<Correlation> {
    let busy: Vec<&RecordedLevel> = recording.busy_levels().collect();
    let requests: u64 = busy.iter().map(|level| level.header.records).sum();
    if requests > MOST_REQUESTS {
        remarks.push(format!(
            "the {requests} requests of all levels were not joined; {MOST_REQUESTS} are the most that are"
        ));
        return None;
    }
    if busy.len() < 2 {
        return None;
    }
    let inputs: Vec<_> = busy.into_iter().map(RecordedLevel::input).collect();
    let options = CorrelateOptions::default();
    let correlation = match truth {
        Some(truth) => correlate_checked(&inputs, &options, truth),
        None => correlate(&inputs, &options),
    };
    match correlation {
        Ok(correlation) => Some(correlation),
        Err(e) => {
            remarks.push(format!("the requests could not be joined: {e}"));
            None
        }
    }
}

/// The trace points from the top to the medium.
fn levels(
    built: &BuiltStack,
    condensed: &Condensed,
    clocks: &[Option<SharedClock>],
    operation_log: Option<&OperationLog>,
    remarks: &mut Vec<String>,
) -> Result<Vec<RecordedLevel>, CellError> {
    let files = &condensed.requests;
    let mut walk = Walk { built, condensed, clocks, levels: Vec::new(), way: Way::default() };
    if let (Some(file), Some(log)) = (&files.application, operation_log) {
        walk.add(file, PointName::of_application())?;
        walk.way.cache = if log.direct { CacheBetween::NONE } else { CacheBetween::WRITE_BACK };
    }
    if let Some(point) = built.point(LayerIndex::TOP) {
        walk.add_point(point)?;
    }
    for (index, layer) in built.stack.indexed_layers() {
        match layer.definition() {
            LayerDefinition::Hypervisor(_) => walk.add_hypervisor(index)?,
            LayerDefinition::NetworkFileSystem => walk.add_calls(index)?,
            _ => {}
        }
        if let Some(mode) = built.stack.cache_mode_below(index) {
            walk.way.cache = CacheBetween::of(mode);
        }
        walk.pass_image(index, remarks);
        if let Some(point) = built.point(index.below()) {
            walk.add_point(point)?;
        }
    }
    if let Some(medium) = &files.medium {
        walk.way.cache = CacheBetween::NONE;
        walk.add(medium, PointName::of_medium(built))?;
    }
    Ok(walk.levels)
}

/// The layers between the level that was added last and the next one.
#[derive(Clone, Debug, Default)]
struct Way {
    map: SpaceMap,
    cache: CacheBetween,
    /// The layout in the image between, as its holder reads it.
    image_layout: Option<PathBuf>,
}

/// Who has an image open.
struct Holders {
    /// The layers of hypervisors.
    hypervisors: Vec<LayerIndex>,
    is_over_network: bool,
}

impl Holders {
    fn of(built: &BuiltStack, image: LayerIndex) -> Self {
        let has_it = |disk: &&VirtualDisk| disk.image == Some(image);
        Self {
            hypervisors: built.virtual_disks.iter().filter(has_it).map(|disk| disk.layer).collect(),
            is_over_network: built.network_disks.iter().any(|disk| disk.image == Some(image)),
        }
    }

    /// Whether their requests on the file are among what was recorded, as those of QEMU are. Those of a network disk's server and of a program
    /// that the user has installed are not: the next level above the file is then the virtual disk, and the tables lie between.
    fn are_recorded<T>(&self, recorded: &BTreeMap<LayerIndex, T>) -> bool {
        !self.is_over_network && self.hypervisors.iter().all(|layer| recorded.contains_key(layer))
    }
}

/// Goes down a stack and collects its levels.
struct Walk<'a> {
    built: &'a BuiltStack,
    condensed: &'a Condensed,
    /// Of the machines; empty if they share none.
    clocks: &'a [Option<SharedClock>],
    levels: Vec<RecordedLevel>,
    way: Way,
}

impl Walk<'_> {
    fn add(&mut self, file: &Path, name: PointName) -> Result<(), CellError> {
        let reader = RequestReader::open(file).map_err(TraceProblem::from)?;
        let way = std::mem::take(&mut self.way);
        let PointName { layer, kind, machine, clock } = name;
        self.levels.push(RecordedLevel {
            header: RequestHeader { layer, kind, machine, ..reader.header().clone() },
            file: file.to_path_buf(),
            map: way.map,
            cache: way.cache,
            shared_clock: self.shared_clock(clock),
            image_layout: way.image_layout,
        });
        // Other layers pass every request on unchanged.
        self.way = Way { map: SpaceMap::Identity, cache: CacheBetween::NONE, image_layout: None };
        Ok(())
    }

    fn shared_clock(&self, of: ClockOf) -> Option<SharedClock> {
        match of {
            ClockOf::Application => None,
            ClockOf::Machine(index) => *self.clocks.get(index.position())?,
            // Where machines share a clock, it is the one in which their disks live.
            ClockOf::Medium => (!self.clocks.is_empty()).then_some(SharedClock::ITSELF),
        }
    }

    fn add_point(&mut self, point: &BlockPoint) -> Result<(), CellError> {
        if let Some(begins_at) = point.begins_at {
            // Its requests are those of the device below it, where their places are others.
            let map = std::mem::take(&mut self.way.map);
            self.way.map = map.shifted(begins_at).map_err(TraceProblem::from)?;
            return Ok(());
        }
        let Some(file) = self.condensed.requests.points.get(&point.offered_by) else { return Ok(()) };
        self.add(file, PointName::of_point(self.built, point))
    }

    /// The requests on the virtual disk and, of an image format, on the image file.
    fn add_hypervisor(&mut self, index: LayerIndex) -> Result<(), CellError> {
        let built = self.built;
        let Some(disk) = built.virtual_disk(index) else { return Ok(()) };
        if let Some((on_disk, on_file)) = self.condensed.requests.virtual_disks.get(&index) {
            self.add(on_disk, PointName::of_virtual_disk(built, disk))?;
            if let (Some(on_file), Some(name), Some(image)) =
                (on_file, PointName::of_image_file(built, disk), disk.image)
            {
                self.way.map = self.map_of_tables(image);
                self.add(on_file, name)?;
            }
        }
        Ok(())
    }

    /// The calls on an image, at both ends: they are requests on its file, which lies where it was found to lie below them.
    fn add_calls(&mut self, index: LayerIndex) -> Result<(), CellError> {
        for point in CallPoint::all_of(self.built).into_iter().filter(|point| point.layer == index) {
            let Some(file) = self.condensed.requests.calls.get(&(index, point.end)) else { continue };
            let lies = (std::mem::take(&mut self.way.map), self.way.image_layout.take());
            self.way.map = SpaceMap::Identity;
            self.add(file, PointName::of_calls(self.built, index, point.end, point.machine))?;
            (self.way.map, self.way.image_layout) = lies;
        }
        Ok(())
    }

    /// Where a virtual disk lies in its image file, of a format with tables.
    fn map_of_tables(&self, image: LayerIndex) -> SpaceMap {
        let layer = self.built.stack.layer(image);
        match self.condensed.requests.image_maps.get(&image) {
            Some(map) => SpaceMap::Extents(map.clone()),
            None => SpaceMap::Clusters { bytes: layer.size("cluster").map_or(CLUSTER_BYTES, |s| s.get()) },
        }
    }

    /// The extents of an image on the device below its file system.
    fn pass_image(&mut self, index: LayerIndex, remarks: &mut Vec<String>) {
        let Some(image) = self.built.image(index) else { return };
        self.way.image_layout = self.condensed.requests.image_layouts.get(&index).cloned();
        let extents = self.condensed.requests.image_extents.get(&index).map(|extents| {
            let mapped = extents.iter().map(|&(upper, lower, bytes)| MappedExtent { upper, lower, bytes });
            ExtentMap::new(mapped.collect())
        });
        let holders = Holders::of(self.built, index);
        let is_through_tables =
            image.map_command.is_some() && !holders.are_recorded(&self.condensed.requests.virtual_disks);
        let tables = is_through_tables.then(|| self.map_of_tables(index));
        let map = extents.map(|file| match (tables, file?) {
            (Some(SpaceMap::Extents(tables)), file) => tables.through(&file).map(SpaceMap::Extents),
            (Some(unknown), _) => Ok(unknown),
            (None, file) => Ok(SpaceMap::Extents(file)),
        });
        self.way.map = match map {
            Some(Ok(map)) => map,
            // File systems allocate whole blocks, of at most 4 KiB by default.
            other => {
                let reason = other.and_then(Result::err);
                let reason = reason.map_or_else(|| "they are not known".to_owned(), |e| e.to_string());
                remarks.push(format!(
                    "the extents of {}: {reason}; where it lies is inferred from the requests",
                    self.built.stack.layer(index).label()
                ));
                SpaceMap::Clusters { bytes: 4096 }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_lie_below_a_virtual_disk_unless_the_requests_on_the_file_are_recorded() {
        let layer = LayerIndex::TOP.below();
        let holders = |hypervisors: &[LayerIndex], is_over_network| Holders {
            hypervisors: hypervisors.to_vec(),
            is_over_network,
        };
        let of_qemu = BTreeMap::from([(layer, ())]);
        assert!(holders(&[layer], false).are_recorded(&of_qemu));
        assert!(
            !holders(&[layer], false).are_recorded(&BTreeMap::<_, ()>::new()),
            "of VirtualBox nothing is"
        );
        assert!(!holders(&[], true).are_recorded(&of_qemu), "nor of a server");
        assert!(
            holders(&[], false).are_recorded(&of_qemu),
            "a file system on the image has no tables between"
        );
    }
}
