//! Calls of a network file system as both ends saw them, joined by their numbers (xid: RFC 5531, section 9).
//!
//! No clock is shared for that: the client knows how long a call waited and how long its reply took, the server how long it worked on it, and
//! the difference is the way there and back.

mod requests;

pub use requests::CallRequests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::BufRead;
use std::path::Path;

use nestor_statistics::LatencyHistogram;
use serde::{Deserialize, Serialize};

use crate::accesses::{AccessPattern, FileAccesses};
use crate::decode::calls::{Access, CallEvent, CallReader, ClientCall, FileNumber, OwnWrite, ServerCall};
use crate::error::TraceError;
use crate::rpc::{CallKind, RpcCounts};

/// An end of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallEnd {
    /// Where they come from.
    Client,
    /// Where they are answered.
    Server,
}

/// What was recorded at one end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedCalls {
    /// Calls of a client, in the order in which they were over.
    pub client: Vec<ClientCall>,
    /// Calls of a server, in the order of the replies.
    pub server: Vec<ServerCall>,
    /// What they did with contents of files, in the order in which that began.
    pub accesses: Vec<Access>,
    /// What the server wrote to files of XFS otherwise than for NFS, in its order.
    pub own_writes: Vec<OwnWrite>,
    /// How often the client sent a call another time.
    pub retransmissions: u64,
    /// Events that are missing, as far as the text says so.
    pub lost_events: u64,
    /// Lines that were no events.
    pub unreadable_lines: u64,
}

impl TracedCalls {
    /// Reads the text of tracefs; `path` is what errors call it.
    ///
    /// # Errors
    /// The text cannot be read, or is something else.
    pub fn read(source: impl BufRead, path: &Path) -> Result<Self, TraceError> {
        let mut reader = CallReader::new(source, path);
        let mut traced = Self::default();
        while let Some(event) = reader.next_event()? {
            match event {
                CallEvent::Client(call) => traced.client.push(call),
                CallEvent::Server(call) => traced.server.push(call),
                CallEvent::Access(access) => traced.accesses.push(access),
                CallEvent::OwnWrite(write) => traced.own_writes.push(write),
                CallEvent::Retransmission { .. } => traced.retransmissions += 1,
            }
        }
        traced.keep_calls_of_mounts();
        (traced.lost_events, traced.unreadable_lines) = (reader.lost_events(), reader.unreadable_lines());
        Ok(traced)
    }

    /// Leaves out the kernel's clients of RPC that only keep the state of version 4, as mountstats does, which counts those of mounts.
    fn keep_calls_of_mounts(&mut self) {
        let of_mount = |call: &ClientCall| CallKind::of(&call.procedure) != CallKind::Session;
        let mounts: std::collections::HashSet<u32> =
            self.client.iter().filter(|call| of_mount(call)).map(|call| call.client).collect();
        self.client.retain(|call| mounts.contains(&call.client));
    }

    /// Leaves out what the server wrote to other files than this one, the image of its loop device: whoever else writes there is no part of
    /// the stack. Everything, if it has none.
    pub fn keep_own_writes_of(&mut self, image: Option<FileNumber>) {
        self.own_writes.retain(|write| Some(write.file) == image);
    }

    /// How many calls of each procedure an end has, to be held against what its kernel counted.
    pub fn counts(&self, end: CallEnd) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        let mut count = |procedure| *counts.entry(procedure).or_insert(0) += 1;
        match end {
            CallEnd::Client => self.client.iter().for_each(|call| count(call.procedure.as_str())),
            CallEnd::Server => self.server.iter().for_each(|call| count(call.procedure.as_str())),
        }
        counts
    }
}

/// A procedure of which as many calls were traced as were not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountDifference {
    /// Its name.
    pub procedure: String,
    /// How many calls were traced.
    pub traced: u64,
    /// How many the kernel counted in the same time.
    pub counted: u64,
}

/// The procedures of which traced calls and counted ones differ.
pub fn differences(traced: &BTreeMap<&str, u64>, counted: &RpcCounts) -> Vec<CountDifference> {
    let names: std::collections::BTreeSet<&str> =
        traced.keys().copied().chain(counted.iter().map(|(procedure, _)| procedure)).collect();
    let of = |procedure: &str| (traced.get(procedure).copied().unwrap_or(0), counted.calls_of(procedure));
    let all = names.into_iter().map(|procedure| (procedure, of(procedure)));
    all.filter(|(_, (traced, counted))| traced != counted)
        .map(|(procedure, (traced, counted))| CountDifference {
            procedure: procedure.to_owned(),
            traced,
            counted,
        })
        .collect()
}

