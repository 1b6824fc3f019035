//! Networks: a link between two machines, and what one machine makes of what the other has.

mod link;
mod nbd;
mod nfs;

use crate::LayerSpec;

pub use link::{LinkCut, LinkOptions, link_default};
pub use nbd::NetworkDiskOptions;
pub(crate) use nbd::check_served;
pub use nfs::{BelievedAttributes, Export, NfsOptions, NfsVersion, usual_nfs};

pub(super) static LINK: &LayerSpec = &link::LAYER;
pub(super) static NBD: &LayerSpec = &nbd::LAYER;
pub(super) static NFS: &LayerSpec = &nfs::LAYER;
