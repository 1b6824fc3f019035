//! Writing a log without delaying what is logged.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use nestor_ownership::FileKind;
use serde::{Deserialize, Serialize};

use crate::LogError;

/// Records handed to the writing thread at once: waking it for each would cost more than a request.
const BATCH_RECORDS: usize = 512;
/// Batches that may wait for the file system (some 3 MiB of records).
const WAITING_BATCHES: usize = 64;

/// What a log looks like.
pub trait Form: 'static {
    /// What it says of itself.
    type Header: Clone;
    /// What it consists of.
    type Record: Send + 'static;

    /// Its name and the first bytes of its header.
    const FILE: FileKind;
    /// Its name in messages: `the request log`.
    const NAME: &'static str;
    /// The name of the thread that writes it; at most 15 bytes (`prctl(2)`, `PR_SET_NAME`).
    const THREAD: &'static str;

    /// The header, which always has the same length. It is written first with an empty summary, and once more when the log is closed.
    fn header(header: &Self::Header, summary: LogSummary) -> Vec<u8>;

    /// A record.
    fn record(record: &Self::Record) -> impl AsRef<[u8]>;
}

/// How a log ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSummary {
    /// What is in the log.
    pub records: u64,
    /// What is missing: the writer could not keep up, or the log was full.
    pub dropped: u64,
}

/// What becomes of a record when the file system lags far behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behind {
    /// It is dropped and counted. In real time, waiting would delay what is logged.
    #[default]
    Drop,
    /// It is waited for. In virtual time, waiting takes no time, and a log must not depend on real time.
    Wait,
}

/// What a log takes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When the file system lags behind.
    pub behind: Behind,
    /// Records at most; what more comes is dropped and counted.
    pub most_records: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { behind: Behind::default(), most_records: u64::MAX }
    }
}

/// Takes records on the server's thread and writes them on another.
pub struct Writer<F: Form> {
    path: PathBuf,
    /// What the log says of itself when it is closed.
    pub header: F::Header,
    limits: Limits,
    /// Records that were taken.
    taken: u64,
    batch: Vec<F::Record>,
    sender: Option<SyncSender<Vec<F::Record>>>,
    thread: Option<JoinHandle<(io::Result<File>, u64)>>,
    summary: LogSummary,
}

impl<F: Form> Writer<F> {
    /// Creates the log file, readable by its owner only, or empties an earlier one; nothing else gives way to it.
    ///
    /// # Errors
    /// The file cannot be created or written, or no thread can be started.
    pub fn create(path: impl AsRef<Path>, header: F::Header) -> Result<Self, LogError> {
        Self::limited(path, header, Limits::default())
    }

    /// The same with limits.
    ///
    /// # Errors
    /// See [`Self::create`].
    pub fn limited(path: impl AsRef<Path>, header: F::Header, limits: Limits) -> Result<Self, LogError> {
        let path = path.as_ref().to_owned();
        let mut file = F::FILE.create(&path, 0o600).map_err(failed::<F>("create", &path))?;
        let head = F::header(&header, LogSummary::default());
        file.write_all(&head).map_err(failed::<F>("write", &path))?;
        let (sender, receiver) = sync_channel(WAITING_BATCHES);
        let thread = std::thread::Builder::new()
            .name(F::THREAD.to_owned())
            .spawn(move || write_batches::<F>(file, &receiver))
            .map_err(failed::<F>("start the thread of", &path))?;
        Ok(Self {
            path,
            header,
            limits,
            taken: 0,
            batch: Vec::with_capacity(BATCH_RECORDS),
            sender: Some(sender),
            thread: Some(thread),
            summary: LogSummary::default(),
        })
    }

    /// Adds a record, if the limits allow it.
    pub fn push(&mut self, record: F::Record) {
        if self.taken == self.limits.most_records {
            self.summary.dropped += 1;
            return;
        }
        self.taken += 1;
        self.batch.push(record);
        if self.batch.len() >= BATCH_RECORDS {
            self.hand_over(self.limits.behind);
        }
    }

    /// Writes the remaining records and closes the log.
    ///
    /// # Errors
    /// Some of the log could not be written.
    pub fn finish(mut self) -> Result<LogSummary, LogError> {
        self.close()
    }

