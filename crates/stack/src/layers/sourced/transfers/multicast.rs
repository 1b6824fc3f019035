//! `multicast`: one sender for any number of receivers.

use super::{Transfer, TransferEnds, TransferServer};
use crate::{BitRate, Layer, OptionKind, OptionSpec};

/// The option with the rate at which it is sent.
pub(in crate::layers::sourced) const RATE: OptionSpec = OptionSpec {
    name: "rate",
    summary: "how fast it is sent, as multicast has no control of congestion (unset: nine tenths of the link's rate)",
    kind: OptionKind::BitRate { min: BitRate(10_000), max: BitRate(100_000_000_000) },
    default: None,
};

pub(in crate::layers::sourced) const TRANSFER: Transfer = Transfer {
    name: "multicast",
    summary: "udpcast: the file is sent once for all receivers, which ask again for what they missed",
    options: &[RATE.name],
    packages: &["udpcast"],
    programs: &[("udp-sender", "udpcast"), ("udp-receiver", "udpcast")],
    many_at_once: false,
    on_users_networks: false,
    server,
    fetch,
};

/// The port base of both programs, which is even and used with the next one (udp-sender(1)).
const PORT_BASE: &str = "9000";

/// Where both programs look for each other: all machines of the link (RFC 1112, section 4). By itself, the receiver uses the address of
/// broadcasts, which an interface need not have.
const RENDEZVOUS: &str = "224.0.0.1";

/// What both are told. Without `--nokbd` they wait for a key.
const MEETING: [&str; 5] = ["--portbase", PORT_BASE, "--mcast-rdv-address", RENDEZVOUS, "--nokbd"];

/// How fast it is sent: what is said, otherwise nine tenths of the link's rate. The headers of frames take 3 to 5 % of it.
fn rate(layer: &Layer, ends: &TransferEnds<'_>) -> u64 {
    let said: Option<BitRate> = layer.value(RATE.name);
    said.map_or(ends.link_rate.get() / 10 * 9, BitRate::get)
}

/// It waits for a receiver for each copy and ends after the file.
fn server(layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let (source, rate, copies) = (ends.source(), rate(layer, ends).to_string(), ends.copies.to_string());
    let argv = ["udp-sender", "--file", &source, "--interface", ends.repository_interface];
    let how = ["--max-bitrate", &rate, "--min-receivers", &copies, "--full-duplex"];
    TransferServer {
        command: argv.into_iter().chain(how).chain(MEETING).map(str::to_owned).collect(),
        port: None,
        ..TransferServer::default()
    }
}

fn fetch(_layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let argv = ["udp-receiver", "--file", ends.target, "--interface", ends.node_interface];
    argv.into_iter().chain(MEETING).map(str::to_owned).collect()
}
