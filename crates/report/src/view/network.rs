//! What went over networks: `nestor run` of a stack with a link.

use nestor_link::Sent;
use nestor_results::{Measured, NetworkRecord, rpc_version};
use nestor_stack::Stack;
use nestor_statistics::{LatencyHistogram, LatencySummary};
use nestor_text::units;
use nestor_trace::rpc::{Calls, RpcCounts, RpcVersion};
use nestor_trace::{AccessPattern, CallMetrics, CallTimes, FrameMetrics, LinkMetrics};
use serde::Serialize;

/// A network file system or network disk, and its link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkView {
    /// The layer as written.
    pub layer: String,
    /// The client's calls, the most frequent procedure first; none of a network disk.
    pub procedures: Vec<ProcedureRow>,
    /// All of the client's calls.
    pub calls: u64,
    /// The client's calls for one operation of the application; `None` without calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_operation: Option<f64>,
    /// How the time of calls divides, in the order of [`Self::procedures`]; nothing where they were only counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<CallTimesRow>,
    /// Where the server read and wrote in files; nothing where it was not recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<AccessRow>,
    /// Events of calls that the recorders lost.
    pub dropped_events: u64,
    /// What the link carried to the server.
    pub to_server: Sent,
    /// What it carried to the client.
    pub to_client: Sent,
}

/// The calls of one procedure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcedureRow {
    /// Its name.
    pub procedure: String,
    /// Calls of the client.
    pub calls: u64,
    /// Calls that the server counted; of version 4, operations within calls. `None` of a call of version 4 that is named after no operation.
    pub server_calls: Option<u64>,
    /// For one operation of the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_operation: Option<f64>,
    /// Bytes of the calls.
    pub sent_bytes: u64,
    /// Bytes of the replies.
    pub received_bytes: u64,
    /// Mean time from a call to its reply, in milliseconds: as recorded, else as the client counted it; `None` where it counted too few
    /// milliseconds in all.
    pub response_ms: Option<f64>,
}

/// How the time of the calls of a procedure divides, as both ends recorded them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallTimesRow {
    /// Its name; `None` of all procedures together.
    pub procedure: Option<String>,
    /// Calls of the client.
    pub calls: u64,
    /// Bytes of contents of files that they read.
    pub read_bytes: u64,
    /// The same of those that they wrote.
    pub written_bytes: u64,
    /// At the client, until a call is sent.
    pub queue: Option<LatencySummary>,
    /// From then until its reply is there.
    pub response: Option<LatencySummary>,
    /// Of that, between the client and the server: the link, sending and receiving at both ends, and waiting for a thread of the server.
    pub between: Option<LatencySummary>,
    /// Of that, at the server.
    pub server: Option<LatencySummary>,
    /// At the client, from the reply until it is done.
    pub after: Option<LatencySummary>,
}

/// Reads or writes of files at the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccessRow {
    /// `reads` or `writes`.
    pub kind: &'static str,
    /// How many.
    pub accesses: u64,
    /// Of how many bytes together.
    pub bytes: u64,
    /// Of how many files.
    pub files: u64,
    /// The size that most of them have: the greatest power of two that is not more.
    pub usual_size_bytes: u64,
    /// How many have it (0 to 1).
    pub usual_size_share: f64,
    /// How many continue where the last one of the same file ended (0 to 1).
    pub sequential_share: f64,
    /// Mean distance in bytes from the end of the last one of the same file.
    pub seek_mean_bytes: Option<f64>,
}

impl AccessRow {
    /// Also those of a loop device, if the server has one: an earlier version recorded every write there that was not for NFS.
    fn all_of(calls: &CallMetrics, has_loop_device: bool) -> Vec<Self> {
        let both = calls.accesses.iter().flat_map(|all| [("reads", &all.reads), ("writes", &all.writes)]);
        let own = calls
            .own_writes
            .iter()
            .filter(|_| has_loop_device)
            .map(|writes| ("writes of its loop device", writes));
        both.chain(own).filter_map(|(kind, pattern)| Self::of(kind, pattern)).collect()
    }

