//! blktrace's binary form: what is written is read again, whatever the machine; and anything at all is survived.

mod common;

use common::{encoded, event};
use nestor_trace::decode::ReadWarnings;
use nestor_trace::decode::blktrace::{ByteOrder, Encoder, FileReader, MergedReader, Version};
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags};
use nestor_trace::{TraceError, summarize_blktrace};
use proptest::prelude::*;

fn read(bytes: &[u8]) -> Result<(Vec<BlockEvent>, ReadWarnings), TraceError> {
    let mut reader = FileReader::new(bytes, "test");
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    Ok((events, *reader.warnings()))
}

/// The example of blktrace's own documentation would be circular; this is a record as a kernel 6.18 wrote it, by hand.
#[test]
fn a_record_of_a_real_kernel_is_understood() {
    let bytes: [u8; 48] = [
        0x07, 0x74, 0x61, 0x65, 0, 0, 0, 0, 0x84, 0xec, 0x63, 0x03, 0xe6, 0x01, 0, 0, 0x80, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0x01, 0, 0x08, 0, 0x8a, 0x01, 0x16, 0, 0, 0, 0, 0, 0x70, 0, 0x01, 0, 0, 0, 0, 0, 0, 0,
    ];
    let (events, _) = read(&bytes).unwrap();
    let expected = BlockEvent {
        time_ns: 0x1e6_0363_ec84,
        sequence: 0,
        cpu: 1,
        pid: 22,
        device: Device { major: 7, minor: 0 },
        action: Action::Complete,
        direction: Direction::Write,
        flags: Flags::SYNC,
        sector: 128,
        bytes: 65536,
        error: 0,
    };
    assert_eq!(events, [expected]);
}

#[test]
fn names_clocks_and_messages_are_no_events() {
    let encoder = Encoder { order: ByteOrder::Big, version: Version::V7 };
    let at = event(5, Action::Queue, 0, 8);
    let mut bytes = Vec::new();
    encoder.clock(&at, 1_700_000_000_000_000_123, &mut bytes);
    encoder.process(&at, "kworker/u4:1", &mut bytes);
    encoder.event(&at, &mut bytes);
    let mut reader = FileReader::new(bytes.as_slice(), "test");
    assert_eq!(reader.next_event().unwrap(), Some(at));
    assert_eq!(reader.next_event().unwrap(), None);
    let clock = reader.clock().unwrap();
    assert_eq!((clock.time_ns, clock.realtime_ns), (5000, 1_700_000_000_000_000_123));
    assert_eq!(reader.thread_names().get(77), Some("kworker/u4:1"));
}

#[test]
fn an_unfinished_record_at_the_end_is_counted() {
    let events = [event(1, Action::Queue, 0, 8), event(2, Action::Split { new_sector: 4 }, 0, 8)];
    let bytes = encoded(&events, ByteOrder::Little, Version::V7);
    let (read_events, warnings) = read(&bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(read_events, events[..1]);
    assert_eq!(warnings.truncated_bytes, 53);
}

#[test]
fn garbage_between_records_is_skipped_and_counted() {
    let events = [event(1, Action::Queue, 0, 8), event(2, Action::Issue, 0, 8)];
    let mut bytes = encoded(&events[..1], ByteOrder::Little, Version::V7);
    bytes.extend([0x74; 1000]);
    bytes.extend(encoded(&events[1..], ByteOrder::Little, Version::V7));
    let (read_events, warnings) = read(&bytes).unwrap();
    assert_eq!(read_events, events);
    assert_eq!(warnings.skipped_bytes, 1000);
}

#[test]
fn missing_and_disordered_records_are_counted() {
    let numbered = |sequence, time_us| BlockEvent { sequence, ..event(time_us, Action::Queue, 0, 8) };
    let bytes = encoded(&[numbered(1, 5), numbered(4, 3), numbered(5, 6)], ByteOrder::Little, Version::V7);
    let (_, warnings) = read(&bytes).unwrap();
    assert_eq!((warnings.missing_records, warnings.out_of_order), (2, 1));
}

#[test]
fn a_file_of_something_else_is_refused_with_its_name_and_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.blktrace.0");
    std::fs::write(&path, "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n")
        .unwrap();
    let error = summarize_blktrace(&[path], None).unwrap_err().to_string();
    let error = error.replace(&directory.path().display().to_string(), "DIR");
    insta::assert_snapshot!(error, @"DIR/trace.blktrace.0: at byte 0: not a blktrace file: it begins with 20 20 38 2c instead of a record of version 7 or 8; give the files that blktrace wrote (NAME.blktrace.0, …), not blkparse's output");
}

#[test]
fn a_missing_file_is_named() {
    let error = summarize_blktrace(&["/nowhere/trace.blktrace.0".into()], None).unwrap_err();
    insta::assert_snapshot!(error, @"cannot open the trace /nowhere/trace.blktrace.0: No such file or directory (os error 2)");
}

#[test]
fn an_idle_device_is_no_error_but_another_device_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.blktrace.0");
    std::fs::write(&path, "").unwrap();
    let metrics = summarize_blktrace(std::slice::from_ref(&path), Some((8, 16))).unwrap();
    assert_eq!(metrics.remarks, ["no request reached this layer while it was recorded"]);

    std::fs::write(&path, encoded(&[event(1, Action::Queue, 0, 8)], ByteOrder::Little, Version::V7)).unwrap();
    let error = summarize_blktrace(&[path], Some((8, 0))).unwrap_err().to_string();
    let error = error.replace(&directory.path().display().to_string(), "DIR");
    insta::assert_snapshot!(error, @"no block event of device 8:0 in DIR/trace.blktrace.0; they have 1 events of other devices; check the device's number");
}

