//! An image from a repository on two machines of the user's (`--on ssh:NODE,ssh:REPOSITORY`): two network namespaces of this machine with a wire
//! between them, which an ssh of the test's own reaches. Each has a home of its own.
//!
//! Needs root. What is killed is killed when the program has reached a state, not after a while.

#![allow(clippy::print_stderr)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command as OsCommand;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use support::lab_machine::LabMachine;
use support::{Ended, Sandbox, alone, can_run, failures, has_program, json, signal, write_program};

const MIB: u64 = 1 << 20;
const HOSTS: [&str; 2] = ["node", "repository"];

/// What is read of the image.
const LOAD: &str = "fio:rand-read:size=1M:runtime=off";

/// Directories of programs and settings that servers of these protocols would change if nobody told them otherwise.
const WATCHED: [&str; 6] =
    ["/run/sshd", "/var/lib/nginx", "/var/log/nginx", "/etc/hosts", "/root/.ssh", "/etc/ssh"];

/// Goes to a host. Its standard input comes through a process of its own, which is the connection, and so does what it says.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2; shift 2
far=${0%/bin/ssh}
pipe=$(mktemp -u "$far/pipe-XXXXXX"); mkfifo -m 600 "$pipe"
exec 3<&0
"$far/connection-$host" <&3 >"$pipe" &
exec 3<&- 4<"$pipe"; rm "$pipe"
export HOME="$far/$host" NESTOR_WORK="$far/$host" NESTOR_CACHE="$KEPT_CACHE"
[ ! -e "$far/programs-$host" ] || export PATH="$far/programs-$host"
cd "$HOME"
nsenter --net=/run/netns/"$NETWORK-$host" sh -c "$*" <&4
"#;

/// Two hosts.
struct Hosts {
    sandbox: Sandbox,
    network: String,
}

impl Hosts {
    /// `None`, which is said, where this machine cannot have them.
    fn new() -> Option<Self> {
        if !can_run(true, false) {
            return None;
        }
        let sandbox = Sandbox::new();
        let tag = sandbox.path("").components().next_back()?.as_os_str().to_string_lossy().into_owned();
        let hosts = Self { sandbox, network: format!("nestor{}", tag.replace('.', "-")) };
        let network = &hosts.network;
        let script = format!(
            "set -e
            for name in node repository; do ip netns add {network}-$name; ip -n {network}-$name link set lo up; done
            ip -n {network}-node link add name wire type veth peer name eth0 netns {network}-repository
            ip -n {network}-node address add 192.0.2.1/24 dev wire; ip -n {network}-node link set wire up
            ip -n {network}-repository address add 192.0.2.2/24 dev eth0; ip -n {network}-repository link set eth0 up"
        );
        let made = OsCommand::new("sh").args(["-c", &script]).output().expect("there is a shell");
        if !made.status.success() {
            eprintln!("not tried: this machine makes no networks: {}", String::from_utf8_lossy(&made.stderr));
            return None;
        }
        fs::create_dir(hosts.sandbox.path("bin")).unwrap();
        write_program(&hosts.sandbox.path("bin/ssh"), SSH);
        for host in HOSTS {
            fs::create_dir_all(hosts.sandbox.path(&format!("{host}/srv"))).unwrap();
            hosts.sandbox.disk(&format!("{host}/srv/disk.img"), 1024 * MIB);
            let connection = hosts.sandbox.path(&format!("connection-{host}"));
            std::os::unix::fs::symlink("/bin/cat", connection).unwrap();
        }
        Some(hosts)
    }

    fn medium(&self, host: &str) -> String {
        self.sandbox.text(&format!("{host}/srv/disk.img"))
    }

    /// A stack whose image comes in this way.
    fn stack(&self, above: &str, megabytes: u32) -> String {
        let [node, repository] = HOSTS.map(|host| self.medium(host));
        format!("{above}/ext4/file:{node}//link/raw:size={megabytes}M/ext4/file:{repository}")
    }

    fn variables(&self) -> [(&'static str, String); 3] {
        let home = std::env::var("HOME").unwrap_or_default();
        let cache = std::env::var("NESTOR_CACHE").unwrap_or(format!("{home}/.cache/nestor"));
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.sandbox.text("bin"));
        [("PATH", path), ("KEPT_CACHE", cache), ("NETWORK", self.network.clone())]
    }

