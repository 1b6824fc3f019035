//! From recordings to numbers and requests. Each recording is condensed in its machine, so that only what is needed
//! is transferred.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nestor_correlate::{ExtentMap, read_extents};
use nestor_lab::{BuiltImage, BuiltStack, Lab, Top};
use nestor_layout::Layout;
use nestor_machine::bounds::check_json;
use nestor_machine::{Command, Machine};
use nestor_stack::{LayerDefinition, LayerIndex, LayerRole, Offer};
use nestor_trace::application::ApplicationSummary;
use nestor_trace::hypervisor::HypervisorMetrics;
use nestor_trace::{DiskLogRequests, LayerMetrics};
use nestor_workload::OperationLog;
use serde::de::DeserializeOwned;

use super::CellError;
use super::names::PointName;
use super::observe::{Recorded, for_each};
use super::recorder::{Recorder, Subject};
use super::scratch::new_file;
use nestor_results::record::{ImageRecord, LayerRecord};

/// The numbers of every trace point, and where their requests are on this machine.
#[derive(Default)]
pub(super) struct Condensed {
    /// By position in [`BuiltStack::points`].
    pub points: BTreeMap<usize, LayerMetrics>,
    /// By position in [`BuiltStack::virtual_disks`].
    pub virtual_disks: BTreeMap<usize, HypervisorMetrics>,
    /// The modelled disk.
    pub medium: Option<LayerMetrics>,
    /// The image files, in the order of [`BuiltStack::images`].
    pub images: Vec<ImageRecord>,
    /// Files of requests, on this machine.
    pub requests: RequestFiles,
    /// Bytes of each class of operations in each second, where every operation was recorded.
    pub bytes_by_second: BTreeMap<String, Vec<u64>>,
    /// What is missing, and why.
    pub remarks: Vec<String>,
}

/// Files of requests and what is known of the spaces between them, on this machine.
#[derive(Default)]
pub(super) struct RequestFiles {
    /// The application's operations.
    pub application: Option<PathBuf>,
    /// By position in [`BuiltStack::points`].
    pub points: BTreeMap<usize, PathBuf>,
    /// By position in [`BuiltStack::virtual_disks`]: on the virtual disk, on the image file.
    pub virtual_disks: BTreeMap<usize, (PathBuf, Option<PathBuf>)>,
    /// The modelled disk's.
    pub medium: Option<PathBuf>,
    /// Where each image lies on the device below, by position in [`BuiltStack::images`]: position in the file, on the
    /// device, and bytes.
    pub image_extents: BTreeMap<usize, Vec<(u64, u64, u64)>>,
    /// Where the virtual disk lies in its image file, by position in [`BuiltStack::images`]; of image formats only.
    pub image_maps: BTreeMap<usize, ExtentMap>,
}

/// Seconds that condensing a recording may take, or reading a layout: an emulated machine with a large file system.
const CONDENSING_S: u64 = 600;

/// Longest summary of a trace, and most values in it: a timeline has some thousand steps, a histogram is one text.
const MOST_SUMMARY_BYTES: usize = 8 << 20;
const MOST_SUMMARY_VALUES: usize = 400_000;
/// Longest file of requests that is fetched from a machine: 64 bytes for each of 64 million requests.
const MOST_REQUEST_BYTES: u64 = 4 << 30;
/// Longest layout of a file system that is fetched. An extent takes at least three bytes there and 56 once it is read.
const MOST_LAYOUT_BYTES: u64 = 32 << 20;

