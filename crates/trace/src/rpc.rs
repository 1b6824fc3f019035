//! Remote procedure calls of NFS, as the kernel's client and server count them.
//!
//! The client counts each call (`/proc/self/mountstats`, net/sunrpc/stats.c). The server counts the procedures of version 3, and of version
//! 4 the operations within the calls (`/proc/net/rpc/nfsd`, fs/nfsd/stats.c): one call of a client has several.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use procfs::FromBufRead;
use procfs::process::{MountNFSStatistics, MountStats};
use serde::{Deserialize, Serialize};

/// What the kernel's client counts of each mount (fs/nfs/super.c, `nfs_show_stats`).
pub const CLIENT_COUNTERS: &str = "/proc/self/mountstats";

/// What the kernel's server counts (fs/nfsd/stats.c).
pub const SERVER_COUNTERS: &str = "/proc/net/rpc/nfsd";

/// Procedures of version 3 by their numbers (RFC 1813, section 3).
const PROCEDURES_3: [&str; 22] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];

/// Procedures of version 4 by their numbers (RFC 7530, section 16).
const PROCEDURES_4: [&str; 2] = ["NULL", "COMPOUND"];

/// The number of the first operation of version 4.
const FIRST_OPERATION_4: usize = 3;

/// Operations of version 4 from number 3 on (RFC 7530, section 16; RFC 8881, section 18; RFC 7862, section 15; RFC 8276, section 8.4).
const OPERATIONS_4: [&str; 73] = [
    "ACCESS",
    "CLOSE",
    "COMMIT",
    "CREATE",
    "DELEGPURGE",
    "DELEGRETURN",
    "GETATTR",
    "GETFH",
    "LINK",
    "LOCK",
    "LOCKT",
    "LOCKU",
    "LOOKUP",
    "LOOKUPP",
    "NVERIFY",
    "OPEN",
    "OPENATTR",
    "OPEN_CONFIRM",
    "OPEN_DOWNGRADE",
    "PUTFH",
    "PUTPUBFH",
    "PUTROOTFH",
    "READ",
    "READDIR",
    "READLINK",
    "REMOVE",
    "RENAME",
    "RENEW",
    "RESTOREFH",
    "SAVEFH",
    "SECINFO",
    "SETATTR",
    "SETCLIENTID",
    "SETCLIENTID_CONFIRM",
    "VERIFY",
    "WRITE",
    "RELEASE_LOCKOWNER",
    "BACKCHANNEL_CTL",
    "BIND_CONN_TO_SESSION",
    "EXCHANGE_ID",
    "CREATE_SESSION",
    "DESTROY_SESSION",
    "FREE_STATEID",
    "GET_DIR_DELEGATION",
    "GETDEVICEINFO",
    "GETDEVICELIST",
    "LAYOUTCOMMIT",
    "LAYOUTGET",
    "LAYOUTRETURN",
    "SECINFO_NO_NAME",
    "SEQUENCE",
    "SET_SSV",
    "TEST_STATEID",
    "WANT_DELEGATION",
    "DESTROY_CLIENTID",
    "RECLAIM_COMPLETE",
    "ALLOCATE",
    "COPY",
    "COPY_NOTIFY",
    "DEALLOCATE",
    "IO_ADVISE",
    "LAYOUTERROR",
    "LAYOUTSTATS",
    "OFFLOAD_CANCEL",
    "OFFLOAD_STATUS",
    "READ_PLUS",
    "SEEK",
    "WRITE_SAME",
    "CLONE",
    "GETXATTR",
    "SETXATTR",
    "LISTXATTRS",
    "REMOVEXATTR",
];

/// What was counted of one procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Calls, or at a server of version 4, operations within calls.
    pub calls: u64,
    /// Bytes of the calls with their headers; a server does not count them.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Bytes of the replies with their headers; a server does not count them.
    #[serde(default)]
    pub received_bytes: u64,
    /// Milliseconds from the calls to their replies, summed up; a server does not count them.
    #[serde(default)]
    pub response_ms: u64,
    /// Calls that ended with an error, the server's or one on the way; a server does not count them, nor did kernels before Linux 5.3.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errors: u64,
}

/// Whether a count is not worth a place in a record.
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// Contents of files, from the server.
    Read,
    /// Contents of files, to the server.
    Write,
    /// What was written before has to be durable.
    Commit,
    /// Names, attributes, permissions, opening and locking.
    Metadata,
    /// Only the session of client and server.
    Session,
}

impl CallKind {
    /// Of a procedure as the kernel names it (fs/nfs/nfs3xdr.c, `nfs3_procedures`, and fs/nfs/nfs4xdr.c, `nfs4_procedures`).
    pub fn of(procedure: &str) -> Self {
        match procedure {
            "READ" | "READ_PLUS" => Self::Read,
            "WRITE" => Self::Write,
            "COMMIT" => Self::Commit,
            "NULL"
            | "SEQUENCE"
            | "RENEW"
            | "SETCLIENTID"
            | "SETCLIENTID_CONFIRM"
            | "EXCHANGE_ID"
            | "CREATE_SESSION"
            | "DESTROY_SESSION"
            | "DESTROY_CLIENTID"
            | "RECLAIM_COMPLETE"
            | "BIND_CONN_TO_SESSION"
            | "GET_LEASE_TIME" => Self::Session,
            _ => Self::Metadata,
        }
    }
}

