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
    /// Its programs, each with the Debian package that has it.
    pub programs: &'static [Program],
    /// Whether one node can fetch several copies at the same time.
    pub many_at_once: bool,
    /// Whether it may run on a network that has other machines than the two.
    pub on_users_networks: bool,
    /// What runs at the repository meanwhile.
    pub server: fn(&Layer, &TransferEnds<'_>) -> TransferServer,
    /// The command that runs on the node until all of the file is there.
    pub fetch: fn(&Layer, &TransferEnds<'_>) -> Vec<String>,
}

/// A program with the Debian package that has it.
pub type Program = (&'static str, &'static str);

impl Transfer {
    /// The programs that it runs for a layer on machines of the user's: at the repository, and on the node.
    pub fn programs_at(&self, layer: &Layer) -> [Vec<Program>; 2] {
        let ends = TransferEnds::NOWHERE;
        let server = (self.server)(layer, &ends);
        let at_repository: Vec<String> = server.prepare.concat().into_iter().chain(server.command).collect();
        [at_repository, (self.fetch)(layer, &ends)].map(|words| {
            self.programs.iter().copied().filter(|(name, _)| words.iter().any(|word| word == name)).collect()
        })
    }
}

/// The name under which both machines know the address of the repository on the link.
pub const REPOSITORY_NAME: &str = "repository";

/// The same of the node.
pub const NODE_NAME: &str = "node";

/// Who is on the network of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The two machines of the lab alone.
    Lab,
    /// Machines of the user's, with servers and settings of their own: the server has a port of its own, takes connections at one address and
    /// from the node alone, and offers nothing but the image, to read.
    Users,
}

/// The port of a server on a machine of the user's, whatever its protocol: the usual ones may be in use there, and a firewall has to let pass
/// one only. IANA has assigned it to nobody.
pub const USERS_PORT: u16 = 20_810;

/// A file of the transfer's own on machines of the user's, which keep their `/etc/hosts`: the names of both as that would have them.
pub const HOST_NAMES: &str = "hosts";

/// Where an image is and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct TransferEnds<'a> {
    /// Who is on its network.
    pub reach: Reach,
    /// The address of the repository on the link.
    pub repository_address: &'a str,
    /// The address of the node.
    pub node_address: &'a str,
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
    /// A directory for the transfer's own files on the machine that is told what to do: for the server the repository's.
    pub own_directory: &'a str,
    /// How fast the link carries frames.
    pub link_rate: BitRate,
    /// How many copies are made at the same time, each to a target of its own.
    pub copies: u32,
}

