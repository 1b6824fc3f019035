//! A machine of the lab, whose kernel has all that a link of a kernel needs, and in which anything may be broken.

use std::fs;
use std::path::Path;
use std::process::{Child, Command as OsCommand, Stdio};

use nestor_machine::message::{Answer, Envelope, Request, read_frame, write_frame};
use nestor_machine::{
    Command, FeaturesLeftOut, Finished, HardwareTrial, LAB_HYPERVISOR, MachinePlace, MachineSpec,
    MachineTime, ROOT_SERIAL, RootDisk, UnderXen,
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

/// Makes the files of the lab image of what the machine itself has of it.
const KEEP_IMAGE: &str = r#"
set -e
umask 077; mkdir -p "$1"; cd "$1"
cp /boot/vmlinuz /boot/modules.cpio .
zcat /boot/xen-*.gz >hypervisor
for disk in /sys/block/*; do
    [ "$(cat "$disk/serial" 2>/dev/null)" != "$2" ] || head -c "$3" "/dev/${disk##*/}" >root.squashfs
done
"#;

/// A machine of the lab, booted by an agent that this test asks as a controller does.
pub struct LabMachine {
    agent: Child,
    number: u64,
}

impl LabMachine {
    /// Boots it.
    pub fn boot(sandbox: &Sandbox) -> Self {
        Self::boot_from(sandbox, &json(&said(sandbox, &["lab", "build", "--json"])), None)
    }

    /// Boots it with the programs that copy images.
    pub fn boot_with_transfers(sandbox: &Sandbox) -> Self {
        Self::boot_from(sandbox, &json(&said(sandbox, &["lab", "pack", "transfer", "--json"])), None)
    }

    /// Boots it as the privileged domain of a Xen, which has memory for others. The lab image is in it, for its guests.
    pub fn boot_under_xen(sandbox: &Sandbox) -> Self {
        let image = json(&said(sandbox, &["lab", "pack", "xen", "--json"]));
        let hypervisor = image["hypervisor"].as_str().expect("a path").to_owned();
        let xen = UnderXen { hypervisor, privileged_memory_bytes: 2560 << 20 };
        let mut machine = Self::boot_from(sandbox, &image, Some(xen));
        machine.keep_image(&image);
        machine
    }

    fn boot_from(sandbox: &Sandbox, image: &Value, under_xen: Option<UnderXen>) -> Self {
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
            memory_bytes: if under_xen.is_some() { 4 << 30 } else { 3 << 30 },
            cpus: 2,
            hypervisor: LAB_HYPERVISOR,
            qemu: None,
            accelerator: Some(Accelerator::Tcg),
            under_xen,
            left_out: FeaturesLeftOut::default(),
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

    /// Writes a file in the machine.
    pub fn write(&mut self, path: &str, contents: Vec<u8>) {
        let request = Box::new(Request::WriteFile { path: path.to_owned(), contents });
        let written = self.ask(Request::Forward { machine: HOST, timeout_ms: 60_000, request });
        assert!(matches!(written, Answer::Done), "{path}: {written:?}");
    }

    /// Puts the image from which it was booted into its cache.
    fn keep_image(&mut self, image: &Value) {
        let here = Path::new(image["directory"].as_str().expect("a path"));
        let name = here.file_name().and_then(|name| name.to_str()).expect("a hash");
        let there = format!("/root/.cache/nestor/lab/{name}");
        let root = fs::metadata(image["root_squashfs"].as_str().expect("a path")).expect("it is there");
        let bytes = root.len().to_string();
        self.said(&["sh", "-c", KEEP_IMAGE, "-", &there, ROOT_SERIAL, &bytes]);
        for name in ["SHA256SUMS", "manifest.json"] {
            self.write(&format!("{there}/{name}"), fs::read(here.join(name)).expect("the image has it"));
        }
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
