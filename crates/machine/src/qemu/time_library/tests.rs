mod joined;

use std::fs;
use std::sync::Arc;

use super::*;
use crate::connection::Connection;
use crate::message::{Answer, Envelope, PROTOCOL, Request, read_frame, write_frame};
use crate::virtual_time::Watched;

const HELLO: Hello =
    Hello { missing_functions: 0, interrupt_slots: 1, counting: Counting::Possible, has_clock: true };
const LONG: Duration = Duration::from_secs(60);

/// The library's and the agent's ends of a machine's streams.
struct Inside {
    control: UnixStream,
    agent: UnixStream,
    written: u64,
    read: u64,
}

impl Inside {
    /// Says something as the agent and lets time stand.
    fn answer(&mut self, number: u64, body: Answer) {
        self.written += write_frame(&mut self.agent, &Envelope { number, body }).unwrap() as u64;
        self.stand();
    }

    fn stand(&mut self) {
        let held = FromLibrary::Held {
            now_ns: self.written,
            written: self.written,
            instructions: Some(Instructions::default()),
        };
        self.control.write_all(&held.encode()).unwrap();
    }

    /// Waits until time advances; returns the number of bytes for the agent at that moment.
    fn gone_on(&mut self) -> u64 {
        let mut bytes = [0; MESSAGE_BYTES];
        self.control.read_exact(&mut bytes).unwrap();
        match FromController::decode(&bytes).unwrap() {
            FromController::Go { sent } => sent,
            FromController::Stop => panic!("it was to go on"),
        }
    }

    /// Reads a request as the agent; its number.
    fn request(&mut self) -> u64 {
        let envelope: Envelope<Request> = read_frame(&mut self.agent).unwrap();
        self.read += write_frame(std::io::sink(), &envelope).unwrap() as u64;
        envelope.number
    }

    fn stands(&mut self) -> bool {
        self.control.set_nonblocking(true).unwrap();
        let stands = self.control.read(&mut [0; 1]).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock);
        self.control.set_nonblocking(false).unwrap();
        stands
    }
}

fn machine() -> (Connection, TimeKeeper, Inside) {
    let (mut heard, mut control) = UnixStream::pair().unwrap();
    control.write_all(&FromLibrary::Hello(HELLO).encode()).unwrap();
    assert_eq!(greeting(&mut heard, Instant::now() + LONG).unwrap(), HELLO);
    let keeper = TimeKeeper::new();
    keep_time(&keeper, heard, HELLO).unwrap();
    let (ours, agent) = UnixStream::pair().unwrap();
    let reader = Watched::new(ours.try_clone().unwrap(), keeper.clone());
    let connection = Connection::watched(reader, ours, Arc::new(keeper.clone()));
    (connection, keeper, Inside { control, agent, written: 0, read: 0 })
}

#[test]
fn time_stands_from_an_answer_to_the_next_request() {
    let (connection, _keeper, mut inside) = machine();
    inside.answer(0, Answer::Hello { protocol: PROTOCOL });
    connection.wait_hello(LONG).unwrap();
    std::thread::scope(|scope| {
        for round in 0..3 {
            assert!(inside.stands(), "nothing was asked in round {round}");
            let asked = scope.spawn(|| connection.request(Request::Facts, LONG));
            let sent = inside.gone_on();
            let number = inside.request();
            assert_eq!(sent, inside.read, "time goes on with the whole request");
            inside.answer(number, Answer::Done);
            assert!(matches!(asked.join().unwrap(), Ok(Answer::Done)));
        }
    });
}

#[test]
fn time_goes_on_in_the_middle_of_an_answer_and_while_another_is_owed() {
    let (connection, _keeper, mut inside) = machine();
    inside.answer(0, Answer::Hello { protocol: PROTOCOL });
    connection.wait_hello(LONG).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| connection.request(Request::Facts, LONG));
        inside.gone_on();
        let first_number = inside.request();
        let second = scope.spawn(|| connection.request(Request::Facts, LONG));
        let second_number = inside.request();
        inside.answer(second_number, Answer::Done);
        assert_eq!(inside.gone_on(), inside.read, "the first is not answered");
        assert!(matches!(second.join().unwrap(), Ok(Answer::Done)));
        let mut frame = Vec::new();
        write_frame(&mut frame, &Envelope { number: first_number, body: Answer::Done }).unwrap();
        for piece in [&frame[..2], &frame[2..7]] {
            inside.agent.write_all(piece).unwrap();
            inside.written += piece.len() as u64;
            inside.stand();
            assert_eq!(inside.gone_on(), inside.read, "half an answer is none");
        }
        inside.agent.write_all(&frame[7..]).unwrap();
        inside.written += frame.len() as u64 - 7;
        inside.stand();
        assert!(matches!(first.join().unwrap(), Ok(Answer::Done)));
        assert!(inside.stands());
    });
}

#[test]
fn a_machine_is_stopped_when_all_that_was_asked_is_answered() {
    let (connection, keeper, mut inside) = machine();
    inside.answer(0, Answer::Hello { protocol: PROTOCOL });
    connection.wait_hello(LONG).unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| connection.request(Request::Facts, LONG));
        inside.gone_on();
        let number = inside.request();
        keeper.stop();
        inside.answer(number, Answer::Done);
        assert!(matches!(asked.join().unwrap(), Ok(Answer::Done)));
    });
    let mut bytes = [0; MESSAGE_BYTES];
    inside.control.read_exact(&mut bytes).unwrap();
    assert_eq!(FromController::decode(&bytes), Some(FromController::Stop));
}

#[test]
fn marks_that_came_before_an_answer_are_there_when_they_are_asked_for() {
    let (connection, keeper, mut inside) = machine();
    for host_user in [7, 9] {
        let marked = FromLibrary::Marked(Instructions { host_user, ..Instructions::default() });
        inside.control.write_all(&marked.encode()).unwrap();
    }
    inside.answer(0, Answer::Hello { protocol: PROTOCOL });
    connection.wait_hello(LONG).unwrap();
    let taken = keeper.take_instructions(Instant::now() + LONG);
    assert_eq!(taken.why_not, None);
    assert_eq!(taken.marks.iter().map(|mark| mark.host_user).collect::<Vec<_>>(), [7, 9]);
    assert_eq!(keeper.take_instructions(Instant::now()).marks, [], "they are taken once");
}

#[test]
fn the_library_is_written_as_it_is_carried() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(fs::read(write_library(folder.path()).unwrap()).unwrap(), LIBRARY);
}
