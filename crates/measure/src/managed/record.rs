//! What is kept of a life that a manager told.

use std::collections::BTreeMap;

use nestor_manager::{Followed, Manager, Pace, Phase, curl_is_here};
use nestor_results::record::Measured;
use nestor_results::{Environment, InstanceLife, LifeState, ManagedLife, ManagedState, StateRecord};
use nestor_stack::Place;
use nestor_workload::LoadResult;

use crate::cell::CellRequest;

/// What carries requests, among the packages.
const CARRIER: &str = "this machine curl";

/// The state of a life that a phase is; of one that has ended, the last.
pub(super) const fn state_of(phase: Phase) -> LifeState {
    match phase {
        Phase::Pending => LifeState::Pending,
        Phase::Transfer => LifeState::Transfer,
        Phase::Boot => LifeState::Boot,
        Phase::Running => LifeState::Running,
        Phase::Shutdown => LifeState::Shutdown,
        Phase::Cleanup | Phase::Done => LifeState::Cleanup,
    }
}

/// What is known before anything is asked for.
pub(super) fn environment(place: &Place, request: &CellRequest<'_>) -> Environment {
    let carrier = curl_is_here().ok().map(|version| (CARRIER.to_owned(), version));
    let settings =
        [("seed", request.seed.to_string()), ("clock", "this machine's, from the request on".to_owned())];
    Environment {
        nestor: format!("nestor {}", env!("CARGO_PKG_VERSION")),
        ground: place.clone().into(),
        packages: carrier.into_iter().collect(),
        settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        remarks: request.workload.remarks(),
        ..Environment::default()
    }
}

/// What the manager said of the instances; of several what is not the same, in their order.
pub(super) fn settings(all: &[Followed]) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for followed in all {
        let details =
            followed.details.iter().map(|(name, value)| (format!("instance {name}"), value.clone()));
        for (name, value) in details.chain([("instance".to_owned(), followed.id.to_string())]) {
            let said = settings.entry(name).or_default();
            if !said.contains(&value) {
                said.push(value);
            }
        }
    }
    settings.into_iter().map(|(name, said)| (name, said.join(", "))).collect()
}

/// The lives of instances that were asked for at once. One that ran waited until the last did.
pub(super) fn lives(all: &[Followed], manager: &dyn Manager, pace: Pace) -> Vec<InstanceLife> {
    let mut lives: Vec<InstanceLife> = all.iter().map(|followed| life(followed, manager, pace)).collect();
    let runs_ns = |life: &InstanceLife| life.state(LifeState::Running).map_or(0, |running| running.begin_ns);
    let last_ns = lives.iter().map(runs_ns).max().unwrap_or_default();
    let states = lives.iter_mut().flat_map(|life| &mut life.states);
    for running in states.filter(|state| state.state == LifeState::Running) {
        running.waited_ns = last_ns.saturating_sub(running.begin_ns).min(running.group_ns());
    }
    lives
}

/// The life, with a state for each phase that it went through.
fn life(followed: &Followed, manager: &dyn Manager, pace: Pace) -> InstanceLife {
    let phases = followed.begins.iter().zip(followed.begins.iter().skip(1));
    let states =
        phases.clone().map(|(begin, end)| StateRecord::uncounted(state_of(begin.phase), begin.ns, end.ns));
    let told = phases.map(|(begin, end)| ManagedState {
        state: state_of(begin.phase),
        names: begin.names.clone(),
        uncertain_ns: begin.uncertain_ns,
        recorded_s: begin
            .recorded_s
            .zip(end.recorded_s)
            .and_then(|(begin_s, end_s)| end_s.checked_sub(begin_s)),
    });
    let managed = ManagedLife {
        manager: manager.kind(),
        instance: followed.id.to_string(),
        poll_ns: pace.poll_ns,
        told_apart: manager.phases().iter().copied().map(state_of).collect(),
        states: told.collect(),
        end_uncertain_ns: followed.begins.last().map_or(0, |end| end.uncertain_ns),
    };
    InstanceLife { states: states.collect(), managed: Some(Box::new(managed)), ..InstanceLife::default() }
}

/// Lives in which no load ran.
pub(super) fn measured(request: &CellRequest<'_>, lives: Vec<InstanceLife>) -> Measured {
    let load = LoadResult {
        engine: format!("nestor {}", env!("CARGO_PKG_VERSION")),
        workload: request.workload.to_string(),
        scale_factor: 1.0,
        elapsed_ns: lives.iter().map(InstanceLife::whole_ns).max().unwrap_or_default(),
        ..LoadResult::default()
    };
    Measured { load, lives, ..Measured::default() }
}

