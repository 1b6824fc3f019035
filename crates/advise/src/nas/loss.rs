//! What a failure of the client or of the server loses, by what the layers of a stack promise and by what was seen of flushes.
//!
//! Data that were written are in one or more memories until they are on the medium: the page cache of the application's machine, that of
//! the machine around a guest (by the cache mode), that of the server, and the disk's own cache. Who wrote is told that data are stored at
//! a place that the mount and the export decide. A client of NFS keeps its copy of what it wrote until the server has answered a COMMIT, and
//! sends it again to a server that was started anew (RFC 1813, section 3.3.7, on the write verifier). A server with `async` answers before
//! (`exports(5)`).
//!
//! What a call has made, renamed or removed, a server stores before it answers (RFC 1813, section 4.8). Linux's server asks its file system for
//! that (`commit_metadata` in fs/nfsd/vfs.c), which without a journal writes inodes alone, without the names in directories, and flushes
//! nothing (`ext4_nfs_commit_metadata` in fs/ext4/super.c, which is also Debian's ext2). Below a loop device, what is not flushed goes no
//! further than the page cache of the server (`lo_rw_aio` and `lo_req_flush` in drivers/block/loop.c), and becomes as old there once more.
//!
//! A network disk is a disk: what was not flushed may be lost with the server, and the client's device fails with it, so that what the client
//! has in memory has no place to go any more (`nbd_xmit_timeout` in drivers/block/nbd.c ends its requests with errors). A server whose disk
//! is open with `unsafe` ignores flushes.

use nestor_stack::layers::hypervisors::CacheMode;
use nestor_stack::layers::network::NetworkDiskOptions;
use nestor_stack::{Export, Layer, NfsOptions, Recovery, Stack};
use nestor_text::units::listed;
use serde::{Deserialize, Serialize};

use crate::price::{FlushTrace, Reach, Seen};

/// Seconds after which the kernel begins to write data out, `dirty_expire_interval` in mm/page-writeback.c, and those between two looks
/// for such data, `dirty_writeback_interval`; what takes long to write is older.
const OLDEST_S: u32 = 30 + 5;

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The client loses power, and a guest with it.
    ClientPowerCut,
    /// The server's kernel stops: its memory is lost, its disk's cache is not.
    ServerCrash,
    /// The server and its disk lose power.
    ServerPowerCut,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ClientPowerCut, Self::ServerCrash, Self::ServerPowerCut];

    /// As people say it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ClientPowerCut => "a power cut of the client",
            Self::ServerCrash => "a crash of the server",
            Self::ServerPowerCut => "a power cut of the server",
        }
    }
}

/// What of the data that an application has written is lost; the worse, the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lost {
    /// Nothing.
    Nothing,
    /// Files that were made, renamed or removed and not synced, although the server has said that they are stored; no contents of files that
    /// were synced.
    Names,
    /// What was not synced, of files that were not closed either: a client of NFS writes a file out when it is closed.
    OpenFiles,
    /// What was not synced, of all files.
    Unsynced,
    /// Perhaps some of what was synced.
    PerhapsSynced,
    /// Also what was synced.
    Synced,
}

/// What an answer rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "basis")]
pub enum Basis {
    /// On what the layers promise with these options.
    Options,
    /// On flushes that were counted.
    Seen {
        /// In this run.
        run: i64,
    },
}

/// What one failure loses on a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureLoss {
    /// What fails.
    pub failure: Failure,
    /// What of the data is lost.
    pub lost: Lost,
    /// About how old lost data are at most, in seconds; `None` where nothing is lost, or nothing says.
    pub oldest_s: Option<u32>,
    /// File systems to be checked afterwards, as written in the stack.
    pub check: Vec<String>,
    /// File systems that were in use when writes below them were lost, so that not even a journal keeps them whole.
    pub damaged: Vec<String>,
    /// What it rests on.
    #[serde(flatten)]
    pub basis: Basis,
    /// In a sentence.
    pub words: String,
}

/// The parts of a stack that decide.
struct Parts<'a> {
    stack: &'a Stack,
    over: Over,
    /// Cache mode of a guest's disk; `None` for a client that mounts the directory itself.
    cache: Option<CacheMode>,
    /// File systems in the client's machine or in a guest on it.
    at_client: Vec<&'a Layer>,
    /// File systems at the server, also in images there.
    at_server: Vec<&'a Layer>,
    /// The server's layers, the one that it exports first.
    server: &'a [Layer],
}

/// What is used over the link.
#[derive(Clone, Copy)]
enum Over {
    Directory(NfsOptions),
    Disk(NetworkDiskOptions),
}

/// What each failure loses; nothing for a stack without a network. `seen` is what a run of it, or of one with the same promises, showed of
/// flushes.
pub fn losses(stack: &Stack, seen: Option<&FlushTrace>) -> Vec<FailureLoss> {
    let Some(parts) = Parts::of(stack) else { return Vec::new() };
    Failure::ALL.into_iter().map(|failure| parts.loss(failure, seen)).collect()
}