/// What programs did with a mount and what the client sent for it (`enum nfs_stat_bytecounters` and `nfs_stat_eventcounters`,
/// include/linux/nfs_iostat.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountUse {
    /// Bytes that were read through the page cache.
    pub cached_read_bytes: u64,
    /// Bytes that were read around it (O_DIRECT).
    pub direct_read_bytes: u64,
    /// Bytes that were written through the page cache.
    pub cached_written_bytes: u64,
    /// Bytes that were written around it (O_DIRECT).
    pub direct_written_bytes: u64,
    /// Bytes that the server was asked for.
    pub server_read_bytes: u64,
    /// Bytes that were sent to the server.
    pub server_written_bytes: u64,
    /// How often what had been written through the page cache had to be durable: each fsync, and each write where files are written
    /// synchronously (`sync`, O_SYNC, O_DSYNC).
    pub fsyncs: u64,
}

impl MountUse {
    /// What was counted of a mount since it was made, from `/proc/self/mountstats`.
    ///
    /// # Errors
    /// The text is not as expected, or has no such mount.
    pub fn of_client(mountstats: &str, mount_point: &Path) -> Result<Self, RpcError> {
        let MountNFSStatistics { bytes, events, .. } = statistics_of(mountstats, mount_point)?;
        Ok(Self {
            cached_read_bytes: bytes.normal_read,
            direct_read_bytes: bytes.direct_read,
            cached_written_bytes: bytes.normal_write,
            direct_written_bytes: bytes.direct_write,
            server_read_bytes: bytes.server_read,
            server_written_bytes: bytes.server_write,
            fsyncs: events.vfs_fs_sync,
        })
    }

    /// What was counted after an earlier count of the same mount.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cached_read_bytes: self.cached_read_bytes.saturating_sub(earlier.cached_read_bytes),
            direct_read_bytes: self.direct_read_bytes.saturating_sub(earlier.direct_read_bytes),
            cached_written_bytes: self.cached_written_bytes.saturating_sub(earlier.cached_written_bytes),
            direct_written_bytes: self.direct_written_bytes.saturating_sub(earlier.direct_written_bytes),
            server_read_bytes: self.server_read_bytes.saturating_sub(earlier.server_read_bytes),
            server_written_bytes: self.server_written_bytes.saturating_sub(earlier.server_written_bytes),
            fsyncs: self.fsyncs.saturating_sub(earlier.fsyncs),
        }
    }
}

/// What the kernel counted of a mount.
fn statistics_of(mountstats: &str, mount_point: &Path) -> Result<MountNFSStatistics, RpcError> {
    let mounts =
        MountStats::from_buf_read(Cursor::new(mountstats)).map_err(|e| RpcError::Client(e.to_string()))?;
    mounts
        .into_iter()
        .find(|mount| mount.mount_point == mount_point && mount.statistics.is_some())
        .and_then(|mount| mount.statistics)
        .ok_or_else(|| RpcError::NotMounted(mount_point.display().to_string()))
}

/// Errors of each procedure, the ninth of its numbers (`rpc_print_iostats` and `_print_rpc_iostats` in net/sunrpc/stats.c), which the crate `procfs`
/// does not read.
fn errors_of<'a>(mountstats: &'a str, mount_point: &Path) -> BTreeMap<&'a str, u64> {
    let is_mount = |line: &str| {
        let point = line.strip_prefix("device ").and_then(|line| line.split_once(" mounted on "));
        point
            .and_then(|(_, rest)| rest.split_once(" with fstype "))
            .is_some_and(|(point, _)| Path::new(point) == mount_point)
    };
    let of_mount = mountstats.lines().skip_while(|line| !is_mount(line)).skip(1);
    let of_mount = of_mount.take_while(|line| !line.starts_with("device "));
    let per_procedure = of_mount.skip_while(|line| line.trim() != "per-op statistics").skip(1);
    let errors = |line: &'a str| {
        let (procedure, numbers) = line.trim().split_once(':')?;
        Some((procedure, numbers.split_whitespace().nth(8)?.parse().ok()?))
    };
    per_procedure.filter_map(errors).collect()
}

/// Calls by procedure, those that were called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcCounts(BTreeMap<String, Calls>);

/// Why counters could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The kernel's text is not as expected.
    #[error("the counters of the NFS client are not as expected: {0}")]
    Client(String),
    /// No NFS is mounted there.
    #[error("no NFS is mounted at {0}")]
    NotMounted(String),
    /// The server's text has no counters of this version.
    #[error("the counters of the NFS server lack a line `{0}`")]
    NoLine(&'static str),
    /// A count is no number.
    #[error("the counters of the NFS server have {0:?} where a number belongs")]
    NoNumber(String),
}

