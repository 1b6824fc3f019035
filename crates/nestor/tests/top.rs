//! `nestor top` as a user meets it: a QEMU without a guest system, whose boot sector writes a known number of blocks.

mod support;

use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use support::loop_mount::LoopMount;
use support::tracing_instances::assert_no_instance;
use support::{LIMIT, Running, Sandbox, can_run, has_program, refused, said, signal};

/// Blocks that the boot sector writes; the first operand of its `mov cx`.
const WRITES: u16 = 300;
const BLOCK_BYTES: u64 = 4096;
/// Where on the disk: behind the boot sector.
const FIRST_SECTOR: u64 = 2048;
const IMAGE_BYTES: usize = 16 << 20;

/// A boot sector that writes [`WRITES`] blocks one after the other through the BIOS (INT 13h, AH=43h), then ends QEMU through its device
/// `isa-debug-exit`.
fn boot_sector() -> Vec<u8> {
    const ORIGIN: u16 = 0x7c00;
    let mut code = vec![0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, 0x8e, 0xd0]; // cli; ax, ds, es, ss = 0
    code.extend([0xbc, 0x00, 0x7c, 0xfb, 0xb9]); // mov sp, 7c00h; sti; mov cx, ...
    code.extend(WRITES.to_le_bytes());
    let again = code.len();
    code.extend([0x51, 0x52, 0xbe, 0, 0, 0xb4, 0x43, 0xb0, 0x00, 0xcd, 0x13, 0x5a, 0x59]); // push; mov si, packet; int 13h; pop
    code.extend([0x66, 0x83, 0x06, 0, 0, 0x08]); // add dword [packet + 8], 8
    let back = again as i64 - (code.len() as i64 + 2);
    code.extend([0xe2, (back & 0xff) as u8]); // loop again
    code.extend([0xba, 0x01, 0x05, 0x30, 0xc0, 0xee, 0xf4]); // mov dx, 501h; xor al, al; out dx, al; hlt
    let packet = ORIGIN + code.len() as u16;
    code[again + 3..again + 5].copy_from_slice(&packet.to_le_bytes());
    code[again + 16..again + 18].copy_from_slice(&(packet + 8).to_le_bytes());
    code.extend([16, 0, (BLOCK_BYTES / 512) as u8, 0, 0x00, 0x80, 0, 0]); // the packet: blocks, memory at 8000h
    code.extend(FIRST_SECTOR.to_le_bytes());
    code.resize(510, 0);
    code.extend([0x55, 0xaa]);
    code
}

/// A QEMU that waits for `cont`.
struct Qemu(Child);

