//! What this machine is to the Xen under which it runs, if it runs under one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{MountFlags, mount};

use crate::init::is_first_process;

/// Where the kernel says which hypervisor is below it (`Documentation/ABI/stable/sysfs-hypervisor-xen`).
const SYSFS: &str = "/sys/hypervisor";

/// What xenfs says of this machine's rights, where it is mounted.
const CAPABILITIES: &str = "/proc/xen/capabilities";

/// The right to make domains, in [`CAPABILITIES`].
const CONTROL: &str = "control_d";

/// Number of the feature of a privileged domain (`XENFEAT_dom0`, xen/interface/features.h).
const DOM0_FEATURE: u32 = 11;

/// What a machine under Xen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XenRole {
    /// The privileged domain, which makes the others.
    Privileged,
    /// Another domain.
    Guest,
}

/// What this machine is under Xen; `None` where none is below it. Nothing is mounted to find that out.
pub fn role() -> Option<XenRole> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let of_sysfs = |name: &str| read(&Path::new(SYSFS).join(name));
    role_of(
        of_sysfs("type").as_deref(),
        read(Path::new(CAPABILITIES)).as_deref(),
        of_sysfs("properties/features").as_deref(),
    )
}

/// The same from what the kernel says. xenfs is empty where it is not mounted; the features are always there, and Xen tells them to its
/// privileged domain alone with [`DOM0_FEATURE`] among them.
fn role_of(kind: Option<&str>, capabilities: Option<&str>, features: Option<&str>) -> Option<XenRole> {
    if kind?.trim() != "xen" {
        return None;
    }
    let is_privileged = match capabilities {
        Some(text) => text.split(',').any(|word| word.trim() == CONTROL),
        None => features.and_then(lowest_features).is_some_and(|bits| bits >> DOM0_FEATURE & 1 == 1),
    };
    Some(if is_privileged { XenRole::Privileged } else { XenRole::Guest })
}

/// The first 32 features: the last eight hexadecimal digits (`features_show`, drivers/xen/sys-hypervisor.c).
fn lowest_features(text: &str) -> Option<u32> {
    let digits = text.trim();
    u32::from_str_radix(digits.get(digits.len().saturating_sub(8)..)?, 16).ok()
}

/// The version of the Xen below this machine, as it says it itself: `4.17.5`.
pub fn version() -> Option<String> {
    let part = |name: &str| {
        let text = fs::read_to_string(PathBuf::from(SYSFS).join("version").join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    Some(format!("{}.{}{}", part("major")?, part("minor")?, part("extra").unwrap_or_default()))
}

/// Whether the privileged domain is paravirtualised: then it reads the processor's own counter.
pub fn is_paravirtualised() -> bool {
    fs::read_to_string(Path::new(SYSFS).join("guest_type")).is_ok_and(|kind| kind.trim() == "PV")
}

/// Whose a privileged domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The lab's: it ends with everything in it, and nothing else uses its Xen.
    Lab,
    /// The user's: it stays, and so do the domains that others made.
    User,
}

impl Owner {
    /// That of this machine.
    pub fn here() -> Self {
        static OWNER: OnceLock<Owner> = OnceLock::new();
        *OWNER.get_or_init(|| if is_first_process() { Self::Lab } else { Self::User })
    }
}

/// Whether this machine, which is the lab's, is the privileged domain of a Xen.
pub fn is_labs_privileged_domain() -> bool {
    // Needs xenfs, which nothing else mounts.
    let _ = mount("xenfs", "/proc/xen", "xenfs", MountFlags::empty(), None);
    fs::read_to_string(CAPABILITIES).is_ok_and(|text| text.contains(CONTROL))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Xen 4.17: of its privileged domain, and without that feature.
    const FEATURES: [&str; 2] = ["000228f0\n", "000220f0\n"];

    #[test]
    fn without_xenfs_the_features_tell_the_privileged_domain() {
        let of = |features| role_of(Some("xen\n"), None, features);
        assert_eq!(of(Some(FEATURES[0])), Some(XenRole::Privileged));
        assert_eq!(of(Some(FEATURES[1])), Some(XenRole::Guest));
        assert_eq!(of(Some("0000000100000800\n")), Some(XenRole::Privileged));
        for nothing in [None, Some(""), Some("zz\n")] {
            assert_eq!(of(nothing), Some(XenRole::Guest));
        }
    }

    #[test]
    fn the_rights_that_xenfs_shows_decide_where_it_is_mounted() {
        let of = |rights| role_of(Some("xen\n"), Some(rights), Some(FEATURES[0]));
        assert_eq!(of("control_d\n"), Some(XenRole::Privileged));
        assert_eq!(of("\n"), Some(XenRole::Guest));
    }

    #[test]
    fn another_hypervisor_or_none_is_no_xen() {
        assert_eq!(role_of(None, Some("control_d"), Some(FEATURES[0])), None);
        assert_eq!(role_of(Some("kvm\n"), Some("control_d"), Some(FEATURES[0])), None);
    }
}