/// Reads the layouts, condenses every recording, and fetches the requests into `directory` if there is one.
pub(super) fn condense(
    lab: &Lab,
    built: &BuiltStack,
    recorded: &Recorded,
    operation_log: Option<&OperationLog>,
    directory: Option<&Path>,
) -> Result<Condensed, CellError> {
    let mut condensed = Condensed::default();
    // Without requests to join, the purpose of the blocks is not needed.
    let layouts = match directory {
        Some(_) => layouts(built, &mut condensed.remarks),
        None => BTreeMap::new(),
    };
    let results =
        for_each(built.time, &recorded.recorders, |recorder| one(built, recorder, &layouts, directory));
    for (recorder, result) in recorded.recorders.iter().zip(results) {
        match (recorder.subject, result?) {
            (Subject::Point(index), (Numbers::Block(metrics), files)) => {
                condensed.points.insert(index, *metrics);
                condensed.requests.points.extend(files.into_iter().next().map(|file| (index, file)));
            }
            (Subject::VirtualDisk(index), (Numbers::Hypervisor(metrics), files)) => {
                condensed.virtual_disks.insert(index, *metrics);
                let mut files = files.into_iter();
                condensed.requests.virtual_disks.extend(files.next().map(|f| (index, (f, files.next()))));
            }
            _ => {}
        }
    }
    if let Some(log) = &recorded.disk_log {
        let log_text = log.display().to_string();
        condensed.medium = Some(answer(
            lab.ground(),
            &["{nestor}", "trace", "summarize", "--json", "--disk-log", &log_text],
        )?);
        if let Some(directory) = directory {
            condensed.requests.medium = Some(medium_requests(built, log, directory)?);
        }
    }
    images(built, &layouts, directory, &mut condensed);
    if let (Some(log), Some(directory)) = (operation_log, directory)
        && let Err(e) = application(built, log, &layouts, directory, &mut condensed)
    {
        condensed.remarks.push(format!("the application's own record of its operations: {e}"));
    }
    Ok(condensed)
}

/// The numbers of one recording.
enum Numbers {
    Block(Box<LayerMetrics>),
    Hypervisor(Box<HypervisorMetrics>),
}

/// The layout of each file system of the stack, as a file in its machine; by position in
/// [`BuiltStack::file_systems`]. If one cannot be read, its requests have no classes, and a remark says so.
fn layouts(built: &BuiltStack, remarks: &mut Vec<String>) -> BTreeMap<usize, String> {
    let mut layouts = BTreeMap::new();
    for (index, file_system) in built.file_systems.iter().enumerate() {
        let place = &built.machines[file_system.machine];
        let output = format!("{}/layout-{index}", place.facts.work_directory);
        let mut argv: Vec<&str> = vec!["{nestor}", "trace", "layout", "--device", &file_system.device];
        argv.extend(["--mount", &file_system.mount_point, "--output", &output]);
        // Images of the same machine that lie on it.
        for image in built.images.iter().filter(|i| i.machine == file_system.machine) {
            if image.path.starts_with(&format!("{}/", file_system.mount_point)) {
                argv.extend(["--image", &image.path]);
            }
        }
        match place.machine.run_ok(Command::new(argv).timeout_s(CONDENSING_S)) {
            Ok(_) => {
                layouts.insert(index, output);
            }
            Err(e) => {
                let layer = built.stack.layer(file_system.layer).label();
                remarks.push(format!("the layout of {layer} could not be read: {e}"));
            }
        }
    }
    layouts
}

