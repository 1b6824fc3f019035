//! `gridftp`: FTP with several streams for the data (GFD.20). With the authentication of a grid it is called GSIFTP.

use super::{HOST_NAMES, NODE_NAME, REPOSITORY_NAME, Reach, Transfer, TransferEnds, TransferServer, words};
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
    programs: &[
        ("globus-gridftp-server", "globus-gridftp-server-progs"),
        ("globus-url-copy", "globus-gass-copy-progs"),
    ],
    many_at_once: true,
    on_users_networks: true,
    server,
    fetch,
};

/// The port of GridFTP that is registered for it (IANA, `gsiftp`).
const PORT: u16 = 2811;

/// Runs what follows where the first word is a file with the names of machines, which no other process sees.
const WITH_OWN_NAMES: &str = r#"mount --bind -- "$1" /etc/hosts && shift && exec "$@""#;

/// A program of Globus asks for the address of its machine's own name and for the name of its address, and fails without one.
fn on(machine: &str, ends: &TransferEnds<'_>) -> Vec<String> {
    let own_names = match ends.reach {
        Reach::Lab => Vec::new(),
        Reach::Users => {
            words(["unshare", "--mount", "--", "sh", "-c", WITH_OWN_NAMES, "sh", &ends.own(HOST_NAMES)])
        }
    };
    [own_names, words(["env", &format!("GLOBUS_HOSTNAME={machine}")])].concat()
}

/// Everybody on the link may read, without authentication.
fn server(_layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let port = ends.port(PORT).to_string();
    let argv = ["globus-gridftp-server", "-aa", "-anonymous-user", "root", "-allow-root", "-port", &port];
    let mut command = [on(REPOSITORY_NAME, ends), words(argv)].concat();
    let mut files = Vec::new();
    if ends.reach == Reach::Users {
        // What the machine's own server is told, where one is installed, is not for this one.
        let configuration = ends.own("gridftp.conf");
        let readable = format!("R{}", ends.source_directory);
        let address = ends.repository_address;
        command.extend(words(["-control-interface", address, "-data-interface", address]));
        command.extend(words(["-allow-from", ends.node_address, "-restrict-paths", &readable]));
        command.extend(words(["-c", &configuration]));
        files.push((configuration, String::new()));
    }
    TransferServer { files, command, port: Some(ends.port(PORT)), ..TransferServer::default() }
}

fn fetch(layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let mut argv = [on(NODE_NAME, ends), words(["globus-url-copy"])].concat();
    if let Some(streams) = layer.option(STREAMS.name) {
        argv.extend(words(["-parallel", streams]));
    }
    let from = format!("ftp://{}:{}{}", ends.repository_address, ends.port(PORT), ends.source());
    argv.extend([from, format!("file://{}", ends.target)]);
    argv
}
