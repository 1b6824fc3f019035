//! What becomes of a run over a network when a part of it fails: a clear error, nothing left, finished results kept.

mod support;

use std::process::Command;

use support::{Sandbox, alone, can_run};

/// Minutes of virtual time: longer than it takes to break something.
const LOAD: &str = "fio:rand-write:size=16M:bs=4k:depth=1:engine=psync:fsync=1:runtime=10m";

/// A client that mounts a server's directory.
const NFS: &str = "nfs:vers=3/link:memory=512M/ext4/hdd";

/// A guest whose image is there.
const VM_NFS: &str = "ext2/kvm:memory=512M/raw:size=1G/nfs:vers=3/link:memory=1G/xfs/hdd";

/// A guest that mounts it itself.
const GUEST_NFS: &str = "nfs/kvm:memory=512M/link:memory=1G/ext2/loop/raw:size=1G/xfs/hdd";

const VIRTUAL: &str = "emulated:time=virtual";
const REAL: &str = "emulated:time=real";

/// Breaks a part of a running workload's network by ending a process of the run, and looks at what is said and what is left.
fn broken_while_it_runs(stack: &str, place: &str, what: &[&str], words: &str) {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let store = sandbox.text("results.sqlite");
    let mut run = sandbox.start(&["run", stack, LOAD, "-n", "1", "--on", place, "--store", &store], &[]);
    // The workload's program is about to start: the processor times of the machine that it runs in are watched.
    let own = if stack == NFS { "client" } else { "guest" };
    run.wait_for_log(&[&format!("{own}: nestor trace processors")]);
    let pid = run.wait_for_process(what);
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill runs");
    assert!(killed.success(), "process {pid} is there");
    let ended = run.end();
    assert!(!ended.succeeded, "{}", ended.stderr);
    // Standard error has the log of requests, which names processes and directories.
    let said = ended.stdout;
    let missing: Vec<_> = [words, "; run it again"].into_iter().filter(|word| !said.contains(word)).collect();
    assert!(missing.is_empty(), "{missing:?} is not in what was said:\n{said}");
    assert!(
        !said.contains("QEMU said") && !said.contains(".sock"),
        "what QEMU says of it helps nobody:\n{said}"
    );
    sandbox.assert_nothing_left();
}

/// Appends more than an export of 256 MiB has room for.
const TOO_MUCH: &str = "
set $dir=/tmp
define fileset name=files,path=$dir,size=1m,entries=100,dirwidth=20,prealloc=0
define process name=writer,instances=1
{
  thread name=thread,memsize=1m,instances=1
  {
    flowop createfile name=create,filesetname=files,fd=1
    flowop appendfile name=append,iosize=1m,fd=1,iters=20
    flowop closefile name=close,fd=1
    flowop finishoncount name=end,value=100,target=close
  }
}
";

#[test]
fn an_export_that_is_full() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("too-much.f"), TOO_MUCH).expect("the sandbox can be written");
    let workload = format!("wml:script:file={}:runtime=60s", sandbox.text("too-much.f"));
    let store = sandbox.text("results.sqlite");
    let run = |workload: &str| {
        let stack = "nfs:vers=3/link:memory=512M/ext4/hdd:size=256M";
        sandbox.nestor(["run", stack, workload, "-n", "1", "--store", &store]).assert().get_output().clone()
    };
    assert!(run("fio:seq-write:size=16M:runtime=2s").status.success());
    let full = run(&workload);
    let said = format!("{}{}", String::from_utf8_lossy(&full.stdout), String::from_utf8_lossy(&full.stderr));
    assert!(!full.status.success(), "{said}");
    for words in ["the ext4 of the host is full", "the nfs of the client is full"] {
        assert!(said.contains(words), "{words:?} is not in what was said:\n{said}");
    }
    // The client tells a program only of errors that come during its calls; of others, the client's counters tell.
    let told = ["no space left on device", "calls that were to write ended with an error"];
    assert!(told.iter().any(|words| said.contains(words)), "{said}");
    let kept = support::said(&sandbox, &["report", "--all", "--store", &store]);
    assert!(kept.contains("fio:seq-write"), "{kept}");
    sandbox.assert_nothing_left();
}

#[test]
fn a_link_that_is_cut_in_virtual_time() {
    broken_while_it_runs(NFS, VIRTUAL, &["link", "serve"], "the link `link:memory=512M` was cut");
}

#[test]
fn a_link_that_is_cut_in_real_time() {
    broken_while_it_runs(NFS, REAL, &["link", "serve"], "the link `link:memory=512M` was cut");
}

#[test]
fn a_server_that_dies_in_virtual_time() {
    broken_while_it_runs(NFS, VIRTUAL, &["qemu-system", "-name host"], "the host, which is at an end of");
}

#[test]
fn a_server_that_dies_in_real_time() {
    broken_while_it_runs(NFS, REAL, &["qemu-system", "-name host"], "the host, which is at an end of");
}

#[test]
#[ignore = "boots a guest in a client, some minutes; part of `make test-long`"]
fn a_link_that_is_cut_below_a_guest() {
    broken_while_it_runs(VM_NFS, VIRTUAL, &["link", "serve"], "the link `link:memory=1G` was cut");
}

#[test]
#[ignore = "boots a guest in a client, some minutes; part of `make test-long`"]
fn a_server_that_dies_below_a_guest() {
    broken_while_it_runs(VM_NFS, VIRTUAL, &["qemu-system", "-name host"], "the host, which is at an end of");
}

#[test]
#[ignore = "boots a guest in a client, some minutes; part of `make test-long`"]
fn a_link_that_is_cut_between_a_guest_and_its_server() {
    broken_while_it_runs(GUEST_NFS, VIRTUAL, &["link", "serve"], "the link `link:memory=1G` was cut");
}
