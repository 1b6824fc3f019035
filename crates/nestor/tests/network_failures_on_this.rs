//! What becomes of a run with a link of the kernel (`--on this`) when a part of it fails or is killed: tried in a machine of the lab, in which
//! anything may be broken. The client is a namespace of that machine's kernel, so what hangs there would stay.

mod support;

use support::lab_machine::{LabMachine, OVERWRITE};
use support::{Sandbox, alone, can_run};

/// Minutes: longer than it takes to break something.
const LOAD: &str = "fio:rand-write:size=128M:bs=4k:depth=1:engine=psync:fsync=1:runtime=10m";

/// Starts a run, waits until the server has written something of its load, does something, and waits for the run's end.
const BREAK: &str = r#"
fault=$1; shift
/proc/1/exe run --on this "$@" >/tmp/said 2>&1 &
run=$!
running() { [ -d /proc/$run ] || { cat /tmp/said; echo 'it ended before its load began'; exit 3; }; sleep 0.1; }
until grep -qsz -e --runtime=600 /proc/[0-9]*/cmdline; do running; done
written() { sed -n 's/^io [0-9]* //p' /proc/net/rpc/nfsd; }
before=$(written)
until [ "$(written)" -gt "$before" ]; do running; done
export=$(sed 's/^\([^\t]*\)\t\([^(]*\)(.*/\2:\1/' /var/lib/nfs/etab)
directory=${export#*:}
eval "$fault"
wait $run; code=$?
cat /tmp/said
exit $code
"#;

/// Ends a run with the first of its agents, or all of them, and waits until the rest has ended by itself.
const KILL: &str = r#"
agents() { for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline | grep -q '^/proc/self/exe agent' && echo ${p#/proc/}; done; }
kill -KILL $run $([ "$who" = all ] && agents)
for look in $(seq 300); do [ -z "$(agents)" ] && break; sleep 0.2; done
grep '^th [1-9]' /proc/net/rpc/nfsd
losetup --all
"#;

struct Broken {
    machine: LabMachine,
}

impl Broken {
    fn boot(sandbox: &Sandbox) -> Self {
        let mut machine = LabMachine::boot(sandbox);
        machine.said(&["modprobe", "null_blk", "nr_devices=1", "memory_backed=1", "gb=1"]);
        Self { machine }
    }

    /// What a run says in the middle of which this was done. It must not succeed.
    fn said_of(&mut self, stack: &str, fault: &str) -> String {
        let run = ["sh", "-c", BREAK, "-", fault, stack, LOAD, "-n", "1", "--no-trace"];
        let ended = self.machine.run(&[&run[..], &OVERWRITE].concat());
        let said = format!("{}{}", ended.stdout_text(), ended.stderr_text());
        assert!(!ended.succeeded(), "{fault}: {said}");
        said
    }
}

#[test]
#[ignore = "builds stacks in an emulated machine, some minutes; part of `make test-long`"]
fn a_server_that_ends_and_handles_that_become_stale_are_told_and_nothing_is_left() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut broken = Broken::boot(&sandbox);
    let stack = "nfs:vers=3/link/xfs/dev:/dev/nullb0";
    // Nothing is recorded: recorders take their time in an emulated machine, and are not what is tried.
    let run = [
        "{nestor}",
        "run",
        "--on",
        "this",
        stack,
        "fio:seq-write:size=1M:runtime=1s",
        "-n",
        "1",
        "--no-trace",
    ];
    broken.machine.said(&[&run[..], &OVERWRITE].concat());
    let made_anew = r#"exportfs -u "$export"
        until ! grep -qx fio /proc/[0-9]*/comm; do sleep 0.1; done
        exportfs -o rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0 "$export""#;
    for (fault, why) in [
        ("rpc.nfsd 0", "the NFS server of `nfs:vers=3` on the host has ended"),
        (r#"exportfs -u "$export""#, "the layer `nfs:vers=3`: the host no longer exports"),
        (made_anew, "the layer `nfs:vers=3`: "),
        (r#"rm -r "$directory""#, "was removed or made anew while the client had it mounted"),
    ] {
        let said = broken.said_of(stack, fault);
        assert!(said.contains(why) && said.contains("run it again"), "{fault}: {said}");
        broken.machine.assert_nothing_left();
    }
    let kept = broken.machine.said(&["{nestor}", "report", "--all"]);
    assert!(kept.contains("fio:seq-write"), "{kept}");
}

#[test]
#[ignore = "builds stacks in an emulated machine, some minutes; part of `make test-long`"]
fn what_a_killed_run_leaves_doctor_takes_down() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut broken = Broken::boot(&sandbox);
    let stack = "nfs:vers=4.2/link:delay=1ms/xfs/loop/raw/ext4/dev:/dev/nullb0";
    broken.said_of(stack, &format!("who=nestor; {KILL}"));
    // Its agents have taken everything down themselves.
    broken.machine.assert_nothing_left();
    let left = broken.said_of(stack, &format!("who=all; {KILL}"));
    assert!(left.contains("th 8") && left.contains("/dev/loop"), "nobody has taken anything down: {left}");
    let cleaned = broken.machine.said(&["{nestor}", "doctor", "--clean"]);
    assert!(cleaned.contains("removed"), "{cleaned}");
    broken.machine.assert_nothing_left();
}