/// A call of a client and what the server did for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// As the client saw it.
    pub client: &'a ClientCall,
    /// As the server saw it; the first time if it came more than once. `None` if the server's trace does not have it.
    pub server: Option<&'a ServerCall>,
    /// How often the server replied to it.
    pub replies: u64,
    /// What it did with contents of files: nothing, one thing, or several of a compound call.
    pub accesses: Vec<&'a Access>,
}

impl Call<'_> {
    /// Nanoseconds on the way there and back, in the network and in what sends and receives at both ends; `None` if the server's part is not
    /// known. Each part is known to a microsecond, so a difference below 0 is none.
    pub fn wire_ns(&self) -> Option<u64> {
        Some(self.client.response_ns.saturating_sub(self.server?.service_ns))
    }

    /// Nanoseconds from the reply until the client was done.
    pub fn after_ns(&self) -> u64 {
        let ClientCall { queue_ns, response_ns, whole_ns, .. } = self.client;
        whole_ns.saturating_sub(queue_ns.saturating_add(*response_ns))
    }
}

/// The calls of both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedCalls<'a> {
    /// Those of the client, in its order.
    pub calls: Vec<Call<'a>>,
    /// Calls that only the server has, between others that both have.
    pub uncalled: u64,
    /// Calls that only the server has, before and after all others: its recorder ran longer.
    pub outside: u64,
    /// What the server did with contents of files, of all its calls.
    pub accesses: &'a [Access],
    /// What it wrote to the image of its loop device.
    pub own_writes: &'a [OwnWrite],
    /// How often the client sent a call another time.
    pub retransmissions: u64,
}

/// Joins the calls of a client with those of its server. A number that the client gave twice, after it had given all others, is taken in the
/// order of the calls; what the server has of a number more often than the client was sent more than once.
pub fn join<'a>(client: &'a TracedCalls, server: &'a TracedCalls) -> JoinedCalls<'a> {
    let mut served: HashMap<u32, VecDeque<usize>> = HashMap::new();
    let numbered = server.server.iter().enumerate();
    numbered.for_each(|(at, call)| served.entry(call.xid).or_default().push_back(at));
    let mut is_joined = vec![false; server.server.len()];
    let mut accesses: HashMap<u32, Vec<&Access>> = HashMap::new();
    server.accesses.iter().for_each(|access| accesses.entry(access.xid).or_default().push(access));
    let mut left: HashMap<u32, u64> = HashMap::new();
    client.client.iter().for_each(|call| *left.entry(call.xid).or_default() += 1);
    let calls = client.client.iter().map(|call| {
        let of_number = served.entry(call.xid).or_default();
        let later = left.get_mut(&call.xid).map_or(0, |left| {
            *left -= 1;
            *left
        });
        let first = of_number.pop_front();
        let again = if later == 0 { of_number.len() } else { 0 };
        let mut replies = 0;
        for at in first.into_iter().chain(of_number.drain(..again)) {
            is_joined[at] = true;
            replies += 1;
        }
        let accesses = if later == 0 { accesses.remove(&call.xid).unwrap_or_default() } else { Vec::new() };
        Call { client: call, server: first.map(|at| &server.server[at]), replies, accesses }
    });
    let calls = calls.collect();
    let all = is_joined.iter().filter(|is_joined| !**is_joined).count() as u64;
    let (first, last) = (is_joined.iter().position(|at| *at), is_joined.iter().rposition(|at| *at));
    let between = first.zip(last).map_or(&[][..], |(first, last)| &is_joined[first..=last]);
    let uncalled = between.iter().filter(|is_joined| !**is_joined).count() as u64;
    JoinedCalls {
        calls,
        uncalled,
        outside: all - uncalled,
        accesses: &server.accesses,
        own_writes: &server.own_writes,
        retransmissions: client.retransmissions,
    }
}

