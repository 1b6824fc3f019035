//! Stamps: who wrote the data of each request, by marks in the data itself.
//!
//! A sector that begins with [`STAMP_MAGIC`] carries eight more bytes, little-endian, by which its writer recognises
//! it. However many layers a write passes through, and whatever they merge, split, delay or move, the stamps that
//! arrive at the disk show where each of its sectors came from. So a join of traces can be checked.
//!
//! A stamp file is a header of [`STAMP_HEADER_BYTES`] and then records of [`STAMP_RECORD_BYTES`], all little-endian: a
//! run of neighbouring sectors of one request with the same stamp.
//!
//! | bytes | record field |
//! |---|---|
//! | 8 × 3 | sequence of the request in the log, first sector, stamp |
//! | 4 × 2 | sectors, 1 if the request read |

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use nestor_log::{Cursor, Decode, Fields, ReadStep};
use serde::{Deserialize, Serialize};

use super::fault::LogFault;
use crate::error::DiskError;
use crate::model::SECTOR_BYTES;
use nestor_ownership::FileKind;

/// What a stamped sector begins with.
pub const STAMP_MAGIC: &[u8; 8] = b"NSTSTAMP";
/// Bytes of a stamped sector that the magic and the stamp take.
pub const STAMP_BYTES: usize = 16;
/// Bytes of a stamp file's header.
pub const STAMP_HEADER_BYTES: usize = 16;
/// Bytes of a stamp file's record.
pub const STAMP_RECORD_BYTES: usize = 32;

const FILE_MAGIC: &[u8; 8] = b"NSTRSTMP";
const VERSION: u32 = 1;

/// Neighbouring sectors of one request that carry the same stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampRun {
    /// [`Record::sequence`](super::Record::sequence) of the request.
    pub sequence: u64,
    /// First sector (of 512 bytes).
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// What they carry.
    pub stamp: u64,
    /// The request read them: the stamp is that of their last writer.
    pub read: bool,
}

/// Marks a buffer: every sector of it gets the magic and the stamp.
pub fn stamp(buffer: &mut [u8], stamp: u64) {
    for sector in buffer.chunks_exact_mut(SECTOR_BYTES as usize) {
        sector[..8].copy_from_slice(STAMP_MAGIC);
        sector[8..STAMP_BYTES].copy_from_slice(&stamp.to_le_bytes());
    }
}

/// The stamp of a sector that begins with these bytes, if it has one.
pub fn stamp_of(start: &[u8; STAMP_BYTES]) -> Option<u64> {
    let (magic, stamp) = start.split_at(8);
    (magic == STAMP_MAGIC).then(|| u64::from_le_bytes(stamp.try_into().expect("eight bytes")))
}

impl StampRun {
    fn encode(&self) -> [u8; STAMP_RECORD_BYTES] {
        let mut out = Fields::default();
        for field in [self.sequence, self.sector, self.stamp] {
            out.u64(field);
        }
        out.u32(self.sectors);
        out.u32(self.read.into());
        out.finish()
    }

    fn decode(bytes: &[u8; STAMP_RECORD_BYTES]) -> Result<Self, LogFault> {
        let mut from = Cursor::at(bytes, 0);
        let [sequence, sector, stamp] = [(); 3].map(|()| from.u64());
        let sectors = from.u32();
        let read = match from.u32() {
            0 => false,
            1 => true,
            other => return Err(LogFault::Direction(other)),
        };
        Ok(Self { sequence, sector, sectors, stamp, read })
    }
}

/// Writes a stamp file. Unlike the request log it writes on the serving thread: stamping is for tests of truth, not
/// for measuring.
#[derive(Debug)]
pub struct StampWriter {
    path: PathBuf,
    out: BufWriter<File>,
    failed: Option<io::Error>,
    runs: u64,
}

