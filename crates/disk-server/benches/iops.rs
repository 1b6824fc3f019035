//! How fast the disk without timing is, next to QEMU's own storage daemon, and how exactly a modelled disk keeps its
//! model's times. Both through this crate's own front end, in one run.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nestor_disk::log::{self, Reader};
use nestor_disk_server::{ControlClient, ServeError, ServeOptions, StopHandle, serve};
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
const TIMED_REQUESTS: usize = 10_000;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the disks");
    compare_iops(folder.path());
    println!();
    println!("served latency against the model's, {TIMED_REQUESTS} random {BLOCK_BYTES}-byte reads each");
    println!(
        "  {:<32} {:>10} {:>10} {:>22} {:>22}",
        "", "model p50", "model p99", "disk's own clock", "the front end's clock"
    );
    println!(
        "  {:<32} {:>10} {:>10} {:>11}{:>11} {:>11}{:>11}",
        "", "ms", "ms", "median", "p99", "median", "p99"
    );
    for (profile, size_bytes, depth) in [("raid0-14x10k", 64 << 30, 32), ("wd-7200-1tb", 256 << 20, 1)] {
        compare_latency(folder.path(), profile, size_bytes, depth);
    }
}

/// Serves random reads with timing and compares each one's latency with what the model computed for it.
fn compare_latency(folder: &Path, profile: &str, size_bytes: u64, depth: u16) {
    let ours = Ours::start(folder, profile, size_bytes, profile);
    let mut control = ControlClient::connect(&ours.control).expect("its control socket");
    let path = folder.join(format!("{profile}.log"));
    control.start_log(&path).expect("a log");
    let mut front_end = FrontEnd::connect(&ours.socket, BLOCK_BYTES);
    let mut random = SmallRng::seed_from_u64(7);
    // One queue: the disk numbers requests in the order in which they are made here.
    let (mut submitted, mut seen_ns) = (Vec::new(), vec![0.0; TIMED_REQUESTS]);
    let mut number_in_slot = [0; support::SLOTS as usize];
    let mut submit = |front_end: &mut FrontEnd, submitted: &mut Vec<Instant>, slot: u16| {
        let sector = random.random_range(0..size_bytes / u64::from(BLOCK_BYTES)) * BLOCK_SECTORS;
        submitted.push(Instant::now());
        front_end.submit(slot, VIRTIO_BLK_T_IN, sector, BLOCK_BYTES, true);
        front_end.kick();
        submitted.len() - 1
    };
    for slot in 0..depth {
        number_in_slot[usize::from(slot)] = submit(&mut front_end, &mut submitted, slot);
    }
    let mut done = 0;
    while done < TIMED_REQUESTS {
        while let Some((slot, _)) = front_end.poll() {
            let number = number_in_slot[usize::from(slot)];
            seen_ns[number] = submitted[number].elapsed().as_nanos() as f64;
            done += 1;
            if submitted.len() < TIMED_REQUESTS {
                number_in_slot[usize::from(slot)] = submit(&mut front_end, &mut submitted, slot);
            }
        }
        if done < TIMED_REQUESTS {
            front_end.wait();
        }
    }
    let priority = control.statistics().expect("statistics").priority;
    control.stop_log().expect("a complete log");
    let records: Vec<_> = Reader::open(&path).expect("the log").map(|r| r.expect("a whole record")).collect();
    assert_eq!(records.len(), TIMED_REQUESTS);
    let model = |r: &log::Record| r.model_latency_ns() as f64;
    let mut own: Vec<f64> =
        records.iter().map(|r| (r.latency_ns() as f64 / model(r) - 1.0).abs() * 100.0).collect();
    let mut seen: Vec<f64> =
        records.iter().map(|r| (seen_ns[r.sequence as usize] / model(r) - 1.0).abs() * 100.0).collect();
    let mut latency: Vec<f64> = records.iter().map(|r| model(r) / 1e6).collect();
    println!(
        "  {:<32} {:>10.2} {:>10.2} {:>9.3} %{:>9.3} % {:>9.3} %{:>9.3} %  {priority:?}",
        format!("{profile}, {} MiB, depth {depth}", size_bytes >> 20),
        quantile(&mut latency, 0.5),
        quantile(&mut latency, 0.99),
        quantile(&mut own, 0.5),
        quantile(&mut own, 0.99),
        quantile(&mut seen, 0.5),
        quantile(&mut seen, 0.99),
    );
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}

fn compare_iops(folder: &Path) {
    let ours = Ours::start(folder, "null", DISK_BYTES, "ours");
    let theirs = StorageDaemon::start(folder);
    println!(
        "random {BLOCK_BYTES}-byte requests at depth {DEPTH}, {ROUNDS} rounds of {ROUND:?} in turn, IOPS"
    );
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
        let (a, b) = (quantile(&mut a, 0.5), quantile(&mut b, 0.5));
        println!("  {name:<8} {a:>12.0} {b:>12.0} {:>7.2}", a / b);
    }
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
    control: PathBuf,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Ours {
    fn start(folder: &Path, profile: &str, size_bytes: u64, name: &str) -> Self {
        let stop = StopHandle::new().expect("a pipe");
        let socket = folder.join(format!("{name}.sock"));
        let control = folder.join(format!("{name}.control"));
        let options = ServeOptions {
            socket: socket.clone(),
            data: Some(folder.join(format!("{name}.data"))),
            control: Some(control.clone()),
            serial: name.to_owned(),
            stop: stop.clone(),
            ..support::served::options(profile, size_bytes)
        };
        let thread = std::thread::spawn(move || serve(options));
        wait_for(&socket, || thread.is_finished());
        if thread.is_finished() {
            let ended = thread.join().expect("the disk does not panic");
            panic!("the disk is not served: {ended:?}");
        }
        Self { socket, control, stop, thread: Some(thread) }
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
                wait_for(&socket, || false);
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

/// Until the socket is there, or whoever makes it has ended.
fn wait_for(socket: &Path, ended: impl Fn() -> bool) {
    let start = Instant::now();
    while !socket.exists() && !ended() {
        assert!(start.elapsed() < Duration::from_secs(10), "{} does not appear", socket.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    // The socket's file appears a moment before it is listened on.
    std::thread::sleep(Duration::from_millis(50));
}
