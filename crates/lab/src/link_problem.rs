//! Why this machine's own kernel cannot be the link of a stack.

use std::fmt;

use nestor_machine::{MachineError, NfsExport};
use nestor_stack::MachineLabel;
use nestor_stack::layers::network::NfsVersion;

/// A part of the kernel that a link, or what is on it, needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelPart {
    /// Network and mount namespaces.
    Namespaces,
    /// Pairs of virtual interfaces.
    VirtualInterfaces,
    /// Rate, delay and loss of an interface.
    Shaping,
    /// The NFS server.
    NfsServer,
    /// The NFS client.
    NfsClient,
    /// The NFS client's version 4.
    NfsClient4,
    /// Network disks.
    NetworkDisk,
}

impl KernelPart {
    /// Its module, or the option of what is never one.
    pub(crate) fn short(self) -> &'static str {
        match self.module_and_option() {
            (Some(module), _) => module,
            (None, option) => option,
        }
    }

    /// Its module, if it can be one, and the option of the kernel's configuration that makes it (the Kconfig files beside `kernel/nsproxy.c`,
    /// `drivers/net/veth.c`, `net/sched/sch_netem.c`, `fs/nfsd`, `fs/nfs` and `drivers/block/nbd.c`).
    fn module_and_option(self) -> (Option<&'static str>, &'static str) {
        match self {
            Self::Namespaces => (None, "CONFIG_NET_NS"),
            Self::VirtualInterfaces => (Some("veth"), "CONFIG_VETH"),
            Self::Shaping => (Some("sch_netem"), "CONFIG_NET_SCH_NETEM"),
            Self::NfsServer => (Some("nfsd"), "CONFIG_NFSD"),
            Self::NfsClient => (Some("nfs"), "CONFIG_NFS_FS"),
            Self::NfsClient4 => (Some("nfsv4"), "CONFIG_NFS_V4"),
            Self::NetworkDisk => (Some("nbd"), "CONFIG_BLK_DEV_NBD"),
        }
    }

    /// What it does for a link.
    fn purpose(self) -> &'static str {
        match self {
            Self::Namespaces => "network namespaces, of which the client is one",
            Self::VirtualInterfaces => "virtual interfaces, which are the ends of the link",
            Self::Shaping => "netem, which gives the link its rate, delay and loss",
            Self::NfsServer => "an NFS server",
            Self::NfsClient => "an NFS client",
            Self::NfsClient4 => "version 4 of the NFS client",
            Self::NetworkDisk => "network disks",
        }
    }
}

impl fmt::Display for KernelPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.module_and_option() {
            (Some(module), option) => write!(f, "{} (module {module}, {option})", self.purpose()),
            (None, option) => write!(f, "{} ({option})", self.purpose()),
        }
    }
}

/// A server of a network file system or network disk, which takes a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkService {
    /// `rpcbind`, the port mapper.
    PortMapper,
    /// The kernel's NFS server.
    Nfs,
    /// `rpc.mountd`.
    Mount,
    /// `qemu-nbd`, or another server of network disks.
    NetworkDisk,
    /// Whatever is where a repository serves its image.
    Images,
}

impl fmt::Display for NetworkService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PortMapper => "a port mapper (rpcbind)",
            Self::Nfs => "an NFS server",
            Self::Mount => "rpc.mountd",
            Self::NetworkDisk => "a server of network disks",
            Self::Images => "a server",
        })
    }
}

/// Why this machine's own kernel cannot be the link of a stack. Nothing has been made on the medium then.
#[derive(Debug, thiserror::Error)]
pub enum LinkProblem {
    /// Some module is missing.
    #[error(
        "the kernel of {machine} does not have {part}; load the module or boot a kernel that has it, or use `--on emulated`{}",
        said.as_ref().map_or_else(String::new, |said| format!("\n  {said}"))
    )]
    KernelLacks {
        /// Of which machine.
        machine: String,
        /// Which.
        part: KernelPart,
        /// What the step that needs it said, where it was tried.
        said: Option<MachineError>,
    },
    /// Something of the user's listens there.
    #[error(
        "{service} of yours runs on {machine} (TCP port {port}) and is left alone; stop it while Nestor measures, or use \
         `--on emulated`"
    )]
    ServiceRuns {
        /// On which machine.
        machine: String,
        /// What.
        service: NetworkService,
        /// Its port.
        port: u16,
    },
    /// Something is listed as exported, which a new server would offer.
    #[error(
        "the NFS export {export} is listed on {machine}, and the server that Nestor starts would offer it too; withdraw it with \
         `exportfs -u {export}`, or use `--on emulated`"
    )]
    Exported {
        /// On which machine.
        machine: String,
        /// The first of the list.
        export: NfsExport,
    },
    /// The network of the link is in use.
    #[error(
        "the network of the link, {network}, is in use on this machine (a route to {route}); end the other run, or use \
         `--on emulated`"
    )]
    NetworkInUse {
        /// That of the link.
        network: String,
        /// The route's.
        route: String,
    },
    /// Two machines of the user's have no way to each other.
    #[error(
        "{client} has no route to an IPv4 address of {server} ({}); connect them", addresses.join(", ")
    )]
    NoRoute {
        /// The machine above the link.
        client: String,
        /// The machine below it.
        server: String,
        /// Its addresses.
        addresses: Vec<String>,
    },
    /// The server does not let the client mount the directory.
    #[error(
        "the NFS server does not list {export} among its exports ({}), so the client may not mount it: another program has changed the list, \
         or stands where `exportfs` is looked for; see `exportfs -v` there, leave the list alone while Nestor measures, and run it again",
        if listed.is_empty() { "it lists none".to_owned() } else { listed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") }
    )]
    NotExported {
        /// What was exported.
        export: NfsExport,
        /// What the server has instead.
        listed: Vec<NfsExport>,
    },
    /// The server does not speak the version.
    #[error(
        "the NFS server on the {machine} does not offer version {} (it offers {}), so `{layer}` cannot mount from it; write \
         `nfs:vers=` with one of these, or have the server offer it (`/etc/nfs.conf`, section `nfsd`)",
        wanted.name(),
        if offered.is_empty() { "none".to_owned() } else { offered.iter().map(|version| version.name()).collect::<Vec<_>>().join(", ") }
    )]
    NoVersion {
        /// The layer in its canonical notation.
        layer: String,
        /// What the server runs on.
        machine: MachineLabel,
        /// The version of the layer.
        wanted: NfsVersion,
        /// Those that the server has.
        offered: Vec<NfsVersion>,
    },
    /// A program without which there is no server did not come up.
    #[error(
        "{source}\n  `{layer}` needs {service} on that machine, whatever its version; start `{program}` there by hand to see what it \
         lacks, then run it again"
    )]
    NoServer {
        /// The layer in its canonical notation.
        layer: String,
        /// What does not come up.
        service: NetworkService,
        /// How it is started.
        program: String,
        /// What happened.
        source: Box<MachineError>,
    },
    /// Another program has the block device.
    #[error(
        "the network disk {device} is in use by process {process}; detach it with `nbd-client -d {device}`"
    )]
    DeviceInUse {
        /// The device.
        device: String,
        /// The client.
        process: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_module_and_option() {
        let lacks = LinkProblem::KernelLacks {
            machine: "this machine".to_owned(),
            part: KernelPart::Shaping,
            said: None,
        };
        assert_eq!(
            lacks.to_string(),
            "the kernel of this machine does not have netem, which gives the link its rate, delay and loss (module sch_netem, \
             CONFIG_NET_SCH_NETEM); load the module or boot a kernel that has it, or use `--on emulated`"
        );
    }
}
