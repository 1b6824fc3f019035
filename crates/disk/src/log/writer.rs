//! Writing a log without delaying the requests in it.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use super::record::{Header, MAGIC, Record};
use crate::error::DiskError;
use crate::model::MemberWork;
use nestor_ownership::FileKind;

/// Records handed to the writing thread at once: waking it for each would cost more than the request.
const BATCH_RECORDS: usize = 512;
/// Batches that may wait for the file system (3 MiB of records) before requests go unlogged.
const WAITING_BATCHES: usize = 64;

/// How a log ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSummary {
    /// Requests in the log.
    pub records: u64,
    /// Requests that are missing because the writer could not keep up.
    pub dropped: u64,
    /// What the disks of an array were asked for meanwhile; `None` of a single medium. The server adds it: the log has requests to the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<MemberWork>,
}

/// Takes records on the server's thread and writes them on another.
pub struct Writer {
    path: PathBuf,
    header: Header,
    batch: Vec<Record>,
    sender: Option<SyncSender<Vec<Record>>>,
    thread: Option<JoinHandle<(io::Result<File>, u64)>>,
    summary: LogSummary,
}

impl Writer {
    /// Creates the log file, readable by its owner only, or empties an earlier one; nothing else gives way to it.
    ///
    /// # Errors
    /// The file cannot be created or written, or no thread can be started.
    pub fn create(path: impl AsRef<Path>, header: Header) -> Result<Self, DiskError> {
        let path = path.as_ref().to_owned();
        let kind = FileKind { name: "a request log", magic: MAGIC };
        let mut file = kind.create(&path, 0o600).map_err(DiskError::io("create the request log", &path))?;
        file.write_all(&header.encode()).map_err(DiskError::io("write the request log", &path))?;
        let (sender, receiver) = sync_channel(WAITING_BATCHES);
        let thread = std::thread::Builder::new()
            .name("disk-log".to_owned())
            .spawn(move || write_batches(file, &receiver))
            .map_err(DiskError::system("start the request log's thread"))?;
        Ok(Self {
            path,
            header,
            batch: Vec::with_capacity(BATCH_RECORDS),
            sender: Some(sender),
            thread: Some(thread),
            summary: LogSummary::default(),
        })
    }

    /// Adds a record. Never waits: if the file system lags too far behind, the record is dropped and counted.
    pub fn push(&mut self, record: Record) {
        self.batch.push(record);
        if self.batch.len() >= BATCH_RECORDS {
            self.hand_over(false);
        }
    }

    /// Writes the remaining records and closes the log.
    ///
    /// # Errors
    /// Some of the log could not be written.
    pub fn finish(mut self) -> Result<LogSummary, DiskError> {
        self.close()
    }

    fn hand_over(&mut self, wait: bool) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_RECORDS));
        let lost = match &self.sender {
            Some(sender) if wait => sender.send(batch).err().map(|e| e.0),
            Some(sender) => sender.try_send(batch).err().map(|e| match e {
                TrySendError::Full(batch) | TrySendError::Disconnected(batch) => batch,
            }),
            None => Some(batch),
        };
        self.summary.dropped += lost.map_or(0, |batch| batch.len() as u64);
    }

    fn close(&mut self) -> Result<LogSummary, DiskError> {
        let Some(thread) = self.thread.take() else { return Ok(self.summary) };
        self.hand_over(true);
        self.sender = None;
        let (file, records) =
            thread.join().unwrap_or_else(|_| (Err(io::Error::other("its thread panicked")), 0));
        let write = DiskError::io("write the request log", &self.path);
        self.summary.records = records;
        let header = Header { records, dropped: self.summary.dropped, ..self.header.clone() };
        let finish = |mut file: File| {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header.encode())
        };
        file.and_then(finish).map_err(write)?;
        Ok(self.summary)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // `finish` reports errors. Dropping a log cannot.
        let _ = self.close();
    }
}

/// Returns the file, or the first error, and the records that reached it.
fn write_batches(file: File, batches: &Receiver<Vec<Record>>) -> (io::Result<File>, u64) {
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let mut records = 0;
    for batch in batches {
        for record in &batch {
            if let Err(error) = out.write_all(&record.encode()) {
                return (Err(error), records);
            }
            records += 1;
        }
    }
    (out.into_inner().map_err(|e| e.into_error()), records)
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
            prop_assert_eq!(summary, LogSummary { records: records.len() as u64, ..LogSummary::default() });

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
