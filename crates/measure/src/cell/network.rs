//! What goes over networks while the workload runs: calls of network file systems, counted by client and server, and frames, counted by
//! the link. The requests of network disks are those of their block devices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nestor_lab::{BuiltFileSystem, BuiltMachine, BuiltStack, Lab};
use nestor_link::{End, LinkStatistics, Sent};
use nestor_machine::MachineError;
use nestor_results::{NetworkRecord, rpc_version};
use nestor_stack::{LayerIndex, MachineLabel};
use nestor_text::units::count;
use nestor_trace::rpc::{CLIENT_COUNTERS, MountUse, RpcCounts, RpcError, RpcVersion, SERVER_COUNTERS};

/// In front of each call and each reply in a TCP stream, if it is one fragment (RFC 5531, section 11).
const RECORD_MARK_BYTES: u64 = 4;

/// Why something was not counted. It fails no cell: the workload was measured without it.
#[derive(Debug, thiserror::Error)]
enum NotCounted {
    #[error("{0}")]
    Machine(#[from] MachineError),
    #[error("{machine}: {source}")]
    Counters { machine: MachineLabel, source: RpcError },
}

/// A network file system or network disk of a stack, and what was counted of it until recording began.
struct Watched {
    place: Counting,
    before: Result<Counted, NotCounted>,
}

/// Where it is counted.
struct Counting {
    layer: LayerIndex,
    link: LayerIndex,
    /// `None` of a network disk, which makes none.
    calls: Option<Calls>,
}

/// The calls of a network file system.
struct Calls {
    version: RpcVersion,
    mount_point: String,
}

/// What was counted at one moment.
struct Counted {
    /// `None` of a network disk.
    calls: Option<CountedCalls>,
}

/// Of a network file system.
struct CountedCalls {
    client: RpcCounts,
    mount: MountUse,
    server: RpcCounts,
}

/// What went over networks, and what of that could not be counted.
#[derive(Default)]
pub(super) struct Networks {
    pub records: Vec<NetworkRecord>,
    /// The links of which frames were logged.
    pub logs: Vec<LoggedLink>,
    pub remarks: Vec<String>,
}

/// The log of a link's frames, and what was counted in the same time.
pub(super) struct LoggedLink {
    pub layer: LayerIndex,
    /// On the ground.
    pub log: PathBuf,
    pub to_server: Sent,
    pub to_client: Sent,
    /// Bytes of the calls of network file systems over it and of their replies, as they are in a TCP stream.
    pub called_bytes: Option<[u64; 2]>,
}

/// The network file systems, network disks and links of a stack.
#[derive(Default)]
pub(super) struct NetworkWatch {
    watched: Vec<Watched>,
    links: BTreeMap<LayerIndex, Result<LinkStatistics, MachineError>>,
    is_logged: bool,
}

impl NetworkWatch {
    /// Notes what was counted so far, and starts to log frames if they are to be logged.
    pub(super) fn start(lab: &Lab, built: &BuiltStack, is_logged: bool) -> Self {
        let mounted = built.file_systems.iter().filter_map(|mounted| Counting::of(built, mounted));
        let disks = built.network_disks.iter().filter_map(|disk| Counting::over(built, disk.layer, None));
        let watched =
            mounted.chain(disks).map(|place| Watched { before: place.count(built), place }).collect();
        let is_logged = is_logged && lab.logs_frames();
        let links = built.stack.indexed_layers().filter(|(_, layer)| layer.is_link());
        let start = |link| if is_logged { lab.start_link_log(link) } else { lab.link_statistics(link) };
        let links = links.map(|(index, _)| (index, start(index))).collect();
        Self { watched, links, is_logged }
    }