#[cfg(test)]
mod tests {
    use nestor_manager::{Begin, Ending, InstanceId, ManagerError, Sight, Token};
    use nestor_stack::ManagerKind;

    use super::*;

    struct Silent;

    impl Manager for Silent {
        fn kind(&self) -> ManagerKind {
            ManagerKind::OpenNebula
        }

        fn phases(&self) -> &'static [Phase] {
            &[Phase::Pending, Phase::Running, Phase::Shutdown]
        }

        fn version(&self) -> Result<Option<String>, ManagerError> {
            Ok(None)
        }

        fn ask(&self, _token: &Token) -> Result<InstanceId, ManagerError> {
            Err(ManagerError::NoProgram)
        }

        fn find(&self, _token: &Token) -> Result<Option<InstanceId>, ManagerError> {
            Ok(None)
        }

        fn look(&self, _id: &InstanceId) -> Result<Option<Sight>, ManagerError> {
            Ok(None)
        }

        fn end(&self, _id: &InstanceId, _how: Ending) -> Result<(), ManagerError> {
            Ok(())
        }

        fn by_hand(&self, _id: &InstanceId) -> String {
            String::new()
        }

        fn find_by_hand(&self, _token: &Token) -> String {
            String::new()
        }
    }

    fn begin(phase: Phase, ns: u64, recorded_s: Option<u64>) -> Begin {
        Begin { phase, ns, uncertain_ns: 5, recorded_s, names: vec![phase.name().to_owned()] }
    }

    #[test]
    fn the_states_of_a_life_are_the_whole_and_end_where_the_next_begins() {
        let followed = Followed {
            id: InstanceId::read("7").unwrap(),
            token: Token::of(1),
            begins: vec![
                begin(Phase::Pending, 0, Some(100)),
                begin(Phase::Running, 30, Some(130)),
                begin(Phase::Shutdown, 40, None),
                begin(Phase::Done, 60, Some(160)),
            ],
            details: Vec::new(),
        };
        let life = life(&followed, &Silent, Pace { poll_ns: 5, limit_ns: 9 });
        assert_eq!((life.whole_ns(), life.unaccounted_ns()), (60, 0));
        assert_eq!(life.state(LifeState::Pending).unwrap().duration_ns(), 30);
        assert_eq!(life.states.len(), 3);
        let managed = life.managed.unwrap();
        assert_eq!(managed.state(LifeState::Pending).unwrap().recorded_s, Some(30));
        assert_eq!(managed.state(LifeState::Running).unwrap().recorded_s, None);
        assert_eq!(managed.uncertain_ns(LifeState::Shutdown), Some(10));
        assert!(managed.not_told_apart().any(|state| state == LifeState::Transfer));
    }

    #[test]
    fn one_that_runs_waits_for_the_last_and_what_is_common_to_all_is_said_once() {
        let of = |id: &str, runs_ns: u64, node: &str| Followed {
            id: InstanceId::read(id).unwrap(),
            token: Token::of(1),
            begins: vec![
                begin(Phase::Pending, 0, None),
                begin(Phase::Running, runs_ns, None),
                begin(Phase::Shutdown, 100, None),
                begin(Phase::Done, 120, None),
            ],
            details: vec![("node", node.to_owned()), ("type", "small".to_owned())],
        };
        let all = [of("7", 30, "n1"), of("8", 90, "n2")];
        let lives = lives(&all, &Silent, Pace { poll_ns: 5, limit_ns: 9 });
        let running = |number: usize| lives[number].state(LifeState::Running).unwrap();
        assert_eq!((running(0).waited_ns, running(1).waited_ns), (60, 0));
        assert_eq!((running(0).duration_ns(), running(1).duration_ns()), (10, 10));
        assert_eq!((lives[0].whole_ns(), lives[1].whole_ns()), (60, 120));
        assert!(lives.iter().all(|life| life.unaccounted_ns() == 0));
        let settings = settings(&all);
        let said: Vec<&str> =
            ["instance", "instance node", "instance type"].map(|name| &*settings[name]).into();
        assert_eq!(said, ["7, 8", "n1, n2", "small"]);
    }
}
