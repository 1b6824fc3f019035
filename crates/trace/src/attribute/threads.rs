//! Threads of file systems, by their names.

/// Whether a thread writes nothing but metadata and logs, so that its writes to space that is free now are not data.
///
/// Not among them are jbd2's, which in ordered mode writes data before it commits, and the kernel's workers, which
/// write back both.
pub(super) fn writes_only_metadata(comm: &str) -> bool {
    // The kernel cuts names after 15 bytes (TASK_COMM_LEN, include/linux/sched.h), and adds the device's to some.
    const THREADS: [&str; 6] = [
        // Writes back the metadata that its log has (fs/xfs/xfs_trans_ail.c).
        "xfsaild/",
        // Writes the log, and metadata behind it (fs/jfs/jfs_txnmgr.c, jfs_logmgr.c).
        "jfsCommit",
        "jfsSync",
        "jfsIO",
        // Writes trees at the end of a transaction (fs/btrfs/disk-io.c).
        "btrfs-transacti",
        // Flushes ReiserFS's log (fs/reiserfs/journal.c): a worker of its own in the kernels that had it last.
        "reiserfs/",
    ];
    THREADS.iter().any(|thread| comm.starts_with(thread))
}
