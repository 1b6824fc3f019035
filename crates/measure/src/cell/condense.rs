//! From recordings to numbers and requests. Each recording is condensed in its machine, so that only what is needed
//! is transferred.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nestor_correlate::{CorrelateError, ExtentMap, read_extents};
use nestor_kernel::ServedRequests;
use nestor_lab::{BlockPoint, BuiltFileSystem, BuiltImage, BuiltStack, Lab, Top};
use nestor_layout::Layout;
use nestor_machine::bounds::check_json;
use nestor_machine::{Command, Machine};
use nestor_stack::{LayerDefinition, LayerIndex, LayerRole, Offer};
use nestor_trace::application::ApplicationSummary;
use nestor_trace::hypervisor::HypervisorMetrics;
use nestor_trace::{CallEnd, CallMetrics, DiskLogRequests, LayerMetrics, LinkMetrics};
use nestor_workload::OperationLog;
use serde::de::DeserializeOwned;

use super::CellError;
use super::calls::{RecordedCalls, join_calls};
use super::file_places::file_places;
use super::frames::condense_links;
use super::names::PointName;
use super::observe::{Recorded, for_each};
use super::recorder::{Recorder, Subject};
use super::request_files::RequestFiles;
use super::scratch::new_file;
use super::trace_problem::TraceProblem;
use nestor_results::record::{ImageRecord, LayerRecord};

/// The numbers of every trace point, and where their requests are on this machine.
#[derive(Default)]
pub(super) struct Condensed {
    /// Of the block devices, by the layer that offers each.
    pub points: BTreeMap<LayerIndex, LayerMetrics>,
    /// By the hypervisor's layer.
    pub virtual_disks: BTreeMap<LayerIndex, HypervisorMetrics>,
    /// The modelled disk.
    pub medium: Option<LayerMetrics>,
    /// The image files, in the order of [`BuiltStack::images`].
    pub images: Vec<ImageRecord>,
    /// Of the links whose frames were logged, by the layer.
    pub links: BTreeMap<LayerIndex, LinkMetrics>,
    /// Of the network file systems whose calls were recorded, by their positions in the stack.
    pub calls: BTreeMap<LayerIndex, CallMetrics>,
    /// What was served of virtual disks, by the hypervisor's layer.
    pub served: BTreeMap<LayerIndex, ServedRequests>,
    /// Files of requests, on this machine.
    pub requests: RequestFiles,
    /// Bytes of each class of operations in each second, where every operation was recorded.
    pub bytes_by_second: BTreeMap<String, Vec<u64>>,
    /// What is missing, and why.
    pub remarks: Vec<String>,
}

/// Seconds that condensing a recording may take, or reading a layout: an emulated machine with a large file system.
pub(super) const CONDENSING_S: u64 = 600;

/// Longest summary of a trace, and most values in it: a timeline has some thousand steps, a histogram is one text.
const MOST_SUMMARY_BYTES: usize = 8 << 20;
const MOST_SUMMARY_VALUES: usize = 400_000;
/// Longest file of requests that is fetched from a machine: 64 bytes for each of 64 million requests.
const MOST_REQUEST_BYTES: u64 = 4 << 30;
/// Longest layout of a file system that is fetched. An extent takes at least three bytes there and 56 once it is read.
pub(super) const MOST_LAYOUT_BYTES: u64 = 32 << 20;

