//! From files that a user names to what is in them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::blkparse::BlkparseReader;
use super::blktrace::{FileReader, MergedReader};
use super::csv::{CsvForm, CsvReader};
use super::fio::{IologReader, LatencyLogReader, LogKind};
use super::input::{Input, STANDARD_INPUT};
use super::qemu::{LogReader, Signatures, SimpletraceReader};
use super::recognise::{Format, Recognition, recognise};
use super::recorded::{RecordedFrames, RecordedRequests};
use super::reorder::InOrder;
use super::source::{RequestSource, Source};
use super::tracefs::TextReader;
use super::vscsi::read_histograms;
use crate::error::TraceError;

/// Bytes at the beginning of a file within which it has to show its form.
const HEAD_BYTES: usize = 64 * 1024;

/// Bytes read at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// A trace that was recognised.
pub struct Trace {
    /// What to call it: the device of blktrace's files (`sda`), else the file's name.
    pub name: String,
    /// Its files.
    pub paths: Vec<PathBuf>,
    /// Its form.
    pub format: Format,
    /// What belongs beside the result, such as missing files of CPUs.
    pub remarks: Vec<String>,
    /// What it yields.
    pub source: Source,
}

impl Trace {
    /// What was recognised, in words: `sda: blktrace records, 4 files`.
    pub fn description(&self) -> String {
        let (name, format) = (&self.name, self.format);
        match self.paths.len() {
            1 => format!("{name}: {format}"),
            files => format!("{name}: {format}, {files} files"),
        }
    }
}

/// Facts about traces that the files do not contain.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// QEMU's list of trace events (`trace-events-all`) of the version that wrote a trace of it. Without it, arguments
    /// are named as in QEMU 7.2, and only those of storage.
    pub qemu_events: Option<PathBuf>,
}

impl OpenOptions {
    fn signatures(&self) -> Result<Signatures, TraceError> {
        self.qemu_events.as_ref().map_or_else(|| Ok(Signatures::of_storage()), |list| Signatures::read(list))
    }
}

/// Recognises traces by their content and opens them.
///
/// Files of one device's CPUs (`sda.blktrace.0`, …) are one trace; every other file is one of its own. Besides files
/// there may be named: `-`, standard input; a name before `.blktrace.N`, as `blkparse -i` takes it; a directory, for
/// all of blktrace's files in it.
///
/// # Errors
/// No file is named; a file cannot be read, is empty or is not of a known form.
pub fn open(paths: &[PathBuf]) -> Result<Vec<Trace>, TraceError> {
    open_with(paths, &OpenOptions::default())
}

/// As [`open`], with more to know.
///
/// # Errors
/// As [`open`]; a file of `options` cannot be read.
pub fn open_with(paths: &[PathBuf], options: &OpenOptions) -> Result<Vec<Trace>, TraceError> {
    let signatures = options.signatures()?;
    let mut traces = Vec::new();
    // By device; BTreeMap so that the order does not depend on the shell's.
    let mut of_cpus: BTreeMap<OsString, Vec<(u32, Input)>> = BTreeMap::new();
    for path in expand(paths)? {
        let mut input = Input::open(&path)?;
        let of_cpu = split_cpu(&path);
        match (judge(&mut input, of_cpu.is_some(), &signatures)?, of_cpu) {
            (Format::Blktrace, Some((device, cpu))) => of_cpus.entry(device).or_default().push((cpu, input)),
            (format, _) => traces.push(single(format, input, &signatures)?),
        }
    }
    traces.extend(of_cpus.into_iter().map(|(device, files)| per_cpu(&device, files)));
    if traces.is_empty() {
        let hint = "name at least one".to_owned();
        return Err(TraceError::Empty { paths: paths.to_vec(), device: None, hint });
    }
    Ok(traces)
}

/// As [`open`], of one file or of bytes from elsewhere.
///
/// # Errors
/// As [`open_with`].
pub fn open_input(mut input: Input, options: &OpenOptions) -> Result<Trace, TraceError> {
    let signatures = options.signatures()?;
    let format = judge(&mut input, false, &signatures)?;
    single(format, input, &signatures)
}

/// Puts files for directories and names of devices.
fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, TraceError> {
    let mut expanded = Vec::new();
    for path in paths {
        let is_device_name = || !path.exists() && numbered(path, 0).exists();
        if path == Path::new(STANDARD_INPUT) {
            expanded.push(path.clone());
        } else if path.is_dir() {
            let before = expanded.len();
            expanded.extend(files_of_cpus(path)?);
            if expanded.len() == before {
                let reason =
                    "it is a directory without files of blktrace (NAME.blktrace.0, …); name the files in it";
                return Err(TraceError::Format { path: path.clone(), offset: 0, reason: reason.to_owned() });
            }
        } else if is_device_name() {
            expanded.extend((0..).map(|cpu| numbered(path, cpu)).take_while(|file| file.exists()));
        } else {
            expanded.push(path.clone());
        }
    }
    Ok(expanded)
}

fn numbered(device: &Path, cpu: u32) -> PathBuf {
    let mut name = device.as_os_str().to_owned();
    name.push(format!(".blktrace.{cpu}"));
    PathBuf::from(name)
}

