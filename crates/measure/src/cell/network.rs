//! What goes over networks while the workload runs: calls of network file systems, counted by client and server, and frames, counted by
//! the link.

use std::path::Path;

use nestor_lab::{BuiltStack, Lab};
use nestor_link::LinkStatistics;
use nestor_machine::Machine;
use nestor_results::NetworkRecord;
use nestor_stack::layers::network::NfsVersion;
use nestor_stack::{LayerDefinition, LayerIndex};
use nestor_trace::rpc::{RpcCounts, RpcVersion};

use super::CellError;
use super::trace_problem::TraceProblem;

/// What the kernel's client counts of each mount.
const CLIENT_COUNTERS: &str = "/proc/self/mountstats";

/// What the kernel's server counts.
const SERVER_COUNTERS: &str = "/proc/net/rpc/nfsd";

/// A network file system of a stack, and what was counted of it until recording began.
struct Watched {
    layer: LayerIndex,
    link: LayerIndex,
    version: RpcVersion,
    mount_point: String,
    before: Counted,
}

/// What was counted at one moment.
struct Counted {
    client: RpcCounts,
    server: RpcCounts,
    link: LinkStatistics,
}

/// The network file systems of a stack.
pub(super) struct NetworkWatch(Vec<Watched>);

impl NetworkWatch {
    /// Of nothing.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Notes what was counted so far.
    pub(super) fn start(lab: &Lab, built: &BuiltStack) -> Result<Self, CellError> {
        let stack = &built.stack;
        let mut watched = Vec::new();
        for (layer, options) in
            stack.indexed_layers().filter_map(|(at, layer)| Some((at, layer.network_file_system()?)))
        {
            let link = stack
                .indexed_layers()
                .find(|(at, below)| *at > layer && matches!(below.definition(), LayerDefinition::Link))
                .map(|(at, _)| at);
            let mounted = built.file_systems.iter().find(|file_system| file_system.layer == layer);
            let (Some(link), Some(mounted)) = (link, mounted) else { continue };
            let version = match options.version {
                NfsVersion::V3 => RpcVersion::V3,
                NfsVersion::V4_0 | NfsVersion::V4_1 | NfsVersion::V4_2 => RpcVersion::V4,
            };
            let mount_point = mounted.mount_point.clone();
            let before = count(lab, built, (layer, link), &mount_point, version)?;
            watched.push(Watched { layer, link, version, mount_point, before });
        }
        Ok(Self(watched))
    }

    /// What was counted since then.
    pub(super) fn finish(self, lab: &Lab, built: &BuiltStack) -> Result<Vec<NetworkRecord>, CellError> {
        self.0.into_iter().map(|watched| watched.finish(lab, built)).collect()
    }
}

impl Watched {
    fn finish(self, lab: &Lab, built: &BuiltStack) -> Result<NetworkRecord, CellError> {
        let now = count(lab, built, (self.layer, self.link), &self.mount_point, self.version)?;
        Ok(NetworkRecord {
            layer: built.stack.layer(self.layer).label(),
            position: self.layer.position(),
            client: now.client.since(&self.before.client),
            server: now.server.since(&self.before.server),
            to_server: now.link.from_upper.since(&self.before.link.from_upper),
            to_client: now.link.from_lower.since(&self.before.link.from_lower),
        })
    }
}

fn count(
    lab: &Lab,
    built: &BuiltStack,
    (layer, link): (LayerIndex, LayerIndex),
    mount_point: &str,
    version: RpcVersion,
) -> Result<Counted, CellError> {
    let machine_at = |layer| &built.machines[built.stack.machine_of(layer)].machine;
    let problem = |source| TraceProblem::Calls { source };
    let client = RpcCounts::of_client(&read(machine_at(layer), CLIENT_COUNTERS)?, Path::new(mount_point))
        .map_err(problem)?;
    let server =
        RpcCounts::of_server(&read(machine_at(link.below()), SERVER_COUNTERS)?, version).map_err(problem)?;
    let link = lab.link_statistics(link)?;
    Ok(Counted { client, server, link })
}

fn read(machine: &Machine, path: &str) -> Result<String, CellError> {
    Ok(String::from_utf8_lossy(&machine.read_file(path)?).into_owned())
}