    fn hand_over(&mut self, behind: Behind) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_RECORDS));
        let lost = match (&self.sender, behind) {
            (Some(sender), Behind::Wait) => sender.send(batch).err().map(|e| e.0),
            (Some(sender), Behind::Drop) => sender.try_send(batch).err().map(|e| match e {
                TrySendError::Full(batch) | TrySendError::Disconnected(batch) => batch,
            }),
            (None, _) => Some(batch),
        };
        self.summary.dropped += lost.map_or(0, |batch| batch.len() as u64);
    }

    fn close(&mut self) -> Result<LogSummary, LogError> {
        let Some(thread) = self.thread.take() else { return Ok(self.summary) };
        self.hand_over(Behind::Wait);
        self.sender = None;
        let (file, records) =
            thread.join().unwrap_or_else(|_| (Err(io::Error::other("its thread panicked")), 0));
        self.summary.records = records;
        let head = F::header(&self.header, self.summary);
        let finish = |mut file: File| {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&head)
        };
        file.and_then(finish).map_err(failed::<F>("write", &self.path))?;
        Ok(self.summary)
    }
}

impl<F: Form> Drop for Writer<F> {
    fn drop(&mut self) {
        // `finish` reports errors. Dropping a log cannot.
        let _ = self.close();
    }
}

fn failed<F: Form>(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| LogError { action, kind: F::NAME, path, source }
}

/// Returns the file, or the first error, and the records that reached it.
fn write_batches<F: Form>(file: File, batches: &Receiver<Vec<F::Record>>) -> (io::Result<File>, u64) {
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let mut records = 0;
    for batch in batches {
        for record in &batch {
            if let Err(error) = out.write_all(F::record(record).as_ref()) {
                return (Err(error), records);
            }
            records += 1;
        }
    }
    (out.into_inner().map_err(|e| e.into_error()), records)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers;

    impl Form for Numbers {
        type Header = u64;
        type Record = u64;

        const FILE: FileKind = FileKind { name: "a log of numbers", magic: b"NSTRNUMB" };
        const NAME: &'static str = "the log of numbers";
        const THREAD: &'static str = "numbers";

        fn header(header: &u64, LogSummary { records, dropped }: LogSummary) -> Vec<u8> {
            let numbers = [*header, records, dropped].map(u64::to_le_bytes);
            [Self::FILE.magic.as_slice(), numbers.as_flattened()].concat()
        }

        fn record(record: &u64) -> impl AsRef<[u8]> {
            record.to_le_bytes()
        }
    }

    fn numbers(file: &Path) -> Vec<u64> {
        let bytes = std::fs::read(file).unwrap();
        bytes.as_chunks().0.iter().skip(1).map(|bytes| u64::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn a_log_takes_so_many_records_and_counts_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        let limits = Limits { behind: Behind::Wait, most_records: 1300 };
        let mut writer = Writer::<Numbers>::limited(&path, 7, limits).unwrap();
        (0..2000).for_each(|number| writer.push(number));
        writer.header = 8;
        assert_eq!(writer.finish().unwrap(), LogSummary { records: 1300, dropped: 700 });
        let found = numbers(&path);
        assert_eq!(found[..3], [8, 1300, 700], "the header is that of the end");
        assert!(found[3..].iter().copied().eq(0..1300));
    }

    #[test]
    fn a_log_that_waits_for_the_file_system_loses_nothing_however_much_comes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        let count = (BATCH_RECORDS * WAITING_BATCHES * 4) as u64;
        let limits = Limits { behind: Behind::Wait, ..Limits::default() };
        let mut writer = Writer::<Numbers>::limited(&path, 0, limits).unwrap();
        (0..count).for_each(|number| writer.push(number));
        assert_eq!(writer.finish().unwrap(), LogSummary { records: count, dropped: 0 });
        assert!(numbers(&path)[3..].iter().copied().eq(0..count));
    }

    #[test]
    fn a_log_that_is_dropped_is_closed_and_another_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        let mut writer = Writer::<Numbers>::create(&path, 7).unwrap();
        writer.push(3);
        drop(writer);
        assert_eq!(numbers(&path), [7, 1, 0, 3]);
        std::fs::write(&path, "a letter").unwrap();
        let refused = Writer::<Numbers>::create(&path, 7).err().unwrap().to_string();
        assert!(refused.starts_with("cannot create the log of numbers /"), "{refused}");
    }
}
