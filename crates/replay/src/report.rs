//! What a replay did, and how true it was to its trace.

use std::collections::BTreeMap;

use nestor_statistics::{LatencyHistogram, LatencySummary};
use nestor_trace::Operation;
use serde::{Deserialize, Serialize};

use crate::options::ReplayOptions;
use crate::order::{Depth, Ordering, Span, depth, overtaken};
use crate::pace::{NEVER, Paced};
use crate::plan::{Fitted, LeftOut, PlanStatistics, PlannedRequest, ReplayPlan, Stage};
use crate::speed::Speed;
use crate::target::{Target, TargetKind};

/// How much in how much time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// Requests.
    pub requests: u64,
    /// Bytes of reads and writes.
    pub bytes: u64,
    /// From the first to the last submission.
    pub duration_ns: u64,
    /// Requests per second of that time: one less than `requests` over it, for that many intervals are in it. `None` where it
    /// is no time at all.
    pub requests_per_second: Option<f64>,
}

impl Amount {
    fn of(requests: u64, bytes: u64, duration_ns: u64) -> Self {
        let rate =
            (duration_ns > 0 && requests > 1).then(|| (requests - 1) as f64 / (duration_ns as f64 / 1e9));
        Self { requests, bytes, duration_ns, requests_per_second: rate }
    }
}

/// The requests of one operation, whose latencies are told apart: a mean over several would say nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Which.
    pub class: Operation,
    /// Requests that were complete.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long they took in the trace, from the stage that is replayed; of those that were replayed.
    pub original: Option<LatencyHistogram>,
    /// How long they took, from submission.
    pub from_submission: LatencyHistogram,
    /// How long they took, from when they were to be submitted: the wait of a sender at those times
    /// whatever happens. `None` as fast as possible, where nothing is intended.
    pub from_intended: Option<LatencyHistogram>,
}

/// What a replay did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// The trace.
    pub trace: String,
    /// Its device.
    pub device: String,
    /// Replayed from here.
    pub stage: Stage,
    /// How fast.
    pub speed: Speed,
    /// The target's path.
    pub target: String,
    /// What it is.
    pub target_kind: TargetKind,
    /// Its size.
    pub target_bytes: u64,
    /// How requests were sent: `io_uring`, `threads`, `nothing`.
    pub engine: String,
    /// Past the page cache.
    pub direct: bool,
    /// Requests in flight at most.
    pub depth_limit: u64,
    /// The whole plan.
    pub plan: PlanStatistics,
    /// What the trace asks for at this speed, up to where the replay got; as fast as possible, at the trace's own times.
    pub offered: Amount,
    /// What was done.
    pub achieved: Amount,
    /// To the last completion.
    pub elapsed_ns: u64,
    /// How much later than intended requests were submitted. `None` as fast as possible.
    pub lag: Option<LatencyHistogram>,
    /// The same in numbers.
    pub lag_summary: Option<LatencySummary>,
    /// Requests that had to wait because as many as may be were in flight.
    pub held_back: u64,
    /// Which requests overtook which.
    pub ordering: Ordering,
    /// Requests in flight in the trace, of those that were replayed, at this speed.
    pub depth_offered: Option<Depth>,
    /// Requests in flight in the replay.
    pub depth_achieved: Option<Depth>,
    /// Each class that has requests.
    pub classes: Vec<ClassReport>,
    /// Flushes without data and before writes that were sent.
    pub flushes_sent: u64,
    /// Writes that were sent to be on the medium before completion.
    pub fua_sent: u64,
    /// Not in the plan.
    pub left_out: LeftOut,
    /// What was done to place the trace on the target.
    pub fitted: Fitted,
    /// Stopped before its end.
    pub interrupted: bool,
    /// What belongs beside the numbers.
    pub remarks: Vec<String>,
}

/// A lag above which times were not kept: what a replay is to hold at the 99th percentile.
const EXACT_NS: u64 = 100_000;
/// The rate is missed where it is less than this share of what was offered.
const RATE_KEPT: f64 = 0.99;

