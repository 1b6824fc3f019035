//! Reading a log, record by record.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::read_up_to;

/// Bytes that are read from a file at once.
const BUFFER_BYTES: usize = 1 << 18;

/// What the system is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStep {
    /// The file.
    Open,
    /// Its bytes.
    Read,
}

/// How a log of one kind is read, whose header has `H` bytes and whose records have `N`.
pub trait Decode<const H: usize, const N: usize> {
    /// What the log says of itself.
    type Header;
    /// A record.
    type Record;
    /// What is wrong in a log.
    type Fault;
    /// What readers of this kind fail with.
    type Error;

    /// Reads the header.
    ///
    /// # Errors
    /// What is wrong, and at which byte.
    fn header(bytes: &[u8; H]) -> Result<Self::Header, (u64, Self::Fault)>;

    /// Reads a record.
    ///
    /// # Errors
    /// What is wrong.
    fn record(bytes: &[u8; N]) -> Result<Self::Record, Self::Fault>;

    /// The file ends within the header.
    fn cut_header() -> Self::Fault;

    /// The file ends after so many bytes of a record.
    fn cut_record(bytes: usize) -> Self::Fault;

    /// The system does not let it be read.
    fn unreadable(step: ReadStep, path: &Path, source: io::Error) -> Self::Error;

    /// Something is wrong at a byte of it.
    fn faulty(path: PathBuf, offset: u64, fault: Self::Fault) -> Self::Error;
}

/// Iterates over the records of a log in constant memory. After the first error the iterator ends.
pub struct Reader<D: Decode<H, N>, R, const H: usize, const N: usize> {
    source: R,
    path: PathBuf,
    header: D::Header,
    offset: u64,
    ended: bool,
    form: PhantomData<D>,
}

impl<D: Decode<H, N>, const H: usize, const N: usize> Reader<D, BufReader<File>, H, N> {
    /// Opens a log file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or it is not a log that this program reads.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, D::Error> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|e| D::unreadable(ReadStep::Open, path, e))?;
        Self::new(BufReader::with_capacity(BUFFER_BYTES, file), path)
    }
}

impl<D: Decode<H, N>, R: Read, const H: usize, const N: usize> Reader<D, R, H, N> {
    /// Reads the header from `source`; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn new(mut source: R, path: impl Into<PathBuf>) -> Result<Self, D::Error> {
        let path = path.into();
        let mut bytes = [0; H];
        let read =
            read_up_to(&mut source, &mut bytes).map_err(|e| D::unreadable(ReadStep::Read, &path, e))?;
        let header = if read == H { D::header(&bytes) } else { Err((read as u64, D::cut_header())) };
        match header {
            Ok(header) => {
                Ok(Self { source, path, header, offset: H as u64, ended: false, form: PhantomData })
            }
            Err((offset, fault)) => Err(D::faulty(path, offset, fault)),
        }
    }

    /// What the log says of itself.
    pub fn header(&self) -> &D::Header {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<D::Record>, D::Error> {
        let mut bytes = [0; N];
        let read = read_up_to(&mut self.source, &mut bytes)
            .map_err(|e| D::unreadable(ReadStep::Read, &self.path, e))?;
        let record = match read {
            0 => return Ok(None),
            whole if whole == N => D::record(&bytes).map_err(|fault| (self.offset, fault)),
            cut => Err((self.offset + cut as u64, D::cut_record(cut))),
        };
        let record = record.map_err(|(offset, fault)| D::faulty(self.path.clone(), offset, fault))?;
        self.offset += N as u64;
        Ok(Some(record))
    }
}

impl<D: Decode<H, N>, R: Read, const H: usize, const N: usize> Iterator for Reader<D, R, H, N> {
    type Item = Result<D::Record, D::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
