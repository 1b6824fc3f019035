//! The five pieces of advice of Le, Huang and Wang, Understanding Performance Implications of Nested File Systems in a
//! Virtualized Environment, FAST '12, §5.

use super::Decides::Speed;
use super::What::{Faster, NotSlower, Same, Slower};
use super::{Claim, Dispute, LabelledStack, Side, What, labelled};

const PAPER: &str = "the nested-file-system paper";
const BLOCK: LabelledStack = labelled("disk", "ext3/kvm:cache=writethrough/hdd");
const EXT3: LabelledStack = labelled("on ext3", "ext3/kvm:cache=writethrough/raw/ext3/hdd");
const EXT2: LabelledStack = labelled("on ext2", "ext3/kvm:cache=writethrough/raw/ext2/hdd");
/// One operation at a time: its rate is the inverse of its latency.
const ONE_READ: &str = "fio:rand-read:depth=1";
const ONE_WRITE: &str = "fio:rand-write:depth=1";

const ON_JFS: LabelledStack = labelled("on jfs", "ext3/kvm:cache=writethrough/raw/jfs/hdd");
const ON_EXT3_DATA_JOURNAL: LabelledStack =
    labelled("on ext3 data=journal", "ext3/kvm:cache=writethrough/raw/ext3:journal=data/hdd");
const PLACED_BEFORE: LabelledStack =
    labelled("placed before", "ext3/kvm:cache=writethrough/raw:alloc=full/ext3/hdd");
const DEFAULT: LabelledStack = labelled("default", "ext4/kvm:cache=writethrough/raw/ext4/hdd");
const HOST_TUNED: LabelledStack =
    labelled("host tuned", "ext4/kvm:cache=writethrough/raw/ext4:journal=writeback:mount=noatime/hdd");
const GUEST_TUNED: LabelledStack =
    labelled("guest tuned", "ext4:journal=writeback:mount=noatime/kvm:cache=writethrough/raw/ext4/hdd");

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
                on("fio:rand-read", Same(EXT3, BLOCK)),
                on("fio:seq-read", NotSlower(EXT3, BLOCK)),
                on("fio:rand-read", Same(ON_JFS, BLOCK)),
                on("fio:seq-read", NotSlower(ON_JFS, BLOCK)),
            ],
        }],
        stacks: &[BLOCK, EXT3, ON_JFS],
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
                always(Faster(BLOCK, EXT3, 1.0)),
                always(Faster(EXT2, EXT3, 1.0)),
                always(Slower(ON_EXT3_DATA_JOURNAL, EXT3, 1.0)),
            ],
        }],
        stacks: &[BLOCK, EXT3, EXT2, ON_EXT3_DATA_JOURNAL],
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
                on(ONE_READ, Slower(EXT2, BLOCK, 1.0 / 1.1)),
                on(ONE_WRITE, Slower(EXT2, BLOCK, 1.0 / 1.1)),
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
                always(NotSlower(BLOCK, EXT3)),
                always(NotSlower(PLACED_BEFORE, EXT3)),
                always(NotSlower(BLOCK, PLACED_BEFORE)),
            ],
        }],
        stacks: &[BLOCK, EXT3, PLACED_BEFORE],
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
            claims: &[always(Faster(HOST_TUNED, GUEST_TUNED, 1.0))],
        }],
        stacks: &[DEFAULT, HOST_TUNED, GUEST_TUNED],
        workloads: &["wml:mailserver:scale=0.02", "fio:seq-write:overwrite=off"],
        decides: Speed,
        untested: &[
            "parameters other than data=writeback and noatime",
            "block and inode sizes, placement of the log",
        ],
        cannot: None,
    },
];
