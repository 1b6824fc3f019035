//! Following bios as `btt` does; see [`BttMetrics`] for its definitions.
//!
//! btt finds bios in a tree by a sector in them; an issue or a completion concerns all bios within its sectors. Here a hash
//! table finds lists of the bios that begin within the same 256 sectors, with the same result. Most events take one look-up,
//! and at most as many steps as a list has different sectors.

mod lookup;

use super::accumulate::Limits;
use super::histogram::{Exact, Histogram, Tally};
use super::live::Live;
use super::processes::{PHASES, Processes, interval};
use super::seeks::Seeks;
use super::slab::{Id, NONE, Slab};
use super::table::{Key, Table, key};
use crate::event::{Action, BlockEvent, Device};
use crate::metrics::{BttMetrics, Phase, PlugMetrics};

/// Sectors whose bios are in one list, as a power of two.
const LIST_SHIFT: u32 = 8;

/// A time that was not seen.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Bio {
    device: Device,
    start: u64,
    end: u64,
    queued_ns: u64,
    slept_ns: u64,
    got_ns: u64,
    inserted_ns: u64,
    merged_ns: u64,
    issued_ns: u64,
    process: u32,
    /// The next in the list.
    next: Id,
}

/// Follows the bios of a device.
#[derive(Debug)]
pub(super) struct Bios {
    bios: Slab<Bio>,
    lists: Table,
    most: usize,
    /// Sectors of the longest bio.
    longest: u64,
    /// Where the next bio to give up is looked for.
    hand: Id,
    /// The bio that was queued last.
    last: Id,
    /// Events count from the first bio or remap on.
    begun: bool,
    first_ns: Option<u64>,
    last_ns: u64,
    last_queued_ns: Option<u64>,
    phases: [Tally; PHASES],
    queued: u64,
    issued: u64,
    blocks: Exact,
    active: u64,
    active_at_queue: u64,
    plugs: Plugs,
    live: Live,
    pub q2q: Seeks,
    pub d2d: Seeks,
    pub processes: Option<Processes>,
}

/// Intervals of which bios need no distribution.
const EXACT_ONLY: [Phase; 3] = [Phase::I2D, Phase::D2C, Phase::Q2C];

#[derive(Debug, Default)]
struct Plugs {
    since_ns: Option<u64>,
    seen: PlugMetrics,
}

/// The numbers of a device's bios.
pub(super) struct BioMetrics {
    pub btt: BttMetrics,
    pub plugs: PlugMetrics,
    pub phases: [Histogram; PHASES],
    pub q2q: Seeks,
    pub d2d: Seeks,
    pub processes: Option<Processes>,
}

fn list_of(device: Device, sector: u64) -> Key {
    key(device, sector >> LIST_SHIFT)
}

impl Bios {
    /// Follows bios within limits, and distinguishes threads if `per_process`.
    pub fn new(limits: &Limits, per_process: bool) -> Self {
        Self {
            bios: Slab::new(),
            lists: Table::default(),
            most: limits.in_flight,
            longest: 0,
            hand: 0,
            last: NONE,
            begun: false,
            first_ns: None,
            last_ns: 0,
            last_queued_ns: None,
            phases: Default::default(),
            queued: 0,
            issued: 0,
            blocks: Exact::default(),
            active: 0,
            active_at_queue: 0,
            plugs: Plugs::default(),
            live: Live::default(),
            q2q: Seeks::new(limits.seek_distances),
            d2d: Seeks::new(limits.seek_distances),
            processes: per_process.then(|| Processes::new(limits.processes)),
        }
    }

    /// Takes the next event that has no data: plugs, flushes.
    #[inline(always)]
    pub fn push_empty(&mut self, action: Action, event: &BlockEvent) {
        match action {
            Action::Plug => self.plug(event.time_ns),
            Action::Unplug { requests, timer } => self.unplug(event.time_ns, requests, timer),
            Action::Requeue if self.begun || self.begin(event) => {
                self.last_ns = event.time_ns;
                self.requeue();
            }
            Action::Queue if event.is_empty_flush() => {
                if let Some(processes) = &mut self.processes {
                    processes.flushed(event.pid);
                }
            }
            _ => {}
        }
    }

