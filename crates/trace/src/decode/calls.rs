//! The text that tracefs prints of the events of remote procedure calls of NFS: `sunrpc:rpc_stats_latency`, `sunrpc:xprt_retransmit` and
//! `sunrpc:svc_stats_latency` (include/trace/events/sunrpc.h), and `nfsd:nfsd_{read,write}_start` (fs/nfsd/trace.h), and of a server's own
//! writes, `xfs:xfs_file_{buffered,direct}_write` (fs/xfs/xfs_trace.h), as Linux 6.1 has them.
//!
//! ```text
//! kworker/u2:1-17 [000] ..... 12.345678: rpc_stats_latency: task:0000002a@00000003 xid=0x5c1f0e17 nfsv3 WRITE backlog=9 rtt=812 execute=830
//! nfsd-411 [000] ..... 12.345678: svc_stats_latency: xid=0x5c1f0e17 server=10.78.1.1:2049 client=10.78.1.2:790 proc=WRITE execute-us=344
//! nfsd-411 [000] ..... 12.345341: nfsd_write_start: xid=0x5c1f0e17 fh_hash=0x8be4f91c offset=1048576 len=262144
//! kworker/u2:3-57 [000] ..... 12.345402: xfs_file_buffered_write: dev 254:0 ino 0x83 disize 0x80000000 pos 0x100000 bytecount 0x1000
//! ```

use std::io::BufRead;
use std::path::PathBuf;

use super::lines::Lines;
use super::tracefs::{context, lost, overwritten};
use crate::error::TraceError;
use crate::event::Device;
use crate::rpc::CallKind;

/// Nanoseconds in a microsecond, in which the kernel says how long the parts of a call took.
const US: u64 = 1000;

/// The program of NFS, as the kernel's client calls it (fs/nfs/client.c, `nfs_program`).
const NFS: &str = "nfs";

/// An event of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallEvent {
    /// A call of a client is over.
    Client(ClientCall),
    /// A client sends a call another time.
    Retransmission {
        /// Its number.
        xid: u32,
    },
    /// A server replies to a call.
    Server(ServerCall),
    /// A server begins to read or write a file.
    Access(Access),
    /// A server writes to a file of XFS otherwise than for NFS, as a loop device does to its image.
    OwnWrite(OwnWrite),
}

/// A write that no call asks for as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnWrite {
    /// Which file.
    pub file: FileNumber,
    /// Where in it.
    pub offset: u64,
    /// How much.
    pub bytes: u64,
}

/// What tells a file from all others of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNumber {
    /// The device that its file system is on.
    pub device: Device,
    /// Its number there.
    pub inode: u64,
}

/// A call as the client has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCall {
    /// Its number, which the reply has too (RFC 5531, section 9).
    pub xid: u32,
    /// The kernel's number of its client of RPC: a mount has one, and the state of version 4 another.
    pub client: u32,
    /// Its procedure; of version 4, the one that the client makes a compound call for.
    pub procedure: String,
    /// `CLOCK_MONOTONIC` when it was over.
    pub over_ns: u64,
    /// From when it was issued until it was sent.
    pub queue_ns: u64,
    /// From when it was sent until its reply was there.
    pub response_ns: u64,
    /// From when it was issued until it was over.
    pub whole_ns: u64,
}

/// A call as the server has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCall {
    /// Its number.
    pub xid: u32,
    /// Its procedure, `COMPOUND` of version 4.
    pub procedure: String,
    /// `CLOCK_MONOTONIC` when the reply was sent.
    pub replied_ns: u64,
    /// From when it was received until then.
    pub service_ns: u64,
}

/// What a call does with the contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The call's number.
    pub xid: u32,
    /// [`CallKind::Read`] or [`CallKind::Write`].
    pub kind: CallKind,
    /// Which file: a hash of its handle.
    pub file: u32,
    /// Where in it.
    pub offset: u64,
    /// How much.
    pub bytes: u32,
    /// `CLOCK_MONOTONIC` when it began.
    pub began_ns: u64,
}

