//! What servers of modelled devices share: private sockets, the loop that serves one hypervisor after the other over vhost-user, and
//! a clock of which the machine tells the time.

mod clock;
mod control;
mod error;
mod front_ends;
mod guest;
mod socket;
mod told;

use vhost_user_backend::VringMutex;
use vhost_user_backend::bitmap::BitmapMmapRegion;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

pub use clock::{Alarm, Clock};
pub use control::{ControlStream, Controlled, serve_control};
pub use error::ServingError;
pub use front_ends::{Connected, Offer, serve_front_ends};
pub use guest::Guest;
pub use socket::{SocketFile, listen};
pub use told::{beside, serve_time};

/// The guest's memory as the vhost-user library hands it over.
pub type Memory = GuestMemoryAtomic<GuestMemory>;
/// The same at one moment. It notes which pages the device has written, for QEMU to move or keep a running machine.
pub type GuestMemory = GuestMemoryMmap<BitmapMmapRegion>;
/// A virtqueue of the guest.
pub type Vring = VringMutex<Memory>;