impl ReplayReport {
    /// The achieved rate over that of the trace at this speed; as fast as possible, over the trace's own.
    pub fn relative_rate(&self) -> Option<f64> {
        Some(self.achieved.requests_per_second? / self.offered.requests_per_second?)
    }

    /// The achieved share of the rate, if it was missed.
    pub fn missed_rate(&self) -> Option<f64> {
        self.relative_rate().filter(|rate| self.is_timed() && *rate < RATE_KEPT)
    }

    /// Whether requests were sent so late that the trace's times were not kept.
    pub fn fell_behind(&self) -> bool {
        self.lag_summary.is_some_and(|lag| lag.p99_ns > EXACT_NS)
    }

    /// Requests that waited although they were due.
    pub fn waited(&self) -> u64 {
        if self.is_timed() { self.held_back } else { 0 }
    }

    /// Whether requests have times at which they are to be sent.
    fn is_timed(&self) -> bool {
        self.speed != Speed::Max
    }
}

/// How it was replayed.
pub(crate) struct Setting {
    pub options: ReplayOptions,
    pub depth: usize,
    pub engine: String,
    pub remarks: Vec<String>,
}

/// A request that was done.
#[derive(Clone, Copy)]
struct Done<'a> {
    request: &'a PlannedRequest,
    intended_ns: Option<u64>,
    submitted_ns: u64,
    completed_ns: u64,
}

pub(crate) fn report(plan: &ReplayPlan, target: &Target, setting: Setting, paced: &Paced) -> ReplayReport {
    let speed = setting.options.speed;
    let times = paced.submitted_ns.iter().zip(&paced.completed_ns);
    let done: Vec<Done<'_>> = plan
        .requests
        .iter()
        .zip(times)
        .filter(|(_, (_, completed_ns))| **completed_ns != NEVER)
        .map(|(request, (submitted_ns, completed_ns))| Done {
            request,
            intended_ns: speed.intended_ns(request.time_ns),
            submitted_ns: *submitted_ns,
            completed_ns: *completed_ns,
        })
        .collect();
    let lag = lag(&done);
    let mut remarks = plan.remarks.clone();
    remarks.extend(target.remarks().iter().cloned());
    remarks.extend(setting.remarks);
    let (offered, achieved) = amounts(&done, speed);
    ReplayReport {
        trace: plan.trace.clone(),
        device: plan.device.clone(),
        stage: plan.stage,
        speed,
        target: target.path().display().to_string(),
        target_kind: target.kind(),
        target_bytes: target.size_bytes(),
        engine: setting.engine,
        direct: target.is_direct(),
        depth_limit: setting.depth as u64,
        plan: plan.statistics(),
        offered,
        achieved,
        elapsed_ns: done.iter().map(|d| d.completed_ns).max().unwrap_or(0),
        lag_summary: lag.as_ref().and_then(LatencyHistogram::summary),
        lag,
        held_back: paced.held_back,
        ordering: ordering(&done),
        depth_offered: depth_offered(&done, speed),
        depth_achieved: depth(done.iter().map(|d| Span { from_ns: d.submitted_ns, to_ns: d.completed_ns })),
        classes: classes(&done),
        flushes_sent: count(&done, |r| r.operation == Operation::Flush || r.flushes_first()),
        fua_sent: count(&done, PlannedRequest::is_fua),
        left_out: plan.left_out,
        fitted: plan.fitted,
        interrupted: paced.stopped,
        remarks,
    }
}

