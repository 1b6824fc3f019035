//! The directory of a machine that is to boot.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::agent::process::OWN_BINARY;
use crate::lab_image::initramfs;
use crate::refusal::{Cause, Refusal};

/// Makes it, for nobody else, and writes the initramfs there: modules of the lab image, and this program.
///
/// # Errors
/// It cannot be made, or there is no room.
pub fn make(directory: &Path, modules_cpio: &str, archive: &Path) -> Result<(), Refusal> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|e| {
        Refusal::of_io(&format!("the directory {} could not be made", directory.display()), &e)
    })?;
    initramfs(Path::new(modules_cpio), Path::new(OWN_BINARY), archive).map_err(|e| {
        let what = format!("the initramfs {} could not be written", archive.display());
        let Refusal { cause, mut message } = Refusal::of_io(&what, &e);
        if cause == Cause::NoSpace {
            message += "; free some space there, or set NESTOR_WORK to a directory with 4 GiB free";
        }
        Refusal { cause, message }
    })
}
