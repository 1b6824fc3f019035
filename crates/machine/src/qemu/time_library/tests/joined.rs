//! Two machines that a link joins. The tests play both libraries, the readers of both agents' answers, and the link's server.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use nestor_link::{End, PortIndex};
use nestor_link_server::control::{LinkRequest, LinkResponse};

use super::*;
use crate::connection::Watch as _;

/// What the link is asked where the upper machine is on its way.
fn upper_waits() -> LinkRequest {
    LinkRequest::Wake { waiting: vec![PortIndex::from(End::Upper)] }
}

/// A time that no test comes to.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// A machine that a library stops. Its agent's answers have no bytes, so that each happens at once.
struct Played {
    keeper: TimeKeeper,
    library: UnixStream,
    /// What keeps the reader waiting for answers.
    agent: UnixStream,
}

impl Played {
    /// One that runs, and of which nothing was asked.
    fn new() -> Self {
        let (heard, library) = UnixStream::pair().unwrap();
        let (answers, agent) = UnixStream::pair().unwrap();
        let keeper = TimeKeeper::of_loaded();
        keep_time(&keeper, heard, HELLO).unwrap();
        let mut reader = Watched::new(answers, keeper.clone());
        std::thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        Self { keeper, library, agent }
    }

    fn say(&mut self, what: FromLibrary) {
        self.library.write_all(&what.encode()).unwrap();
    }

    /// The machine stops.
    fn stand(&mut self) {
        self.say(FromLibrary::Held { now_ns: 0, written: 0, instructions: Some(Instructions::default()) });
    }

    fn mark(&mut self, host_user: u64) {
        self.say(FromLibrary::Marked(Instructions { host_user, ..Instructions::default() }));
    }

    /// Waits until all that the library has said was heard.
    fn await_heard(&mut self) {
        self.mark(0);
        while self.keeper.take_instructions(Instant::now()).marks.is_empty() {
            std::thread::yield_now();
        }
    }

    /// Waits until it goes on; the number of bytes that were sent to it by then.
    fn gone_on(&mut self) -> u64 {
        let mut bytes = [0; MESSAGE_BYTES];
        self.library.read_exact(&mut bytes).unwrap();
        match FromController::decode(&bytes) {
            Some(FromController::Go { sent }) => sent,
            other => panic!("it was to go on, and heard {other:?}"),
        }
    }

    /// Whether it was told nothing so far.
    fn is_left_alone(&mut self) -> bool {
        self.library.set_nonblocking(true).unwrap();
        let nothing = self.library.read(&mut [0; 1]).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock);
        self.library.set_nonblocking(false).unwrap();
        nothing
    }

    fn marks(&self, deadline: Instant) -> Vec<u64> {
        self.keeper.take_instructions(deadline).marks.iter().map(|mark| mark.host_user).collect()
    }
}

/// The control socket of a link's server.
struct PlayedLink {
    folder: tempfile::TempDir,
    /// What is asked after the request to join.
    asked: Receiver<LinkRequest>,
    answers: Sender<LinkResponse>,
}

impl PlayedLink {
    /// One that answers so when it is to join machines.
    fn new(joins: LinkResponse) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("control")).unwrap();
        let (asks, asked) = channel();
        let (answers, to_answer) = channel();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            for line in BufReader::new(&stream).lines() {
                let answer = match serde_json::from_str(&line.unwrap()).unwrap() {
                    LinkRequest::Join => joins.clone(),
                    other => {
                        asks.send(other).unwrap();
                        let Ok(answer) = to_answer.recv() else { return };
                        answer
                    }
                };
                writeln!(&stream, "{}", serde_json::to_string(&answer).unwrap()).unwrap();
            }
        });
        Self { folder, asked, answers }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("control")
    }
}

/// Both ends of a link, at which both machines stand.
fn joined() -> (Played, Played, PlayedLink) {
    let (mut lower, mut upper) = (Played::new(), Played::new());
    let link = PlayedLink::new(LinkResponse::Done);
    lower.stand();
    upper.stand();
    lower.keeper.join(&[&upper.keeper], &link.path(), Instant::now() + LONG).unwrap();
    (lower, upper, link)
}

/// The same, after the lower machine has answered a request of 10 bytes, for which both went on. The upper one has not stopped since.
fn joined_and_upper_runs() -> (Played, Played, PlayedLink) {
    let (mut lower, mut upper, link) = joined();
    lower.keeper.asked(10);
    assert_eq!((lower.gone_on(), upper.gone_on()), (10, 0));
    lower.say(FromLibrary::Given { read: 10 });
    lower.keeper.answered();
    lower.stand();
    lower.await_heard();
    (lower, upper, link)
}

#[test]
fn while_one_works_the_other_goes_on_whenever_it_stands() {
    let (mut lower, mut upper, link) = joined();
    assert!(lower.is_left_alone() && upper.is_left_alone());
    lower.keeper.asked(10);
    assert_eq!((lower.gone_on(), upper.gone_on()), (10, 0));
    lower.say(FromLibrary::Given { read: 10 });
    lower.await_heard();
    upper.stand();
    assert_eq!(upper.gone_on(), 0, "the lower one still works");
    lower.keeper.answered();
    for machine in [&mut lower, &mut upper] {
        machine.stand();
        machine.await_heard();
        assert!(machine.is_left_alone());
    }
    assert!(upper.keeper.await_rest(far()));
    assert_eq!(link.asked.try_recv(), Err(TryRecvError::Empty), "whoever stands does not wait at the link");
}

