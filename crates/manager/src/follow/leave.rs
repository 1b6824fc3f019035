//! The end of instances that are given up.

use super::{Clock, FaultCause, Left, LeftOf, One};
use crate::{Ending, InstanceId, ManagedState, Manager, ManagerError, Phase, Token};

/// How long a manager that does not answer is told to end instances again and again.
const TELL_LIMIT_NS: u64 = 8_000_000_000;

/// How long instances that were told to end may take for it.
const END_LIMIT_NS: u64 = 60_000_000_000;

/// Between two requests.
const BETWEEN_NS: u64 = 1_000_000_000;

/// Ends instances, also those that may have been started with a token, and says what is left of each.
pub(super) fn leave(
    manager: &dyn Manager,
    all: &[One],
    (failed, cause): (usize, &FaultCause),
    clock: &dyn Clock,
) -> Vec<LeftOf> {
    let mut leaving = Leaving { manager, clock, dead: None, is_gone: false };
    // All of them first: nobody waits for the end of one before another is told.
    let told: Vec<Told> = all
        .iter()
        .enumerate()
        .map(|(number, one)| leaving.tell(one, (number == failed).then_some(cause)))
        .collect();
    let deadline_ns = clock.now_ns().saturating_add(END_LIMIT_NS);
    let left = told.into_iter().map(|told| match told {
        Told::Nobody(left) => left,
        Told::To(id, told) => leaving.await_end(&id, told, deadline_ns),
    });
    // The name that the manager gave when it was asked, not one that was found.
    all.iter().zip(left).map(|(one, left)| LeftOf { id: one.id.clone(), left }).collect()
}

/// What was done for the end of an instance.
enum Told {
    /// There is none, as far as is known.
    Nobody(Left),
    /// It was told to end; `Err` if the manager did not take that, `None` if nothing was tried because it did not answer to others.
    To(InstanceId, Option<Result<(), ManagerError>>),
}

struct Leaving<'a> {
    manager: &'a dyn Manager,
    clock: &'a dyn Clock,
    /// Why the manager does not answer any more: it is not waited for as long again.
    dead: Option<ManagerError>,
    /// It did not answer to a look after that either.
    is_gone: bool,
}

impl Leaving<'_> {
    /// Tells one of the instances to end; `cause` if it is the one that something went wrong with.
    fn tell(&mut self, one: &One, cause: Option<&FaultCause>) -> Told {
        match (&one.id, cause) {
            (Some(id), _) => self.tell_named(id.clone()),
            (None, Some(FaultCause::Manager(e))) if e.may_be_done() => self.tell_unnamed(&one.token),
            (None, _) => Told::Nobody(Left::Nothing),
        }
    }

    fn tell_named(&mut self, id: InstanceId) -> Told {
        let manager = self.manager;
        let is_tried = self.dead.is_none();
        // It may be on its end already.
        let told = self.while_dead(|| manager.end(&id, Ending::AtOnce));
        Told::To(id, is_tried.then_some(told))
    }

    fn tell_unnamed(&mut self, token: &Token) -> Told {
        let manager = self.manager;
        match self.while_dead(|| manager.find(token)) {
            Ok(Some(id)) => self.tell_named(id),
            Ok(None) => Told::Nobody(Left::Nothing),
            Err(e) => {
                Told::Nobody(Left::Perhaps { why: e.to_string(), find_by_hand: manager.find_by_hand(token) })
            }
        }
    }

    /// Asks again while nobody answers: what has just been started again answers a little later.
    fn while_dead<T>(&mut self, ask: impl Fn() -> Result<T, ManagerError>) -> Result<T, ManagerError> {
        if let Some(dead) = &self.dead {
            return Err(dead.clone());
        }
        let began_ns = self.clock.now_ns();
        loop {
            match ask() {
                Err(e) if e.is_dead_manager() => {
                    if self.clock.now_ns().saturating_sub(began_ns) >= TELL_LIMIT_NS {
                        self.dead = Some(e.clone());
                        return Err(e);
                    }
                    self.clock.pause(BETWEEN_NS);
                }
                done => return done,
            }
        }
    }

    /// Looks at one that was told to end until it has.
    fn await_end(
        &mut self,
        id: &InstanceId,
        told: Option<Result<(), ManagerError>>,
        deadline_ns: u64,
    ) -> Left {
        let instance = |why: String| Left::Instance { why, by_hand: self.manager.by_hand(id) };
        if let Some(dead) = self.dead.as_ref().filter(|_| self.is_gone) {
            return instance(dead.to_string());
        }
        let told = told.unwrap_or_else(|| self.manager.end(id, Ending::AtOnce));
        loop {
            match self.manager.look(id) {
                Ok(None) => return Left::NotKnown { by_hand: self.manager.by_hand(id) },
                Ok(Some(sight)) if sight.state == ManagedState::In(Phase::Done) => return Left::Nothing,
                Ok(Some(sight)) => {
                    if let Err(e) = &told {
                        return instance(e.to_string());
                    }
                    if self.clock.now_ns() > deadline_ns {
                        return instance(format!("it was told to end and is in the state {}", sight.name));
                    }
                }
                Err(e) => {
                    let left = instance(told.err().unwrap_or_else(|| e.clone()).to_string());
                    self.is_gone = self.dead.is_some() && e.is_dead_manager();
                    return left;
                }
            }
            self.clock.pause(BETWEEN_NS);
        }
    }
}
