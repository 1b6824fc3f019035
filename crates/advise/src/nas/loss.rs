//! What a failure of the client or of the server loses, by what the layers of a stack promise and by what was seen of flushes.
//!
//! Data that were written are in one or more memories until they are on the medium: the page cache of the application's machine, that of
//! the machine around a guest (by the cache mode), that of the server, and the disk's own cache. Who wrote is told that data are stored at
//! a place that the mount and the export decide. A client of NFS keeps its copy of what it wrote until the server has answered a COMMIT, and
//! sends it again to a server that was started anew (RFC 1813, section 3.3.7, on the write verifier). A server with `async` answers before
//! (`exports(5)`).
//!
//! A network disk is a disk: what was not flushed may be lost with the server, and the client's device fails with it, so that what the client
//! has in memory has no place to go any more (`nbd_xmit_timeout` in drivers/block/nbd.c ends its requests with errors). A server whose disk
//! is open with `unsafe` ignores flushes.

use nestor_stack::layers::hypervisors::CacheMode;
use nestor_stack::layers::network::NetworkDiskOptions;
use nestor_stack::{Export, Layer, LayerDefinition, NfsOptions, Recovery, Stack};
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
        let is_link = |layer: &Layer| matches!(layer.definition(), LayerDefinition::Link);
        let link = stack.layers().iter().position(is_link)?;
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
            cache: disk.and_then(Layer::hypervisor).map(|options| options.block.cache),
            at_client: file_systems(client),
            at_server: file_systems(server),
        })
    }

    fn loss(&self, failure: Failure, seen: Option<&FlushTrace>) -> FailureLoss {
        let (lost, basis) = match failure {
            Failure::ClientPowerCut => (self.lost_with_client(), Basis::Options),
            Failure::ServerCrash => (self.lost_with_server(), Basis::Options),
            Failure::ServerPowerCut => with_disk(self.lost_with_server(), seen),
        };
        let (check, damaged) = self.to_mend(failure, lost, basis);
        let oldest_s = (lost != Lost::Nothing).then_some(OLDEST_S);
        let words =
            words(self.stack, lost, oldest_s, (&check, &damaged), seen.filter(|_| basis != Basis::Options));
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
            Over::Directory(_) => Lost::Nothing,
            Over::Disk(disk) if disk.block.cache.no_flush() => Lost::Synced,
            Over::Disk(_) if self.cache.is_some_and(CacheMode::no_flush) => Lost::Synced,
            Over::Disk(_) => Lost::Unsynced,
        }
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
    match layer.definition() {
        LayerDefinition::FileSystem(spec) => Some((spec.recovery)(layer)),
        _ => None,
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
mod tests {
    use super::*;
    use crate::price::Flusher;

    const NFS: &str = "nfs:vers=3/link/xfs/hdd";
    const VM_NFS: &str = "ext4/kvm/raw/nfs:vers=3/link/xfs/hdd";
    const GUEST_NFS: &str = "nfs:vers=3/kvm/link/ext2/loop/raw/xfs/hdd";

    fn of(stack: &str, seen: Option<&FlushTrace>) -> [FailureLoss; 3] {
        losses(&Stack::parse(stack).unwrap(), seen).try_into().unwrap()
    }

    fn lost(stack: &str) -> [Lost; 3] {
        of(stack, None).map(|loss| loss.lost)
    }

    fn trace(commits: u64, flushes: u64) -> FlushTrace {
        FlushTrace {
            run: 4,
            stack: NFS.into(),
            workload: "fio:rand-write".into(),
            flusher: Flusher::Client,
            guest_asked: commits,
            guest_sent: commits,
            guest_writes: 512,
            guest_write_bytes: 0,
            medium: "hdd".to_owned(),
            medium_flushes: flushes,
            medium_write_bytes: 0,
        }
    }

    #[test]
    fn without_a_network_there_is_no_server_to_fail() {
        assert_eq!(losses(&Stack::parse("ext4/kvm/raw/xfs/hdd").unwrap(), None), Vec::new());
    }

    #[test]
    fn a_server_that_answers_at_once_forgets_what_it_acknowledged() {
        use Lost::{Nothing, OpenFiles, Synced, Unsynced};
        assert_eq!(lost(NFS), [OpenFiles, Nothing, Nothing]);
        assert_eq!(lost("nfs:export=async/link/xfs/hdd"), [OpenFiles, Synced, Synced]);
        assert_eq!(lost(VM_NFS), [Unsynced, Nothing, Nothing]);
        assert_eq!(lost("ext4/kvm/raw/nfs:export=async/link/xfs/hdd"), [Unsynced, Synced, Synced]);
        assert_eq!(lost(GUEST_NFS), [OpenFiles, Nothing, Nothing]);
    }

    #[test]
    fn a_mount_with_sync_loses_nothing_with_the_client() {
        assert_eq!(lost("nfs:sync/link/xfs/hdd"), [Lost::Nothing; 3]);
        // The guest's page cache is above the mount of its image.
        assert_eq!(lost("ext4/kvm/raw/nfs:sync/link/xfs/hdd")[0], Lost::Unsynced);
        assert_eq!(lost("nfs:sync/kvm/link/xfs/hdd")[0], Lost::Nothing);
    }

    #[test]
    fn a_disk_without_flushes_loses_what_was_synced_with_the_client_only() {
        let [client, crash, power] = of("ext4/kvm:cache=unsafe/raw/nfs/link/xfs/hdd", None);
        assert_eq!([client.lost, crash.lost, power.lost], [Lost::Synced, Lost::Nothing, Lost::Nothing]);
        assert_eq!(client.damaged, ["ext4"]);
        assert_eq!(lost("ext4/kvm:cache=writeback/raw/nfs/link/xfs/hdd")[0], Lost::Unsynced);
    }

    #[test]
    fn what_has_no_journal_is_checked_where_its_machine_failed() {
        let check = |stack| of(stack, None).map(|loss| loss.check.join(" "));
        assert_eq!(check("ext2/kvm/raw/nfs/link/xfs/hdd"), ["ext2", "", ""]);
        assert_eq!(check(GUEST_NFS), ["", "ext2", "ext2"]);
        assert_eq!(check("nfs/link/ext4:journal=none/hdd"), ["", "ext4:journal=none", "ext4:journal=none"]);
        assert_eq!(check(VM_NFS), ["", "", ""]);
    }

    #[test]
    fn a_journal_does_not_save_a_guest_whose_disk_forgets() {
        let [client, crash, _] = of("ext2/kvm/raw/nfs:export=async/link/ext2/hdd", None);
        assert_eq!((client.check, client.damaged), (vec!["ext2".to_owned()], Vec::new()));
        assert_eq!(crash.damaged, ["ext2"]);
        let [_, crash, _] = of("nfs:export=async/kvm/link/ext4/loop/raw/xfs/hdd", None);
        // The image's file system is the server's own: its journal and its data are lost together.
        assert_eq!((crash.check, crash.damaged), (Vec::new(), Vec::new()));
    }

    #[test]
    fn flushes_that_were_counted_decide_over_the_disk() {
        let power = |stack, commits, flushes| {
            let [.., power] = of(stack, Some(&trace(commits, flushes)));
            (power.lost, power.basis)
        };
        let seen = Basis::Seen { run: 4 };
        assert_eq!(power(NFS, 64, 66), (Lost::Nothing, seen));
        assert_eq!(power(NFS, 64, 30), (Lost::PerhapsSynced, seen));
        assert_eq!(power(NFS, 64, 0), (Lost::Synced, seen));
        assert_eq!(power(NFS, 2, 0), (Lost::Nothing, Basis::Options));
        // Each WRITE was stored before it was answered, so no COMMIT was needed.
        assert_eq!(power(NFS, 0, 1024), (Lost::Nothing, seen));
        assert_eq!(power(NFS, 0, 0), (Lost::Nothing, Basis::Options));
        // Flushes of a server that does not wait for them prove nothing.
        assert_eq!(power("nfs:export=async/link/xfs/hdd", 64, 66), (Lost::Synced, Basis::Options));
        assert_eq!(of(NFS, Some(&trace(64, 0)))[2].damaged, ["xfs"]);
        // A crash of the kernel leaves the disk's cache as it is.
        assert_eq!(of(NFS, Some(&trace(64, 0)))[1].lost, Lost::Nothing);
    }

    #[test]
    fn a_price_is_a_sentence() {
        let words = |stack, seen: Option<&FlushTrace>| of(stack, seen).map(|loss| loss.words).join("\n");
        insta::assert_snapshot!(words(NFS, Some(&trace(64, 66))), @"
        what was not synced, of files that are still open, up to about 35 s old
        nothing that was acknowledged
        nothing that was acknowledged (seen: 66 flushes at the disk for 512 WRITEs and 64 COMMITs of the client)
        ");
        insta::assert_snapshot!(words("ext2/kvm/raw/nfs:export=async/link/xfs/hdd", None), @"
        what was not synced, up to about 35 s old; ext2 has no journal and has to be checked
        also what was synced, up to about 35 s old; ext2 may be damaged, journal or not
        also what was synced, up to about 35 s old; ext2 may be damaged, journal or not
        ");
    }

    #[test]
    fn a_network_disk_loses_what_was_not_flushed_with_either_machine() {
        use Lost::{Nothing, PerhapsSynced, Synced, Unsynced};
        assert_eq!(lost("ext4/kvm/nbd/link/raw/xfs/hdd"), [Unsynced; 3]);
        assert_eq!(
            lost("ext4/nbd:cache=writethrough/link/hdd"),
            [Unsynced; 3],
            "what the client has not sent"
        );
        assert_eq!(lost("ext4/nbd:cache=unsafe/link/hdd"), [Unsynced, Synced, Synced]);
        assert_eq!(lost("ext4/kvm:cache=unsafe/nbd/link/hdd"), [Synced; 3]);
        assert_eq!(lost("ext4/nbd/kvm/link/hdd"), [Unsynced; 3]);
        let stack = "ext4/nbd/link/hdd";
        let power = |flushes| of(stack, Some(&trace(64, flushes))).map(|loss| loss.lost);
        assert_eq!(power(64), [Unsynced; 3], "flushes do not bring back what was not synced");
        assert_eq!(power(30), [Unsynced, Unsynced, PerhapsSynced]);
        assert_ne!(power(0)[2], Nothing);
    }

    #[test]
    fn both_ends_of_a_network_disk_are_checked_after_the_server_failed() {
        let [client, crash, _] = of("ext2/nbd/link/qcow2/ext2/hdd", None);
        assert_eq!((client.check, crash.check), (vec!["ext2".to_owned()], vec!["ext2".to_owned(); 2]));
        let [_, crash, _] = of("ext4/nbd:cache=unsafe/link/raw/xfs/hdd", None);
        assert_eq!(crash.damaged, ["ext4"]);
        insta::assert_snapshot!(crash.words, @"also what was synced, up to about 35 s old; ext4 may be damaged, journal or not");
    }
}
