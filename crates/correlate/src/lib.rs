//! One request through all layers: guest, hypervisor, host file system, host block layer, medium.

mod tree;

pub use tree::{Correlation, Join, Level, Node, Origin, SampledTree};
