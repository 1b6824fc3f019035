//! The second reading: one pass over all levels in the order of issue, in which every request finds its parents.
//!
//! A request is met twice: when it begins and when it is over. At its beginning all that could have caused it are
//! under way, and since its record tells how it ended, its parents are known at once. Lower levels lag behind upper
//! ones by what their clocks are uncertain, so that a parent is always met before its child; a request is over after
//! its children are.

mod active;
mod between;
mod choose;
mod clusters;
mod passing;
mod ranges;
mod sample;
mod tally;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nestor_trace::{Operation, Request};

pub(crate) use active::{Active, Actives, MOST_LEVELS, Timed};
pub(crate) use between::Between;
pub(crate) use passing::Passing;
pub(crate) use sample::Sampler;

use crate::blame::{Blame, BlameBuilder, Cause};
use crate::clock::{Clock, signed};
use crate::order::Ordered;
use crate::passage::Passage;
use crate::tree::{LevelIndex, Origin};

/// Requests of a level that are under way at most. No machine has as many; a hostile trace may.
const MOST_ACTIVE: usize = 1 << 20;

/// A level in the sweep.
pub(crate) struct Lane<'a> {
    requests: Ordered<'a>,
    /// From its clock to that of the level above, and on up to the topmost one.
    clocks: Vec<Clock>,
    /// Whether causes tell its classes.
    in_cause: bool,
    /// The requests are of a guest on its virtual disk: what promises a cache keeps is known from their ends.
    is_virtual_disk: bool,
    /// How much later than the topmost level it is met.
    lag: i64,
    next: Option<Timed>,
    active: Actives,
}

impl<'a> Lane<'a> {
    /// A level whose requests come in the order of issue.
    pub fn new(requests: Ordered<'a>, clocks: Vec<Clock>, in_cause: bool, is_virtual_disk: bool) -> Self {
        let active = Actives::default();
        Self { requests, clocks, in_cause, is_virtual_disk, lag: 0, next: None, active }
    }

    fn advance(&mut self) {
        self.next = self.requests.next().map(|request| {
            let to_top =
                |time: u64| self.clocks.iter().fold(signed(time), |time, clock| clock.to_upper(time));
            Timed {
                request,
                queued: to_top(request.queued_ns),
                issued: to_top(request.issued_ns),
                completed: to_top(request.completed_ns),
            }
        });
    }
}

/// A request that will be over: when, at which level (lower ones first), and where it is.
type End = Reverse<(i64, Reverse<LevelIndex>, u32)>;

/// A request of a lower level and what it was joined with.
#[derive(Clone, Copy, Debug)]
pub struct Joined<'a> {
    /// Its level.
    pub level: LevelIndex,
    /// The request, its times on the clock of the topmost level.
    pub request: &'a Request,
    /// Where it came from.
    pub origin: Origin,
    /// Numbers ([`Request::id`]) of the requests of the level above that it serves.
    pub parents: &'a [u64],
    /// Numbers of the requests of the level above whose data it writes although they were over before it was: found by
    /// place and order. The latest first; with a flush among the parents, the flush is what waited.
    pub writers: &'a [u64],
}

/// What is told of every join.
pub type Observer<'a> = &'a mut dyn FnMut(&Joined<'_>);

/// All levels.
pub(crate) struct Sweep<'a> {
    lanes: Vec<Lane<'a>>,
    betweens: Vec<Between<'a>>,
    ends: BinaryHeap<End>,
    /// How much later than it is over a request of each level is met again.
    end_lags: Vec<i64>,
    sampler: Sampler,
    blame: BlameBuilder,
    passings: Vec<Passing>,
    observer: Option<Observer<'a>>,
    parents: Vec<u64>,
    /// Requests that were taken for over because too many were under way.
    pub forced: u64,
}

/// What the sweep found.
pub(crate) struct Swept<'a> {
    pub betweens: Vec<Between<'a>>,
    pub sampler: Sampler,
    pub blame: Blame,
    /// One for each level whose requests were to be divided.
    pub passages: Vec<Passage>,
    pub forced: u64,
    /// Requests that were held at most, of all levels.
    pub most_held: usize,
}

impl<'a> Sweep<'a> {
    /// Levels from the topmost down, what lies between each and the next, and what is kept of them.
    pub fn new(
        mut lanes: Vec<Lane<'a>>,
        betweens: Vec<Between<'a>>,
        sampler: Sampler,
        passings: Vec<Passing>,
        observer: Option<Observer<'a>>,
    ) -> Self {
        let mut lag = 0_i64;
        for (lane, between) in lanes.iter_mut().skip(1).zip(&betweens) {
            lag = lag.saturating_add(2 * between.tolerance);
            lane.lag = lag;
        }
        let step = betweens.iter().map(|between| between.tolerance).max().unwrap_or(0) + 1;
        let above = |level: usize| (lanes.len() - 1 - level) as i64;
        let end_lags = (0..lanes.len()).map(|level| lag + step + above(level) * step).collect();
        Self {
            lanes,
            betweens,
            ends: BinaryHeap::new(),
            end_lags,
            sampler,
            blame: BlameBuilder::default(),
            passings,
            observer,
            parents: Vec::new(),
            forced: 0,
        }
    }

