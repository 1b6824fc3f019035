//! Kernels of the user's: each is a whole lab image with that kernel beside the image's own, so that every machine of a stack has one root and
//! boots the kernel that the stack says.
//!
//! ```text
//! <cache>/lab/kernel-<name>/     the files of an image, and
//!     added-vmlinuz              the kernel
//!     added-modules.cpio         its boot modules, as `modules.cpio` has the image's own
//!     added.json                 what it is, and of which image the rest is
//! ```
//!
//! The root also has the first two and the kernel's modules, in [`ADDED_IN_ROOT`], so that a host can boot guests with it. A machine with this
//! kernel finds there what its own `/lib/modules` lacks: its initramfs names the directory, and the first process mounts it.

mod file;
mod make;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use file::kernel_version;
pub use make::{AddKernel, add_kernel};

use super::cache::{ADDED, ADDED_KERNEL, ADDED_MODULES_CPIO};
use super::{LabImage, LabImageError, added};

/// Where the root has the added kernel, its boot modules (`modules.cpio`) and all its modules (`modules`).
pub const ADDED_IN_ROOT: &str = "/nestor-kernel";
/// Where a host that runs such an image finds the added kernel for its guests.
pub const ADDED_KERNEL_IN_ROOT: &str = "/nestor-kernel/vmlinuz";
/// Where it finds the first part of their initramfs.
pub const ADDED_MODULES_CPIO_IN_ROOT: &str = "/nestor-kernel/modules.cpio";

/// A kernel that was added to the lab, with the image that has it.
#[derive(Clone, Debug)]
pub struct AddedKernel {
    /// The image, whose own kernel is the lab's.
    pub image: LabImage,
    /// The added kernel.
    pub kernel: PathBuf,
    /// The first part of its initramfs.
    pub modules_cpio: PathBuf,
    /// What it is.
    pub about: AboutKernel,
}

/// What an added kernel is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutKernel {
    /// As `uname -r` prints it.
    pub release: String,
    /// All that the kernel says of its version: compiler's host, number and date of the build.
    pub version: String,
    /// SHA-256 of the file that it came from, 64 hexadecimal digits.
    pub sha256: String,
    /// Modules that stacks may ask for and that it has not.
    pub missing_modules: Vec<String>,
    /// The [contents](LabImage::contents) of the lab image that it was added to.
    pub base: String,
}

impl added::About for AboutKernel {
    fn base(&self) -> &str {
        &self.base
    }
}

/// The name of an image's directory.
fn directory_name(name: &str) -> String {
    format!("kernel-{name}")
}

/// The kernel that was added under a name, checked as [`find_verified`](super::find_verified) checks the lab image. `None` if there is none of
/// that name for this lab image: none was added, or to another image, so that two kernels would differ in more than the kernel.
///
/// # Errors
/// [`LabImageError::NotTrusted`], [`LabImageError::Changed`].
pub fn find_added_kernel(
    cache_directory: &Path,
    name: &str,
    base: &LabImage,
) -> Result<Option<AddedKernel>, LabImageError> {
    let found = added::find(cache_directory, &directory_name(name), ADDED, base)?;
    Ok(found.map(|(directory, about)| added_kernel(directory, base, about)))
}

fn added_kernel(directory: PathBuf, base: &LabImage, about: AboutKernel) -> AddedKernel {
    AddedKernel {
        kernel: directory.join(ADDED_KERNEL),
        modules_cpio: directory.join(ADDED_MODULES_CPIO),
        about,
        image: added::image_in(directory, base),
    }
}
