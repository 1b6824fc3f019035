//! The life of one instance as its manager tells it: asked for, looked at again and again until it runs, told to end, and looked at until it
//! has ended. Whatever happens, the instance is told to end.

mod begins;
mod fault;
mod leave;

pub use begins::{Begin, Followed};
pub use fault::{Fault, FaultCause, Left};

use begins::{Change, Course};
use leave::leave;

use crate::{Ending, InstanceId, ManagedState, Manager, ManagerError, Phase, Sight, Token};

/// What an instance may be unknown for after it was asked for: a manager may answer from several machines, of which one knows it first.
const FIRST_SIGHT_LIMIT_NS: u64 = 20_000_000_000;

/// The clock by which a life is told, and the wish of the user to stop.
pub trait Clock {
    /// Nanoseconds of a clock that only goes forwards.
    fn now_ns(&self) -> u64;

    /// Waits for a time, or until the user wants to stop: then `false`.
    fn wait(&self, ns: u64) -> bool;

    /// Waits for a time, whatever the user wants: something is being ended.
    fn pause(&self, ns: u64);
}

/// How often a manager is asked, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one answer to the next request. Each change is known to within this and one request.
    pub poll_ns: u64,
    /// From the request for an instance until it runs, and from the request to end it until it has ended.
    pub limit_ns: u64,
}

/// Goes through the life of one instance.
///
/// # Errors
/// What went wrong, in which state, and whether anything is left.
pub fn follow(
    manager: &dyn Manager,
    token: &Token,
    pace: Pace,
    clock: &dyn Clock,
    progress: &dyn Fn(&str),
) -> Result<Followed, Box<Fault>> {
    let mut life = Life { manager, pace, clock, progress, course: Course::begin(clock.now_ns()), id: None };
    let ended = life.go_through(token);
    match (ended, life.id) {
        (Ok(()), Some(id)) => Ok(life.course.finish(id, token.clone())),
        (Ok(()), None) => {
            let cause = FaultCause::Manager(ManagerError::NotUnderstood("no instance was named".to_owned()));
            Err(Box::new(Fault { phase: Phase::Pending, cause, id: None, left: Left::Nothing }))
        }
        (Err(cause), id) => {
            progress(&format!("{cause}; ending the instance"));
            let left = leave(manager, id.as_ref(), token, &cause, clock);
            Err(Box::new(Fault { phase: life.course.phase(), cause, id, left }))
        }
    }
}

struct Life<'a> {
    manager: &'a dyn Manager,
    pace: Pace,
    clock: &'a dyn Clock,
    progress: &'a dyn Fn(&str),
    course: Course,
    id: Option<InstanceId>,
}

impl Life<'_> {
    fn go_through(&mut self, token: &Token) -> Result<(), FaultCause> {
        (self.progress)("asking the manager for an instance");
        let id = self.manager.ask(token)?;
        self.course.is_asked(self.clock.now_ns());
        self.id = Some(id.clone());
        self.look_until(&id, Phase::Running)?;
        let now_ns = self.clock.now_ns();
        self.course.end_is_asked(now_ns);
        (self.progress)("telling the manager to end the instance");
        self.manager.end(&id, Ending::Usual).map_err(|e| match e {
            ManagerError::NotKnown(_) => FaultCause::Forgotten,
            e => FaultCause::Manager(e),
        })?;
        self.look_until(&id, Phase::Done)
    }

    /// Looks until it is in a phase or beyond.
    fn look_until(&mut self, id: &InstanceId, goal: Phase) -> Result<(), FaultCause> {
        let began_ns = self.clock.now_ns();
        loop {
            let before_ns = self.clock.now_ns();
            let sight = self.manager.look(id)?;
            let now_ns = self.clock.now_ns();
            match sight {
                Some(sight) => self.take(sight, before_ns, now_ns)?,
                None if self.course.is_seen() => return Err(FaultCause::Forgotten),
                None if now_ns.saturating_sub(began_ns) > FIRST_SIGHT_LIMIT_NS => {
                    return Err(FaultCause::Forgotten);
                }
                None => {}
            }
            if self.course.phase() >= goal {
                return Ok(());
            }
            if now_ns.saturating_sub(began_ns) > self.pace.limit_ns {
                return Err(FaultCause::TimedOut { limit_ns: self.pace.limit_ns, goal });
            }
            if !self.clock.wait(self.pace.poll_ns) {
                return Err(FaultCause::Interrupted);
            }
        }
    }

    fn take(&mut self, sight: Sight, before_ns: u64, now_ns: u64) -> Result<(), FaultCause> {
        let phase = match &sight.state {
            ManagedState::Failed { message } => return Err(FaultCause::Failed { message: message.clone() }),
            ManagedState::In(phase) => *phase,
        };
        let is_to_end = self.course.phase() >= Phase::Shutdown;
        if phase > Phase::Running && !is_to_end {
            return Err(FaultCause::EndedByItself { name: sight.name, reason: sight.reason });
        }
        match self.course.see(phase, sight, before_ns, now_ns) {
            Change::None => Ok(()),
            Change::To(phase) => {
                (self.progress)(&format!("the instance is in the state {phase}"));
                Ok(())
            }
            Change::Back { from, to } => Err(FaultCause::WentBack { from, to }),
        }
    }
}

#[cfg(test)]
mod tests;
