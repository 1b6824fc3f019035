//! The options that all of them have, and what does not go together.

use super::super::options::check_memory;
use super::{HostedController, HostedDisk};
use crate::layers::hypervisors::{CacheMode, GuestDisk};
use crate::{Conflict, Layer, OptionKind, OptionSpec};

/// The controller.
pub(super) const DISK: &str = "disk";

/// How the disk is opened.
pub(super) const CACHE: &str = "cache";

/// The option with the names of controllers.
pub(super) const fn disk(names: &'static [&'static str]) -> OptionSpec {
    OptionSpec {
        name: DISK,
        summary: "the disk controller that the guest sees",
        kind: OptionKind::Choice(names),
        default: Some(names[0]),
    }
}

/// The names of controllers, for that option.
pub(super) const fn names<const N: usize>(controllers: &[HostedController; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = controllers[i].name;
        i += 1;
    }
    names
}

/// Refuses what the program cannot open or do.
pub(super) fn check(layer: &Layer, below: Option<&Layer>) -> Result<(), Conflict> {
    let (Some(options), Some(hosted)) = (layer.hypervisor(), layer.spec.hosted()) else { return Ok(()) };
    let unknown = |below: &&Layer| below.image_format().is_some() && !hosted.formats.contains(&below.name());
    if let Some(image) = below.filter(unknown) {
        return Err(Conflict {
            option: None,
            message: format!("{} does not open images of the format {}", hosted.product, image.name()),
            help: format!("use {}, or a block device", hosted.formats.join(" or ")),
        });
    }
    if let GuestDisk::Hosted(HostedDisk { controller, cache: CacheMode::Unsafe }) = options.disk
        && !controller.may_ignore_flushes
    {
        let can = hosted.controllers.iter().filter(|one| one.may_ignore_flushes);
        let can: Vec<&str> = can.map(|one| one.name).collect();
        return Err(Conflict {
            option: Some(CACHE),
            message: format!(
                "{} passes flushes on to a disk of the controller {}",
                hosted.product, controller.name
            ),
            help: format!("use cache=writeback, or disk={}", can.join(" or disk=")),
        });
    }
    check_memory(&options)
}