impl Qemu {
    fn start(image: &str, name: &str, aio: &str) -> Self {
        let drive = format!("file={image},format=raw,if=none,id=disk,cache=none,aio={aio}");
        let child = Command::new("qemu-system-x86_64")
            .args([
                "-name",
                name,
                "-machine",
                "pc",
                "-accel",
                "tcg",
                "-m",
                "64",
                "-display",
                "none",
                "-nodefaults",
            ])
            .args(["-S", "-monitor", "stdio", "-drive", &drive, "-device", "virtio-blk-pci,drive=disk"])
            .args(["-device", "isa-debug-exit,iobase=0x501"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("QEMU starts");
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Waits until it has the image open, without which it has no layers.
    fn wait_for(&mut self, image: &str) {
        let deadline = Instant::now() + LIMIT;
        let files = format!("/proc/{}/fd", self.0.id());
        let has_it = || {
            let open = fs::read_dir(&files).into_iter().flatten().flatten();
            open.filter_map(|entry| fs::read_link(entry.path()).ok())
                .any(|path| path.to_string_lossy() == image)
        };
        while !has_it() {
            assert!(Instant::now() < deadline, "QEMU never opened {image}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn go_on(&mut self) {
        self.0.stdin.as_mut().expect("it is piped").write_all(b"cont\n").expect("it reads its monitor");
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn image_on(mounted: &LoopMount) -> String {
    let path = format!("{}/disk.raw", mounted.point);
    let mut content = boot_sector();
    content.resize(IMAGE_BYTES, 0);
    let mut file = File::create(&path).expect("the file system can be written to");
    file.write_all(&content).and_then(|()| file.sync_all()).expect("it has room");
    path
}

/// Waits until the program has printed so many lines.
fn wait_for_lines(sandbox: &Sandbox, running: &mut Running<'_>, lines: usize) {
    let deadline = Instant::now() + LIMIT;
    let printed = || fs::read_to_string(sandbox.path("stdout.txt")).unwrap_or_default().lines().count();
    while printed() < lines {
        let said = || fs::read_to_string(sandbox.path("stderr.txt")).unwrap_or_default();
        assert!(running.is_running() && Instant::now() < deadline, "it ended too early: {}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lines_of(text: &str) -> Vec<Value> {
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    assert!(lines.iter().all(|line| line["nestor_json"] == 1), "{text}");
    lines
}

/// The sum over intervals of a number of a layer.
fn sum(intervals: &[Value], layer: usize, group: &str, number: &str) -> u64 {
    intervals.iter().map(|one| one["layers"][layer][group][number].as_u64().expect("a number")).sum()
}

#[test]
fn what_is_not_there_is_said_with_what_to_do() {
    let sandbox = Sandbox::new();
    let nobody = refused(&sandbox, &["top", "--pid", "4294967295"]);
    assert!(nobody.contains("there is no process 4294967295") && nobody.contains("pgrep"), "{nobody}");
    let none = refused(&sandbox, &["top", "--domain", "no-such-machine"]);
    assert!(none.contains("no virtual machine named no-such-machine runs here"), "{none}");
    let short = refused(&sandbox, &["top", "--interval", "0"]);
    assert!(short.contains("0.1s"), "{short}");
    let nowhere = refused(&sandbox, &["top", "--device", "/dev/no-such-disk"]);
    assert!(nowhere.contains("lsblk"), "{nowhere}");
}

#[test]
fn exactly_the_requests_that_a_guest_made_are_counted_in_every_layer() {
    if !can_run(true, false) || !has_program("qemu-system-x86_64") {
        return;
    }
    for aio in ["threads", "io_uring"] {
        let sandbox = Sandbox::new();
        let mounted = LoopMount::new(&sandbox, "ext4");
        let image = image_on(&mounted);
        let name = format!("counted-{aio}");
        let mut qemu = Qemu::start(&image, &name, aio);
        qemu.wait_for(&image);
        let mut top = sandbox.start(&["top", "--domain", &name, "--interval", "0.3s", "--json"], &[]);
        let pid = top.pid();
        wait_for_lines(&sandbox, &mut top, 1);
        qemu.go_on();
        // It ends with the virtual machine, which ends when all is written.
        let ended = top.end();
        assert!(ended.succeeded, "{}", ended.stderr);
        let intervals = lines_of(&ended.stdout);
        let last = intervals.last().unwrap();
        let loop_name = mounted.device.trim_start_matches("/dev/");
        let names: Vec<&str> =
            last["layers"].as_array().unwrap().iter().filter_map(|row| row["layer"].as_str()).collect();
        assert_eq!(
            names[..3],
            [&format!("qemu {name}"), &format!("ext4 {}", mounted.point), loop_name],
            "{last}"
        );
        let count = u64::from(WRITES);
        let written =
            |layer| (sum(&intervals, layer, "writes", "requests"), sum(&intervals, layer, "writes", "bytes"));
        assert_eq!(written(0), (count, count * BLOCK_BYTES), "{aio}: {intervals:?}");
        // The BIOS reads the boot sector, and flushes after each write.
        assert_eq!(sum(&intervals, 0, "reads", "bytes"), 512);
        assert_eq!(sum(&intervals, 0, "flushes", "requests"), count);
        // The file system adds its own, and nothing is merged away of what waits for its end each time.
        for layer in [1, 2] {
            let (requests, bytes) = written(layer);
            assert!(requests >= count && bytes >= count * BLOCK_BYTES, "layer {layer}: {requests}, {bytes}");
        }
        let lost: u64 = intervals.iter().map(|one| one["lost_events"].as_u64().unwrap()).sum();
        assert_eq!(lost, 0);
        let busy = intervals.iter().filter(|one| one["longest"]["layer"] == names[0]);
        assert!(busy.clone().count() > 0, "{intervals:?}");
        for interval in busy {
            let shares = interval["layers"][0]["busy_with"].as_array().unwrap();
            let all: f64 = shares.iter().filter_map(|wait| wait["share"].as_f64()).sum();
            assert!((all - 1.0).abs() < 1e-6, "{interval}");
        }
        assert_no_instance(&sandbox, pid);
    }
}

#[test]
fn so_many_intervals_are_printed_and_a_signal_leaves_nothing_behind() {
    if !can_run(true, false) || !has_program("qemu-system-x86_64") {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = LoopMount::new(&sandbox, "ext4");
    let image = image_on(&mounted);
    let mut qemu = Qemu::start(&image, "still", "threads");
    qemu.wait_for(&image);
    let text = said(&sandbox, &["top", "--pid", &qemu.pid(), "--interval", "0.2s", "-n", "2"]);
    assert_eq!(text.matches("reads/s").count(), 2, "{text}");
    assert!(text.starts_with(&format!("qemu still > ext4 {}", mounted.point)), "{text}");
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
    let json = said(&sandbox, &["top", "--device", &image, "--interval", "0.2s", "-n", "2", "--json"]);
    assert_eq!(lines_of(&json).len(), 2);
    for signal_number in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut top =
            sandbox.start(&["top", "--device", &mounted.device, "--json", "--interval", "0.2s"], &[]);
        let pid = top.pid();
        wait_for_lines(&sandbox, &mut top, 1);
        signal(pid, signal_number);
        let ended = top.end();
        assert!(ended.succeeded, "{}", ended.stderr);
        assert_no_instance(&sandbox, pid);
    }
}
