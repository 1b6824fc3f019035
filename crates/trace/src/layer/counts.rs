//! Counting events by what they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Action, BlockEvent, Device, Direction, Flags, SECTOR_BYTES};
use crate::metrics::{DirectionMetrics, LayerMetrics};

/// The most sizes that are distinguished; a hostile trace could have any number.
const MOST_SIZES: usize = 1 << 14;
/// Sizes of whole sectors up to this many have a counter each: 2 MiB.
const USUAL_SECTORS: usize = 4096;
/// Devices that are named in a remark.
const MOST_DEVICES: usize = 64;
/// How many [`Direction`]s there are.
const DIRECTIONS: usize = Direction::None as usize + 1;

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub events: u64,
    pub devices: BTreeSet<Device>,
    pub first_ns: u64,
    last_ns: u64,
    /// By [`Direction`]: reads and writes come in no order that a processor could foresee, so it is not asked which
    /// one it is. The last is of no direction and not told.
    directions: [DirectionMetrics; DIRECTIONS],
    flushes: u64,
    fua_writes: u64,
    flushes_queued: u64,
    fua_writes_queued: u64,
    completed_empty: u64,
    issues: u64,
    usual_sizes: Vec<u64>,
    sizes: BTreeMap<u64, u64>,
    pub other_sizes: u64,
    last_end: [Option<(Device, u64)>; 2],
    sequential: [u64; 2],
    pub requeues: u64,
    pub errors: u64,
    pub passthrough: u64,
}

impl Counts {
    pub fn new() -> Self {
        Self { first_ns: u64::MAX, usual_sizes: vec![0; USUAL_SECTORS + 1], ..Self::default() }
    }

    /// Whether there was any request or flush.
    pub fn had_requests(&self) -> bool {
        let requests = |d: &DirectionMetrics| d.queued + d.issued + d.completed;
        let data: u64 = self.directions[..Direction::None as usize].iter().map(requests).sum();
        data + self.flushes + self.flushes_queued + self.completed_empty > 0
    }

    /// Whether the device issues no requests but completes what is queued.
    pub fn is_bio_based(&self) -> bool {
        let [read, write, ..] = &self.directions;
        self.issues == 0 && self.completed_empty + read.completed + write.completed > 0
    }

    /// Sets the numbers that these counts are.
    pub fn fill(self, metrics: &mut LayerMetrics) {
        metrics.reissued = self.requeues;
        let share = |sequential: u64, issued: u64| (issued > 0).then(|| sequential as f64 / issued as f64);
        let [reads, writes] = self.sequential;
        let [read, write, discard, _] = self.directions;
        metrics.sequential_share = share(reads + writes, read.issued + write.issued);
        metrics.sequential_read_share = share(reads, read.issued);
        metrics.sequential_write_share = share(writes, write.issued);
        (metrics.read, metrics.write, metrics.discard) = (read, write, discard);
        metrics.flushes = self.flushes;
        metrics.fua_writes = self.fua_writes;
        metrics.flushes_queued = self.flushes_queued;
        metrics.fua_writes_queued = self.fua_writes_queued;
        metrics.size_histogram = self.sizes;
        let usual = self.usual_sizes.iter().enumerate().filter(|(_, count)| **count > 0);
        metrics.size_histogram.extend(usual.map(|(sectors, &count)| (sectors as u64 * SECTOR_BYTES, count)));
        metrics.span_s =
            if self.events == 0 { 0.0 } else { self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9 };
    }

    /// Counts an event; `action` is its action.
    #[inline(always)]
    pub fn count(&mut self, action: Action, event: &BlockEvent) {
        self.events += 1;
        self.first_ns = self.first_ns.min(event.time_ns);
        self.last_ns = self.last_ns.max(event.time_ns);
        if event.flags.contains(Flags::PASSTHROUGH) {
            self.passthrough += 1;
            return;
        }
        match action {
            Action::Queue => self.queued(event),
            Action::Issue => self.issued(event),
            Action::Complete => self.completed(event),
            Action::Requeue => self.requeues += 1,
            Action::BackMerge => self.with_direction(event, |d, _| d.back_merges += 1),
            Action::FrontMerge => self.with_direction(event, |d, _| d.front_merges += 1),
            _ => {}
        }
    }

    /// Notes that events of a device are counted.
    #[cold]
    pub fn meet(&mut self, device: Device) {
        if self.devices.len() < MOST_DEVICES && device != Device::default() {
            self.devices.insert(device);
        }
    }

    /// Adds to the counts of the event's direction if it carries data.
    #[inline]
    fn with_direction(&mut self, event: &BlockEvent, add: impl FnOnce(&mut DirectionMetrics, u64)) {
        if event.bytes > 0 {
            add(&mut self.directions[event.direction as usize], event.bytes);
        }
    }

    #[inline]
    fn queued(&mut self, event: &BlockEvent) {
        self.flushes_queued += u64::from(event.flags.contains(Flags::FLUSH));
        self.fua_writes_queued += u64::from(event.bytes > 0 && event.flags.contains(Flags::FUA));
        self.with_direction(event, |direction, bytes| {
            direction.queued += 1;
            direction.queued_bytes += bytes;
        });
    }

    #[inline]
    fn issued(&mut self, event: &BlockEvent) {
        self.issues += 1;
        self.flushes += u64::from(event.is_empty_flush());
        self.fua_writes += u64::from(event.bytes > 0 && event.flags.contains(Flags::FUA));
        self.with_direction(event, |direction, bytes| {
            direction.issued += 1;
            direction.issued_bytes += bytes;
        });
        let lane = event.direction as usize;
        if event.bytes == 0 || lane >= self.last_end.len() {
            return;
        }
        self.size(event.bytes);
        let follows = self.last_end[lane] == Some((event.device, event.sector));
        self.sequential[lane] += u64::from(follows);
        self.last_end[lane] = Some((event.device, event.end_sector()));
    }

    #[inline]
    fn size(&mut self, bytes: u64) {
        if bytes.is_multiple_of(SECTOR_BYTES)
            && let Some(count) = self.usual_sizes.get_mut((bytes / SECTOR_BYTES) as usize)
        {
            *count += 1;
        } else if self.sizes.len() < MOST_SIZES || self.sizes.contains_key(&bytes) {
            *self.sizes.entry(bytes).or_default() += 1;
        } else {
            self.other_sizes += 1;
        }
    }

    #[inline]
    fn completed(&mut self, event: &BlockEvent) {
        self.errors += u64::from(event.error != 0);
        self.completed_empty += u64::from(event.bytes == 0);
        self.with_direction(event, |direction, bytes| {
            direction.completed += 1;
            direction.completed_bytes += bytes;
        });
    }
}
