use super::*;
use proptest::prelude::*;

#[test]
fn a_request_survives_the_wire() {
    let mut wire = Vec::new();
    let request = Request::Run(Command::new(["true", "ünï"]).timeout_s(3));
    write_frame(&mut wire, &Envelope { number: 7, body: request }).unwrap();
    let back: Envelope<Request> = read_frame(wire.as_slice()).unwrap();
    assert_eq!(back.number, 7);
    let Request::Run(command) = back.body else { panic!("another request came back") };
    assert_eq!(command.argv, ["true", "ünï"]);
    assert_eq!(command.timeout_ms, 3000);
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
    let error = read_frame::<Envelope<Request>>([0xff; 12].as_slice()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut framed = (bytes.len() as u32).to_be_bytes().to_vec();
        framed.extend_from_slice(&bytes);
        let _ = read_frame::<Envelope<Request>>(framed.as_slice());
        let _ = read_frame::<Envelope<Answer>>(bytes.as_slice());
    }

    #[test]
    fn a_cut_frame_is_the_end_of_the_stream(cut in 0usize..30) {
        let mut wire = Vec::new();
        write_frame(&mut wire, &Envelope { number: 1, body: Request::Unmount { target: "/mnt/a".into() } }).unwrap();
        prop_assume!(cut < wire.len());
        let error = read_frame::<Envelope<Request>>(&wire[..cut]).unwrap_err();
        prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