/// Reads the layouts, condenses every recording, and fetches the requests into `directory` if there is one.
pub(super) fn condense(
    lab: &Lab,
    built: &BuiltStack,
    recorded: &Recorded,
    operation_log: Option<&OperationLog>,
    directory: Option<&Path>,
) -> Result<Condensed, CellError> {
    let mut condensed = Condensed { served: recorded.served.clone(), ..Condensed::default() };
    // Without requests to join, the purpose of the blocks is not needed.
    let layouts = match directory {
        Some(_) => layouts(built, &mut condensed.remarks),
        None => BTreeMap::new(),
    };
    let mut calls = BTreeMap::new();
    let results =
        for_each(built.time, &recorded.recorders, |recorder| one(built, recorder, &layouts, directory));
    for (recorder, result) in recorded.recorders.iter().zip(results) {
        let (numbers, files) = result?;
        condensed.add(recorder.subject, numbers, files, &mut calls);
    }
    let places = match directory {
        Some(directory) => file_places(built, &layouts, directory, &mut condensed.remarks),
        None => BTreeMap::new(),
    };
    let files = &mut condensed.requests.calls;
    condensed.calls = join_calls(built, &calls, &places, files, &mut condensed.remarks);
    if let Some(log) = &recorded.disk_log {
        let argv = ["{nestor}", "trace", "summarize", "--json", "--disk-log", &log.path];
        let summary: LayerMetrics = answer(lab.ground(), &argv)?;
        condensed.medium = Some(LayerMetrics { members: log.work.members, arms: log.work.arms, ..summary });
        if let Some(directory) = directory {
            condensed.requests.medium = Some(medium_requests(built, Path::new(&log.path), directory)?);
        }
    }
    condensed.links = condense_links(lab, built, &recorded.networks.logs, &mut condensed.remarks);
    images(built, &layouts, directory, &mut condensed);
    if let (Some(log), Some(directory)) = (operation_log, directory)
        && let Err(e) = application(built, log, &layouts, directory, &mut condensed)
    {
        condensed.remarks.push(format!("the application's own record of its operations: {e}"));
    }
    Ok(condensed)
}

impl Condensed {
    /// Adds the numbers of one recording, and the files of its requests.
    fn add(
        &mut self,
        subject: Subject,
        numbers: Numbers,
        files: Vec<PathBuf>,
        calls: &mut BTreeMap<(LayerIndex, CallEnd), RecordedCalls>,
    ) {
        let mut files = files.into_iter();
        match (subject, numbers) {
            (Subject::Point(layer), Numbers::Block(metrics)) => {
                self.points.insert(layer, *metrics);
                self.requests.points.extend(files.next().map(|file| (layer, file)));
            }
            (Subject::VirtualDisk(layer), Numbers::Hypervisor(metrics)) => {
                self.virtual_disks.insert(layer, *metrics);
                self.requests.virtual_disks.extend(files.next().map(|file| (layer, (file, files.next()))));
            }
            (Subject::Calls(layer, end), Numbers::Calls(of_end)) => {
                calls.insert((layer, end), of_end);
            }
            _ => {}
        }
    }
}

/// The numbers of one recording.
enum Numbers {
    Block(Box<LayerMetrics>),
    Hypervisor(Box<HypervisorMetrics>),
    /// They come when both ends are joined.
    Calls(RecordedCalls),
}

/// The layout of each file system of the stack, as a file in its machine, by its layer. If one cannot be read, its requests have
/// no classes, and a remark says so.
pub(super) type Layouts = BTreeMap<LayerIndex, String>;

