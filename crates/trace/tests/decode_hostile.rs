//! Files that are not traces: cut off, changed, endless, repeated. None may panic or take memory without end, and garbage has to
//! end the reading.

mod traces;

use std::io::{Read, Result as IoResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nestor_trace::TraceError;
use nestor_trace::decode::{Format, Input, MOST_GARBAGE_BYTES, OpenOptions, open_input};
use proptest::prelude::*;
use traces::{Contents, contents, examples, open_bytes};

/// A good beginning and then the same bytes for ever; counts what was read of them.
struct Endless {
    head: Vec<u8>,
    at: usize,
    repeated: Vec<u8>,
    read: Arc<AtomicU64>,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        if self.at < self.head.len() {
            let part = &self.head[self.at..];
            let n = part.len().min(buffer.len());
            buffer[..n].copy_from_slice(&part[..n]);
            self.at += n;
            return Ok(n);
        }
        // Whole repetitions, as far as they fit.
        let length = buffer.len().min(self.repeated.len());
        buffer[..length].copy_from_slice(&self.repeated[..length]);
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

#[test]
fn garbage_without_end_ends_the_reading() {
    let repeated = |bytes: &[u8]| bytes.repeat((64 << 10) / bytes.len());
    let noise: Vec<u8> = (0..4099_u64).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let garbages = [&[0][..], b"\n", b"x", b"no line of a trace\n", b"# \n", &noise].map(repeated);
    for (format, head) in examples() {
        for garbage in &garbages {
            let read = Arc::new(AtomicU64::new(0));
            let source = Endless { head: head.clone(), at: 0, repeated: garbage.clone(), read: read.clone() };
            let opened = open_input(Input::new(source, "endless"), &OpenOptions::default());
            let error = opened.and_then(|trace| contents(trace.source)).map(|_| ()).unwrap_err();
            assert!(matches!(error, TraceError::Format { .. }), "{format}: {error}");
            assert!(error.to_string().starts_with("endless: at byte "), "{format}: {error}");
            let read = read.load(Ordering::Relaxed);
            assert!(
                read <= MOST_GARBAGE_BYTES + (1 << 20),
                "{format}: {read} bytes of {:?}…",
                &garbage[..20]
            );
        }
    }
}

#[test]
fn a_file_of_nothing_but_garbage_is_refused_at_its_beginning() {
    for garbage in [vec![0], b"\n".to_vec(), b"x".to_vec(), b"# \n".to_vec(), b"some words\n".to_vec()] {
        let read = Arc::new(AtomicU64::new(0));
        let source = Endless { head: Vec::new(), at: 0, repeated: garbage, read: read.clone() };
        assert!(open_input(Input::new(source, "endless"), &OpenOptions::default()).is_err());
        assert!(read.load(Ordering::Relaxed) <= 1 << 17);
    }
}

/// Reads as far as it goes.
fn survive(bytes: Vec<u8>) -> Option<Contents> {
    open_bytes(bytes).and_then(|trace| contents(trace.source)).ok()
}

#[test]
fn a_trace_cut_off_anywhere_yields_what_is_whole() {
    for (format, whole) in examples() {
        let all = survive(whole.clone()).unwrap();
        let count = |c: &Contents| c.events.len() + c.requests.len() + c.qemu.len() + c.histograms.len();
        for end in (0..whole.len()).step_by(1 + whole.len() / 50) {
            let Some(part) = survive(whole[..end].to_vec()) else {
                assert!(end < 600, "{format} cut off at {end}");
                continue;
            };
            assert!(count(&part) <= count(&all), "{format} cut off at {end}");
        }
    }
}

fn example() -> impl Strategy<Value = (Format, Vec<u8>)> {
    proptest::sample::select(examples())
}

proptest! {
    #[test]
    fn changed_traces_never_panic(
        (_, mut bytes) in example(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        survive(bytes);
    }

    #[test]
    fn pieces_put_together_anew_never_panic(
        (_, bytes) in example(),
        (_, others) in example(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 1..6),
    ) {
        let mut mixed = Vec::new();
        for (a, b, own) in cuts {
            let from = if own { &bytes } else { &others };
            let (a, b) = (a.index(from.len()), b.index(from.len()));
            mixed.extend(&from[a.min(b)..a.max(b)]);
        }
        let mut behind = bytes.clone();
        behind.extend(&mixed);
        survive(mixed);
        survive(behind);
    }

    #[test]
    fn numbers_too_large_never_panic((_, bytes) in example(), at in any::<prop::sample::Index>(), huge in 0..4_usize) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let numbers: Vec<_> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(i, _)| i).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let i = numbers[at.index(numbers.len())];
        let huge = ["18446744073709551615", "99999999999999999999999", "-9223372036854775808", "4294967296"][huge];
        survive(format!("{}{huge}{}", &text[..i], &text[i + 1..]).into_bytes());
    }
}