#[test]
fn nothing_to_read_is_an_error() {
    assert!(matches!(summarize_blktrace(&[], None), Err(TraceError::Empty { .. })));
}

fn any_event() -> impl Strategy<Value = BlockEvent> {
    let device = (0..4096_u32, 0..1_u32 << 20).prop_map(|(major, minor)| Device { major, minor });
    let action = prop_oneof![
        Just(Action::Queue),
        Just(Action::BackMerge),
        Just(Action::FrontMerge),
        Just(Action::GetRequest),
        Just(Action::Sleep),
        Just(Action::Requeue),
        Just(Action::Issue),
        Just(Action::Complete),
        Just(Action::Plug),
        (any::<u32>(), any::<bool>()).prop_map(|(requests, timer)| Action::Unplug { requests, timer }),
        Just(Action::Insert),
        any::<u64>().prop_map(|new_sector| Action::Split { new_sector }),
        Just(Action::Bounce),
        (device.clone(), any::<u64>()).prop_map(|(from, from_sector)| Action::Remap { from, from_sector }),
        Just(Action::Abort),
    ];
    let what = (
        prop_oneof![Just(Direction::Read), Just(Direction::Write), Just(Direction::Discard)],
        any::<[bool; 6]>().prop_map(|[flush, fua, sync, meta, ahead, passthrough]| {
            Flags::default()
                .with(Flags::FLUSH, flush)
                .with(Flags::FUA, fua)
                .with(Flags::SYNC, sync)
                .with(Flags::META, meta)
                .with(Flags::AHEAD, ahead)
                .with(Flags::PASSTHROUGH, passthrough)
        }),
        1..=u32::MAX,
        0..4096_u32,
    );
    let who = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>());
    (device, action, what, who).prop_map(
        |(device, action, (direction, flags, bytes, error), (time_ns, sequence, cpu, pid, sector))| {
            let bytes = u64::from(bytes);
            BlockEvent { time_ns, sequence, cpu, pid, device, action, direction, flags, sector, bytes, error }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        events in prop::collection::vec(any_event(), 1..20),
        order in prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)],
        version in prop_oneof![Just(Version::V7), Just(Version::V8)],
    ) {
        let (read_events, _) = read(&encoded(&events, order, version)).unwrap();
        prop_assert_eq!(read_events, events);
    }

    #[test]
    fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), real_start in any::<bool>()) {
        let mut all = Vec::new();
        if real_start {
            all = encoded(&[event(1, Action::Queue, 0, 8)], ByteOrder::Little, Version::V7);
        }
        all.extend(bytes);
        if let Ok((events, warnings)) = read(&all) {
            // Every byte is accounted for: in an event, in a note, or in a warning.
            prop_assert!(events.len() * 48 <= all.len());
            prop_assert!(warnings.skipped_bytes + warnings.truncated_bytes <= all.len() as u64);
        }
    }

    #[test]
    fn damaged_records_never_panic(
        events in prop::collection::vec(any_event(), 1..30),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..10),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = encoded(&events, ByteOrder::Little, Version::V7);
        for (at, byte) in hits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let path = directory.path().join("t.blktrace.0");
        std::fs::write(&path, bytes).unwrap();
        let _ = summarize_blktrace(&[path], None);
    }

    #[test]
    fn files_are_merged_by_time(mut times in prop::collection::vec((0..1000_u64, 0..4_usize), 0..200)) {
        times.sort_unstable();
        let mut files = vec![Vec::new(); 4];
        for (time_us, file) in &times {
            files[*file].push(event(*time_us, Action::Queue, 0, 8));
        }
        let bytes: Vec<_> = files.iter().map(|e| encoded(e, ByteOrder::Little, Version::V7)).collect();
        let mut merged = MergedReader::new(bytes.iter().map(|b| FileReader::new(b.as_slice(), "t")).collect());
        let mut seen = Vec::new();
        while let Some(event) = merged.next_event().unwrap() {
            seen.push(event.time_ns / 1000);
        }
        prop_assert_eq!(seen, times.iter().map(|(t, _)| *t).collect::<Vec<_>>());
    }
}

#[test]
fn messages_are_counted_and_told() {
    for (order, version) in [(ByteOrder::Little, Version::V7), (ByteOrder::Big, Version::V8)] {
        let encoder = Encoder { order, version };
        let mut bytes = encoded(&[event(1, Action::Queue, 0, 8)], order, version);
        encoder.message(&event(2, Action::Queue, 0, 0), "fio begins", &mut bytes);
        encoder.message(&event(3, Action::Queue, 0, 0), "fio ends", &mut bytes);
        bytes.extend(encoded(&[event(4, Action::Complete, 0, 8)], order, version));
        let mut reader = FileReader::new(&bytes[..], "memory");
        let mut times = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            times.push(event.time_ns / 1000);
        }
        assert_eq!(times, [1, 4]);
        assert_eq!(
            reader.warnings().remarks(),
            ["2 messages of drivers, schedulers or users are in the trace: not counted as events"]
        );
    }
}