impl<'a> Parts<'a> {
    fn of(stack: &'a Stack) -> Option<Self> {
        let link = stack.layers().iter().position(Layer::is_link)?;
        let (client, server) = stack.layers().split_at(link);
        let over = |layer: &Layer| {
            let directory = || layer.network_file_system().map(Over::Directory);
            directory().or_else(|| layer.network_disk().map(Over::Disk))
        };
        let over = client.iter().find_map(over)?;
        let file_systems =
            |layers: &'a [Layer]| layers.iter().filter(|layer| recovery(layer).is_some()).collect();
        let anatomy = stack.anatomy();
        let disk = anatomy.virtual_machine.filter(|_| !stack.is_beside());
        Some(Self {
            stack,
            over,
            cache: disk.and_then(Layer::hypervisor).map(|options| options.disk.cache()),
            at_client: file_systems(client),
            at_server: file_systems(server),
            server: server.get(1..).unwrap_or_default(),
        })
    }

    fn loss(&self, failure: Failure, seen: Option<&FlushTrace>) -> FailureLoss {
        let (lost, basis) = match failure {
            Failure::ClientPowerCut => (self.lost_with_client(), Basis::Options),
            Failure::ServerCrash => (self.lost_with_server(), Basis::Options),
            Failure::ServerPowerCut => with_disk(self.lost_with_server().max(self.lost_below_server()), seen),
        };
        let (check, damaged) = self.to_mend(failure, lost, basis);
        let kept_again = self.kept_again(failure);
        let oldest_s = (lost != Lost::Nothing).then_some(OLDEST_S * (1 + kept_again.len() as u32));
        let mut words =
            words(self.stack, lost, oldest_s, (&check, &damaged), seen.filter(|_| basis != Basis::Options));
        if kept_again.iter().any(|layer| layer.is_cached_loop_device()) {
            words.push_str("; what is not flushed stays in the page cache of the file below the loop device");
        }
        if kept_again.iter().any(|layer| is_kept_around(layer)) {
            words.push_str("; what is not flushed stays in the page cache of the machine around the server");
        }
        if let (Over::Disk(disk), Failure::ServerCrash | Failure::ServerPowerCut) = (self.over, failure) {
            words.push_str(
                "; the disk fails with its server, and what the client has in memory has no place to go; ",
            );
            words.push_str(of_server(disk.block.cache));
        }
        FailureLoss { failure, lost, oldest_s, check, damaged, basis, words }
    }

    /// What was in memory of the client and its guest.
    fn lost_with_client(&self) -> Lost {
        match (self.cache, self.over) {
            // Flushes of the guest end in QEMU, so that what it synced may be in the page cache around it.
            (Some(mode), _) if mode.no_flush() => Lost::Synced,
            (Some(_), _) | (None, Over::Disk(_)) => Lost::Unsynced,
            (None, Over::Directory(nfs)) if nfs.sync => Lost::Nothing,
            (None, Over::Directory(_)) => Lost::OpenFiles,
        }
    }

    /// What was in memory of the server alone, and with a network disk what of the client has no place to go any more.
    fn lost_with_server(&self) -> Lost {
        match self.over {
            Over::Directory(nfs) if nfs.export == Export::Async => Lost::Synced,
            Over::Directory(_) if self.forgets_names() => Lost::Names,
            Over::Directory(_) => Lost::Nothing,
            Over::Disk(disk) if disk.block.cache.no_flush() => Lost::Synced,
            Over::Disk(_) if self.cache.is_some_and(CacheMode::no_flush) => Lost::Synced,
            Over::Disk(_) => Lost::Unsynced,
        }
    }

    /// Whether the client makes files in a file system of which the server stores no names before it answers. Of a guest's disk in a file there,
    /// nothing is made while the guest runs.
    fn forgets_names(&self) -> bool {
        let exported = self.server.first().and_then(recovery);
        self.cache.is_none() && exported == Some(Recovery::Check)
    }

