//! Links of kernels: of this machine's (`--on this`) and between two machines (`--on ssh:CLIENT,ssh:SERVER`). What is lacking is said first,
//! and in a machine of the lab, whose kernel has everything, they work.

mod support;

use std::fs;

use predicates::str::contains;
use serde_json::Value;
use support::lab_machine::{LabMachine, OVERWRITE};
use support::{Sandbox, alone, can_run};

const MIB: u64 = 1 << 20;

#[test]
fn what_this_kernel_lacks_for_a_link_is_named_before_the_medium_is_touched() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 64 * MIB);
    let stack = format!("nfs:vers=3/link/ext4/file:{disk}");
    let known = fs::read_to_string("/proc/filesystems").expect("a kernel with /proc");
    let has = |name: &str| known.split_whitespace().any(|word| word == name);
    if has("nfsd") && has("nfs") {
        eprintln!("not tried: this kernel has NFS");
        return;
    }
    let run = sandbox.nestor(["run", "--on", "this", &stack, "fio:seq-write:size=1M", "-n", "1"]);
    let run = { run }.assert().failure();
    run.stdout(
        contains("the kernel of this machine does not have an NFS server (module nfsd, CONFIG_NFSD)")
            .count(1),
    );
    let bytes = fs::read(&disk).expect("the disk is there");
    assert!(bytes.iter().all(|byte| *byte == 0), "not a byte was written");
    sandbox.assert_nothing_left();
}

#[test]
fn what_a_client_in_a_namespace_does_not_have_is_refused() {
    if !can_run(true, false) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 64 * MIB);
    for (option, why) in [
        ("queue=1M", "queue is of the modelled link"),
        ("memory=1G", "memory is of emulated machines"),
        ("cpus=2", "cpus is of emulated machines"),
    ] {
        let stack = format!("nfs/link:{option}/ext4/file:{disk}");
        let run =
            sandbox.nestor(["run", "--on", "this", &stack, "fio:seq-write:size=1M", "-n", "1"]).assert();
        run.failure().stderr(contains(why).count(1));
    }
    let stack = format!("nfs/link/ext4/file:{disk}");
    let run = sandbox.nestor(["run", "--on", "ssh:a,ssh:b", "ext4/file:/no/such", "fio:seq-write:size=1M"]);
    { run }.assert().failure().stderr(contains("is two machines, but this stack has no link between them"));
    let run = sandbox.nestor(["run", "--on", "ssh:nowhere", &stack, "fio:seq-write:size=1M"]).assert();
    run.failure().stderr(contains("a link joins two machines, but `--on ssh:nowhere` is one"));
    sandbox.assert_nothing_left();
}

#[test]
#[ignore = "builds stacks in an emulated machine, some minutes; part of `make test-long`"]
fn nfs_and_nbd_work_over_a_link_of_the_kernel_and_leave_nothing() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut machine = LabMachine::boot(&sandbox);
    machine.said(&["modprobe", "null_blk", "nr_devices=1", "memory_backed=1", "gb=1"]);
    let view = machine.run_nestor(
        "this",
        "nfs:vers=3/link:rate=20mbit:delay=2ms/ext4/dev:/dev/nullb0",
        "fio:seq-write:size=4M:runtime=2s",
    );
    calls_are_counted_alike(&view);
    let network = &view[0]["networks"][0];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("a number: {network}"));
    let procedures = network["procedures"].as_array().expect("what was called");
    let calls: u64 = procedures.iter().map(|row| number(&row["calls"])).sum();
    let call_bytes: u64 = procedures.iter().map(|row| number(&row["sent_bytes"])).sum();
    let [frames, bytes] = ["frames", "bytes"].map(|what| number(&network["to_server"][what]));
    assert!(frames >= calls, "each call is at least one frame: {network}");
    // Headers of Ethernet, IP and TCP are 54 bytes a frame, with time stamps 66. What TCP sends again comes on top.
    assert!(bytes >= call_bytes + 54 * frames, "{call_bytes}: {network}");

    let (stack, workload) =
        ("ext4/nbd/link:rate=100mbit/dev:/dev/nullb0", "fio:rand-read:size=4M:runtime=2s");
    let view = machine.run_nestor("this", stack, workload);
    let network = &view[0]["networks"][0];
    let read = view[0]["layers"][0]["read_bytes"].as_u64().unwrap_or_else(|| panic!("what fio read: {view}"));
    assert!(read > 0 && number(&network["to_client"]["bytes"]) >= read, "{read}: {network}");
    drop(machine);
    sandbox.assert_nothing_left();
}

