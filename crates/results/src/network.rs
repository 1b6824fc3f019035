//! What went over a network while a workload ran.

use nestor_link::Sent;
use nestor_stack::{Layer, LayerIndex, NfsVersion};
use nestor_trace::CallMetrics;
use nestor_trace::rpc::{MountUse, RpcCounts, RpcVersion};
use serde::{Deserialize, Serialize};

/// A network file system or network disk and the link below it, while the workload ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// The layer as written in the stack.
    pub layer: String,
    /// Its position in the stack, from the application down.
    pub position: LayerIndex,
    /// What the client has called; nothing of a network disk, whose requests are those of its block device.
    pub client: RpcCounts,
    /// What the server was called for. Of version 4, the operations within the calls.
    pub server: RpcCounts,
    /// What programs of the client asked for; absent where it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<MountUse>,
    /// The calls one by one, where they were recorded at both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Box<CallMetrics>>,
    /// What the client's machine has sent; the link's own count.
    pub to_server: Sent,
    /// What the server's machine has sent.
    pub to_client: Sent,
}

/// The version of a network file system; `None` of another layer.
pub fn rpc_version(layer: &Layer) -> Option<RpcVersion> {
    Some(match layer.network_file_system()?.version {
        NfsVersion::V3 => RpcVersion::V3,
        NfsVersion::V4_0 | NfsVersion::V4_1 | NfsVersion::V4_2 => RpcVersion::V4,
    })
}
