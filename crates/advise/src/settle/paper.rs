//! The five pieces of advice of Le, Huang and Wang, Understanding Performance Implications of Nested File Systems in a
//! Virtualized Environment, FAST '12, §5.

use super::Decides::Speed;
use super::What::{Faster, NotSlower, Same, Slower};
use super::{Claim, Dispute, Side, What};

const PAPER: &str = "the nested-file-system paper";
const BLOCK: (&str, &str) = ("disk", "ext3/kvm:cache=writethrough/MEDIUM");
const EXT3: (&str, &str) = ("on ext3", "ext3/kvm:cache=writethrough/raw/ext3/MEDIUM");
const EXT2: (&str, &str) = ("on ext2", "ext3/kvm:cache=writethrough/raw/ext2/MEDIUM");
/// One operation at a time: its rate is the inverse of its latency.
const ONE_READ: &str = "fio:rand-read:depth=1";
const ONE_WRITE: &str = "fio:rand-write:depth=1";

const fn on(workload: &'static str, what: What) -> Claim {
    Claim { on: Some(workload), what }
}

const fn always(what: What) -> Claim {
    Claim { on: None, what }
}

pub(super) static ADVICE: &[Dispute] = &[
    Dispute {
        id: "A1",
        question: "do reads suffer from nesting?",
        sides: &[Side {
            who: PAPER,
            says: "hardly, and sequential reads may gain from the host's read-ahead",
            claims: &[
                on("fio:rand-read", Same("on ext3", "disk")),
                on("fio:seq-read", NotSlower("on ext3", "disk")),
                on("fio:rand-read", Same("on jfs", "disk")),
                on("fio:seq-read", NotSlower("on jfs", "disk")),
            ],
        }],
        stacks: &[BLOCK, EXT3, ("on jfs", "ext3/kvm:cache=writethrough/raw/jfs/MEDIUM")],
        workloads: &["fio:rand-read", "fio:seq-read"],
        decides: Speed,
        untested: &["guests other than ext3", "cache=none, where the host cannot read ahead"],
        cannot: None,
    },
    Dispute {
        id: "A2",
        question: "should write-heavy workloads avoid nesting, and journals on the host?",
        sides: &[Side {
            who: PAPER,
            says: "yes: there is one more layer to pass, and more metadata and another log to write",
            claims: &[
                always(Faster("disk", "on ext3", 1.0)),
                always(Faster("on ext2", "on ext3", 1.0)),
                always(Slower("on ext3 data=journal", "on ext3", 1.0)),
            ],
        }],
        stacks: &[
            BLOCK,
            EXT3,
            EXT2,
            ("on ext3 data=journal", "ext3/kvm:cache=writethrough/raw/ext3:journal=data/MEDIUM"),
        ],
        workloads: &["fio:seq-write", "fio:rand-write"],
        decides: Speed,
        untested: &["whether metadata-only journals save an image from a crash of the host"],
        cannot: None,
    },
    Dispute {
        id: "A3",
        question: "does nesting add 10 to 30 % to latency even at best?",
        sides: &[Side {
            who: PAPER,
            says: "yes: one more file system to traverse and one more queue to wait in",
            claims: &[
                // A latency 10 % longer is a rate 1/1.1 as high.
                on(ONE_READ, Slower("on ext2", "disk", 1.0 / 1.1)),
                on(ONE_WRITE, Slower("on ext2", "disk", 1.0 / 1.1)),
            ],
        }],
        stacks: &[BLOCK, EXT2, EXT3],
        workloads: &[ONE_READ, ONE_WRITE],
        decides: Speed,
        untested: &["latency under load: only one operation at a time is compared"],
        cannot: None,
    },
    Dispute {
        id: "A4",
        question: "should the host only pass requests through?",
        sides: &[Side {
            who: PAPER,
            says: "yes: the host places data a second time, and knows less than the guest",
            claims: &[
                always(NotSlower("disk", "on ext3")),
                always(NotSlower("placed before", "on ext3")),
                always(NotSlower("disk", "placed before")),
            ],
        }],
        stacks: &[BLOCK, EXT3, ("placed before", "ext3/kvm:cache=writethrough/raw:alloc=full/ext3/MEDIUM")],
        workloads: &["fio:seq-write:overwrite=off", "fio:rand-write"],
        decides: Speed,
        untested: &["VirtFS and other ways to share the host's files: no layer does that yet"],
        cannot: None,
    },
    Dispute {
        id: "A5",
        question: "does tuning the host's file system gain more than tuning the guest's?",
        sides: &[Side {
            who: PAPER,
            says: "yes: it is the layer that speaks to the disk",
            claims: &[always(Faster("host tuned", "guest tuned", 1.0))],
        }],
        stacks: &[
            ("default", "ext4/kvm:cache=writethrough/raw/ext4/MEDIUM"),
            ("host tuned", "ext4/kvm:cache=writethrough/raw/ext4:journal=writeback:mount=noatime/MEDIUM"),
            ("guest tuned", "ext4:journal=writeback:mount=noatime/kvm:cache=writethrough/raw/ext4/MEDIUM"),
        ],
        workloads: &["wml:mailserver:scale=0.02", "fio:seq-write:overwrite=off"],
        decides: Speed,
        untested: &[
            "parameters other than data=writeback and noatime",
            "block and inode sizes, placement of the log",
        ],
        cannot: None,
    },
];
