//! Headers and records as bytes.

use nestor_layout::Class;
use nestor_log::{Cursor, Fields, Head};

use super::{ClockReading, HEADER_BYTES, RECORD_BYTES, RequestFault, RequestHeader};
use crate::event::Flags;
use crate::request::{Operation, Request};

/// What a file begins with.
pub(crate) const HEAD: Head = Head {
    magic: b"NSTRREQS",
    name: "a file of requests",
    remedy: "make the file again",
    version: 1,
    header_bytes: HEADER_BYTES,
    record_bytes: RECORD_BYTES,
};
const REALTIME_KNOWN: u32 = 1;
const CLOSED: u32 = 2;
/// Bytes of the names of layer, kind and machine.
const NAME_BYTES: [usize; 3] = [512, 128, 256];

const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
const FLAGS: [Flags; 6] =
    [Flags::FLUSH, Flags::FUA, Flags::SYNC, Flags::META, Flags::AHEAD, Flags::PASSTHROUGH];

/// The header as it is in the file.
pub(super) fn encode_header(header: &RequestHeader, closed: bool) -> [u8; HEADER_BYTES] {
    let mut out = Fields::<HEADER_BYTES>::default();
    HEAD.put(&mut out);
    let known = if header.clock.realtime_ns.is_some() { REALTIME_KNOWN } else { 0 };
    out.u32(known | if closed { CLOSED } else { 0 });
    for long in [
        header.clock.realtime_ns.unwrap_or(0),
        header.clock.monotonic_ns,
        header.space_bytes,
        header.records,
        header.dropped,
    ] {
        out.u64(long);
    }
    for (name, room) in [&header.layer, &header.kind, &header.machine].into_iter().zip(NAME_BYTES) {
        let kept = name.floor_char_boundary(room);
        out.put(&name.as_bytes()[..kept]);
        out.skip(room - kept);
    }
    out.finish()
}

/// Reads a header, or says where it is wrong and how.
pub(super) fn decode_header(bytes: &[u8; HEADER_BYTES]) -> Result<RequestHeader, (u64, RequestFault)> {
    let mut from = HEAD.check(bytes).map_err(|(offset, fault)| (offset, fault.into()))?;
    let at = from.offset() as u64;
    let bits = from.u32();
    if bits & !(REALTIME_KNOWN | CLOSED) != 0 {
        return Err((at, RequestFault::HeaderFlags(bits)));
    }
    let [realtime_ns, monotonic_ns, space_bytes, records, dropped] = [(); 5].map(|()| from.u64());
    let mut names = [const { String::new() }; 3];
    for (name, room) in names.iter_mut().zip(NAME_BYTES) {
        let at = from.offset() as u64;
        *name = from.name(room).ok_or((at, RequestFault::Name))?.to_owned();
    }
    let [layer, kind, machine] = names;
    Ok(RequestHeader {
        layer,
        kind,
        machine,
        clock: ClockReading {
            realtime_ns: (bits & REALTIME_KNOWN != 0).then_some(realtime_ns),
            monotonic_ns,
        },
        space_bytes,
        records,
        dropped,
    })
}

/// A request as it is in the file.
pub(super) fn encode_record(request: &Request) -> [u8; RECORD_BYTES] {
    let mut out = Fields::<RECORD_BYTES>::default();
    for long in [
        request.id,
        request.offset,
        request.bytes,
        request.queued_ns,
        request.issued_ns,
        request.completed_ns,
    ] {
        out.u64(long);
    }
    out.u32(request.bios);
    out.u32(request.pid);
    let flag = |(bit, flag)| u8::from(request.flags.contains(flag)) << bit;
    let flags = FLAGS.into_iter().enumerate().map(flag).sum();
    out.put(&[request.operation as u8, flags, request.class as u8]);
    out.finish()
}

/// Reads a request, or says what is wrong with it.
pub(super) fn decode_record(bytes: &[u8; RECORD_BYTES]) -> Result<Request, RequestFault> {
    let mut from = Cursor::at(bytes, 0);
    let [id, offset, request_bytes, queued_ns, issued_ns, completed_ns] = [(); 6].map(|()| from.u64());
    let (bios, pid) = (from.u32(), from.u32());
    let [operation, flags, class] = from.take();
    let operation = *OPERATIONS.get(usize::from(operation)).ok_or(RequestFault::Operation(operation))?;
    let class = Class::from_number(class).ok_or(RequestFault::Class(class))?;
    if flags >> FLAGS.len() != 0 {
        return Err(RequestFault::Flags(flags));
    }
    let set = |all: Flags, (bit, flag): (usize, &Flags)| all.with(*flag, flags >> bit & 1 != 0);
    Ok(Request {
        id,
        operation,
        flags: FLAGS.iter().enumerate().fold(Flags::default(), set),
        class,
        offset,
        bytes: request_bytes,
        queued_ns,
        issued_ns,
        completed_ns,
        bios,
        pid,
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