    /// Takes the next event that has data and is not of a command passed through; `action` is its action.
    #[inline(always)]
    pub fn push(&mut self, action: Action, event: &BlockEvent) {
        match action {
            Action::Queue
            | Action::GetRequest
            | Action::Sleep
            | Action::BackMerge
            | Action::FrontMerge
            | Action::Insert
            | Action::Issue
            | Action::Complete
            | Action::Requeue
            | Action::Remap { .. } => {}
            _ => return self.push_empty(action, event),
        }
        if !self.begun && !self.begin(event) {
            return;
        }
        self.last_ns = event.time_ns;
        match action {
            Action::Queue => self.queue(event),
            Action::GetRequest => self.got(event),
            Action::Insert => self.insert(event),
            Action::Issue => self.issue(event),
            Action::Complete => self.complete(event),
            Action::BackMerge | Action::FrontMerge => self.merge(event),
            Action::Sleep => self.sleep(event),
            Action::Requeue => self.requeue(),
            _ => {}
        }
    }

    fn sleep(&mut self, event: &BlockEvent) {
        let id = self.find(event.device, event.sector);
        if id != NONE {
            self.bios[id].slept_ns = event.time_ns;
        }
    }

    #[cold]
    fn begin(&mut self, event: &BlockEvent) -> bool {
        self.first_ns.get_or_insert(event.time_ns);
        self.begun = matches!(event.action, Action::Queue | Action::Remap { .. });
        self.begun
    }

    /// A bio at this sector was handed to another device.
    pub fn remapped(&mut self, device: Device, sector: u64, time_ns: u64) {
        let id = self.find(device, sector);
        if id != NONE {
            self.record(id, Phase::Q2A, self.bios[id].queued_ns, time_ns);
        }
    }

    #[inline(always)]
    fn record(&mut self, id: Id, phase: Phase, from: u64, to: u64) {
        let ns = interval(from, to);
        // Some have distributions per request.
        let exact_only = EXACT_ONLY.contains(&phase);
        if !exact_only {
            self.phases[phase as usize].record(ns);
        }
        match &mut self.processes {
            // Their sum gives the total.
            Some(processes) => processes.record(self.bios[id].process, phase, ns),
            None if exact_only => self.phases[phase as usize].record_exact(ns),
            None => {}
        }
    }

    #[inline]
    fn queue(&mut self, event: &BlockEvent) {
        self.q2q.push(event.sector, event.end_sector());
        if let Some(before) = self.last_queued_ns.replace(event.time_ns) {
            self.phases[Phase::Q2Q as usize].record(interval(before, event.time_ns));
        }
        self.requeue();
        let process = match &mut self.processes {
            Some(processes) => {
                let slot = processes.slot(event.pid);
                processes.queued(slot, event);
                slot
            }
            None => 0,
        };
        let mut bio = Bio {
            device: event.device,
            start: event.sector,
            end: event.end_sector(),
            queued_ns: event.time_ns,
            slept_ns: NEVER,
            got_ns: NEVER,
            inserted_ns: NEVER,
            merged_ns: NEVER,
            issued_ns: NEVER,
            process,
            next: NONE,
        };
        // A bio takes the place of one that began at the same sector, which then is never found again.
        let same = self.beginning_at(event.device, event.sector);
        self.longest = self.longest.max(event.bytes >> 9);
        if same != NONE {
            bio.next = self.bios[same].next;
            self.bios[same] = bio;
            return;
        }
        if self.bios.in_use() >= self.most {
            self.give_up();
            if self.bios.in_use() >= self.most {
                return;
            }
        }
        let id = self.bios.add(bio);
        self.last = id;
        let next = self.lists.set(list_of(event.device, event.sector), id);
        self.bios[id].next = next;
    }

    /// A bio, or a request that the driver requeued, which btt counts like one.
    fn requeue(&mut self) {
        self.queued += 1;
        self.active_at_queue += self.active;
        self.active += 1;
    }

    #[inline]
    fn got(&mut self, event: &BlockEvent) {
        let id = self.find(event.device, event.sector);
        if id == NONE {
            return;
        }
        let bio = &mut self.bios[id];
        bio.got_ns = event.time_ns;
        let (queued, slept) = (bio.queued_ns, bio.slept_ns);
        self.record(id, Phase::Q2G, queued, event.time_ns);
        if slept != NEVER {
            self.record(id, Phase::S2G, slept, event.time_ns);
        }
    }

