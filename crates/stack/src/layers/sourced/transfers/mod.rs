//! The programs that copy an image from the repository to the node, one file each, and the list of them.

pub(super) mod gridftp;
pub(super) mod http;
pub(super) mod multicast;
pub(super) mod nbd;
pub(super) mod rsync;
pub(super) mod scp;

use crate::{BitRate, Layer};

/// A program that copies a file from one machine to another.
#[derive(Debug)]
pub struct Transfer {
    /// The name in a stack.
    pub name: &'static str,
    /// One line: what it is.
    pub summary: &'static str,
    /// The options of `copy` that it takes.
    pub options: &'static [&'static str],
    /// The Debian packages that both machines need for it.
    pub packages: &'static [&'static str],
    /// Whether one node can fetch several copies at the same time.
    pub many_at_once: bool,
    /// What runs at the repository meanwhile.
    pub server: fn(&Layer, &TransferEnds<'_>) -> TransferServer,
    /// The command that runs on the node until all of the file is there.
    pub fetch: fn(&Layer, &TransferEnds<'_>) -> Vec<String>,
}

/// The name under which both machines know the address of the repository on the link.
pub const REPOSITORY_NAME: &str = "repository";

/// The same of the node.
pub const NODE_NAME: &str = "node";

/// Where an image is and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct TransferEnds<'a> {
    /// The address of the repository on the link.
    pub repository_address: &'a str,
    /// What the repository calls its interface.
    pub repository_interface: &'a str,
    /// What the node calls its interface.
    pub node_interface: &'a str,
    /// The directory of the image at the repository, without a `/` at its end.
    pub source_directory: &'a str,
    /// The name of the image's file there.
    pub source_file: &'a str,
    /// The path of the image on the node.
    pub target: &'a str,
    /// A directory for the transfer's own files, on both machines.
    pub own_directory: &'a str,
    /// How fast the link carries frames.
    pub link_rate: BitRate,
    /// How many copies are made at the same time, each to a target of its own.
    pub copies: u32,
}

impl TransferEnds<'_> {
    /// The path of the image at the repository.
    pub(super) fn source(&self) -> String {
        format!("{}/{}", self.source_directory, self.source_file)
    }

    /// A file of the transfer's own.
    pub(super) fn own(&self, name: &str) -> String {
        format!("{}/{name}", self.own_directory)
    }
}

/// What runs at the repository while the image is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferServer {
    /// Files to write before anything runs: path and contents.
    pub files: Vec<(String, String)>,
    /// Commands that end by themselves, before the server starts.
    pub prepare: Vec<Vec<String>>,
    /// Files that [`Self::prepare`] made and that the node needs at the same path.
    pub for_the_node: Vec<String>,
    /// The server, which stays in the foreground.
    pub command: Vec<String>,
    /// The TCP port at which it takes connections once it is ready; `None` of one that waits for nobody to connect.
    pub port: Option<u16>,
}

/// Words of a command.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// All of them, in the order in which help and messages list them.
pub const TRANSFERS: [&Transfer; 6] = [
    &scp::TRANSFER,
    &gridftp::TRANSFER,
    &nbd::TRANSFER,
    &http::TRANSFER,
    &rsync::TRANSFER,
    &multicast::TRANSFER,
];

