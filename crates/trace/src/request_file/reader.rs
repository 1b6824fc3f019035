//! Reading requests from a file.

use std::io;
use std::path::{Path, PathBuf};

use nestor_log::{Decode, ReadStep};

use super::codec::{decode_header, decode_record};
use super::{HEADER_BYTES, RECORD_BYTES, RequestFault, RequestHeader};
use crate::error::TraceError;
use crate::request::Request;

/// Iterates over the requests of a file in constant memory. After the first error the iterator ends.
pub type RequestReader<R> = nestor_log::Reader<RequestFile, R, HEADER_BYTES, RECORD_BYTES>;

/// The file of requests.
pub enum RequestFile {}

impl Decode<HEADER_BYTES, RECORD_BYTES> for RequestFile {
    type Header = RequestHeader;
    type Record = Request;
    type Fault = RequestFault;
    type Error = TraceError;

    fn header(bytes: &[u8; HEADER_BYTES]) -> Result<RequestHeader, (u64, RequestFault)> {
        decode_header(bytes)
    }

    fn record(bytes: &[u8; RECORD_BYTES]) -> Result<Request, RequestFault> {
        decode_record(bytes)
    }

    fn cut_header() -> RequestFault {
        RequestFault::CutHeader
    }

    fn cut_record(bytes: usize) -> RequestFault {
        RequestFault::CutRecord(bytes)
    }

    fn unreadable(step: ReadStep, path: &Path, source: io::Error) -> TraceError {
        let action = match step {
            ReadStep::Open => "open the file of requests",
            ReadStep::Read => "read the file of requests",
        };
        TraceError::io(action, path)(source)
    }

    fn faulty(path: PathBuf, offset: u64, fault: RequestFault) -> TraceError {
        TraceError::Requests { path, offset, fault }
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
            if let Ok(reader) = RequestReader::new(bytes.as_slice(), "bytes") {
                let items: Vec<_> = reader.collect();
                prop_assert!(items.iter().filter(|item| item.is_err()).count() <= 1);
                prop_assert!(items.len() <= bytes.len() / RECORD_BYTES + 1);
            }
        }

        #[test]
        fn damaged_headers_never_panic(at in 0..HEADER_BYTES, value in any::<u8>()) {
            let mut bytes = encode_header(&header(), true);
            bytes[at] = value;
            let _ = RequestReader::new(bytes.as_slice(), "bytes");
        }
    }

    #[test]
    fn a_cut_file_gives_its_whole_requests_and_then_says_where_it_was_cut() {
        let request = decode_record(&[0; RECORD_BYTES]).unwrap();
        let mut bytes = encode_header(&header(), false).to_vec();
        bytes.extend(encode_record(&request));
        bytes.extend(&encode_record(&request)[..40]);
        let mut reader = RequestReader::new(bytes.as_slice(), "guest.requests").unwrap();
        assert_eq!(reader.next().unwrap().unwrap(), request);
        insta::assert_snapshot!(
            reader.next().unwrap().unwrap_err(),
            @"guest.requests: at byte 1128: the file ends within a record (40 of 64 bytes); the records before it are complete, later requests are lost"
        );
        assert!(reader.next().is_none());
        insta::assert_snapshot!(
            RequestReader::new(&bytes[..100], "guest.requests").err().unwrap(),
            @"guest.requests: at byte 100: the file ends within its header of 1024 bytes; make it again"
        );
    }

    #[test]
    fn names_that_are_too_long_are_cut_between_letters() {
        let long = RequestHeader { kind: "ä".repeat(100), ..header() };
        let read = decode_header(&encode_header(&long, true)).unwrap();
        assert_eq!(read.kind, "ä".repeat(64));
        let odd = RequestHeader { kind: format!("x{}", "ä".repeat(100)), ..header() };
        assert_eq!(decode_header(&encode_header(&odd, true)).unwrap().kind.len(), 127);
    }
}
