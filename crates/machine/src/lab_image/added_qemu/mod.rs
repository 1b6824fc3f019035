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

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use make::{AddQemu, add_qemu};
pub use program::{Program, libraries, program};

use super::cache::ADDED_QEMU;
use super::{LabImage, LabImageError, added, verify};

/// Where the root has the added QEMU.
const QEMU_IN_ROOT: &str = "/nestor-qemu";
/// The command there that runs it.
pub const ADDED_QEMU_IN_ROOT: &str = "/nestor-qemu/run";

/// Where the loader looks for libraries first, and QEMU for modules.
const LIBRARIES_VARIABLE: &str = "LD_LIBRARY_PATH";
const MODULES_VARIABLE: &str = "QEMU_MODULE_DIR";

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
    /// How it runs on the machine on which it was added.
    pub here: RunsHere,
    /// The [contents](LabImage::contents) of the lab image that it was added to.
    pub base: String,
}

/// What a QEMU that is not installed is told on the machine on which it was added: by itself it takes what is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsHere {
    /// Directories with its libraries, separated by colons: `LD_LIBRARY_PATH`.
    pub libraries: Option<String>,
    /// The directory with its modules.
    pub modules: Option<PathBuf>,
    /// Directories with its firmware, the first that has a file counts.
    pub firmware: Vec<PathBuf>,
}

impl AboutQemu {
    /// The words that begin its command line on the machine on which it was added.
    pub fn command_here(&self) -> Vec<String> {
        let RunsHere { libraries, modules, firmware } = &self.here;
        let set = |name: &str, value: Option<String>| value.map(|value| format!("{name}={value}"));
        let modules = modules.as_ref().map(|directory| directory.display().to_string());
        let mut words = vec!["env".to_owned()];
        words.extend(set(LIBRARIES_VARIABLE, libraries.clone()));
        words.extend(set(MODULES_VARIABLE, modules));
        words.push(self.file.display().to_string());
        words
            .extend(firmware.iter().flat_map(|directory| ["-L".to_owned(), directory.display().to_string()]));
        words
    }

    /// Whether the file is there and is what it was when it was added.
    pub fn is_unchanged(&self) -> bool {
        verify::sha256(&self.file).is_ok_and(|(sha256, _)| sha256 == self.sha256)
    }
}

impl added::About for AboutQemu {
    fn base(&self) -> &str {
        &self.base
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
    let found = added::find(cache_directory, &directory_name(name), ADDED_QEMU, base)?;
    Ok(found.map(|(directory, about)| added_qemu(directory, base, about)))
}

fn added_qemu(directory: PathBuf, base: &LabImage, about: AboutQemu) -> AddedQemu {
    AddedQemu { about, image: added::image_in(directory, base) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qemu_that_is_not_installed_is_told_where_its_parts_are() {
        let about = |here| AboutQemu {
            version: "10.0.2".to_owned(),
            file: "/opt/bin/qemu".into(),
            sha256: String::new(),
            contents: String::new(),
            missing_devices: Vec::new(),
            here,
            base: String::new(),
        };
        assert_eq!(about(RunsHere::default()).command_here(), ["env", "/opt/bin/qemu"]);
        let here = RunsHere {
            libraries: Some("/opt/a:/opt/b".to_owned()),
            modules: Some("/opt/lib/qemu".into()),
            firmware: vec!["/opt/share/qemu".into(), "/opt/share/seabios".into()],
        };
        assert_eq!(
            about(here).command_here().join(" "),
            "env LD_LIBRARY_PATH=/opt/a:/opt/b QEMU_MODULE_DIR=/opt/lib/qemu /opt/bin/qemu -L /opt/share/qemu -L /opt/share/seabios"
        );
        assert!(!about(RunsHere::default()).is_unchanged(), "it is not there");
    }
}
