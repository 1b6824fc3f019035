//! From records of requests (request files, disk logs, fio's iologs, published traces) to a plan.

use nestor_trace::Operation;
use nestor_trace::decode::{RequestSource, TracedRequest};
use nestor_trace::event::SECTOR_BYTES;

use super::builder::sectors;
use super::sources::{Found, choice_needed};
use super::{Fitted, LeftOut, PlanOptions, PlannedRequest, ReplayPlan, SourceDevice, Stage};
use crate::error::ReplayError;

/// Puts requests in the order in which they are sent, and counts time from the first one.
pub(super) fn in_order(requests: &mut [PlannedRequest]) {
    requests.sort_by_key(|request| request.time_ns);
    let first_ns = requests.first().map_or(0, |request| request.time_ns);
    for request in requests {
        request.time_ns -= first_ns;
        request.completed_ns =
            request.completed_ns.map(|ns| ns.saturating_sub(first_ns).max(request.time_ns));
    }
}

/// Reads requests to their end.
///
/// # Errors
/// The trace cannot be read, does not say where requests were, or is of several disks and none is named.
pub(super) fn plan_of_requests(
    mut source: Box<dyn RequestSource>,
    trace: &str,
    options: &PlanOptions,
) -> Result<ReplayPlan, ReplayError> {
    let stage = options.from.unwrap_or(Stage::Queued);
    let mut taken = Taken::new(options, stage);
    while let Some(traced) = source.next_request()? {
        taken.push(&traced, source.targets());
    }
    let recorded = source.recorded();
    let targets = source.targets();
    let name = |target: usize| targets.get(target).cloned().unwrap_or_else(|| format!("disk {target}"));
    let found: Vec<Found> =
        taken.counts.iter().enumerate().map(|(target, count)| Found::new(&name(target), *count)).collect();
    let nothing = |why: &str| ReplayError::NothingToReplay { trace: trace.to_owned(), why: why.to_owned() };
    let Some(target) = taken.target.filter(|_| !taken.ambiguous) else {
        if found.is_empty() {
            return Err(nothing("it has no requests"));
        }
        return Err(choice_needed(trace, options.device.as_ref(), &found));
    };
    if !recorded.offset {
        return Err(nothing("it has no offsets of requests"));
    }
    if taken.requests.is_empty() {
        return Err(nothing(match taken.left_out.discards {
            0 => "none of its requests has a valid offset and size",
            _ => "all its requests are discards or writes of zeroes; `--discard` replays them",
        }));
    }
    let mut remarks = source.warnings().remarks();
    remarks.extend(taken.remark());
    if !recorded.latency {
        taken.requests.iter_mut().for_each(|request| request.completed_ns = None);
    }
    in_order(&mut taken.requests);
    Ok(ReplayPlan {
        trace: trace.to_owned(),
        device: name(target as usize),
        stage,
        requests: taken.requests,
        timed: recorded.time,
        left_out: taken.left_out,
        fitted: Fitted::default(),
        remarks,
    })
}

struct Taken<'a> {
    options: &'a PlanOptions,
    stage: Stage,
    target: Option<u32>,
    ambiguous: bool,
    counts: Vec<u64>,
    requests: Vec<PlannedRequest>,
    left_out: LeftOut,
    rounded: u64,
}

impl<'a> Taken<'a> {
    fn new(options: &'a PlanOptions, stage: Stage) -> Self {
        Self {
            options,
            stage,
            target: None,
            ambiguous: false,
            counts: Vec::new(),
            requests: Vec::new(),
            left_out: LeftOut::default(),
            rounded: 0,
        }
    }

    fn push(&mut self, traced: &TracedRequest, targets: &[String]) {
        let target = traced.target as usize;
        if self.counts.len() <= target {
            self.counts.resize(target + 1, 0);
        }
        self.counts[target] += 1;
        let wanted = match &self.options.device {
            None => true,
            Some(SourceDevice::Name(name)) => targets.get(target) == Some(name),
            Some(SourceDevice::Number(device)) => targets.get(target) == Some(&device.to_string()),
        };
        if !wanted {
            return;
        }
        if *self.target.get_or_insert(traced.target) != traced.target {
            self.ambiguous = true;
            self.requests = Vec::new();
        }
        if !self.ambiguous {
            self.take(traced);
        }
    }

    fn remark(&self) -> Option<String> {
        let rounded = Some(self.rounded).filter(|rounded| *rounded > 0)?;
        Some(format!(
            "{rounded} requests do not begin or end at a sector of 512 bytes and were extended to whole sectors"
        ))
    }

    fn take(&mut self, traced: &TracedRequest) {
        let request = &traced.request;
        let is_flush = request.operation == Operation::Flush;
        let (offset, bytes) = if is_flush { (0, 0) } else { (request.offset, request.bytes) };
        if request.operation == Operation::Discard && !self.options.discards {
            self.left_out.discards += 1;
            self.left_out.discard_bytes = self.left_out.discard_bytes.saturating_add(bytes);
            return;
        }
        let sector = offset / SECTOR_BYTES;
        let widened = offset.checked_add(bytes).map(|end| end.div_ceil(SECTOR_BYTES) - sector);
        let place = widened
            .and_then(|count| sectors(request.operation, sector, count.checked_mul(SECTOR_BYTES)?))
            .filter(|_| is_flush || bytes > 0);
        let Some(sectors) = place else {
            self.left_out.impossible += 1;
            return;
        };
        let whole = offset.is_multiple_of(SECTOR_BYTES) && bytes.is_multiple_of(SECTOR_BYTES);
        self.rounded += u64::from(!whole);
        self.requests.push(PlannedRequest {
            time_ns: match self.stage {
                Stage::Queued => request.queued_ns,
                Stage::Issued => request.issued_ns,
            },
            completed_ns: Some(request.completed_ns),
            sector,
            sectors,
            operation: request.operation,
            flags: request.flags,
        });
    }
}
