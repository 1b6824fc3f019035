//! Events without data: flushes, and the second completion of requests whose FUA the block layer carries out itself.

use std::collections::VecDeque;

use super::{BioLife, Observer};
use crate::event::{Action, BlockEvent, Device};

/// Bios that wait for a second completion. Where none ever comes (a device whose cache is off) the oldest end with
/// the completion of their data when there are more.
const MOST_AWAITED: usize = 256;

/// Flushes in flight; the block layer has two at most per hardware queue.
const MOST_FLUSHES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Flushes {
    issued: VecDeque<(Device, u64)>,
    awaited: VecDeque<(u64, BioLife)>,
}

impl Flushes {
    pub fn push(&mut self, event: &BlockEvent, observer: &mut impl Observer) {
        match event.action {
            Action::Issue if event.is_empty_flush() => {
                if self.issued.len() == MOST_FLUSHES {
                    self.issued.pop_front();
                }
                self.issued.push_back((event.device, event.time_ns));
            }
            Action::Complete if event.is_empty_flush() => {
                if let Some(at) = self.issued.iter().position(|(device, _)| *device == event.device) {
                    let issued_ns = self.issued.remove(at).map_or(event.time_ns, |(_, ns)| ns);
                    observer.flush_ended(issued_ns, event.time_ns);
                }
            }
            Action::Complete => self.second_completion(event, observer),
            _ => {}
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
