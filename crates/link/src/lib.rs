//! A modelled network link: two machines, a full-duplex wire between them, and at each end a queue. At the upper end there may be several
//! machines, each with a wire of its own to a switch, to which the lower machine's wire leads.
//!
//! The model is pure: a frame goes in with the time at which the machine sends it, and its fate comes out. Who moves the bytes is in
//! `nestor-link-server`. [`log`] is the form in which it notes what became of each frame.

pub mod log;
mod statistics;
mod switch;
mod wire;

pub use statistics::{LinkStatistics, Sent};
pub use switch::{Addresses, OnWire, Outlet};
pub use wire::{
    Cut, Direction, End, FRAME_OVERHEAD_BYTES, Fate, PortIndex, Run, SHORTEST_FRAME_BYTES, Wire, wire_bytes,
};