/// The contents of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallLine {
    /// An event of NFS.
    Event(CallEvent),
    /// The recorder lost that many events at this place.
    Lost(u64),
    /// Nothing of interest: a comment, another event, another program's call.
    Other,
    /// Not what tracefs prints.
    Unreadable,
}

/// Events of a text in constant memory, and what of it could not be read.
pub struct CallReader<R> {
    lines: Lines<R>,
    lost: u64,
    unreadable: u64,
}

impl<R: BufRead> CallReader<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>) -> Self {
        Self { lines: Lines::new(source, path), lost: 0, unreadable: 0 }
    }

    /// Lost events that the text itself reports.
    pub fn lost_events(&self) -> u64 {
        self.lost
    }

    /// Lines that were no events.
    pub fn unreadable_lines(&self) -> u64 {
        self.unreadable
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// The text cannot be read or has become something else.
    pub fn next_event(&mut self) -> Result<Option<CallEvent>, TraceError> {
        while self.lines.advance()? {
            let line =
                if self.lines.is_whole() { parse_line(&self.lines.text()) } else { CallLine::Unreadable };
            match line {
                CallLine::Unreadable => {
                    self.unreadable += 1;
                    continue;
                }
                CallLine::Event(event) => {
                    self.lines.accept();
                    return Ok(Some(event));
                }
                CallLine::Lost(count) => self.lost = self.lost.saturating_add(count),
                CallLine::Other => {}
            }
            self.lines.accept();
        }
        Ok(None)
    }
}

/// Reads one line without its end.
pub fn parse_line(line: &str) -> CallLine {
    if let Some(comment) = line.strip_prefix('#') {
        return overwritten(comment).map_or(CallLine::Other, CallLine::Lost);
    }
    if line.trim().is_empty() {
        return CallLine::Other;
    }
    if let Some(count) = lost(line) {
        return CallLine::Lost(count);
    }
    // A thread's name may hold the separator.
    let ends = line.match_indices(": ").map(|(end, _)| end);
    let Some((time_ns, event)) =
        ends.filter_map(|end| Some((context(&line[..end])?.2, &line[end + 2..]))).next()
    else {
        return CallLine::Unreadable;
    };
    let Some((name, fields)) = event.split_once(": ") else { return CallLine::Other };
    let access = |kind| access(kind, fields, time_ns).map(CallEvent::Access);
    let parsed = match name {
        "rpc_stats_latency" if program(fields) == Some(NFS) => client(fields, time_ns).map(CallEvent::Client),
        "xprt_retransmit" if program(fields) == Some(NFS) => {
            hexadecimal(fields, "xid=").map(|xid| CallEvent::Retransmission { xid })
        }
        // A program beside NFS, whose calls neither end counts.
        "svc_stats_latency" if value(fields, "proc=").is_some_and(is_of_access_lists) => {
            return CallLine::Other;
        }
        "svc_stats_latency" => server(fields, time_ns).map(CallEvent::Server),
        "nfsd_read_start" => access(CallKind::Read),
        "nfsd_write_start" => access(CallKind::Write),
        "xfs_file_buffered_write" | "xfs_file_direct_write" => own_write(fields).map(CallEvent::OwnWrite),
        _ => return CallLine::Other,
    };
    parsed.map_or(CallLine::Unreadable, CallLine::Event)
}

/// Whether a procedure is of the program of access control lists (fs/nfsd/nfs3acl.c, `nfsd_acl_procedures3`).
fn is_of_access_lists(procedure: &str) -> bool {
    matches!(procedure, "GETACL" | "SETACL")
}

/// The program of `task:0000002a@00000003 xid=0x5c1f0e17 nfsv3 WRITE …`.
fn program(fields: &str) -> Option<&str> {
    let (program, version) = fields.split_whitespace().nth(2)?.rsplit_once('v')?;
    version.parse::<u32>().ok().map(|_| program)
}

fn client(fields: &str, over_ns: u64) -> Option<ClientCall> {
    let (_, client) = value(fields, "task:")?.split_once('@')?;
    let us = |name| value(fields, name)?.parse::<u64>().ok()?.checked_mul(US);
    Some(ClientCall {
        xid: hexadecimal(fields, "xid=")?,
        client: u32::from_str_radix(client, 16).ok()?,
        procedure: fields.split_whitespace().nth(3)?.to_owned(),
        over_ns,
        queue_ns: us("backlog=")?,
        response_ns: us("rtt=")?,
        whole_ns: us("execute=")?,
    })
}

