//! Modelled media: how long each takes for a request, and the log of its requests. `nestor-disk-server` offers them to machines.
//!
//! [`profiles`] hold the known figures of real media, [`model`] computes how long such a medium takes for a request, and
//! [`serve`] offers one to a virtual machine, with the data in a sparse file. A [`log`] records what it did with each
//! request, and a [`control`] socket switches timing while the disk is in use.

pub mod check;
mod error;
pub mod log;
pub mod model;
mod profile;
pub mod profiles;

pub use check::{CheckReport, CheckRow, check};
pub use error::DiskError;
pub use model::Turn;
pub use profile::{ArrayProfile, Figure, HddProfile, Interface, Medium, Profile, SsdProfile};
pub use profiles::profile;
