//! A trace of any form as a request file.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use nestor_correlate::{LevelInput, LevelKind};
use nestor_layout::Layout;
use nestor_stack::{MachineLabel, MachineName};
use nestor_trace::decode::{EventSource, Format, RequestSource, Source, open};
use nestor_trace::event::Device;
use nestor_trace::hypervisor::{HypervisorOutput, summarize_hypervisor};
use nestor_trace::layer::{Devices, RequestSink};
use nestor_trace::summarize::{SummarizeOptions, summarize_recording_with};
use nestor_trace::{
    Attribution, ClockReading, DiskLogRequests, RecordSummary, Request, RequestHeader, RequestReader,
    RequestWriter, TraceError, TracePoint,
};

/// What a trace is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The guest's block layer.
    Guest,
    /// The virtual disk.
    Hypervisor,
    /// The hypervisor's requests on the image file.
    ImageFile,
    /// The host's block layer.
    Host,
    /// The disk itself.
    Medium,
}

const GUEST: MachineLabel = MachineLabel::Guest(1);

impl Role {
    /// Layer, kind and machine, where the trace does not say them.
    fn names(self) -> (&'static str, LevelKind, MachineName) {
        match self {
            Self::Guest => ("guest", LevelKind::Block(GUEST), GUEST.into()),
            Self::Hypervisor => ("hypervisor", LevelKind::Hypervisor, MachineName::HOST),
            Self::ImageFile => ("image", LevelKind::ImageFile, MachineName::HOST),
            Self::Host => ("host", LevelKind::Block(MachineLabel::Host), MachineName::HOST),
            Self::Medium => ("medium", LevelKind::Medium, MachineName::Medium),
        }
    }

    fn header(self) -> RequestHeader {
        let (layer, kind, machine) = self.names();
        RequestHeader {
            layer: layer.to_owned(),
            kind: kind.stored(),
            machine: machine.stored(),
            ..RequestHeader::default()
        }
    }
}

/// A trace to be loaded.
pub struct Wanted<'a> {
    pub path: &'a Path,
    pub role: Role,
    /// Layout of the file system on the device.
    pub layout: Option<&'a Path>,
    /// The device, where the trace has several.
    pub device: Option<&'a str>,
    /// A file on it that is a virtual disk.
    pub image_inode: Option<u64>,
    /// Where requests go that have to be converted first.
    pub to: &'a Path,
}

/// Loads a trace, and says what belongs beside the result.
///
/// # Errors
/// It cannot be read, has no form that is known, or has several disks of which none is named.
pub fn load(wanted: &Wanted<'_>) -> Result<(LevelInput<'static>, Vec<String>)> {
    let attribution = wanted.layout.map(|path| attribution(path, wanted)).transpose()?;
    let mut said = Vec::new();
    let file = convert(wanted, attribution.as_ref(), &mut said)?;
    let mut level = LevelInput::from_file(&file)?;
    let names = wanted.role.header();
    let fill = |name: &mut String, usual: String| {
        if name.is_empty() {
            *name = usual;
        }
    };
    fill(&mut level.header.layer, names.layer);
    fill(&mut level.header.kind, names.kind);
    fill(&mut level.header.machine, names.machine);
    let layer = &level.header.layer;
    let said = said.into_iter().map(|remark| format!("{layer}: {remark}")).collect();
    Ok((level, said))
}

fn attribution(path: &Path, wanted: &Wanted<'_>) -> Result<Attribution> {
    let file = File::open(path).with_context(|| format!("cannot open the layout {}", path.display()))?;
    let layout = Layout::read_from(&mut BufReader::new(file)).with_context(|| path.display().to_string())?;
    let images = match wanted.role {
        Role::Host => wanted.image_inode.as_slice(),
        _ => &[],
    };
    Ok(Attribution::new(layout, images))
}

/// Makes a file of requests of whatever the trace is, unless it is one.
fn convert(
    wanted: &Wanted<'_>,
    attribution: Option<&Attribution>,
    said: &mut Vec<String>,
) -> Result<PathBuf> {
    let path = wanted.path;
    if path.is_dir()
        && let Ok(summary) = RecordSummary::read(path)
    {
        return recording(wanted, &summary, attribution);
    }
    let mut traces = open(&[path.to_path_buf()])?;
    let trace = match traces.len() {
        1 => traces.remove(0),
        _ => {
            let found: Vec<String> = traces.iter().map(nestor_trace::decode::Trace::description).collect();
            bail!("{} has several traces; name one of them: {}", path.display(), found.join("; "));
        }
    };
    said.extend(trace.remarks.iter().cloned());
    let mut sink = Sink::new(wanted, attribution);
    match (trace.format, trace.source) {
        (Format::RequestFile, _) if attribution.is_none() => return Ok(path.to_path_buf()),
        (Format::RequestFile, _) => {
            let reader = RequestReader::open(path)?;
            sink.header = reader.header().clone();
            for request in reader {
                sink.push(0, &request?);
            }
        }
        (Format::DiskLog, _) => {
            let (layer, _, machine) = wanted.role.names();
            DiskLogRequests::open(path, layer, &machine.stored())?.write_to(wanted.to)?;
            return Ok(wanted.to.to_path_buf());
        }
        (_, Source::BlockEvents(source)) => events(source, &mut sink, said)?,
        (_, Source::Requests(source)) => requests(source, &mut sink, said)?,
        (format, _) => bail!(
            "{} is {format}, which does not have the requests of one disk; give the directory of the \
             recording, or the request files that `nestor trace hypervisor summarize --requests` makes from \
             it",
            path.display()
        ),
    }
    sink.finish(said)
}

