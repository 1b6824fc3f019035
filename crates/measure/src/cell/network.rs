//! What goes over networks while the workload runs: calls of network file systems, counted by client and server, and frames, counted by
//! the link. The requests of network disks are those of their block devices.

use std::path::Path;

use nestor_lab::{BuiltFileSystem, BuiltMachine, BuiltStack, Lab};
use nestor_link::LinkStatistics;
use nestor_machine::{Machine, MachineError};
use nestor_results::NetworkRecord;
use nestor_stack::layers::network::NfsVersion;
use nestor_stack::{Layer, LayerDefinition, LayerIndex, MachineLabel};
use nestor_trace::rpc::{RpcCounts, RpcError, RpcVersion};

/// What the kernel's client counts of each mount.
const CLIENT_COUNTERS: &str = "/proc/self/mountstats";

/// What the kernel's server counts.
const SERVER_COUNTERS: &str = "/proc/net/rpc/nfsd";

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
    client: RpcCounts,
    server: RpcCounts,
    link: LinkStatistics,
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
                Ok((before, now)) => networks.records.push(NetworkRecord {
                    layer,
                    position: place.layer.position(),
                    client: now.client.since(&before.client),
                    server: now.server.since(&before.server),
                    to_server: now.link.from_upper.since(&before.link.from_upper),
                    to_client: now.link.from_lower.since(&before.link.from_lower),
                }),
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
        let is_below = |(below, layer): &(LayerIndex, &Layer)| {
            *below > at && matches!(layer.definition(), LayerDefinition::Link)
        };
        let (link, _) = built.stack.indexed_layers().find(is_below)?;
        Some(Self { layer: at, link, calls })
    }

    fn count(&self, lab: &Lab, built: &BuiltStack) -> Result<Counted, NotCounted> {
        let calls = self.calls.as_ref().map(|calls| self.count_calls(calls, built)).transpose()?;
        let (client, server) = calls.unwrap_or_default();
        Ok(Counted { client, server, link: lab.link_statistics(self.link)? })
    }

    /// At the client and at the server.
    fn count_calls(&self, of: &Calls, built: &BuiltStack) -> Result<(RpcCounts, RpcCounts), NotCounted> {
        let place_of = |layer| &built.machines[built.stack.machine_of(layer)];
        let failed = |place: &BuiltMachine| {
            let machine = place.label;
            move |source| NotCounted::Counters { machine, source }
        };
        let (client, server) = (place_of(self.layer), place_of(self.link.below()));
        let text = read(&client.machine, CLIENT_COUNTERS)?;
        let of_client = RpcCounts::of_client(&text, Path::new(&of.mount_point)).map_err(failed(client))?;
        let text = read(&server.machine, SERVER_COUNTERS)?;
        let of_server = RpcCounts::of_server(&text, of.version).map_err(failed(server))?;
        Ok((of_client, of_server))
    }
}

fn read(machine: &Machine, path: &str) -> Result<String, MachineError> {
    Ok(String::from_utf8_lossy(&machine.read_file(path)?).into_owned())
}
