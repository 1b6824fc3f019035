use nestor_log::{HeadFault, Writer};
use proptest::prelude::*;

use super::super::{FrameLogError, FrameReader};
use super::*;

const HEADER: FrameHeader = FrameHeader {
    clock: LogClock::Common([70, 9]),
    rate_bits_per_s: 1_000_000_000,
    delay_ns: 100_000,
    summary: LogSummary { records: 0, dropped: 0 },
};

fn any_record() -> impl Strategy<Value = FrameRecord> {
    let ends = (prop::sample::select(End::BOTH.to_vec()), prop::sample::select(Ended::ALL.to_vec()));
    (ends, any::<[u32; 5]>(), any::<[u64; 5]>()).prop_map(|((from, ended), numbers, times)| {
        let [frames, bytes, wire_bytes, tcp_bytes, tcp_again_bytes] = numbers;
        let [taken_ns, begins_ns, leaves_ns, arrives_ns, delivered_ns] = times;
        FrameRecord {
            from,
            ended,
            frames,
            bytes,
            wire_bytes,
            tcp_bytes,
            tcp_again_bytes,
            taken_ns,
            begins_ns,
            leaves_ns,
            arrives_ns,
            delivered_ns,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_written_is_read(
        records in prop::collection::vec(any_record(), 0..1200),
        zeros_ns in any::<Option<[u64; 2]>>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames");
        let header = FrameHeader { clock: zeros_ns.map_or(LogClock::Monotonic, LogClock::Common), ..HEADER };
        let mut writer = Writer::<FrameLog>::create(&path, header).unwrap();
        records.iter().for_each(|record| writer.push(*record));
        let summary = writer.finish().unwrap();
        prop_assert_eq!(summary, LogSummary { records: records.len() as u64, dropped: 0 });
        let reader = FrameReader::open(&path).unwrap();
        prop_assert_eq!(reader.header(), &FrameHeader { summary, ..header });
        let read: Vec<FrameRecord> = reader.collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..800), valid in any::<bool>()) {
        if valid {
            bytes = [HEADER.encode().as_slice(), &bytes].concat();
        }
        if let Ok(reader) = FrameReader::new(bytes.as_slice(), "bytes") {
            let items: Vec<_> = reader.collect();
            prop_assert!(items.iter().filter(|item| item.is_err()).count() <= 1);
            prop_assert!(items.len() <= bytes.len() / RECORD_BYTES + 1);
        }
    }
}

#[test]
fn a_cut_log_gives_its_whole_records_and_then_says_where_it_was_cut() {
    let record = FrameRecord::decode(&[0; RECORD_BYTES]).unwrap();
    let bytes = [HEADER.encode().as_slice(), &record.encode(), &record.encode()[..40]].concat();
    let mut reader = FrameReader::new(bytes.as_slice(), "link.frames").unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), record);
    insta::assert_snapshot!(
        reader.next().unwrap().unwrap_err(),
        @"link.frames, byte 232: the log ends within a record (40 of 64 bytes); the records before it are complete, its last frames are lost"
    );
    assert!(reader.next().is_none());
    assert!(FrameReader::new(&bytes[..HEADER_BYTES - 1], "link.frames").is_err());
}

#[test]
fn what_no_log_has_is_refused_with_its_place() {
    let with = |at: usize, value: u8| {
        let record = FrameRecord::decode(&[0; RECORD_BYTES]).unwrap();
        let mut bytes = [HEADER.encode().as_slice(), &record.encode()].concat();
        bytes[at] = value;
        let all = FrameReader::new(bytes.as_slice(), "log").and_then(|r| r.collect::<Result<Vec<_>, _>>());
        let FrameLogError::Form { offset, reason, .. } = all.unwrap_err() else { panic!("it can be read") };
        (offset, reason)
    };
    let remedy = HEAD.remedy;
    let other = HeadFault::OtherProgram { field: "version", found: 9, expected: 1, remedy };
    let found = [with(0, 0), with(8, 9), with(20, 2), with(128, 2), with(129, 5)];
    let expected = [
        (0, FrameLogFault::Head(HeadFault::Kind(HEAD.name))),
        (8, FrameLogFault::Head(other)),
        (20, FrameLogFault::Clock(2)),
        (128, FrameLogFault::End(2)),
        (128, FrameLogFault::Ended(5)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn frames_are_counted_as_the_link_does() {
    let record = |ended| FrameRecord {
        ended,
        frames: 3,
        bytes: 4000,
        ..FrameRecord::decode(&[0; RECORD_BYTES]).unwrap()
    };
    let counted = |ended: &[Ended]| {
        let mut sent = Sent::default();
        ended.iter().for_each(|ended| record(*ended).count(&mut sent));
        sent
    };
    let all = Sent { frames: 12, bytes: 16_000, lost: 3, refused: 6 };
    assert_eq!(counted(&Ended::ALL), all);
    assert_eq!(counted(&[Ended::UnderWay]), Sent { frames: 3, bytes: 4000, lost: 0, refused: 0 });
    assert_eq!(counted(&[Ended::NotTaken]), Sent { refused: 3, ..Sent::default() });
}
