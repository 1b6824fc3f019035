//! How much a message may hold once it is decoded: a few bytes of a frame can become many in memory.
//!
//! A frame is walked through before anything is made of it. So a message takes no more memory than its frame, and less than
//! [`MOST_VALUES`] small values besides. What is known of single answers is checked after that.

use crate::message::{Answer, Facts};

/// Most values (numbers, texts, lists, entries) of one message. The largest that are sent are command lines and the packages
/// of a machine, a few thousand.
pub const MOST_VALUES: usize = 100_000;
/// How deep values may be nested: each machine on the way to the receiver of a request adds two levels.
pub const MOST_DEPTH: usize = 64;
/// Longest text of a message. Outputs and files are bytes and not texts.
pub const MOST_TEXT_BYTES: usize = 1 << 20;
/// Longest text of a fact and longest name of a device: the kernel's longest path.
pub const MOST_FACT_BYTES: usize = 4096;
/// Most file systems that a machine can say it has.
pub const MOST_FILE_SYSTEMS: usize = 256;

/// Refuses a message that would take much more memory than its frame.
///
/// # Errors
/// Which limit it exceeds, or that it is not MessagePack.
pub fn check_frame(bytes: &[u8]) -> Result<(), String> {
    // How many values are still to come at each level.
    let mut levels = vec![1_usize];
    let mut values = 0_usize;
    let mut rest = bytes;
    while let Some(left) = levels.last_mut() {
        if *left == 0 {
            levels.pop();
            continue;
        }
        *left -= 1;
        values += 1;
        if values > MOST_VALUES {
            return Err(format!("it holds over {MOST_VALUES} values"));
        }
        let head = Head::read(&mut rest).ok_or("it is cut off or not MessagePack")?;
        if head.text && head.payload > MOST_TEXT_BYTES {
            return Err(format!("it holds a text of {} bytes, over {MOST_TEXT_BYTES}", head.payload));
        }
        rest = rest.get(head.payload..).ok_or("it is cut off")?;
        if head.within > 0 {
            if levels.len() > MOST_DEPTH {
                return Err(format!("its values are nested over {MOST_DEPTH} deep"));
            }
            levels.push(head.within);
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("{} bytes follow it", rest.len())) }
}

/// The beginning of a value: <https://github.com/msgpack/msgpack/blob/master/spec.md>.
struct Head {
    /// Bytes that follow and are not values.
    payload: usize,
    /// Values that lie within.
    within: usize,
    text: bool,
}

impl Head {
    fn read(rest: &mut &[u8]) -> Option<Self> {
        let (&first, after) = rest.split_first()?;
        *rest = after;
        let mut length = |bytes: usize| -> Option<usize> {
            let (digits, after) = rest.split_at_checked(bytes)?;
            *rest = after;
            digits
                .iter()
                .try_fold(0_usize, |sum, &digit| sum.checked_mul(256)?.checked_add(usize::from(digit)))
        };
        let (mut payload, mut within, mut text) = (0, 0, false);
        match first {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => {}
            0x80..=0x8f => within = 2 * usize::from(first & 0x0f),
            0x90..=0x9f => within = usize::from(first & 0x0f),
            0xa0..=0xbf => (payload, text) = (usize::from(first & 0x1f), true),
            0xc1 => return None,
            0xc4..=0xc6 => payload = length(1 << (first - 0xc4))?,
            0xc7..=0xc9 => payload = length(1 << (first - 0xc7))?.checked_add(1)?,
            0xca => payload = 4,
            0xcb => payload = 8,
            0xcc..=0xcf => payload = 1 << (first - 0xcc),
            0xd0..=0xd3 => payload = 1 << (first - 0xd0),
            0xd4..=0xd8 => payload = 1 + (1 << (first - 0xd4)),
            0xd9..=0xdb => (payload, text) = (length(1 << (first - 0xd9))?, true),
            0xdc | 0xdd => within = length(2 << (first - 0xdc))?,
            0xde | 0xdf => within = length(2 << (first - 0xde))?.checked_mul(2)?,
        }
        Some(Self { payload, within, text })
    }
}

/// Refuses an answer that says more of a machine than there is to say.
///
/// # Errors
/// Which part of it is too long.
pub fn check_answer(answer: &Answer) -> Result<(), String> {
    match answer {
        Answer::Facts(facts) => check_facts(facts),
        Answer::Device(name) => check_text("a name", name),
        _ => Ok(()),
    }
}

fn check_facts(facts: &Facts) -> Result<(), String> {
    let Facts { name, kernel, cpu_model, hypervisor, work_directory, binary, file_systems, .. } = facts;
    let hypervisor = hypervisor.as_deref().unwrap_or_default();
    let texts = [
        ("its name", name.as_str()),
        ("its kernel", kernel),
        ("its processor", cpu_model),
        ("its hypervisor", hypervisor),
        ("its work directory", work_directory),
        ("its binary", binary),
    ];
    texts.iter().try_for_each(|(what, text)| check_text(what, text))?;
    if file_systems.len() > MOST_FILE_SYSTEMS {
        return Err(format!("it reports {} file systems, over {MOST_FILE_SYSTEMS}", file_systems.len()));
    }
    file_systems.iter().try_for_each(|name| check_text("a file system", name))
}

fn check_text(what: &str, text: &str) -> Result<(), String> {
    if text.len() <= MOST_FACT_BYTES {
        return Ok(());
    }
    Err(format!("{what} has {} bytes, over {MOST_FACT_BYTES}", text.len()))
}