fn server(fields: &str, replied_ns: u64) -> Option<ServerCall> {
    Some(ServerCall {
        xid: hexadecimal(fields, "xid=")?,
        procedure: value(fields, "proc=")?.to_owned(),
        replied_ns,
        service_ns: value(fields, "execute-us=")?.parse::<u64>().ok()?.checked_mul(US)?,
    })
}

fn access(kind: CallKind, fields: &str, began_ns: u64) -> Option<Access> {
    Some(Access {
        xid: hexadecimal(fields, "xid=")?,
        kind,
        file: hexadecimal(fields, "fh_hash=")?,
        offset: value(fields, "offset=")?.parse().ok()?,
        bytes: value(fields, "len=")?.parse().ok()?,
        began_ns,
    })
}

/// `dev 254:0 ino 0x83 disize 0x80000000 pos 0x100000 bytecount 0x1000`.
fn own_write(fields: &str) -> Option<OwnWrite> {
    let after = |name: &str| {
        let number = fields.split_whitespace().skip_while(|word| *word != name).nth(1)?;
        u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()
    };
    let device = fields.split_whitespace().skip_while(|word| *word != "dev").nth(1)?;
    let file = FileNumber { device: Device::parse(device, ':')?, inode: after("ino")? };
    Some(OwnWrite { file, offset: after("pos")?, bytes: after("bytecount")? })
}

/// What follows a name among the words of an event.
fn value<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields.split_whitespace().find_map(|word| word.strip_prefix(name))
}