    fn of(kind: &'static str, pattern: &AccessPattern) -> Option<Self> {
        let (usual_size_bytes, usual_size_share) = pattern.usual_size()?;
        Some(Self {
            kind,
            accesses: pattern.accesses,
            bytes: pattern.bytes,
            files: pattern.files,
            usual_size_bytes,
            usual_size_share,
            sequential_share: pattern.sequential_share()?,
            seek_mean_bytes: pattern.seek_mean_bytes,
        })
    }
}

impl CallTimesRow {
    /// Of each procedure, the most frequent first, and of all together if there are several.
    fn all_of(calls: &CallMetrics) -> Vec<Self> {
        let rows = calls.procedures.iter().map(|(name, times)| Self::of(Some(name), &[times]));
        let mut rows: Vec<Self> = rows.collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.calls));
        if rows.len() > 1 {
            rows.push(Self::of(None, &calls.procedures.values().collect::<Vec<_>>()));
        }
        rows
    }

    fn of(procedure: Option<&str>, all: &[&CallTimes]) -> Self {
        let sum = |number: fn(&CallTimes) -> u64| all.iter().map(|times| number(times)).sum();
        let times = |of: fn(&CallTimes) -> Option<&LatencyHistogram>| {
            LatencyHistogram::merged(all.iter().filter_map(|times| of(times))).summary()
        };
        Self {
            procedure: procedure.map(str::to_owned),
            calls: sum(|times| times.calls),
            read_bytes: sum(|times| times.read_bytes),
            written_bytes: sum(|times| times.written_bytes),
            queue: times(|times| times.queue.as_ref()),
            response: times(|times| times.response.as_ref()),
            between: times(|times| times.wire.as_ref()),
            server: times(|times| times.server.as_ref()),
            after: times(|times| times.after.as_ref()),
        }
    }
}

impl NetworkView {
    /// Of all networks of a run.
    pub fn all_of(stack: Option<&Stack>, measured: &Measured) -> Vec<Self> {
        let operations: u64 = measured.load.operations.values().map(|class| class.operations).sum();
        let of = |network: &NetworkRecord| {
            let loop_device = stack.and_then(|stack| stack.loop_device_below(network.position));
            let version =
                stack.and_then(|stack| rpc_version(stack.layers().get(network.position.position())?));
            Self::of(network, version.unwrap_or(RpcVersion::V3), loop_device.is_some(), operations)
        };
        measured.networks.iter().map(of).collect()
    }

    fn of(network: &NetworkRecord, version: RpcVersion, has_loop_device: bool, operations: u64) -> Self {
        let per_operation = |calls: u64| (operations > 0).then(|| calls as f64 / operations as f64);
        let mut procedures: Vec<ProcedureRow> = network
            .client
            .iter()
            .map(|(procedure, of_one)| ProcedureRow {
                procedure: procedure.to_owned(),
                calls: of_one.calls,
                server_calls: RpcCounts::are_counted_alike(procedure, version)
                    .then(|| network.server.calls_of(procedure)),
                per_operation: per_operation(of_one.calls),
                sent_bytes: of_one.sent_bytes,
                received_bytes: of_one.received_bytes,
                response_ms: recorded_response_ms(network, procedure)
                    .or_else(|| counted_response_ms(&of_one)),
            })
            .collect();
        procedures.sort_by_key(|row| std::cmp::Reverse(row.calls));
        let calls = network.client.calls();
        Self {
            layer: network.layer.clone(),
            procedures,
            calls,
            calls_per_operation: per_operation(calls).filter(|_| calls > 0),
            times: network.calls.as_deref().map(CallTimesRow::all_of).unwrap_or_default(),
            accesses: network
                .calls
                .as_deref()
                .map(|calls| AccessRow::all_of(calls, has_loop_device))
                .unwrap_or_default(),
            dropped_events: network.calls.as_ref().map_or(0, |calls| calls.dropped_events),
            to_server: network.to_server.clone(),
            to_client: network.to_client.clone(),
        }
    }
}

fn recorded_response_ms(network: &NetworkRecord, procedure: &str) -> Option<f64> {
    let times = network.calls.as_ref()?.procedures.get(procedure)?;
    Some(times.response.as_ref()?.summary()?.mean_ns / 1e6)
}

