//! One layer of a run as a row of the table that leads from the application to the medium.

use std::fmt;

use nestor_correlate::{Correlation, LevelKind};
use nestor_kernel::ServedRequests;
use nestor_results::{LayerRecord, Measured};
use nestor_stack::{LayerIndex, LayerRole, MachineName};
use nestor_statistics::{LatencyHistogram, LatencySummary};
use nestor_trace::metrics::{MemberWork, SeekMetrics, Timeline};
use nestor_trace::rpc::CallKind;
use nestor_trace::{CallMetrics, FrameMetrics, LayerMetrics, LinkMetrics, TracePoint};
use nestor_workload::Direction;
use serde::Serialize;

use super::classes::{self, ClassShare};
use super::short_names::ShortNames;
use crate::units;

/// What a row is for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RowRole {
    /// The application: the program that does its I/O.
    Engine(String),
    /// A layer of the stack.
    Layer(LayerRole),
}

impl Default for RowRole {
    fn default() -> Self {
        Self::Layer(LayerRole::default())
    }
}

impl fmt::Display for RowRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(program) => f.write_str(program),
            Self::Layer(role) => role.fmt(f),
        }
    }
}

/// Frames carry headers, and calls without contents of files. Where contents are less than this share of them, a ratio of both is no amplification.
const LEAST_CONTENTS: f64 = 0.1;

/// The numbers of one layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LayerRow {
    /// The layer as written, with its options.
    pub layer: String,
    /// The layer without its options, for narrow columns; a modelled medium keeps its profile.
    #[serde(skip)]
    pub short_name: String,
    /// What it is for; of the application the program that does its I/O.
    pub role: RowRole,
    /// The machine it runs in.
    pub machine: MachineName,
    /// How it was recorded; `None` where nothing was.
    pub trace_point: Option<&'static str>,
    /// Requests that the layer made at its lower edge, before merging.
    pub requests: Option<u64>,
    /// Requests that were sent on, after merging.
    pub issued: Option<u64>,
    /// Bytes sent on.
    pub bytes: Option<u64>,
    /// Of these, read.
    pub read_bytes: Option<u64>,
    /// Of these, written.
    pub write_bytes: Option<u64>,
    /// Bytes over those of the next recorded layer above that is no link; `None` of a link that carried hardly anything of them.
    pub times_above: Option<f64>,
    /// Bytes over those of the application.
    pub times_application: Option<f64>,
    /// Share of the requests that was merged into another, 0 to 1.
    pub merged_share: Option<f64>,
    /// Share of the issued requests that follows the one before without a gap, 0 to 1.
    pub sequential_share: Option<f64>,
    /// Cache flushes without data.
    pub flushes: u64,
    /// Writes that had to reach the medium.
    pub fua_writes: u64,
    /// Requests of the layer above that asked for a flush.
    pub flushes_queued: u64,
    /// Time from queueing to insertion.
    pub q2i: Option<LatencySummary>,
    /// Time from insertion to issue.
    pub i2d: Option<LatencySummary>,
    /// Time from queueing to issue: everything that this layer's own queue adds.
    pub queue: Option<LatencySummary>,
    /// Time of service by everything below; at the application, of an operation.
    pub service: Option<LatencySummary>,
    /// Time from queueing to completion.
    pub q2c: Option<LatencySummary>,
    /// Sizes of the issued requests in bytes, and how many have each.
    pub sizes: Vec<(u64, u64)>,
    /// What its bytes are for; empty where nothing was attributed.
    pub classes: Vec<ClassShare>,
    /// Distances between its requests. They are in the run's record, and too many for a table.
    #[serde(skip)]
    pub seeks: Option<SeekMetrics>,
    /// What happened when; as above.
    #[serde(skip)]
    pub timeline: Option<Timeline>,
    /// When that begins on the clock of the topmost trace point; `None` where its own clock was not compared with it.
    #[serde(skip)]
    pub timeline_start_ns: Option<i64>,
    /// Where a modelled disk spent its time.
    pub service_shares: Option<ServiceShares>,
    /// What a modelled array asked its disks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<MemberWork>,
    /// Events that the recorder lost.
    pub dropped_events: u64,
    /// What the recorder had to say.
    pub remarks: Vec<String>,
}

