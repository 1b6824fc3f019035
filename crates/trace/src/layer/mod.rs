//! From events to the numbers of a layer.
//!
//! [`pairing`] follows each request from Q to C and says when one has ended; [`LayerAccumulator`] counts. Further
//! computations on requests (seeks, queue depth, attribution) are other [`pairing::Observer`]s.

mod accumulate;
mod bios;
mod counts;
mod devices;
mod histogram;
mod index;
mod live;
mod lives;
mod modes;
pub mod pairing;
mod processes;
mod requests;
pub(crate) mod seeks;
mod slab;
mod table;
pub(crate) mod timeline;

pub use accumulate::{LayerAccumulator, Limits, Surroundings};
pub use devices::Devices;
pub(crate) use devices::MOST_DEVICES;
pub use lives::{NoSink, RequestSink, request_of};
pub(crate) use requests::MOST_TARGETS;
pub use requests::RequestLayers;
