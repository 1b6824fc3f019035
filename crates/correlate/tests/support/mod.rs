//! A stack of which everything is known: guest block layer, hypervisor, host block layer, medium. What it records is
//! made up; which request caused which is written down beside it.

#![allow(dead_code)] // The tests each use a part.

use std::collections::HashMap;

use nestor_correlate::{ExtentMap, MappedExtent, Origin};
use nestor_layout::Class;
use nestor_statistics::SeededOrder;
use nestor_trace::request_file::ClockReading;
use nestor_trace::{Operation, Request, RequestHeader};

#[path = "../../src/played.rs"]
mod played;
pub(crate) use played::request;

pub const BLOCK: u64 = 4096;
/// Bytes of the virtual disk.
pub const DISK: u64 = 1 << 30;

/// What the stack does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Requests of the guest.
    pub requests: usize,
    /// Requests in flight.
    pub depth: usize,
    /// Share of reads.
    pub reads: f64,
    /// Share of requests that follow the one before.
    pub sequential: f64,
    /// Share of requests that go to the place of one that is in flight.
    pub same_place: f64,
    /// Share of groups of neighbours that the host merges.
    pub merged: f64,
    /// Flushes for each request.
    pub flushes: f64,
    /// Journal writes of the host for each request.
    pub journal: f64,
    /// The host caches: reads ahead and writes back.
    pub cached: bool,
    /// Extents of the image.
    pub extents: usize,
    /// Share of records that are lost, at every level.
    pub lost: f64,
    /// Records that stand in the wrong place.
    pub disordered: f64,
    /// Offset and drift of the guest's and the medium's clock.
    pub guest_clock: (i64, f64),
    pub medium_clock: (i64, f64),
    /// The guest is stopped for so long at half time, and its clock with it.
    pub guest_jump_ns: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 1,
            requests: 4000,
            depth: 16,
            reads: 0.5,
            sequential: 0.3,
            same_place: 0.0,
            merged: 0.0,
            flushes: 0.0,
            journal: 0.0,
            cached: false,
            extents: 40,
            lost: 0.0,
            disordered: 0.0,
            guest_clock: (-7_200_000_000_000, 50.0),
            medium_clock: (1_000_000, -20.0),
            guest_jump_ns: 0,
        }
    }
}

/// Where a request came from: origin and numbers of its parents in `Known`.
type Truth = (Origin, Vec<usize>);

#[derive(Clone, Debug)]
struct Made {
    request: Request,
    truth: Truth,
}

/// Of a level: from a request's number to its origin and the numbers of its parents. `None` where one of the parents'
/// records was lost.
pub type Known = HashMap<u64, Option<(Origin, Vec<u64>)>>;

/// What was recorded, topmost level first, and the truth about every request below the topmost one.
pub struct Recorded {
    pub levels: [Vec<Request>; 4],
    pub truth: [Known; 4],
    pub map: ExtentMap,
}

pub fn header(layer: &str, kind: &str, machine: &str) -> RequestHeader {
    RequestHeader {
        layer: layer.to_owned(),
        kind: kind.to_owned(),
        machine: machine.to_owned(),
        clock: ClockReading::default(),
        ..RequestHeader::default()
    }
}

pub struct Stack {
    plan: Plan,
    random: SeededOrder,
    map: ExtentMap,
    levels: [Vec<Made>; 4],
    /// The range in flight of each slot.
    in_flight: Vec<Option<(u64, u64, u64)>>,
    /// Blocks that the host's cache has read or reads: when that began and ended, and its request.
    read: HashMap<u64, (u64, u64, usize)>,
    /// Ranges that were written and when.
    dirty: Vec<(u64, u64, u64)>,
}

impl Stack {
    pub fn new(plan: Plan) -> Self {
        let mut random = SeededOrder::new(plan.seed);
        let map = scattered_image(plan.extents, &mut random);
        Self {
            plan,
            random,
            map,
            levels: Default::default(),
            in_flight: Vec::new(),
            read: HashMap::new(),
            dirty: Vec::new(),
        }
    }

    fn chance(&mut self, share: f64) -> bool {
        (self.random.below(1 << 30) as f64) < share * f64::from(1 << 30)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.random.below((to - from) as usize) as u64
    }

    fn add(&mut self, level: usize, request: Request, truth: Truth) -> usize {
        self.levels[level].push(Made { request, truth });
        self.levels[level].len() - 1
    }

