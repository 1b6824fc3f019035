//! Offers a modelled medium to a machine as a vhost-user-blk disk.
//!
//! [`serve`] does it, with the data in a sparse file; through a [`control`] socket timing is switched and logs are written while
//! the disk is in use.

pub mod control;
mod priority;
mod server;

pub use control::ControlClient;
pub use nestor_stop::StopHandle;
/// How requests of guests are read; for those who test that with anything.
#[doc(hidden)]
pub use server::request;
pub use server::{DiskTime, ServeError, ServeOptions, serve};
