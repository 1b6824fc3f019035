//! From the requests of a trace to a profile.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use nestor_characterize::{Collector, Kind, Seen};
use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request, Wanted, decode, each_request};
use nestor_workload::Profile;

/// Devices that are collected separately; with more, the choice would be unclear.
const MOST_SPACES: usize = 16;

/// The requests of several devices, each by itself, of some threads.
#[derive(Default)]
pub struct Collectors<'a> {
    /// `None`: of all threads.
    threads: Option<&'a HashSet<u32>>,
    of_spaces: Vec<Collector>,
    /// Requests of other threads.
    pub others: u64,
    without_place: u64,
}

impl<'a> Collectors<'a> {
    /// Takes only requests of these threads, or of all.
    pub fn new(threads: Option<&'a HashSet<u32>>) -> Self {
        Self { threads, ..Self::default() }
    }

    fn add(&mut self, space: usize, request: &Request) {
        let kind = match request.operation {
            Operation::Read => Kind::Read,
            Operation::Write => Kind::Write { waits: request.flags.contains(Flags::FUA) },
            Operation::Flush => Kind::Flush,
            Operation::Discard => return,
        };
        if self.threads.is_some_and(|threads| !threads.contains(&request.pid)) {
            self.others += u64::from(kind != Kind::Flush);
            return;
        }
        if space >= MOST_SPACES {
            self.without_place += 1;
            return;
        }
        while self.of_spaces.len() <= space {
            self.of_spaces.push(Collector::default());
        }
        self.of_spaces[space].add(&Seen {
            kind,
            start_ns: request.queued_ns,
            end_ns: request.completed_ns,
            offset: request.offset,
            bytes: request.bytes,
            thread: request.pid,
        });
    }
}

/// What was read: the collectors by the names of their devices.
pub struct Observed {
    /// Name and requests of each device that had some.
    found: Vec<(String, Collector)>,
    /// What was odd, and what was left out.
    pub remarks: Vec<String>,
    /// Requests of threads that were not requested.
    pub others: u64,
    /// Whether a device can be chosen: not in recordings that only name their targets.
    pub can_choose: bool,
}

/// Reads traces to their ends.
///
/// # Errors
/// They cannot be read, or say too little.
pub fn read(files: &[PathBuf], wanted: &Wanted, mut collectors: Collectors<'_>) -> Result<Observed> {
    let mut names = Vec::new();
    let mut remarks = Vec::new();
    for trace in decode::open(files)? {
        let first = names.len();
        let description = trace.description();
        let read = each_request(trace, wanted, &mut |space, request| collectors.add(first + space, request))?;
        if !read.recorded.time || !read.recorded.latency {
            bail!(
                "{description} does not say {}, which a profile needs; record with `nestor trace record`, \
                 or run `nestor characterize --for 60s`",
                if read.recorded.time { "how long requests took" } else { "when requests arrived" }
            );
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
    if collectors.without_place > 0 {
        remarks.push(format!(
            "{} requests belong to devices beyond the first {MOST_SPACES}",
            collectors.without_place
        ));
    }
    let of_spaces = names.into_iter().zip(collectors.of_spaces);
    let found = of_spaces.filter(|(_, collector)| collector.requests() > 0).collect();
    Ok(Observed { found, remarks, others: collectors.others, can_choose: wanted.device.is_none() })
}

impl Observed {
    /// The profile of the one device there is.
    ///
    /// # Errors
    /// There are several, or too few requests.
    pub fn profile(mut self, watched_s: Option<f64>, longer: &str) -> Result<Profile> {
        if self.found.len() > 1 {
            let list: Vec<String> =
                self.found.iter().map(|(name, c)| format!("{name} ({} requests)", c.requests())).collect();
            let how = if self.can_choose && self.found.iter().all(|(name, _)| is_number(name)) {
                "name one with --device"
            } else {
                "these recordings do not number their devices: give one file, of one device"
            };
            bail!("the requests belong to several devices: {}; {how}", list.join(", "));
        }
        let (name, collector) = self.found.pop().unwrap_or_default();
        let mut profile = collector.finish(watched_s).with_context(|| longer.to_owned())?;
        profile.observed_on = name;
        profile.remarks.append(&mut self.remarks);
        Ok(profile)
    }
}

/// Whether that is how `--device` names a device of a trace: `8:0`.
fn is_number(name: &str) -> bool {
    name.split_once(':').is_some_and(|(major, minor)| {
        [major, minor].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// The profile of recorded traces.
///
/// # Errors
/// As [`read`] and [`Observed::profile`].
pub fn of_traces(files: &[PathBuf], device: Option<&str>) -> Result<Profile> {
    let device = device.map(super::number).transpose()?;
    let wanted = Wanted { device, ..Wanted::default() };
    let observed = read(files, &wanted, Collectors::new(None))?;
    if let Some(device) = device.filter(|_| observed.found.is_empty()) {
        let all = read(files, &Wanted::default(), Collectors::new(None))?;
        let there: Vec<String> =
            all.found.iter().map(|(name, c)| format!("{name} ({} requests)", c.requests())).collect();
        if !there.is_empty() {
            bail!("it has no requests of device {device}; it has {}", there.join(", "));
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
