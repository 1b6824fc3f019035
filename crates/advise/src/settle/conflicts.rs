//! Conflicts between recommendations on record, with their sources in a few words.

use super::Decides::{Both, Flushes, Speed};
use super::What::{
    CannotRun, EveryWriteFlushed, Faster, FlushesLost, FlushesReach, HoldsBack, NotSlower, OnlyWhenAsked,
    Same,
};
use super::{Claim, Dispute, Side, What};
use crate::price::FLUSH_PROBE;

const RAND_WRITE: &str = "fio:rand-write";
const RAND_READ: &str = "fio:rand-read";
const SEQ_READ: &str = "fio:seq-read";
const SEQ_WRITE: &str = "fio:seq-write";
const MAIL: &str = "wml:mailserver:scale=0.02";
const DATABASE: &str = "wml:dbserver:scale=0.02:threads=20";
/// Never flushes, so that what is not flushed can be looked for.
const NEVER_FLUSHES: &str = "fio:rand-write:size=16M:runtime=5s";
/// Allocates while it is measured.
const FIRST_WRITE: &str = "fio:seq-write:overwrite=off";

const NONE: (&str, &str) = ("none", "ext4/kvm/raw/ext4/MEDIUM");
const WRITEBACK: (&str, &str) = ("writeback", "ext4/kvm:cache=writeback/raw/ext4/MEDIUM");
const WRITETHROUGH: (&str, &str) = ("writethrough", "ext4/kvm:cache=writethrough/raw/ext4/MEDIUM");
const DIRECTSYNC: (&str, &str) = ("directsync", "ext4/kvm:cache=directsync/raw/ext4/MEDIUM");
const UNSAFE: (&str, &str) = ("unsafe", "ext4/kvm:cache=unsafe/raw/ext4/MEDIUM");
const BLOCK: (&str, &str) = ("block device", "ext4/kvm/MEDIUM");

/// On every workload.
const fn always(what: What) -> Claim {
    Claim { on: None, what }
}

/// On one workload.
const fn on(workload: &'static str, what: What) -> Claim {
    Claim { on: Some(workload), what }
}

