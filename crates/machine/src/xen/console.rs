//! The agent's stream: the domain's console, `hvc0` inside, and a terminal that `xenconsoled` makes in the privileged domain.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::role;
use crate::terminal::make_raw;

/// The console inside a domain.
const CONSOLE: &str = "/dev/hvc0";

/// Says what kind of machine this is, where it runs under a hypervisor (`xen_domain_type`, drivers/xen/sys-hypervisor.c).
const HYPERVISOR_TYPE: &str = "/sys/hypervisor/type";

/// The console of this machine, which is the lab's, if it is a domain that is not privileged.
pub fn of_this_domain() -> Option<PathBuf> {
    let is_xen = std::fs::read_to_string(HYPERVISOR_TYPE).is_ok_and(|kind| kind.trim() == "xen");
    // The console of the privileged domain is Xen's own.
    (is_xen && !role::is_labs_privileged_domain())
        .then(|| PathBuf::from(CONSOLE))
        .filter(|console| console.exists())
}

/// Opens the privileged domain's end of a console.
///
/// # Errors
/// The kernel's.
pub fn open(path: &Path) -> std::io::Result<File> {
    // It would become the terminal of an agent that leads a session, and the end of the domain would end the agent.
    let not_ours = OFlags::NOCTTY.bits().cast_signed();
    let terminal = File::options().read(true).write(true).custom_flags(not_ours).open(path)?;
    make_raw(&terminal)?;
    Ok(terminal)
}