    /// Reads all requests.
    pub fn run(mut self) -> Swept<'a> {
        for lane in &mut self.lanes {
            lane.advance();
        }
        loop {
            let due = |(level, lane): (usize, &Lane<'_>)| {
                Some((lane.next.as_ref()?.issued.saturating_add(lane.lag), level))
            };
            let next = self.lanes.iter().enumerate().filter_map(due).min();
            let over = self.ends.peek().map(|Reverse((at, ..))| *at);
            match (next, over) {
                (Some((at, _)), Some(over)) if over < at => self.end_one(),
                (Some((_, level)), _) => self.begin_one(LevelIndex::at(level)),
                (None, Some(_)) => self.end_one(),
                (None, None) => break,
            }
        }
        for (between, lane) in self.betweens.iter_mut().zip(self.lanes.iter_mut().skip(1)) {
            between.settle_all(&mut lane.active);
        }
        let held = |lane: &Lane<'_>| lane.requests.most_held + lane.active.most();
        Swept {
            most_held: self.lanes.iter().map(held).sum(),
            betweens: self.betweens,
            sampler: self.sampler,
            blame: self.blame.finish(),
            passages: self.passings.into_iter().map(Passing::finish).collect(),
            forced: self.forced,
        }
    }

    fn begin_one(&mut self, index: LevelIndex) {
        let level = index.position();
        let lane = &mut self.lanes[level];
        let Some(timed) = lane.next.take() else { return };
        lane.advance();
        let (request, in_cause, is_virtual_disk) = (timed.request, lane.in_cause, lane.is_virtual_disk);
        let slot = lane.active.insert(timed);
        if level > 0 {
            let flush = level > 1 && self.betweens[level - 1].momentary_flushes;
            let asked = match request.operation {
                Operation::Flush if flush => {
                    self.betweens[level - 2].waiting_flush(&timed, &self.lanes[level - 2].active)
                }
                _ => None,
            };
            let (uppers, lowers) = self.lanes.split_at_mut(level);
            let (uppers, lowers) = (&mut uppers[level - 1].active, &mut lowers[0].active);
            let choice = self.betweens[level - 1].begin_below(slot, lowers, uppers, asked);
            if let Some(observer) = &mut self.observer {
                self.parents.clear();
                self.parents.extend(choice.parents.iter().map(|parent| uppers[*parent].timed.request.id));
                let (request, origin) = (&timed.on_top(), lowers[slot].origin);
                let (parents, writers) = (&self.parents, &choice.writers);
                observer(&Joined { level: index, request, origin, parents, writers });
            }
        } else {
            self.lanes[0].active[slot].ancestry.top = Some((request.offset, request.bytes));
        }
        if is_virtual_disk {
            self.lanes[level].active[slot].ancestry.answered = Some(timed.completed);
        }
        if in_cause {
            let active = &mut self.lanes[level].active[slot];
            active.ancestry = active.ancestry.with(index, request.class);
        }
        if level < self.betweens.len() {
            let (uppers, lowers) = self.lanes.split_at_mut(level + 1);
            self.betweens[level].begin_above(slot, &mut uppers[level].active, &mut lowers[0].active);
        }
        let completed = self.lanes[level].active[slot].timed.completed;
        let at = completed.saturating_add(self.end_lags[level]);
        self.ends.push(Reverse((at, Reverse(index), slot)));
        if self.lanes[level].active.len() > MOST_ACTIVE {
            self.forced += 1;
            self.end_one();
        }
    }

    fn end_one(&mut self) {
        let Some(Reverse((_, Reverse(index), slot))) = self.ends.pop() else { return };
        let level = index.position();
        if level < self.betweens.len() {
            let (uppers, lowers) = (&self.lanes[level].active, &self.lanes[level + 1].active);
            self.betweens[level].end_above(slot, uppers, lowers);
        }
        if level > 0 {
            self.betweens[level - 1].end_below(slot, &self.lanes[level].active);
        }
        let active = &self.lanes[level].active[slot];
        if level + 1 == self.lanes.len() {
            let classes = self.lanes.iter().enumerate().filter(|(_, lane)| lane.in_cause);
            let cause =
                Cause(classes.map(|(level, _)| active.ancestry.class(LevelIndex::at(level))).collect());
            self.blame.push(&active.timed.on_top(), cause, active.ancestry.top);
        }
        if active.parents == 0 && !self.lanes[level].active.is_kept(slot) {
            let lanes = &self.lanes;
            self.sampler.offer(index, slot, &|level, slot| &lanes[level.position()].active[slot]);
        }
        let lanes = &self.lanes;
        for passing in self.passings.iter_mut().filter(|passing| passing.level() == index) {
            passing.push(slot, &|level, slot| &lanes[level.position()].active[slot]);
        }
        if self.lanes[level].active.end(slot) {
            self.free(index, slot);
        }
    }

    /// The request is not needed any more, and perhaps those below it are not either.
    fn free(&mut self, level: LevelIndex, slot: u32) {
        let mut unneeded = vec![(level, slot)];
        while let Some((level, slot)) = unneeded.pop() {
            let below = level.below();
            let children = std::mem::take(&mut self.lanes[level.position()].active[slot].children);
            for child in &children {
                if self.lanes[below.position()].active.release(*child) {
                    unneeded.push((below, *child));
                }
            }
            let lane = &mut self.lanes[level.position()].active;
            // Its memory is kept for the next one.
            lane[slot].children = children;
            lane.remove(slot);
        }
    }
}
