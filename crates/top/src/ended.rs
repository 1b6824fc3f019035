//! What has ended in a layer, and which layer that is.

use nestor_trace::Operation;

/// Which of the two layers that a device's events tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Who hands requests to the device.
    Above,
    /// The device.
    Own,
}

/// Something to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A request took so long.
    Request {
        side: Side,
        operation: Operation,
        latency_ns: u64,
        /// The thread that sent it; 0 where unknown.
        thread: u32,
    },
    /// Bytes were moved. They come apart from the requests, which may have been merged or cut.
    Bytes { side: Side, operation: Operation, bytes: u64 },
}
