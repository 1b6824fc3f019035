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
    assert_eq!(lost("nfs/kvm/link/ext4/loop/raw/xfs/hdd"), [OpenFiles, Nothing, Nothing]);
}

#[test]
fn a_server_whose_file_system_has_no_journal_forgets_names() {
    use Lost::{Names, Nothing, OpenFiles, Synced, Unsynced};
    assert_eq!(lost("nfs/link/ext2/hdd"), [OpenFiles, Names, Names]);
    assert_eq!(lost("nfs/link/ext4:journal=none/hdd"), [OpenFiles, Names, Names]);
    assert_eq!(lost(GUEST_NFS), [OpenFiles, Names, Names]);
    assert_eq!(lost("nfs:export=async/link/ext2/hdd"), [OpenFiles, Synced, Synced]);
    // The image's file is there before the guest.
    assert_eq!(lost("ext4/kvm/raw/nfs/link/ext2/hdd"), [Unsynced, Nothing, Nothing]);
    // Flushes that arrive are of other calls.
    assert_eq!(of(GUEST_NFS, Some(&trace(64, 66))).map(|loss| loss.lost), [OpenFiles, Names, Names]);
}

#[test]
fn a_loop_device_at_the_server_keeps_what_is_not_flushed_once_more() {
    let oldest = |stack: &str| of(stack, None)[1].oldest_s;
    assert_eq!(oldest("nfs/link/ext2/hdd"), Some(35));
    assert_eq!(oldest(GUEST_NFS), Some(70));
    assert_eq!(oldest("nfs/kvm/link/ext2/loop:direct-io/raw/xfs/hdd"), Some(35));
    // Whether names are lost or all that was acknowledged: nothing of it is flushed.
    let forgets = |server: &str| {
        let [_, crash, power] =
            of(&format!("nfs:export=async/link/{server}"), None).map(|loss| loss.oldest_s);
        [crash, power]
    };
    assert_eq!(
        oldest("nfs:export=async/kvm/link/ext2/loop/raw/xfs/hdd"),
        Some(70),
        "below a guest of the client"
    );
    assert_eq!(forgets("ext2/loop/raw/xfs/hdd"), [Some(70), Some(70)]);
    assert_eq!(forgets("ext2/loop/raw/xfs/loop/raw/xfs/hdd"), [Some(105), Some(105)]);
    assert_eq!(forgets("ext2/loop:direct-io/raw/xfs/hdd"), [Some(35), Some(35)]);
    assert_eq!(of("nfs/kvm/link/ext2/loop/raw/xfs/hdd", None)[0].oldest_s, Some(35), "of the client alone");
    // Commits of a journal are flushed through it.
    assert_eq!(oldest("nfs/kvm/link/ext4/loop/raw/xfs/hdd"), None);
    insta::assert_snapshot!(of(GUEST_NFS, None)[1].words, @"what was made, renamed or removed and not synced, although the server acknowledged it, up to about 70 s old; ext2 has no journal and has to be checked; what is not flushed stays in the page cache of the file below the loop device");
}

#[test]
fn a_server_that_is_a_guest_without_flushes_loses_what_was_synced_with_its_host() {
    let stack = |cache: &str| format!("nfs/link/xfs/kvm:cache={cache}/raw/ext4/hdd");
    assert_eq!(lost(&stack("unsafe")), [Lost::OpenFiles, Lost::Nothing, Lost::Synced]);
    assert_eq!(lost(&stack("writeback")), [Lost::OpenFiles, Lost::Nothing, Lost::Nothing]);
    let damaged = |stack: &str| of(stack, None).map(|loss| loss.damaged.join(" "));
    // The file system below goes on flushing.
    assert_eq!(damaged(&stack("unsafe")), ["", "", "xfs"]);
    assert_eq!(damaged(&stack("writeback")), ["", "", ""]);
    let nested = "nfs/link/xfs/kvm/raw/jfs/kvm:cache=unsafe/raw/ext4/hdd";
    assert_eq!(damaged(nested), ["", "", "xfs jfs"], "all above the lowest that ignores flushes");
    assert_eq!(damaged("ext4/kvm/raw/nfs/link/xfs/kvm:cache=unsafe/raw/ext3/hdd"), ["", "", "ext4 xfs"]);
    let [.., power] = of("nfs/link/ext2/kvm:cache=unsafe/raw/ext4/hdd", None);
    assert_eq!((power.check, power.damaged), (Vec::new(), vec!["ext2".to_owned()]), "not only checked");
    // Flushes that arrived in part decide nothing: these do not get that far.
    let [.., power] = of(&stack("unsafe"), Some(&trace(64, 30)));
    assert_eq!((power.basis, power.damaged), (Basis::Options, vec!["xfs".to_owned()]));
    insta::assert_snapshot!(of(&stack("unsafe"), None)[2].words, @"also what was synced, up to about 35 s old; xfs may be damaged, journal or not");
}

#[test]
fn a_machine_around_a_server_keeps_what_is_not_flushed_once_more() {
    let oldest = |stack: &str| of(stack, None).map(|loss| loss.oldest_s);
    let forgets = |server: &str| oldest(&format!("nfs:export=async/link/{server}"));
    assert_eq!(forgets("xfs/kvm:cache=none/raw/ext4/hdd"), [Some(35); 3]);
    assert_eq!(forgets("xfs/kvm:cache=writethrough/raw/ext4/hdd"), [Some(35); 3]);
    // It goes on when the server crashes, and so do its loop devices.
    assert_eq!(forgets("xfs/kvm:cache=writeback/raw/ext4/hdd"), [Some(35), Some(35), Some(70)]);
    assert_eq!(forgets("xfs/kvm/loop/raw/ext4/hdd"), [Some(35), Some(35), Some(70)]);
    // What was flushed passes the loop device at once.
    assert_eq!(
        oldest("nfs/link/ext4/loop/raw/xfs/kvm:cache=unsafe/raw/ext4/hdd"),
        [Some(35), None, Some(35)]
    );
    assert_eq!(oldest("nfs/link/xfs/kvm:cache=unsafe/loop/raw/ext4/hdd"), [Some(35), None, Some(70)]);
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
    assert_eq!(lost("ext4/nbd:cache=writethrough/link/hdd"), [Unsynced; 3], "what the client has not sent");
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
    insta::assert_snapshot!(crash.words, @"also what was synced, up to about 35 s old; ext4 may be damaged, journal or not; the disk fails with its server, and what the client has in memory has no place to go; its qemu-nbd ignores flushes");
}

#[test]
fn what_the_server_of_a_network_disk_does_with_writes_is_said() {
    let said = |cache: &str| {
        let [client, crash, power] = of(&format!("ext4/kvm/nbd:cache={cache}/link/raw/xfs/hdd"), None);
        assert_eq!(client.words, "what was not synced, up to about 35 s old", "{cache}");
        assert_eq!(crash.words, power.words, "{cache}");
        crash.words
    };
    insta::assert_snapshot!(["none", "writeback", "writethrough"].map(said).join("\n"), @"
    what was not synced, up to about 35 s old; the disk fails with its server, and what the client has in memory has no place to go; its qemu-nbd bypasses the page cache, and passes flushes on to the disk
    what was not synced, up to about 35 s old; the disk fails with its server, and what the client has in memory has no place to go; its qemu-nbd keeps writes in the page cache until the client flushes, and then flushes the disk
    what was not synced, up to about 35 s old; the disk fails with its server, and what the client has in memory has no place to go; its qemu-nbd flushes the disk after each write, so that what the client has sent is not lost
    ");
}
