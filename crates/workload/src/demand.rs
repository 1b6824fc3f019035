//! What a workload asks of the storage, as far as its options state it beforehand.

/// What a workload asks of the storage, as far as its options state it beforehand. Each engine says it in its own file
/// ([`Engine::demand`](crate::Engine::demand)); by default nothing is stated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Operations that a closed loop keeps outstanding all the time, of all its workers together.
    pub outstanding: Option<u64>,
    /// Workers with one operation at a time: threads, clients, or the places in the queues of those that keep several outstanding.
    pub workers: Option<u64>,
    /// Milliseconds that a worker waits between two operations.
    pub think_ms: Option<f64>,
    /// Whether every operation goes past the page cache of its machine.
    pub past_page_cache: bool,
    /// Whether each read is of any place of the files, as likely as of any other.
    pub random_reads: bool,
    /// The same of writes.
    pub random_writes: bool,
    /// Whether operations follow one another in the files, so that bytes are the measure of the work and not operations.
    pub in_order: bool,
    /// Share (0 to 1) of the requests that read.
    pub read_share: Option<f64>,
    /// Share (0 to 1) that does not start where the one before ended.
    pub random_share: Option<f64>,
    /// Bytes of each request, where all have one size.
    pub request_bytes: Option<u64>,
    /// Whether it measures many loads one after another, the points of a surface: no number of the whole run is that of a load.
    pub is_surface: bool,
}
