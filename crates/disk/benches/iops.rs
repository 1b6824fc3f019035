//! How fast the disk without timing is, next to QEMU's own storage daemon, and how exactly a modelled disk keeps its
//! model's times. Both through this crate's own front end, in one run.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nestor_disk::{DiskError, ServeOptions, StopHandle, serve};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::FrontEnd;
use virtio_bindings::bindings::virtio_blk::{VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT};

const BLOCK_BYTES: u32 = 4096;
const BLOCK_SECTORS: u64 = 8;
const DISK_BYTES: u64 = 1 << 30;
const DEPTH: u16 = 64;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the disks");
    compare_iops(folder.path());
}

fn compare_iops(folder: &Path) {
    let ours = Ours::start(folder, "null", DISK_BYTES, "ours");
    let theirs = StorageDaemon::start(folder);
    println!("random {BLOCK_BYTES}-byte requests at depth {DEPTH}, {ROUNDS} rounds of {ROUND:?} in turn, IOPS");
    println!("  {:<8} {:>12} {:>12} {:>7}", "", "nestor null", "qemu-s-d", "ratio");
    for (name, kind) in [("write", VIRTIO_BLK_T_OUT), ("read", VIRTIO_BLK_T_IN)] {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut first = FrontEnd::connect(&ours.socket, BLOCK_BYTES);
        let mut second = theirs.as_ref().map(|t| FrontEnd::connect(&t.socket, BLOCK_BYTES));
        for round in 0..ROUNDS as u64 {
            a.push(iops(&mut first, kind, round));
            if let Some(second) = &mut second {
                b.push(iops(second, kind, round));
            }
        }
        let (a, b) = (median(&mut a), median(&mut b));
        println!("  {name:<8} {a:>12.0} {b:>12.0} {:>7.2}", a / b);
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Keeps the queue full for a round and counts completions.
fn iops(front_end: &mut FrontEnd, kind: u32, seed: u64) -> f64 {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut next = |front_end: &mut FrontEnd, slot| {
        let sector = random.random_range(0..DISK_BYTES / u64::from(BLOCK_BYTES)) * BLOCK_SECTORS;
        front_end.submit(slot, kind, sector, BLOCK_BYTES, kind == VIRTIO_BLK_T_IN);
    };
    let start = Instant::now();
    for slot in 0..DEPTH {
        next(front_end, slot);
    }
    front_end.kick();
    let (mut done, mut open) = (0u64, DEPTH);
    while open > 0 {
        let before = front_end.next_available();
        while let Some((slot, _)) = front_end.poll() {
            assert_eq!(front_end.status(slot), 0, "a request failed");
            done += 1;
            if start.elapsed() < ROUND {
                next(front_end, slot);
            } else {
                open -= 1;
            }
        }
        if front_end.next_available() != before {
            front_end.kick_since(before);
        }
        if open > 0 {
            front_end.wait();
        }
    }
    done as f64 / start.elapsed().as_secs_f64()
}

/// A disk of ours, served by a thread of this process.
struct Ours {
    socket: PathBuf,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<(), DiskError>>>,
}

impl Ours {
    fn start(folder: &Path, profile: &str, size_bytes: u64, name: &str) -> Self {
        let stop = StopHandle::new().expect("a pipe");
        let socket = folder.join(format!("{name}.sock"));
        let options = ServeOptions {
            profile: profile.to_owned(),
            size_bytes,
            offset_bytes: 0,
            socket: socket.clone(),
            data: folder.join(format!("{name}.data")),
            control: Some(folder.join(format!("{name}.control"))),
            log: None,
            write_cache: None,
            timing: true,
            durable: false,
            serial: name.to_owned(),
            once: false,
            end_with_parent: false,
            stop: stop.clone(),
        };
        let thread = Some(std::thread::spawn(move || serve(options)));
        wait_for(&socket);
        Self { socket, stop, thread }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("the disk failed: {error}");
        }
    }
}

/// QEMU's storage daemon with a sparse file.
struct StorageDaemon {
    socket: PathBuf,
    process: Child,
}

impl StorageDaemon {
    fn start(folder: &Path) -> Option<Self> {
        let (socket, data) = (folder.join("qsd.sock"), folder.join("qsd.data"));
        let file = std::fs::File::create(&data).expect("a data file");
        file.set_len(DISK_BYTES).expect("a sparse file");
        let process = Command::new("qemu-storage-daemon")
            .arg("--blockdev")
            .arg(format!("driver=file,node-name=disk,filename={},discard=unmap", data.display()))
            .arg("--export")
            .arg(format!(
                "type=vhost-user-blk,id=disk,node-name=disk,writable=on,addr.type=unix,addr.path={}",
                socket.display()
            ))
            .stdin(Stdio::null())
            .spawn();
        match process {
            Ok(process) => {
                wait_for(&socket);
                Some(Self { socket, process })
            }
            Err(error) => {
                eprintln!("no qemu-storage-daemon to compare with: {error}");
                None
            }
        }
    }
}

impl Drop for StorageDaemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_for(socket: &Path) {
    let start = Instant::now();
    while !socket.exists() {
        assert!(start.elapsed() < Duration::from_secs(10), "{} does not appear", socket.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    // The socket's file appears a moment before it is listened on.
    std::thread::sleep(Duration::from_millis(50));
}