/// The versions of NFS, as counters tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcVersion {
    /// Version 3.
    V3,
    /// Version 4, whatever its minor version.
    V4,
}

impl RpcCounts {
    /// What a client has counted of a mount since it was made, from `/proc/self/mountstats`.
    ///
    /// # Errors
    /// The text is not as expected, or has no such mount.
    pub fn of_client(mountstats: &str, mount_point: &Path) -> Result<Self, RpcError> {
        let statistics = statistics_of(mountstats, mount_point)?;
        let errors = errors_of(mountstats, mount_point);
        let called = statistics.per_op_stats.into_iter().filter(|(_, of_one)| of_one.operations > 0);
        Ok(Self(
            called
                .map(|(procedure, of_one)| {
                    let calls = Calls {
                        calls: of_one.operations,
                        sent_bytes: of_one.bytes_sent,
                        received_bytes: of_one.bytes_recv,
                        response_ms: u64::try_from(of_one.cum_resp_time.as_millis()).unwrap_or(u64::MAX),
                        errors: errors.get(procedure.as_str()).copied().unwrap_or(0),
                    };
                    (procedure, calls)
                })
                .collect(),
        ))
    }

    /// What a server has counted of a version since its machine booted, from `/proc/net/rpc/nfsd`.
    ///
    /// # Errors
    /// The text is not as expected.
    pub fn of_server(counters: &str, version: RpcVersion) -> Result<Self, RpcError> {
        match version {
            RpcVersion::V3 => Self::of_server_line(counters, "proc3", 0, &PROCEDURES_3),
            RpcVersion::V4 => Self::of_server_line(counters, "proc4ops", FIRST_OPERATION_4, &OPERATIONS_4),
        }
    }

    /// Whether [`Self::of_server`] can count a client's calls of that name: of version 4, calls have names that no operation has.
    pub fn are_counted_alike(procedure: &str, version: RpcVersion) -> bool {
        match version {
            RpcVersion::V3 => PROCEDURES_3.contains(&procedure),
            RpcVersion::V4 => OPERATIONS_4.contains(&procedure),
        }
    }

    /// The same of calls: of version 4, not the operations within them.
    ///
    /// # Errors
    /// The text is not as expected.
    pub fn of_server_calls(counters: &str, version: RpcVersion) -> Result<Self, RpcError> {
        match version {
            RpcVersion::V3 => Self::of_server(counters, version),
            RpcVersion::V4 => Self::of_server_line(counters, "proc4", 0, &PROCEDURES_4),
        }
    }

    fn of_server_line(
        counters: &str,
        line: &'static str,
        first: usize,
        names: &[&str],
    ) -> Result<Self, RpcError> {
        let mut words = counters
            .lines()
            .map(str::split_whitespace)
            .find_map(|mut words| (words.next()? == line).then_some(words))
            .ok_or(RpcError::NoLine(line))?;
        // How many there are.
        words.next();
        let mut counts = BTreeMap::new();
        for (word, name) in words.skip(first).zip(names) {
            let calls = word.parse().map_err(|_| RpcError::NoNumber(word.to_owned()))?;
            if calls > 0 {
                counts.insert((*name).to_owned(), Calls { calls, ..Calls::default() });
            }
        }
        Ok(Self(counts))
    }

    /// What was counted after an earlier count of the same client or server.
    pub fn since(&self, earlier: &Self) -> Self {
        let left = self.0.iter().map(|(procedure, now)| {
            let before = earlier.0.get(procedure).copied().unwrap_or_default();
            let calls = Calls {
                calls: now.calls.saturating_sub(before.calls),
                sent_bytes: now.sent_bytes.saturating_sub(before.sent_bytes),
                received_bytes: now.received_bytes.saturating_sub(before.received_bytes),
                response_ms: now.response_ms.saturating_sub(before.response_ms),
                errors: now.errors.saturating_sub(before.errors),
            };
            (procedure.clone(), calls)
        });
        Self(left.filter(|(_, calls)| calls.calls > 0).collect())
    }

    /// Each procedure that was called, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Calls)> {
        self.0.iter().map(|(procedure, calls)| (procedure.as_str(), *calls))
    }

    /// Calls of one procedure.
    pub fn calls_of(&self, procedure: &str) -> u64 {
        self.0.get(procedure).map_or(0, |calls| calls.calls)
    }

    /// Calls that were to write and ended with an error, of all that were.
    pub fn failed_writes(&self) -> (u64, u64) {
        let writes = self
            .0
            .iter()
            .filter(|(procedure, _)| matches!(CallKind::of(procedure), CallKind::Write | CallKind::Commit));
        writes.fold((0, 0), |(failed, all), (_, calls)| (failed + calls.errors, all + calls.calls))
    }

    /// Calls of all procedures.
    pub fn calls(&self) -> u64 {
        self.0.values().map(|calls| calls.calls).sum()
    }
}

#[cfg(test)]
mod tests;