    /// Runs the plan.
    pub fn run(mut self) -> Recorded {
        let mut free_at: Vec<u64> = vec![1_000_000_000_000; self.plan.depth];
        self.in_flight = vec![None; self.plan.depth];
        let mut place = 0;
        let mut done = 0;
        while done < self.plan.requests {
            let slot = (0..self.plan.depth).min_by_key(|slot| free_at[*slot]).unwrap();
            let at = free_at[slot] + self.between(1_000, 60_000);
            if self.chance(self.plan.flushes) {
                free_at[slot] = self.flush(at);
                done += 1;
                continue;
            }
            if self.chance(self.plan.journal) {
                self.journal(at);
            }
            let read = self.chance(self.plan.reads);
            let blocks = [1, 1, 2, 4, 8][self.random.below(5)];
            let operation = if read { Operation::Read } else { Operation::Write };
            let busy = self.in_flight.clone();
            let shared = self.chance(self.plan.same_place).then(|| {
                let other = self.random.below(self.plan.depth);
                busy[other].filter(|(_, _, until)| *until > at)
            });
            let (offset, bytes) = match shared.flatten() {
                Some((offset, bytes, _)) => (offset, bytes),
                None => {
                    let random = self.between(0, DISK / BLOCK - 64) * BLOCK;
                    let next = if self.chance(self.plan.sequential) { place } else { random };
                    (next % (DISK - 64 * BLOCK), blocks * BLOCK)
                }
            };
            place = offset + bytes;
            if self.chance(self.plan.merged) {
                let ends = self.merged(operation, offset, at);
                place = offset + 8 * BLOCK;
                done += ends.1;
                free_at[slot] = ends.0;
                continue;
            }
            let end = self.request(operation, offset, bytes, at);
            self.in_flight[slot] = Some((offset, bytes, end));
            free_at[slot] = end;
            done += 1;
        }
        self.write_back(u64::MAX, None);
        self.finish()
    }

    /// A guest's request, its hypervisor's, and what the host makes of it. Returns when it is done.
    fn request(&mut self, operation: Operation, offset: u64, bytes: u64, at: u64) -> u64 {
        let issued = at + self.between(500, 20_000);
        let arrived = issued + self.between(3_000, 40_000);
        let started = arrived + self.between(500, 4_000);
        let guest = self.levels[0].len();
        let hypervisor = self.levels[1].len();
        let below = match (self.plan.cached, operation) {
            (true, Operation::Write) => {
                self.dirty.push((offset, bytes, started));
                self.between(4_000, 20_000) + started
            }
            (true, Operation::Read) if self.read.contains_key(&offset) => {
                // It is there, or it is being read: then this one waits, too.
                let (begun, done, index) = self.read[&offset];
                if started <= begun {
                    self.levels[2][index].truth.1.push(hypervisor);
                }
                done.max(started) + self.between(2_000, 9_000)
            }
            (cached, _) => {
                let ahead = if cached && operation == Operation::Read { 32 * BLOCK } else { 0 };
                let index = self.levels[2].len();
                let done = self.host(operation, offset, bytes, ahead, started, &[hypervisor]);
                let begun = self.levels[2][index].request.queued_ns;
                for block in 0..(bytes + ahead) / BLOCK {
                    self.read.insert(offset + block * BLOCK, (begun, done, index));
                }
                done
            }
        };
        let answered = below + self.between(1_000, 5_000);
        let completed = answered + self.between(2_000, 50_000);
        let make = |times| request(operation, offset, bytes, times);
        self.add(0, make([at, issued, completed]), (Origin::Unknown, Vec::new()));
        self.add(1, make([arrived, started, answered]), (Origin::Parent, vec![guest]));
        completed
    }

    /// The host's requests for a range of the image, and the medium's. Returns when all are done.
    fn host(
        &mut self,
        operation: Operation,
        offset: u64,
        bytes: u64,
        ahead: u64,
        from: u64,
        parents: &[usize],
    ) -> u64 {
        let pieces: Vec<_> = self.map.pieces(offset, bytes + ahead).collect();
        let mut at = from + self.between(800, 5_000);
        let mut last = at;
        for piece in pieces {
            let lower = piece.lower.expect("the image has no holes");
            let wanted = piece.upper < offset + bytes;
            let truth =
                if wanted { (Origin::Parent, parents.to_vec()) } else { (Origin::ReadAhead, Vec::new()) };
            let done = self.device(request(operation, lower, piece.bytes, [at, at, at]), truth, at);
            if wanted {
                last = last.max(done);
            }
            at += self.between(200, 2_000);
        }
        last
    }