    /// What was counted and logged since then.
    pub(super) fn finish(self, lab: &Lab, built: &BuiltStack) -> Networks {
        let mut networks = Networks::default();
        let is_logged = self.is_logged;
        for (link, before) in self.links {
            let now = before.and_then(|before| Ok((before, Ended::of(lab, link, is_logged)?)));
            let (before, Ended { statistics, log }) = match now {
                Ok(now) => now,
                Err(e) => {
                    let layer = built.stack.layer(link).label();
                    networks.remarks.push(format!("the frames of {layer} were not counted: {e}"));
                    continue;
                }
            };
            let [to_client, to_server] =
                End::BOTH.map(|end| statistics.sent_by(end).since(before.sent_by(end)));
            let over = self.watched.iter().filter(|watched| watched.place.link == link);
            let records: Vec<_> = over
                .filter_map(|watched| watched.finish(built, [&to_server, &to_client], &mut networks.remarks))
                .collect();
            if let Some(log) = log {
                let called_bytes =
                    records.iter().any(|record| record.mount.is_some()).then(|| called_bytes(&records));
                networks.logs.push(LoggedLink { layer: link, log, to_server, to_client, called_bytes });
            }
            networks.records.extend(records);
        }
        networks.records.sort_by_key(|record| record.position);
        networks
    }
}

/// What a link has counted when recording ends, and where its log is.
struct Ended {
    statistics: LinkStatistics,
    log: Option<PathBuf>,
}

impl Ended {
    fn of(lab: &Lab, link: LayerIndex, is_logged: bool) -> Result<Self, MachineError> {
        if !is_logged {
            return Ok(Self { statistics: lab.link_statistics(link)?, log: None });
        }
        let (log, end) = lab.stop_link_log(link)?;
        Ok(Self { statistics: end.statistics, log: Some(PathBuf::from(log)) })
    }
}

impl Watched {
    /// What was called since then, and what the link carried.
    fn finish(
        &self,
        built: &BuiltStack,
        [to_server, to_client]: [&Sent; 2],
        remarks: &mut Vec<String>,
    ) -> Option<NetworkRecord> {
        let layer = built.stack.layer(self.place.layer).label();
        let now = self.place.count(built);
        let (before, now) = match (&self.before, &now) {
            (Ok(before), Ok(now)) => (before, now),
            (Err(e), _) | (_, Err(e)) => {
                remarks.push(format!("the calls of {layer} were not counted: {e}"));
                return None;
            }
        };
        let (client, server, mount) = match before.calls.as_ref().zip(now.calls.as_ref()) {
            Some((before, now)) => {
                let (client, server) = (now.client.since(&before.client), now.server.since(&before.server));
                (client, server, Some(now.mount.since(&before.mount)))
            }
            None => Default::default(),
        };
        Some(NetworkRecord {
            layer,
            position: self.place.layer,
            client,
            server,
            mount,
            calls: None,
            to_server: to_server.clone(),
            to_client: to_client.clone(),
        })
    }
}

/// Bytes of all calls and of all replies as they are in a TCP stream. The kernel's client counts calls with their record marks
/// (`xs_tcp_send_request` in net/sunrpc/xprtsock.c), and replies without (`xs_read_stream` there).
fn called_bytes(records: &[NetworkRecord]) -> [u64; 2] {
    let calls = records.iter().flat_map(|record| record.client.iter()).map(|(_, calls)| calls);
    calls.fold([0; 2], |[sent, received], calls| {
        [sent + calls.sent_bytes, received + calls.received_bytes + calls.calls * RECORD_MARK_BYTES]
    })
}

impl Counting {
    /// Of a file system that is a network's; `None` of a local one.
    fn of(built: &BuiltStack, mounted: &BuiltFileSystem) -> Option<Self> {
        let stack = &built.stack;
        let version = rpc_version(stack.layer(mounted.layer))?;
        let calls = Calls { version, mount_point: mounted.mounting.target.clone() };
        Self::over(built, mounted.layer, Some(calls))
    }

    /// Of a layer over a link.
    fn over(built: &BuiltStack, at: LayerIndex, calls: Option<Calls>) -> Option<Self> {
        let (link, _) = built.stack.link_below(at)?;
        Some(Self { layer: at, link, calls })
    }

    fn count(&self, built: &BuiltStack) -> Result<Counted, NotCounted> {
        let calls = self.calls.as_ref().map(|calls| self.count_calls(calls, built)).transpose()?;
        Ok(Counted { calls })
    }

    /// At the client and at the server.
    fn count_calls(&self, of: &Calls, built: &BuiltStack) -> Result<CountedCalls, NotCounted> {
        let place_of = |layer| &built.machines[built.stack.machine_of(layer)];
        let failed = |place: &BuiltMachine| {
            let machine = place.label;
            move |source| NotCounted::Counters { machine, source }
        };
        let (client, server) = (place_of(self.layer), place_of(self.link.below()));
        let text = client.machine.read_text(CLIENT_COUNTERS)?;
        let mount_point = Path::new(&of.mount_point);
        let client_calls = RpcCounts::of_client(&text, mount_point).map_err(failed(client))?;
        let mount = MountUse::of_client(&text, mount_point).map_err(failed(client))?;
        let text = server.machine.read_text(SERVER_COUNTERS)?;
        let server_calls = RpcCounts::of_server(&text, of.version).map_err(failed(server))?;
        Ok(CountedCalls { client: client_calls, mount, server: server_calls })
    }
}

/// Writes that the server of a network file system refused, in words.
pub(super) fn refused_writes(network: &NetworkRecord) -> Option<String> {
    let (failed, all) = network.client.failed_writes();
    (failed > 0).then(|| {
        format!(
            "{}: {} of {} calls that were to write ended with an error that the workload did not get: its data may not be \
             on the server",
            network.layer,
            count(failed),
            count(all)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_replies_have_a_record_mark_each_in_a_stream() {
        let counts = serde_json::json!({
            "WRITE": { "calls": 599, "sent_bytes": 4_974_000, "received_bytes": 81_464, "response_ms": 7 },
            "GETATTR": { "calls": 5, "sent_bytes": 572, "received_bytes": 800, "response_ms": 1 },
        });
        let record =
            NetworkRecord { client: serde_json::from_value(counts).unwrap(), ..NetworkRecord::default() };
        let two = [record.clone(), record];
        assert_eq!(called_bytes(&two[..1]), [4_974_572, 82_264 + 2416]);
        assert_eq!(called_bytes(&two)[1], 2 * (82_264 + 2416));
        assert_eq!(called_bytes(&[]), [0, 0]);
    }

    #[test]
    fn writes_that_failed_are_told_and_other_calls_that_did_are_not() {
        let record = |counts| NetworkRecord {
            layer: "nfs".to_owned(),
            client: serde_json::from_value(counts).unwrap(),
            ..NetworkRecord::default()
        };
        let refused = serde_json::json!({
            "WRITE": { "calls": 16_158, "errors": 13_000 }, "COMMIT": { "calls": 13 }, "LOOKUP": { "calls": 5, "errors": 5 },
        });
        let said = refused_writes(&record(refused)).unwrap();
        assert!(
            said.starts_with("nfs: 13 000 of 16 171 calls that were to write ended with an error"),
            "{said}"
        );
        let absent = serde_json::json!({ "WRITE": { "calls": 3 }, "LOOKUP": { "calls": 5, "errors": 5 } });
        assert_eq!(refused_writes(&record(absent)), None);
    }
}