/// Condenses one recording in its machine and fetches its requests.
fn one(
    built: &BuiltStack,
    recorder: &Recorder,
    layouts: &BTreeMap<usize, String>,
    directory: Option<&Path>,
) -> Result<(Numbers, Vec<PathBuf>), CellError> {
    let there = format!("{}.requests", recorder.directory);
    let there_file = format!("{}.file-requests", recorder.directory);
    // The machine that recorded does not know the stack, so the arguments name what its files contain.
    let name = match recorder.subject {
        Subject::Point(index) => PointName::of_point(built, index),
        Subject::VirtualDisk(index) => PointName::of_virtual_disk(built, index),
    };
    let mut argv = vec!["{nestor}", "trace"];
    let mut files: Vec<(&str, String)> = Vec::new();
    let numbers = match recorder.subject {
        Subject::Point(index) => {
            argv.extend(["summarize", "--json", "--remove", &recorder.directory]);
            if let Some(layout) = layout_of_point(built, index, layouts) {
                argv.extend(["--layout", layout]);
            }
            if directory.is_some() {
                argv.extend(["--requests", &there, "--layer", &name.layer, "--kind", &name.kind]);
                argv.extend(["--machine", &name.machine]);
                files.push((&there, format!("point-{index}.requests")));
            }
            Numbers::Block(Box::new(answer(&recorder.machine, &argv)?))
        }
        Subject::VirtualDisk(index) => {
            argv.extend(["hypervisor", "summarize", "--json", "--remove", &recorder.directory]);
            if directory.is_some() {
                argv.extend(["--requests", &there, "--layer", &name.layer, "--machine", &name.machine]);
                files.push((&there, format!("virtual-disk-{index}.requests")));
                if has_format(built, index) {
                    argv.extend(["--file-requests", &there_file]);
                    files.push((&there_file, format!("image-file-{index}.requests")));
                }
            }
            Numbers::Hypervisor(Box::new(answer(&recorder.machine, &argv)?))
        }
    };
    let mut fetched = Vec::new();
    if let Some(directory) = directory {
        for (there, name) in files {
            fetched.push(fetch(&recorder.machine, there, &directory.join(name))?);
        }
    }
    Ok((numbers, fetched))
}

/// Turns the application's record of its operations into requests.
fn application(
    built: &BuiltStack,
    log: &OperationLog,
    layouts: &BTreeMap<usize, String>,
    directory: &Path,
    condensed: &mut Condensed,
) -> Result<(), CellError> {
    let machine = &built.top_machine().machine;
    let there = format!("{}.requests", log.latency_log);
    let mut argv = vec!["{nestor}", "trace", "application", "--latency-log", &log.latency_log];
    argv.extend(["--iolog", &log.iolog, "--requests", &there]);
    let top = built.file_systems.len().checked_sub(1).filter(|_| matches!(built.top, Top::Directory(_)));
    if let Some(layout) = top.and_then(|top| layouts.get(&top)) {
        argv.extend(["--layout", layout]);
    }
    let summary: ApplicationSummary = answer(machine, &argv)?;
    let left = [&log.latency_log, &log.iolog].into_iter().chain(&log.others).map(String::as_str);
    machine.run(Command::new(["rm", "-f", "--"].into_iter().chain(left)))?;
    condensed.bytes_by_second = summary.bytes_by_second;
    condensed.remarks.extend(summary.remarks.into_iter().map(|remark| format!("application: {remark}")));
    if summary.placed > 0 {
        condensed.requests.application =
            Some(fetch(machine, &there, &directory.join("application.requests"))?);
    }
    Ok(())
}

/// Whether a virtual disk is an image of a format of its own, so that its file has other offsets.
fn has_format(built: &BuiltStack, virtual_disk: usize) -> bool {
    built.virtual_disks[virtual_disk].image.is_some_and(|image| built.images[image].format != "raw")
}

/// The layout of the file system on a block device, if there is one and it could be read.
fn layout_of_point<'a>(
    built: &BuiltStack,
    index: usize,
    layouts: &'a BTreeMap<usize, String>,
) -> Option<&'a str> {
    let point = &built.points[index];
    let on_it =
        built.file_systems.iter().position(|f| (f.machine, &f.device) == (point.machine, &point.device));
    on_it.and_then(|index| layouts.get(&index)).map(String::as_str)
}

/// Runs a command of Nestor's own in a machine and reads what it answers.
fn answer<T: DeserializeOwned>(machine: &Machine, argv: &[&str]) -> Result<T, CellError> {
    let text = machine.run_ok(Command::new(argv.iter().copied()).timeout_s(CONDENSING_S))?;
    let read = || {
        check_json(&text, MOST_SUMMARY_BYTES, MOST_SUMMARY_VALUES)?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    };
    read().map_err(|e| {
        CellError::Trace(format!("{}: the summary of a trace is not readable: {e}", machine.label()))
    })
}

