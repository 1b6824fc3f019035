//! Traces of any kind as files of requests, one for each device or disk in them.

use std::path::{Path, PathBuf};

use nestor_trace::decode::{EventSource, Format, RequestSource, Source, open};
use nestor_trace::event::Device;
use nestor_trace::layer::{Devices, RequestSink};
use nestor_trace::{Request, RequestHeader, RequestWriter, TraceError, TracePoint};

use crate::error::ExportError;

/// Devices of one trace that become trace points; the requests of others are counted.
const MOST: usize = 32;

/// The files of requests among `inputs`, and those made of the others.
pub(super) fn request_files(
    inputs: &[PathBuf],
    scratch: &Path,
    remarks: &mut Vec<String>,
) -> Result<Vec<PathBuf>, ExportError> {
    let mut files = Vec::new();
    for (number, trace) in open(inputs)?.into_iter().enumerate() {
        if let (Format::RequestFile, [path]) = (trace.format, trace.paths.as_slice()) {
            files.push(path.clone());
            continue;
        }
        remarks.extend(trace.remarks.iter().map(|remark| format!("{}: {remark}", trace.name)));
        let mut split = Split::new(scratch, number, &trace.name, trace.format);
        let warnings = match trace.source {
            Source::BlockEvents(mut source) => {
                events(&mut *source, &mut split)?;
                source.warnings()
            }
            Source::Requests(mut source) => {
                records(&mut *source, &mut split)?;
                source.warnings()
            }
            Source::Histograms(_) | Source::Qemu(_) => {
                return Err(ExportError::NoRequests { name: trace.name, format: trace.format.to_string() });
            }
        };
        remarks.extend(warnings.remarks().into_iter().map(|remark| format!("{}: {remark}", trace.name)));
        if split.left_out > 0 {
            remarks
                .push(format!("{}: {} requests of other devices were left out", trace.name, split.left_out));
        }
        files.extend(split.finish()?);
    }
    Ok(files)
}

/// Follows requests through events of the block layer.
fn events(source: &mut dyn EventSource, split: &mut Split) -> Result<(), ExportError> {
    const BATCH: usize = 4_096;
    let mut devices = Devices::new(TracePoint::Blktrace, None, false);
    let mut batch = Vec::with_capacity(BATCH);
    while source.next_events(BATCH, &mut batch)? {
        batch.iter().for_each(|event| devices.push(event, split));
        split.check()?;
    }
    devices.finish(source.lost_events(), &|_| None, split);
    split.check()?;
    Ok(())
}

fn records(source: &mut dyn RequestSource, split: &mut Split) -> Result<(), ExportError> {
    while let Some(traced) = source.next_request()? {
        let name = source.targets().get(traced.target as usize).cloned().unwrap_or_default();
        split.take(u64::from(traced.target), &name, &traced.request);
        split.check()?;
    }
    Ok(())
}

/// Writes the requests of each device to a file of its own.
struct Split<'a> {
    scratch: &'a Path,
    number: usize,
    name: &'a str,
    format: Format,
    /// The key of a device, its file, and how many requests are in it.
    files: Vec<(u64, PathBuf, RequestWriter, u64)>,
    left_out: u64,
    error: Option<TraceError>,
}

impl<'a> Split<'a> {
    fn new(scratch: &'a Path, number: usize, name: &'a str, format: Format) -> Self {
        Self { scratch, number, name, format, files: Vec::new(), left_out: 0, error: None }
    }

    fn take(&mut self, key: u64, target: &str, request: &Request) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = self.write(key, target, request) {
            self.error = Some(error);
        }
    }

    fn write(&mut self, key: u64, target: &str, request: &Request) -> Result<(), TraceError> {
        let at = match self.files.iter().position(|(known, ..)| *known == key) {
            Some(at) => at,
            None if self.files.len() == MOST => {
                self.left_out += 1;
                return Ok(());
            }
            None => {
                let path = self.scratch.join(format!("{}-{}.requests", self.number, self.files.len()));
                let layer =
                    if target.is_empty() { self.name.to_owned() } else { format!("{} {target}", self.name) };
                let header =
                    RequestHeader { layer, kind: self.format.to_string(), ..RequestHeader::default() };
                self.files.push((key, path.clone(), RequestWriter::create(&path, header)?, 0));
                self.files.len() - 1
            }
        };
        let (_, _, writer, count) = &mut self.files[at];
        writer.push(&Request { id: *count, ..*request })?;
        *count += 1;
        Ok(())
    }

    fn check(&mut self) -> Result<(), TraceError> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn finish(self) -> Result<Vec<PathBuf>, TraceError> {
        let finish = |(_, path, writer, _): (u64, PathBuf, RequestWriter, u64)| writer.finish().map(|_| path);
        self.files.into_iter().map(finish).collect()
    }
}

impl RequestSink for Split<'_> {
    fn request(&mut self, device: Device, request: &Request) {
        self.take(device.to_kernel().into(), &device.to_string(), request);
    }
}
