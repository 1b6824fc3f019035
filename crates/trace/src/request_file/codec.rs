//! Headers and records as bytes.

use nestor_layout::Class;

use super::{ClockReading, HEADER_BYTES, RECORD_BYTES, RequestFault, RequestHeader};
use crate::event::Flags;
use crate::request::{Operation, Request};

pub(super) const MAGIC: &[u8; 8] = b"NSTRREQS";
const VERSION: u32 = 1;
const REALTIME_KNOWN: u32 = 1;
const CLOSED: u32 = 2;
/// Bytes of the names of layer, kind and machine.
const NAME_BYTES: [usize; 3] = [512, 128, 256];
/// Where the names begin.
const NAMES_AT: usize = 64;

const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
const FLAGS: [Flags; 6] =
    [Flags::FLUSH, Flags::FUA, Flags::SYNC, Flags::META, Flags::AHEAD, Flags::PASSTHROUGH];

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The header as it is in the file.
pub(super) fn encode_header(header: &RequestHeader, closed: bool) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    let known = if header.clock.realtime_ns.is_some() { REALTIME_KNOWN } else { 0 };
    let bits = known | if closed { CLOSED } else { 0 };
    let words = [VERSION, HEADER_BYTES as u32, RECORD_BYTES as u32, bits];
    for (index, word) in words.iter().enumerate() {
        bytes[8 + index * 4..12 + index * 4].copy_from_slice(&word.to_le_bytes());
    }
    let longs = [
        header.clock.realtime_ns.unwrap_or(0),
        header.clock.monotonic_ns,
        header.space_bytes,
        header.records,
        header.dropped,
    ];
    for (index, long) in longs.iter().enumerate() {
        bytes[24 + index * 8..32 + index * 8].copy_from_slice(&long.to_le_bytes());
    }
    let mut at = NAMES_AT;
    for (name, room) in [&header.layer, &header.kind, &header.machine].into_iter().zip(NAME_BYTES) {
        let kept = name.floor_char_boundary(room);
        bytes[at..at + kept].copy_from_slice(&name.as_bytes()[..kept]);
        at += room;
    }
    bytes
}

/// Reads a header, and whether its file was closed; or where it is wrong and how.
pub(super) fn decode_header(
    bytes: &[u8; HEADER_BYTES],
) -> Result<(RequestHeader, bool), (u64, RequestFault)> {
    if &bytes[..8] != MAGIC {
        return Err((0, RequestFault::NoRequests));
    }
    let expected = [
        ("version", VERSION),
        ("header length", HEADER_BYTES as u32),
        ("record length", RECORD_BYTES as u32),
    ];
    for (index, (field, expected)) in expected.into_iter().enumerate() {
        let at = 8 + index * 4;
        let found = u32_at(bytes, at);
        if found != expected {
            return Err((at as u64, RequestFault::OtherProgram { field, found, expected }));
        }
    }
    let bits = u32_at(bytes, 20);
    if bits & !(REALTIME_KNOWN | CLOSED) != 0 {
        return Err((20, RequestFault::HeaderFlags(bits)));
    }
    let mut names = [const { String::new() }; 3];
    let mut at = NAMES_AT;
    for (name, room) in names.iter_mut().zip(NAME_BYTES) {
        let field = &bytes[at..at + room];
        let length = field.iter().position(|byte| *byte == 0).unwrap_or(room);
        *name =
            std::str::from_utf8(&field[..length]).map_err(|_| (at as u64, RequestFault::Name))?.to_owned();
        at += room;
    }
    let [layer, kind, machine] = names;
    let header = RequestHeader {
        layer,
        kind,
        machine,
        clock: ClockReading {
            realtime_ns: (bits & REALTIME_KNOWN != 0).then(|| u64_at(bytes, 24)),
            monotonic_ns: u64_at(bytes, 32),
        },
        space_bytes: u64_at(bytes, 40),
        records: u64_at(bytes, 48),
        dropped: u64_at(bytes, 56),
    };
    Ok((header, bits & CLOSED != 0))
}

/// A request as it is in the file.
pub(super) fn encode_record(request: &Request) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let longs = [
        request.id,
        request.offset,
        request.bytes,
        request.queued_ns,
        request.issued_ns,
        request.completed_ns,
    ];
    for (index, long) in longs.iter().enumerate() {
        bytes[index * 8..index * 8 + 8].copy_from_slice(&long.to_le_bytes());
    }
    bytes[48..52].copy_from_slice(&request.bios.to_le_bytes());
    bytes[52..56].copy_from_slice(&request.pid.to_le_bytes());
    bytes[56] = request.operation as u8;
    for (bit, flag) in FLAGS.iter().enumerate() {
        bytes[57] |= u8::from(request.flags.contains(*flag)) << bit;
    }
    bytes[58] = request.class as u8;
    bytes
}

/// Reads a request, or says what is wrong with it.
pub(super) fn decode_record(bytes: &[u8; RECORD_BYTES]) -> Result<Request, RequestFault> {
    let [operation, flags, class] = [bytes[56], bytes[57], bytes[58]];
    let operation = *OPERATIONS.get(usize::from(operation)).ok_or(RequestFault::Operation(operation))?;
    let class = Class::from_number(class).ok_or(RequestFault::Class(class))?;
    if flags >> FLAGS.len() != 0 {
        return Err(RequestFault::Flags(flags));
    }
    let set = |all: Flags, (bit, flag): (usize, &Flags)| all.with(*flag, flags >> bit & 1 != 0);
    Ok(Request {
        id: u64_at(bytes, 0),
        operation,
        flags: FLAGS.iter().enumerate().fold(Flags::default(), set),
        class,
        offset: u64_at(bytes, 8),
        bytes: u64_at(bytes, 16),
        queued_ns: u64_at(bytes, 24),
        issued_ns: u64_at(bytes, 32),
        completed_ns: u64_at(bytes, 40),
        bios: u32_at(bytes, 48),
        pid: u32_at(bytes, 52),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_the_file_are_those_of_the_types() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index);
        }
        for (index, operation) in OPERATIONS.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
    }
}
