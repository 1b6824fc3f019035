//! `http`: a download by HTTP.

use super::{Reach, Transfer, TransferEnds, TransferServer, words};
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
    programs: &[("curl", "curl"), ("aria2c", "aria2"), ("nginx", "nginx-light")],
    many_at_once: true,
    on_users_networks: true,
    server,
    fetch,
};

/// The port of HTTP (RFC 9110, section 4.2.1).
const PORT: u16 = 80;

fn server(_layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let configuration = ends.own("nginx.conf");
    let (listen, settings) = match ends.reach {
        Reach::Lab => (PORT.to_string(), String::new()),
        Reach::Users => (ends.authority(), settings_at_users(ends)),
    };
    // `sendfile` is what nginx is used with where files are large.
    let text = format!(
        "user root;\nworker_processes auto;\npid {pid};\nerror_log stderr;\nevents {{}}\nhttp {{\n  access_log off;\n  \
         sendfile on;\n{settings}  server {{ listen {listen}; root {root}; }}\n}}\n",
        pid = ends.own("nginx.pid"),
        root = ends.source_directory,
    );
    let mut command = words(["nginx", "-c", &configuration, "-g", "daemon off;"]);
    if ends.reach == Reach::Users {
        // Before it has read its configuration, it would write to the machine's own log.
        command.extend(words(["-e", "stderr"]));
    }
    TransferServer {
        files: vec![(configuration, text)],
        command,
        port: Some(ends.port(PORT)),
        ..TransferServer::default()
    }
}

/// Who may read, and where nginx makes the directories that it makes at its start in any case.
fn settings_at_users(ends: &TransferEnds<'_>) -> String {
    let modules = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let directories = modules.map(|module| format!("  {module}_temp_path {};\n", ends.own(module)));
    format!("  allow {};\n  deny all;\n{}", ends.node_address, directories.concat())
}

fn fetch(layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let from = format!("http://{}/{}", ends.authority(), ends.source_file);
    let Some(ranges) = layer.option(RANGES.name).filter(|ranges| *ranges != "1") else {
        let mut argv = words(["curl"]);
        if ends.reach == Reach::Users {
            // Without the user's configuration, which has to be said first.
            argv.push("--disable".to_owned());
        }
        argv.extend(words(["--silent", "--show-error", "--fail", "--output", ends.target, &from]));
        return argv;
    };
    let (directory, file) = ends.target.rsplit_once('/').unwrap_or(("", ends.target));
    let mut argv = words(["aria2c", "--quiet", "--no-conf", "--allow-overwrite", "--file-allocation=none"]);
    argv.extend([format!("--split={ranges}"), format!("--max-connection-per-server={ranges}")]);
    // Smaller parts than the file's share would be fetched by fewer connections.
    argv.extend(words(["--min-split-size=1M", "--dir", directory, "--out", file, &from]));
    argv
}
