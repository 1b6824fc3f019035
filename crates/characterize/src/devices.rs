//! The requests of several devices, until it is clear which device is meant.

use std::collections::HashSet;

use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request};
use nestor_workload::Profile;

use crate::collector::{Collector, Kind, Seen};
use crate::error::CharacterizeError;

/// Devices that are collected separately; with more, the choice would be unclear.
const MOST_SPACES: usize = 16;

/// The requests of several devices, each by itself, of some threads.
#[derive(Default)]
pub struct Collectors<'a> {
    /// `None`: of all threads.
    threads: Option<&'a HashSet<u32>>,
    of_spaces: Vec<Collector>,
    others: u64,
    without_place: u64,
}

impl<'a> Collectors<'a> {
    /// Takes only requests of these threads, or of all.
    pub fn new(threads: Option<&'a HashSet<u32>>) -> Self {
        Self { threads, ..Self::default() }
    }

    /// Takes a request of the device with this number.
    pub(crate) fn add(&mut self, space: usize, request: &Request) {
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

    /// All of them, by the names of their devices.
    pub(crate) fn finish(self, names: Vec<String>, mut remarks: Vec<String>, can_choose: bool) -> Observed {
        if self.without_place > 0 {
            remarks.push(format!(
                "{} requests belong to devices beyond the first {MOST_SPACES}",
                self.without_place
            ));
        }
        let found = names.into_iter().zip(self.of_spaces).filter(|(_, collector)| collector.requests() > 0);
        Observed { found: found.collect(), remarks, others: self.others, can_choose }
    }
}

/// What was read: the collectors by the names of their devices.
pub struct Observed {
    /// Name and requests of each device that had some.
    found: Vec<(String, Collector)>,
    /// What was odd, and what was left out.
    remarks: Vec<String>,
    /// Requests of threads that were not requested.
    pub others: u64,
    /// Whether a device can be chosen: not in recordings that only name their targets.
    can_choose: bool,
}

impl Observed {
    /// The devices with the number of their requests: `8:0 (150 requests), 8:16 (3 requests)`; empty where there is no request.
    pub(crate) fn devices(&self) -> String {
        let each = self.found.iter().map(|(name, c)| format!("{name} ({} requests)", c.requests()));
        each.collect::<Vec<_>>().join(", ")
    }

    /// The profile of the one device there is, of `watched_s` seconds or as long as its requests took. `longer` says what to do
    /// where there are too few of them.
    ///
    /// # Errors
    ///
    /// If there are several devices, or too few requests.
    pub fn profile(mut self, watched_s: Option<f64>, longer: &str) -> Result<Profile, CharacterizeError> {
        if self.found.len() > 1 {
            let can_choose = self.can_choose && self.found.iter().all(|(name, _)| is_number(name));
            return Err(CharacterizeError::SeveralDevices { devices: self.devices(), can_choose });
        }
        let (name, collector) = self.found.pop().unwrap_or_default();
        let too_little = |source| CharacterizeError::TooLittle { longer: longer.to_owned(), source };
        let mut profile = collector.finish(watched_s).map_err(too_little)?;
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

#[cfg(test)]
mod tests {
    use nestor_layout::Class;

    use super::*;

    fn request(pid: u32, operation: Operation) -> Request {
        Request {
            id: 0,
            operation,
            flags: Flags::default(),
            class: Class::Unknown,
            offset: 0,
            bytes: 4096,
            queued_ns: 0,
            issued_ns: 0,
            completed_ns: 1_000_000,
            bios: 1,
            pid,
        }
    }

    #[test]
    fn several_devices_are_named_and_other_threads_are_counted() {
        let ours = HashSet::from([1]);
        let mut collectors = Collectors::new(Some(&ours));
        for (space, pid) in [(0, 1), (1, 1), (1, 1), (0, 2), (MOST_SPACES, 1)] {
            collectors.add(space, &request(pid, Operation::Read));
        }
        collectors.add(0, &request(2, Operation::Flush));
        let names = ["8:0", "8:16", "8:32"].map(ToOwned::to_owned).to_vec();
        let observed = collectors.finish(names, Vec::new(), true);
        assert_eq!(
            (observed.others, observed.devices().as_str()),
            (1, "8:0 (1 requests), 8:16 (2 requests)")
        );
        assert_eq!(observed.remarks, ["1 requests belong to devices beyond the first 16"]);
        let error = observed.profile(None, "").unwrap_err().to_string();
        assert!(error.ends_with("8:16 (2 requests); name one with --device"), "{error}");
    }
}
