//! Modelled media and the vhost-user-blk server that offers them to a machine.

mod error;
pub mod log;

pub use error::DiskError;
