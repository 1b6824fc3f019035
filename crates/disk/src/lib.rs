//! Modelled media and the vhost-user-blk server that offers them to a machine.
//!
//! [`profiles`] are what is known of real media, [`model`] says how long such a medium takes for a request, and
//! [`serve`] offers one to a virtual machine, with the data in a sparse file. A [`log`] tells what it did with each
//! request, and through a [`control`] socket timing is switched while the disk is in use.

pub mod check;
pub mod control;
mod error;
pub mod log;
pub mod model;
mod own_file;
mod profile;
pub mod profiles;
mod server;

pub use check::{CheckReport, CheckRow, check};
pub use control::ControlClient;
pub use error::DiskError;
pub use model::Turn;
pub use own_file::FileKind;
pub use profile::{Figure, HddProfile, Interface, Medium, Profile, Raid0Profile, SsdProfile};
pub use profiles::profile;
/// How requests of guests are read; for those who test that with anything.
#[doc(hidden)]
pub use server::request;
pub use server::{DiskTime, ServeOptions, StopHandle, serve};