/// What `nestor trace record` left in a directory.
fn recording(
    wanted: &Wanted<'_>,
    summary: &RecordSummary,
    attribution: Option<&Attribution>,
) -> Result<PathBuf> {
    let RequestHeader { layer, kind, machine, .. } = wanted.role.header();
    let requests = wanted.to.to_path_buf();
    if summary.hypervisor.is_none() {
        let options = SummarizeOptions {
            attribution,
            requests: Some(requests.clone()),
            layer,
            machine,
            kind,
            device_bytes: 0,
        };
        summarize_recording_with(wanted.path, &options)?;
        return Ok(requests);
    }
    let of_disk = wanted.role != Role::ImageFile;
    let output = HypervisorOutput {
        disk_requests: of_disk.then(|| requests.clone()),
        file_requests: (!of_disk).then(|| requests.clone()),
        layer,
        machine,
        ..HypervisorOutput::default()
    };
    summarize_hypervisor(wanted.path, &output)?;
    if !requests.exists() {
        bail!("the recording {} has no requests on an image file: its format is raw", wanted.path.display());
    }
    Ok(requests)
}

fn events(mut source: Box<dyn EventSource>, sink: &mut Sink<'_>, said: &mut Vec<String>) -> Result<()> {
    let mut devices = Devices::new(TracePoint::Blktrace, None, false);
    while let Some(event) = source.next_event()? {
        devices.push(&event, sink);
    }
    devices.finish(source.lost_events(), &|_| None, sink);
    sink.header.dropped = source.lost_events();
    if let Some(note) = source.clock() {
        sink.header.clock = ClockReading { realtime_ns: Some(note.realtime_ns), monotonic_ns: note.time_ns };
    }
    said.extend(source.warnings().remarks());
    Ok(())
}

fn requests(mut source: Box<dyn RequestSource>, sink: &mut Sink<'_>, said: &mut Vec<String>) -> Result<()> {
    let recorded = source.recorded();
    if !recorded.time || !recorded.latency || !recorded.offset {
        bail!(
            "{}: requests can be joined only if the trace has their times, durations and offsets",
            sink.wanted.path.display()
        );
    }
    while let Some(traced) = source.next_request()? {
        sink.push(traced.target, &traced.request);
    }
    sink.names = source.targets().to_vec();
    said.extend(source.warnings().remarks());
    Ok(())
}

/// Writes the requests of each disk to a file of its own; in the end one is chosen.
struct Sink<'a> {
    wanted: &'a Wanted<'a>,
    attribution: Option<&'a Attribution>,
    header: RequestHeader,
    writers: HashMap<u32, RequestWriter>,
    counts: HashMap<u32, u64>,
    devices: HashMap<Device, u32>,
    names: Vec<String>,
    error: Option<TraceError>,
}

impl<'a> Sink<'a> {
    fn new(wanted: &'a Wanted<'a>, attribution: Option<&'a Attribution>) -> Self {
        Self {
            wanted,
            attribution,
            header: wanted.role.header(),
            writers: HashMap::new(),
            counts: HashMap::new(),
            devices: HashMap::new(),
            names: Vec::new(),
            error: None,
        }
    }

    fn file_of(&self, disk: u32) -> PathBuf {
        self.wanted.to.with_extension(disk.to_string())
    }

    fn push(&mut self, disk: u32, request: &Request) {
        if self.error.is_some() {
            return;
        }
        let count = self.counts.entry(disk).or_default();
        let mut request = Request { id: *count, ..*request };
        *count += 1;
        if let Some(attribution) = self.attribution {
            let found =
                attribution.class_of(request.operation, request.flags, request.offset, request.bytes, None);
            request.class = found.class;
        }
        if let Err(error) = self.write(disk, &request) {
            self.error = Some(error);
        }
    }

    fn write(&mut self, disk: u32, request: &Request) -> Result<(), TraceError> {
        if !self.writers.contains_key(&disk) {
            let writer = RequestWriter::create(self.file_of(disk), self.header.clone())?;
            self.writers.insert(disk, writer);
        }
        match self.writers.get_mut(&disk) {
            Some(writer) => writer.push(request),
            None => Ok(()),
        }
    }

    /// Closes the files and chooses the one that was asked for, or the one with most requests.
    fn finish(mut self, said: &mut Vec<String>) -> Result<PathBuf> {
        if let Some(error) = self.error.take() {
            return Err(error.into());
        }
        let path = self.wanted.path.display();
        let mut disks: Vec<(u64, u32)> = self.counts.iter().map(|(disk, count)| (*count, *disk)).collect();
        disks.sort_unstable_by(|a, b| b.cmp(a));
        let chosen = match self.wanted.device {
            Some(name) => {
                disks.iter().copied().find(|(_, disk)| self.names[*disk as usize] == name).ok_or_else(
                    || anyhow!("{path} has no requests of {name}; it has {}", self.names.join(", ")),
                )?
            }
            None => *disks.first().ok_or_else(|| anyhow!("{path} has no requests"))?,
        };
        if disks.len() > 1 && self.wanted.device.is_none() {
            said.push(format!(
                "its trace has {} disks; {} is used, which has the most requests",
                disks.len(),
                self.names[chosen.1 as usize]
            ));
        }
        for (disk, mut writer) in std::mem::take(&mut self.writers) {
            if disk == chosen.1 {
                // Both are told among the events, after the header was written.
                writer.set_dropped(self.header.dropped);
                writer.set_clock(self.header.clock);
                writer.finish()?;
            }
        }
        Ok(self.file_of(chosen.1))
    }
}

impl RequestSink for Sink<'_> {
    fn request(&mut self, device: Device, request: &Request) {
        let next = self.devices.len() as u32;
        let disk = *self.devices.entry(device).or_insert(next);
        if disk == next && self.names.len() as u32 == next {
            self.names.push(device.to_string());
        }
        self.push(disk, request);
    }
}
