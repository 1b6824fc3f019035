//! `gridftp`: FTP with several streams for the data (GFD.20). With the authentication of a grid it is called GSIFTP.

use super::{NODE_NAME, REPOSITORY_NAME, Transfer, TransferEnds, TransferServer, words};
use crate::{Layer, OptionKind, OptionSpec};

/// The option with the number of streams.
pub(in crate::layers::sourced) const STREAMS: OptionSpec = OptionSpec {
    name: "streams",
    summary: "connections for the data, side by side (unset: 1)",
    kind: OptionKind::Number { min: 1, max: 64 },
    default: None,
};

pub(in crate::layers::sourced) const TRANSFER: Transfer = Transfer {
    name: "gridftp",
    summary: "globus-url-copy from globus-gridftp-server: data without encryption, over one or several connections",
    options: &[STREAMS.name],
    packages: &["globus-gass-copy-progs", "globus-gridftp-server-progs"],
    many_at_once: true,
    server,
    fetch,
};

/// The port of GridFTP that is registered for it (IANA, `gsiftp`).
const PORT: u16 = 2811;

/// A program of Globus asks for the address of its machine's own name, and fails without one.
fn on(machine: &str) -> Vec<String> {
    vec!["env".to_owned(), format!("GLOBUS_HOSTNAME={machine}")]
}

/// Everybody may read, without authentication: nobody else is on the link.
fn server(_layer: &Layer, _ends: &TransferEnds<'_>) -> TransferServer {
    let port = PORT.to_string();
    let argv = ["globus-gridftp-server", "-aa", "-anonymous-user", "root", "-allow-root", "-port", &port];
    TransferServer {
        command: [on(REPOSITORY_NAME), words(argv)].concat(),
        port: Some(PORT),
        ..TransferServer::default()
    }
}

fn fetch(layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let mut argv = [on(NODE_NAME), words(["globus-url-copy"])].concat();
    if let Some(streams) = layer.option(STREAMS.name) {
        argv.extend(words(["-parallel", streams]));
    }
    let from = format!("ftp://{}:{PORT}{}", ends.repository_address, ends.source());
    argv.extend([from, format!("file://{}", ends.target)]);
    argv
}
