//! Images that come from another machine, the repository: the source of the layer, behind `//`.

pub(super) mod copy;
pub(super) mod overlay;
pub mod transfers;

pub use copy::CopyOptions;
pub use overlay::{OverlayOptions, ServedOver};

/// Why a stack with one of them cannot be built yet.
const NOT_YET: &str = "Nestor reads and checks stacks with a source, and does not build them yet";
