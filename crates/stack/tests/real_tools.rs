//! The commands and block nodes the layers describe, given to the real tools where they are installed.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use nestor_stack::layers::hypervisors::devices::{self, Attach, Controller, Disk};
use nestor_stack::layers::hypervisors::{CacheMode, HostTarget};
use nestor_stack::{
    Bytes, Drawn, Layer, LayerDefinition, MkfsTarget, PartitionOptions, Stack, Uuid, registry,
};
use serde_json::{Value, json};

/// What mkfs could have drawn.
const DRAWN: Drawn = Drawn { uuid: Uuid::version_4(0x1234), hash_seed: Uuid::version_4(0x5678) };

/// Where mkfs tools are on Debian, for users whose path does not have it.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn is_installed(tool: &str) -> bool {
    let found = SEARCH_PATH.split(':').any(|folder| Path::new(folder).join(tool).exists());
    if !found {
        eprintln!("{tool} is not installed: not tried");
    }
    found
}

fn run(argv: &[String]) -> String {
    let output =
        Command::new(&argv[0]).args(&argv[1..]).env("PATH", SEARCH_PATH).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("{argv:?}: {e}"));
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder on the disk with the build: it has room, and direct I/O if the disk's file system does.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn sparse_file(path: &Path, size: Bytes) {
    let file = File::create(path).unwrap();
    file.set_len(size.get()).unwrap();
}

/// Each layer of a kind alone, and with each value of each choice and flag that a test can afford.
fn variants(kind: fn(&LayerDefinition) -> bool, below: &str, more: &[&str]) -> Vec<Stack> {
    let mut texts: Vec<String> = more.iter().map(|text| (*text).to_owned()).collect();
    for spec in registry().iter().filter(|spec| kind(&spec.definition)) {
        texts.push(spec.name.to_owned());
        for option in spec.options {
            match option.kind {
                nestor_stack::OptionKind::Choice(words) => {
                    texts.extend(words.iter().map(|word| format!("{}:{}={word}", spec.name, option.name)));
                }
                nestor_stack::OptionKind::Flag => texts.push(format!("{}:{}", spec.name, option.name)),
                _ => {}
            }
        }
    }
    texts.iter().map(|text| Stack::parse(&format!("{text}/{below}")).unwrap()).collect()
}

#[test]
fn every_file_system_is_made_without_a_question() {
    let folder = scratch();
    let device = folder.path().join("device");
    let is_file_system = |d: &LayerDefinition| matches!(d, LayerDefinition::FileSystem(_));
    for stack in variants(is_file_system, "hdd", &["ext4:inode-ratio=64k:block=4k", "ext2:inode-ratio=1M"]) {
        let layer = &stack.layers()[0];
        let LayerDefinition::FileSystem(spec) = layer.definition() else { unreachable!("only file systems") };
        for (size, zeroed, drawn) in [(Bytes::gib(16), true, Some(DRAWN)), (Bytes::mib(512), false, None)] {
            let target = MkfsTarget { device: device.to_str().unwrap(), zeroed, drawn };
            let command = (spec.mkfs)(layer, &target);
            if !is_installed(&command[0]) {
                continue;
            }
            sparse_file(&device, size);
            run(&command);
            // Twice: it must not ask although a file system exists.
            if !zeroed {
                run(&command);
            }
            let written = std::fs::metadata(&device).unwrap().blocks() * 512;
            assert!(written > 0, "{layer} wrote nothing");
            // The journal of ext3 and the logs of the others are written; 256 MiB of inode tables are not.
            assert!(written < 160 << 20, "{layer} wrote {}", Bytes(written));
        }
    }
}

#[test]
fn file_systems_have_the_names_that_were_drawn_for_them() {
    let folder = scratch();
    let device = folder.path().join("device");
    for spec in registry() {
        let LayerDefinition::FileSystem(file_system) = &spec.definition else { continue };
        let (name, stack) = (spec.name, Stack::parse(&format!("{}/hdd", spec.name)).unwrap());
        let target = MkfsTarget { device: device.to_str().unwrap(), zeroed: true, drawn: Some(DRAWN) };
        let command = (file_system.mkfs)(&stack.layers()[0], &target);
        // Some, such as JFS's, draw one themselves and have no option for it.
        let is_told = command.iter().any(|word| word.contains(&DRAWN.uuid.to_string()));
        if !is_told || !is_installed(&command[0]) || !is_installed("blkid") {
            continue;
        }
        sparse_file(&device, Bytes::mib(512));
        run(&command);
        let argv = ["-p", "-s", "UUID", "-o", "value", device.to_str().unwrap()];
        let found = Command::new("blkid").args(argv).env("PATH", SEARCH_PATH).output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&found).trim(), DRAWN.uuid.to_string(), "{name}");
    }
}

