//! What went over a network, in the form that mechanisms ask for: sums over the runs of a cell.

use std::collections::BTreeMap;

use nestor_results::{Measured, NetworkRecord};
use nestor_stack::{Export, LayerIndex, LinkOptions, Stack};
use nestor_trace::LayerMetrics;
use nestor_trace::rpc::CallKind;

use crate::evidence::sum_ns;

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallEvidence {
    /// Calls of the client.
    pub calls: f64,
    /// Time from the calls to their replies, summed up, ns.
    pub response_ns: f64,
}

/// What a link promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFigures {
    /// Bits per second, each way.
    pub rate_bits_per_s: f64,
    /// Time that a frame is under way, each way, beside the time that the rate takes, ns.
    pub delay_ns: f64,
}

/// A network file system and the link below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkEvidence {
    /// The network file system as written.
    pub layer: String,
    /// The link as written; empty if it is not known.
    pub link: String,
    /// Whether it is a network disk.
    pub is_disk: bool,
    /// What it promises, where it is a modelled one.
    pub figures: Option<LinkFigures>,
    /// When the server says that data are stored; `None` if it is not known.
    pub export: Option<Export>,
    /// The client's calls by what they are for.
    pub calls: BTreeMap<CallKind, CallEvidence>,
    /// Bytes on the wire to the server, with what each frame takes besides.
    pub to_server_bytes: f64,
    /// Bytes on the wire to the client.
    pub to_client_bytes: f64,
    /// How often what programs had written through the client's page cache had to be durable.
    pub fsyncs: f64,
    /// Bytes of data that READ calls brought.
    pub read_bytes: f64,
    /// Bytes that were sent to the server in WRITE calls.
    pub written_bytes: f64,
    /// Of these, those that were written around the page cache (O_DIRECT).
    pub direct_written_bytes: f64,
    /// Reads, writes and flushes of a network disk; of a network file system [`Self::calls`] has them.
    pub disk_requests: CallEvidence,
    /// Frames that were lost.
    pub lost_frames: f64,
    /// Time in which what was lost had not been sent again, ns.
    pub recovery_ns: f64,
    /// Measured time, ns.
    pub elapsed_ns: f64,
}

impl NetworkEvidence {
    /// Calls of one kind.
    pub fn of(&self, kind: CallKind) -> CallEvidence {
        self.calls.get(&kind).copied().unwrap_or_default()
    }

    /// All calls.
    pub fn all(&self) -> CallEvidence {
        let mut all = CallEvidence::default();
        self.calls.values().for_each(|of_kind| all.add(*of_kind));
        all
    }

    /// Time that the measured time has of calls of one kind, ns: those that are under way at once share it. All kinds together have at most
    /// the measured time.
    pub fn waited_ns(&self, kind: CallKind) -> f64 {
        self.of(kind).response_ns / self.in_flight()
    }

    /// Calls under way at once, on average and at least one (Little's law).
    pub fn in_flight(&self) -> f64 {
        (self.all().response_ns / self.elapsed_ns.max(1.0)).max(1.0)
    }

    /// WRITE calls that somebody waited for: those around the page cache, and at least one for each fsync.
    pub fn awaited_writes(&self) -> f64 {
        let writes = self.of(CallKind::Write).calls;
        let direct = writes * (self.direct_written_bytes / self.written_bytes.max(1.0)).min(1.0);
        direct + self.fsyncs.min(writes - direct)
    }

    /// How often somebody waited until what was written is durable. A server that says so at once makes nobody wait for it.
    pub fn synchronous_requests(&self) -> f64 {
        if self.export == Some(Export::Async) {
            return 0.0;
        }
        self.awaited_writes().max(self.of(CallKind::Commit).calls)
    }

    /// Time that was waited for the calls that ask for it, ns.
    pub fn synchronous_ns(&self) -> f64 {
        let share = self.awaited_writes() / self.of(CallKind::Write).calls.max(1.0);
        self.waited_ns(CallKind::Commit) + self.waited_ns(CallKind::Write) * share.min(1.0)
    }

    /// Bytes on the wire in the direction that has more of them.
    pub fn busiest_bytes(&self) -> f64 {
        self.to_server_bytes.max(self.to_client_bytes)
    }

    /// Ways there and back, one after the other: those of calls, or of a network disk's requests, that are under way at once are one.
    pub fn rounds(&self) -> f64 {
        let requests = self.disk_requests;
        let at_once = (requests.response_ns / self.elapsed_ns.max(1.0)).max(1.0);
        self.all().calls / self.in_flight() + requests.calls / at_once
    }

    /// Adds what was counted in a run of a stack.
    fn add(&mut self, record: &NetworkRecord, measured: &Measured, link: Option<LayerIndex>) {
        for (procedure, calls) in record.client.iter() {
            let one = CallEvidence { calls: calls.calls as f64, response_ns: calls.response_ms as f64 * 1e6 };
            self.calls.entry(CallKind::of(procedure)).or_default().add(one);
        }
        self.to_server_bytes += record.to_server.wire_bytes() as f64;
        self.to_client_bytes += record.to_client.wire_bytes() as f64;
        if let Some(mount) = &record.mount {
            self.fsyncs += mount.fsyncs as f64;
            self.read_bytes += mount.server_read_bytes as f64;
            self.written_bytes += mount.server_written_bytes as f64;
            self.direct_written_bytes += mount.direct_written_bytes as f64;
        }
        if self.is_disk {
            // Its requests are those of what is above it.
            let above = measured.layer(record.position.above()).and_then(|above| above.metrics.as_ref());
            self.disk_requests.add(above.map(requests).unwrap_or_default());
        }
        self.lost_frames += (record.to_server.lost + record.to_client.lost) as f64;
        let frames = link.and_then(|link| measured.layer(Some(link))?.frames.as_ref());
        self.recovery_ns +=
            frames.map_or(0, |log| log.to_server.recovery_ns + log.to_client.recovery_ns) as f64;
        self.elapsed_ns += measured.load.elapsed_ns as f64;
    }
}

/// What a trace point served.
fn requests(metrics: &LayerMetrics) -> CallEvidence {
    CallEvidence {
        calls: (metrics.read.issued + metrics.write.issued + metrics.flushes) as f64,
        response_ns: sum_ns(&metrics.d2c) + sum_ns(&metrics.flush_d2c),
    }
}

impl CallEvidence {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.response_ns += other.response_ns;
    }
}

impl From<LinkOptions> for LinkFigures {
    fn from(link: LinkOptions) -> Self {
        Self { rate_bits_per_s: link.rate.0 as f64, delay_ns: link.delay.0 as f64 }
    }
}

/// Adds what a run of a stack sent over its networks.
pub(crate) fn add_networks(sum: &mut Vec<NetworkEvidence>, measured: &Measured, stack: Option<&Stack>) {
    for (place, record) in measured.networks.iter().enumerate() {
        let over = stack.and_then(|stack| {
            let layer = stack.layers().get(record.position.position())?;
            Some((layer, stack.link_below(record.position)?))
        });
        if place == sum.len() {
            let layer = record.layer.clone();
            let known = over.zip(stack).map(|((layer, (link, options)), stack)| NetworkEvidence {
                is_disk: layer.network_disk().is_some(),
                export: layer.network_file_system().map(|nfs| nfs.export),
                link: stack.layer(link).label(),
                figures: Some(LinkFigures::from(options)),
                ..NetworkEvidence::default()
            });
            sum.push(NetworkEvidence { layer, ..known.unwrap_or_default() });
        }
        sum[place].add(record, measured, over.map(|(_, (link, _))| link));
    }
}
