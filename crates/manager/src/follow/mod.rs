//! The lives of instances as their manager tells them: asked for, looked at again and again until all run, told to end, and looked at until
//! they have ended. Whatever happens, all are told to end.

mod begins;
mod fault;
mod leave;

pub use begins::{Begin, Followed};
pub use fault::{Fault, FaultCause, Left, LeftOf};

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

/// Goes through the lives of instances, one for each token: all are asked for at once, and told to end when the last of them runs.
///
/// # Errors
/// What went wrong with the first of which something did, in which state, and what is left of any. All are told to end then.
pub fn follow(
    manager: &dyn Manager,
    tokens: &[Token],
    pace: Pace,
    clock: &dyn Clock,
    progress: &dyn Fn(&str),
) -> Result<Vec<Followed>, Box<Fault>> {
    let one = |token: &Token| One { token: token.clone(), course: Course::begin(), id: None };
    let all = tokens.iter().map(one).collect();
    let mut lives = Lives { manager, pace, clock, progress, zero_ns: None, all };
    let Err((number, cause)) = lives.go_through() else { return lives.finish() };
    progress(&format!("{cause}; ending the {}", if tokens.len() > 1 { "instances" } else { "instance" }));
    let mut left = leave(manager, &lives.all, (number, &cause), clock);
    let failed = left.remove(number);
    let phase = lives.all[number].course.phase();
    Err(Box::new(Fault { phase, cause, id: failed.id, left: failed.left, others: left }))
}

/// An instance.
pub(super) struct One {
    token: Token,
    course: Course,
    /// Once the manager has named it.
    id: Option<InstanceId>,
}

struct Lives<'a> {
    manager: &'a dyn Manager,
    pace: Pace,
    clock: &'a dyn Clock,
    progress: &'a dyn Fn(&str),
    /// When the first was asked for.
    zero_ns: Option<u64>,
    all: Vec<One>,
}

/// With which instance something went wrong, and what.
type Broken = (usize, FaultCause);

impl Lives<'_> {
    fn go_through(&mut self) -> Result<(), Broken> {
        match self.all.len() {
            1 => (self.progress)("asking the manager for an instance"),
            several => (self.progress)(&format!("asking the manager for {several} instances")),
        }
        for number in 0..self.all.len() {
            self.ask(number).map_err(|e| (number, e.into()))?;
        }
        self.look_until(Phase::Running)?;
        (self.progress)("telling the manager to end what was asked for");
        for number in 0..self.all.len() {
            self.tell_end(number).map_err(|cause| (number, cause))?;
        }
        self.look_until(Phase::Done)
    }

    fn ask(&mut self, number: usize) -> Result<(), ManagerError> {
        let one = &mut self.all[number];
        let now_ns = self.clock.now_ns();
        one.course.ask(*self.zero_ns.get_or_insert(now_ns), now_ns);
        one.id = Some(self.manager.ask(&one.token)?);
        one.course.is_asked(self.clock.now_ns());
        Ok(())
    }

    fn tell_end(&mut self, number: usize) -> Result<(), FaultCause> {
        let one = &mut self.all[number];
        let id = one.id.as_ref().ok_or_else(unnamed)?;
        one.course.end_is_asked(self.clock.now_ns());
        self.manager.end(id, Ending::Usual).map_err(|e| match e {
            ManagerError::NotKnown(_) => FaultCause::Forgotten,
            e => FaultCause::Manager(e),
        })
    }

    /// Looks at all that have not ended until each is in a phase or beyond.
    fn look_until(&mut self, goal: Phase) -> Result<(), Broken> {
        let began_ns = self.clock.now_ns();
        loop {
            let mut now_ns = began_ns;
            for number in 0..self.all.len() {
                if self.all[number].course.phase() < Phase::Done {
                    now_ns = self.look(number, began_ns).map_err(|cause| (number, cause))?;
                }
            }
            let Some(late) = self.all.iter().position(|one| one.course.phase() < goal) else { return Ok(()) };
            if now_ns.saturating_sub(began_ns) > self.pace.limit_ns {
                return Err((late, FaultCause::TimedOut { limit_ns: self.pace.limit_ns, goal }));
            }
            if !self.clock.wait(self.pace.poll_ns) {
                return Err((late, FaultCause::Interrupted));
            }
        }
    }

    /// Looks at one; when the answer came.
    fn look(&mut self, number: usize, began_ns: u64) -> Result<u64, FaultCause> {
        let id = self.all[number].id.clone().ok_or_else(unnamed)?;
        let before_ns = self.clock.now_ns();
        let sight = self.manager.look(&id)?;
        let now_ns = self.clock.now_ns();
        match sight {
            Some(sight) => self.take(number, sight, before_ns, now_ns)?,
            None if self.all[number].course.is_seen() => return Err(FaultCause::Forgotten),
            None if now_ns.saturating_sub(began_ns) > FIRST_SIGHT_LIMIT_NS => {
                return Err(FaultCause::Forgotten);
            }
            None => {}
        }
        Ok(now_ns)
    }

    fn take(&mut self, number: usize, sight: Sight, before_ns: u64, now_ns: u64) -> Result<(), FaultCause> {
        let instances = self.all.len();
        let One { course, id, .. } = &mut self.all[number];
        let phase = match &sight.state {
            ManagedState::Failed { message } => return Err(FaultCause::Failed { message: message.clone() }),
            ManagedState::In(phase) => *phase,
        };
        let is_to_end = course.phase() >= Phase::Shutdown;
        if phase > Phase::Running && !is_to_end {
            return Err(FaultCause::EndedByItself { name: sight.name, reason: sight.reason });
        }
        match course.see(phase, sight, before_ns, now_ns) {
            Change::None => Ok(()),
            Change::To(phase) => {
                let named = id.as_ref().filter(|_| instances > 1);
                let of = named.map_or_else(|| "the instance".to_owned(), |id| format!("instance {id}"));
                (self.progress)(&format!("{of} is in the state {phase}"));
                Ok(())
            }
            Change::Back { from, to } => Err(FaultCause::WentBack { from, to }),
        }
    }

    fn finish(self) -> Result<Vec<Followed>, Box<Fault>> {
        let mut followed = Vec::new();
        for One { token, course, id } in self.all {
            let Some(id) = id else {
                let (phase, cause) = (course.phase(), unnamed());
                let left = Left::Nothing;
                return Err(Box::new(Fault { phase, cause, id: None, left, others: Vec::new() }));
            };
            followed.push(course.finish(id, token));
        }
        Ok(followed)
    }
}

/// One that was asked for has a name.
fn unnamed() -> FaultCause {
    FaultCause::Manager(ManagerError::NotUnderstood("no instance was named".to_owned()))
}

#[cfg(test)]
mod tests;
