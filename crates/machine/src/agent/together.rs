//! Several lines of requests at the same time.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use nestor_stop::lock;

use super::Agent;
use super::requests::Obeyed;
use crate::message::{Answer, Request, TimedAnswer};
use crate::refusal::{Cause, Refusal};
use crate::ticks::monotonic_ns;

/// Lines that were begun.
pub(super) type Begun = JoinHandle<Vec<Vec<TimedAnswer>>>;

impl Agent {
    /// Begins lines that go on while other requests are obeyed.
    pub(super) fn begin_together(&self, lines: Vec<Vec<Request>>) -> Obeyed {
        let agent = self.own.get().and_then(Weak::upgrade);
        let agent = agent.ok_or_else(|| Refusal::new(Cause::Other, "the agent serves nobody"))?;
        // They are waited for as requests are.
        lock(&self.under_way).requests += 1;
        let begun = std::thread::spawn(move || {
            let answers = agent.together(lines);
            lock(&agent.under_way).requests -= 1;
            answers
        });
        let mut all = lock(&self.begun);
        let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
        all.insert(number, begun);
        Ok(Answer::Begun(number))
    }

    /// What became of lines that were begun, once all have ended.
    pub(super) fn end_together(&self, begun: u64) -> Obeyed {
        let refuse =
            |why: &str| Refusal::new(Cause::Other, format!("lines of requests (number {begun}) {why}"));
        let lines = lock(&self.begun).remove(&begun).ok_or_else(|| refuse("were not begun"))?;
        lines.join().map(Answer::Together).map_err(|_| refuse("could not be carried out"))
    }

    /// Lines that are begun are in threads with the agent.
    pub(super) fn is_served_by(&self, agent: &Arc<Self>) {
        // Another time it is the same.
        let _ = self.own.set(Arc::downgrade(agent));
    }

    /// Carries out each line in a thread of its own. No line that asks for something is without an answer.
    pub(super) fn together(&self, lines: Vec<Vec<Request>>) -> Vec<Vec<TimedAnswer>> {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                lines.into_iter().map(|line| scope.spawn(move || self.one_after_the_other(line))).collect();
            let failed = || {
                let refusal = Refusal::new(Cause::Other, "the agent could not carry out the request");
                vec![timed(monotonic_ns(), Answer::Failed(refusal))]
            };
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
        })
    }

    /// Up to the first that is refused or whose program fails, or until everything is taken down.
    fn one_after_the_other(&self, line: Vec<Request>) -> Vec<TimedAnswer> {
        let mut answers = Vec::new();
        for request in line {
            let begin_ns = monotonic_ns();
            // Nothing may be made behind the back of what takes everything down, and that waits for all lines.
            let is_closed = lock(&self.under_way).closed;
            let obeyed = if is_closed { Err(Refusal::taken_down()) } else { self.obey(request) };
            let answer = obeyed.unwrap_or_else(|e| Answer::Failed(e.clipped()));
            let is_last = match &answer {
                Answer::Failed(_) => true,
                Answer::Finished(finished) => !finished.succeeded(),
                _ => false,
            };
            answers.push(timed(begin_ns, answer));
            if is_last {
                break;
            }
        }
        answers
    }
}

fn timed(begin_ns: u64, answer: Answer) -> TimedAnswer {
    TimedAnswer { begin_ns, end_ns: monotonic_ns(), answer }
}

#[cfg(test)]
mod tests;
