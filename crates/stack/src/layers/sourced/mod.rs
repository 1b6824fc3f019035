//! Images that come from another machine, the repository: the source of the layer, behind `//`.

pub(super) mod copy;
pub(super) mod overlay;
pub mod transfers;

pub use copy::CopyOptions;
pub(crate) use overlay::{OVER, PREFETCH};
pub use overlay::{OverlayOptions, ServedOver};