    /// A run that has to succeed.
    fn run(&self, stack: &str, load: &str) -> Value {
        let run = self.sandbox.nestor(arguments(stack, load)).envs(self.variables()).output().unwrap();
        let [said, errors] =
            [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(run.status.success(), "{stack}: {said}{errors}");
        json(&said)[0].clone()
    }

    /// A run in which this happens once its log has these words.
    fn broken(&self, stack: &str, words: &str, happens: impl FnOnce(&mut support::Running<'_>)) -> Ended {
        self.broken_in(stack, LOAD, words, happens)
    }

    /// The same with a load.
    fn broken_in(
        &self,
        stack: &str,
        load: &str,
        words: &str,
        happens: impl FnOnce(&mut support::Running<'_>),
    ) -> Ended {
        let variables = self.variables();
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        let mut run = self.sandbox.start(&arguments(stack, load), &variables);
        run.wait_for_log(&[words]);
        happens(&mut run);
        run.end()
    }

    /// Replaces a program of a host, or hides it.
    fn with_other_programs(&self, host: &str, name: &str, script: Option<&str>) {
        let programs = self.sandbox.path(&format!("programs-{host}"));
        fs::create_dir_all(&programs).unwrap();
        for directory in ["/usr/bin", "/usr/sbin", "/bin", "/sbin"] {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                let there = programs.join(entry.file_name());
                if entry.file_name().to_string_lossy() != name && fs::symlink_metadata(&there).is_err() {
                    std::os::unix::fs::symlink(entry.path(), there).unwrap();
                }
            }
        }
        // Else it would be written through a link to the machine's own program.
        let _ = fs::remove_file(programs.join(name));
        if let Some(script) = script {
            write_program(&programs.join(name), script);
        }
    }

    /// A server of images that answers four reads a second, and digests that read nothing of it.
    fn with_slow_server(&self) {
        self.with_other_programs("repository", "qemu-nbd", Some(SLOW_SERVER));
        for host in HOSTS {
            self.with_other_programs(host, "nbdcopy", Some("#!/bin/sh\necho the same\n"));
        }
    }

    /// Everything of both hosts: how long each file is, and when it was changed last where that is not a medium.
    fn tree(&self) -> BTreeMap<PathBuf, (u64, i64)> {
        let mut found = BTreeMap::new();
        let own = HOSTS.map(|host| self.sandbox.path(host));
        let mut to_list: Vec<PathBuf> = own.into_iter().chain(WATCHED.map(PathBuf::from)).collect();
        while let Some(path) = to_list.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let is_copied = path.ends_with(".cache/nestor/bin");
            if metadata.is_dir() && !is_copied {
                to_list.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            }
            let changed =
                if metadata.is_file() && !path.ends_with("disk.img") { metadata.mtime() } else { 0 };
            found.insert(path, (if metadata.is_file() { metadata.len() } else { 0 }, changed));
        }
        found
    }

    /// What is still there of runs: processes, mounts, loop devices, work directories, signatures on media.
    fn left(&self) -> Vec<String> {
        let place = self.sandbox.text("");
        let mut left = self.sandbox.left_behind();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        left.extend(mounts.lines().filter(|line| line.contains(&place)).map(str::to_owned));
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            let is_ours = HOSTS.iter().any(|host| {
                let mark = format!("NESTOR_WORK={}", self.sandbox.text(host));
                environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            });
            let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
            left.extend(is_ours.then(|| String::from_utf8_lossy(&command).replace('\0', " ")));
        }
        for host in HOSTS {
            let works = fs::read_dir(self.sandbox.path(host)).unwrap().flatten().map(|entry| entry.path());
            let works = works
                .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("nestor-")));
            let runs = works.flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
            left.extend(runs.map(|run| run.path().display().to_string()));
            let signatures =
                OsCommand::new("wipefs").args(["--no-act", "--noheadings", &self.medium(host)]).output();
            left.extend(String::from_utf8(signatures.unwrap().stdout).unwrap().lines().map(str::to_owned));
        }
        left
    }

    /// An agent whose controller was killed needs a moment.
    fn assert_nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.left().is_empty() {
            assert!(Instant::now() < deadline, "left behind:\n  {}", self.left().join("\n  "));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Takes the last three arguments, `--format FORMAT PATH`, for the options of a throttle.
const SLOW_SERVER: &str = r#"#!/bin/sh
for path; do :; done
left=$#
while [ $left -gt 3 ]; do set -- "$@" "$1"; shift; left=$((left - 1)); done
shift 3
exec /usr/bin/qemu-nbd "$@" --object throttle-group,id=slow,x-iops-read=4 \
    --image-opts "driver=throttle,throttle-group=slow,file.driver=raw,file.file.driver=file,file.file.filename=$path"
"#;

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in HOSTS {
            let _ = OsCommand::new("ip").args(["netns", "del", &format!("{}-{host}", self.network)]).output();
        }
    }
}

