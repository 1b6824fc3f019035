//! Made traces that look like real ones, written as blktrace writes them.
#![allow(dead_code, reason = "each user needs a part")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use nestor_trace::decode::blktrace::{ByteOrder, Encoder, Version};
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};

/// The device below and the volume on it.
pub const DISK: Device = Device { major: 8, minor: 0 };
/// A second disk.
pub const OTHER_DISK: Device = Device { major: 8, minor: 16 };
/// A device mapper volume on [`DISK`].
pub const VOLUME: Device = Device { major: 253, minor: 0 };

/// A generator of numbers that are the same in every run (Knuth's MMIX constants).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }
}

/// What a trace consists of; a share of n is "one in n requests", 0 is none.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub requests: u64,
    pub cpus: u32,
    pub pids: u64,
    /// Distance between the beginnings of requests, nanoseconds.
    pub pace_ns: u64,
    /// Regions of 4096 sectors that requests are in.
    pub regions: u64,
    pub merged: u64,
    pub split: u64,
    pub remapped: u64,
    pub flushes: u64,
    pub slept: u64,
    pub requeued: u64,
    pub direct: u64,
    pub other_disk: u64,
    /// Requests follow each other without a gap.
    pub sequential: u64,
}

impl Mix {
    /// Random reads and writes of 4 KiB, each with Q G P I U D C.
    pub fn random_4k(requests: u64) -> Self {
        Self {
            requests,
            cpus: 4,
            pids: 16,
            pace_ns: 70_000,
            regions: 1 << 14,
            merged: 0,
            split: 0,
            remapped: 0,
            flushes: 0,
            slept: 0,
            requeued: 0,
            direct: 0,
            other_disk: 0,
            sequential: 0,
        }
    }

    /// Something of everything.
    pub fn varied(requests: u64) -> Self {
        Self {
            pids: 7,
            regions: 4096,
            merged: 4,
            split: 29,
            remapped: 11,
            flushes: 17,
            slept: 13,
            requeued: 97,
            direct: 9,
            other_disk: 5,
            sequential: 3,
            ..Self::random_4k(requests)
        }
    }
}

/// Where events go, in the order of time.
pub trait Events {
    fn event(&mut self, event: &BlockEvent);
}

impl Events for Vec<BlockEvent> {
    fn event(&mut self, event: &BlockEvent) {
        self.push(*event);
    }
}

/// Files of CPUs, numbered per CPU.
pub struct Files {
    files: Vec<BufWriter<File>>,
    sequences: Vec<u32>,
    record: Vec<u8>,
    pub records: u64,
}

impl Files {
    /// Makes `DIRECTORY/NAME.blktrace.N`.
    pub fn create(directory: &Path, name: &str, cpus: u32) -> (Self, Vec<PathBuf>) {
        let paths: Vec<_> = (0..cpus).map(|cpu| directory.join(format!("{name}.blktrace.{cpu}"))).collect();
        let files =
            paths.iter().map(|p| BufWriter::with_capacity(1 << 20, File::create(p).unwrap())).collect();
        (Self { files, sequences: vec![0; cpus as usize], record: Vec::new(), records: 0 }, paths)
    }

    pub fn finish(self) -> u64 {
        for mut file in self.files {
            file.flush().unwrap();
        }
        self.records
    }
}

impl Events for Files {
    fn event(&mut self, event: &BlockEvent) {
        let cpu = event.cpu as usize;
        self.sequences[cpu] += 1;
        self.records += 1;
        self.record.clear();
        let encoder = Encoder { order: ByteOrder::Little, version: Version::V7 };
        encoder.event(&BlockEvent { sequence: self.sequences[cpu], ..*event }, &mut self.record);
        self.files[cpu].write_all(&self.record).unwrap();
    }
}

#[derive(PartialEq, Eq)]
struct Pending(u64, u64, BlockEvent);

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

struct Maker<'a, E> {
    out: &'a mut E,
    pending: BinaryHeap<Reverse<Pending>>,
    made: u64,
    last_ns: u64,
    /// Regions with a request in flight, by its end.
    busy: HashSet<(Device, u64)>,
    ends: BinaryHeap<Reverse<(u64, Device, u64)>>,
    next_region: u64,
}

impl<E: Events> Maker<'_, E> {
    fn at(&mut self, event: BlockEvent) {
        self.made += 1;
        self.pending.push(Reverse(Pending(event.time_ns, self.made, event)));
    }

    /// Hands out what happened before `now_ns`; no two events have the same time.
    fn flow(&mut self, now_ns: u64) {
        while self.pending.peek().is_some_and(|Reverse(p)| p.0 <= now_ns) {
            let Some(Reverse(Pending(_, _, mut event))) = self.pending.pop() else { break };
            event.time_ns = event.time_ns.max(self.last_ns + 1);
            self.last_ns = event.time_ns;
            self.out.event(&event);
        }
        while self.ends.peek().is_some_and(|Reverse(e)| e.0 + 1_000_000 < now_ns) {
            let Some(Reverse((_, device, region))) = self.ends.pop() else { break };
            self.busy.remove(&(device, region));
        }
    }

    fn region(&mut self, numbers: &mut Numbers, mix: &Mix, device: Device) -> u64 {
        loop {
            let region = if numbers.one_in(mix.sequential) {
                self.next_region += 1;
                self.next_region % mix.regions
            } else {
                numbers.below(mix.regions)
            };
            if self.busy.insert((device, region)) {
                return region;
            }
        }
    }
}

