use super::*;
use crate::message::{Envelope, PROTOCOL, read_frame, write_frame};
use std::os::unix::net::UnixStream;

/// A machine whose agent answers each request with what `answer` makes of it.
fn machine_that(mut answer: impl FnMut(Request) -> Answer + Send + 'static) -> Machine {
    let (here, mut there) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        write_frame(&mut there, &Envelope { number: 0, body: Answer::Hello { protocol: PROTOCOL } }).unwrap();
        while let Ok(asked) = read_frame::<Envelope<Request>>(&mut there) {
            let body = answer(asked.body);
            write_frame(&mut there, &Envelope { number: asked.number, body }).unwrap();
        }
    });
    let connection = Connection::new(here.try_clone().unwrap(), here);
    Machine::ground(Arc::new(connection), "guest")
}

/// Answers with zeros for ever, as many at once as are asked for.
fn endless_file(request: Request) -> Answer {
    let Request::ReadFile { max_bytes, .. } = request else { panic!("something else was asked") };
    Answer::Bytes(vec![0; usize::try_from(max_bytes).unwrap()])
}

#[test]
fn a_file_without_end_is_fetched_up_to_the_bound_of_who_asks() {
    let machine = machine_that(endless_file);
    let mut copied = Vec::new();
    let error = machine.fetch_file("/proc/endless", &mut copied, 9 << 20).unwrap_err();
    let said = "guest: its file /proc/endless is longer than 9437184 bytes, the most that are read";
    assert_eq!(error.to_string(), said);
    assert_eq!(copied.len(), 8 << 20);
    let error = machine.read_file_up_to("/proc/endless", 9 << 20).unwrap_err();
    assert_eq!(error.to_string(), said);
}

#[test]
fn a_file_of_just_the_bound_is_fetched() {
    let machine = machine_that(|request| {
        let Request::ReadFile { offset, .. } = request else { panic!("something else was asked") };
        Answer::Bytes(vec![7; 6 - usize::try_from(offset).unwrap()])
    });
    let mut copied = Vec::new();
    assert_eq!(machine.fetch_file("/f", &mut copied, 6).unwrap(), 6);
    assert_eq!(machine.read_file_up_to("/f", 6).unwrap(), copied);
    assert!(machine.read_file_up_to("/f", 5).is_err());
}

#[test]
fn more_bytes_than_were_asked_for_are_not_taken() {
    let machine = machine_that(|_| Answer::Bytes(vec![0; 5 << 20]));
    let error = machine.fetch_file("/f", &mut Vec::new(), u64::MAX).unwrap_err();
    assert!(matches!(error, MachineError::OutOfTurn { .. }), "{error}");
}

#[test]
fn an_answer_that_cannot_be_true_ends_the_connection_with_the_reason() {
    let name = "x".repeat(5000);
    let machine = machine_that(move |_| Answer::Facts(Facts { name: name.clone(), ..Facts::default() }));
    let error = machine.facts().unwrap_err().to_string();
    assert!(error.contains("its name has 5000 bytes, over 4096"), "{error}");
}

#[test]
fn an_agent_that_watches_a_machine_is_awaited_beyond_the_limit_but_not_for_ever_in_real_time() {
    let limits = |mut patience: Patience| (0..100).take_while(|_| patience.is_to_be_awaited()).count();
    assert_eq!(limits(Patience { in_virtual_time: false, more: 0 }), 0);
    assert_eq!(limits(Patience { in_virtual_time: false, more: MORE_LIMITS }), 9);
    assert_eq!(limits(Patience { in_virtual_time: true, more: 0 }), 100);
}
