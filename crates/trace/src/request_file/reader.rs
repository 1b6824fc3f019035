//! Reading requests from a file.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use nestor_log::read_up_to;

use super::codec::{decode_header, decode_record};
use super::{HEADER_BYTES, RECORD_BYTES, RequestFault, RequestHeader};
use crate::error::TraceError;
use crate::request::Request;

/// Iterates over the requests of a file in constant memory. After the first error the iterator ends.
#[derive(Debug)]
pub struct RequestReader<R> {
    source: R,
    path: PathBuf,
    header: RequestHeader,
    closed: bool,
    offset: u64,
    ended: bool,
}

impl RequestReader<BufReader<File>> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or is not a file of requests that this program can read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(TraceError::io("open the file of requests", path))?;
        Self::from_reader(BufReader::with_capacity(1 << 18, file), path)
    }
}

impl<R: Read> RequestReader<R> {
    /// Reads the header from `source`; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`RequestReader::open`].
    pub fn from_reader(mut source: R, path: impl Into<PathBuf>) -> Result<Self, TraceError> {
        let path = path.into();
        let mut bytes = [0; HEADER_BYTES];
        let read = read_up_to(&mut source, &mut bytes)
            .map_err(TraceError::io("read the file of requests", &path))?;
        if read < HEADER_BYTES {
            return Err(TraceError::Requests { path, offset: read as u64, fault: RequestFault::CutHeader });
        }
        let (header, closed) = decode_header(&bytes).map_err(|(offset, fault)| TraceError::Requests {
            path: path.clone(),
            offset,
            fault,
        })?;
        Ok(Self { source, path, header, closed, offset: HEADER_BYTES as u64, ended: false })
    }

    /// The header of the file.
    pub fn header(&self) -> &RequestHeader {
        &self.header
    }

    /// Whether its writer came to the end; otherwise [`RequestHeader::records`] and [`RequestHeader::dropped`] are
    /// not known.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        let mut bytes = [0; RECORD_BYTES];
        let read = read_up_to(&mut self.source, &mut bytes)
            .map_err(TraceError::io("read the file of requests", &self.path))?;
        let wrong = |offset, fault| TraceError::Requests { path: self.path.clone(), offset, fault };
        match read {
            0 => Ok(None),
            RECORD_BYTES => {
                let request = decode_record(&bytes).map_err(|fault| wrong(self.offset, fault))?;
                self.offset += RECORD_BYTES as u64;
                Ok(Some(request))
            }
            _ => Err(wrong(self.offset + read as u64, RequestFault::CutRecord(read))),
        }
    }
}

impl<R: Read> Iterator for RequestReader<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_request().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::codec::{encode_header, encode_record};
    use super::super::{ClockReading, RequestWriter};
    use super::*;

    fn header() -> RequestHeader {
        RequestHeader {
            layer: "hdd:wd-re3".to_owned(),
            kind: "medium".to_owned(),
            machine: "ground".to_owned(),
            clock: ClockReading { realtime_ns: Some(1_790_000_000_000_000_000), monotonic_ns: 77 },
            space_bytes: 16 << 30,
            dropped: 3,
            records: 0,
        }
    }

    fn any_request() -> impl Strategy<Value = Request> {
        (any::<[u64; 6]>(), any::<[u32; 2]>(), 0..4u8, 0..64u8, 0..13u8).prop_map(
            |(longs, words, operation, flags, class)| {
                let mut bytes = [0; RECORD_BYTES];
                for (index, long) in longs.iter().enumerate() {
                    bytes[index * 8..index * 8 + 8].copy_from_slice(&long.to_le_bytes());
                }
                bytes[48..52].copy_from_slice(&words[0].to_le_bytes());
                bytes[52..56].copy_from_slice(&words[1].to_le_bytes());
                bytes[56..59].copy_from_slice(&[operation, flags, class]);
                decode_record(&bytes).unwrap()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn what_is_written_is_read(requests in prop::collection::vec(any_request(), 0..300)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("level.requests");
            let mut writer = RequestWriter::create(&path, header()).unwrap();
            for request in &requests {
                writer.push(request).unwrap();
            }
            prop_assert_eq!(writer.finish().unwrap(), requests.len() as u64);
            let reader = RequestReader::open(&path).unwrap();
            prop_assert!(reader.is_closed());
            prop_assert_eq!(reader.header(), &RequestHeader { records: requests.len() as u64, ..header() });
            let read: Vec<Request> = reader.collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(read, requests);
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..600),
            valid in any::<bool>(),
        ) {
            if valid {
                let mut file = encode_header(&header(), false).to_vec();
                file.append(&mut bytes);
                bytes = file;
            }
            if let Ok(reader) = RequestReader::from_reader(bytes.as_slice(), "bytes") {
                let items: Vec<_> = reader.collect();
                prop_assert!(items.iter().filter(|item| item.is_err()).count() <= 1);
                prop_assert!(items.len() <= bytes.len() / RECORD_BYTES + 1);
            }
        }

        #[test]
        fn damaged_headers_never_panic(at in 0..HEADER_BYTES, value in any::<u8>()) {
            let mut bytes = encode_header(&header(), true);
            bytes[at] = value;
            let _ = RequestReader::from_reader(bytes.as_slice(), "bytes").map(|reader| reader.is_closed());
        }
    }

    #[test]
    fn a_cut_file_gives_its_whole_requests_and_then_says_where_it_was_cut() {
        let request = decode_record(&[0; RECORD_BYTES]).unwrap();
        let mut bytes = encode_header(&header(), false).to_vec();
        bytes.extend(encode_record(&request));
        bytes.extend(&encode_record(&request)[..40]);
        let mut reader = RequestReader::from_reader(bytes.as_slice(), "guest.requests").unwrap();
        assert!(!reader.is_closed());
        assert_eq!(reader.next().unwrap().unwrap(), request);
        insta::assert_snapshot!(
            reader.next().unwrap().unwrap_err(),
            @"guest.requests: at byte 1128: the file ends within a record (40 of 64 bytes); the records before it are complete, later requests are lost"
        );
        assert!(reader.next().is_none());
        insta::assert_snapshot!(
            RequestReader::from_reader(&bytes[..100], "guest.requests").unwrap_err(),
            @"guest.requests: at byte 100: the file ends within its header of 1024 bytes; make it again"
        );
    }

    #[test]
    fn names_that_are_too_long_are_cut_between_letters() {
        let long = RequestHeader { kind: "ä".repeat(100), ..header() };
        let (read, _) = decode_header(&encode_header(&long, true)).unwrap();
        assert_eq!(read.kind, "ä".repeat(64));
        let odd = RequestHeader { kind: format!("x{}", "ä".repeat(100)), ..header() };
        assert_eq!(decode_header(&encode_header(&odd, true)).unwrap().0.kind.len(), 127);
    }
}