fn hexadecimal(fields: &str, name: &str) -> Option<u32> {
    u32::from_str_radix(value(fields, name)?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the kernel prints them (the formats of its `events/*/format`).
    fn text_of(event: &CallEvent) -> String {
        let line = |thread: &str, ns: u64, event: String| {
            format!(
                "{thread:>16}-17      [001] ..... {}.{:06}: {event}",
                ns / 1_000_000_000,
                ns / 1000 % 1_000_000
            )
        };
        match event {
            CallEvent::Client(c) => line(
                "kworker/u2: 1",
                c.over_ns,
                format!(
                    "rpc_stats_latency: task:{:08x}@{:08x} xid=0x{:08x} nfsv3 {} backlog={} rtt={} execute={}",
                    7,
                    c.client,
                    c.xid,
                    c.procedure,
                    c.queue_ns / US,
                    c.response_ns / US,
                    c.whole_ns / US
                ),
            ),
            CallEvent::Retransmission { xid } => line(
                "kworker",
                0,
                format!(
                    "xprt_retransmit: task:00000007@00000003 xid=0x{xid:08x} nfsv3 WRITE ntrans=2 timeout=15000"
                ),
            ),
            CallEvent::Server(s) => line(
                "nfsd",
                s.replied_ns,
                format!(
                    "svc_stats_latency: xid=0x{:08x} server=10.78.1.1:2049 client=10.78.1.2:790 proc={} execute-us={}",
                    s.xid,
                    s.procedure,
                    s.service_ns / US
                ),
            ),
            CallEvent::OwnWrite(w) => line(
                "kworker/u2:3",
                0,
                format!(
                    "xfs_file_buffered_write: dev {}:{} ino 0x{:x} disize 0x80000000 pos 0x{:x} bytecount 0x{:x}",
                    w.file.device.major, w.file.device.minor, w.file.inode, w.offset, w.bytes
                ),
            ),
            CallEvent::Access(a) => {
                let name = match a.kind {
                    CallKind::Read => "read",
                    _ => "write",
                };
                line(
                    "nfsd",
                    a.began_ns,
                    format!(
                        "nfsd_{name}_start: xid=0x{:08x} fh_hash=0x{:08x} offset={} len={}",
                        a.xid, a.file, a.offset, a.bytes
                    ),
                )
            }
        }
    }

    fn events() -> impl Strategy<Value = CallEvent> {
        let us = || (0..1_u64 << 40).prop_map(|us| us * US);
        let client = (any::<u32>(), any::<u32>(), "[A-Z_]{1,20}", us(), us(), us(), us()).prop_map(
            |(xid, client, procedure, over_ns, queue_ns, response_ns, whole_ns)| {
                CallEvent::Client(ClientCall {
                    xid,
                    client,
                    procedure,
                    over_ns,
                    queue_ns,
                    response_ns,
                    whole_ns,
                })
            },
        );
        let server =
            (any::<u32>(), "[A-Z]{1,12}", us(), us()).prop_map(|(xid, procedure, replied_ns, service_ns)| {
                CallEvent::Server(ServerCall { xid, procedure, replied_ns, service_ns })
            });
        let kinds = prop_oneof![Just(CallKind::Read), Just(CallKind::Write)];
        let access = (any::<u32>(), kinds, any::<u32>(), any::<u64>(), any::<u32>(), us()).prop_map(
            |(xid, kind, file, offset, bytes, began_ns)| {
                CallEvent::Access(Access { xid, kind, file, offset, bytes, began_ns })
            },
        );
        let again = any::<u32>().prop_map(|xid| CallEvent::Retransmission { xid });
        let own = (any::<(u32, u32)>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
            |((major, minor), inode, offset, bytes)| {
                let file = FileNumber { device: Device { major, minor }, inode };
                CallEvent::OwnWrite(OwnWrite { file, offset, bytes })
            },
        );
        prop_oneof![client, server, access, again, own]
    }

    #[test]
    fn calls_of_the_program_of_access_lists_are_no_calls_of_nfs() {
        let line = |procedure| {
            let fields = "xid=0x00000007 server=10.78.1.1:2049 client=10.78.1.2:790";
            parse_line(&format!(
                "nfsd-411 [000] ..... 12.345678: svc_stats_latency: {fields} proc={procedure} execute-us=3"
            ))
        };
        assert_eq!(line("GETACL"), CallLine::Other);
        assert!(matches!(line("GETATTR"), CallLine::Event(CallEvent::Server(_))));
    }

    proptest! {
        #[test]
        fn what_the_kernel_prints_of_an_event_is_read_back(event in events()) {
            prop_assert_eq!(parse_line(&text_of(&event)), CallLine::Event(event));
        }

        #[test]
        fn no_text_is_too_odd_and_a_line_that_is_cut_is_no_other_event(event in events(), cut in any::<prop::sample::Index>(), odd in "\\PC*") {
            let text = text_of(&event);
            // The last field may be a shorter number then, but no other call.
            if let CallLine::Event(read) = parse_line(&text[..cut.index(text.len())]) {
                prop_assert_eq!(std::mem::discriminant(&read), std::mem::discriminant(&event));
            }
            parse_line(&odd);
        }
    }

    #[test]
    fn calls_of_other_programs_and_other_events_are_none_of_nfs() {
        let line = |event: &str| format!("    kworker/u2:1-17      [000] .....    12.345678: {event}");
        let client = |program: &str| {
            line(&format!(
                "rpc_stats_latency: task:0000002a@00000003 xid=0x5c1f0e17 {program} NULL backlog=9 rtt=812 execute=830"
            ))
        };
        assert!(matches!(parse_line(&client("nfsv4")), CallLine::Event(CallEvent::Client(_))));
        for program in ["mountv3", "nfsaclv3", "rpcbindv2", "nfs"] {
            assert_eq!(parse_line(&client(program)), CallLine::Other, "{program}");
        }
        assert_eq!(parse_line(&line("sched_switch: prev_comm=x")), CallLine::Other);
        assert_eq!(parse_line(&line("nfsd_read_start: xid=0x1 offset=4 len=8")), CallLine::Unreadable);
        assert_eq!(parse_line("CPU:1 [LOST 12 EVENTS]"), CallLine::Lost(12));
        assert_eq!(parse_line("# tracer: nop"), CallLine::Other);
        assert_eq!(parse_line("nonsense"), CallLine::Unreadable);
    }
}