    /// A request of the host's block layer that is queued at `at`, and its medium's. Returns when it is done.
    fn device(&mut self, template: Request, truth: Truth, at: u64) -> u64 {
        let issued = template.issued_ns.max(at) + self.between(500, 30_000);
        let arrived = issued + self.between(1_000, 8_000);
        let started = arrived + self.between(100, 200_000);
        let served = started + self.between(50_000, 4_000_000);
        let completed = served + self.between(1_000, 30_000);
        let host = self.levels[2].len();
        let times = |queued, issued, completed| Request {
            queued_ns: queued,
            issued_ns: issued,
            completed_ns: completed,
            ..template
        };
        self.add(2, times(at, issued, completed), truth);
        let medium = Request { bios: 1, class: Class::Unknown, ..times(arrived, started, served) };
        self.add(3, medium, (Origin::Parent, vec![host]));
        completed
    }

    /// Neighbours that are in flight together and that the host merges. Returns when they are done and how many.
    fn merged(&mut self, operation: Operation, offset: u64, at: u64) -> (u64, usize) {
        let count = 2 + self.random.below(3);
        let lower = self.map.pieces(offset, BLOCK * count as u64).next().unwrap();
        if self.plan.cached || lower.bytes < BLOCK * count as u64 {
            return (self.request(operation, offset, BLOCK, at), 1);
        }
        let mut parts = Vec::new();
        let (mut queued, mut issued) = (u64::MAX, 0);
        for part in 0..count as u64 {
            let at = at + part * 700 + self.between(0, 500);
            let sent = at + self.between(100, 600);
            let arrived = sent + self.between(3_000, 9_000);
            let started = arrived + self.between(200, 900);
            let bio = started + self.between(300, 900);
            queued = queued.min(bio);
            issued = issued.max(bio);
            parts.push((offset + part * BLOCK, at, sent, arrived, started));
        }
        let first = self.levels[1].len();
        let parents: Vec<usize> = (first..first + count).collect();
        let whole = Request {
            bios: count as u32,
            issued_ns: issued,
            ..request(operation, lower.lower.unwrap(), BLOCK * count as u64, [queued, issued, issued])
        };
        let done = self.device(whole, (Origin::Parent, parents), queued);
        let mut end = 0;
        for (offset, at, sent, arrived, started) in parts {
            let answered = done + self.between(1_000, 9_000);
            let completed = answered + self.between(1_000, 9_000);
            end = end.max(completed);
            let guest = self.add(
                0,
                request(operation, offset, BLOCK, [at, sent, completed]),
                (Origin::Unknown, Vec::new()),
            );
            self.add(
                1,
                request(operation, offset, BLOCK, [arrived, started, answered]),
                (Origin::Parent, vec![guest]),
            );
        }
        (end, count)
    }

    /// A flush of the guest: the hypervisor syncs, the host writes what is dirty and flushes its disk.
    fn flush(&mut self, at: u64) -> u64 {
        let issued = at + self.between(500, 5_000);
        let arrived = issued + self.between(3_000, 20_000);
        let started = arrived + self.between(500, 3_000);
        let hypervisor = self.levels[1].len();
        let mut done = started + 2_000;
        if self.plan.cached {
            done = done.max(self.write_back(started + 1_000, Some(hypervisor)));
        }
        let queued = done + self.between(500, 3_000);
        let flush = request(Operation::Flush, 0, 0, [queued, queued, queued]);
        let done = self.device(flush, (Origin::Parent, vec![hypervisor]), queued);
        let answered = done + self.between(1_000, 5_000);
        let completed = answered + self.between(1_000, 20_000);
        let guest = self.add(
            0,
            request(Operation::Flush, 0, 0, [at, issued, completed]),
            (Origin::Unknown, Vec::new()),
        );
        let times = [arrived, started, answered];
        self.add(1, request(Operation::Flush, 0, 0, times), (Origin::Parent, vec![guest]));
        completed
    }