#[test]
fn every_file_system_fits_its_minimum_size() {
    let folder = scratch();
    let device = folder.path().join("device");
    for spec in registry() {
        let LayerDefinition::FileSystem(file_system) = &spec.definition else { continue };
        let stack = Stack::parse(&format!("{}/hdd", spec.name)).unwrap();
        let target = MkfsTarget { device: device.to_str().unwrap(), zeroed: true, drawn: Some(DRAWN) };
        let command = (file_system.mkfs)(&stack.layers()[0], &target);
        if is_installed(&command[0]) {
            sparse_file(&device, file_system.minimum_size);
            run(&command);
        }
    }
}

#[test]
fn mount_options_come_from_the_layer() {
    let options = |text: &str| {
        let stack = Stack::parse(text).unwrap();
        let LayerDefinition::FileSystem(spec) = stack.layers()[0].definition() else { panic!("{text}") };
        (spec.mount_options)(&stack.layers()[0]).join(",")
    };
    assert_eq!(options("ext2/hdd"), "");
    assert_eq!(options("ext3:journal=data:mount=noatime/hdd"), "data=journal,noatime");
    assert_eq!(options("ext4/hdd"), "noinit_itable");
    assert_eq!(options("ext4:journal=none/hdd"), "noinit_itable");
    assert_eq!(options("reiserfs:journal=writeback:mount=notail/hdd"), "data=writeback,notail");
    assert_eq!(options("xfs:mount=noatime+logbsize=256k/hdd"), "noatime,logbsize=256k");
}

