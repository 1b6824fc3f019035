//! The log of a modelled disk as requests.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use nestor_disk::log::{Operation as DiskOperation, Reader, Record};
use nestor_layout::Class;

use super::{ClockReading, RequestHeader, RequestWriter};
use crate::error::TraceError;
use crate::event::{Flags, SECTOR_BYTES};
use crate::request::{Operation, Request};

/// Iterates over the requests of a modelled disk's log, in the order of completion and in constant memory. Offsets
/// are those that the machine above uses. After the first error the iterator ends.
pub struct DiskLogRequests {
    reader: Reader<BufReader<File>>,
    header: RequestHeader,
    next_id: u64,
}

impl DiskLogRequests {
    /// Opens a log; `layer` and `machine` are for the [`RequestHeader`]. The server's machine is the one the clock
    /// is of.
    ///
    /// # Errors
    /// The log cannot be read, or is not a log.
    pub fn open(path: impl AsRef<Path>, layer: &str, machine: &str) -> Result<Self, TraceError> {
        let reader = Reader::open(path)?;
        let log = reader.header();
        let header = RequestHeader {
            layer: layer.to_owned(),
            kind: RequestHeader::MEDIUM.to_owned(),
            machine: machine.to_owned(),
            clock: ClockReading { realtime_ns: None, monotonic_ns: log.opened_ns },
            space_bytes: log.sectors.saturating_mul(SECTOR_BYTES),
            dropped: log.dropped,
            records: log.records,
        };
        Ok(Self { reader, header, next_id: 0 })
    }

    /// What is known of them all.
    pub fn header(&self) -> &RequestHeader {
        &self.header
    }

    /// Writes the rest of them to a request file and returns how many there were. A log that ends within a record is
    /// taken as far as it goes.
    ///
    /// # Errors
    /// The log is damaged in its first record, or the file cannot be written.
    pub fn write_to(mut self, path: impl AsRef<Path>) -> Result<u64, TraceError> {
        let mut writer = RequestWriter::create(path, self.header.clone())?;
        let mut any = false;
        for request in &mut self {
            match request {
                Ok(request) => writer.push(&request)?,
                Err(error) if !any => return Err(error),
                Err(_) => break,
            }
            any = true;
        }
        writer.finish()
    }
}

impl Iterator for DiskLogRequests {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.reader.next()?;
        let id = self.next_id;
        self.next_id += 1;
        Some(record.map(|record| request_of(&record, id)).map_err(TraceError::from))
    }
}

/// A record of a log as the request of that number.
pub(crate) fn request_of(record: &Record, id: u64) -> Request {
    let (operation, flags) = match record.operation {
        DiskOperation::Read => (Operation::Read, Flags::default()),
        DiskOperation::Write => (Operation::Write, Flags::default()),
        DiskOperation::Flush => (Operation::Flush, Flags::FLUSH),
        DiskOperation::Discard | DiskOperation::WriteZeroes => (Operation::Discard, Flags::default()),
    };
    Request {
        id,
        operation,
        flags,
        class: if operation == Operation::Flush { Class::Flush } else { Class::Unknown },
        offset: record.sector.saturating_mul(SECTOR_BYTES),
        bytes: u64::from(record.sectors) * SECTOR_BYTES,
        queued_ns: record.arrival_ns,
        issued_ns: record.service_start_ns,
        completed_ns: record.complete_ns,
        bios: 1,
        pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use nestor_disk::log::{Header, Writer};

    use super::super::RequestReader;
    use super::*;

    fn record(sequence: u64, operation: DiskOperation, sector: u64, sectors: u32) -> Record {
        Record {
            sequence,
            operation,
            sector,
            sectors,
            queue: 0,
            queue_depth: 1,
            arrival_ns: 1000 * sequence,
            service_start_ns: 1000 * sequence + 100,
            complete_ns: 1000 * sequence + 900,
            model_complete_ns: 1000 * sequence + 800,
            seek_ns: 0,
            rotation_ns: 0,
            transfer_ns: 0,
            overhead_ns: 700,
            cache_hit: false,
            timed: true,
            failed: false,
        }
    }

    #[test]
    fn a_disks_log_becomes_a_file_of_requests() {
        let folder = tempfile::tempdir().unwrap();
        let (log, file) = (folder.path().join("disk.log"), folder.path().join("medium.requests"));
        let header = Header {
            disk: "null".to_owned(),
            opened_ns: 7,
            sectors: 4096,
            first_sector: 2048,
            records: 0,
            dropped: 0,
        };
        let mut writer = Writer::create(&log, header).unwrap();
        writer.push(record(1, DiskOperation::Write, 8, 16));
        writer.push(record(0, DiskOperation::Flush, 0, 0));
        writer.push(record(2, DiskOperation::WriteZeroes, 80, 8));
        writer.finish().unwrap();

        let requests = DiskLogRequests::open(&log, "null", "ground").unwrap();
        assert_eq!(requests.write_to(&file).unwrap(), 3);
        let reader = RequestReader::open(&file).unwrap();
        assert_eq!((reader.header().space_bytes, reader.header().clock.monotonic_ns), (2 << 20, 7));
        let read: Vec<Request> = reader.collect::<Result<_, _>>().unwrap();
        let places: Vec<_> = read.iter().map(|r| (r.id, r.operation, r.offset, r.bytes)).collect();
        let expected = [
            (0, Operation::Write, 4096, 8192),
            (1, Operation::Flush, 0, 0),
            (2, Operation::Discard, 40960, 4096),
        ];
        assert_eq!(places, expected);
        assert_eq!((read[0].queued_ns, read[0].issued_ns, read[0].completed_ns), (1000, 1100, 1900));
        assert_eq!(read[1].class, Class::Flush);
    }
}