/// Copies a file of a machine here and removes it there.
fn fetch(machine: &Machine, there: &str, here: &Path) -> Result<PathBuf, CellError> {
    let failed = |e: std::io::Error| {
        CellError::Trace(format!("the file of requests {} could not be written: {e}", here.display()))
    };
    let mut file = new_file(here).map_err(failed)?;
    machine.fetch_file(there, &mut file, MOST_REQUEST_BYTES)?;
    machine.run(Command::new(["rm", "-f", "--", there]))?;
    Ok(here.to_path_buf())
}

/// The modelled disk's log as a file of requests. The disk is served on this machine.
fn medium_requests(built: &BuiltStack, log: &Path, directory: &Path) -> Result<PathBuf, CellError> {
    let failed = |e: nestor_trace::TraceError| CellError::Trace(format!("the modelled disk's log: {e}"));
    let path = directory.join("medium.requests");
    let name = PointName::of_medium(built);
    DiskLogRequests::open(log, &name.layer, &name.machine)
        .and_then(|log| log.write_to(&path))
        .map_err(failed)?;
    Ok(path)
}

/// The facts of each image file; its extents come from the layout of the file system that holds it.
fn images(
    built: &BuiltStack,
    layouts: &BTreeMap<usize, String>,
    directory: Option<&Path>,
    condensed: &mut Condensed,
) {
    for (index, image) in built.images.iter().enumerate() {
        let mut record = ImageRecord {
            layer: built.stack.layer(image.layer).label(),
            format: image.format.clone(),
            ..ImageRecord::default()
        };
        let disk = built.virtual_disks.iter().position(|disk| disk.image == Some(index));
        if let Some(metrics) = disk.and_then(|disk| condensed.virtual_disks.get(&disk)) {
            record.tables = metrics.format;
        }
        if let Some(directory) = directory {
            match image_extents(built, index, layouts, directory, &mut record) {
                Ok(Some(extents)) => {
                    record.extents = pieces(&extents);
                    record.allocated_bytes = total_bytes(&extents);
                    condensed.requests.image_extents.insert(index, extents);
                }
                Ok(None) => {}
                Err(e) => condensed.remarks.push(format!("the extents of {}: {e}", record.layer)),
            }
            if image.format != "raw" {
                match image_map(built, image, &directory.join(format!("map-of-image-{index}.json"))) {
                    Ok(map) => {
                        condensed.requests.image_maps.insert(index, map);
                    }
                    Err(e) => condensed.remarks.push(format!("the map of {}: {e}", record.layer)),
                }
            }
        }
        condensed.images.push(record);
    }
}

/// Where the virtual disk lies in its image file, as the format's own tool says. The guest's file system was frozen
/// before, which flushes the disk, so what QEMU holds of the tables is in the file.
fn image_map(built: &BuiltStack, image: &BuiltImage, here: &Path) -> Result<ExtentMap, CellError> {
    let machine = &built.machines[image.machine].machine;
    let argv = ["qemu-img", "map", "--force-share", "--output=json", "-f", &image.format, "--", &image.path];
    let text = machine.run_ok(Command::new(argv).timeout_s(CONDENSING_S))?;
    new_file(here)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| CellError::Trace(format!("{}: {e}", here.display())))?;
    read_extents(here, None).map_err(|e| CellError::Trace(e.to_string()))
}

/// The number of extents after merging those that continue one another.
fn pieces(extents: &[(u64, u64, u64)]) -> u64 {
    let breaks = extents.windows(2).filter(|pair| {
        let (file, device, bytes) = pair[0];
        // An extent that ends beyond 64 bits has no continuation.
        file.checked_add(bytes) != Some(pair[1].0) || device.checked_add(bytes) != Some(pair[1].1)
    });
    breaks.count() as u64 + u64::from(!extents.is_empty())
}

/// Bytes of all extents, which another machine told: at most what 64 bits hold.
fn total_bytes(extents: &[FileExtent]) -> u64 {
    extents.iter().fold(0, |sum, (_, _, bytes)| sum.saturating_add(*bytes))
}

/// A piece of a file: position in it, position on the device, bytes.
type FileExtent = (u64, u64, u64);

