//! From what a user names to what is exported: a directory that `nestor run --trace-to` left, or traces of any kind.

mod traces;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use nestor_correlate::{
    CorrelateOptions, Level, LevelIndex, LevelInput, RecordedLevel, Recording, correlate_observed,
};
use nestor_trace::request_file::ClockReading;
use nestor_trace::{RequestHeader, RequestReader};

use crate::error::ExportError;
use crate::links::Links;
use crate::trace::{ClockMap, ExportLevel, Trace};
use traces::request_files;

/// What was found.
pub struct Inputs {
    /// The trace points, joined if they are of one recording.
    pub trace: Trace,
    /// What belongs beside the export: what is missing, what could not be joined.
    pub remarks: Vec<String>,
}

/// Opens a directory of `nestor run --trace-to` (its trace points are joined), or files of requests or traces (which
/// are not: nothing says how the space of one lies in that of the next). What is no file of requests yet becomes one in
/// `scratch`.
///
/// # Errors
/// Nothing is named; a file cannot be read or has no form that is known; a directory holds several recordings.
pub fn open_inputs(inputs: &[PathBuf], scratch: &Path) -> Result<Inputs, ExportError> {
    if let [directory] = inputs
        && let Some(recording) = Recording::find(directory)?
    {
        return joined(recording);
    }
    let mut remarks = Vec::new();
    let files = request_files(inputs, scratch, &mut remarks)?;
    let mut levels = Vec::new();
    for file in files {
        let reader = RequestReader::open(&file)?;
        levels.push((reader.header().clone(), file));
    }
    if levels.len() > 1 {
        remarks.push(
            "the trace points are not joined: nothing describes how the addresses of one map to \
                      the next"
                .to_owned(),
        );
    }
    Ok(Inputs { trace: apart(levels, &mut remarks)?, remarks })
}

fn described(header: &RequestHeader) -> Level {
    Level {
        layer: header.layer.clone(),
        kind: header.kind.as_str().into(),
        machine: header.machine.as_str().into(),
        requests: header.records,
        misaligned: 0,
    }
}

/// Trace points that are not joined. Clocks of different machines are put right by the calendar, if each was read.
fn apart(levels: Vec<(RequestHeader, PathBuf)>, remarks: &mut Vec<String>) -> Result<Trace, ExportError> {
    let Some((top, _)) = levels.first().cloned() else { return Err(ExportError::NoLevels) };
    let mut unknown = false;
    let export = levels.into_iter().map(|(header, file)| {
        let clock = match (header.machine == top.machine, by_calendar(&top.clock, &header.clock)) {
            (true, _) => Vec::new(),
            (false, Some(map)) => vec![map],
            (false, None) => {
                unknown = true;
                Vec::new()
            }
        };
        ExportLevel { level: described(&header), clock, source: Box::new(file) }
    });
    let levels: Vec<ExportLevel> = export.collect();
    if unknown {
        remarks.push("the machines' clocks were not read, so their times cannot be compared".to_owned());
    }
    Ok(Trace { levels, clock: Some(top.clock), ..Trace::default() })
}

/// The offset between two monotonic clocks whose machines agree on the time of day.
fn by_calendar(upper: &ClockReading, lower: &ClockReading) -> Option<ClockMap> {
    let since_start =
        |clock: &ClockReading| Some(i128::from(clock.realtime_ns?) - i128::from(clock.monotonic_ns));
    let offset = since_start(lower)? - since_start(upper)?;
    Some(ClockMap { offset_ns: i64::try_from(offset).ok()?, ..ClockMap::default() })
}

/// Joins the trace points of one recording and keeps who caused whom.
fn joined(recording: Recording) -> Result<Inputs, ExportError> {
    let mut remarks = Vec::new();
    let (recorded, idle): (Vec<RecordedLevel>, _) =
        recording.levels.into_iter().partition(|level| level.header.records > 0);
    remarks.extend(idle.iter().map(|level| format!("no request reached {}", level.header.layer)));
    let inputs: Vec<LevelInput<'_>> = recorded.iter().map(RecordedLevel::input).collect();
    let mut links = Links::default();
    let mut moments: HashMap<LevelIndex, [(u64, u64); 2]> = HashMap::new();
    let correlation = correlate_observed(&inputs, &CorrelateOptions::default(), &mut |joined| {
        // What it carries the data of caused it no less than what waited for it.
        let writers = joined.writers.iter().filter(|writer| !joined.parents.contains(writer));
        let parents: Vec<u64> = joined.parents.iter().chain(writers).copied().collect();
        links.add(joined.level, joined.request.id, joined.origin, &parents);
        let moment = (joined.request.id, joined.request.queued_ns);
        moments.entry(joined.level).or_insert([moment; 2])[1] = moment;
    });
    let files = recorded.into_iter().map(|level| (level.header, level.file)).collect::<Vec<_>>();
    let correlation = match correlation {
        Ok(correlation) => correlation,
        Err(error) => {
            remarks.push(format!("the trace points could not be joined: {error}"));
            return Ok(Inputs { trace: apart(files, &mut remarks)?, remarks });
        }
    };
    links.sort();
    remarks.extend(correlation.remarks.iter().cloned());
    let mut trace = apart(files, &mut Vec::new())?;
    for (number, level) in trace.levels.iter_mut().enumerate() {
        level.level.requests = correlation.levels.get(number).map_or(level.level.requests, |l| l.requests);
        if number > 0 {
            level.clock = fitted_clock(level, moments.get(&LevelIndex::at(number)))?.into_iter().collect();
        }
    }
    let jumps: u32 = correlation.joins.iter().map(|join| join.clock_jumps).sum();
    if jumps > 0 {
        remarks.push(format!(
            "clocks jumped {jumps} times; times between the jumps may be wrong by the size \
                              of a jump"
        ));
    }
    trace.links = links;
    Ok(Inputs { trace, remarks })
}

/// The line through the two moments whose time on the topmost clock is known: that is what the correlation's offset and
/// drift come to, over all the clocks in between.
fn fitted_clock(
    level: &ExportLevel,
    moments: Option<&[(u64, u64); 2]>,
) -> Result<Option<ClockMap>, ExportError> {
    let Some([(first_id, first_top_ns), (last_id, last_top_ns)]) = moments.copied() else { return Ok(None) };
    let (mut first_ns, mut last_ns) = (None, None);
    for request in level.source.open()? {
        let request = request?;
        if request.id == first_id {
            first_ns = Some(request.queued_ns);
        }
        if request.id == last_id {
            last_ns = Some(request.queued_ns);
        }
        if first_ns.is_some() && last_ns.is_some() {
            break;
        }
    }
    let (Some(first_ns), Some(last_ns)) = (first_ns, last_ns) else { return Ok(None) };
    let offset = |top: u64, own: u64| i128::from(top) - i128::from(own);
    let (at_first, at_last) = (offset(first_top_ns, first_ns), offset(last_top_ns, last_ns));
    let span = i128::from(last_ns) - i128::from(first_ns);
    let drift = if span == 0 { 0 } else { (at_last - at_first) * 1_000_000_000 / span };
    let whole = |value: i128| i64::try_from(value).unwrap_or(0);
    Ok(Some(ClockMap { offset_ns: whole(at_first), drift_ppb: whole(drift), middle_ns: first_ns }))
}
