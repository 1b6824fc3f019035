//! A target that does nothing: how exactly this machine keeps a trace's times.

use std::io;

use super::{Command, Completion, Engine};
use crate::clock::{now_ns, sleep_until};

/// Completes every request at once.
#[derive(Debug, Default)]
pub(crate) struct Nothing {
    done: Vec<Completion>,
}

impl Engine for Nothing {
    fn submit(&mut self, commands: &[Command]) -> io::Result<()> {
        let completed_ns = now_ns();
        self.done.extend(commands.iter().map(|command| Completion {
            number: command.number,
            begun_ns: None,
            completed_ns,
            result: command.request.bytes() as i64,
        }));
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<Completion>) -> io::Result<()> {
        done.append(&mut self.done);
        Ok(())
    }

    fn wait(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> io::Result<()> {
        if self.done.is_empty() {
            sleep_until(until_ns);
        }
        self.reap(done)
    }

    fn most_in_flight(&self) -> usize {
        usize::MAX
    }
}
