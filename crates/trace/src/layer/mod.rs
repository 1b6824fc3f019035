//! From events to the numbers of a layer.
//!
//! [`pairing`] follows each request from Q to C and says when one has ended; [`LayerAccumulator`] counts. What is to
//! be computed of requests later on (seeks, queue depth, attribution) is another [`pairing::Observer`].

mod accumulate;
mod index;
pub mod pairing;
mod slab;

pub use accumulate::LayerAccumulator;