fn image_extents(
    built: &BuiltStack,
    index: usize,
    layouts: &BTreeMap<usize, String>,
    directory: &Path,
    record: &mut ImageRecord,
) -> Result<Option<Vec<FileExtent>>, CellError> {
    let image = &built.images[index];
    let holds = |(_, f): &(usize, &nestor_lab::BuiltFileSystem)| {
        f.machine == image.machine && image.path.starts_with(&format!("{}/", f.mount_point))
    };
    let file_system = built.file_systems.iter().enumerate().rfind(holds).map(|(index, _)| index);
    let Some(there) = file_system.and_then(|index| layouts.get(&index)) else { return Ok(None) };
    let machine = &built.machines[image.machine].machine;
    let text = machine.run_ok(Command::new(["stat", "--format=%i %s", "--", &image.path]))?;
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (Some(inode), Some(bytes)) = (numbers.next(), numbers.next()) else { return Ok(None) };
    record.file_bytes = bytes;
    let here = directory.join(format!("layout-of-image-{index}"));
    let mut file = new_file(&here).map_err(|e| CellError::Trace(format!("{}: {e}", here.display())))?;
    machine.fetch_file(there, &mut file, MOST_LAYOUT_BYTES)?;
    let read = || {
        let mut reader = std::io::BufReader::new(File::open(&here)?);
        Layout::read_from(&mut reader)
    };
    let layout = read().map_err(|e| CellError::Trace(format!("the layout of the file system: {e}")))?;
    Ok(Some(layout.file(inode)))
}

impl Condensed {
    /// One row per layer; each shows the requests at its lower edge, where it meets a block device, an image or the
    /// medium.
    pub(super) fn layers(&self, built: &BuiltStack) -> Vec<LayerRecord> {
        let device_of = |index: LayerIndex| {
            let point = built.points.iter().position(|p| p.offered_by == index);
            point.and_then(|point| self.points.get(&point)).cloned()
        };
        let application = LayerRecord {
            layer: "application".into(),
            role: LayerRole::Application,
            machine: built.top_machine().label.clone(),
            metrics: (built.stack.offers() == Offer::Block).then(|| device_of(LayerIndex::TOP)).flatten(),
        };
        let machines = built.stack.machines();
        let mut rows = vec![application];
        for (index, layer) in built.stack.indexed_layers() {
            let metrics = match layer.definition() {
                LayerDefinition::Medium(_) => self.medium.clone(),
                LayerDefinition::Hypervisor(_) => {
                    device_of(index.below()).or_else(|| self.virtual_disk(built, index))
                }
                LayerDefinition::ImageFormat(_) => self.image_file(built, index),
                _ => device_of(index.below()),
            };
            rows.push(LayerRecord {
                layer: layer.label(),
                role: built.stack.role(index),
                machine: machines[built.stack.machine_of(index)].label.to_string(),
                metrics,
            });
        }
        rows
    }

    fn virtual_disk(&self, built: &BuiltStack, layer: LayerIndex) -> Option<LayerMetrics> {
        let disk = built.virtual_disks.iter().position(|disk| disk.layer == layer)?;
        self.virtual_disks.get(&disk).map(|metrics| metrics.disk.clone())
    }

    fn image_file(&self, built: &BuiltStack, layer: LayerIndex) -> Option<LayerMetrics> {
        let on_it =
            |disk: &nestor_lab::VirtualDisk| disk.image.is_some_and(|i| built.images[i].layer == layer);
        let disk = built.virtual_disks.iter().position(on_it)?;
        self.virtual_disks.get(&disk).and_then(|metrics| metrics.file.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_that_end_beyond_64_bits_are_counted_without_overflow() {
        let extents = [(0, 0, u64::MAX), (u64::MAX, u64::MAX, 2), (1, 1, u64::MAX)];
        assert_eq!(total_bytes(&extents), u64::MAX);
        assert_eq!(pieces(&extents), 2);
        assert_eq!(pieces(&[(0, 8, 4), (4, 12, 4)]), 1);
    }
}
