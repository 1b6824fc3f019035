//! QEMUs of the user's: each is a whole lab image with that QEMU beside the image's own, so that every machine of a stack has one root and
//! guests run in the QEMU that the stack says.
//!
//! ```text
//! <cache>/lab/qemu-<name>/       the files of an image, and
//!     added-qemu.json            what the QEMU is, and of which image the rest is
//! ```
//!
//! The root has it in [`QEMU_IN_ROOT`], with its libraries, its modules and the firmware of its machines: nothing of it comes from the lab
//! image's packages.

mod make;
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use make::{AddQemu, add_qemu};
pub use program::{Program, libraries, program};

use super::cache::{ADDED_QEMU, Cache, KERNEL, MODULES_CPIO, ROOT_SQUASHFS};
use super::{LabImage, LabImageError, absolute, verify};

/// Where the root has the added QEMU.
const QEMU_IN_ROOT: &str = "/nestor-qemu";
/// The command there that runs it.
pub const ADDED_QEMU_IN_ROOT: &str = "/nestor-qemu/run";

/// A QEMU that was added to the lab, with the image that has it.
#[derive(Clone, Debug)]
pub struct AddedQemu {
    /// The image, whose own QEMU is the lab's.
    pub image: LabImage,
    /// What it is.
    pub about: AboutQemu,
}

/// What an added QEMU is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutQemu {
    /// What it says of its version.
    pub version: String,
    /// The file that it came from.
    pub file: PathBuf,
    /// SHA-256 of that file, 64 hexadecimal digits.
    pub sha256: String,
    /// SHA-256 over all that was taken: the program, its libraries, modules and firmware.
    pub contents: String,
    /// Devices that stacks may ask for and that it has not.
    pub missing_devices: Vec<String>,
    /// The [contents](LabImage::contents) of the lab image that it was added to.
    pub base: String,
}

impl AboutQemu {
    /// Whether the file is there and is what it was when it was added.
    pub fn is_unchanged(&self) -> bool {
        verify::sha256(&self.file).is_ok_and(|(sha256, _)| sha256 == self.sha256)
    }
}

/// The name of an image's directory.
fn directory_name(name: &str) -> String {
    format!("qemu-{name}")
}

/// The QEMU that was added under a name, checked as [`find_verified`](super::find_verified) checks the lab image. `None` if there is none of that
/// name for this lab image.
///
/// # Errors
/// [`LabImageError::NotTrusted`], [`LabImageError::Changed`].
pub fn find_added_qemu(
    cache_directory: &Path,
    name: &str,
    base: &LabImage,
) -> Result<Option<AddedQemu>, LabImageError> {
    let cache = Cache::new(&absolute(cache_directory)?);
    cache.check_owner()?;
    let directory = cache.image_directory(&directory_name(name));
    let Ok(text) = fs::read_to_string(directory.join(ADDED_QEMU)) else { return Ok(None) };
    let Ok(about) = serde_json::from_str::<AboutQemu>(&text) else { return Ok(None) };
    if about.base != base.contents()? {
        return Ok(None);
    }
    verify::verify(&directory)?;
    Ok(Some(added_qemu(directory, base, about)))
}

fn added_qemu(directory: PathBuf, base: &LabImage, about: AboutQemu) -> AddedQemu {
    AddedQemu {
        about,
        image: LabImage {
            kernel: directory.join(KERNEL),
            modules_cpio: directory.join(MODULES_CPIO),
            root_squashfs: directory.join(ROOT_SQUASHFS),
            directory,
            ..base.clone()
        },
    }
}
