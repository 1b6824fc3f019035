//! `rsync`: a copy by rsync from its daemon, without encryption.

use super::{Transfer, TransferEnds, TransferServer, words};
use crate::Layer;

pub(in crate::layers::sourced) const TRANSFER: Transfer = Transfer {
    name: "rsync",
    summary: "rsync from its daemon, the whole file",
    options: &[],
    packages: &["rsync"],
    many_at_once: true,
    server,
    fetch,
};

/// The port of rsync's daemon (IANA, `rsync`).
const PORT: u16 = 873;

/// What the daemon calls the directory of the image.
const MODULE: &str = "images";

fn server(_layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let configuration = ends.own("rsyncd.conf");
    let text = format!(
        "uid = root\ngid = root\nuse chroot = no\nread only = yes\n[{MODULE}]\npath = {}\n",
        ends.source_directory
    );
    TransferServer {
        files: vec![(configuration.clone(), text)],
        command: words(["rsync", "--daemon", "--no-detach", "--config", &configuration]),
        port: Some(PORT),
        ..TransferServer::default()
    }
}

fn fetch(_layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let from = format!("rsync://{}/{MODULE}/{}", ends.repository_address, ends.source_file);
    words(["rsync", "--whole-file", "--inplace", &from, ends.target])
}