/// For fields that are left out where there is nothing.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_nothing(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// The client counts whole milliseconds of all calls together (`rpc_clnt_show_stats` in net/sunrpc/stats.c), so that below ten of them a mean
/// is off by more than a tenth.
fn counted_response_ms(calls: &Calls) -> Option<f64> {
    (calls.response_ms >= 10).then(|| calls.response_ms as f64 / calls.calls.max(1) as f64)
}

impl NetworkView {
    /// `link: 5 120 frames and 5.1 MiB to the server, 3 100 frames and 300 KiB to the client`.
    pub fn link_words(&self) -> String {
        let ways = [("server", &self.to_server), ("client", &self.to_client)].map(|(end, sent)| {
            let gone = [(sent.lost, "lost"), (sent.refused, "refused")];
            let gone = gone.iter().filter(|(count, _)| *count > 0);
            let gone: Vec<String> =
                gone.map(|(count, what)| format!("{} {what}", units::count(*count))).collect();
            let lost = if gone.is_empty() { String::new() } else { format!(" ({})", gone.join(", ")) };
            let frames = units::count(sent.frames);
            format!("{frames} frames and {}{lost} to the {end}", units::bytes(sent.bytes))
        });
        format!("link: {}", ways.join(", "))
    }
}

/// A link whose frames were logged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkView {
    /// The layer as written.
    pub layer: String,
    /// The measured time, or, of a log alone, that from its first frame to its last.
    pub over_s: f64,
    /// What went to the server.
    pub to_server: WayView,
    /// What went to the client.
    pub to_client: WayView,
    /// What is not in the log, so that counts are lower bounds.
    pub dropped: u64,
    /// What is wrong with the log.
    pub remarks: Vec<String>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WayView {
    /// Frames and bytes.
    pub sent: Sent,
    /// Bits on the wire in a second of [`LinkView::over_s`].
    pub bits_per_second: Option<f64>,
    /// Share of that time (0 to 1) in which the wire was taken.
    pub busy: Option<f64>,
    /// Seconds in which data that was lost had not been sent again.
    #[serde(skip_serializing_if = "is_nothing")]
    pub recovery_s: f64,
    /// Bytes of TCP's data that a connection had sent before.
    pub tcp_again_bytes: u64,
    /// Waiting in the interface, of a frame or of a TCP segment that becomes several.
    pub queue: Option<LatencySummary>,
    /// From its first bit on the wire to its last.
    pub wire: Option<LatencySummary>,
    /// From its arrival until the machine was given it.
    pub delivery: Option<LatencySummary>,
}

impl LinkView {
    /// Of all links of a run.
    pub fn all_of(measured: &Measured) -> Vec<Self> {
        let links = measured.layers.iter().filter_map(|layer| Some((&layer.layer, layer.frames.as_ref()?)));
        let measured_s = measured.load.elapsed_ns as f64 / 1e9;
        links.map(|(layer, metrics)| Self::over(layer, metrics, metrics.loaded_s(measured_s))).collect()
    }

    /// Of a log alone.
    pub fn of(layer: &str, metrics: &LinkMetrics) -> Self {
        Self::over(layer, metrics, metrics.span_s)
    }

    fn over(layer: &str, metrics: &LinkMetrics, over_s: f64) -> Self {
        let way = |way: &FrameMetrics| {
            let summary = |times: &Option<LatencyHistogram>| times.as_ref().and_then(|times| times.summary());
            WayView {
                sent: way.sent.clone(),
                bits_per_second: way.rate_bits_per_s(over_s),
                busy: (over_s > 0.0).then(|| way.busy_ns as f64 / 1e9 / over_s),
                recovery_s: way.recovery_ns as f64 / 1e9,
                tcp_again_bytes: way.tcp_again_bytes,
                queue: summary(&way.queue),
                wire: summary(&way.wire),
                delivery: summary(&way.delivery),
            }
        };
        Self {
            layer: layer.to_owned(),
            over_s,
            to_server: way(&metrics.to_server),
            to_client: way(&metrics.to_client),
            dropped: metrics.dropped,
            remarks: metrics.remarks.clone(),
        }
    }
}
