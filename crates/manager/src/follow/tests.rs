//! Lives as managers tell them, on a clock that stands still but for what is waited.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use nestor_stack::ManagerKind;

use super::*;
use crate::Recorded;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Each reading takes a millisecond.
#[derive(Default)]
struct Stepped {
    now_ns: Cell<u64>,
    /// Waits until the user wants to stop.
    interrupt_after: Cell<Option<usize>>,
}

impl Clock for Stepped {
    fn now_ns(&self) -> u64 {
        self.now_ns.set(self.now_ns.get() + MS);
        self.now_ns.get()
    }

    fn wait(&self, ns: u64) -> bool {
        self.pause(ns);
        match self.interrupt_after.get() {
            Some(0) => false,
            left => {
                self.interrupt_after.set(left.map(|n| n - 1));
                true
            }
        }
    }

    fn pause(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }
}

type Look = Result<Option<Sight>, ManagerError>;

/// Says what it was told to say; the last look again and again.
struct Script {
    asked: Result<&'static str, ManagerError>,
    found: Option<&'static str>,
    looks: RefCell<VecDeque<Look>>,
    /// What it says after it was told to end at once.
    left: Look,
    end: Result<(), ManagerError>,
    ended: RefCell<Vec<Ending>>,
}

impl Script {
    fn of(looks: Vec<Look>) -> Self {
        Self {
            asked: Ok("i-1"),
            found: None,
            looks: RefCell::new(looks.into()),
            left: seen(Phase::Done, "terminated"),
            end: Ok(()),
            ended: RefCell::default(),
        }
    }
}

impl Manager for Script {
    fn kind(&self) -> ManagerKind {
        ManagerKind::Ec2
    }

    fn phases(&self) -> &'static [Phase] {
        &Phase::ALL
    }

    fn version(&self) -> Result<Option<String>, ManagerError> {
        Ok(None)
    }

    fn ask(&self, _token: &Token) -> Result<InstanceId, ManagerError> {
        self.asked.clone().map(|id| InstanceId::read(id).unwrap())
    }

    fn find(&self, _token: &Token) -> Result<Option<InstanceId>, ManagerError> {
        Ok(self.found.map(|id| InstanceId::read(id).unwrap()))
    }

    fn look(&self, _id: &InstanceId) -> Look {
        if self.ended.borrow().contains(&Ending::AtOnce) {
            return self.left.clone();
        }
        let mut looks = self.looks.borrow_mut();
        if looks.len() > 1 { looks.pop_front().unwrap() } else { looks[0].clone() }
    }

    fn end(&self, _id: &InstanceId, how: Ending) -> Result<(), ManagerError> {
        self.ended.borrow_mut().push(how);
        self.end.clone()
    }

    fn by_hand(&self, id: &InstanceId) -> String {
        format!("end {id}")
    }

    fn find_by_hand(&self, token: &Token) -> String {
        format!("find {token}")
    }
}

fn seen(phase: Phase, name: &str) -> Look {
    recorded(phase, name, Recorded::default())
}

fn recorded(phase: Phase, name: &str, recorded: Recorded) -> Look {
    let state = ManagedState::In(phase);
    Ok(Some(Sight {
        state,
        name: name.to_owned(),
        reason: None,
        recorded,
        details: vec![("node", "n1".to_owned())],
    }))
}

const PACE: Pace = Pace { poll_ns: 500 * MS, limit_ns: 60 * S };

fn goes(script: &Script) -> Result<Followed, Box<Fault>> {
    one(script, PACE, &Stepped::default())
}

/// Follows one instance.
fn one(script: &Script, pace: Pace, clock: &Stepped) -> Result<Followed, Box<Fault>> {
    follow(script, &[Token::of(1)], pace, clock, &|_| {}).map(|mut all| all.remove(0))
}

fn dead() -> ManagerError {
    ManagerError::Unreachable { url: "http://m/".to_owned(), reason: "refused".to_owned() }
}

