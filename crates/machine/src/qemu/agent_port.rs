//! The port through which the agent in a machine of QEMU's is reached.

use std::fs;
use std::path::{Path, PathBuf};

/// Its name.
pub const NAME: &str = "nestor.agent";

/// Where Linux lists such ports.
const PORTS: &str = "/sys/class/virtio-ports";

/// Its device, in the machine itself.
pub fn find() -> Option<PathBuf> {
    fs::read_dir(PORTS)
        .into_iter()
        .flatten()
        .flatten()
        .find(|entry| fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == NAME))
        .map(|entry| Path::new("/dev").join(entry.file_name()))
}