/// Refuses a JSON text that is longer, or would take more memory, than a machine's results need.
///
/// # Errors
/// Which of the two limits it exceeds.
pub fn check_json(text: &str, most_bytes: usize, most_values: usize) -> Result<(), String> {
    if text.len() > most_bytes {
        return Err(format!("it has {} bytes, over {most_bytes}", text.len()));
    }
    let (mut in_text, mut escaped) = (false, false);
    let mut values = 1_usize;
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    if values > most_values { Err(format!("it holds over {most_values} values")) } else { Ok(()) }
}

/// As much of the beginning of a message to people as a frame may hold.
pub(crate) fn clipped(mut text: String) -> String {
    let most = MOST_TEXT_BYTES / 2;
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Command, Envelope, Finished, Request, read_frame, write_frame};
    use crate::place::MachinePlace;
    use crate::refusal::{Cause, Refusal};
    use nestor_stack::MachineIndex;
    use proptest::prelude::*;

    fn framed(bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    }

    /// An answer whose facts have this many file systems without a name.
    fn facts_with(file_systems: u32) -> Vec<u8> {
        let facts = Facts { file_systems: vec!["x".to_owned()], ..Facts::default() };
        let whole = rmp_serde::to_vec_named(&Envelope { number: 1, body: Answer::Facts(facts) }).unwrap();
        let list = [&[0xdd][..], &file_systems.to_be_bytes(), &vec![0xa0; file_systems as usize]].concat();
        let at = whole.windows(3).position(|w| w == [0x91, 0xa1, b'x']).unwrap();
        [&whole[..at], &list, &whole[at + 3..]].concat()
    }

    #[test]
    fn facts_that_would_take_far_more_memory_than_their_frame_are_refused_before_they_are_made() {
        let error = read_frame::<Envelope<Answer>>(framed(&facts_with(24 << 20)).as_slice()).unwrap_err();
        assert!(error.to_string().contains("over 100000 values"), "{error}");
        let few: Envelope<Answer> = read_frame(framed(&facts_with(300)).as_slice()).unwrap();
        assert!(check_answer(&few.body).unwrap_err().contains("300 file systems, over 256"));
    }

    #[test]
    fn a_fact_that_is_longer_than_any_is_refused() {
        let long = "x".repeat(MOST_FACT_BYTES + 1);
        let facts = [
            Facts { name: long.clone(), ..Facts::default() },
            Facts { kernel: long.clone(), ..Facts::default() },
            Facts { cpu_model: long.clone(), ..Facts::default() },
            Facts { hypervisor: Some(long.clone()), ..Facts::default() },
            Facts { work_directory: long.clone(), ..Facts::default() },
            Facts { binary: long.clone(), ..Facts::default() },
            Facts { file_systems: vec![long.clone()], ..Facts::default() },
        ];
        for facts in facts {
            assert!(check_answer(&Answer::Facts(facts)).is_err());
        }
        assert!(check_answer(&Answer::Device(long)).is_err());
        assert_eq!(check_answer(&Answer::Facts(Facts::default())), Ok(()));
    }

    #[test]
    fn values_too_deep_in_one_another_and_texts_too_long_are_refused() {
        let deep = [vec![0x91; 1000], vec![0xc0]].concat();
        assert!(check_frame(&deep).unwrap_err().contains("64 deep"));
        let long = rmp_serde::to_vec("x".repeat(MOST_TEXT_BYTES + 1).as_str()).unwrap();
        assert!(check_frame(&long).unwrap_err().contains("a text of 1048577 bytes"));
        assert!(check_frame(&[0xdd, 0xff, 0xff, 0xff, 0xff]).is_err(), "a list that is not there");
        assert!(check_frame(&[0xc0, 0xc0]).is_err(), "two messages");
        assert!(check_frame(&[]).is_err());
    }

    #[test]
    fn json_is_bounded_by_its_length_and_by_its_values() {
        assert_eq!(check_json(r#"{"a,[{": [1, 2, "\","]}"#, 100, 5), Ok(()));
        assert!(check_json("[1,1,1,1]", 100, 4).is_err());
        assert!(check_json("[1,1,1,1]", 8, 100).is_err());
    }

    #[test]
    fn what_went_wrong_always_fits_a_frame() {
        let clipped = clipped("ü".repeat(MOST_TEXT_BYTES));
        let mut wire = Vec::new();
        write_frame(
            &mut wire,
            &Envelope { number: 1, body: Answer::Failed(Refusal::new(Cause::Other, clipped)) },
        )
        .unwrap();
        assert!(read_frame::<Envelope<Answer>>(wire.as_slice()).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_sent_is_within_the_limits(
            argv in prop::collection::vec("\\PC{0,300}", 0..40), stdin in prop::collection::vec(any::<u8>(), 0..70_000),
        ) {
            let command = Command { stdin: stdin.clone(), ..Command::new(argv) };
            let request = Request::Forward {
                machine: MachinePlace::Root(MachineIndex::OUTERMOST), timeout_ms: u64::MAX, request: Box::new(Request::Run(command)),
            };
            let sent = rmp_serde::to_vec_named(&Envelope { number: u64::MAX, body: request }).unwrap();
            prop_assert_eq!(check_frame(&sent), Ok(()));
            let finished = Finished { exit_code: Some(-1), stdout: stdin, ..Finished::default() };
            let sent = rmp_serde::to_vec_named(&Envelope { number: 1, body: Answer::Finished(finished) }).unwrap();
            prop_assert_eq!(check_frame(&sent), Ok(()));
        }

        #[test]
        fn any_bytes_are_walked_through(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = check_frame(&bytes);
        }
    }
}
