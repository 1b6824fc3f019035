//! Writing a log.

use nestor_log::Form;
use nestor_ownership::FileKind;
use serde::{Deserialize, Serialize};

use super::record::{HEAD, Header, Record};
use crate::model::MediumWork;

/// How a log ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSummary {
    /// Requests in the log.
    pub records: u64,
    /// Requests that are missing because the writer could not keep up.
    pub dropped: u64,
    /// What the medium did below the requests meanwhile. The server adds it: the log has requests to the whole.
    #[serde(default)]
    pub work: MediumWork,
}

/// Takes records on the server's thread and writes them on another.
pub type Writer = nestor_log::Writer<DiskLog>;

/// The log of a modelled disk.
pub enum DiskLog {}

impl Form for DiskLog {
    type Header = Header;
    type Record = Record;

    const FILE: FileKind = FileKind { name: "a request log", magic: HEAD.magic };
    const NAME: &'static str = "the request log";
    const THREAD: &'static str = "disk-log";

    fn header(
        header: &Header,
        nestor_log::LogSummary { records, dropped }: nestor_log::LogSummary,
    ) -> Vec<u8> {
        Header { records, dropped, ..header.clone() }.encode().to_vec()
    }

    fn record(record: &Record) -> impl AsRef<[u8]> {
        record.encode()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{HEADER_BYTES, Operation, RECORD_BYTES, Reader};
    use super::*;

    fn header() -> Header {
        Header {
            disk: "wd-7200-1tb".to_owned(),
            opened_ns: 7,
            sectors: 1 << 21,
            first_sector: 2048,
            records: 0,
            dropped: 0,
        }
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let operations =
            [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard, Operation::WriteZeroes];
        (
            any::<(u64, u64, u32, u16, u16)>(),
            prop::sample::select(operations.to_vec()),
            any::<[u64; 8]>(),
            any::<[bool; 3]>(),
        )
            .prop_map(
                |((sequence, sector, sectors, queue, queue_depth), operation, times, flags)| Record {
                    sequence,
                    operation,
                    sector,
                    sectors,
                    queue,
                    queue_depth,
                    arrival_ns: times[0],
                    service_start_ns: times[1],
                    complete_ns: times[2],
                    model_complete_ns: times[3],
                    seek_ns: times[4],
                    rotation_ns: times[5],
                    transfer_ns: times[6],
                    overhead_ns: times[7],
                    cache_hit: flags[0],
                    timed: flags[1],
                    failed: flags[2],
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_written_is_read(records in prop::collection::vec(any_record(), 0..1200)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let mut writer = Writer::create(&path, header()).unwrap();
            records.iter().for_each(|record| writer.push(*record));
            let summary = writer.finish().unwrap();
            prop_assert_eq!(summary, nestor_log::LogSummary { records: records.len() as u64, ..nestor_log::LogSummary::default() });

            let reader = Reader::open(&path).unwrap();
            prop_assert_eq!(reader.header(), &Header { records: records.len() as u64, ..header() });
            let read: Vec<Record> = reader.collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(read, records);
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..800), valid in any::<bool>()) {
            if valid {
                let mut log = header().encode().to_vec();
                log.append(&mut bytes);
                bytes = log;
            }
            if let Ok(reader) = Reader::new(bytes.as_slice(), "bytes") {
                let items: Vec<_> = reader.collect();
                let errors = items.iter().filter(|item| item.is_err()).count();
                prop_assert!(errors <= 1);
                prop_assert!(items.len() <= bytes.len() / RECORD_BYTES + 1);
            }
        }
    }

    #[test]
    fn a_cut_log_gives_its_whole_records_and_then_says_where_it_was_cut() {
        let record = Record::decode(&[0; RECORD_BYTES]).unwrap();
        let mut bytes = header().encode().to_vec();
        bytes.extend(record.encode());
        bytes.extend(&record.encode()[..40]);
        let mut reader = Reader::new(bytes.as_slice(), "disk.log").unwrap();
        assert_eq!(reader.next().unwrap().unwrap(), record);
        insta::assert_snapshot!(
            reader.next().unwrap().unwrap_err(),
            @"disk.log, byte 264: the log ends within a record (40 of 96 bytes); the records before it are complete, its last requests are lost"
        );
        assert!(reader.next().is_none());
        assert!(Reader::new(&bytes[..HEADER_BYTES - 1], "disk.log").is_err());
    }

    #[test]
    fn a_log_of_another_version_is_refused() {
        let mut bytes = header().encode();
        bytes[8] = 9;
        insta::assert_snapshot!(
            Reader::new(bytes.as_slice(), "disk.log").err().unwrap(),
            @"disk.log, byte 8: version is 9, but this program reads 1; record the log again with this program"
        );
    }
}
