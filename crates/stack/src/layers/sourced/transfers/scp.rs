//! `scp`: a copy over SSH, encrypted, over one connection.

use super::{Transfer, TransferEnds, TransferServer, words};
use crate::{Layer, OptionKind, OptionSpec};

/// The option with the cipher. `CIPHERS` in OpenSSH's cipher.c, without those of block chaining, which servers refuse by default.
pub(in crate::layers::sourced) const CIPHER: OptionSpec = OptionSpec {
    name: "cipher",
    summary: "cipher of the connection (unset: the first that both sides know, chacha20-poly1305)",
    kind: OptionKind::Choice(&[
        "chacha20-poly1305",
        "aes128-ctr",
        "aes192-ctr",
        "aes256-ctr",
        "aes128-gcm",
        "aes256-gcm",
    ]),
    default: None,
};

pub(in crate::layers::sourced) const TRANSFER: Transfer = Transfer {
    name: "scp",
    summary: "scp of OpenSSH: one encrypted connection",
    options: &[CIPHER.name],
    packages: &["openssh-client", "openssh-server"],
    many_at_once: true,
    server,
    fetch,
};

/// The port of SSH (RFC 4250, section 4.2).
const PORT: u16 = 22;

/// Connections that may be without a user yet at one moment. Of more than ten, sshd drops some by chance if nothing is said (`MaxStartups` in
/// sshd_config(5)).
const MOST_STARTS: u32 = 64;

/// What OpenSSH calls ciphers that it did not take from a standard without saying whose they are.
fn cipher_name(written: &str) -> String {
    if written.ends_with("-ctr") { written.to_owned() } else { format!("{written}@openssh.com") }
}

fn server(_layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let [configuration, host_key, user_key] =
        ["sshd_config", "host_key", "user_key"].map(|name| ends.own(name));
    let make_key = |path: &str| words(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path]);
    let text = format!(
        "Port {PORT}\nHostKey {host_key}\nAuthorizedKeysFile {user_key}.pub\nMaxStartups {MOST_STARTS}\nPermitRootLogin prohibit-password\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\nStrictModes no\n\
         Subsystem sftp internal-sftp\nPidFile none\n"
    );
    TransferServer {
        files: vec![(configuration.clone(), text)],
        // sshd changes its root to that directory before a user is known (`_PATH_PRIVSEP_CHROOT_DIR` in Debian's build).
        prepare: vec![words(["mkdir", "-p", "/run/sshd"]), make_key(&host_key), make_key(&user_key)],
        for_the_node: vec![user_key],
        command: words(["/usr/sbin/sshd", "-D", "-e", "-f", &configuration]),
        port: Some(PORT),
    }
}

/// Nobody else is on the link, so the key of the server is not asked for.
fn fetch(layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let key = ends.own("user_key");
    let mut argv = words(["scp", "-q", "-i", &key]);
    for option in
        ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "Compression=no"]
    {
        argv.extend(words(["-o", option]));
    }
    if let Some(cipher) = layer.option(CIPHER.name) {
        argv.extend(words(["-c", &cipher_name(cipher)]));
    }
    argv.extend([format!("root@{}:{}", ends.repository_address, ends.source()), ends.target.to_owned()]);
    argv
}
