//! `nbd`: a disk of one machine in another, by the protocol of the kernel's network block device.

use super::super::hypervisors::{AIO, CACHE, DISCARD, HostBlockOptions};
use super::super::options::{MERGES, READAHEAD, SCHED};
use crate::{Conflict, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec};

const CONNECTIONS: &str = "connections";

pub(super) static LAYER: LayerSpec = LayerSpec {
    name: "nbd",
    summary: "NBD: a block device or an image over a link, as a block device of this machine",
    options: &[
        OptionSpec {
            name: CONNECTIONS,
            summary: "connections to the server, one for each processor of this machine at most; the server works on 16 requests of \
                      each at once",
            // `MAX_NBD_REQUESTS` in QEMU's nbd/server.c; the most processors of a machine of the lab.
            kind: OptionKind::Number { min: 1, max: 64 },
            default: Some("1"),
        },
        OptionSpec {
            name: "timeout",
            summary: "seconds without an answer of the server after which requests fail",
            kind: OptionKind::Number { min: 1, max: 3600 },
            // As SCSI disks have it (`SD_TIMEOUT` in drivers/scsi/sd.h). Without one, the kernel waits for ever.
            default: Some("30"),
        },
        OptionSpec {
            summary: "cache mode of the server; none bypasses its page cache, and flushes go on to its disk",
            ..CACHE
        },
        OptionSpec { summary: "how the server submits I/O; native needs cache=none or directsync", ..AIO },
        OptionSpec { summary: "what the server does with discards: ignore them, or pass them on", ..DISCARD },
        SCHED,
        READAHEAD,
        MERGES,
    ],
    definition: LayerDefinition::NetworkDisk,
    // qemu-nbd serves images of every format.
    packages: &["qemu-utils", "nbd-client"],
    check,
    not_buildable: None,
};

/// The options of a network disk, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkDiskOptions {
    /// Connections to the server.
    pub connections: u32,
    /// Seconds without an answer after which requests fail.
    pub timeout_s: u32,
    /// How the server opens what it serves.
    pub block: HostBlockOptions,
}

impl Layer {
    /// The options of `nbd`; `None` for other layers.
    pub fn network_disk(&self) -> Option<NetworkDiskOptions> {
        let LayerDefinition::NetworkDisk = self.definition() else { return None };
        Some(NetworkDiskOptions {
            connections: self.value(CONNECTIONS)?,
            timeout_s: self.value("timeout")?,
            block: self.host_block()?,
        })
    }
}

/// The kernel sends the requests of a processor over one connection (`nbd_queue_rq` in drivers/block/nbd.c takes that of the hardware
/// queue, and `__blk_mq_update_nr_hw_queues` in block/blk-mq.c makes no more of those than there are processors).
fn check(layer: &Layer, below: Option<&Layer>) -> Result<(), Conflict> {
    let (Some(options), Some(below)) = (layer.network_disk(), below) else { return Ok(()) };
    let cpus = below.link().map(|link| link.cpus).or_else(|| Some(below.hypervisor()?.cpus));
    let connections = options.connections;
    // A client in virtual time has one processor.
    let place = below.link().map_or("", |_| " and `--on emulated:time=real`");
    match cpus {
        Some(cpus) if connections > cpus => Err(Conflict {
            option: Some(CONNECTIONS),
            message: format!(
                "each of {connections} connections needs a processor of the machine, and it has {cpus}"
            ),
            help: format!("use connections={cpus}, or cpus={connections} for {}{place}", below.name()),
        }),
        _ => Ok(()),
    }
}

/// Refuses options of the server that do not fit what it serves.
pub(crate) fn check_served(layer: &Layer, served: Option<&Layer>) -> Result<(), Conflict> {
    layer.network_disk().map_or(Ok(()), |options| options.block.check(served))
}
