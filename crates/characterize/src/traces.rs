//! From the requests of traces to a profile.

use std::path::PathBuf;

use nestor_trace::event::Device;
use nestor_trace::{Wanted, decode, each_request};
use nestor_workload::Profile;

use crate::devices::{Collectors, Observed};
use crate::error::CharacterizeError;

/// Reads traces to their ends.
///
/// # Errors
///
/// If they cannot be read, or say too little.
pub fn read(
    files: &[PathBuf],
    wanted: &Wanted,
    mut collectors: Collectors<'_>,
) -> Result<Observed, CharacterizeError> {
    let (mut names, mut remarks) = (Vec::new(), Vec::new());
    for trace in decode::open(files)? {
        let first = names.len();
        let description = trace.description();
        let read = each_request(trace, wanted, &mut |space, request| collectors.add(first + space, request))?;
        if !read.recorded.time || !read.recorded.latency {
            return Err(CharacterizeError::NoTimes { trace: description, says_when: read.recorded.time });
        }
        if !read.recorded.offset {
            remarks
                .push(format!("{description} has no offsets of requests: all requests count as one place"));
        }
        if read.lost_events > 0 {
            remarks.push(format!("{description}: {} events were lost while recording", read.lost_events));
        }
        remarks.extend(read.remarks);
        names.extend(read.spaces);
    }
    Ok(collectors.finish(names, remarks, wanted.device.is_none()))
}

/// The profile of recorded traces, of the device that is named.
///
/// # Errors
///
/// If they cannot be read, say too little, or are not of one device.
pub fn of_traces(files: &[PathBuf], device: Option<Device>) -> Result<Profile, CharacterizeError> {
    let wanted = Wanted { device, ..Wanted::default() };
    let observed = read(files, &wanted, Collectors::new(None))?;
    if let Some(device) = device.filter(|_| observed.devices().is_empty()) {
        let there = read(files, &Wanted::default(), Collectors::new(None))?.devices();
        if !there.is_empty() {
            return Err(CharacterizeError::OtherDevices { device, there });
        }
    }
    let longer =
        "the trace is too short for a profile: record for longer, or while the application is working";
    let mut profile = observed.profile(None, longer)?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    profile.observed_on = match profile.observed_on.as_str() {
        "" => names.join(", "),
        device => format!("{device} in {}", names.join(", ")),
    };
    Ok(profile)
}