impl TransferEnds<'_> {
    /// Machines of the user's of which nothing else is known yet.
    const NOWHERE: TransferEnds<'static> = TransferEnds {
        reach: Reach::Users,
        repository_address: "",
        node_address: "",
        repository_interface: "",
        node_interface: "",
        source_directory: "",
        source_file: "",
        target: "",
        own_directory: "",
        link_rate: BitRate(0),
        copies: 1,
    };

    /// The path of the image at the repository.
    pub(super) fn source(&self) -> String {
        format!("{}/{}", self.source_directory, self.source_file)
    }

    /// The port of the server, which has a registered one.
    pub(super) const fn port(&self, registered: u16) -> u16 {
        match self.reach {
            Reach::Lab => registered,
            Reach::Users => USERS_PORT,
        }
    }

    /// The address of the server with its port, of which programs know the registered one.
    pub(super) fn authority(&self) -> String {
        match self.reach {
            Reach::Lab => self.repository_address.to_owned(),
            Reach::Users => format!("{}:{USERS_PORT}", self.repository_address),
        }
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
    /// Names of files in the server's own directory that [`Self::prepare`] made and that the node needs in its own.
    pub for_the_node: Vec<&'static str>,
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
        reach: Reach::Lab,
        repository_address: "10.78.5.1",
        node_address: "10.78.5.2",
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
        commands_of(layer, &ENDS)
    }

    /// The same between machines of the user's.
    fn users_commands(layer: &str) -> String {
        commands_of(layer, &TransferEnds { reach: Reach::Users, ..ENDS })
    }

    fn commands_of(layer: &str, ends: &TransferEnds<'_>) -> String {
        let layer = Layer::parse(layer).unwrap();
        let transfer = layer.copy().unwrap().transfer;
        let server = (transfer.server)(&layer, ends);
        let files = server.files.iter().map(|(path, contents)| format!("{path}:\n{contents}"));
        let prepare = server.prepare.iter().map(|argv| argv.join(" "));
        let (command, fetch) = (server.command.join(" "), (transfer.fetch)(&layer, ends).join(" "));
        files.chain(prepare).chain([command, fetch]).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_knows_which_programs_it_runs_where_and_their_packages() {
        let needed = |layer: &str| {
            let layer = Layer::parse(layer).unwrap();
            let transfer = layer.copy().unwrap().transfer;
            for (program, package) in transfer.programs {
                assert!(transfer.packages.contains(package), "{program}");
            }
            transfer
                .programs_at(&layer)
                .map(|programs| programs.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        };
        assert_eq!(needed("copy:scp"), [vec!["/usr/sbin/sshd", "ssh-keygen"], vec!["scp"]]);
        assert_eq!(needed("copy:gridftp"), [["globus-gridftp-server"], ["globus-url-copy"]]);
        assert_eq!(needed("copy:nbd"), [["qemu-nbd"], ["nbdcopy"]]);
        assert_eq!(needed("copy:http"), [["nginx"], ["curl"]]);
        assert_eq!(needed("copy:http:ranges=2"), [["nginx"], ["aria2c"]]);
        assert_eq!(needed("copy:rsync"), [["rsync"], ["rsync"]]);
    }

    #[test]
    fn between_machines_of_the_users_only_the_node_reads_and_only_the_image() {
        insta::assert_snapshot!(users_commands("copy:scp"), @r#"
        /w/transfer/sshd_config:
        ListenAddress 10.78.5.1
        AllowUsers root@10.78.5.2
        ForceCommand internal-sftp -R
        DisableForwarding yes
        PermitTTY no
        PermitUserRC no
        Port 20810
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

        ssh-keygen -q -t ed25519 -N  -f /w/transfer/host_key
        ssh-keygen -q -t ed25519 -N  -f /w/transfer/user_key
        unshare --mount -- sh -c mount -t tmpfs -o mode=755 none /run && mkdir /run/sshd && exec "$@" sh /usr/sbin/sshd -D -e -f /w/transfer/sshd_config
        scp -q -i /w/transfer/user_key -F none -o IdentitiesOnly=yes -P 20810 -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o Compression=no root@10.78.5.1:/m6/disk.raw /m3/disk.raw
        "#);
        insta::assert_snapshot!(users_commands("copy:gridftp"), @r#"
        /w/transfer/gridftp.conf:

        unshare --mount -- sh -c mount --bind -- "$1" /etc/hosts && shift && exec "$@" sh /w/transfer/hosts env GLOBUS_HOSTNAME=repository globus-gridftp-server -aa -anonymous-user root -allow-root -port 20810 -control-interface 10.78.5.1 -data-interface 10.78.5.1 -allow-from 10.78.5.2 -restrict-paths R/m6 -c /w/transfer/gridftp.conf
        unshare --mount -- sh -c mount --bind -- "$1" /etc/hosts && shift && exec "$@" sh /w/transfer/hosts env GLOBUS_HOSTNAME=node globus-url-copy ftp://10.78.5.1:20810/m6/disk.raw file:///m3/disk.raw
        "#);
        insta::assert_snapshot!(users_commands("copy:nbd"), @r"
        qemu-nbd --read-only --persistent --shared 16 --port 20810 --format raw --bind 10.78.5.1 /m6/disk.raw
        nbdcopy nbd://10.78.5.1:20810 /m3/disk.raw
        ");
        insta::assert_snapshot!(users_commands("copy:http"), @r"
        /w/transfer/nginx.conf:
        user root;
        worker_processes auto;
        pid /w/transfer/nginx.pid;
        error_log stderr;
        events {}
        http {
          access_log off;
          sendfile on;
          allow 10.78.5.2;
          deny all;
          client_body_temp_path /w/transfer/client_body;
          proxy_temp_path /w/transfer/proxy;
          fastcgi_temp_path /w/transfer/fastcgi;
          uwsgi_temp_path /w/transfer/uwsgi;
          scgi_temp_path /w/transfer/scgi;
          server { listen 10.78.5.1:20810; root /m6; }
        }

        nginx -c /w/transfer/nginx.conf -g daemon off; -e stderr
        curl --disable --silent --show-error --fail --output /m3/disk.raw http://10.78.5.1:20810/disk.raw
        ");
        insta::assert_snapshot!(users_commands("copy:http:ranges=4"), @r"
        /w/transfer/nginx.conf:
        user root;
        worker_processes auto;
        pid /w/transfer/nginx.pid;
        error_log stderr;
        events {}
        http {
          access_log off;
          sendfile on;
          allow 10.78.5.2;
          deny all;
          client_body_temp_path /w/transfer/client_body;
          proxy_temp_path /w/transfer/proxy;
          fastcgi_temp_path /w/transfer/fastcgi;
          uwsgi_temp_path /w/transfer/uwsgi;
          scgi_temp_path /w/transfer/scgi;
          server { listen 10.78.5.1:20810; root /m6; }
        }

        nginx -c /w/transfer/nginx.conf -g daemon off; -e stderr
        aria2c --quiet --no-conf --allow-overwrite --file-allocation=none --split=4 --max-connection-per-server=4 --min-split-size=1M --dir /m3 --out disk.raw http://10.78.5.1:20810/disk.raw
        ");
        insta::assert_snapshot!(users_commands("copy:rsync"), @r"
        /w/transfer/rsyncd.conf:
        address = 10.78.5.1
        port = 20810
        hosts allow = 10.78.5.2
        log file = /w/transfer/rsyncd.log
        uid = root
        gid = root
        use chroot = no
        read only = yes
        [images]
        path = /m6

        rsync --daemon --no-detach --config /w/transfer/rsyncd.conf
        rsync --whole-file --inplace rsync://10.78.5.1:20810/images/disk.raw /m3/disk.raw
        ");
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
