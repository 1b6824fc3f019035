//! What went over a network, in the form that mechanisms ask for: sums over the runs of a cell.

use std::collections::BTreeMap;

use nestor_results::NetworkRecord;
use nestor_stack::{Export, Layer, LinkOptions, Stack};
use nestor_trace::rpc::CallKind;

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

    /// Ways there and back, one after the other: those of calls that are under way at once are one.
    pub fn rounds(&self) -> f64 {
        self.all().calls / self.in_flight()
    }

    /// Adds what was counted in a run of a stack.
    fn add(&mut self, record: &NetworkRecord, elapsed_ns: f64) {
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
        self.elapsed_ns += elapsed_ns;
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
pub(crate) fn add_networks(
    sum: &mut Vec<NetworkEvidence>,
    records: &[NetworkRecord],
    stack: Option<&Stack>,
    elapsed_ns: f64,
) {
    for (place, record) in records.iter().enumerate() {
        if place == sum.len() {
            let link = stack.and_then(|stack| {
                let (at, _) = stack.indexed_layers().nth(record.position)?;
                let (link, options) = stack.link_below(at)?;
                Some((stack.layer(link).label(), LinkFigures::from(options)))
            });
            let (link, figures) = link.map_or_else(Default::default, |(name, figures)| (name, Some(figures)));
            let layer = stack.and_then(|stack| stack.layers().get(record.position));
            let export = layer.and_then(Layer::network_file_system).map(|nfs| nfs.export);
            let layer = record.layer.clone();
            sum.push(NetworkEvidence { layer, link, figures, export, ..Default::default() });
        }
        sum[place].add(record, elapsed_ns);
    }
}