pub(super) static CONFLICTS: &[Dispute] = &[
    Dispute {
        id: "K1",
        question: "which cache mode should be the default?",
        sides: &[
            Side {
                who: "QEMU and SUSE",
                says: "writeback",
                claims: &[
                    always(NotSlower("writeback", "none")),
                    always(NotSlower("writeback", "writethrough")),
                    on(MAIL, FlushesReach("writeback")),
                ],
            },
            Side {
                who: "Red Hat, KubeVirt and Proxmox",
                says: "none",
                claims: &[
                    always(NotSlower("none", "writeback")),
                    always(NotSlower("none", "writethrough")),
                    on(MAIL, FlushesReach("none")),
                ],
            },
            Side {
                who: "old libvirt",
                says: "writethrough",
                claims: &[
                    always(NotSlower("writethrough", "none")),
                    always(NotSlower("writethrough", "writeback")),
                    on(MAIL, EveryWriteFlushed("writethrough")),
                ],
            },
        ],
        stacks: &[NONE, WRITEBACK, WRITETHROUGH],
        workloads: &[RAND_WRITE, MAIL],
        decides: Both,
        untested: &["migration, which some vendors support with none only", "several guests at once"],
        cannot: None,
    },
    Dispute {
        id: "K2",
        question: "is writeback safe?",
        sides: &[
            Side {
                who: "Red Hat and Proxmox users",
                says: "data can be lost when the host fails",
                claims: &[on(NEVER_FLUSHES, HoldsBack("writeback"))],
            },
            Side {
                who: "SUSE and KubeVirt",
                says: "the guest's flushes are honoured, so what it flushed is safe",
                claims: &[on(FLUSH_PROBE, FlushesReach("writeback"))],
            },
        ],
        stacks: &[NONE, WRITEBACK, UNSAFE],
        workloads: &[FLUSH_PROBE, NEVER_FLUSHES],
        decides: Flushes,
        untested: &[
            "whether the disk keeps flushed data in a power cut: only the arrival of flushes is seen",
        ],
        cannot: None,
    },
    Dispute {
        id: "K3",
        question: "is cache=none safe?",
        sides: &[
            Side {
                who: "most documentation",
                says: "yes: flushes reach the disk",
                claims: &[
                    on(FLUSH_PROBE, FlushesReach("none on ext4")),
                    on(FLUSH_PROBE, FlushesReach("none on xfs")),
                    on(FLUSH_PROBE, FlushesReach("none on jfs")),
                ],
            },
            Side {
                who: "a user after a power cut",
                says: "no: only writethrough is",
                claims: &[
                    on(FLUSH_PROBE, FlushesLost("none on ext4")),
                    on(FLUSH_PROBE, EveryWriteFlushed("writethrough")),
                ],
            },
        ],
        stacks: &[
            ("none on ext4", NONE.1),
            ("none on xfs", "ext4/kvm/raw/xfs/MEDIUM"),
            ("none on jfs", "ext4/kvm/raw/jfs/MEDIUM"),
            WRITETHROUGH,
        ],
        workloads: &[FLUSH_PROBE],
        decides: Flushes,
        untested: &["disks that report a flush as done when it is not", "guests that do not flush"],
        cannot: None,
    },
    Dispute {
        id: "K4",
        question: "what do the cache modes mean?",
        sides: &[
            Side {
                who: "QEMU's manual",
                says: "none and writeback flush when the guest asks, writethrough and directsync after every write, \
                       unsafe never",
                claims: &[
                    always(FlushesReach("none")),
                    always(OnlyWhenAsked("none")),
                    always(FlushesReach("writeback")),
                    always(OnlyWhenAsked("writeback")),
                    always(EveryWriteFlushed("writethrough")),
                    always(EveryWriteFlushed("directsync")),
                    always(FlushesLost("unsafe")),
                ],
            },
            Side {
                who: "a proposal for KubeVirt",
                says: "none flushes after every write, directsync only when the guest asks",
                claims: &[always(EveryWriteFlushed("none")), always(OnlyWhenAsked("directsync"))],
            },
        ],
        stacks: &[NONE, WRITEBACK, WRITETHROUGH, DIRECTSYNC, UNSAFE],
        workloads: &[FLUSH_PROBE],
        decides: Flushes,
        untested: &["hypervisors other than QEMU", "device models other than virtio-blk"],
        cannot: None,
    },
    Dispute {
        id: "K5",
        question: "which cache mode for databases?",
        sides: &[
            Side {
                who: "one guide",
                says: "none",
                claims: &[always(NotSlower("none", "writeback")), always(NotSlower("none", "directsync"))],
            },
            Side {
                who: "another guide",
                says: "writeback or directsync",
                claims: &[always(NotSlower("writeback", "none")), always(NotSlower("directsync", "none"))],
            },
            Side {
                who: "the nested-file-system paper",
                says: "do not nest file systems under a database",
                claims: &[always(Faster("block device", "none", 1.0))],
            },
        ],
        stacks: &[NONE, WRITEBACK, DIRECTSYNC, BLOCK],
        workloads: &[DATABASE],
        decides: Speed,
        untested: &["a real database: the workload is Filebench's model of one, scaled down"],
        cannot: None,
    },
    Dispute {
        id: "K6",
        question: "which way should QEMU submit I/O?",
        sides: &[
            Side {
                who: "Red Hat and IBM",
                says: "native",
                claims: &[always(NotSlower("native", "threads")), always(NotSlower("native", "io_uring"))],
            },
            Side {
                who: "Proxmox",
                says: "io_uring",
                claims: &[always(NotSlower("io_uring", "threads")), always(NotSlower("io_uring", "native"))],
            },
            Side {
                who: "the default of older systems",
                says: "threads",
                claims: &[always(NotSlower("threads", "native")), always(NotSlower("threads", "io_uring"))],
            },
        ],
        stacks: &[
            ("threads", NONE.1),
            ("native", "ext4/kvm:aio=native/raw/ext4/MEDIUM"),
            ("io_uring", "ext4/kvm:aio=io_uring/raw/ext4/MEDIUM"),
        ],
        workloads: &[RAND_READ, RAND_WRITE],
        decides: Speed,
        untested: &[
            "disks with a million IOPS, where processor time is the limit",
            "an iothread for each disk",
        ],
        cannot: None,
    },
    Dispute {
        id: "K7",
        question: "raw or qcow2?",
        sides: &[
            Side { who: "Red Hat", says: "raw for speed", claims: &[always(Faster("raw", "qcow2", 1.0))] },
            Side {
                who: "IBM and Igalia",
                says: "qcow2 is as fast once cluster size and cache are right",
                claims: &[always(NotSlower("qcow2 sized", "raw"))],
            },
            Side { who: "OpenStack", says: "both: a qcow2 overlay on a raw base", claims: &[] },
        ],
        stacks: &[
            ("raw", NONE.1),
            ("qcow2", "ext4/kvm/qcow2/ext4/MEDIUM"),
            ("qcow2 sized", "ext4/kvm/qcow2:cluster=1M:l2-cache=8M/ext4/MEDIUM"),
        ],
        workloads: &[RAND_WRITE, FIRST_WRITE],
        decides: Speed,
        untested: &["overlays: a stack has no backing image", "snapshots"],
        cannot: None,
    },
    Dispute {
        id: "K8",
        question: "should the host's file system have a journal?",
        sides: &[
            Side {
                who: "the nested-file-system paper",
                says: "no: its journal has a cost and no benefit",
                claims: &[
                    always(Faster("ext2", "ext3", 1.0)),
                    always(Faster("ext2", "ext4", 1.0)),
                    always(Faster("ext2", "xfs", 1.0)),
                ],
            },
            Side {
                who: "every vendor",
                says: "ext4 and XFS are right under images",
                claims: &[always(NotSlower("ext4", "ext2")), always(NotSlower("xfs", "ext2"))],
            },
            Side {
                who: "a user of old kernels",
                says: "ext4 with data=journal does not work with cache=none",
                claims: &[on(RAND_WRITE, CannotRun("ext4 data=journal"))],
            },
        ],
        stacks: &[
            ("ext4", NONE.1),
            ("ext2", "ext4/kvm/raw/ext2/MEDIUM"),
            ("ext3", "ext4/kvm/raw/ext3/MEDIUM"),
            ("xfs", "ext4/kvm/raw/xfs/MEDIUM"),
            ("ext4 data=journal", "ext4/kvm/raw/ext4:journal=data/MEDIUM"),
        ],
        workloads: &[RAND_WRITE, FIRST_WRITE],
        decides: Speed,
        untested: &["whether an image survives a crash of a host without a journal"],
        cannot: None,
    },
    Dispute {
        id: "K9",
        question: "a file or a block device?",
        sides: &[
            Side {
                who: "the nested-file-system paper",
                says: "a flat file reads faster sequentially, because the host reads ahead",
                claims: &[on(SEQ_READ, Faster("file", "block device", 1.0))],
            },
            Side {
                who: "Red Hat",
                says: "a block device is preferred",
                claims: &[always(NotSlower("block device", "file"))],
            },
        ],
        stacks: &[("block device", "ext4/kvm:cache=writethrough/MEDIUM"), ("file", WRITETHROUGH.1)],
        workloads: &[SEQ_READ, SEQ_WRITE],
        decides: Speed,
        untested: &["LVM and other volume managers", "cache=none, where the host cannot read ahead"],
        cannot: None,
    },
    Dispute {
        id: "K10",
        question: "should images on Btrfs be nocow?",
        sides: &[
            Side {
                who: "many guides",
                says: "yes: copying on write makes images slow",
                claims: &[always(Faster("btrfs nocow", "btrfs", 1.0))],
            },
            Side {
                who: "a measurement by LXD",
                says: "it makes no difference to speed",
                claims: &[always(Same("btrfs nocow", "btrfs"))],
            },
        ],
        stacks: &[("btrfs", "ext4/kvm/raw/btrfs/MEDIUM"), ("btrfs nocow", "ext4/kvm/raw/btrfs:nocow/MEDIUM")],
        workloads: &[RAND_WRITE, SEQ_READ],
        decides: Speed,
        untested: &[
            "nocow files have no checksums and share nothing with ordinary files",
            "images long in use",
        ],
        cannot: None,
    },
    Dispute {
        id: "K11",
        question: "thick or thin?",
        sides: &[
            Side {
                who: "VMware",
                says: "space that was zeroed beforehand is 10 to 20 % faster",
                claims: &[on(FIRST_WRITE, Faster("thick", "thin", 1.10))],
            },
            Side {
                who: "the common reply",
                says: "no difference once the space has been written",
                claims: &[on(RAND_WRITE, Same("thick", "thin"))],
            },
        ],
        stacks: &[
            ("thin", NONE.1),
            ("reserved", "ext4/kvm/raw:alloc=falloc/ext4/MEDIUM"),
            ("thick", "ext4/kvm/raw:alloc=full/ext4/MEDIUM"),
        ],
        workloads: &[FIRST_WRITE, RAND_WRITE],
        decides: Speed,
        untested: &["arrays that write zeros on request"],
        cannot: None,
    },
    Dispute {
        id: "K12",
        question: "should images be loaded on demand?",
        sides: &[
            Side { who: "one project", says: "it saves 90 % of the start-up time", claims: &[] },
            Side {
                who: "another",
                says: "it is 1.5 to 2 times slower once a third has been read",
                claims: &[],
            },
        ],
        stacks: &[],
        workloads: &[],
        decides: Speed,
        untested: &[],
        cannot: Some(
            "no layer of a stack fetches an image over a network while it is read: there are no backing \
             images and no registry",
        ),
    },
];