#[test]
fn each_state_begins_within_one_period_of_polling() {
    use Phase::*;
    let script = Script::of(vec![
        seen(Pending, "PENDING"),
        seen(Pending, "ACTIVE/LCM_INIT"),
        seen(Transfer, "ACTIVE/PROLOG"),
        seen(Transfer, "ACTIVE/PROLOG"),
        seen(Boot, "ACTIVE/BOOT"),
        seen(Running, "ACTIVE/RUNNING"),
        // It does not know yet that it was told.
        seen(Running, "ACTIVE/RUNNING"),
        seen(Shutdown, "ACTIVE/SHUTDOWN"),
        seen(Cleanup, "ACTIVE/EPILOG"),
        seen(Done, "DONE"),
    ]);
    let followed = goes(&script).unwrap();
    let phases: Vec<Phase> = followed.begins.iter().map(|begin| begin.phase).collect();
    assert_eq!(phases, Phase::ALL);
    assert_eq!(followed.begins[0].names, ["PENDING", "ACTIVE/LCM_INIT"]);
    assert_eq!(followed.begins[4].names, ["ACTIVE/SHUTDOWN"]);
    assert!(followed.begins.windows(2).all(|two| two[0].ns < two[1].ns));
    // Two exact ones, and the rest within a period and what the requests take.
    assert_eq!([0, 4].map(|at: usize| followed.begins[at].uncertain_ns), [0, 0]);
    for at in [1, 2, 3, 5, 6] {
        let uncertain_ns = followed.begins[at].uncertain_ns;
        assert!((500 * MS..520 * MS).contains(&uncertain_ns), "{uncertain_ns}");
    }
    assert_eq!(*script.ended.borrow(), [Ending::Usual]);
}

#[test]
fn what_passed_between_two_looks_is_there_if_the_manager_recorded_it() {
    use Phase::*;
    let times = Recorded::default()
        .with(Pending, Some(1000))
        .with(Transfer, Some(1004))
        .with(Boot, Some(1006))
        .with(Cleanup, Some(1030));
    let script = Script::of(vec![
        recorded(Pending, "PENDING", Recorded::default()),
        recorded(Running, "ACTIVE/RUNNING", times.clone()),
        recorded(Done, "DONE", times),
    ]);
    let clock = Stepped::default();
    let pace = Pace { poll_ns: 10 * S, ..PACE };
    let followed = one(&script, pace, &clock).unwrap();
    let of = |phase| followed.begins.iter().find(|begin| begin.phase == phase).unwrap();
    assert_eq!((of(Transfer).ns, of(Boot).ns), (4 * S, 6 * S));
    assert!(of(Transfer).names.is_empty() && of(Transfer).uncertain_ns < S + 10 * MS);
    assert_eq!(of(Transfer).recorded_s, Some(1004));
    // Nobody recorded when it was running: only looking tells.
    assert!((10 * S..11 * S).contains(&of(Running).uncertain_ns));
    // Its record is after the look at which it had ended, so that it is put there.
    assert_eq!(of(Cleanup).ns, of(Done).ns);
}

#[test]
fn what_passed_between_two_looks_and_was_not_recorded_is_not_made_up() {
    let script = Script::of(vec![
        seen(Phase::Pending, "pending"),
        seen(Phase::Running, "running"),
        seen(Phase::Done, "terminated"),
    ]);
    let followed = goes(&script).unwrap();
    let phases: Vec<Phase> = followed.begins.iter().map(|begin| begin.phase).collect();
    assert_eq!(phases, [Phase::Pending, Phase::Running, Phase::Shutdown, Phase::Done]);
}

