//! Each mechanism, planted in a real stack, has to be the one that `nestor explain` names.
//!
//! The table that is printed, planted against named, is a diagonal. `NESTOR_FAULTS=flushes,merging` tries only some.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use serde_json::Value;
use support::{Sandbox, alone, can_run};

/// A mechanism, a stack in which it is at work, and one that differs in nothing else.
struct Fault {
    planted: &'static str,
    baseline: &'static str,
    stack: &'static str,
    workload: &'static str,
    /// One pair is enough where the effect is many times what chance does.
    pairs: u32,
}

const FAULTS: &[Fault] = &[
    Fault {
        // More streams than the disk's own cache has segments for.
        planted: "host-read-ahead",
        baseline: "kvm:cache=none/raw/ext4/hdd",
        stack: "kvm:cache=writeback/raw/ext4/hdd",
        workload: "fio:seq-read:size=32M:files=128:service=roundrobin:depth=1:runtime=20s",
        pairs: 1,
    },
    Fault {
        planted: "host-cache",
        baseline: "kvm:cache=none/raw/xfs/hdd:wcache=off",
        stack: "kvm:cache=unsafe/raw/xfs/hdd:wcache=off",
        workload: "fio:rand-write:size=8M:depth=4",
        pairs: 1,
    },
    Fault {
        planted: "merging",
        // The kernel writes a device's page cache out block by block. A disk without a write cache cannot put them together
        // again.
        baseline: "hdd:sched=mq-deadline:wcache=off",
        stack: "hdd:sched=mq-deadline:wcache=off:merges=off",
        workload: "fio:seq-write:size=32M:bs=64k:depth=1:direct=off",
        pairs: 1,
    },
    Fault {
        planted: "guest-amplification",
        baseline: "ext2/hdd:wcache=off",
        stack: "ext3/hdd:wcache=off",
        workload: "fio:rand-write:size=4M:depth=1:direct=off:fsync=1",
        pairs: 1,
    },
    Fault {
        planted: "host-amplification",
        // Each write into a hole of the image allocates, and each fsync then commits the host's journal.
        baseline: "ext2/kvm/raw:alloc=full:size=256M/ext4/hdd:wcache=off",
        stack: "ext2/kvm/raw:size=256M/ext4/hdd:wcache=off",
        workload: "fio:seq-write:size=4M:depth=1:direct=off:fsync=1:overwrite=off",
        pairs: 1,
    },
    Fault {
        planted: "journal-of-journal",
        baseline: "ext4/kvm/raw:alloc=full:size=256M/ext4/hdd:wcache=off",
        stack: "ext4/kvm/raw:size=256M/ext4/hdd:wcache=off",
        workload: "fio:seq-write:size=4M:depth=1:direct=off:fsync=1:overwrite=off",
        pairs: 1,
    },
    Fault {
        planted: "read-modify-write",
        baseline: "kvm:cache=none/raw/xfs/hdd",
        stack: "kvm:cache=writeback/raw/xfs/hdd",
        // Synced, so that the host's cache does not keep writes for longer than the run.
        workload: "fio:rand-write:size=64M:bs=1k:depth=1:engine=psync:fsync=1",
        pairs: 1,
    },
    Fault {
        planted: "misalignment",
        baseline: "ext2/part/kvm:cache=writeback/raw/xfs/hdd",
        stack: "ext2/part:start=63s/kvm:cache=writeback/raw/xfs/hdd",
        // Each block of the guest lies across two pages of the host's cache.
        workload: "fio:rand-write:size=64M:bs=4k:depth=1:engine=psync:fsync=1:runtime=20s",
        pairs: 1,
    },
    Fault {
        planted: "misalignment",
        // Each block of the guest lies across two pages of the server's cache. It has no file system, whose structures would be read and
        // written again, too.
        baseline: "part/kvm:memory=512M/raw:alloc=full:size=256M/nfs:vers=3/link:memory=1G/xfs/raid5",
        stack: "part:start=63s/kvm:memory=512M/raw:alloc=full:size=256M/nfs:vers=3/link:memory=1G/xfs/raid5",
        workload: "fio:rand-write:size=64M:bs=4k:depth=1:runtime=5s",
        pairs: 1,
    },
    Fault {
        planted: "flushes",
        baseline: "kvm:cache=none/hdd:wcache=on",
        stack: "kvm:cache=writethrough/hdd:wcache=on",
        workload: "fio:rand-write:size=8M:depth=4",
        pairs: 1,
    },
    Fault {
        planted: "seeks-to-log",
        // With a write cache the disk would do the ways within its flushes, where they are not seen.
        // And without its option the file system reads all its bitmaps in the first minutes after it was mounted.
        baseline: "ext4:mount=no_prefetch_block_bitmaps/hdd:size=2G:wcache=off",
        stack: "ext4:mount=no_prefetch_block_bitmaps/hdd:size=900G:wcache=off",
        workload: "fio:rand-write:size=4M:depth=1:direct=off:fsync=1",
        pairs: 1,
    },
    Fault {
        planted: "image-metadata",
        baseline: "kvm/qcow2:size=4G:cluster=4k:l2-cache=8M/xfs/hdd",
        stack: "kvm/qcow2:size=4G:cluster=4k:l2-cache=8k/xfs/hdd",
        workload: "fio:rand-read:size=256M:depth=4:runtime=20s",
        pairs: 1,
    },
    Fault {
        planted: "single-queue",
        baseline: "kvm:disk=virtio-blk/raid0",
        stack: "kvm:disk=ide/raid0",
        workload: "fio:rand-read:size=32M:depth=32:runtime=15s",
        pairs: 1,
    },
    Fault {
        planted: "path-length",
        baseline: "null",
        stack: "kvm/null",
        workload: "fio:rand-read:size=64M:bs=4k:depth=16",
        pairs: 1,
    },
    Fault {
        planted: "fragmentation",
        baseline: "kvm/raw:alloc=falloc:size=1G/ext4/hdd",
        stack: "kvm/raw:alloc=scattered:size=1G/ext4/hdd",
        workload: "fio:seq-read:size=128M:bs=256k:depth=2",
        pairs: 1,
    },
    Fault {
        planted: "fragmentation",
        // On the server of the client that has the guest.
        baseline: "kvm:memory=512M/raw:alloc=falloc:size=256M/nfs/link:memory=2G/ext4/hdd",
        stack: "kvm:memory=512M/raw:alloc=scattered:size=256M/nfs/link:memory=2G/ext4/hdd",
        workload: "fio:seq-read:size=64M:bs=256k:depth=2",
        pairs: 1,
    },
    Fault {
        planted: "synchronous-write",
        baseline: "nfs:vers=3/link:memory=1G/ext4/hdd",
        stack: "nfs:vers=3:sync/link:memory=1G/ext4/hdd",
        workload: "fio:rand-write:size=4M:bs=4k:depth=1:direct=off:engine=psync",
        pairs: 1,
    },
    Fault {
        planted: "metadata-rpc",
        baseline: "nfs:vers=3/link:memory=1G/ext4/hdd",
        stack: "nfs:vers=3:actimeo=0/link:memory=1G/ext4/hdd",
        workload: "wml:stat-tree:scale=0.01:runtime=3s",
        pairs: 1,
    },
    Fault {
        // By its rate.
        planted: "link-bound",
        baseline: "nfs:vers=3/link:rate=1gbit:memory=1G/ext4/ssd",
        stack: "nfs:vers=3/link:rate=10mbit:memory=1G/ext4/ssd",
        workload: "fio:seq-write:size=8M:runtime=2s",
        pairs: 1,
    },
    Fault {
        // By its delay.
        planted: "link-bound",
        baseline: "nfs:vers=3/link:memory=1G/ext4/ssd",
        stack: "nfs:vers=3/link:delay=10ms:memory=1G/ext4/ssd",
        workload: "fio:rand-read:size=8M:bs=4k:depth=1:runtime=2s",
        pairs: 1,
    },
    Fault {
        // By its delay, below a network disk.
        planted: "link-bound",
        baseline: "xfs/nbd/link:memory=1G/raw:size=1G/ext4/ssd",
        stack: "xfs/nbd/link:delay=10ms:memory=1G/raw:size=1G/ext4/ssd",
        workload: "fio:rand-read:size=8M:bs=4k:depth=1:runtime=2s",
        pairs: 1,
    },
    Fault {
        // By its losses.
        planted: "link-bound",
        baseline: "nfs:vers=3/link:memory=1G/ext4/ssd",
        stack: "nfs:vers=3/link:loss=2%:memory=1G/ext4/ssd",
        workload: "fio:rand-write:size=8M:bs=16k:depth=1:runtime=2s",
        pairs: 1,
    },
    Fault {
        planted: "read-modify-write",
        // Of an array's rows; the baseline has no parity.
        baseline: "nfs:vers=3/link:memory=1G/xfs/raid0:raid0-5x10k:wcache=off",
        stack: "nfs:vers=3/link:memory=1G/xfs/raid5:wcache=off",
        workload: "fio:rand-write:size=8M:bs=4k:depth=4:runtime=2s",
        pairs: 1,
    },
    Fault {
        planted: "readahead-over-nfs",
        // The first block of each of many files, behind which a guest reads on. The link is slow enough for that to take longer.
        baseline: "ext4/kvm:cache=none:memory=512M:readahead=0/raw:size=256M/nfs:vers=3/link:rate=10mbit:memory=1G/ext4/ssd",
        stack: "ext4/kvm:cache=none:memory=512M/raw:size=256M/nfs:vers=3/link:rate=10mbit:memory=1G/ext4/ssd",
        workload: "fio:seq-read:size=64M:files=1024:bs=4k:service=roundrobin:depth=1:engine=psync:direct=off:runtime=3s",
        pairs: 1,
    },
    Fault {
        planted: "noise",
        baseline: "ext4/hdd:wcache=off",
        stack: "ext4:mount=noatime/hdd:wcache=off",
        workload: "fio:rand-write:size=4M:depth=4",
        pairs: 3,
    },
];