fn count(done: &[Done<'_>], of: impl Fn(&PlannedRequest) -> bool) -> u64 {
    done.iter().filter(|d| of(d.request)).count() as u64
}

/// In the trace at this speed, and here; of the requests that were done.
fn amounts(done: &[Done<'_>], speed: Speed) -> (Amount, Amount) {
    let requests = done.len() as u64;
    let moved = |d: &&Done<'_>| matches!(d.request.operation, Operation::Read | Operation::Write);
    let bytes = done.iter().filter(moved).fold(0_u64, |sum, d| sum.saturating_add(d.request.bytes()));
    let time_ns = |d: &Done<'_>| speed.intended_ns(d.request.time_ns).unwrap_or(d.request.time_ns);
    let between = |first: Option<u64>, last: Option<u64>| match (first, last) {
        (Some(first), Some(last)) => last.saturating_sub(first),
        _ => 0,
    };
    let offered_ns = between(done.first().map(time_ns), done.last().map(time_ns));
    let sent = || done.iter().map(|d| d.submitted_ns);
    let achieved_ns = between(sent().min(), sent().max());
    (Amount::of(requests, bytes, offered_ns), Amount::of(requests, bytes, achieved_ns))
}

fn lag(done: &[Done<'_>]) -> Option<LatencyHistogram> {
    let mut lag = LatencyHistogram::default();
    for d in done {
        lag.record_ns(d.submitted_ns.saturating_sub(d.intended_ns?));
    }
    (lag.count() > 0).then_some(lag)
}

fn ordering(done: &[Done<'_>]) -> Ordering {
    let compared: Vec<_> = done.iter().filter_map(|d| Some((d, d.request.completed_ns?))).collect();
    let place = |number: usize| number as u64;
    let numbered = |ns: &dyn Fn(&Done<'_>) -> u64| -> Vec<(u64, u64)> {
        done.iter().enumerate().map(|(number, d)| (place(number), ns(d))).collect()
    };
    let of_compared = |ns: &dyn Fn(&(&Done<'_>, u64)) -> u64| -> Vec<(u64, u64)> {
        compared.iter().enumerate().map(|(number, both)| (place(number), ns(both))).collect()
    };
    let mut by_trace: Vec<(u64, u64)> =
        compared.iter().map(|(d, original_ns)| (*original_ns, d.completed_ns)).collect();
    by_trace.sort_unstable();
    Ordering {
        submitted_out_of_order: overtaken(&numbered(&|d| d.submitted_ns)),
        compared: compared.len() as u64,
        overtaken_in_trace: overtaken(&of_compared(&|(_, original_ns)| *original_ns)),
        overtaken_in_replay: overtaken(&of_compared(&|(d, _)| d.completed_ns)),
        completed_out_of_trace_order: overtaken(&by_trace),
    }
}

/// Requests of the trace in flight, each as long as it took there, begun at this replay's times.
fn depth_offered(done: &[Done<'_>], speed: Speed) -> Option<Depth> {
    depth(done.iter().filter_map(|d| {
        let latency_ns = d.request.original_latency_ns()?;
        let from_ns = speed.intended_ns(d.request.time_ns).unwrap_or(d.request.time_ns);
        Some(Span { from_ns, to_ns: from_ns.saturating_add(latency_ns) })
    }))
}

#[derive(Default)]
struct OfClass {
    requests: u64,
    bytes: u64,
    original: LatencyHistogram,
    from_submission: LatencyHistogram,
    from_intended: LatencyHistogram,
}

fn classes(done: &[Done<'_>]) -> Vec<ClassReport> {
    let mut classes = BTreeMap::<Operation, OfClass>::new();
    for d in done {
        let class = classes.entry(d.request.operation).or_default();
        class.requests += 1;
        class.bytes = class.bytes.saturating_add(d.request.bytes());
        class.from_submission.record_ns(d.completed_ns.saturating_sub(d.submitted_ns));
        if let Some(latency_ns) = d.request.original_latency_ns() {
            class.original.record_ns(latency_ns);
        }
        if let Some(intended_ns) = d.intended_ns {
            class.from_intended.record_ns(d.completed_ns.saturating_sub(intended_ns));
        }
    }
    let some = |histogram: LatencyHistogram| (histogram.count() > 0).then_some(histogram);
    let report = |(class, counts): (Operation, OfClass)| ClassReport {
        class,
        requests: counts.requests,
        bytes: counts.bytes,
        original: some(counts.original),
        from_submission: counts.from_submission,
        from_intended: some(counts.from_intended),
    };
    classes.into_iter().map(report).collect()
}
