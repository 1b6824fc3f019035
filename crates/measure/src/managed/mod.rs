//! A bench at the manager of a cloud: each cell is one instance that it starts and ends, or several at once. No machine there is Nestor's.

mod login;
mod record;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nestor_manager::{
    Clock, Curl, Ec2, Fault, FaultCause, Followed, Left, Manager, ManagerError, OpenNebula, Pace, Token,
    follow,
};
use nestor_results::record::{CellRecord, Mark, Outcome};
use nestor_results::{CellFailure, Environment, FailureCause, TraceMode, WrittenPlace};
use nestor_stack::layers::hypervisors::{InstanceOf, ManagedInstance};
use nestor_stack::{ManagerUrl, Place, Stack};
use nestor_stop::StopHandle;

use crate::bench::Bench;
use crate::cell::{CellBegin, CellEnd, CellRequest};

/// An instance may take so long until it runs, and so long until it has ended: an image of 21 GB at 100 Mbit/s takes half an hour.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Lives that were gone through, with who told them and how often it was asked.
type Lived = (Vec<Followed>, Box<dyn Manager>, Pace);

/// Instances of one manager.
pub struct ManagerBench {
    place: Place,
    url: ManagerUrl,
    stop: StopHandle,
    left: Arc<Mutex<Vec<String>>>,
}

impl ManagerBench {
    /// At a place; `None` if that is no manager's. `stop` ends what is under way: its instance is ended.
    pub fn at(place: &Place, stop: StopHandle) -> Option<Self> {
        let Place::Manager { url, .. } = place else { return None };
        let (place, url) = (place.clone(), url.clone());
        Some(Self { place, url, stop, left: Arc::default() })
    }

    /// What could not be ended, each with how to end it by hand: also of cells whose results are not kept, because the user interrupted.
    pub fn left_behind(&self) -> Arc<Mutex<Vec<String>>> {
        Arc::clone(&self.left)
    }

    fn manager(&self, instance: &ManagedInstance<'_>) -> Result<Box<dyn Manager>, ManagerError> {
        let curl = Curl::to(self.url.clone());
        Ok(match instance.of {
            InstanceOf::Ec2 { image, instance_type } => {
                Box::new(Ec2::new(curl, login::of_ec2()?, image, instance_type))
            }
            InstanceOf::OpenNebula { template } => {
                let one = OpenNebula::new(curl, login::of_opennebula()?, template);
                match login::is_here(&self.url) {
                    true => Box::new(one.with_log(login::log_of_opennebula())),
                    false => Box::new(one),
                }
            }
        })
    }

    fn live(
        &self,
        request: &CellRequest<'_>,
        environment: &mut Environment,
        progress: &dyn Fn(&str),
    ) -> Result<Lived, Box<Fault>> {
        let early = |e: ManagerError| {
            let (phase, cause) = (nestor_manager::Phase::Pending, FaultCause::Manager(e));
            Box::new(Fault { phase, cause, id: None, left: Left::Nothing, others: Vec::new() })
        };
        let nothing_asked =
            || ManagerError::NotUnderstood("the stack has no instance of a manager".to_owned());
        let (_, instance) = request.stack.managed().ok_or_else(nothing_asked).map_err(early)?;
        let manager = self.manager(&instance).map_err(early)?;
        progress("asking the manager who it is");
        let version = manager.version().map_err(early)?;
        environment.settings.extend(version.map(|version| ("manager version".to_owned(), version)));
        let pace = Pace { poll_ns: instance.poll.get(), limit_ns: nanoseconds(LIMIT) };
        let clock = OwnClock { began: Instant::now(), stop: &self.stop };
        let instances = request.workload.life().map_or(1, |life| life.count);
        let tokens: Vec<Token> = (0..instances).map(|_| Token::fresh()).collect();
        let followed = follow(&*manager, &tokens, pace, &clock, progress)?;
        Ok((followed, manager, pace))
    }

    /// Keeps what a person has to know although the result of the cell may not be kept.
    fn note_left(&self, fault: &Fault) {
        if fault.leaves_something() {
            self.left.lock().unwrap_or_else(PoisonError::into_inner).push(fault.to_string());
        }
    }
}

impl Bench for ManagerBench {
    fn ground(&self) -> WrittenPlace {
        self.place.clone().into()
    }

    fn make_room_for(&mut self, _stacks: &[Stack]) {}

    fn run_cell(&mut self, request: &CellRequest<'_>, progress: &dyn Fn(&str)) -> CellEnd {
        let began = CellBegin::now();
        let mut environment = record::environment(&self.place, request);
        let mut refused = false;
        let (outcome, marks) = match self.live(request, &mut environment, progress) {
            Ok((followed, manager, pace)) => {
                environment.settings.extend(record::settings(&followed));
                let lives = record::lives(&followed, &*manager, pace);
                (Outcome::Measured(record::measured(request, lives)), vec![Mark::Declared])
            }
            Err(fault) => {
                self.note_left(&fault);
                refused = ends_alike(&fault.cause);
                let state = record::state_of(fault.phase);
                let message = format!("in the state {state}: {fault}");
                (Outcome::Failed(CellFailure::new(cause_of(&fault.cause), message)), vec![Mark::Declared])
            }
        };
        let record = request.record(&began, outcome, marks, environment);
        // Nothing is recorded, so that nothing is repeated without that.
        let record = CellRecord { trace: TraceMode::None, untraced_twin: false, ..record };
        CellEnd { record, refused }
    }
}

/// Whether another attempt would end in the same way.
fn ends_alike(cause: &FaultCause) -> bool {
    matches!(cause, FaultCause::Manager(ManagerError::NoProgram | ManagerError::Login(_)))
}

fn cause_of(cause: &FaultCause) -> FailureCause {
    match cause {
        FaultCause::Manager(ManagerError::NoProgram) => FailureCause::NotInstalled,
        FaultCause::Manager(ManagerError::Login(_)) => FailureCause::NotPossible,
        FaultCause::Manager(e) if e.is_dead_manager() => FailureCause::MachineLost,
        FaultCause::Forgotten | FaultCause::EndedByItself { .. } => FailureCause::MachineLost,
        FaultCause::Manager(_)
        | FaultCause::Failed { .. }
        | FaultCause::WentBack { .. }
        | FaultCause::TimedOut { .. }
        | FaultCause::Interrupted => FailureCause::Other,
    }
}

/// This machine's, from when the cell began; the user may stop it.
struct OwnClock<'a> {
    began: Instant,
    stop: &'a StopHandle,
}

impl Clock for OwnClock<'_> {
    fn now_ns(&self) -> u64 {
        nanoseconds(self.began.elapsed())
    }

    fn wait(&self, ns: u64) -> bool {
        !self.stop.wait_at_most(Duration::from_nanos(ns))
    }

    fn pause(&self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
