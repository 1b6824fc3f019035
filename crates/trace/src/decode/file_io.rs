//! The text that tracefs prints of what a program asks of its files: system calls at an offset and calls that write caches out
//! (`syscalls:*`), and requests in an io_uring (`io_uring:*`).
//!
//! A call is two lines, of one thread: `sys_pread64(fd: 8, …, count: 0x200, pos: 0)` and `sys_pread64 -> 0x200`
//! (`print_syscall_enter`, `print_syscall_exit` in the kernel's kernel/trace/trace_syscalls.c). A request in a ring has one line when it
//! is taken, one when its file is looked up, and one when it is done (include/trace/events/io_uring.h). Which kinds there are is asked
//! when events are switched on: [`CALLS`], [`RING_EVENTS`].

use super::tracefs::context;
use crate::request::Operation;

/// The calls by which hypervisors read and write images, and write caches out, with what each asks for.
pub const CALLS: [(&str, Operation); 8] = [
    ("pread64", Operation::Read),
    ("preadv", Operation::Read),
    ("preadv2", Operation::Read),
    ("pwrite64", Operation::Write),
    ("pwritev", Operation::Write),
    ("pwritev2", Operation::Write),
    ("fsync", Operation::Flush),
    ("fdatasync", Operation::Flush),
];

/// The events of a ring. Linux 6.3 gave `io_uring_submit_sqe` a new name.
pub const RING_EVENTS: [&str; 4] =
    ["io_uring_submit_req", "io_uring_submit_sqe", "io_uring_file_get", "io_uring_complete"];

/// Codes of a ring's requests, as the kernel names them, that read, write or write caches out.
const CODES: [(&str, Operation); 7] = [
    ("READ", Operation::Read),
    ("READV", Operation::Read),
    ("READ_FIXED", Operation::Read),
    ("WRITE", Operation::Write),
    ("WRITEV", Operation::Write),
    ("WRITE_FIXED", Operation::Write),
    ("FSYNC", Operation::Flush),
];

/// What a program asks of a file, or hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIo {
    /// The thread enters a call.
    Entered {
        /// What it asks for.
        operation: Operation,
        /// The file's descriptor.
        descriptor: u32,
    },
    /// The thread's call is done.
    Left {
        /// Bytes, or a negative errno.
        result: i64,
    },
    /// The thread puts a request into a ring.
    Submitted {
        /// The request's name in the kernel, until it is done.
        request: u64,
        /// What it asks for.
        operation: Operation,
    },
    /// The file of a ring's request.
    File {
        /// The request's name.
        request: u64,
        /// The file's descriptor.
        descriptor: u32,
    },
    /// A ring's request is done.
    Completed {
        /// The request's name.
        request: u64,
        /// Bytes, or a negative errno.
        result: i64,
    },
}

/// What a thread asked of a file, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIoEvent {
    /// `CLOCK_MONOTONIC`; tracefs prints whole microseconds.
    pub time_ns: u64,
    /// The thread that ran. A ring's request may be done by another than the one that put it in.
    pub thread: u32,
    /// What.
    pub what: FileIo,
}

/// Reads one line; nothing if it is something else.
pub fn parse_line(line: &str) -> Option<FileIoEvent> {
    let (head, what) = line
        .rmatch_indices(": sys_")
        .chain(line.rmatch_indices(": io_uring_"))
        .find_map(|(at, _)| Some((&line[..at], what(&line[at + 2..])?)))?;
    let (thread, _, time_ns) = context(head)?;
    Some(FileIoEvent { time_ns, thread, what })
}

fn what(text: &str) -> Option<FileIo> {
    match text.strip_prefix("sys_") {
        Some(call) => call_of(call),
        None => of_ring(text.strip_prefix("io_uring_")?),
    }
}

fn call_of(text: &str) -> Option<FileIo> {
    if let Some((name, result)) = text.split_once(" -> ") {
        operation_of(name, &CALLS)?;
        return Some(FileIo::Left { result: hexadecimal(result)?.cast_signed() });
    }
    let (name, arguments) = text.split_once('(')?;
    let operation = operation_of(name, &CALLS)?;
    let descriptor = u32::try_from(hexadecimal(field(arguments, "fd: ")?)?).ok()?;
    Some(FileIo::Entered { operation, descriptor })
}