fn arguments<'a>(stack: &'a str, load: &'a str) -> [&'a str; 9] {
    ["run", "--on", "ssh:node,ssh:repository", stack, load, "-n", "1", "--no-trace", "--json"]
}

#[test]
fn every_protocol_copies_between_two_hosts_and_writes_only_what_was_named() {
    let Some(hosts) = Hosts::new() else { return };
    let _alone = alone();
    let before = hosts.tree();
    for (way, programs) in [
        ("scp", &["sshd", "scp"][..]),
        ("gridftp", &["globus-gridftp-server", "globus-url-copy"]),
        ("nbd", &["qemu-nbd", "nbdcopy"]),
        ("http", &["nginx", "curl"]),
        ("http:ranges=4", &["nginx", "aria2c"]),
        ("rsync", &["rsync"]),
    ] {
        if let Some(missing) = programs.iter().find(|program| !has_program(program)) {
            eprintln!("copy:{way} is not tried: there is no {missing}");
            continue;
        }
        let run = hosts.run(&hosts.stack(&format!("ext4/loop/copy:{way}"), 16), LOAD);
        let settings = &run["environment"]["settings"];
        let transfer = settings["transfer"].as_str().unwrap_or_default();
        assert!(transfer.contains(": 16 MiB in ") && transfer.ends_with("SHA-256 equal"), "{way}: {run}");
        let wire = settings["link"].as_str().unwrap_or_default();
        assert_eq!(
            wire, "the wire from wire (192.0.2.1) to eth0 (192.0.2.2), with all that is on it",
            "the node is the first of both"
        );
        hosts.assert_nothing_left();
    }
    let new: Vec<PathBuf> = hosts
        .tree()
        .into_iter()
        .filter(|(path, of)| before.get(path) != Some(of))
        .map(|(path, _)| path)
        .collect();
    let is_expected = |path: &&PathBuf| {
        // The copy of the program with the directories above it, and the empty directory of runs.
        let is_cache = [".cache", ".cache/nestor", ".cache/nestor/bin"].iter().any(|end| path.ends_with(end));
        is_cache || path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nestor-"))
    };
    let others: Vec<_> = new.iter().filter(|path| !is_expected(path)).collect();
    assert_eq!(others, Vec::<&PathBuf>::new());
    assert!(before.keys().all(|path| Path::new(path).exists()), "nothing was removed");
}

#[test]
fn programs_that_are_not_installed_are_named_before_anything_is_written() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.with_other_programs("repository", "qemu-nbd", None);
    hosts.with_other_programs("node", "nbdcopy", None);
    let stack = hosts.stack("ext4/loop/copy:nbd", 16);
    let run = hosts.sandbox.nestor(arguments(&stack, LOAD)).envs(hosts.variables()).output().unwrap();
    assert!(!run.status.success());
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let failed = failures(&json(&said)[0]);
    let words = "`copy:nbd` needs programs that are not installed: qemu-nbd on repository (`apt-get install qemu-utils`), \
                 nbdcopy on node (`apt-get install libnbd-bin`); nothing was written";
    assert!(failed.contains(words), "{failed}");
    for host in HOSTS {
        let medium = fs::metadata(hosts.medium(host)).unwrap();
        assert_eq!(medium.blocks(), 0, "{host}: not a byte was written");
    }
    hosts.assert_nothing_left();
}

#[test]
fn a_server_on_the_port_of_images_is_left_alone() {
    let Some(hosts) = Hosts::new() else { return };
    if !has_program("nbdcopy") || !has_program("qemu-nbd") {
        eprintln!("not tried: there is no nbdcopy or qemu-nbd");
        return;
    }
    let served = hosts.sandbox.disk("served.img", MIB);
    let network = format!("--net=/run/netns/{}-repository", hosts.network);
    let pid_file = hosts.sandbox.text("served.pid");
    let server =
        ["qemu-nbd", "--fork", "--persistent", "--port", "20810", "--format", "raw", "--pid-file", &pid_file];
    let started = OsCommand::new("nsenter").arg(&network).args(server).arg(&served).status().unwrap();
    assert!(started.success());
    let stack = hosts.stack("ext4/loop/copy:nbd", 16);
    let run = hosts.sandbox.nestor(arguments(&stack, LOAD)).envs(hosts.variables()).output().unwrap();
    let failed = failures(&json(&String::from_utf8_lossy(&run.stdout))[0]);
    let pid: u32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    signal(pid, Signal::TERM);
    assert!(failed.contains("a server of yours runs on repository (TCP port 20810)"), "{failed}");
}

