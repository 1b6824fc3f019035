//! Xen on the user's own machine (`--on this`), tried in the privileged domain of a machine of the lab: the program is an ordinary process there, and
//! the daemons of Xen are started as Debian starts them.

#![allow(clippy::print_stderr)] // For who runs it, not for who uses the program.

mod support;

use serde_json::Value;
use support::lab_machine::{LabMachine, OVERWRITE};
use support::{Sandbox, alone, can_run, refused};

const WORKLOAD: &str = "fio:rand-write:size=8M:runtime=1s:fsync=64";

const DOMAIN: &str = "ext3/xen/raw/ext4/dev:/dev/nullb0";

/// A domain of another user of that Xen. It has no disks and does not run.
const OTHER: &str = r#"
cat >/root/other.cfg <<END
name = "other"
type = "pv"
kernel = "/boot/vmlinuz"
memory = 128
END
xl create -p -q -e /root/other.cfg
"#;

/// Starts a run, waits until the domain has laid out what its load works on, kills the program and its agents, and says what domains there are.
const KILLED: &str = r#"
NESTOR_LOG_REQUESTS=1 /proc/1/exe run --on this "$@" >/tmp/said 2>&1 &
run=$!
until grep -qs 'guest: fio' /tmp/said; do [ -d /proc/$run ] || { cat /tmp/said; exit 3; }; sleep 0.2; done
agents() { for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline | grep -q '^/proc/self/exe agent' && echo ${p#/proc/}; done; }
kill -KILL $run $(agents)
xl list
losetup --all
"#;

/// The machine, with a disk for the run and all that Debian starts.
fn with_daemons(sandbox: &Sandbox) -> LabMachine {
    let mut machine = LabMachine::boot_under_xen(sandbox);
    machine.said(&["modprobe", "null_blk", "nr_devices=1", "memory_backed=1", "gb=1"]);
    let refused = said_of_refused(&mut machine, DOMAIN);
    assert!(refused.contains("xenstored does not run"), "{refused}");
    machine.assert_nothing_left();
    machine.said(&["sh", "-c", "setsid /etc/init.d/xen start </dev/null >/tmp/daemons 2>&1"]);
    machine.said(&["sh", "-c", OTHER]);
    machine
}

/// What a run says that must not succeed.
fn said_of_refused(machine: &mut LabMachine, stack: &str) -> String {
    let run = ["{nestor}", "run", "--on", "this", stack, WORKLOAD, "-n", "1"];
    let refused = machine.run(&[&run[..], &OVERWRITE].concat());
    let said = format!("{}{}", refused.stdout_text(), refused.stderr_text());
    assert!(!refused.succeeded(), "{stack}: {said}");
    said
}

/// Only what was there before Nestor is there.
fn assert_domains_are_as_before(machine: &mut LabMachine) {
    let listed = machine.said(&["xl", "list"]);
    let names: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["Domain-0", "other"], "{listed}");
    machine.assert_nothing_left();
}

/// Whatever the domain sends, blkback serves.
fn assert_served_is_sent(run: &Value) {
    let rows = run["layers"].as_array().expect("layers");
    let at = rows.iter().position(|row| row["trace_point"] == "back end's counts").expect("blkback counts");
    for number in ["issued", "read_bytes", "write_bytes", "flushes"] {
        assert_eq!(rows[at - 1][number], rows[at][number], "{number} of {run}");
    }
}

#[test]
#[ignore = "boots Xen and domains in an emulated machine, many minutes; part of `make test-long`"]
fn domains_are_measured_on_a_users_xen_and_nothing_of_it_is_changed() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut machine = with_daemons(&sandbox);
    let memory = |machine: &mut LabMachine| machine.said(&["xl", "list", "Domain-0"]);
    let before = memory(&mut machine).split_whitespace().nth(8).map(str::to_owned);

    let run = machine.run_nestor("this", DOMAIN, WORKLOAD);
    assert_served_is_sent(&run[0]);
    let machines = run[0]["environment"]["machines"].as_array().expect("machines");
    assert_eq!(machines[1]["accelerator"], "xen", "{run}");
    assert_domains_are_as_before(&mut machine);

    let run = machine.run_nestor("this", "ext4/dom0/dev:/dev/nullb0", WORKLOAD);
    let xen = run[0]["environment"]["settings"]["Xen"].as_str().expect("Xen is named");
    assert!(xen.starts_with("4.17") && xen.ends_with("the host is its privileged domain"), "{xen}");

    let said = said_of_refused(&mut machine, "ext3/xen:memory=2G/raw/ext4/dev:/dev/nullb0");
    assert!(said.contains("MiB of memory free (`xl info free_memory`)"), "{said}");
    assert_domains_are_as_before(&mut machine);

    // Xen's tool hangs when it is to make the domain.
    let hangs = "mkdir -p /root/bin; printf '#!/bin/sh\n[ \"$1\" != create ] || exec sleep 1000\nexec /usr/sbin/xl \"$@\"\n' >/root/bin/xl; \
                 chmod 755 /root/bin/xl";
    machine.said(&["sh", "-c", hangs]);
    let said = said_of_refused(&mut machine, DOMAIN);
    assert!(said.contains("did not end within 60 s: Xen or its store does not answer"), "{said}");
    machine.said(&["rm", "/root/bin/xl"]);
    assert_domains_are_as_before(&mut machine);

    let long = "fio:rand-write:size=8M:runtime=10m";
    let killed =
        machine.said(&[&["sh", "-c", KILLED, "-", DOMAIN, long, "-n", "1"][..], &OVERWRITE].concat());
    assert!(killed.contains("nestor-guest-") && killed.contains("/dev/loop"), "{killed}");
    machine.said(&["{nestor}", "doctor", "--clean"]);
    assert_domains_are_as_before(&mut machine);
    assert_eq!(memory(&mut machine).split_whitespace().nth(8).map(str::to_owned), before);
}

#[test]
fn a_machine_that_is_not_under_xen_is_refused_at_the_layer_before_anything_is_done() {
    if std::path::Path::new("/sys/hypervisor/type").exists() {
        eprintln!("not tried: this machine is under a hypervisor that says so");
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.disk("disk.img", 64 << 20);
    for (layers, name) in [("dom0", "dom0"), ("xen/raw/ext4", "xen")] {
        let stack = format!("ext3/{layers}/file:{disk}");
        let said = refused(&sandbox, &["run", "--on", "this", &stack, WORKLOAD, "-n", "1"]);
        let why = format!("^ {name} needs a machine that runs under Xen, but this one does not");
        assert!(said.contains(&why) && said.contains("xen-system-amd64"), "{said}");
    }
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}