/// Their names, as values of an option.
pub(super) const NAMES: [&str; TRANSFERS.len()] = {
    let mut names = [""; TRANSFERS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = TRANSFERS[at].name;
        at += 1;
    }
    names
};

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: TransferEnds<'static> = TransferEnds {
        repository_address: "10.78.5.1",
        repository_interface: "eth0",
        node_interface: "eth1",
        source_directory: "/m6",
        source_file: "disk.raw",
        target: "/m3/disk.raw",
        own_directory: "/w/transfer",
        link_rate: BitRate(1_000_000_000),
        copies: 1,
    };

    /// The commands of the server and of the node.
    fn commands(layer: &str) -> String {
        let layer = Layer::parse(layer).unwrap();
        let transfer = layer.copy().unwrap().transfer;
        let server = (transfer.server)(&layer, &ENDS);
        let files = server.files.iter().map(|(path, contents)| format!("{path}:\n{contents}"));
        let prepare = server.prepare.iter().map(|argv| argv.join(" "));
        let (command, fetch) = (server.command.join(" "), (transfer.fetch)(&layer, &ENDS).join(" "));
        files.chain(prepare).chain([command, fetch]).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_has_its_server_and_its_command() {
        insta::assert_snapshot!(commands("copy:scp:cipher=aes128-gcm"), @r"
        /w/transfer/sshd_config:
        Port 22
        HostKey /w/transfer/host_key
        AuthorizedKeysFile /w/transfer/user_key.pub
        MaxStartups 64
        PermitRootLogin prohibit-password
        PasswordAuthentication no
        KbdInteractiveAuthentication no
        UsePAM no
        UseDNS no
        StrictModes no
        Subsystem sftp internal-sftp
        PidFile none

        mkdir -p /run/sshd
        ssh-keygen -q -t ed25519 -N  -f /w/transfer/host_key
        ssh-keygen -q -t ed25519 -N  -f /w/transfer/user_key
        /usr/sbin/sshd -D -e -f /w/transfer/sshd_config
        scp -q -i /w/transfer/user_key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o Compression=no -c aes128-gcm@openssh.com root@10.78.5.1:/m6/disk.raw /m3/disk.raw
        ");
        insta::assert_snapshot!(commands("copy:gridftp:streams=4"), @r"
        env GLOBUS_HOSTNAME=repository globus-gridftp-server -aa -anonymous-user root -allow-root -port 2811
        env GLOBUS_HOSTNAME=node globus-url-copy -parallel 4 ftp://10.78.5.1:2811/m6/disk.raw file:///m3/disk.raw
        ");
        insta::assert_snapshot!(commands("copy:nbd"), @r"
        qemu-nbd --read-only --persistent --shared 16 --port 10809 --format raw /m6/disk.raw
        nbdcopy nbd://10.78.5.1:10809 /m3/disk.raw
        ");
        insta::assert_snapshot!(commands("copy:http"), @r"
        /w/transfer/nginx.conf:
        user root;
        worker_processes auto;
        pid /w/transfer/nginx.pid;
        error_log stderr;
        events {}
        http {
          access_log off;
          sendfile on;
          server { listen 80; root /m6; }
        }

        nginx -c /w/transfer/nginx.conf -g daemon off;
        curl --silent --show-error --fail --output /m3/disk.raw http://10.78.5.1/disk.raw
        ");
        insta::assert_snapshot!(commands("copy:http:ranges=4"), @r"
        /w/transfer/nginx.conf:
        user root;
        worker_processes auto;
        pid /w/transfer/nginx.pid;
        error_log stderr;
        events {}
        http {
          access_log off;
          sendfile on;
          server { listen 80; root /m6; }
        }

        nginx -c /w/transfer/nginx.conf -g daemon off;
        aria2c --quiet --no-conf --allow-overwrite --file-allocation=none --split=4 --max-connection-per-server=4 --min-split-size=1M --dir /m3 --out disk.raw http://10.78.5.1/disk.raw
        ");
        insta::assert_snapshot!(commands("copy:rsync"), @r"
        /w/transfer/rsyncd.conf:
        uid = root
        gid = root
        use chroot = no
        read only = yes
        [images]
        path = /m6

        rsync --daemon --no-detach --config /w/transfer/rsyncd.conf
        rsync --whole-file --inplace rsync://10.78.5.1/images/disk.raw /m3/disk.raw
        ");
        insta::assert_snapshot!(commands("copy:multicast"), @r"
        udp-sender --file /m6/disk.raw --interface eth0 --max-bitrate 900000000 --min-receivers 1 --full-duplex --portbase 9000 --mcast-rdv-address 224.0.0.1 --nokbd
        udp-receiver --file /m3/disk.raw --interface eth1 --portbase 9000 --mcast-rdv-address 224.0.0.1 --nokbd
        ");
        insta::assert_snapshot!(commands("copy:multicast:rate=50mbit"), @r"
        udp-sender --file /m6/disk.raw --interface eth0 --max-bitrate 50000000 --min-receivers 1 --full-duplex --portbase 9000 --mcast-rdv-address 224.0.0.1 --nokbd
        udp-receiver --file /m3/disk.raw --interface eth1 --portbase 9000 --mcast-rdv-address 224.0.0.1 --nokbd
        ");
    }
}
