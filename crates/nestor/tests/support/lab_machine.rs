//! A machine of the lab, whose kernel has all that a link of a kernel needs, and in which anything may be broken.

use std::process::{Child, Command as OsCommand, Stdio};

use nestor_machine::message::{Answer, Envelope, Request, read_frame, write_frame};
use nestor_machine::{
    Command, Finished, HardwareTrial, LAB_HYPERVISOR, MachinePlace, MachineSpec, MachineTime, RootDisk,
};
use nestor_stack::{Accelerator, MachineIndex};
use serde_json::Value;

use super::{Sandbox, binary, json, said};

/// The machine of the lab, as the agent that boots it knows it.
const HOST: MachinePlace = MachinePlace::Root(MachineIndex::OUTERMOST);

/// Earlier runs leave data in the disk.
pub const OVERWRITE: [&str; 2] = ["--overwrite", "/dev/nullb0"];

/// How long a command in it may take: its processor is emulated.
const LIMIT_S: u64 = 1200;

/// A machine of the lab, booted by an agent that this test asks as a controller does.
pub struct LabMachine {
    agent: Child,
    number: u64,
}

impl LabMachine {
    /// Boots it.
    pub fn boot(sandbox: &Sandbox) -> Self {
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
            under_xen: None,
            xen_guest: None,
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
    pub fn run(&mut self, argv: &[&str]) -> Finished {
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
    pub fn said(&mut self, argv: &[&str]) -> String {
        let finished = self.run(argv);
        assert!(finished.succeeded(), "{argv:?}: {}{}", finished.stdout_text(), finished.stderr_text());
        finished.stdout_text()
    }

    /// `nestor run --on`, of which nothing must be left.
    pub fn run_nestor(&mut self, place: &str, stack: &str, workload: &str) -> Value {
        let run = ["{nestor}", "run", "--on", place, stack, workload, "-n", "1", "--json"];
        let view = json(&self.said(&[&run[..], &OVERWRITE, &["--store", "/root/results.sqlite"]].concat()));
        self.assert_nothing_left();
        view
    }

    /// Fails if a run of Nestor has left something in it.
    pub fn assert_nothing_left(&mut self) {
        let left = "ls /sys/class/net; cat /proc/self/mounts /var/lib/nfs/etab; find /root/.cache/nestor/work -mindepth 1; \
                    grep '^th [1-9]' /proc/net/rpc/nfsd; ls /sys/block/nbd0/pid; losetup --all; \
                    for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; readlink $p/ns/net; echo; done | grep '^/proc/self/exe '; \
                    [ ! -e /run/netns/server ] || nsenter --net=/run/netns/server grep '^th [1-9]' /proc/net/rpc/nfsd";
        let left = self.run(&["sh", "-c", left]).stdout_text();
        for sign in
            ["nestor", "/mount-", "198.18", "192.0.2", "th ", "pid", "fs/nfsd", "/dev/loop", "exe agent"]
        {
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