/// A QEMU that runs no instruction, driven by QMP.
struct Qemu {
    child: std::process::Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Qemu {
    fn start(arguments: &[String]) -> Self {
        let mut child = Command::new("qemu-system-x86_64")
            .args([
                "-M",
                "q35,accel=tcg",
                "-m",
                "64",
                "-nodefaults",
                "-display",
                "none",
                "-S",
                "-qmp",
                "stdio",
            ])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut qemu = Self { child, answers };
        let mut greeting = String::new();
        qemu.answers.read_line(&mut greeting).unwrap();
        assert!(greeting.contains("QMP"), "QEMU does not start with {arguments:?}");
        qemu.execute("qmp_capabilities", &json!({})).unwrap();
        qemu
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, String> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).unwrap() == 0 {
                return Err("QEMU ended".to_owned());
            }
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            match (answer.get("return"), answer.get("error")) {
                (Some(_), _) => return Ok(answer["return"].take()),
                (_, Some(error)) => return Err(error["desc"].as_str().unwrap().to_owned()),
                _ => {}
            }
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether files in the folder can be opened with `O_DIRECT`, which `cache=none` needs.
fn has_direct_io(folder: &Path) -> bool {
    /// Linux's value on x86-64.
    const O_DIRECT: i32 = 0o40000;
    File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .custom_flags(O_DIRECT)
        .open(folder.join("probe"))
        .is_ok()
}

#[test]
fn every_image_is_made_and_opened() {
    if !is_installed("qemu-img") || !is_installed("qemu-system-x86_64") {
        return;
    }
    let mut qemu = Qemu::start(&[]);
    let more = [
        "qcow2:cluster=512",
        "qcow2:cluster=2M",
        "qcow2:l2-cache=1k",
        "qcow2:l2-cache=1G",
        "vhdx:block=1M",
        "vhdx:block=256M",
        "qed:cluster=4k",
        "qed:cluster=2M",
    ];
    for stack in variants(|d| matches!(d, LayerDefinition::ImageFormat(_)), "ext4/hdd", &more) {
        let layer = &stack.layers()[0];
        let LayerDefinition::ImageFormat(spec) = layer.definition() else { unreachable!("only images") };
        let folder = scratch();
        let path = folder.path().join("image").with_extension(spec.extension);
        let path = path.to_str().unwrap();
        let size = Bytes::mib(64);
        let argv = (spec.create)(layer, path, size.get());
        // An image made by this program's own command is tested where that command is.
        if argv[0] == "{nestor}" {
            continue;
        }
        run(&argv);
        let cache = if has_direct_io(folder.path()) { "none" } else { "writeback" };
        let hypervisor = Stack::parse(&format!("kvm:cache={cache}:discard=unmap/hdd")).unwrap();
        let host = hypervisor.layers()[0].host_block().unwrap();
        qemu.execute("blockdev-add", &host.file_node("file", HostTarget::File(path))).unwrap();
        let node = (spec.blockdev)(layer, "disk", "file", &host);
        qemu.execute("blockdev-add", &node).unwrap_or_else(|e| panic!("{layer}: {e}"));
        let nodes = qemu.execute("query-named-block-nodes", &json!({ "flat": true })).unwrap();
        let disk = nodes.as_array().unwrap().iter().find(|n| n["node-name"] == "disk").unwrap();
        assert_eq!(disk["image"]["virtual-size"], size.get(), "{layer}");
        assert_eq!(disk["cache"]["direct"], host.cache.direct(), "{layer}");
        for node in ["disk", "file"] {
            qemu.execute("blockdev-del", &json!({ "node-name": node })).unwrap();
        }
        // The programs of QEMU open the same in one.
        let whole = format!("json:{}", host.disk(Some(layer), path));
        let info = run(&["qemu-img".to_owned(), "info".to_owned(), "--output=json".to_owned(), whole]);
        let info: Value = serde_json::from_str(&info).unwrap();
        assert_eq!((&info["virtual-size"], &info["format"]), (&json!(size.get()), &json!(layer.name())));
    }
}

#[test]
fn every_cache_mode_and_aio_opens_a_file() {
    let folder = scratch();
    if !is_installed("qemu-system-x86_64") || !has_direct_io(folder.path()) {
        return;
    }
    let path = folder.path().join("disk.raw");
    sparse_file(&path, Bytes::mib(1));
    let mut qemu = Qemu::start(&[]);
    for cache in ["none", "writeback", "writethrough", "directsync", "unsafe"] {
        for aio in ["threads", "native", "io_uring"] {
            let Ok(stack) = Stack::parse(&format!("kvm:cache={cache}:aio={aio}/hdd")) else {
                assert!(aio == "native", "{cache} and {aio} are refused");
                continue;
            };
            let host = stack.layers()[0].host_block().unwrap();
            let node = host.file_node("file", HostTarget::File(path.to_str().unwrap()));
            match qemu.execute("blockdev-add", &node) {
                Ok(_) => {}
                // Kernels and containers may forbid io_uring; the description is not wrong for that.
                Err(error) if aio == "io_uring" => {
                    eprintln!("{error}");
                    continue;
                }
                Err(error) => panic!("{cache} and {aio}: {error}"),
            }
            let nodes = qemu.execute("query-named-block-nodes", &json!({ "flat": true })).unwrap();
            assert_eq!(nodes[0]["cache"]["direct"], host.cache.direct());
            assert_eq!(nodes[0]["cache"]["no-flush"], host.cache.no_flush());
            qemu.execute("blockdev-del", &json!({ "node-name": "file" })).unwrap();
        }
    }
    // What is refused is what QEMU refuses.
    let mut node = Stack::parse("kvm:cache=writeback/hdd").unwrap().layers()[0]
        .host_block()
        .unwrap()
        .file_node("file", HostTarget::File(path.to_str().unwrap()));
    node["aio"] = json!("native");
    assert!(qemu.execute("blockdev-add", &node).unwrap_err().contains("native"));
}

#[test]
fn every_device_model_takes_a_disk_when_it_says() {
    if !is_installed("qemu-system-x86_64") {
        return;
    }
    for model in devices::device_models() {
        let running = model.attach != Attach::AtStart;
        let iothread = model.iothread.then_some("thread");
        let pci_bus = running.then_some("port0");
        let controller =
            model.controller.map(|make| make(&Controller { id: "controller", pci_bus, iothread }));
        let slot = model.slots - 1;
        let disk = (model.disk)(&Disk {
            id: "disk",
            node: "node",
            serial: "nestor-0123456789abc",
            write_cache: CacheMode::Writethrough.write_cache(),
            controller: "controller",
            slot,
            pci_bus,
            iothread,
        });
        let objects: Vec<Value> = controller.into_iter().chain([disk]).collect();
        let mut arguments: Vec<String> = [
            "-object",
            "iothread,id=thread",
            "-device",
            "pcie-root-port,id=port0,chassis=1,slot=1",
            "-blockdev",
            "driver=null-co,node-name=node,size=1048576",
        ]
        .map(str::to_owned)
        .into();
        if !running {
            arguments.extend(objects.iter().flat_map(|object| ["-device".to_owned(), object.to_string()]));
        }
        let mut qemu = Qemu::start(&arguments);
        if running {
            for object in &objects {
                qemu.execute("device_add", object).unwrap_or_else(|e| panic!("{object}: {e}"));
            }
        }
        let property = |qemu: &mut Qemu, name: &str| {
            qemu.execute("qom-get", &json!({ "path": "/machine/peripheral/disk", "property": name })).unwrap()
        };
        assert_eq!(property(&mut qemu, "serial"), "nestor-0123456789abc", "{}", model.name);
        assert_eq!(property(&mut qemu, "write-cache"), "off", "{}", model.name);
        assert_eq!(property(&mut qemu, "drive"), "node", "{}", model.name);
    }
}

#[test]
fn a_virtual_machine_has_its_options() {
    let stack = Stack::parse("ext4/tcg:disk=nvme:cpus=2:memory=1G:sched=bfq:readahead=128k/hdd").unwrap();
    let layer: &Layer = &stack.layers()[1];
    let options = layer.hypervisor().unwrap();
    assert_eq!((options.disk.model(), options.cpus, options.memory), ("nvme", 2, Bytes::gib(1)));
    assert_eq!((options.tuning.scheduler, options.tuning.readahead), (Some("bfq"), Some(Bytes::kib(128))));
    assert!(stack.layers()[0].hypervisor().is_none());
}

#[test]
fn a_partition_begins_where_it_says_and_ends_with_its_disk() {
    if !is_installed("sfdisk") {
        return;
    }
    let folder = scratch();
    let path = folder.path().join("disk");
    let disk = path.to_str().unwrap();
    // The last one is too large for a DOS table, and has a copy of its own table at its end.
    for (size, start, label, after) in [
        (Bytes::mib(64), "1s", "dos", 0),
        (Bytes::mib(64), "63s", "dos", 0),
        (Bytes::mib(64), "1M", "dos", 0),
        (Bytes::gib(3 << 10), "63s", "gpt", 33),
    ] {
        let _ = std::fs::remove_file(&path);
        sparse_file(&path, size);
        let part = Layer::parse(&format!("part:start={start}")).unwrap().partition().unwrap();
        let argv = PartitionOptions::write_table(disk);
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .env("PATH", SEARCH_PATH)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let table = part.table(512, size.get() / 512).unwrap();
        child.stdin.take().unwrap().write_all(table.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{table}");
        let said = Command::new("sfdisk").args(["--json", disk]).env("PATH", SEARCH_PATH).output().unwrap();
        let found: Value = serde_json::from_slice(&said.stdout).unwrap();
        let (found, sectors) = (&found["partitiontable"], size.get() / 512);
        let [only] = found["partitions"].as_array().unwrap().as_slice() else { panic!("one: {found}") };
        let first = u64::from(part.start.0);
        assert_eq!((found["label"].as_str(), only["start"].as_u64()), (Some(label), Some(first)));
        let left = sectors - first - only["size"].as_u64().unwrap();
        // sfdisk may leave the rest of the last MiB free.
        assert!((after..after + 2048).contains(&left), "{left} sectors are left: {found}");
    }
}

#[test]
fn a_partition_does_not_begin_within_a_sector() {
    let part = Layer::parse("part:start=63s").unwrap().partition().unwrap();
    assert_eq!((part.table(4096, 1 << 20), part.table(0, 0)), (None, None));
    let aligned = Layer::parse("part").unwrap().partition().unwrap();
    assert!(aligned.table(4096, 1 << 20).unwrap().contains("start=256,"));
}