/// The numbers of the calls of a network file system, over the recorded time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallMetrics {
    /// By procedure, as the client calls it.
    pub procedures: BTreeMap<String, CallTimes>,
    /// Where the server read and wrote in files; of runs of earlier versions it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accesses: Option<FileAccesses>,
    /// What the server's loop device wrote to its image on XFS; `None` without one, and if nothing was recorded of it. In runs of earlier
    /// versions, whatever the server wrote to XFS otherwise than for NFS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_writes: Option<AccessPattern>,
    /// How often the client sent a call another time.
    pub retransmissions: u64,
    /// Replies of the server to calls that it had replied to before.
    pub repeated: u64,
    /// Calls of the client that the server's trace does not have.
    pub unserved: u64,
    /// Calls at the server that the client's trace does not have, though it has earlier and later ones.
    pub uncalled: u64,
    /// Events that the kernels could not keep; any number above zero makes counts lower bounds.
    pub dropped_events: u64,
}

/// The numbers of one procedure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Calls of the client.
    pub calls: u64,
    /// Bytes of contents of files that they read.
    pub read_bytes: u64,
    /// The same of those that they wrote.
    pub written_bytes: u64,
    /// From when a call was issued until it was sent.
    pub queue: Option<LatencyHistogram>,
    /// From when it was sent until its reply was there.
    pub response: Option<LatencyHistogram>,
    /// Of that, on the way there and back.
    pub wire: Option<LatencyHistogram>,
    /// Of that, at the server.
    pub server: Option<LatencyHistogram>,
    /// From the reply until the client was done.
    pub after: Option<LatencyHistogram>,
}

impl CallMetrics {
    /// Condenses the calls of both ends, of which `dropped_events` are missing.
    pub fn of(joined: &JoinedCalls<'_>, dropped_events: u64) -> Self {
        let mut procedures: BTreeMap<&str, Times> = BTreeMap::new();
        for call in &joined.calls {
            procedures.entry(&call.client.procedure).or_default().push(call);
        }
        let procedures = procedures.into_iter().map(|(name, times)| (name.to_owned(), times.finish()));
        Self {
            procedures: procedures.collect(),
            accesses: Some(FileAccesses::of(joined.accesses)),
            own_writes: AccessPattern::of_writes(joined.own_writes),
            retransmissions: joined.retransmissions,
            repeated: joined.calls.iter().map(|call| call.replies.saturating_sub(1)).sum(),
            unserved: joined.calls.iter().filter(|call| call.server.is_none()).count() as u64,
            uncalled: joined.uncalled,
            dropped_events,
        }
    }

    /// One number of all procedures together.
    pub fn sum(&self, number: impl Fn(&CallTimes) -> u64) -> u64 {
        self.procedures.values().map(number).sum()
    }

    /// One time of all procedures together; `None` without any.
    pub fn times(&self, times: impl Fn(&CallTimes) -> Option<&LatencyHistogram>) -> Option<LatencyHistogram> {
        let all = LatencyHistogram::merged(self.procedures.values().filter_map(times));
        (all.count() > 0).then_some(all)
    }
}

/// One procedure while its calls are gone through.
#[derive(Default)]
struct Times {
    numbers: CallTimes,
    queue: LatencyHistogram,
    response: LatencyHistogram,
    wire: LatencyHistogram,
    server: LatencyHistogram,
    after: LatencyHistogram,
}

impl Times {
    fn push(&mut self, call: &Call<'_>) {
        self.numbers.calls += 1;
        for access in &call.accesses {
            match access.kind {
                CallKind::Read => self.numbers.read_bytes += u64::from(access.bytes),
                CallKind::Write => self.numbers.written_bytes += u64::from(access.bytes),
                CallKind::Commit | CallKind::Metadata | CallKind::Session => {}
            }
        }
        self.queue.record_ns(call.client.queue_ns);
        self.response.record_ns(call.client.response_ns);
        self.after.record_ns(call.after_ns());
        if let Some((server, wire_ns)) = call.server.zip(call.wire_ns()) {
            self.server.record_ns(server.service_ns);
            self.wire.record_ns(wire_ns);
        }
    }

    fn finish(self) -> CallTimes {
        let some = |histogram: LatencyHistogram| (histogram.count() > 0).then(|| histogram.compacted());
        let Self { numbers, queue, response, wire, server, after } = self;
        CallTimes {
            queue: some(queue),
            response: some(response),
            wire: some(wire),
            server: some(server),
            after: some(after),
            ..numbers
        }
    }
}

#[cfg(test)]
mod tests;