fn of_ring(text: &str) -> Option<FileIo> {
    let (name, fields) = text.split_once(": ")?;
    let request = u64::from_str_radix(field(fields, "req ")?.trim_start_matches("0x"), 16).ok()?;
    Some(match name {
        "submit_req" | "submit_sqe" => {
            FileIo::Submitted { request, operation: operation_of(field(fields, "opcode ")?, &CODES)? }
        }
        "file_get" => FileIo::File { request, descriptor: field(fields, "fd ")?.parse().ok()? },
        "complete" => FileIo::Completed { request, result: field(fields, "result ")?.parse().ok()? },
        _ => return None,
    })
}

fn operation_of(name: &str, known: &[(&str, Operation)]) -> Option<Operation> {
    known.iter().find(|(known, _)| *known == name).map(|(_, operation)| *operation)
}

/// The word after a label, which begins the text or follows a blank.
fn field<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let begins = |at: &usize| *at == 0 || text[..*at].ends_with(' ');
    let at = text.match_indices(label).map(|(at, _)| at).find(begins)?;
    text[at + label.len()..].split([',', ' ', ')']).next()
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHO: &str = " qemu-system-x86-14311   [001] .....   506.618191: ";

    fn read(text: &str) -> Option<FileIo> {
        parse_line(&format!("{WHO}{text}")).map(|event| {
            assert_eq!((event.time_ns, event.thread), (506_618_191_000, 14311));
            event.what
        })
    }

    #[test]
    fn calls_are_read_as_linux_6_18_prints_them() {
        let entered = |operation, descriptor| Some(FileIo::Entered { operation, descriptor });
        assert_eq!(
            read("sys_pread64(fd: 8, buf: 0x7f880be07c00, count: 0x200, pos: 0)"),
            entered(Operation::Read, 8)
        );
        assert_eq!(
            read("sys_pwritev(fd: 1f, vec: 0x7f88, vlen: 2, pos_l: 100000, pos_h: 0)"),
            entered(Operation::Write, 31)
        );
        assert_eq!(read("sys_fdatasync(fd: 0x8)"), entered(Operation::Flush, 8));
        assert_eq!(read("sys_pread64 -> 0x200"), Some(FileIo::Left { result: 512 }));
        assert_eq!(read("sys_fsync -> 0xfffffffffffffffb"), Some(FileIo::Left { result: -5 }));
        assert_eq!(read("sys_openat(dfd: ffffff9c, filename: 0x7f, flags: 0, mode: 0)"), None);
    }

    #[test]
    fn requests_of_a_ring_are_read_as_linux_6_18_prints_them() {
        let request = 0x2b9e_a8cb;
        let ring = "ring 000000003f4f474e, req 000000002b9ea8cb, user_data 0x7f20b53ff8c0,";
        assert_eq!(
            read(&format!("io_uring_submit_req: {ring} opcode WRITEV, flags 0x400000, sq_thread 0")),
            Some(FileIo::Submitted { request, operation: Operation::Write })
        );
        assert_eq!(
            read(&format!("io_uring_file_get: {ring} fd 9")),
            Some(FileIo::File { request, descriptor: 9 })
        );
        assert_eq!(
            read(&format!("io_uring_complete: {ring} result -11, cflags 0x0 extra1 0 extra2 0 ")),
            Some(FileIo::Completed { request, result: -11 })
        );
        assert_eq!(
            read(&format!("io_uring_submit_req: {ring} opcode POLL_ADD, flags 0x0, sq_thread 0")),
            None
        );
    }

    #[test]
    fn a_threads_name_may_look_like_an_event() {
        let line = " x: sys_fsync(fd: 3)-7   [000] .....   1.000001: sys_fsync(fd: 8)";
        let event = parse_line(line).unwrap();
        assert_eq!(
            (event.thread, event.what),
            (7, FileIo::Entered { operation: Operation::Flush, descriptor: 8 })
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not(text in any::<String>()) {
            let _ = parse_line(&text);
            let _ = read(&text.replace('\n', ""));
        }
    }
}