/// Makes the events of a mix.
pub fn generate(mix: &Mix, seed: u64, out: &mut impl Events) {
    let mut numbers = Numbers::new(seed);
    let mut maker = Maker {
        out,
        pending: BinaryHeap::new(),
        made: 0,
        last_ns: 0,
        busy: HashSet::new(),
        ends: BinaryHeap::new(),
        next_region: 0,
    };
    let mut now_ns = 1_000_000_000;
    for _ in 0..mix.requests {
        now_ns += mix.pace_ns / 2 + numbers.below(mix.pace_ns);
        maker.flow(now_ns);
        request(mix, now_ns, &mut numbers, &mut maker);
    }
    maker.flow(u64::MAX);
}

/// One request from Q to C.
fn request<E: Events>(mix: &Mix, start_ns: u64, numbers: &mut Numbers, maker: &mut Maker<'_, E>) {
    let device = if numbers.one_in(mix.other_disk) { OTHER_DISK } else { DISK };
    let direction = if numbers.below(2) == 0 { Direction::Read } else { Direction::Write };
    let cpu = numbers.below(u64::from(mix.cpus)) as u32;
    let pid = 1000 + numbers.below(mix.pids) as u32;
    let flags = Flags::default().with(Flags::SYNC, numbers.below(3) == 0);
    let event = |time_ns: u64, action: Action, sector: u64, sectors: u64| BlockEvent {
        time_ns,
        sequence: 0,
        cpu,
        pid,
        device,
        action,
        direction,
        flags,
        sector,
        bytes: sectors * 512,
        error: 0,
    };
    let mut now = start_ns;
    let mut step = |numbers: &mut Numbers, most: u64| {
        now += 1 + numbers.below(most);
        now
    };
    if numbers.one_in(mix.flushes) {
        let flush = |time_ns, action| BlockEvent {
            direction: Direction::None,
            flags: Flags::FLUSH,
            ..event(time_ns, action, 0, 0)
        };
        maker.at(flush(step(numbers, 900), Action::Queue));
        maker.at(flush(step(numbers, 900), Action::Issue));
        maker.at(flush(step(numbers, 900_000), Action::Complete));
        return;
    }
    let region = maker.region(numbers, mix, device);
    let sector = region * 4096 + numbers.below(16) * 8 + 64;
    let volume = device == DISK && numbers.one_in(mix.remapped);
    if volume {
        let above = BlockEvent { device: VOLUME, ..event(step(numbers, 900), Action::Queue, sector - 64, 8) };
        maker.at(above);
        let remap = Action::Remap { from: VOLUME, from_sector: sector - 64 };
        maker.at(event(step(numbers, 1500), remap, sector, 8));
    }
    if !volume && numbers.one_in(mix.split) {
        maker.at(event(step(numbers, 900), Action::Queue, sector, 2048));
        let cut = sector + 1024;
        maker.at(event(step(numbers, 900), Action::Split { new_sector: cut }, sector, 1024));
        for half in [sector, cut] {
            maker.at(event(step(numbers, 900), Action::GetRequest, half, 1024));
            maker.at(event(step(numbers, 900), Action::Insert, half, 1024));
        }
        for half in [sector, cut] {
            maker.at(event(step(numbers, 9000), Action::Issue, half, 1024));
        }
        for half in [sector, cut] {
            maker.at(event(step(numbers, 900_000), Action::Complete, half, 1024));
        }
        // btt never forgets a bio that was split and confuses it with later ones: the region is not used again.
        return;
    }
    let bios = if !volume && numbers.one_in(mix.merged) { 2 + numbers.below(7) } else { 1 };
    let mut first = sector;
    maker.at(event(step(numbers, 900), Action::Queue, sector, 8));
    if numbers.one_in(mix.slept) {
        maker.at(event(step(numbers, 300), Action::Sleep, sector, 8));
        step(numbers, 30_000);
    }
    maker.at(event(step(numbers, 900), Action::GetRequest, sector, 8));
    maker.at(BlockEvent { direction: Direction::None, ..event(step(numbers, 300), Action::Plug, 0, 0) });
    let mut end = sector + 8;
    for _ in 1..bios {
        let (at, how) = if numbers.below(6) == 0 {
            first -= 8;
            (first, Action::FrontMerge)
        } else {
            end += 8;
            (end - 8, Action::BackMerge)
        };
        maker.at(event(step(numbers, 900), Action::Queue, at, 8));
        maker.at(event(step(numbers, 300), how, at, 8));
    }
    let whole = end - first;
    if !numbers.one_in(mix.direct) {
        maker.at(event(step(numbers, 3000), Action::Insert, first, whole));
    }
    let unplug = Action::Unplug { requests: 1 + numbers.below(3) as u32, timer: numbers.one_in(mix.slept) };
    maker.at(BlockEvent { direction: Direction::None, ..event(step(numbers, 300), unplug, 0, 0) });
    maker.at(event(step(numbers, 9000), Action::Issue, first, whole));
    if numbers.one_in(mix.requeued) {
        maker.at(event(step(numbers, 9000), Action::Requeue, first, whole));
        maker.at(event(step(numbers, 90_000), Action::Issue, first, whole));
    }
    // Completions come on another CPU, in the context of the thread that runs there.
    let other = numbers.below(u64::from(mix.cpus)) as u32;
    let done = event(step(numbers, 4_000_000), Action::Complete, first, whole);
    maker.at(BlockEvent { cpu: other, pid: 0, ..done });
    if volume {
        let above =
            BlockEvent { device: VOLUME, ..event(step(numbers, 900), Action::Complete, sector - 64, 8) };
        maker.at(BlockEvent { cpu: other, pid: 0, ..above });
    }
    maker.ends.push(Reverse((now, device, region)));
}