#[test]
fn who_waits_at_the_link_is_given_its_request_before_the_other_goes_on() {
    let (mut lower, mut upper, _link) = joined_and_upper_runs();
    upper.keeper.asked(20);
    assert!(lower.is_left_alone(), "the request is on its way");
    upper.say(FromLibrary::Given { read: 19 });
    upper.await_heard();
    assert!(lower.is_left_alone(), "a part of it is");
    upper.say(FromLibrary::Given { read: 20 });
    assert_eq!(lower.gone_on(), 10);
    assert!(upper.is_left_alone(), "it has not stopped");
}

#[test]
fn rest_is_when_the_link_says_that_the_one_that_runs_waits_there() {
    let (lower, _upper, link) = joined_and_upper_runs();
    std::thread::scope(|scope| {
        let rests = scope.spawn(|| lower.keeper.await_rest(far()));
        for waits in [false, false, true] {
            assert_eq!(link.asked.recv().unwrap(), upper_waits());
            link.answers.send(LinkResponse::Waits { waits }).unwrap();
        }
        assert!(rests.join().unwrap());
    });
    assert_eq!(link.asked.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn rest_is_not_waited_for_where_the_links_server_is_gone() {
    let (lower, _upper, link) = joined_and_upper_runs();
    let PlayedLink { folder: _folder, asked, answers } = link;
    drop(answers);
    assert!(lower.keeper.await_rest(far()));
    assert_eq!(asked.recv(), Ok(upper_waits()));
}

#[test]
fn who_is_gone_is_not_waited_for() {
    let (mut lower, upper, _link) = joined_and_upper_runs();
    upper.keeper.asked(20);
    assert!(lower.is_left_alone());
    // It dies with a request that it was not given, in the middle of an answer.
    (&upper.agent).write_all(&[0]).unwrap();
    drop(upper);
    assert!(lower.keeper.await_rest(far()));
    lower.keeper.asked(30);
    assert_eq!(lower.gone_on(), 40);
    lower.say(FromLibrary::Given { read: 40 });
    lower.keeper.answered();
    lower.stand();
    lower.await_heard();
    assert!(lower.is_left_alone(), "nothing is to come from the other");
}

#[test]
fn what_one_has_marked_is_there_when_the_other_stands() {
    let (lower, mut upper, _link) = joined_and_upper_runs();
    lower.marks(Instant::now());
    upper.mark(7);
    let mut taken = Vec::new();
    while taken.is_empty() {
        // Until it was heard, at once: the upper one runs, but has executed all that it can.
        taken = upper.marks(Instant::now() + LONG);
    }
    assert_eq!(taken, [7]);
    assert!(lower.marks(Instant::now() + LONG).is_empty(), "marks are of one machine");
}

#[test]
fn marks_are_waited_for_until_one_of_both_stands() {
    let (mut lower, mut upper, _link) = joined();
    lower.keeper.asked(10);
    assert_eq!((lower.gone_on(), upper.gone_on()), (10, 0));
    lower.say(FromLibrary::Given { read: 10 });
    lower.keeper.answered();
    std::thread::scope(|scope| {
        let keeper = &lower.keeper;
        let taken = scope.spawn(|| keeper.take_instructions(Instant::now() + LONG));
        for host_user in [7, 9] {
            let marked = FromLibrary::Marked(Instructions { host_user, ..Instructions::default() });
            (&lower.library).write_all(&marked.encode()).unwrap();
        }
        let held = FromLibrary::Held { now_ns: 0, written: 0, instructions: None };
        (&lower.library).write_all(&held.encode()).unwrap();
        let taken = taken.join().unwrap();
        assert_eq!(taken.marks.iter().map(|mark| mark.host_user).collect::<Vec<_>>(), [7, 9]);
        assert_eq!(taken.why_not, Some(WhyNotCounted::NotLoaded), "the library says that it counts nothing");
    });
}

#[test]
fn machines_that_run_and_those_that_are_joined_cannot_be_joined() {
    let (mut lower, upper) = (Played::new(), Played::new());
    let link = PlayedLink::new(LinkResponse::Done);
    lower.stand();
    let late = lower.keeper.join(&[&upper.keeper], &link.path(), Instant::now()).unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    let (lower, upper, _link) = joined();
    let mut third = Played::new();
    third.stand();
    for (one, other) in [(&lower, &third), (&third, &upper)] {
        let link = PlayedLink::new(LinkResponse::Done);
        let refused = one.keeper.join(&[&other.keeper], &link.path(), Instant::now() + LONG).unwrap_err();
        assert_eq!(refused.to_string(), "one of the machines is joined to another already");
    }
}

#[test]
fn machines_that_the_link_does_not_join_go_on_alone() {
    let (mut lower, mut upper) = (Played::new(), Played::new());
    let link = PlayedLink::new(LinkResponse::Failed { reason: "one of them is not up".into() });
    lower.stand();
    upper.stand();
    let refused = lower.keeper.join(&[&upper.keeper], &link.path(), Instant::now() + LONG).unwrap_err();
    assert!(refused.to_string().contains("one of them is not up"), "{refused}");
    lower.keeper.asked(10);
    assert_eq!(lower.gone_on(), 10);
    assert!(upper.is_left_alone());
}