fn layouts(built: &BuiltStack, remarks: &mut Vec<String>) -> Layouts {
    let mut layouts = Layouts::new();
    let places: Vec<_> = built.images.iter().filter_map(|image| built.local_place_of(image)).collect();
    // A network file system has no device here whose structures could be read.
    for file_system in built.file_systems.iter().filter(|file_system| file_system.exported.is_none()) {
        if let Some(program) = &file_system.mounting.program {
            let layer = built.stack.layer(file_system.layer).label();
            remarks
                .push(format!("nothing reads the layout of {layer}: {program} does not stand still for it"));
            continue;
        }
        let place = &built.machines[file_system.machine];
        let output = format!("{}/layout-{}", place.facts.work_directory, file_system.layer.position());
        let mut argv: Vec<&str> =
            vec!["{nestor}", "trace", "layout", "--device", &file_system.mounting.source];
        argv.extend(["--mount", &file_system.mounting.target, "--output", &output]);
        for (_, path) in places.iter().filter(|(holds, _)| holds.layer == file_system.layer) {
            argv.extend(["--image", path]);
        }
        match place.machine.run_ok(Command::new(argv).timeout_s(CONDENSING_S)) {
            Ok(_) => {
                layouts.insert(file_system.layer, output);
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
    layouts: &Layouts,
    directory: Option<&Path>,
) -> Result<(Numbers, Vec<PathBuf>), CellError> {
    let there = format!("{}.requests", recorder.directory);
    let there_file = format!("{}.file-requests", recorder.directory);
    // The machine that recorded does not know the stack, so the arguments name what its files contain.
    let mut argv = vec!["{nestor}", "trace"];
    let mut files: Vec<(&str, String)> = Vec::new();
    let missing = || CellError::Trace(TraceProblem::NoLayer);
    let (name, layout_start);
    let numbers = match recorder.subject {
        Subject::Point(layer) => {
            let point = built.point(layer).ok_or_else(missing)?;
            name = PointName::of_point(built, point);
            argv.extend(["summarize", "--json", "--remove", &recorder.directory]);
            if let Some((layout, begins_at)) = layout_of_point(built, point, layouts) {
                layout_start = begins_at.to_string();
                argv.extend(["--layout", layout, "--layout-start", &layout_start]);
            }
            if directory.is_some() {
                argv.extend(["--requests", &there, "--layer", &name.layer, "--kind", &name.kind]);
                argv.extend(["--machine", &name.machine]);
                files.push((&there, format!("point-{}.requests", layer.position())));
            }
            Numbers::Block(Box::new(answer(&recorder.machine, &argv)?))
        }
        Subject::VirtualDisk(layer) => {
            let disk = built.virtual_disk(layer).ok_or_else(missing)?;
            name = PointName::of_virtual_disk(built, disk);
            argv.extend(["hypervisor", "summarize", "--json", "--remove", &recorder.directory]);
            if directory.is_some() {
                argv.extend(["--requests", &there, "--layer", &name.layer, "--machine", &name.machine]);
                files.push((&there, format!("virtual-disk-{}.requests", layer.position())));
                if built.image_of(disk).is_some_and(|image| image.map_command.is_some()) {
                    argv.extend(["--file-requests", &there_file]);
                    files.push((&there_file, format!("image-file-{}.requests", layer.position())));
                }
            }
            Numbers::Hypervisor(Box::new(answer(&recorder.machine, &argv)?))
        }
        Subject::Calls(layer, end) => {
            let directory = directory.ok_or_else(missing)?;
            Numbers::Calls(RecordedCalls::fetch(recorder, (layer, end), directory)?)
        }
    };
    let Some(directory) = directory else { return Ok((numbers, Vec::new())) };
    let fetched = files
        .iter()
        .map(|(there, name)| fetch(&recorder.machine, there, &directory.join(name), MOST_REQUEST_BYTES));
    Ok((numbers, fetched.collect::<Result<_, _>>()?))
}

/// Turns the application's record of its operations into requests.
fn application(
    built: &BuiltStack,
    log: &OperationLog,
    layouts: &Layouts,
    directory: &Path,
    condensed: &mut Condensed,
) -> Result<(), CellError> {
    let machine = &built.top_machine().machine;
    let (there, scratch) = (format!("{}.requests", log.latency_log), format!("{}.layout", log.latency_log));
    let mut argv = vec!["{nestor}", "trace", "application", "--latency-log", &log.latency_log];
    argv.extend(["--iolog", &log.iolog, "--requests", &there]);
    let top = built.file_systems.last().filter(|_| matches!(built.top, Top::Directory(_)));
    let layout = top.map(|top| layout_for_files_of(built, top, layouts, &scratch)).transpose()?.flatten();
    if let Some(layout) = &layout {
        argv.extend(["--layout", layout]);
    }
    let summary: ApplicationSummary = answer(machine, &argv)?;
    let left = [&log.latency_log, &log.iolog, &scratch].into_iter().chain(&log.others).map(String::as_str);
    machine.run(Command::new(["rm", "-f", "--"].into_iter().chain(left)))?;
    condensed.bytes_by_second = summary.bytes_by_second;
    condensed.remarks.extend(summary.remarks.into_iter().map(|remark| format!("application: {remark}")));
    if summary.placed > 0 {
        condensed.requests.application =
            Some(fetch(machine, &there, &directory.join("application.requests"), MOST_REQUEST_BYTES)?);
    }
    Ok(())
}

/// The layout of the file system that has the blocks of another's files, as a file in the machine of the other. A server's layout is copied to
/// its client as `scratch`: both know a file by the same number.
fn layout_for_files_of(
    built: &BuiltStack,
    file_system: &BuiltFileSystem,
    layouts: &Layouts,
    scratch: &str,
) -> Result<Option<String>, CellError> {
    let Some(local) = built.local_file_system_of(file_system) else { return Ok(None) };
    let Some(there) = layouts.get(&local.layer) else { return Ok(None) };
    if local.machine == file_system.machine {
        return Ok(Some(there.clone()));
    }
    let layout = built.machines[local.machine].machine.read_file_up_to(there, MOST_LAYOUT_BYTES)?;
    built.machines[file_system.machine].machine.create_file(scratch, &layout)?;
    Ok(Some(scratch.to_owned()))
}

/// The layout of the file system on a block device or in a partition of it, if there is one and it could be read, and where it begins.
fn layout_of_point<'a>(
    built: &BuiltStack,
    point: &BlockPoint,
    layouts: &'a Layouts,
) -> Option<(&'a str, u64)> {
    built.file_systems.iter().find_map(|file_system| {
        let (_, start) = built.recorded_below(file_system).filter(|(at, _)| *at == point)?;
        Some((layouts.get(&file_system.layer)?.as_str(), start))
    })
}

/// Runs a command of Nestor's own in a machine and reads what it answers.
pub(super) fn answer<T: DeserializeOwned>(machine: &Machine, argv: &[&str]) -> Result<T, CellError> {
    let text = machine.run_ok(Command::new(argv.iter().copied()).timeout_s(CONDENSING_S))?;
    let read = || {
        check_json(&text, MOST_SUMMARY_BYTES, MOST_SUMMARY_VALUES)?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    };
    read().map_err(|reason| TraceProblem::Summary { machine: machine.label().to_string(), reason }.into())
}

/// Copies a file of at most `most_bytes` of a machine here and removes it there.
pub(super) fn fetch(
    machine: &Machine,
    there: &str,
    here: &Path,
    most_bytes: u64,
) -> Result<PathBuf, CellError> {
    let mut file = new_file(here).map_err(|e| TraceProblem::write(here, e))?;
    machine.fetch_file(there, &mut file, most_bytes)?;
    machine.run(Command::new(["rm", "-f", "--", there]))?;
    Ok(here.to_path_buf())
}

/// The modelled disk's log as a file of requests. The disk is served on this machine.
fn medium_requests(built: &BuiltStack, log: &Path, directory: &Path) -> Result<PathBuf, CellError> {
    let failed = |source| TraceProblem::DiskLog { source };
    let path = directory.join("medium.requests");
    let name = PointName::of_medium(built);
    DiskLogRequests::open(log, &name.layer, &name.machine)
        .and_then(|log| log.write_to(&path))
        .map_err(failed)?;
    Ok(path)
}

/// The facts of each image file; its extents come from the layout of the file system that holds it.
fn images(built: &BuiltStack, layouts: &Layouts, directory: Option<&Path>, condensed: &mut Condensed) {
    for image in &built.images {
        let mut record = ImageRecord {
            layer: built.stack.layer(image.layer).label(),
            format: image.format.clone(),
            ..ImageRecord::default()
        };
        let disk = built.virtual_disks.iter().find(|disk| disk.image == Some(image.layer));
        if let Some(metrics) = disk.and_then(|disk| condensed.virtual_disks.get(&disk.layer)) {
            record.tables = metrics.format;
        }
        if let Some(directory) = directory.filter(|_| image.in_one_file) {
            match image_extents(built, image, layouts, directory, &mut record) {
                Ok(Some(extents)) => {
                    record.extents = pieces(&extents);
                    record.allocated_bytes = total_bytes(&extents);
                    condensed.requests.image_extents.insert(image.layer, extents);
                }
                Ok(None) => {}
                Err(e) => condensed.remarks.push(format!("the extents of {}: {e}", record.layer)),
            }
            if let Some(command) = &image.map_command {
                let map = format!("map-of-image-{}.json", image.layer.position());
                match image_map(&built.machines[image.machine].machine, command, &directory.join(map)) {
                    Ok(Some(map)) => {
                        condensed.requests.image_maps.insert(image.layer, map);
                    }
                    Ok(None) => condensed.remarks.push(format!(
                        "{}: QEMU does not tell where this format has its blocks, which is inferred from the requests",
                        record.layer
                    )),
                    Err(e) => condensed.remarks.push(format!("the map of {}: {e}", record.layer)),
                }
            }
        } else if directory.is_some() {
            let remark = "lies in several files; where is inferred from the requests";
            condensed.remarks.push(format!("{} {remark}", record.layer));
        }
        condensed.images.push(record);
    }
}

/// Where the virtual disk lies in its image file, as the format's own tool says. The guest's file system was frozen
/// before, which flushes the disk, so what the hypervisor holds of the tables is in the file. `None`: the tool knows no places of this format
/// (QEMU's vhdx has no `bdrv_co_block_status`).
fn image_map(machine: &Machine, command: &[String], here: &Path) -> Result<Option<ExtentMap>, CellError> {
    let text = machine.run_ok(Command::new(command).timeout_s(CONDENSING_S))?;
    new_file(here)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| TraceProblem::write(here, e))?;
    match read_extents(here, None) {
        Ok(map) => Ok(Some(map)),
        Err(CorrelateError::NoExtents { .. }) => Ok(None),
        Err(error) => Err(TraceProblem::from(error).into()),
    }
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

/// Copies a layout of a machine here and reads it.
pub(super) fn fetch_layout(machine: &Machine, there: &str, here: &Path) -> Result<Layout, CellError> {
    let mut file = new_file(here).map_err(|e| TraceProblem::write(here, e))?;
    machine.fetch_file(there, &mut file, MOST_LAYOUT_BYTES)?;
    let read = || Layout::read_from(&mut std::io::BufReader::new(File::open(here)?));
    Ok(read().map_err(|source| TraceProblem::Layout { source })?)
}

/// A piece of a file: position in it, position on the device, bytes.
type FileExtent = (u64, u64, u64);

fn image_extents(
    built: &BuiltStack,
    image: &BuiltImage,
    layouts: &Layouts,
    directory: &Path,
    record: &mut ImageRecord,
) -> Result<Option<Vec<FileExtent>>, CellError> {
    let Some((file_system, path)) = built.local_place_of(image) else { return Ok(None) };
    let Some(there) = layouts.get(&file_system.layer) else { return Ok(None) };
    let machine = &built.machines[file_system.machine].machine;
    let text = machine.run_ok(Command::new(["stat", "--format=%i %s", "--", &path]))?;
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (Some(inode), Some(bytes)) = (numbers.next(), numbers.next()) else { return Ok(None) };
    record.file_bytes = bytes;
    let here = directory.join(format!("layout-of-image-{}", image.layer.position()));
    Ok(Some(fetch_layout(machine, there, &here)?.file(inode)))
}

impl Condensed {
    /// One row per layer; each shows the requests at its lower edge, where it meets a block device, an image or the
    /// medium.
    pub(super) fn layers(&self, built: &BuiltStack) -> Vec<LayerRecord> {
        // Those of a partition are its disk's.
        let device_of = |layer| self.points.get(&built.recorded_at(layer)?.0.offered_by).cloned();
        let metrics = (built.stack.offers() == Offer::Block).then(|| device_of(LayerIndex::TOP)).flatten();
        let application =
            LayerRecord::new("application", LayerRole::Application, built.top_machine().label, metrics);
        let machines = built.stack.machines();
        let mut rows = vec![application];
        for (index, layer) in built.stack.indexed_layers() {
            let metrics = match layer.definition() {
                LayerDefinition::Medium(_) => self.medium.clone(),
                LayerDefinition::Hypervisor(_) => {
                    device_of(index.below()).or_else(|| Some(self.virtual_disks.get(&index)?.disk.clone()))
                }
                LayerDefinition::ImageFormat(_) | LayerDefinition::SourcedImage(_) => {
                    self.image_file(built, index)
                }
                _ => device_of(index.below()),
            };
            rows.push(LayerRecord {
                layer: layer.label(),
                role: built.stack.role(index),
                machine: machines[built.stack.machine_of(index)].label.into(),
                metrics,
                frames: self.links.get(&index).cloned().map(Box::new),
                served: self.served.get(&index).copied(),
            });
        }
        rows
    }

    fn image_file(&self, built: &BuiltStack, layer: LayerIndex) -> Option<LayerMetrics> {
        let disk = built.virtual_disks.iter().find(|disk| disk.image == Some(layer))?;
        self.virtual_disks.get(&disk.layer).and_then(|metrics| metrics.file.clone())
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
