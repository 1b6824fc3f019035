//! Links of kernels: of this machine's (`--on this`) and between two machines (`--on ssh:CLIENT,ssh:SERVER`). What is lacking is said first,
//! and in a machine of the lab, whose kernel has everything, they work.

mod support;

use std::fs;
use std::process::{Child, Command as OsCommand, Stdio};

use nestor_machine::message::{Answer, Envelope, Request, read_frame, write_frame};
use nestor_machine::{
    Command, Finished, HardwareTrial, LAB_HYPERVISOR, MachinePlace, MachineSpec, MachineTime, RootDisk,
};
use nestor_stack::{Accelerator, MachineIndex};
use predicates::str::contains;
use serde_json::Value;
use support::{Sandbox, alone, binary, can_run, json, said};

const MIB: u64 = 1 << 20;

/// The machine of the lab, as the agent that boots it knows it.
const HOST: MachinePlace = MachinePlace::Root(MachineIndex::OUTERMOST);

/// Earlier runs leave data in the disk.
const OVERWRITE: [&str; 2] = ["--overwrite", "/dev/nullb0"];

/// How long a command in it may take: its processor is emulated.
const LIMIT_S: u64 = 1200;

/// A machine of the lab, booted by an agent that this test asks as a controller does.
struct LabMachine {
    agent: Child,
    number: u64,
}

impl LabMachine {
    fn boot(sandbox: &Sandbox) -> Self {
        let image = json(&said(sandbox, &["lab", "build", "--json"]));
        let file = |name: &str| image[name].as_str().expect("a path").to_owned();
        let agent = OsCommand::new(binary())
            .arg("agent")
            .env("NESTOR_WORK", sandbox.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let mut machine = Self { agent, number: 0 };
        assert!(matches!(machine.answer(), Answer::Hello { .. }));
        let spec = MachineSpec {
            place: HOST,
            memory_bytes: 3 << 30,
            cpus: 2,
            hypervisor: LAB_HYPERVISOR,
            accelerator: Some(Accelerator::Tcg),
            kernel: file("kernel"),
            modules_cpio: file("modules_cpio"),
            root: RootDisk::Opened { path: file("root_squashfs") },
            time: MachineTime::Real,
            kept_state: None,
            shared_memory: false,
            disk_thread: false,
            disks_at_start: Vec::new(),
            hardware_trial: HardwareTrial::Itself,
            probe_timeout_ms: 60_000,
            boot_timeout_ms: 300_000,
        };
        let booted = machine.ask(Request::StartMachine(Box::new(spec)));
        assert!(matches!(booted, Answer::Booted { .. }), "{booted:?}");
        machine
    }

    fn answer(&mut self) -> Answer {
        let stream = self.agent.stdout.as_mut().expect("it is piped");
        read_frame::<Envelope<Answer>>(stream).expect("an answer").body
    }

    fn ask(&mut self, body: Request) -> Answer {
        self.number += 1;
        let envelope = Envelope { number: self.number, body };
        write_frame(self.agent.stdin.as_mut().expect("it is piped"), &envelope).expect("the agent reads");
        self.answer()
    }

    /// Runs a program in the machine.
    fn run(&mut self, argv: &[&str]) -> Finished {
        let mut command = Command::new(argv.iter().copied()).timeout_s(LIMIT_S);
        let environment = [("HOME", "/root"), ("PATH", "/root/bin:/usr/sbin:/usr/bin:/sbin:/bin")];
        command.environment.extend(environment.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let request = Box::new(Request::Run(command));
        let timeout_ms = (LIMIT_S + 60) * 1000;
        match self.ask(Request::Forward { machine: HOST, timeout_ms, request }) {
            Answer::Finished(finished) => finished,
            other => panic!("{argv:?}: {other:?}"),
        }
    }

    /// Runs a program that has to succeed; what it prints.
    fn said(&mut self, argv: &[&str]) -> String {
        let finished = self.run(argv);
        assert!(finished.succeeded(), "{argv:?}: {}{}", finished.stdout_text(), finished.stderr_text());
        finished.stdout_text()
    }

    /// `nestor run --on`, of which nothing must be left.
    fn run_nestor(&mut self, place: &str, stack: &str, workload: &str) -> Value {
        let run = ["{nestor}", "run", "--on", place, stack, workload, "-n", "1", "--json"];
        let view = json(&self.said(&[&run[..], &OVERWRITE, &["--store", "/root/results.sqlite"]].concat()));
        self.assert_nothing_left();
        view
    }

    fn assert_nothing_left(&mut self) {
        let left = "ls /sys/class/net; cat /proc/self/mounts /var/lib/nfs/etab; find /root/.cache/nestor/work -mindepth 1; \
                    grep '^th [1-9]' /proc/net/rpc/nfsd; ls /sys/block/nbd0/pid; \
                    [ ! -e /run/netns/server ] || nsenter --net=/run/netns/server grep '^th [1-9]' /proc/net/rpc/nfsd";
        let left = self.run(&["sh", "-c", left]).stdout_text();
        for sign in ["nestor", "/mount-", "198.18", "192.0.2", "th ", "pid", "fs/nfsd"] {
            assert!(!left.contains(sign), "{sign}: {left}");
        }
    }
}

impl Drop for LabMachine {
    fn drop(&mut self) {
        // At the end of its input, the agent ends the machine.
        drop(self.agent.stdin.take());
        let _ = self.agent.wait();
    }
}

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
        ("queue=1M", "`queue` is of the modelled link"),
        ("memory=1G", "`memory` is of emulated machines"),
        ("cpus=2", "`cpus` is of emulated machines"),
    ] {
        let stack = format!("nfs/link:{option}/ext4/file:{disk}");
        let run =
            sandbox.nestor(["run", "--on", "this", &stack, "fio:seq-write:size=1M", "-n", "1"]).assert();
        run.failure().stdout(contains(why).count(1));
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
    assert!(number(&network["to_client"]["bytes"]) >= 4 * MIB, "{network}");
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
        ("nfs/link:rate=100mbit/ext4/dev:/dev/nullb0", "`rate` is of links that Nestor makes"),
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
        ("rpcbind", "exit 1", "rpcbind"),
        ("rpc.mountd", "exec sleep 1000", "rpc.mountd"),
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