    /// The layers in whose page caches what was not flushed grows old once more, of those that the failure empties.
    fn kept_again(&self, failure: Failure) -> Vec<&'a Layer> {
        let emptied = match failure {
            Failure::ClientPowerCut => &[][..],
            // The machine around a server goes on.
            Failure::ServerCrash => {
                let around = self.server.iter().position(|layer| layer.hypervisor().is_some());
                &self.server[..around.unwrap_or(self.server.len())]
            }
            Failure::ServerPowerCut => self.server,
        };
        // What the server flushes gets to where flushes are ignored, and is kept for the first time there.
        let without_flushes = match (self.lost_with_server(), emptied.iter().position(Layer::ignores_flushes))
        {
            (Lost::Nothing, None) => &[],
            (Lost::Nothing, Some(at)) => &emptied[at + 1..],
            _ => emptied,
        };
        without_flushes
            .iter()
            .filter(|layer| layer.is_cached_loop_device() || is_kept_around(layer))
            .collect()
    }

    /// What is in memory of the machine around a server that is a virtual machine itself, and ignores its flushes.
    fn lost_below_server(&self) -> Lost {
        if self.server.iter().any(Layer::ignores_flushes) { Lost::Synced } else { Lost::Nothing }
    }

    /// The server's file systems whose flushes the machine around it ignores.
    fn without_flushes(&self) -> Vec<&'a Layer> {
        let above = self.server.iter().rposition(Layer::ignores_flushes).unwrap_or(0);
        self.server[..above].iter().filter(|layer| recovery(layer).is_some()).collect()
    }

    /// The file systems that have to be checked after a failure, and those that it damages. A server that forgets what it has acknowledged
    /// changes the disk of a guest that goes on, and without flushes what a journal relies on is written in any order.
    fn to_mend(&self, failure: Failure, lost: Lost, basis: Basis) -> (Vec<String>, Vec<String>) {
        let stopped: &[&[&Layer]] = match (failure, self.over) {
            (Failure::ClientPowerCut, _) => &[&self.at_client],
            (_, Over::Directory(_)) => &[&self.at_server],
            (_, Over::Disk(_)) => &[&self.at_client, &self.at_server],
        };
        let mut damaged = if lost >= Lost::PerhapsSynced { texts(&self.at_client) } else { Vec::new() };
        if lost == Lost::Synced && basis != Basis::Options {
            damaged.extend(texts(&self.at_server));
        } else if failure == Failure::ServerPowerCut {
            damaged.extend(texts(&self.without_flushes()));
        }
        let to_check =
            stopped.iter().copied().flatten().filter(|layer| recovery(layer) == Some(Recovery::Check));
        let check = to_check.map(ToString::to_string).filter(|layer| !damaged.contains(layer));
        (check.collect(), damaged)
    }
}

/// The same with what was in the disk's cache, by the flushes that were seen to arrive at it.
fn with_disk(lost: Lost, seen: Option<&FlushTrace>) -> (Lost, Basis) {
    let Some(trace) = seen else { return (lost, Basis::Options) };
    let (disk, seen) = match trace.reach() {
        Reach::NeverAsked => return (lost, Basis::Options),
        Reach::PerFlush(_) | Reach::PerWrite(_) => (Lost::Nothing, Basis::Seen { run: trace.run }),
        Reach::Partly(_) => (Lost::PerhapsSynced, Basis::Seen { run: trace.run }),
        Reach::Lost => (Lost::Synced, Basis::Seen { run: trace.run }),
    };
    // That flushes arrive does not say that the server waits for them.
    if disk >= lost { (disk, seen) } else { (lost, Basis::Options) }
}

/// What brings a layer back after a crash; `None` for what is no file system of a disk.
fn recovery(layer: &Layer) -> Option<Recovery> {
    layer.file_system().map(|spec| (spec.recovery)(layer))
}

/// Whether a layer is a virtual machine whose writes stay in the page cache of the machine around it until it flushes.
fn is_kept_around(layer: &Layer) -> bool {
    layer
        .hypervisor()
        .map(|options| options.disk.cache())
        .is_some_and(|mode| mode.write_cache() && !mode.direct())
}

/// What the server of a network disk does with writes and flushes (`qemu-nbd(8)`, `--cache`; `nbd_do_cmd_rw` and `nbd_co_receive_request` in
/// QEMU's nbd/server.c pass the client's flushes on).
const fn of_server(mode: CacheMode) -> &'static str {
    match mode {
        CacheMode::None => "its qemu-nbd bypasses the page cache, and passes flushes on to the disk",
        CacheMode::Writeback => {
            "its qemu-nbd keeps writes in the page cache until the client flushes, and then flushes the disk"
        }
        CacheMode::Writethrough | CacheMode::Directsync => {
            "its qemu-nbd flushes the disk after each write, so that what the client has sent is not lost"
        }
        CacheMode::Unsafe => "its qemu-nbd ignores flushes",
    }
}

fn texts(layers: &[&Layer]) -> Vec<String> {
    layers.iter().map(ToString::to_string).collect()
}

fn words(
    stack: &Stack,
    lost: Lost,
    oldest_s: Option<u32>,
    (check, damaged): (&[String], &[String]),
    seen: Option<&FlushTrace>,
) -> String {
    let mut words = match lost {
        Lost::Nothing => "nothing that was acknowledged",
        Lost::Names => {
            "what was made, renamed or removed and not synced, although the server acknowledged it"
        }
        Lost::OpenFiles => "what was not synced, of files that are still open",
        Lost::Unsynced => "what was not synced",
        Lost::PerhapsSynced => "perhaps some of what was synced",
        Lost::Synced => "also what was synced",
    }
    .to_owned();
    if let Some(seconds) = oldest_s {
        words.push_str(&format!(", up to about {seconds} s old"));
    }
    if let Some(trace) = seen {
        words.push_str(&format!(" {}", Seen { trace, on: stack.to_string().as_str() }));
    }
    if !check.is_empty() {
        words.push_str(&format!("; {} has no journal and has to be checked", listed(check)));
    }
    if !damaged.is_empty() {
        words.push_str(&format!("; {} may be damaged, journal or not", listed(damaged)));
    }
    words
}

#[cfg(test)]
mod tests;
