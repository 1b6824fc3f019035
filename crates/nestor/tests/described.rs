//! `nestor stack --qemu PID` and its like, with QEMUs that run.

#![allow(clippy::print_stderr)] // For who runs it.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::{Sandbox, binary, copy_program, json, refused, said};

const QEMU: &str = "qemu-system-x86_64";

/// Debian's `nobody`.
const NOBODY: u32 = 65534;

/// A QEMU that is stopped before its first instruction; ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts one in the sandbox, with a monitor; waits until it has opened its disks. `None` where there is none to start.
    fn start(sandbox: &Sandbox, arguments: &[&str]) -> Option<(Self, Monitor)> {
        let socket = sandbox.path("qmp.sock");
        let _ = fs::remove_file(&socket);
        let started = Command::new(QEMU)
            .args(["-S", "-display", "none", "-nodefaults", "-qmp", "unix:qmp.sock,server=on,wait=off"])
            .args(arguments)
            .current_dir(sandbox.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            eprintln!("not run: {QEMU} is not installed");
            return None;
        };
        let mut running = Self(child);
        let monitor = loop {
            assert_eq!(running.0.try_wait().unwrap(), None, "{QEMU} takes {arguments:?}");
            match UnixStream::connect(&socket) {
                Ok(stream) => break Monitor::of(stream),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        };
        Some((running, monitor))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

/// QEMU's own word on what it has.
struct Monitor(BufReader<UnixStream>);

impl Monitor {
    fn of(stream: UnixStream) -> Self {
        let mut monitor = Self(BufReader::new(stream));
        monitor.line();
        monitor.ask("qmp_capabilities");
        monitor
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        json(&line)
    }

    fn ask(&mut self, command: &str) -> Value {
        writeln!(self.0.get_mut(), "{{\"execute\":\"{command}\"}}").unwrap();
        loop {
            let answer = self.line();
            if answer.get("event").is_none() {
                return answer["return"].clone();
            }
        }
    }
}

fn image(sandbox: &Sandbox, format: &str, name: &str, options: &[&str]) {
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", format])
        .args(options)
        .arg(sandbox.path(name))
        .arg("64M")
        .status();
    assert!(made.unwrap().success());
}

/// What Nestor says of a QEMU: stacks, without what is below the image, which is the machine's own.
fn stacks(sandbox: &Sandbox, pid: &str) -> Vec<String> {
    let told = json(&said(sandbox, &["stack", "--qemu", pid, "--json"]));
    told["disks"].as_array().unwrap().iter().map(above_the_host).collect()
}

fn above_the_host(disk: &Value) -> String {
    let stack = disk["stack"].as_str().unwrap();
    stack.split('/').take(3).collect::<Vec<_>>().join("/")
}

#[test]
fn a_running_qemu_is_the_stack_that_its_options_make() {
    let sandbox = Sandbox::new();
    let with = |arguments: &[&str]| {
        let (running, _monitor) = Running::start(&sandbox, arguments)?;
        Some(stacks(&sandbox, &running.pid()))
    };
    if Command::new("qemu-img").arg("--version").output().is_err() {
        return eprintln!("not run: qemu-img is not installed");
    }
    image(&sandbox, "qcow2", "a.qcow2", &["-o", "cluster_size=128k,lazy_refcounts=on"]);
    image(&sandbox, "raw", "b.img", &[]);
    image(&sandbox, "vmdk", "c.vmdk", &[]);
    let Some(first) = with(&["-m", "1G", "-hda", "b.img"]) else { return };
    assert_eq!(first, ["ext4/tcg:disk=ide:cache=writeback:memory=1G/raw"]);
    let drive = "file=a.qcow2,if=none,id=d,cache=none,aio=native,discard=unmap";
    let scsi =
        ["-m", "512", "-smp", "2", "-object", "iothread,id=t", "-device", "virtio-scsi-pci,id=s,iothread=t"];
    let scsi = [&scsi[..], &["-drive", drive, "-device", "scsi-hd,bus=s.0,drive=d"]].concat();
    assert_eq!(
        with(&scsi).unwrap(),
        [
            "ext4/tcg:disk=virtio-scsi:aio=native:iothread:discard=unmap:memory=512M:cpus=2/qcow2:cluster=128k:lazy-refcounts"
        ]
    );
    let path = |name: &str| sandbox.text(name);
    let node = format!(
        r#"{{"driver":"raw","node-name":"n","file":{{"driver":"file","filename":"{}","aio":"io_uring"}},"cache":{{"direct":true}}}}"#,
        path("b.img")
    );
    let vmdk = format!("driver=vmdk,node-name=v,file.driver=file,file.filename={}", path("c.vmdk"));
    assert_eq!(
        with(&[
            "-M",
            "q35",
            "-m",
            "256",
            "-blockdev",
            &node,
            "-device",
            r#"{"driver":"nvme","drive":"n","serial":"1"}"#,
            "-blockdev",
            &vmdk,
            "-device",
            "ide-hd,bus=ide.1,drive=v,write-cache=off"
        ])
        .unwrap(),
        ["ext4/tcg:disk=nvme:aio=io_uring/raw", "ext4/tcg:disk=ahci:cache=writethrough/vmdk"]
    );
    for (devices, disk) in [
        (vec!["-device", "lsi", "-device", "scsi-hd,drive=d"], "lsi"),
        (vec!["-device", "mptsas1068,id=m", "-device", "scsi-hd,bus=m.0,drive=d"], "mptsas"),
        (vec!["-device", "pvscsi,id=p", "-device", "scsi-hd,bus=p.0,drive=d"], "pvscsi"),
    ] {
        let drive = ["-m", "256", "-drive", "file=b.img,format=raw,if=none,id=d,cache=unsafe"];
        let stack = with(&[&drive[..], &devices].concat()).unwrap();
        assert_eq!(stack, [format!("ext4/tcg:disk={disk}:cache=unsafe/raw")]);
    }
}

#[test]
fn the_cache_mode_is_the_one_that_qemu_itself_names() {
    let sandbox = Sandbox::new();
    sandbox.disk("b.img", 64 << 20);
    for cache in [
        "cache=none",
        "cache=writethrough",
        "cache=directsync",
        "cache=unsafe",
        "cache=writeback",
        "cache.direct=on",
        "cache=none,cache.writeback=off",
        "cache.no-flush=on",
    ] {
        let drive = format!("file=b.img,format=raw,if=virtio,{cache}");
        let Some((running, mut monitor)) = Running::start(&sandbox, &["-m", "256", "-drive", &drive]) else {
            return;
        };
        let block = monitor.ask("query-block");
        let own = &block[0]["inserted"]["cache"];
        let mode = match (&own["writeback"], &own["direct"], &own["no-flush"]) {
            (Value::Bool(true), Value::Bool(true), Value::Bool(false)) => "",
            (Value::Bool(true), Value::Bool(false), Value::Bool(false)) => ":cache=writeback",
            (Value::Bool(false), Value::Bool(false), Value::Bool(false)) => ":cache=writethrough",
            (Value::Bool(false), Value::Bool(true), Value::Bool(false)) => ":cache=directsync",
            (Value::Bool(true), Value::Bool(false), Value::Bool(true)) => ":cache=unsafe",
            other => panic!("{cache}: {other:?}"),
        };
        assert_eq!(stacks(&sandbox, &running.pid()), [format!("ext4/tcg{mode}/raw")], "{cache}");
    }
}

#[test]
fn what_is_left_out_is_said_and_json_has_it_too() {
    let sandbox = Sandbox::new();
    sandbox.disk("b.img", 64 << 20);
    let drive = "file=b.img,format=raw,if=virtio,bps=1000000,detect-zeroes=on";
    let Some((running, _monitor)) = Running::start(&sandbox, &["-name", "web", "-m", "256", "-drive", drive])
    else {
        return;
    };
    let text = said(&sandbox, &["stack", "--qemu", &running.pid()]);
    for part in [
        "web, process ",
        "b.img: bps=1000000: stacks have no limits",
        "detect-zeroes=on",
        "the guest's file system",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let told = json(&said(&sandbox, &["stack", "--qemu", &running.pid(), "--json"]));
    assert_eq!(told["name"], "web");
    let left_out = told["disks"][0]["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|one| one["what"] == "b.img: bps=1000000"), "{told}");
    assert!(told["left_out"][0]["what"].as_str().unwrap().starts_with("what was plugged in"), "{told}");
}

#[test]
fn who_is_no_qemu_or_has_no_disk_is_refused() {
    let sandbox = Sandbox::new();
    let mut sleeping = Running(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = sleeping.pid();
    let no_qemu = refused(&sandbox, &["stack", "--qemu", &pid]);
    assert!(no_qemu.contains(&format!("process {pid} is no QEMU that runs a virtual machine")), "{no_qemu}");
    sleeping.0.kill().unwrap();
    // It has ended, and nobody has asked how.
    let ended = loop {
        let ended = refused(&sandbox, &["stack", "--qemu", &pid]);
        if !ended.contains("is no QEMU") {
            break ended;
        }
    };
    assert!(ended.contains(&format!("process {pid} has")) && ended.contains("ended"), "{ended}");
    let gone = refused(&sandbox, &["stack", "--qemu", "4194305"]);
    assert!(gone.contains("there is no process 4194305"), "{gone}");
    let Some((running, _monitor)) = Running::start(&sandbox, &["-m", "256"]) else { return };
    let bare = refused(&sandbox, &["stack", "--qemu", &running.pid()]);
    assert!(bare.contains("has no hard disk of which Nestor could make a stack"), "{bare}");
    let both = refused(&sandbox, &["stack", "ext4/hdd", "--qemu", &running.pid()]);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn of_another_users_qemu_is_said_what_everybody_may_know() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not run: it needs root, to be two users");
    }
    let sandbox = Sandbox::new();
    sandbox.disk("b.img", 64 << 20);
    // Of others, only the program itself can be reached.
    let program = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let nestor = program.path().join("nestor");
    copy_program(&binary(), &nestor);
    let Some((running, _monitor)) =
        Running::start(&sandbox, &["-m", "256", "-drive", "file=b.img,format=raw,if=virtio"])
    else {
        return;
    };
    let asked = |nestor: &Path| {
        Command::new(nestor)
            .args(["stack", "--qemu", &running.pid()])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap()
    };
    let output = asked(&nestor);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("ext4/tcg:cache=writeback/raw/ext4/hdd"), "{text}");
    assert!(text.contains("leads from a directory that only the machine's user may know"), "{text}");
}

#[test]
fn files_of_other_tools_are_read_or_refused_with_their_line() {
    let sandbox = Sandbox::new();
    let write = |name: &str, text: &str| {
        fs::write(sandbox.path(name), text).unwrap();
        sandbox.text(name)
    };
    let cfg = write("storage.cfg", "dir: local\n\tpath /srv/vz\n\nlvmthin: local-lvm\n\tvgname pve\n");
    let conf = write(
        "100.conf",
        "name: web\ncores: 2\nmemory: 2048\nscsihw: virtio-scsi-single\nscsi0: local-lvm:vm-100-disk-0,iothread=1,size=32G\n\
         sata0: local:100/vm-100-disk-1.qcow2,cache=writeback\n\n[old]\ncores: 1\n",
    );
    let told = json(&said(&sandbox, &["stack", "--proxmox", &conf, "--storages", &cfg, "--json"]));
    let disks: Vec<_> = told["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|disk| (&disk["disk"], &disk["line"], &disk["stack"]))
        .collect();
    assert_eq!(
        serde_json::json!(disks),
        serde_json::json!([
            ["scsi0", 5, "ext4/kvm:disk=virtio-scsi:aio=io_uring:iothread:memory=2G:cpus=2/hdd"],
            ["sata0", 6, "ext4/kvm:disk=ahci:cache=writeback:aio=io_uring:memory=2G:cpus=2/qcow2/ext4/hdd"],
        ])
    );
    let lost = write("101.conf", "cores: 1\nscsi0: fast:vm-101-disk-0\n");
    let said = refused(&sandbox, &["stack", "--proxmox", &lost, "--storages", &cfg]);
    assert!(said.contains("101.conf:2: scsi0: ") && said.contains("has no storage `fast`"), "{said}");
    let broken = write("broken.cfg", "path /x\n");
    let said = refused(&sandbox, &["stack", "--proxmox", &conf, "--storages", &broken]);
    assert!(said.contains("broken.cfg:1: "), "{said}");
    let said = refused(&sandbox, &["stack", "--proxmox", &sandbox.text("absent")]);
    assert!(said.contains("absent cannot be read"), "{said}");
    let xml = write(
        "a.xml",
        "<domain type='kvm'><name>a</name><memory unit='GiB'>1</memory><vcpu>1</vcpu><devices><disk type='block'>\n\
         <driver type='raw' cache='none'/><source dev='/dev/absent'/><target dev='vda' bus='virtio'/></disk></devices></domain>",
    );
    let text = support::said(&sandbox, &["stack", "--libvirt", &xml]);
    assert!(
        text.contains("ext4/kvm:memory=1G/hdd\n") && text.contains("/dev/absent is not on this machine"),
        "{text}"
    );
}
