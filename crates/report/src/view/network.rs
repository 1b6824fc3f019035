//! What went over networks: `nestor run` of a stack with a link.

use nestor_link::Sent;
use nestor_results::{Measured, NetworkRecord};
use nestor_text::units;
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
    /// Calls that the server counted; of version 4, operations within calls.
    pub server_calls: u64,
    /// For one operation of the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_operation: Option<f64>,
    /// Bytes of the calls.
    pub sent_bytes: u64,
    /// Bytes of the replies.
    pub received_bytes: u64,
    /// Mean time from a call to its reply, in milliseconds.
    pub response_ms: f64,
}

impl NetworkView {
    /// Of all networks of a run.
    pub fn all_of(measured: &Measured) -> Vec<Self> {
        let operations: u64 = measured.load.operations.values().map(|class| class.operations).sum();
        measured.networks.iter().map(|network| Self::of(network, operations)).collect()
    }

    fn of(network: &NetworkRecord, operations: u64) -> Self {
        let per_operation = |calls: u64| (operations > 0).then(|| calls as f64 / operations as f64);
        let mut procedures: Vec<ProcedureRow> = network
            .client
            .iter()
            .map(|(procedure, of_one)| ProcedureRow {
                procedure: procedure.to_owned(),
                calls: of_one.calls,
                server_calls: network.server.calls_of(procedure),
                per_operation: per_operation(of_one.calls),
                sent_bytes: of_one.sent_bytes,
                received_bytes: of_one.received_bytes,
                response_ms: of_one.response_ms as f64 / of_one.calls.max(1) as f64,
            })
            .collect();
        procedures.sort_by_key(|row| std::cmp::Reverse(row.calls));
        let calls = network.client.calls();
        Self {
            layer: network.layer.clone(),
            procedures,
            calls,
            calls_per_operation: per_operation(calls).filter(|_| calls > 0),
            to_server: network.to_server.clone(),
            to_client: network.to_client.clone(),
        }
    }
}

impl NetworkView {
    /// `link: 5 120 frames and 5.1 MiB to the server, 3 100 frames and 300 KiB to the client`.
    pub fn link_words(&self) -> String {
        let ways = [("server", &self.to_server), ("client", &self.to_client)].map(|(end, sent)| {
            let lost = match sent.lost {
                0 => String::new(),
                lost => format!(" ({} lost)", units::count(lost)),
            };
            let frames = units::count(sent.frames);
            format!("{frames} frames and {}{lost} to the {end}", units::bytes(sent.bytes))
        });
        format!("link: {}", ways.join(", "))
    }
}
