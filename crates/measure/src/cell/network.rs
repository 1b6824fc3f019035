//! What goes over networks while the workload runs: calls of network file systems, counted by client and server, and frames, counted by
//! the link.

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

/// A network file system of a stack, and what was counted of it until recording began.
struct Watched {
    place: Counting,
    before: Result<Counted, NotCounted>,
}

/// Where it is counted.
struct Counting {
    layer: LayerIndex,
    link: LayerIndex,
    version: RpcVersion,
    mount_point: String,
}

/// What was counted at one moment.
struct Counted {
    client: RpcCounts,
    mount: MountUse,
    server: RpcCounts,
    link: LinkStatistics,
}

/// What went over networks, and what of that could not be counted.
#[derive(Default)]
pub(super) struct Networks {
    pub records: Vec<NetworkRecord>,
    pub remarks: Vec<String>,
}

/// The network file systems of a stack.
#[derive(Default)]
pub(super) struct NetworkWatch(Vec<Watched>);

impl NetworkWatch {
    /// Notes what was counted so far.
    pub(super) fn start(lab: &Lab, built: &BuiltStack) -> Self {
        let mounted = built.file_systems.iter().filter_map(|mounted| Counting::of(built, mounted));
        let watched = mounted.map(|place| Watched { before: place.count(lab, built), place });
        Self(watched.collect())
    }

    /// What was counted since then.
    pub(super) fn finish(self, lab: &Lab, built: &BuiltStack) -> Networks {
        let mut networks = Networks::default();
        for Watched { place, before } in self.0 {
            let layer = built.stack.layer(place.layer).label();
            match before.and_then(|before| Ok((before, place.count(lab, built)?))) {
                Ok((before, now)) => networks.records.push(NetworkRecord {
                    layer,
                    position: place.layer.position(),
                    client: now.client.since(&before.client),
                    server: now.server.since(&before.server),
                    mount: Some(now.mount.since(&before.mount)),
                    to_server: now.link.from_upper.since(&before.link.from_upper),
                    to_client: now.link.from_lower.since(&before.link.from_lower),
                }),
                Err(e) => networks.remarks.push(format!("the calls of {layer} were not counted: {e}")),
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
        let (link, _) = stack.link_below(mounted.layer)?;
        Some(Self { layer: mounted.layer, link, version, mount_point: mounted.mount_point.clone() })
    }

    fn count(&self, lab: &Lab, built: &BuiltStack) -> Result<Counted, NotCounted> {
        let place_of = |layer| &built.machines[built.stack.machine_of(layer)];
        let failed = |place: &BuiltMachine| {
            let machine = place.label;
            move |source| NotCounted::Counters { machine, source }
        };
        let (client, server) = (place_of(self.layer), place_of(self.link.below()));
        let text = read(&client.machine, CLIENT_COUNTERS)?;
        let of_client = RpcCounts::of_client(&text, Path::new(&self.mount_point)).map_err(failed(client))?;
        let mount = MountUse::of_client(&text, Path::new(&self.mount_point)).map_err(failed(client))?;
        let text = read(&server.machine, SERVER_COUNTERS)?;
        let of_server = RpcCounts::of_server(&text, self.version).map_err(failed(server))?;
        Ok(Counted { client: of_client, mount, server: of_server, link: lab.link_statistics(self.link)? })
    }
}

fn read(machine: &Machine, path: &str) -> Result<String, MachineError> {
    Ok(String::from_utf8_lossy(&machine.read_file(path)?).into_owned())
}