fn files_of_cpus(directory: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let entries = fs::read_dir(directory).map_err(TraceError::io("list the directory", directory))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(TraceError::io("list the directory", directory))?.path();
        if split_cpu(&path).is_some() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Takes `sda.blktrace.3` apart, with the directory.
fn split_cpu(path: &Path) -> Option<(OsString, u32)> {
    let name = path.file_name()?.to_str()?;
    let (device, cpu) = name.rsplit_once(".blktrace.")?;
    Some((path.with_file_name(device).into_os_string(), cpu.parse().ok()?))
}

/// The form of a file. One that is empty is blktrace's where its name says so: a CPU may have nothing to do.
fn judge(input: &mut Input, of_cpu: bool, signatures: &Signatures) -> Result<Format, TraceError> {
    // Judged again only after twice as many bytes, because a pipe may deliver a byte at a time.
    let mut enough = 1;
    loop {
        let (head, ended) = input.look_further(HEAD_BYTES)?;
        let last = ended || head.len() >= HEAD_BYTES;
        if head.len() < enough && !last {
            continue;
        }
        enough = head.len() * 2;
        let reason = match recognise(head, ended, signatures) {
            Recognition::Is(format) => return Ok(format),
            _ if head.is_empty() && of_cpu => return Ok(Format::Blktrace),
            _ if head.is_empty() => "the file is empty".to_owned(),
            Recognition::Undecided if !last => continue,
            Recognition::Wrapped(hint) => hint.to_owned(),
            Recognition::Undecided | Recognition::Unknown => unknown(head),
        };
        return Err(TraceError::Format { path: input.path().to_path_buf(), offset: 0, reason });
    }
}

fn unknown(head: &[u8]) -> String {
    let begins = head[..head.len().min(16)].escape_ascii();
    format!(
        "not a trace of a known form: it begins with \"{begins}\"; known forms are {}",
        Format::ALL.map(|format| format.to_string()).join("; ")
    )
}

fn single(format: Format, input: Input, signatures: &Signatures) -> Result<Trace, TraceError> {
    let path = input.path().to_path_buf();
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut remarks = Vec::new();
    let source = match format {
        // Of all CPUs: `blktrace -o -` gives what one CPU had collected and then what another had.
        Format::Blktrace => {
            let reader = MergedReader::new(vec![FileReader::new(input, &path)]);
            Source::BlockEvents(Box::new(InOrder::new(reader)))
        }
        Format::Simpletrace => {
            let reader = SimpletraceReader::new(text(input), &path, signatures.clone());
            Source::Qemu(Box::new(reader))
        }
        Format::RequestFile => requests(RecordedRequests::of_request_file(text(input), &path)?),
        Format::DiskLog => requests(RecordedRequests::of_disk_log(&path)?),
        Format::LinkLog => requests(RecordedFrames::of_link_log(&path)?),
        Format::VscsiHistograms => {
            let (histograms, warnings) = read_histograms(text(input), &path)?;
            remarks = warnings.remarks();
            Source::Histograms(histograms)
        }
        Format::Tracefs => Source::BlockEvents(Box::new(TextReader::new(text(input), &path))),
        Format::Blkparse => {
            Source::BlockEvents(Box::new(InOrder::new(BlkparseReader::new(text(input), &path))))
        }
        Format::QemuLog => Source::Qemu(Box::new(LogReader::new(text(input), &path, signatures.clone()))),
        Format::FioIolog => requests(IologReader::new(text(input), &path)),
        Format::FioLatencyLog => {
            let kind = LogKind::of(&path);
            if let Some(reason) = kind.refusal() {
                return Err(TraceError::Format { path, offset: 0, reason });
            }
            remarks.extend(kind.remark().map(str::to_owned));
            requests(LatencyLogReader::new(text(input), &path))
        }
        Format::Msr => requests(CsvReader::new(text(input), &path, CsvForm::Msr)),
        Format::VscsiCommands => requests(CsvReader::new(text(input), &path, CsvForm::VscsiCommands)),
    };
    Ok(Trace { name, paths: vec![path], format, remarks, source })
}

fn text(input: Input) -> BufReader<Input> {
    BufReader::with_capacity(BUFFER_BYTES, input)
}

fn requests(source: impl RequestSource + 'static) -> Source {
    Source::Requests(Box::new(source))
}

/// The files of one device's CPUs.
fn per_cpu(device: &OsString, mut files: Vec<(u32, Input)>) -> Trace {
    files.sort_by_key(|(cpu, _)| *cpu);
    let name = Path::new(device).file_name().unwrap_or(device).to_string_lossy().into_owned();
    let remarks = missing_cpus(&files);
    let paths = files.iter().map(|(_, input)| input.path().to_path_buf()).collect();
    let readers = files.into_iter().map(|(_, input)| {
        let path = input.path().to_path_buf();
        FileReader::new(input, path)
    });
    let source = Source::BlockEvents(Box::new(MergedReader::new(readers.collect())));
    Trace { name, paths, format: Format::Blktrace, remarks, source }
}

/// blktrace makes a file for every CPU, so a gap in their numbers is a file that was not given.
fn missing_cpus(files: &[(u32, Input)]) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut expected = 0;
    for (cpu, input) in files {
        match cpu.saturating_sub(expected) {
            0 => {}
            1 => remarks.push(format!("the file of CPU {expected} is missing: its events are not counted")),
            _ => remarks.push(format!(
                "the files of CPUs {expected} to {} are missing: their events are not counted",
                cpu - 1
            )),
        }
        if *cpu < expected {
            let path = input.path().display();
            remarks.push(format!("{path} is of a CPU whose file was already given: its events count twice"));
        }
        expected = cpu.saturating_add(1);
    }
    remarks
}