    /// Writes what was dirty before `until`, for a flush or by itself a while later. Returns when that is done.
    fn write_back(&mut self, until: u64, flush: Option<usize>) -> u64 {
        let mut done = 0;
        let (due, rest): (Vec<_>, Vec<_>) = self.dirty.drain(..).partition(|(_, _, at)| *at < until);
        self.dirty = rest;
        let mut at = if flush.is_some() { until } else { 0 };
        for (offset, bytes, written) in due {
            at = match flush {
                Some(_) => at + self.between(200, 2_000),
                None => at.max(written) + self.between(1_000_000, 3_000_000),
            };
            let truth = match flush {
                Some(parent) => (Origin::FlushOfParent, vec![parent]),
                None => (Origin::WriteBack, Vec::new()),
            };
            let pieces: Vec<_> = self.map.pieces(offset, bytes).collect();
            for piece in pieces {
                let write = request(Operation::Write, piece.lower.unwrap(), piece.bytes, [at, at, at]);
                done = done.max(self.device(write, truth.clone(), at));
            }
        }
        done
    }

    /// The host's own log.
    fn journal(&mut self, at: u64) {
        let offset = 8 * DISK + self.between(0, 1000) * BLOCK;
        let write =
            Request { class: Class::Journal, ..request(Operation::Write, offset, 8 * BLOCK, [at, at, at]) };
        self.device(write, (Origin::Journal, Vec::new()), at);
    }

    /// Puts everything on the machines' clocks and into the order of completion, and loses some.
    fn finish(mut self) -> Recorded {
        let mut levels: [Vec<Request>; 4] = Default::default();
        let mut numbers: Vec<HashMap<usize, u64>> = vec![HashMap::new(); 4];
        let end = self.levels[0].iter().map(|known| known.request.completed_ns).max().unwrap_or(0);
        let half = 1_000_000_000_000 + (end - 1_000_000_000_000) / 2;
        for level in 0..4 {
            let mut order: Vec<usize> = (0..self.levels[level].len()).collect();
            order.sort_by_key(|index| self.levels[level][*index].request.completed_ns);
            for index in order {
                if self.chance(self.plan.lost) {
                    continue;
                }
                let id = levels[level].len() as u64;
                numbers[level].insert(index, id);
                let request = self.levels[level][index].request;
                let host = |time: u64| time + if time >= half { self.plan.guest_jump_ns } else { 0 };
                let on = |time: u64| match level {
                    0 => clock(time, self.plan.guest_clock),
                    3 => clock(host(time), self.plan.medium_clock),
                    _ => host(time),
                };
                levels[level].push(Request {
                    id,
                    queued_ns: on(request.queued_ns),
                    issued_ns: on(request.issued_ns),
                    completed_ns: on(request.completed_ns),
                    ..request
                });
            }
            for index in 1..levels[level].len() {
                if self.chance(self.plan.disordered) {
                    levels[level].swap(index - 1, index);
                }
            }
        }
        let mut truth: [Known; 4] = Default::default();
        for level in 1..4 {
            for (index, id) in &numbers[level] {
                let (origin, parents) = &self.levels[level][*index].truth;
                let known: Option<Vec<u64>> =
                    parents.iter().map(|p| numbers[level - 1].get(p).copied()).collect();
                truth[level].insert(*id, known.map(|known| (*origin, known)));
            }
        }
        Recorded { levels, truth, map: self.map }
    }
}

fn clock(time: u64, (offset, ppm): (i64, f64)) -> u64 {
    let since = time as i64 - 1_000_000_000_000;
    // Hours before the first moment are still after the machine's boot.
    (time as i64 + 20_000_000_000_000 + offset + (since as f64 * ppm * 1e-6) as i64) as u64
}

/// An image whose extents lie in another order on the device.
fn scattered_image(extents: usize, random: &mut SeededOrder) -> ExtentMap {
    let bytes = (DISK / extents as u64) & !(BLOCK - 1);
    let mut places: Vec<u64> = (0..extents as u64 + 1).collect();
    random.shuffle(&mut places);
    let extent = |index: usize| {
        let upper = index as u64 * bytes;
        let bytes = if index + 1 == extents { DISK - upper } else { bytes };
        MappedExtent {
            upper,
            lower: (1 << 20) + places[index] * 2 * (DISK / extents as u64 + BLOCK) / BLOCK * BLOCK,
            bytes,
        }
    };
    ExtentMap::new((0..extents).map(extent).collect()).unwrap()
}