/// Shares (0 to 1) of a modelled disk's service time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServiceShares {
    /// Moving the arm.
    pub seek: f64,
    /// Waiting for the sector.
    pub rotation: f64,
    /// Moving data.
    pub transfer: f64,
    /// Everything else.
    pub overhead: f64,
    /// Seconds of service in all.
    pub total_s: f64,
    /// Requests answered from the disk's cache.
    pub cache_hits: u64,
}

impl LayerRow {
    /// The rows of a run, application first.
    pub fn of(measured: &Measured, names: &ShortNames<'_>) -> Vec<Self> {
        let application = Self::application(measured);
        let application_bytes = measured.load.bytes();
        let mut above = application_bytes;
        let mut rows: Vec<Self> = vec![application];
        for (position, layer) in measured.indexed_layers() {
            let mut row = match calls_of(measured, position) {
                Some(calls) => Self::of_layer(layer, names).with_calls(calls),
                None => Self::below(layer, names),
            };
            // Layers between two trace points cannot be told from each other: a virtual machine and its image.
            if let Some(unseen) =
                rows.last_mut().filter(|r| r.trace_point.is_none() && row.trace_point.is_none())
            {
                unseen.layer = format!("{}/{}", unseen.short_name, row.short_name);
                unseen.short_name.clone_from(&unseen.layer);
                unseen.role = row.role;
                continue;
            }
            if let Some(bytes) = row.bytes {
                let is_of_contents =
                    |of: &u64| layer.frames.is_none() || *of as f64 >= LEAST_CONTENTS * bytes as f64;
                let times_of = |of: u64| Some(of).filter(is_of_contents).and_then(|of| times(bytes, of));
                row.times_above = times_of(above);
                row.times_application = times_of(application_bytes);
                // What goes over a link has headers, goes both ways, and is sent again: it is no measure for what lies below.
                if layer.frames.is_none() {
                    above = bytes;
                }
            }
            rows.push(row);
        }
        if let Some(correlation) = &measured.correlation {
            for at in 0..rows.len() {
                let before = rows[..at].iter().filter(|other| other.is_named_as(&rows[at])).count();
                rows[at].timeline_start_ns = rows[at].start_on_top_clock(correlation, before);
            }
        }
        rows
    }

    /// Whether a row has the same name, in the same machine, and a time line too.
    fn is_named_as(&self, other: &Self) -> bool {
        let has_timelines = self.timeline.is_some() && other.timeline.is_some();
        has_timelines && self.layer == other.layer && self.machine == other.machine
    }

    /// When its time line begins, by the offsets between the clocks from its level upwards; `before` of its name come before it.
    fn start_on_top_clock(&self, correlation: &Correlation, before: usize) -> Option<i64> {
        let timeline = self.timeline.as_ref()?;
        // A file system can be in the guest and in the host; the medium is served by a machine of its own.
        let of_row = |level: &nestor_correlate::Level| {
            level.layer == self.layer && (level.machine == self.machine || level.kind == LevelKind::Medium)
        };
        let (level, _) =
            correlation.levels.iter().enumerate().filter(|(_, level)| of_row(level)).nth(before)?;
        let own = i64::try_from(timeline.start_ns).ok()?;
        let joins = correlation.joins.get(..level)?;
        joins.iter().try_fold(own, |time, join| time.checked_add(join.clock_offset_ns))
    }

    fn application(measured: &Measured) -> Self {
        let load = &measured.load;
        // Latencies of different classes are different things; only a single one can stand in the table.
        let mut classes = load.operations.values();
        let service = match (classes.next(), classes.next()) {
            (Some(only), None) => only.latency.summary(),
            _ => None,
        };
        let machine = measured.layers.iter().find(|l| l.is_application()).map(|l| l.machine.clone());
        Self {
            layer: "application".to_owned(),
            short_name: "application".to_owned(),
            role: RowRole::Engine(load.engine.clone()),
            machine: machine.unwrap_or_default(),
            trace_point: Some("engine"),
            requests: Some(load.operations.values().map(|o| o.operations).sum()),
            bytes: Some(load.bytes()),
            read_bytes: load.bytes_of(Direction::Read),
            write_bytes: load.bytes_of(Direction::Write),
            service,
            ..Self::default()
        }
    }

    /// The row of a layer of which nothing is known yet.
    fn of_layer(layer: &LayerRecord, names: &ShortNames<'_>) -> Self {
        Self {
            layer: layer.layer.clone(),
            short_name: names.get(&layer.layer),
            role: RowRole::Layer(layer.role.clone()),
            machine: layer.machine.clone(),
            ..Self::default()
        }
    }