impl StampWriter {
    /// Creates the file, readable by its owner only, or empties an earlier one; nothing else gives way to it.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, DiskError> {
        let path = path.as_ref().to_owned();
        let kind = FileKind { name: "a file of stamps", magic: FILE_MAGIC };
        let file = kind.create(&path, 0o600).map_err(DiskError::io("create the file of stamps", &path))?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        out.write_all(&StampFile::written()).map_err(DiskError::io("write the file of stamps", &path))?;
        Ok(Self { path, out, failed: None, runs: 0 })
    }

    /// Adds a run. A failure is kept for [`finish`](Self::finish).
    pub fn push(&mut self, run: &StampRun) {
        if self.failed.is_some() {
            return;
        }
        match self.out.write_all(&run.encode()) {
            Ok(()) => self.runs += 1,
            Err(error) => self.failed = Some(error),
        }
    }

    /// Writes the remaining runs and returns the number of all runs.
    ///
    /// # Errors
    /// Some of it could not be written.
    pub fn finish(mut self) -> Result<u64, DiskError> {
        let result = self.failed.take().map_or_else(|| self.out.flush(), Err);
        result.map_err(DiskError::io("write the file of stamps", &self.path))?;
        Ok(self.runs)
    }
}

/// Iterates over the runs of a stamp file in constant memory. After the first error the iterator ends.
pub type StampReader<R> = nestor_log::Reader<StampFile, R, STAMP_HEADER_BYTES, STAMP_RECORD_BYTES>;

/// The file of stamps.
pub enum StampFile {}

impl StampFile {
    /// Its header: what it is, the version, the length of a record.
    fn written() -> [u8; STAMP_HEADER_BYTES] {
        let mut out = Fields::default();
        out.put(FILE_MAGIC);
        out.u32(VERSION);
        out.u32(STAMP_RECORD_BYTES as u32);
        out.finish()
    }
}

impl Decode<STAMP_HEADER_BYTES, STAMP_RECORD_BYTES> for StampFile {
    type Header = ();
    type Record = StampRun;
    type Fault = LogFault;
    type Error = DiskError;

    fn header(bytes: &[u8; STAMP_HEADER_BYTES]) -> Result<(), (u64, LogFault)> {
        if *bytes == Self::written() { Ok(()) } else { Err((0, LogFault::NoStamps)) }
    }

    fn record(bytes: &[u8; STAMP_RECORD_BYTES]) -> Result<StampRun, LogFault> {
        StampRun::decode(bytes)
    }

    fn cut_header() -> LogFault {
        LogFault::CutStampHeader
    }

    fn cut_record(bytes: usize) -> LogFault {
        LogFault::CutStamp(bytes)
    }

    fn unreadable(step: ReadStep, path: &Path, source: io::Error) -> DiskError {
        let action = match step {
            ReadStep::Open => "open the file of stamps",
            ReadStep::Read => "read the file of stamps",
        };
        DiskError::io(action, path)(source)
    }

    fn faulty(path: PathBuf, offset: u64, reason: LogFault) -> DiskError {
        DiskError::Log { path, offset, reason }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn what_is_written_is_read(runs in prop::collection::vec(any::<([u64; 3], u32, bool)>(), 0..300)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("stamps");
            let runs: Vec<StampRun> = runs
                .into_iter()
                .map(|([sequence, sector, stamp], sectors, read)| StampRun { sequence, sector, sectors, stamp, read })
                .collect();
            let mut writer = StampWriter::create(&path).unwrap();
            runs.iter().for_each(|run| writer.push(run));
            prop_assert_eq!(writer.finish().unwrap(), runs.len() as u64);
            let read: Vec<_> = StampReader::open(&path).unwrap().collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(read, runs);
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), valid in any::<bool>()) {
            if valid {
                let folder = tempfile::tempdir().unwrap();
                StampWriter::create(folder.path().join("s")).unwrap().finish().unwrap();
                let mut file = std::fs::read(folder.path().join("s")).unwrap();
                file.append(&mut bytes);
                bytes = file;
            }
            if let Ok(reader) = StampReader::new(bytes.as_slice(), "bytes") {
                prop_assert!(reader.count() <= bytes.len() / STAMP_RECORD_BYTES + 1);
            }
        }
    }

    #[test]
    fn a_marked_buffer_shows_its_stamp_in_every_sector() {
        let mut buffer = vec![7; 1536];
        stamp(&mut buffer, 42);
        for sector in buffer.chunks(512) {
            assert_eq!(stamp_of(sector[..16].try_into().unwrap()), Some(42));
            assert_eq!(sector[16], 7);
        }
        assert_eq!(stamp_of(&[0; 16]), None);
    }
}
