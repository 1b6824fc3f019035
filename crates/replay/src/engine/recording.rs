//! For tests: what is handed over, and requests that take as long as the test says.

use std::io;

use super::{Command, Completion, Engine};
use crate::clock::{now_ns, sleep_until};

/// Keeps what it is given.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub submitted: Vec<Command>,
    pub most: usize,
    /// The result of a request, where it is not its size.
    pub result_of: Option<(usize, i64)>,
    /// Requests that are complete only when so many others were submitted after them.
    pub slow: Option<(usize, usize)>,
    pub most_seen_in_flight: usize,
    pub waiting: Vec<Command>,
}

impl Engine for Recording {
    fn submit(&mut self, commands: &[Command]) -> io::Result<()> {
        self.submitted.extend(commands);
        self.waiting.extend(commands);
        self.most_seen_in_flight = self.most_seen_in_flight.max(self.waiting.len());
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        // All that wait but the newest, so that some are always in flight.
        self.give(done, 1)
    }

    fn wait(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> io::Result<()> {
        if self.waiting.is_empty() {
            sleep_until(until_ns);
        }
        self.give(done, 0)
    }

    fn most_in_flight(&self) -> usize {
        self.most
    }
}

impl Recording {
    fn give(&mut self, done: &mut Vec<Completion>, keep: usize) -> io::Result<()> {
        let is_slow = |number: usize, all: usize| {
            keep > 0 && self.slow.is_some_and(|(slow, others)| slow == number && all <= number + others)
        };
        let all = self.submitted.len();
        let last = self.waiting.len().saturating_sub(keep);
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .enumerate()
            .partition(|(place, command)| *place < last && !is_slow(command.number, all));
        self.waiting = later.into_iter().map(|(_, command)| command).collect();
        done.extend(now.into_iter().map(|(_, command)| Completion {
            number: command.number,
            begun_ns: None,
            completed_ns: now_ns(),
            result: match self.result_of {
                Some((number, result)) if number == command.number => result,
                _ => command.request.bytes() as i64,
            },
        }));
        Ok(())
    }
}
