//! Timing models: what a medium would have done, and when. Pure: no clock, no files, no randomness.
//!
//! A model is driven by its caller's clock. Requests are submitted at a time, and the model is advanced to later
//! times; every event in between happens at its own exact time, however late the caller asks. So a server that wakes
//! up late does not shift the model, and a test can run hours of disk time in milliseconds.

pub mod array;
mod figures_error;
pub mod hdd;
mod null;
pub mod ssd;
mod turn;
mod work;

pub use figures_error::FiguresError;
pub use null::NullModel;
pub use turn::{NoTurn, Turn};

pub use work::{ArmWork, MediumWork, MemberWork};

use crate::log::Operation;

/// Bytes of a sector, as block devices count.
pub const SECTOR_BYTES: u64 = 512;

/// A request as a model sees it: addresses and sizes, no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRequest {
    /// Chosen by the caller and given back with the completion.
    pub id: u64,
    /// What is asked for.
    pub operation: Operation,
    /// First sector, counted from the start of the medium; ignored for a flush.
    pub sector: u64,
    /// Number of sectors; the caller has checked that they are on the medium.
    pub sectors: u32,
}

/// Where the time of a service went. The sum of the parts is the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceParts {
    /// Moving the arm.
    pub seek_ns: u64,
    /// Waiting for the sector to come round.
    pub rotation_ns: u64,
    /// Moving data between platter or flash and buffer, track switches included.
    pub transfer_ns: u64,
    /// Everything else: command, interface, cache look-up.
    pub overhead_ns: u64,
}

impl ServiceParts {
    /// The whole service.
    pub fn total_ns(&self) -> u64 {
        self.seek_ns + self.rotation_ns + self.transfer_ns + self.overhead_ns
    }
}

/// A request that the medium has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's [`ModelRequest::id`].
    pub id: u64,
    /// When the medium began with it.
    pub service_start_ns: u64,
    /// When it was done: `service_start_ns` plus the sum of `parts`.
    pub complete_ns: u64,
    /// Where the time between went.
    pub parts: ServiceParts,
    /// Answered from the medium's cache, or taken into it.
    pub cache_hit: bool,
}

/// A medium's behaviour in time.
///
/// Times never go backwards: each call's `now_ns` is at least that of the call before.
pub trait Model: Send {
    /// Gives the medium a request at `now_ns`.
    fn submit(&mut self, request: ModelRequest, now_ns: u64);

    /// When something happens next inside the medium, or `None` while it is at rest. May be in the past.
    fn next_event_ns(&self) -> Option<u64>;

    /// Advances the medium to `now_ns`, and appends the requests that it completed in order of time.
    fn advance(&mut self, now_ns: u64, completions: &mut Vec<Completion>);

    /// Nothing is queued, in service, or waiting in a volatile cache.
    fn is_settled(&self) -> bool;

    /// Writes the contents of volatile caches to the medium as soon as possible.
    fn settle(&mut self, now_ns: u64);

    /// Whether writes are reported complete before they are on the medium.
    fn write_cache(&self) -> bool;

    /// Switches the write cache; its contents still reach the medium.
    fn set_write_cache(&mut self, on: bool);

    /// What it has done below the requests to it, since it was made.
    fn work(&self) -> MediumWork {
        MediumWork::default()
    }

    /// Forgets everything: queues, caches, position of the head. Requests in flight are never completed.
    fn reset(&mut self, now_ns: u64);
}