/// Writes were called, and each procedure as often at the server as at the client.
fn calls_are_counted_alike(view: &Value) {
    let network = &view[0]["networks"][0];
    let procedures = network["procedures"].as_array().expect("what was called");
    assert!(procedures.iter().any(|row| row["procedure"] == "WRITE"), "{network}");
    for row in procedures {
        assert_eq!(row["calls"], row["server_calls"], "{row}");
        assert!(row["calls"].as_u64() > Some(0), "{row}");
    }
}

/// Two machines with a wire between them, as far as networks go, and an ssh that reaches them by their names.
const TWO_MACHINES: &str = r#"
set -e
for name in client server; do ip netns add $name; ip -n $name link set lo up; done
ip -n client link add name wire address 02:00:00:00:00:01 type veth peer name eth0 netns server
ip -n client address add 192.0.2.1/24 dev wire; ip -n client link set wire up
ip -n server address add 192.0.2.2/24 dev eth0; ip -n server link set eth0 up
mkdir -p /root/bin
cat >/root/bin/ssh <<'END'
#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2; shift 2
[ "$host" = client ] || export PATH="/root/broken:$PATH"
cd /root && exec nsenter --net=/run/netns/"$host" sh -c "$*"
END
chmod 755 /root/bin/ssh
"#;

#[test]
#[ignore = "builds a stack in an emulated machine, some minutes; part of `make test-long`"]
fn nfs_works_between_two_machines_that_ssh_reaches() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut machine = LabMachine::boot(&sandbox);
    machine.said(&["modprobe", "null_blk", "nr_devices=1", "memory_backed=1", "gb=1"]);
    machine.said(&["sh", "-c", TWO_MACHINES]);
    let (place, workload) = ("ssh:client,ssh:server", "fio:seq-write:size=4M:runtime=2s");
    let view = machine.run_nestor(place, "nfs:vers=3/link/ext4/dev:/dev/nullb0", workload);
    calls_are_counted_alike(&view);
    let wire = view[0]["environment"]["settings"]["link"].as_str().expect("the wire is named");
    assert!(wire.contains("wire (192.0.2.1)") && wire.contains("eth0 (192.0.2.2)"), "{wire}");
    for (stack, why) in [
        ("ext4/nbd/link/dev:/dev/nullb0", "every machine that reaches it"),
        ("nfs/link:rate=100mbit/ext4/dev:/dev/nullb0", "rate is of links that Nestor makes"),
        ("ext4/dev:/dev/nullb0", "this stack has no link between them"),
    ] {
        let refused = machine.run(&["{nestor}", "run", "--on", place, stack, workload, "-n", "1"]);
        let said = format!("{}{}", refused.stdout_text(), refused.stderr_text());
        assert!(!refused.succeeded() && said.contains(why), "{said}");
    }
    machine.assert_nothing_left();
    // Servers that do not what they are for.
    for (program, script, why) in [
        ("exportfs", "true", "may not mount it"),
        ("rpcbind", "echo no such user >&2; exit 1", "no such user\n"),
        ("rpcbind", "exit 1", "`nfs:vers=3` needs a port mapper (rpcbind) on that machine"),
        ("rpc.mountd", "exec sleep 1000", "`nfs:vers=3` needs rpc.mountd on that machine"),
        (
            "rpc.nfsd",
            "exec /usr/sbin/rpc.nfsd -N 3 \"$@\"",
            "does not offer version 3 (it offers 4.0, 4.1, 4.2)",
        ),
    ] {
        let make = r#"mkdir -p /root/broken; printf '#!/bin/sh\n%s\n' "$2" >/root/broken/"$1"; chmod 755 /root/broken/"$1""#;
        machine.said(&["sh", "-c", make, "-", program, script]);
        let run =
            ["{nestor}", "run", "--on", place, "nfs:vers=3/link/ext4/dev:/dev/nullb0", workload, "-n", "1"];
        let refused = machine.run(&[&run[..], &OVERWRITE].concat());
        let said = format!("{}{}", refused.stdout_text(), refused.stderr_text());
        assert!(!refused.succeeded() && said.contains(why), "{program}: {said}");
        machine.said(&["rm", "-r", "/root/broken"]);
        machine.assert_nothing_left();
    }
    // Without a way from one to the other.
    machine.said(&["ip", "-n", "client", "address", "flush", "dev", "wire"]);
    let run = ["{nestor}", "run", "--on", place, "nfs/link/ext4/dev:/dev/nullb0", workload, "-n", "1"];
    let refused = machine.run(&run);
    assert!(refused.stdout_text().contains("client has no route to an IPv4 address of server (192.0.2.2)"));
    machine.assert_nothing_left();
}
