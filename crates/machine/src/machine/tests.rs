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

#[test]
fn what_is_done_at_once_has_an_answer_for_each() {
    let run = || Command::new(["true"]);
    let places = [MachinePlace::Guest(nestor_stack::MachineIndex::OUTERMOST); 2];
    let finished = |begin_ns| crate::message::TimedAnswer {
        begin_ns,
        end_ns: begin_ns + 5,
        answer: Answer::Finished(Finished { exit_code: Some(0), ..Finished::default() }),
    };
    let machine = machine_that(move |request| match request {
        Request::Together { lines } => {
            Answer::Together((1..).zip(&lines).map(|(begin_ns, _)| vec![finished(begin_ns)]).collect())
        }
        _ => panic!("something else was asked"),
    });
    let commands = || places.map(|place| (place, run())).to_vec();
    let ran = run_inside(vec![(&machine, commands())]).unwrap().remove(0);
    let times = |timed: &Timed<Finished>| (timed.begin_ns, timed.end_ns, timed.result.is_ok());
    assert_eq!(ran.iter().map(times).collect::<Vec<_>>(), [(1, 6, true), (2, 7, true)]);
    let booted = shut_down_machines(vec![(&machine, places.to_vec())], Duration::from_secs(1));
    assert!(matches!(booted, Err(MachineError::OutOfTurn { .. })), "a program is no end of a machine");
    for answers in [vec![], vec![vec![], vec![]]] {
        let mut answers = Some(answers);
        let machine = machine_that(move |_| Answer::Together(answers.take().unwrap_or_default()));
        let error = run_inside(vec![(&machine, commands())]).unwrap_err();
        assert!(matches!(error, MachineError::OutOfTurn { .. }), "{error}");
    }
}

#[test]
fn on_several_machines_all_lines_are_begun_before_the_end_of_any_is_waited_for() {
    let asked: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let machine = |name: &'static str| {
        let asked = Arc::clone(&asked);
        machine_that(move |request| {
            let (what, answer) = match request {
                Request::BeginTogether { lines } => (format!("begin {}", lines.len()), Answer::Begun(7)),
                Request::EndTogether { begun, .. } => {
                    let finished =
                        || Answer::Finished(Finished { exit_code: Some(0), ..Finished::default() });
                    let timed = || crate::message::TimedAnswer { begin_ns: 1, end_ns: 2, answer: finished() };
                    let lines = if name == "first" { 2 } else { 1 };
                    (format!("end {begun}"), Answer::Together((0..lines).map(|_| vec![timed()]).collect()))
                }
                _ => panic!("something else was asked"),
            };
            asked.lock().unwrap().push(format!("{name}: {what}"));
            answer
        })
    };
    let (first, second) = (machine("first"), machine("second"));
    let line = || vec![Command::new(["true"])];
    let ran = run_together(vec![(&first, vec![line(), line()]), (&second, vec![line()])]).unwrap();
    assert_eq!(ran.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    let expected = ["first: begin 2", "second: begin 1", "first: end 7", "second: end 7"];
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[test]
fn who_asks_for_several_things_at_once_waits_for_the_longest_line() {
    let run = |seconds| Request::Run(Command::new(["true"]).timeout_s(seconds));
    let lines = vec![vec![run(100), run(200)], vec![run(250)]];
    let limit = request::own_limit(&Request::Together { lines });
    assert!(limit >= Duration::from_secs(300) && limit < Duration::from_secs(500), "{limit:?}");
}