    fn below(layer: &LayerRecord, names: &ShortNames<'_>) -> Self {
        let row = Self::of_layer(layer, names);
        if let Some(frames) = &layer.frames {
            return row.with_frames(frames);
        }
        let Some(metrics) = &layer.metrics else { return row.with_served(layer.served) };
        let summary = |h: &Option<nestor_statistics::LatencyHistogram>| h.as_ref().and_then(|h| h.summary());
        Self {
            trace_point: Some(trace_point_words(metrics.trace_point)),
            requests: Some(metrics.read.queued + metrics.write.queued),
            issued: Some(metrics.issued()),
            bytes: Some(metrics.issued_bytes()),
            read_bytes: Some(metrics.read.issued_bytes),
            write_bytes: Some(metrics.write.issued_bytes),
            // A disk does not merge what arrives.
            merged_share: metrics.merged_share().filter(|_| metrics.trace_point != TracePoint::DiskLog),
            sequential_share: metrics.sequential_share,
            flushes: metrics.flushes,
            fua_writes: metrics.fua_writes,
            flushes_queued: metrics.flushes_queued,
            q2i: summary(&metrics.q2i),
            i2d: summary(&metrics.i2d),
            queue: summary(&metrics.q2d).or_else(|| summary(&metrics.i2d)),
            service: summary(&metrics.d2c),
            q2c: summary(&metrics.q2c),
            sizes: metrics.size_histogram.iter().map(|(size, count)| (*size, *count)).collect(),
            classes: classes::shares(metrics),
            seeks: metrics.d2d_seeks.clone(),
            timeline: metrics.timeline.clone(),
            service_shares: service_shares(metrics),
            members: metrics.members,
            dropped_events: metrics.dropped_events,
            remarks: metrics.remarks.clone(),
            ..row
        }
    }

    /// The row of a hypervisor whose back end counts what it serves, and records no request.
    fn with_served(self, served: Option<ServedRequests>) -> Self {
        let Some(served) = served else { return self };
        let requests = Some(served.reads + served.writes);
        Self {
            trace_point: Some("back end's counts"),
            requests,
            issued: requests,
            bytes: Some(served.read_bytes + served.written_bytes),
            read_bytes: Some(served.read_bytes),
            write_bytes: Some(served.written_bytes),
            flushes: served.flushes,
            ..self
        }
    }

    /// The row of a link: a frame is a request, which the interface queues and the wire serves. What goes to the server is written.
    fn with_frames(self, link: &LinkMetrics) -> Self {
        let ways = [&link.to_client, &link.to_server];
        let both = |count: fn(&FrameMetrics) -> u64| Some(ways.into_iter().map(count).sum());
        let times = |times: fn(&FrameMetrics) -> Option<&LatencyHistogram>| {
            LatencyHistogram::merged(ways.into_iter().filter_map(times)).summary()
        };
        let frames = both(|way| way.sent.frames);
        Self {
            trace_point: Some(trace_point_words(TracePoint::LinkLog)),
            requests: frames,
            issued: frames,
            bytes: both(|way| way.sent.bytes),
            read_bytes: Some(link.to_client.sent.bytes),
            write_bytes: Some(link.to_server.sent.bytes),
            queue: times(|way| way.queue.as_ref()),
            service: times(|way| way.wire.as_ref()),
            dropped_events: link.dropped,
            remarks: link.remarks.clone(),
            ..self
        }
    }

    /// The row of a network file system: a call is a request, which the client queues and the network and the server serve.
    fn with_calls(self, calls: &CallMetrics) -> Self {
        let summary = |times: Option<LatencyHistogram>| times.and_then(|times| times.summary());
        let of_kind = |kind| {
            let procedures = calls.procedures.iter();
            procedures.filter(|(name, _)| CallKind::of(name) == kind).map(|(_, times)| times.calls).sum()
        };
        let number = Some(calls.sum(|times| times.calls));
        let (read, written) = (calls.sum(|times| times.read_bytes), calls.sum(|times| times.written_bytes));
        Self {
            trace_point: Some(trace_point_words(TracePoint::Calls)),
            requests: number,
            issued: number,
            bytes: Some(read + written),
            read_bytes: Some(read),
            write_bytes: Some(written),
            // What was written before has to be durable.
            flushes: of_kind(CallKind::Commit),
            queue: summary(calls.times(|times| times.queue.as_ref())),
            service: summary(calls.times(|times| times.response.as_ref())),
            dropped_events: calls.dropped_events,
            ..self
        }
    }

