//! `rsync`: a copy by rsync from its daemon, without encryption.

use super::{Reach, Transfer, TransferEnds, TransferServer, words};
use crate::Layer;

pub(in crate::layers::sourced) const TRANSFER: Transfer = Transfer {
    name: "rsync",
    summary: "rsync from its daemon, the whole file",
    options: &[],
    packages: &["rsync"],
    programs: &[("rsync", "rsync")],
    many_at_once: true,
    on_users_networks: true,
    server,
    fetch,
};

/// The port of rsync's daemon (IANA, `rsync`).
const PORT: u16 = 873;

/// What the daemon calls the directory of the image.
const MODULE: &str = "images";

fn server(_layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let configuration = ends.own("rsyncd.conf");
    let settings = match ends.reach {
        Reach::Lab => String::new(),
        Reach::Users => format!(
            "address = {}\nport = {}\nhosts allow = {}\nlog file = {}\n",
            ends.repository_address,
            ends.port(PORT),
            ends.node_address,
            ends.own("rsyncd.log")
        ),
    };
    let text = format!(
        "{settings}uid = root\ngid = root\nuse chroot = no\nread only = yes\n[{MODULE}]\npath = {}\n",
        ends.source_directory
    );
    TransferServer {
        files: vec![(configuration.clone(), text)],
        command: words(["rsync", "--daemon", "--no-detach", "--config", &configuration]),
        port: Some(ends.port(PORT)),
        ..TransferServer::default()
    }
}

fn fetch(_layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let from = format!("rsync://{}/{MODULE}/{}", ends.authority(), ends.source_file);
    words(["rsync", "--whole-file", "--inplace", &from, ends.target])
}