#[test]
#[ignore = "builds 54 stacks, about 50 minutes; part of `make test-long`"]
fn each_planted_mechanism_is_named_and_nothing_else() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let wanted = std::env::var("NESTOR_FAULTS").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').filter(|name| !name.is_empty()).collect();
    let chosen = FAULTS.iter().filter(|fault| wanted.is_empty() || wanted.contains(&fault.planted));
    let rows: Vec<(&str, Vec<String>)> = chosen.map(|fault| (fault.planted, named(fault))).collect();
    println!("\n{:<22} named", "planted");
    rows.iter().for_each(|(planted, named)| println!("{planted:<22} {}", named.join(", ")));
    // Exactly what was planted: first, and alone.
    let alone = |planted: &str, named: &[String]| matches!(named, [only] if only.starts_with(planted));
    let off: Vec<_> = rows.iter().filter(|(planted, named)| !alone(planted, named)).collect();
    assert!(off.is_empty(), "not on the diagonal: {off:?}");
}

/// What is named for a fault, the largest first, each with its share.
fn named(fault: &Fault) -> Vec<String> {
    let sandbox = Sandbox::new();
    let pairs = fault.pairs.to_string();
    let compared = sandbox
        .nestor(["compare", fault.baseline, fault.stack, fault.workload, "-n", &pairs, "--json"])
        .timeout(std::time::Duration::from_secs(900))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&compared.stderr);
    let Ok(view) = serde_json::from_slice::<Value>(&compared.stdout) else {
        return vec![format!("nothing measured: {}", said.trim())];
    };
    let run = |side: &str| view[side]["summary"]["samples"][0]["run"].as_i64().map(|run| run.to_string());
    let (Some(baseline), Some(candidate)) = (run("baseline"), run("candidate")) else {
        return vec![format!("nothing measured: {}", said.trim())];
    };
    let explained =
        sandbox.nestor(["explain", &candidate, "--against", &baseline]).output().expect("it runs");
    println!("{}", String::from_utf8_lossy(&explained.stdout));
    let explained =
        sandbox.nestor(["explain", &candidate, "--against", &baseline, "--json"]).output().expect("it runs");
    let explanation: Value = serde_json::from_slice(&explained.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&explained.stderr)));
    let findings = explanation["findings"].as_array().cloned().unwrap_or_default();
    findings
        .iter()
        .map(|f| {
            let share = f["share"].as_f64().unwrap_or_default() * 100.0;
            format!("{} {share:.0} %", f["mechanism"].as_str().unwrap_or_default())
        })
        .collect()
}
