//! Conflicts between recommendations on record, with their sources in a few words.

use super::Decides::{Both, Flushes, Speed};
use super::What::{
    CannotRun, EveryWriteFlushed, Faster, FlushesLost, FlushesReach, HoldsBack, NotSlower, OnlyWhenAsked,
    Same,
};
use super::{Claim, Dispute, LabelledStack, Side, What, labelled};
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

const NONE: LabelledStack = labelled("none", "ext4/kvm/raw/ext4/hdd");
const WRITEBACK: LabelledStack = labelled("writeback", "ext4/kvm:cache=writeback/raw/ext4/hdd");
const WRITETHROUGH: LabelledStack = labelled("writethrough", "ext4/kvm:cache=writethrough/raw/ext4/hdd");
const DIRECTSYNC: LabelledStack = labelled("directsync", "ext4/kvm:cache=directsync/raw/ext4/hdd");
const UNSAFE: LabelledStack = labelled("unsafe", "ext4/kvm:cache=unsafe/raw/ext4/hdd");
const BLOCK: LabelledStack = labelled("block device", "ext4/kvm/hdd");

const NONE_ON_EXT4: LabelledStack = labelled("none on ext4", NONE.stack);
const NONE_ON_XFS: LabelledStack = labelled("none on xfs", "ext4/kvm/raw/xfs/hdd");
const NONE_ON_JFS: LabelledStack = labelled("none on jfs", "ext4/kvm/raw/jfs/hdd");
const THREADS: LabelledStack = labelled("threads", NONE.stack);
const NATIVE: LabelledStack = labelled("native", "ext4/kvm:aio=native/raw/ext4/hdd");
const IO_URING: LabelledStack = labelled("io_uring", "ext4/kvm:aio=io_uring/raw/ext4/hdd");
const RAW: LabelledStack = labelled("raw", NONE.stack);
const QCOW2: LabelledStack = labelled("qcow2", "ext4/kvm/qcow2/ext4/hdd");
const QCOW2_SIZED: LabelledStack = labelled("qcow2 sized", "ext4/kvm/qcow2:cluster=1M:l2-cache=8M/ext4/hdd");
const EXT4: LabelledStack = labelled("ext4", NONE.stack);
const EXT2: LabelledStack = labelled("ext2", "ext4/kvm/raw/ext2/hdd");
const EXT3: LabelledStack = labelled("ext3", "ext4/kvm/raw/ext3/hdd");
const XFS: LabelledStack = labelled("xfs", "ext4/kvm/raw/xfs/hdd");
const EXT4_DATA_JOURNAL: LabelledStack = labelled("ext4 data=journal", "ext4/kvm/raw/ext4:journal=data/hdd");
const BLOCK_DEVICE: LabelledStack = labelled("block device", "ext4/kvm:cache=writethrough/hdd");
const FILE: LabelledStack = labelled("file", WRITETHROUGH.stack);
const BTRFS: LabelledStack = labelled("btrfs", "ext4/kvm/raw/btrfs/hdd");
const BTRFS_NOCOW: LabelledStack = labelled("btrfs nocow", "ext4/kvm/raw/btrfs:nocow/hdd");
const THIN: LabelledStack = labelled("thin", NONE.stack);
const RESERVED: LabelledStack = labelled("reserved", "ext4/kvm/raw:alloc=falloc/ext4/hdd");
const THICK: LabelledStack = labelled("thick", "ext4/kvm/raw:alloc=full/ext4/hdd");

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
                    always(NotSlower(WRITEBACK, NONE)),
                    always(NotSlower(WRITEBACK, WRITETHROUGH)),
                    on(MAIL, FlushesReach(WRITEBACK)),
                ],
            },
            Side {
                who: "Red Hat, KubeVirt and Proxmox",
                says: "none",
                claims: &[
                    always(NotSlower(NONE, WRITEBACK)),
                    always(NotSlower(NONE, WRITETHROUGH)),
                    on(MAIL, FlushesReach(NONE)),
                ],
            },
            Side {
                who: "old libvirt",
                says: "writethrough",
                claims: &[
                    always(NotSlower(WRITETHROUGH, NONE)),
                    always(NotSlower(WRITETHROUGH, WRITEBACK)),
                    on(MAIL, EveryWriteFlushed(WRITETHROUGH)),
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
                claims: &[on(NEVER_FLUSHES, HoldsBack(WRITEBACK))],
            },
            Side {
                who: "SUSE and KubeVirt",
                says: "the guest's flushes are honoured, so what it flushed is safe",
                claims: &[on(FLUSH_PROBE, FlushesReach(WRITEBACK))],
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
                    on(FLUSH_PROBE, FlushesReach(NONE_ON_EXT4)),
                    on(FLUSH_PROBE, FlushesReach(NONE_ON_XFS)),
                    on(FLUSH_PROBE, FlushesReach(NONE_ON_JFS)),
                ],
            },
            Side {
                who: "a user after a power cut",
                says: "no: only writethrough is",
                claims: &[
                    on(FLUSH_PROBE, FlushesLost(NONE_ON_EXT4)),
                    on(FLUSH_PROBE, EveryWriteFlushed(WRITETHROUGH)),
                ],
            },
        ],
        stacks: &[NONE_ON_EXT4, NONE_ON_XFS, NONE_ON_JFS, WRITETHROUGH],
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
                    always(FlushesReach(NONE)),
                    always(OnlyWhenAsked(NONE)),
                    always(FlushesReach(WRITEBACK)),
                    always(OnlyWhenAsked(WRITEBACK)),
                    always(EveryWriteFlushed(WRITETHROUGH)),
                    always(EveryWriteFlushed(DIRECTSYNC)),
                    always(FlushesLost(UNSAFE)),
                ],
            },
            Side {
                who: "a proposal for KubeVirt",
                says: "none flushes after every write, directsync only when the guest asks",
                claims: &[always(EveryWriteFlushed(NONE)), always(OnlyWhenAsked(DIRECTSYNC))],
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
                claims: &[always(NotSlower(NONE, WRITEBACK)), always(NotSlower(NONE, DIRECTSYNC))],
            },
            Side {
                who: "another guide",
                says: "writeback or directsync",
                claims: &[always(NotSlower(WRITEBACK, NONE)), always(NotSlower(DIRECTSYNC, NONE))],
            },
            Side {
                who: "the nested-file-system paper",
                says: "do not nest file systems under a database",
                claims: &[always(Faster(BLOCK, NONE, 1.0))],
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
                claims: &[always(NotSlower(NATIVE, THREADS)), always(NotSlower(NATIVE, IO_URING))],
            },
            Side {
                who: "Proxmox",
                says: "io_uring",
                claims: &[always(NotSlower(IO_URING, THREADS)), always(NotSlower(IO_URING, NATIVE))],
            },
            Side {
                who: "the default of older systems",
                says: "threads",
                claims: &[always(NotSlower(THREADS, NATIVE)), always(NotSlower(THREADS, IO_URING))],
            },
        ],
        stacks: &[THREADS, NATIVE, IO_URING],
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
            Side { who: "Red Hat", says: "raw for speed", claims: &[always(Faster(RAW, QCOW2, 1.0))] },
            Side {
                who: "IBM and Igalia",
                says: "qcow2 is as fast once cluster size and cache are right",
                claims: &[always(NotSlower(QCOW2_SIZED, RAW))],
            },
            Side { who: "OpenStack", says: "both: a qcow2 overlay on a raw base", claims: &[] },
        ],
        stacks: &[RAW, QCOW2, QCOW2_SIZED],
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
                    always(Faster(EXT2, EXT3, 1.0)),
                    always(Faster(EXT2, EXT4, 1.0)),
                    always(Faster(EXT2, XFS, 1.0)),
                ],
            },
            Side {
                who: "every vendor",
                says: "ext4 and XFS are right under images",
                claims: &[always(NotSlower(EXT4, EXT2)), always(NotSlower(XFS, EXT2))],
            },
            Side {
                who: "a user of old kernels",
                says: "ext4 with data=journal does not work with cache=none",
                claims: &[on(RAND_WRITE, CannotRun(EXT4_DATA_JOURNAL))],
            },
        ],
        stacks: &[EXT4, EXT2, EXT3, XFS, EXT4_DATA_JOURNAL],
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
                claims: &[on(SEQ_READ, Faster(FILE, BLOCK_DEVICE, 1.0))],
            },
            Side {
                who: "Red Hat",
                says: "a block device is preferred",
                claims: &[always(NotSlower(BLOCK_DEVICE, FILE))],
            },
        ],
        stacks: &[BLOCK_DEVICE, FILE],
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
                claims: &[always(Faster(BTRFS_NOCOW, BTRFS, 1.0))],
            },
            Side {
                who: "a measurement by LXD",
                says: "it makes no difference to speed",
                claims: &[always(Same(BTRFS_NOCOW, BTRFS))],
            },
        ],
        stacks: &[BTRFS, BTRFS_NOCOW],
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
                claims: &[on(FIRST_WRITE, Faster(THICK, THIN, 1.10))],
            },
            Side {
                who: "the common reply",
                says: "no difference once the space has been written",
                claims: &[on(RAND_WRITE, Same(THICK, THIN))],
            },
        ],
        stacks: &[THIN, RESERVED, THICK],
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
            "these rules compare the speed of loads, and both sides speak of whole lives of instances: compare a stack \
             with `copy` and one with `overlay` under life:cycle:run=…, or ask nestor advise --propagate",
        ),
    },
];