#[test]
fn a_manager_that_forgets_is_a_fault_with_the_state_and_nothing_left() {
    let mut script =
        Script::of(vec![seen(Phase::Pending, "PENDING"), seen(Phase::Transfer, "PROLOG"), Ok(None)]);
    script.left = Ok(None);
    let fault = goes(&script).unwrap_err();
    assert_eq!((fault.phase, &fault.cause), (Phase::Transfer, &FaultCause::Forgotten));
    insta::assert_snapshot!(fault.to_string(), @r"
    the manager forgot the instance: it knows none of that name any more
      instance i-1 was told to end, and the manager knows none of that name; to make sure: end i-1
    ");
    assert_eq!(*script.ended.borrow(), [Ending::AtOnce]);
}

#[test]
fn one_that_was_just_asked_for_may_be_unknown_for_a_while() {
    let script = Script::of(vec![
        Ok(None),
        Ok(None),
        seen(Phase::Running, "running"),
        seen(Phase::Done, "terminated"),
    ]);
    assert!(goes(&script).is_ok());
    let never = goes(&Script::of(vec![Ok(None)])).unwrap_err();
    assert_eq!((never.phase, &never.cause), (Phase::Pending, &FaultCause::Forgotten));
}

#[test]
fn a_manager_that_dies_is_noticed_at_the_next_look_and_the_message_says_what_is_left() {
    let mut script = Script::of(vec![seen(Phase::Transfer, "PROLOG"), Err(dead())]);
    (script.left, script.end) = (Err(dead()), Err(dead()));
    let clock = Stepped::default();
    let fault = one(&script, PACE, &clock).unwrap_err();
    assert_eq!(fault.phase, Phase::Transfer);
    insta::assert_snapshot!(fault.to_string(), @r"
    the manager at http://m/ cannot be reached: refused
      instance i-1 MAY STILL BE THERE (the manager at http://m/ cannot be reached: refused); end it with: end i-1
    ");
    assert!(clock.now_ns() < 12 * S, "{}", clock.now_ns());
}

#[test]
fn one_whose_answer_was_lost_is_found_and_ended() {
    let mut script = Script::of(vec![seen(Phase::Pending, "pending")]);
    script.asked = Err(ManagerError::Silent { url: "http://m/".to_owned() });
    script.found = Some("i-2");
    let fault = goes(&script).unwrap_err();
    assert_eq!((fault.phase, &fault.left), (Phase::Pending, &Left::Nothing));
    assert_eq!(*script.ended.borrow(), [Ending::AtOnce]);
    // Nobody was there to start one.
    let mut none = Script::of(vec![seen(Phase::Pending, "pending")]);
    none.asked = Err(dead());
    assert_eq!(goes(&none).unwrap_err().to_string(), "the manager at http://m/ cannot be reached: refused");
    assert!(none.ended.borrow().is_empty());
}

#[test]
fn an_interrupt_ends_the_instance() {
    let script = Script::of(vec![seen(Phase::Pending, "pending")]);
    let clock = Stepped { interrupt_after: Cell::new(Some(2)), ..Stepped::default() };
    let fault = one(&script, PACE, &clock).unwrap_err();
    assert_eq!((&fault.cause, &fault.left), (&FaultCause::Interrupted, &Left::Nothing));
    assert_eq!(*script.ended.borrow(), [Ending::AtOnce]);
}

#[test]
fn whatever_is_not_the_way_of_a_life_ends_it() {
    use Phase::*;
    let cause = |looks| goes(&Script::of(looks)).unwrap_err().cause;
    let back = cause(vec![seen(Boot, "BOOT"), seen(Pending, "PENDING")]);
    assert_eq!(back, FaultCause::WentBack { from: Boot, to: Pending });
    let ended = cause(vec![seen(Pending, "pending"), seen(Done, "terminated")]);
    assert_eq!(ended.to_string(), "the instance ended although nobody had told it to: terminated");
    let slow = cause(vec![seen(Pending, "pending")]);
    assert_eq!(slow.to_string(), "it was not running within 60 s");
    let endless = cause(vec![seen(Running, "running"), seen(Shutdown, "shutting-down")]);
    assert_eq!(endless.to_string(), "it was not at its end within 60 s");
    let state = ManagedState::Failed { message: "it is in the state ACTIVE/BOOT_FAILURE".to_owned() };
    let failed =
        Sight { state, name: String::new(), reason: None, recorded: Recorded::default(), details: vec![] };
    assert_eq!(
        cause(vec![Ok(Some(failed))]).to_string(),
        "the manager failed: it is in the state ACTIVE/BOOT_FAILURE"
    );
}

#[test]
fn one_that_does_not_end_is_named() {
    let mut script = Script::of(vec![seen(Phase::Pending, "pending"), seen(Phase::Done, "gone")]);
    script.left = seen(Phase::Shutdown, "shutting-down");
    let fault = goes(&script).unwrap_err();
    let said = fault.to_string();
    assert!(
        said.contains("MAY STILL BE THERE (it was told to end and is in the state shutting-down)"),
        "{said}"
    );
}

/// A manager with several instances, each of which goes the same way and is in its own state at each look.
struct Several {
    /// How each goes: the phases at its looks, the last again and again.
    ways: Vec<Vec<Phase>>,
    /// How often each was looked at.
    looks: RefCell<Vec<usize>>,
    /// Who was told to end, and how.
    ended: RefCell<Vec<(String, Ending)>>,
    /// Whether it does not answer when instances are told to end at once.
    is_dead: bool,
    /// How many it has started.
    started: Cell<usize>,
    /// It refuses more than these.
    most: usize,
}

impl Several {
    fn of(ways: &[&[Phase]]) -> Self {
        Self {
            ways: ways.iter().map(|way| way.to_vec()).collect(),
            looks: RefCell::new(vec![0; ways.len()]),
            ended: RefCell::default(),
            is_dead: false,
            started: Cell::new(0),
            most: usize::MAX,
        }
    }

    fn number(id: &InstanceId) -> usize {
        id.as_str().strip_prefix("i-").unwrap().parse().unwrap()
    }

    fn goes(&self, clock: &Stepped) -> Result<Vec<Followed>, Box<Fault>> {
        let tokens: Vec<Token> = (0..self.ways.len()).map(|number| Token::of(number as u128)).collect();
        follow(self, &tokens, PACE, clock, &|_| {})
    }

    fn ended_at_once(&self) -> Vec<String> {
        let ended = self.ended.borrow();
        ended.iter().filter(|(_, how)| *how == Ending::AtOnce).map(|(id, _)| id.clone()).collect()
    }
}

impl Manager for Several {
    fn kind(&self) -> ManagerKind {
        ManagerKind::OpenNebula
    }

    fn phases(&self) -> &'static [Phase] {
        &Phase::ALL
    }

    fn version(&self) -> Result<Option<String>, ManagerError> {
        Ok(None)
    }

    fn ask(&self, _token: &Token) -> Result<InstanceId, ManagerError> {
        let number = self.started.get();
        if number >= self.most {
            return Err(ManagerError::NotUnderstood("no more".to_owned()));
        }
        self.started.set(number + 1);
        Ok(InstanceId::read(&format!("i-{number}")).unwrap())
    }

    fn find(&self, _token: &Token) -> Result<Option<InstanceId>, ManagerError> {
        Ok(None)
    }

    fn look(&self, id: &InstanceId) -> Look {
        if self.ended_at_once().contains(&id.to_string()) {
            return if self.is_dead { Err(dead()) } else { seen(Phase::Done, "DONE") };
        }
        let number = Self::number(id);
        let at = self.looks.borrow()[number];
        self.looks.borrow_mut()[number] += 1;
        let way = &self.ways[number];
        let phase = way[at.min(way.len() - 1)];
        seen(phase, phase.name())
    }

    fn end(&self, id: &InstanceId, how: Ending) -> Result<(), ManagerError> {
        self.ended.borrow_mut().push((id.to_string(), how));
        if self.is_dead { Err(dead()) } else { Ok(()) }
    }

    fn by_hand(&self, id: &InstanceId) -> String {
        format!("end {id}")
    }

    fn find_by_hand(&self, token: &Token) -> String {
        format!("find {token}")
    }
}

#[test]
fn several_are_asked_for_at_once_and_told_to_end_when_the_last_runs() {
    use Phase::*;
    let quick: &[Phase] = &[Running, Running, Running, Running, Done];
    let slow: &[Phase] = &[Pending, Transfer, Boot, Running, Shutdown, Done];
    let several = Several::of(&[quick, slow, quick]);
    let followed = several.goes(&Stepped::default()).unwrap();
    let ids: Vec<&str> = followed.iter().map(|of| of.id.as_str()).collect();
    assert_eq!(ids, ["i-0", "i-1", "i-2"]);
    assert_eq!(followed[1].token, Token::of(1));
    let begin_ns = |number: usize, phase| {
        let begins = &followed[number].begins;
        begins.iter().find(|begin: &&Begin| begin.phase == phase).unwrap().ns
    };
    assert!(begin_ns(0, Running) < begin_ns(1, Transfer), "one clock for all");
    for number in 0..3 {
        assert_eq!(begin_ns(number, Pending), 0);
        assert!(begin_ns(number, Shutdown) > begin_ns(1, Running), "the last runs");
        assert!(begin_ns(number, Done) > begin_ns(number, Shutdown));
    }
    let told = several.ended.borrow();
    assert!(told.len() == 3 && told.iter().all(|(_, how)| *how == Ending::Usual), "{told:?}");
}

#[test]
fn what_goes_wrong_with_one_ends_all() {
    use Phase::*;
    let several = Several::of(&[&[Running], &[Boot, Pending], &[Pending]]);
    let fault = several.goes(&Stepped::default()).unwrap_err();
    assert_eq!((fault.phase, fault.id.as_ref().unwrap().as_str()), (Boot, "i-1"));
    insta::assert_snapshot!(fault.to_string(), @r"
    instance i-1: the manager put the instance back from boot to pending
      instance i-1 was ended; nothing is left on the manager
      instance i-0 was ended; nothing is left on the manager
      instance i-2 was ended; nothing is left on the manager
    ");
    assert!(!fault.leaves_something());
    assert_eq!(several.ended_at_once(), ["i-0", "i-1", "i-2"]);
    // One that runs may end by itself while others are on their way.
    let several = Several::of(&[&[Running, Done], &[Pending]]);
    let fault = several.goes(&Stepped::default()).unwrap_err();
    assert!(matches!(fault.cause, FaultCause::EndedByItself { .. }), "{fault}");
    let several = Several { most: 2, ..Several::of(&[&[Running], &[Running], &[Running]]) };
    let fault = several.goes(&Stepped::default()).unwrap_err();
    assert_eq!((fault.phase, &fault.id), (Pending, &None));
    assert_eq!(several.ended_at_once(), ["i-0", "i-1"], "one that was not started is not ended");
}

#[test]
fn of_a_dead_manager_every_instance_is_named_and_it_is_waited_for_once() {
    use Phase::*;
    let several = Several { is_dead: true, ..Several::of(&[&[Boot, Pending], &[Boot], &[Boot], &[Boot]]) };
    let clock = Stepped::default();
    let fault = several.goes(&clock).unwrap_err();
    assert!(fault.leaves_something() && fault.others.len() == 3);
    let said = fault.to_string();
    for id in ["i-0", "i-1", "i-2", "i-3"] {
        assert!(said.contains(&format!("instance {id} MAY STILL BE THERE")), "{said}");
        assert!(said.contains(&format!("end it with: end {id}")), "{said}");
    }
    assert!(clock.now_ns() < 12 * S, "{}", clock.now_ns());
}

#[test]
fn an_interrupt_ends_all_of_them() {
    let several = Several::of(&[&[Phase::Pending], &[Phase::Running]]);
    let clock = Stepped { interrupt_after: Cell::new(Some(2)), ..Stepped::default() };
    let fault = several.goes(&clock).unwrap_err();
    assert_eq!(fault.cause, FaultCause::Interrupted);
    assert_eq!(several.ended_at_once(), ["i-0", "i-1"]);
    assert!(!fault.leaves_something());
}
