//! Requests as tests and benches play them.

use nestor_layout::Class;
use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request};

/// A request without a number, a class or flags. `times` are when it was queued, issued and completed.
pub(crate) fn request(operation: Operation, offset: u64, bytes: u64, times: [u64; 3]) -> Request {
    let [queued_ns, issued_ns, completed_ns] = times;
    Request {
        id: 0,
        operation,
        flags: Flags::default(),
        class: Class::Unknown,
        offset,
        bytes,
        queued_ns,
        issued_ns,
        completed_ns,
        bios: 1,
        pid: 0,
    }
}
