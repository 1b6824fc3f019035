use std::os::fd::AsRawFd as _;

use rustix::fs::fstat;

use super::*;

const SET_MEM_TABLE: u32 = 5;

/// A message with its descriptors.
type Heard = (Message, Vec<OwnedFd>);

/// What a library hears of a front end that says this and goes, what the front end is answered, and how the relay ended.
fn passed(says: impl FnOnce(&UnixStream)) -> (Vec<Heard>, Vec<Message>, io::Result<()>) {
    let ((front, front_end), (back, library)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    says(&front_end);
    front_end.shutdown(Shutdown::Write).unwrap();
    let ended = pass(&front, &back, &StopHandle::new().unwrap());
    drop((front, back));
    let all = |stream: &UnixStream| std::iter::from_fn(|| receive(stream).unwrap()).collect::<Vec<_>>();
    let answers = all(&front_end).into_iter().map(|(message, _)| message).collect();
    (all(&library), answers, ended)
}

fn enabling(queue: u32, is_enabled: u32, flags: u32) -> Message {
    Message::of(SET_VRING_ENABLE, flags, [queue, is_enabled].map(u32::to_le_bytes).as_flattened())
}

fn features() -> Message {
    Message::of(SET_FEATURES, VERSION, &[1; 8])
}

/// Requests, and of those that enable queues, which and whether.
fn told(heard: &[Heard]) -> Vec<(u32, [u32; 2])> {
    let numbers = |message: &Message| match message.request {
        SET_VRING_ENABLE => message.numbers(),
        _ => [0, 0],
    };
    heard.iter().map(|(message, _)| (message.request, numbers(message))).collect()
}

#[test]
fn queues_that_are_enabled_too_early_are_enabled_after_the_features_and_again_after_others() {
    let (heard, answers, ended) = passed(|front| {
        let messages =
            [enabling(0, 1, VERSION), enabling(1, 1, VERSION), enabling(1, 0, VERSION), features()];
        messages.iter().for_each(|message| message.send(front, &[]).unwrap());
        enabling(1, 1, VERSION).send(front, &[]).unwrap();
        features().send(front, &[]).unwrap();
    });
    ended.unwrap();
    let (first, second) = ((SET_VRING_ENABLE, [0, 1]), (SET_VRING_ENABLE, [1, 1]));
    let known = (SET_FEATURES, [0, 0]);
    assert_eq!(told(&heard), [known, first, (SET_VRING_ENABLE, [1, 0]), second, known, first, second]);
    assert!(answers.is_empty(), "nobody waits for one");
}

#[test]
fn who_waits_for_an_answer_about_a_queue_gets_it_from_the_relay() {
    let (heard, answers, ended) = passed(|front| {
        enabling(0, 1, VERSION | NEEDS_REPLY).send(front, &[]).unwrap();
    });
    ended.unwrap();
    assert!(heard.is_empty());
    let answers: Vec<_> = answers.iter().map(|m| (m.request, m.flags, m.payload.as_slice())).collect();
    assert_eq!(answers, [(SET_VRING_ENABLE, VERSION | REPLY, [0; 8].as_slice())]);
}

#[test]
fn other_messages_pass_as_they_are_with_their_descriptors() {
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    let payload: Vec<u8> = (0..=255).cycle().take(MOST_PAYLOAD_BYTES).collect();
    let (heard, _, ended) = passed(|front| {
        let descriptors = [file.try_clone().unwrap(), file.try_clone().unwrap()];
        Message::of(SET_MEM_TABLE, VERSION | NEEDS_REPLY, &payload).send(front, &descriptors).unwrap();
        Message::of(SET_MEM_TABLE, VERSION, &[]).send(front, &[]).unwrap();
    });
    ended.unwrap();
    let [(first, descriptors), (second, none)] = heard.as_slice() else { panic!("two messages") };
    assert_eq!((first.flags, &first.payload), (VERSION | NEEDS_REPLY, &payload));
    assert!(second.payload.is_empty() && none.is_empty());
    assert_eq!(descriptors.len(), 2);
    for descriptor in descriptors {
        assert!(descriptor.as_raw_fd() != file.as_raw_fd());
        assert_eq!(fstat(descriptor).unwrap().st_ino, fstat(&file).unwrap().st_ino);
    }
}

#[test]
fn what_is_no_message_ends_the_connection() {
    let header = |length: u32| [SET_FEATURES, VERSION, length].map(u32::to_le_bytes).as_flattened().to_vec();
    let too_long = header(u32::try_from(MOST_PAYLOAD_BYTES).unwrap() + 1);
    let endings = [
        (too_long, io::ErrorKind::InvalidData),
        (header(u32::MAX), io::ErrorKind::InvalidData),
        (header(8), io::ErrorKind::UnexpectedEof),
        (header(8)[..5].to_vec(), io::ErrorKind::UnexpectedEof),
    ];
    for (bytes, kind) in endings {
        let (heard, _, ended) = passed(|mut front| front.write_all(&bytes).unwrap());
        assert_eq!((heard.len(), ended.unwrap_err().kind()), (0, kind));
    }
    // Numbers that are not there are zeros, and nothing is enabled for the library before it knows the features.
    let (heard, _, ended) =
        passed(|front| Message::of(SET_VRING_ENABLE, VERSION, &[1]).send(front, &[]).unwrap());
    ended.unwrap();
    assert!(heard.is_empty());
}

#[test]
fn a_front_end_that_goes_or_talks_nonsense_ends_its_connection_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let [before, behind] = ["before", "behind"].map(|name| folder.path().join(name));
    let [listener, library] = [&before, &behind].map(|path| UnixListener::bind(path).unwrap());
    let stop = StopHandle::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| relay(&listener, &behind, &stop));
        for talks_nonsense in [false, true] {
            let mut front = UnixStream::connect(&before).unwrap();
            let (mut back, _) = library.accept().unwrap();
            back.write_all(b"answer").unwrap();
            let mut answer = [0; 6];
            front.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"answer");
            if talks_nonsense {
                front.write_all(&[0xff; HEADER_BYTES]).unwrap();
                assert_eq!(front.read(&mut answer).unwrap(), 0, "it is hung up on");
            }
            drop(front);
            assert_eq!(back.read(&mut answer).unwrap(), 0, "the library hears that it has gone");
        }
        stop.stop();
    });
}
