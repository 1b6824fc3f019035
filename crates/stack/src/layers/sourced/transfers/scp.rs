//! `scp`: a copy over SSH, encrypted, over one connection.

use super::{Reach, Transfer, TransferEnds, TransferServer, words};
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
    programs: &[
        ("/usr/sbin/sshd", "openssh-server"),
        ("ssh-keygen", "openssh-client"),
        ("scp", "openssh-client"),
    ],
    many_at_once: true,
    on_users_networks: true,
    server,
    fetch,
};

/// The port of SSH (RFC 4250, section 4.2).
const PORT: u16 = 22;

/// Connections that may be without a user yet at one moment. Of more than ten, sshd drops some by chance if nothing is said (`MaxStartups` in
/// sshd_config(5)).
const MOST_STARTS: u32 = 64;

/// The key with which the node is let in.
const USER_KEY: &str = "user_key";

/// What OpenSSH calls ciphers that it did not take from a standard without saying whose they are.
fn cipher_name(written: &str) -> String {
    if written.ends_with("-ctr") { written.to_owned() } else { format!("{written}@openssh.com") }
}

/// The directory to which sshd changes its root before a user is known (`_PATH_PRIVSEP_CHROOT_DIR` in Debian's build).
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// Runs what follows where that directory is in memory and in no other process's sight: a machine of the user's need not have it.
const WITH_OWN_RUN: &str = r#"mount -t tmpfs -o mode=755 none /run && mkdir /run/sshd && exec "$@""#;

fn server(_layer: &Layer, ends: &TransferEnds<'_>) -> TransferServer {
    let [configuration, host_key, user_key] =
        ["sshd_config", "host_key", USER_KEY].map(|name| ends.own(name));
    let make_key = |path: &str| words(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path]);
    let port = ends.port(PORT);
    let settings = match ends.reach {
        Reach::Lab => String::new(),
        // Who has the key reads files, and does nothing else.
        Reach::Users => format!(
            "ListenAddress {}\nAllowUsers root@{}\nForceCommand internal-sftp -R\nDisableForwarding yes\nPermitTTY no\nPermitUserRC no\n",
            ends.repository_address, ends.node_address
        ),
    };
    let text = format!(
        "{settings}Port {port}\nHostKey {host_key}\nAuthorizedKeysFile {user_key}.pub\nMaxStartups {MOST_STARTS}\nPermitRootLogin prohibit-password\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\nStrictModes no\n\
         Subsystem sftp internal-sftp\nPidFile none\n"
    );
    let sshd = words(["/usr/sbin/sshd", "-D", "-e", "-f", &configuration]);
    let keys = [make_key(&host_key), make_key(&user_key)];
    let (first, command) = match ends.reach {
        Reach::Lab => (vec![words(["mkdir", "-p", PRIVILEGE_SEPARATION])], sshd),
        Reach::Users => {
            (Vec::new(), [words(["unshare", "--mount", "--", "sh", "-c", WITH_OWN_RUN, "sh"]), sshd].concat())
        }
    };
    TransferServer {
        files: vec![(configuration, text)],
        prepare: first.into_iter().chain(keys).collect(),
        for_the_node: vec![USER_KEY],
        command,
        port: Some(port),
    }
}

/// The key of the server is not asked for: both ends of the link are known, and what arrives is compared.
fn fetch(layer: &Layer, ends: &TransferEnds<'_>) -> Vec<String> {
    let key = ends.own(USER_KEY);
    let mut argv = words(["scp", "-q", "-i", &key]);
    if ends.reach == Reach::Users {
        // Without the user's configuration and agent.
        argv.extend(words(["-F", "none", "-o", "IdentitiesOnly=yes", "-P", &ends.port(PORT).to_string()]));
    }
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