    /// Whether it is the application's.
    pub fn is_application(&self) -> bool {
        matches!(self.role, RowRole::Engine(_))
    }

    /// Whether it is the medium's.
    pub fn is_medium(&self) -> bool {
        self.role == RowRole::Layer(LayerRole::Disk)
    }

    /// The short name, with the machine where another of these layers has the same: `ext4 (guest)`.
    pub fn name_among(&self, layers: &[Self]) -> String {
        let name = &self.short_name;
        match layers.iter().filter(|other| other.short_name == *name).count() {
            0 | 1 => name.clone(),
            _ => format!("{name} ({})", self.machine),
        }
    }

    /// What the layer adds to or makes of the requests, in words.
    pub fn adds(&self) -> String {
        let mut parts = Vec::new();
        if let (Some(bytes), Some(times)) = (self.bytes, self.times_above) {
            // Less than half a per cent is the edges of the recording.
            let above = bytes as f64 / times;
            let difference = bytes as f64 - above;
            if times > 0.0 && (times - 1.0).abs() >= 0.005 {
                let sign = if difference < 0.0 { "-" } else { "+" };
                parts.push(format!("{sign}{}", units::bytes(difference.abs() as u64)));
            }
        }
        parts.extend(classes::extra_words(&self.classes));
        if let Some(shares) = &self.service_shares {
            let named = [
                ("seek", shares.seek),
                ("rotate", shares.rotation),
                ("transfer", shares.transfer),
                ("overhead", shares.overhead),
            ];
            // Less than half a per cent would print as none.
            let worth_saying = named.iter().filter(|(_, share)| *share >= 0.005);
            parts.extend(worth_saying.map(|(name, share)| format!("{name} {}", units::percent(*share))));
        } else if let Some(share) = self.sequential_share {
            parts.push(format!("{} sequential", units::percent(share)));
        }
        parts.extend(self.members.as_ref().and_then(member_words));
        if self.flushes > 0 {
            parts.push(units::plural_u64(self.flushes, "flush", "flushes"));
        }
        if self.fua_writes > 0 {
            parts.push(format!("{} FUA", units::count(self.fua_writes)));
        }
        parts.join(", ")
    }
}

/// What small writes to an array with parity cost its disks: `4.0 disk requests each, 2 048 reads for parity`.
fn member_words(work: &MemberWork) -> Option<String> {
    (work.parity_reads > 0).then(|| {
        let each = work.operations as f64 / work.requests.max(1) as f64;
        format!("{each:.1} disk requests each, {} reads for parity", units::count(work.parity_reads))
    })
}

/// The recorded calls of the layer at a position of the stack, if it is a network file system that made any.
fn calls_of(measured: &Measured, position: LayerIndex) -> Option<&CallMetrics> {
    let network = measured.networks.iter().find(|network| network.position == position)?;
    network.calls.as_deref().filter(|calls| !calls.procedures.is_empty())
}

fn times(bytes: u64, above: u64) -> Option<f64> {
    (above > 0).then(|| bytes as f64 / above as f64)
}

fn trace_point_words(point: TracePoint) -> &'static str {
    match point {
        TracePoint::Application => "engine",
        TracePoint::Blktrace => "blktrace",
        TracePoint::Tracefs => "tracefs",
        TracePoint::Hypervisor => "hypervisor",
        TracePoint::DiskLog => "disk log",
        TracePoint::LinkLog => "frame log",
        TracePoint::Calls => "calls",
    }
}

fn service_shares(metrics: &LayerMetrics) -> Option<ServiceShares> {
    let service = metrics.service?;
    // Times that add up to more than a number holds were written by a disk that counted wrongly: nothing is a share of them.
    let parts = [service.seek_ns, service.rotation_ns, service.transfer_ns, service.overhead_ns];
    let total = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part))? as f64;
    (total > 0.0).then(|| ServiceShares {
        seek: service.seek_ns as f64 / total,
        rotation: service.rotation_ns as f64 / total,
        transfer: service.transfer_ns as f64 / total,
        overhead: service.overhead_ns as f64 / total,
        total_s: total / 1e9,
        cache_hits: service.cache_hits,
    })
}
