//! `nbd`: a copy of an exported disk by the protocol of the network block device.

use super::{Reach, Transfer, TransferEnds, TransferServer, words};
use crate::{Layer, OptionKind, OptionSpec};

/// The option with the number of connections.
pub(in crate::layers::sourced) const CONNECTIONS: OptionSpec = OptionSpec {
    name: "connections",
    summary: "connections to the server, side by side (unset: 4)",
    kind: OptionKind::Number { min: 1, max: MOST_CONNECTIONS as u64 },
    // nbdcopy(1) says what it does by itself.
    default: None,
};

pub(in crate::layers::sourced) const TRANSFER: Transfer = Transfer {
    name: "nbd",
    summary: "nbdcopy of libnbd from qemu-nbd: several requests at once, and holes of the image stay holes",
    options: &[CONNECTIONS.name],
    packages: &["libnbd-bin", "qemu-utils"],
    programs: &[("nbdcopy", "libnbd-bin"), ("qemu-nbd", "qemu-utils")],
    many_at_once: true,
    on_users_networks: true,
    server,
    fetch,
};

/// The port that is registered for it (IANA, `nbd`).
const PORT: u16 = 10809;

/// Connections of one copy.
const MOST_CONNECTIONS: u32 = 16;

/// The bytes of the file as they are, whatever image they are.
fn server(_layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let port = ends.port(PORT).to_string();
    let shared = (MOST_CONNECTIONS * ends.copies).to_string();
    let argv =
        ["qemu-nbd", "--read-only", "--persistent", "--shared", &shared, "--port", &port, "--format", "raw"];
    let mut command = words(argv);
    if ends.reach == Reach::Users {
        command.extend(words(["--bind", ends.repository_address]));
    }
    command.push(ends.source());
    TransferServer { command, port: Some(ends.port(PORT)), ..TransferServer::default() }
}

fn fetch(layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let mut argv = words(["nbdcopy"]);
    if let Some(connections) = layer.option(CONNECTIONS.name) {
        argv.push(format!("--connections={connections}"));
    }
    argv.extend([format!("nbd://{}:{}", ends.repository_address, ends.port(PORT)), ends.target.to_owned()]);
    argv
}