    #[inline]
    fn insert(&mut self, event: &BlockEvent) {
        let id = self.find(event.device, event.sector);
        if id == NONE {
            return;
        }
        let bio = &mut self.bios[id];
        bio.inserted_ns = event.time_ns;
        let got = bio.got_ns;
        if got != NEVER {
            self.record(id, Phase::G2I, got, event.time_ns);
        }
    }

    fn merge(&mut self, event: &BlockEvent) {
        let id = self.find(event.device, event.sector);
        if id != NONE {
            let bio = &mut self.bios[id];
            bio.merged_ns = event.time_ns;
            let (queued, process) = (bio.queued_ns, bio.process);
            self.record(id, Phase::Q2M, queued, event.time_ns);
            if let Some(processes) = &mut self.processes {
                processes.merged(process);
            }
        }
        self.active = self.active.saturating_sub(1);
    }

    #[inline]
    fn issue(&mut self, event: &BlockEvent) {
        self.active = self.active.saturating_sub(1);
        self.d2d.push(event.sector, event.end_sector());
        self.issued += 1;
        self.each_within(event, |bios, id| {
            let bio = &mut bios.bios[id];
            bio.issued_ns = event.time_ns;
            let (inserted, merged) = (bio.inserted_ns, bio.merged_ns);
            if inserted != NEVER {
                bios.record(id, Phase::I2D, inserted, event.time_ns);
            } else if merged != NEVER {
                bios.record(id, Phase::M2D, merged, event.time_ns);
            }
        });
    }

    #[inline]
    fn complete(&mut self, event: &BlockEvent) {
        self.blocks.record(event.bytes >> 9);
        self.each_within(event, |bios, id| {
            let Bio { device, start, queued_ns, issued_ns, .. } = bios.bios[id];
            bios.record(id, Phase::Q2C, queued_ns, event.time_ns);
            if issued_ns != NEVER {
                bios.live.push(issued_ns, event.time_ns);
                bios.record(id, Phase::D2C, issued_ns, event.time_ns);
            }
            bios.unlink(id, list_of(device, start));
        });
    }

    fn plug(&mut self, time_ns: u64) {
        if self.first_ns.is_some() {
            self.plugs.since_ns.get_or_insert(time_ns);
        }
    }

    fn unplug(&mut self, time_ns: u64, requests: u32, timer: bool) {
        let Some(since_ns) = self.plugs.since_ns.take() else { return };
        let seen = &mut self.plugs.seen;
        let (count, sum) = if timer {
            (&mut seen.timer_unplugs, &mut seen.timer_unplugged_requests)
        } else {
            (&mut seen.unplugs, &mut seen.unplugged_requests)
        };
        *count += 1;
        *sum += u64::from(requests);
        seen.plugged_ns = seen.plugged_ns.saturating_add(time_ns.saturating_sub(since_ns));
    }

    /// The numbers; `trace_first_ns` is the first event of the trace.
    pub fn finish(mut self, trace_first_ns: u64) -> BioMetrics {
        if self.plugs.since_ns.is_some() {
            self.unplug(self.last_ns, 0, false);
        }
        let mut plugs = self.plugs.seen;
        plugs.span_ns = self.first_ns.map_or(0, |first| self.last_ns.saturating_sub(first));
        if let Some(processes) = &self.processes {
            for phase in EXACT_ONLY {
                processes.exact(phase).for_each(|exact| self.phases[phase as usize].merge_exact(exact));
            }
        }
        let phases = self.phases.map(Tally::finish);
        let interval_of = |phase: Phase| phases[phase as usize].exact().interval();
        let btt = BttMetrics {
            q2q: interval_of(Phase::Q2Q),
            q2a: interval_of(Phase::Q2A),
            q2g: interval_of(Phase::Q2G),
            s2g: interval_of(Phase::S2G),
            g2i: interval_of(Phase::G2I),
            q2m: interval_of(Phase::Q2M),
            i2d: interval_of(Phase::I2D),
            m2d: interval_of(Phase::M2D),
            d2c: interval_of(Phase::D2C),
            q2c: interval_of(Phase::Q2C),
            queued: self.queued,
            issued: self.issued,
            blocks: self.blocks.interval(),
            active_at_queue: self.active_at_queue,
            live: self.live.finish(trace_first_ns),
        };
        BioMetrics { btt, plugs, phases, q2q: self.q2q, d2d: self.d2d, processes: self.processes }
    }
}
