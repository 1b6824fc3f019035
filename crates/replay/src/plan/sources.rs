//! The devices of a trace, where one has to be chosen.

use std::collections::{BTreeMap, BTreeSet};

use nestor_trace::event::Device;

use super::SourceDevice;
use crate::error::ReplayError;

/// Most that an error lists.
const MOST_LISTED: usize = 16;

/// A device of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// What to call it on the command line.
    name: String,
    /// What is in the trace of it.
    what: String,
}

impl Found {
    pub fn new(name: &str, requests: u64) -> Self {
        Self { name: name.to_owned(), what: format!("{requests} requests") }
    }

    /// From the counts of Q and D events, and which device's requests went on to which.
    pub fn of_counts(
        counts: &BTreeMap<Device, [u64; 2]>,
        remapped: &BTreeSet<(Device, Device)>,
    ) -> Vec<Self> {
        let one = |(device, [queued, issued]): (&Device, &[u64; 2])| {
            let below: Vec<String> = remapped
                .iter()
                .filter(|(from, to)| from == device && to != device)
                .map(|(_, to)| to.to_string())
                .collect();
            let goes_on = match below.as_slice() {
                [] => String::new(),
                below => format!(", continued by {}", below.join(" and ")),
            };
            Self { name: device.to_string(), what: format!("{queued} Q and {issued} D events{goes_on}") }
        };
        counts.iter().map(one).collect()
    }
}

/// Says that a device has to be named, or another than was.
pub(super) fn choice_needed(trace: &str, asked: Option<&SourceDevice>, found: &[Found]) -> ReplayError {
    let mut list: Vec<String> =
        found.iter().take(MOST_LISTED).map(|f| format!("{} ({})", f.name, f.what)).collect();
    if found.len() > MOST_LISTED {
        list.push(format!("{} more", found.len() - MOST_LISTED));
    }
    let (trace, list) = (trace.to_owned(), list.join("; "));
    match asked {
        Some(asked) => ReplayError::NoSuchDevice { trace, asked: asked.to_string(), list },
        None => ReplayError::SeveralDevices {
            trace,
            list,
            example: found.first().map_or_else(String::new, |f| f.name.clone()),
        },
    }
}
