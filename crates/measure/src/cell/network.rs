//! What goes over networks while the workload runs: calls of network file systems, counted by client and server, and frames, counted by
//! the link. The requests of network disks are those of their block devices.

use std::path::Path;

use nestor_lab::{BuiltFileSystem, BuiltMachine, BuiltStack, Lab};
use nestor_link::LinkStatistics;
use nestor_machine::{Machine, MachineError};
use nestor_results::NetworkRecord;
use nestor_stack::layers::network::NfsVersion;
use nestor_stack::{LayerIndex, MachineLabel};
use nestor_trace::rpc::{CLIENT_COUNTERS, MountUse, RpcCounts, RpcError, RpcVersion, SERVER_COUNTERS};

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
    calls: Option<CountedCalls>,
    link: LinkStatistics,
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
    pub remarks: Vec<String>,
}

/// The network file systems and network disks of a stack.
#[derive(Default)]
pub(super) struct NetworkWatch(Vec<Watched>);

impl NetworkWatch {
    /// Notes what was counted so far.
    pub(super) fn start(lab: &Lab, built: &BuiltStack) -> Self {
        let mounted = built.file_systems.iter().filter_map(|mounted| Counting::of(built, mounted));
        let disks = built.network_disks.iter().filter_map(|disk| Counting::over(built, disk.layer, None));
        let watched = mounted.chain(disks).map(|place| Watched { before: place.count(lab, built), place });
        Self(watched.collect())
    }

    /// What was counted since then.
    pub(super) fn finish(self, lab: &Lab, built: &BuiltStack) -> Networks {
        let mut networks = Networks::default();
        for Watched { place, before } in self.0 {
            let layer = built.stack.layer(place.layer).label();
            match before.and_then(|before| Ok((before, place.count(lab, built)?))) {
                Ok((before, now)) => networks.records.push(place.record(layer, &before, &now)),
                Err(e) => {
                    networks.remarks.push(format!("what {layer} sent and received was not counted: {e}"));
                }
            }
        }
        networks
    }
}

impl Counting {
    /// Of a file system that is a network's; `None` of a local one.
    fn of(built: &BuiltStack, mounted: &BuiltFileSystem) -> Option<Self> {
        let stack = &built.stack;
        let options = stack.layer(mounted.layer).network_file_system()?;
        let version = match options.version {
            NfsVersion::V3 => RpcVersion::V3,
            NfsVersion::V4_0 | NfsVersion::V4_1 | NfsVersion::V4_2 => RpcVersion::V4,
        };
        let calls = Calls { version, mount_point: mounted.mount_point.clone() };
        Self::over(built, mounted.layer, Some(calls))
    }

    /// Of a layer over a link.
    fn over(built: &BuiltStack, at: LayerIndex, calls: Option<Calls>) -> Option<Self> {
        let (link, _) = built.stack.link_below(at)?;
        Some(Self { layer: at, link, calls })
    }

    /// What was counted between two moments.
    fn record(&self, layer: String, before: &Counted, now: &Counted) -> NetworkRecord {
        let calls = before.calls.as_ref().zip(now.calls.as_ref());
        let since = calls.map(|(before, now)| {
            let (client, server) = (now.client.since(&before.client), now.server.since(&before.server));
            (client, server, now.mount.since(&before.mount))
        });
        let (client, server, mount) = match since {
            Some((client, server, mount)) => (client, server, Some(mount)),
            None => Default::default(),
        };
        NetworkRecord {
            layer,
            position: self.layer.position(),
            client,
            server,
            mount,
            to_server: now.link.from_upper.since(&before.link.from_upper),
            to_client: now.link.from_lower.since(&before.link.from_lower),
        }
    }

    fn count(&self, lab: &Lab, built: &BuiltStack) -> Result<Counted, NotCounted> {
        let calls = self.calls.as_ref().map(|calls| self.count_calls(calls, built)).transpose()?;
        Ok(Counted { calls, link: lab.link_statistics(self.link)? })
    }

    /// At the client and at the server.
    fn count_calls(&self, of: &Calls, built: &BuiltStack) -> Result<CountedCalls, NotCounted> {
        let place_of = |layer| &built.machines[built.stack.machine_of(layer)];
        let failed = |place: &BuiltMachine| {
            let machine = place.label;
            move |source| NotCounted::Counters { machine, source }
        };
        let (client, server) = (place_of(self.layer), place_of(self.link.below()));
        let text = read(&client.machine, CLIENT_COUNTERS)?;
        let mount_point = Path::new(&of.mount_point);
        let client_calls = RpcCounts::of_client(&text, mount_point).map_err(failed(client))?;
        let mount = MountUse::of_client(&text, mount_point).map_err(failed(client))?;
        let text = read(&server.machine, SERVER_COUNTERS)?;
        let server_calls = RpcCounts::of_server(&text, of.version).map_err(failed(server))?;
        Ok(CountedCalls { client: client_calls, mount, server: server_calls })
    }
}

fn read(machine: &Machine, path: &str) -> Result<String, MachineError> {
    Ok(String::from_utf8_lossy(&machine.read_file(path)?).into_owned())
}