#[test]
fn whatever_ends_a_copy_both_hosts_are_taken_down() {
    let Some(hosts) = Hosts::new() else { return };
    if !has_program("nbdcopy") || !has_program("qemu-nbd") {
        eprintln!("not tried: there is no nbdcopy or qemu-nbd");
        return;
    }
    let _alone = alone();
    // The image is on its way for as long as it takes.
    hosts.with_other_programs("node", "nbdcopy", Some("#!/bin/sh\nexec sleep 1000\n"));
    let stack = hosts.stack("ext4/loop/copy:nbd", 16);
    for end in [Signal::INT, Signal::KILL] {
        let ended = hosts.broken(&stack, "begins  host: nbdcopy", |run| signal(run.pid(), end));
        assert!(!ended.succeeded);
        hosts.assert_nothing_left();
    }
    for host in HOSTS {
        let ended = hosts.broken(&stack, "begins  host: nbdcopy", |run| {
            let connection = run.wait_for_process(&[&format!("connection-{host}")]);
            signal(connection, Signal::KILL);
            if host == "repository" {
                // Nothing is asked of it meanwhile, so that nobody hears of it; its part is taken down nevertheless.
                signal(run.pid(), Signal::INT);
            }
        });
        assert!(!ended.succeeded, "without {host}: {}", ended.stdout);
        hosts.assert_nothing_left();
    }
}

#[test]
#[ignore = "boots a guest on an emulated processor, a minute; part of `make test-long`"]
fn an_instance_lives_on_one_host_with_its_image_from_the_other() {
    let Some(hosts) = Hosts::new() else { return };
    if !can_run(true, true) || !has_program("nbdcopy") {
        eprintln!("not tried: there is no lab image or no nbdcopy");
        return;
    }
    let _alone = alone();
    for (way, brought_in) in [("copy:nbd", "transfer"), ("overlay", "running")] {
        let stack = hosts.stack(&format!("ext4/tcg:memory=512M/{way}"), 64);
        let run = hosts.run(&stack, "life:cycle:run=fio:rand-read:size=4M:runtime=off");
        let states = run["lives"][0]["states"].as_array().expect("states");
        let names: Vec<&str> = states.iter().filter_map(|state| state["state"].as_str()).collect();
        assert_eq!(names, ["pending", "transfer", "boot", "running", "shutdown", "cleanup"]);
        let state = states.iter().find(|state| state["state"] == brought_in).expect("it was in this state");
        let brought = state["from_repository_bytes"].as_f64().expect("a number");
        let least = if brought_in == "transfer" { 64.0 } else { 4.0 } * MIB as f64;
        assert!(brought >= least, "{way}: {brought}");
        assert!(states.iter().all(|state| state["seconds"].as_f64() >= Some(0.0)), "{states:?}");
        hosts.assert_nothing_left();
    }
}

#[test]
#[ignore = "boots guests on an emulated processor, some minutes; part of `make test-long`"]
fn an_overlays_server_that_ends_is_named_before_the_instance_is_up_and_while_it_is_read_ahead() {
    let Some(hosts) = Hosts::new() else { return };
    if !can_run(true, true) || !has_program("qemu-nbd") {
        eprintln!("not tried: there is no lab image or no qemu-nbd");
        return;
    }
    let _alone = alone();
    // Reading ahead takes 1536 reads, which nobody waits for.
    hosts.with_slow_server();
    let stack = hosts.stack("ext4/tcg:memory=512M/overlay:prefetch", 768);
    let kill = |run: &mut support::Running<'_>| {
        let server = run.wait_for_process(&["qemu-nbd", "throttle-group"]);
        signal(server, Signal::KILL);
    };
    let ended_words = "the server of overlay:prefetch was ended by signal 9";
    let ended = hosts.broken_in(&stack, "life:cycle", "begins  host: qemu-img create", |run| {
        // It has no disk before it has booted.
        run.wait_for_process(&["qemu-system-x86_64"]);
        kill(run);
    });
    let failed = failures(&json(&ended.stdout)[0]);
    assert!(failed.contains("in the state boot") && failed.contains(ended_words), "{failed}");
    hosts.assert_nothing_left();
    // What is read was written before by the guest itself, so that no read fails.
    let load = "fio:rand-read:size=4M:runtime=off";
    let ended = hosts.broken_in(&stack, load, "guest: nestor trace processors", kill);
    let failed = failures(&json(&ended.stdout)[0]);
    assert!(failed.contains("the prefetch of `overlay:prefetch` on the host has failed"), "{failed}");
    assert!(failed.contains("Input/output error") && failed.contains(ended_words), "{failed}");
    hosts.assert_nothing_left();
}

