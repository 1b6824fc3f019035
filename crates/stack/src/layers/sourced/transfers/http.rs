//! `http`: a download by HTTP.

use super::{Transfer, TransferEnds, TransferServer, words};
use crate::{Layer, OptionKind, OptionSpec};

/// The option with the number of ranges.
pub(in crate::layers::sourced) const RANGES: OptionSpec = OptionSpec {
    name: "ranges",
    summary: "parts of the file that are downloaded side by side: 1 by curl, more by aria2 (unset: 1)",
    // The most connections to one server that aria2c(1) takes.
    kind: OptionKind::Number { min: 1, max: 16 },
    default: None,
};

pub(in crate::layers::sourced) const TRANSFER: Transfer = Transfer {
    name: "http",
    summary: "curl, or aria2 for several ranges, from nginx",
    options: &[RANGES.name],
    packages: &["curl", "aria2", "nginx-light"],
    many_at_once: true,
    server,
    fetch,
};

/// The port of HTTP (RFC 9110, section 4.2.1).
const PORT: u16 = 80;

fn server(_layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let configuration = ends.own("nginx.conf");
    // `sendfile` is what nginx is used with where files are large.
    let text = format!(
        "user root;\nworker_processes auto;\npid {pid};\nerror_log stderr;\nevents {{}}\nhttp {{\n  access_log off;\n  \
         sendfile on;\n  server {{ listen {PORT}; root {root}; }}\n}}\n",
        pid = ends.own("nginx.pid"),
        root = ends.source_directory,
    );
    TransferServer {
        files: vec![(configuration.clone(), text)],
        command: words(["nginx", "-c", &configuration, "-g", "daemon off;"]),
        port: Some(PORT),
        ..TransferServer::default()
    }
}

fn fetch(layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let from = format!("http://{}/{}", ends.repository_address, ends.source_file);
    let Some(ranges) = layer.option(RANGES.name).filter(|ranges| *ranges != "1") else {
        return words(["curl", "--silent", "--show-error", "--fail", "--output", ends.target, &from]);
    };
    let (directory, file) = ends.target.rsplit_once('/').unwrap_or(("", ends.target));
    let mut argv = words(["aria2c", "--quiet", "--no-conf", "--allow-overwrite", "--file-allocation=none"]);
    argv.extend([format!("--split={ranges}"), format!("--max-connection-per-server={ranges}")]);
    // Smaller parts than the file's share would be fetched by fewer connections.
    argv.extend(words(["--min-split-size=1M", "--dir", directory, "--out", file, &from]));
    argv
}
