//! Events without data: flushes, and the second completion of requests whose FUA the block layer carries out itself.

use std::collections::VecDeque;

use super::{BioLife, Observer, RequestLife};
use crate::event::{Action, BlockEvent, Direction};

/// Bios that wait for a second completion. Where none ever comes (a device whose cache is off) the oldest end with
/// the completion of their data when there are more.
const MOST_AWAITED: usize = 256;

/// Flushes in flight; the block layer has two at most per hardware queue.
const MOST_FLUSHES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Flushes {
    /// Bios that asked for a flush and have none yet.
    asked: VecDeque<BlockEvent>,
    issued: VecDeque<RequestLife>,
    awaited: VecDeque<(u64, BioLife)>,
}

impl Flushes {
    pub fn push(&mut self, event: &BlockEvent, observer: &mut impl Observer) {
        match event.action {
            Action::Issue if event.is_empty_flush() => {
                if self.issued.len() == MOST_FLUSHES {
                    self.issued.pop_front();
                }
                let life = self.begin(event);
                self.issued.push_back(life);
            }
            Action::Complete if event.is_empty_flush() => {
                if let Some(at) = self.issued.iter().position(|life| life.device == event.device)
                    && let Some(mut life) = self.issued.remove(at)
                {
                    life.completed_ns = event.time_ns;
                    observer.flush_ended(&life);
                }
            }
            Action::Complete => self.second_completion(event, observer),
            _ => {}
        }
    }

    /// A bio asks for a flush, alone or before its data.
    pub fn asked(&mut self, event: &BlockEvent) {
        if self.asked.len() == MOST_FLUSHES {
            self.asked.pop_front();
        }
        self.asked.push_back(*event);
    }

    /// A flush is for all bios of its device that asked until then (`block/blk-flush.c` makes one of several); one after
    /// data that had to be on the medium is for none.
    fn begin(&mut self, issue: &BlockEvent) -> RequestLife {
        let mut first: Option<BlockEvent> = None;
        let mut bios = 0;
        self.asked.retain(|asked| {
            let mine = asked.device == issue.device;
            if mine {
                bios += 1;
                first.get_or_insert(*asked);
            }
            !mine
        });
        let queued_ns = first.map(|first| first.time_ns);
        RequestLife {
            device: issue.device,
            direction: Direction::None,
            sector: issue.sector,
            bytes: 0,
            flags: issue.flags,
            pid: first.map_or(issue.pid, |first| first.pid),
            bios,
            first_bio_ns: queued_ns,
            queued_ns,
            got_ns: None,
            inserted_ns: None,
            issued_ns: Some(issue.time_ns),
            completed_ns: issue.time_ns,
        }
    }

    pub fn await_second_completion(&mut self, sector: u64, life: BioLife, observer: &mut impl Observer) {
        if self.awaited.len() == MOST_AWAITED
            && let Some((_, oldest)) = self.awaited.pop_front()
        {
            observer.bio_ended(&oldest);
        }
        self.awaited.push_back((sector, life));
    }

    fn second_completion(&mut self, event: &BlockEvent, observer: &mut impl Observer) {
        let same = |(sector, life): &(u64, BioLife)| {
            *sector == event.sector && life.device == event.device && life.direction == event.direction
        };
        if let Some((_, mut life)) = self.awaited.iter().position(same).and_then(|at| self.awaited.remove(at))
        {
            life.completed_ns = event.time_ns;
            observer.bio_ended(&life);
        }
    }

    pub fn finish(&mut self, observer: &mut impl Observer) {
        for (_, life) in self.awaited.drain(..) {
            observer.bio_ended(&life);
        }
    }
}