/// What a run in directories of the user's leaves in them: what was there before.
fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn directories_that_were_named_are_media_and_have_afterwards_what_they_had() {
    let Some(hosts) = Hosts::new() else { return };
    let ways = [("scp", ["sshd", "scp"]), ("rsync", ["rsync"; 2]), ("nbd", ["qemu-nbd", "nbdcopy"])];
    let Some((way, [_, program])) =
        ways.into_iter().find(|(_, programs)| programs.iter().all(|p| has_program(p)))
    else {
        eprintln!("not tried: there is no program that copies");
        return;
    };
    let _alone = alone();
    let [node, repository] = HOSTS.map(|host| {
        let directory = hosts.sandbox.text(&format!("{host}/srv/lab"));
        fs::create_dir(&directory).unwrap();
        fs::write(format!("{directory}/kept"), "kept").unwrap();
        directory
    });
    let stack = |node: &str| format!("ext4/loop/copy:{way}/dir:{node}//link/raw:size=16M/dir:{repository}");
    let run = hosts.run(&stack(&node), LOAD);
    let settings = &run["environment"]["settings"];
    let transfer = settings["transfer"].as_str().unwrap_or_default();
    assert!(
        transfer.starts_with(&format!("{way}: 16 MiB in ")) && transfer.ends_with("SHA-256 equal"),
        "{run}"
    );
    for machine in ["host", "repository"] {
        let said = settings[format!("{machine} directory")].as_str().unwrap_or_default();
        assert!(said.contains(" of ") && said.contains(", mounted at /"), "{settings}");
    }
    for directory in [&node, &repository] {
        assert_eq!(names(directory), ["kept"]);
    }
    hosts.assert_nothing_left();
    // A run that is killed: the agents of both hosts remove their own.
    hosts.with_other_programs("node", program, Some("#!/bin/sh\nexec sleep 1000\n"));
    let begun = format!("begins  host: {program}");
    let ended = hosts.broken(&stack(&node), &begun, |run| signal(run.pid(), Signal::KILL));
    assert!(!ended.succeeded);
    hosts.assert_nothing_left();
    for directory in [&node, &repository] {
        assert_eq!(names(directory), ["kept"]);
    }
}

/// All files of a machine of the lab but those of kernels, with their lengths and the times of their last change.
const FILES: &str = r"find / \( -fstype proc -o -fstype sysfs -o -fstype devtmpfs \) -prune -o -type f -printf '%p %s %T@\n' | sort";

/// What every run may change: what it was told to keep, and the cache.
const ALLOWED: [&str; 2] = ["/root/results.sqlite", "/root/.cache/nestor/"];

#[test]
#[ignore = "builds stacks in an emulated machine, some minutes; part of `make test-long`"]
fn on_one_machine_the_repository_is_a_namespace() {
    if !can_run(false, true) {
        return;
    }
    let _alone = alone();
    let sandbox = Sandbox::new();
    let mut machine = LabMachine::boot_with_transfers(&sandbox);
    machine.said(&["modprobe", "null_blk", "nr_devices=2", "memory_backed=1", "gb=1"]);
    let files = |machine: &mut LabMachine| -> BTreeSet<String> {
        machine.said(&["sh", "-c", FILES]).lines().map(str::to_owned).collect()
    };
    let before = files(&mut machine);
    for way in ["scp", "gridftp", "nbd", "http", "http:ranges=4", "rsync"] {
        let stack = format!(
            "ext4/loop/copy:{way}/ext4/dev:/dev/nullb0//link:rate=200mbit/raw:size=16M/ext4/dev:/dev/nullb1"
        );
        let run = ["{nestor}", "run", "--on", "this", &stack, LOAD, "-n", "1", "--no-trace", "--json"];
        let overwrite = ["--overwrite", "/dev/nullb0", "--overwrite", "/dev/nullb1"];
        let said = machine.said(&[&run[..], &overwrite, &["--store", "/root/results.sqlite"]].concat());
        let transfer = json(&said)[0]["environment"]["settings"]["transfer"].to_string();
        assert!(transfer.contains("16 MiB in ") && transfer.contains("SHA-256 equal"), "{way}: {transfer}");
        machine.assert_nothing_left();
    }
    let after = files(&mut machine);
    let new = after.difference(&before);
    let others: Vec<_> =
        new.filter(|line| !ALLOWED.iter().any(|allowed| line.starts_with(allowed))).collect();
    assert!(others.is_empty(), "{others:?}");
}
