//! The end of an instance that is given up.

use super::{Clock, FaultCause, Left};
use crate::{Ending, InstanceId, ManagedState, Manager, ManagerError, Phase, Token};

/// How long a manager that does not answer is told to end an instance again and again.
const TELL_LIMIT_NS: u64 = 8_000_000_000;

/// How long an instance that was told to end may take for it.
const END_LIMIT_NS: u64 = 60_000_000_000;

/// Between two requests.
const BETWEEN_NS: u64 = 1_000_000_000;

/// Ends an instance, or the one that may have been started with a token, and says what is left.
pub(super) fn leave(
    manager: &dyn Manager,
    id: Option<&InstanceId>,
    token: &Token,
    cause: &FaultCause,
    clock: &dyn Clock,
) -> Left {
    match (id, cause) {
        (Some(id), _) => end(manager, id, clock),
        (None, FaultCause::Manager(e)) if e.may_be_done() => {
            match again_while_dead(clock, || manager.find(token)) {
                Ok(Some(id)) => end(manager, &id, clock),
                Ok(None) => Left::Nothing,
                Err(e) => Left::Perhaps { why: e.to_string(), find_by_hand: manager.find_by_hand(token) },
            }
        }
        (None, _) => Left::Nothing,
    }
}

/// Asks again while nobody answers: what has just been started again answers a little later.
fn again_while_dead<T>(
    clock: &dyn Clock,
    ask: impl Fn() -> Result<T, ManagerError>,
) -> Result<T, ManagerError> {
    let began_ns = clock.now_ns();
    loop {
        match ask() {
            Err(e) if e.is_dead_manager() && clock.now_ns().saturating_sub(began_ns) < TELL_LIMIT_NS => {
                clock.pause(BETWEEN_NS);
            }
            done => return done,
        }
    }
}

fn end(manager: &dyn Manager, id: &InstanceId, clock: &dyn Clock) -> Left {
    let by_hand = || manager.by_hand(id);
    // It may be on its end already.
    let told = again_while_dead(clock, || manager.end(id, Ending::AtOnce));
    let began_ns = clock.now_ns();
    loop {
        match manager.look(id) {
            Ok(None) => return Left::NotKnown { by_hand: by_hand() },
            Ok(Some(sight)) if sight.state == ManagedState::In(Phase::Done) => return Left::Nothing,
            Ok(Some(sight)) => {
                if let Err(e) = &told {
                    return Left::Instance { why: e.to_string(), by_hand: by_hand() };
                }
                if clock.now_ns().saturating_sub(began_ns) > END_LIMIT_NS {
                    let why = format!("it was told to end and is in the state {}", sight.name);
                    return Left::Instance { why, by_hand: by_hand() };
                }
            }
            Err(e) => {
                let why = told.err().unwrap_or(e).to_string();
                return Left::Instance { why, by_hand: by_hand() };
            }
        }
        clock.pause(BETWEEN_NS);
    }
}
