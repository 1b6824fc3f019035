//! Descriptors of VMware's format for data that are as the guest sees them: of a file or a block device (VMware's "Virtual Disk Format 5.0"). Both
//! VirtualBox and VMware open nothing raw otherwise.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use crate::refusal::{Cause, Refusal};

/// What is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A file.
    File,
    /// A block device.
    Device,
}

impl Extent {
    /// What is at a path: a machine of the lab has its root as a device.
    pub fn of(path: &Path) -> Self {
        let is_device = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        if is_device { Self::Device } else { Self::File }
    }
}

const SECTOR_BYTES: u64 = 512;

/// Writes the descriptor of what is at `path`.
///
/// # Errors
/// It cannot be read, or its name or size cannot be written there.
pub fn write(descriptor: &Path, path: &str, extent: Extent) -> Result<(), Refusal> {
    let failed = |e: io::Error| Refusal::of_io(&format!("the size of {path} is not known"), &e);
    let bytes = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).map_err(failed)?;
    let text = text(path, extent, bytes / SECTOR_BYTES)?;
    nestor_ownership::replace(descriptor, 0o600, text.as_bytes())
        .map_err(|e| Refusal::of_io(&format!("{} could not be written", descriptor.display()), &e))
}

/// The data are at an absolute path, which both programs take.
fn text(path: &str, extent: Extent, sectors: u64) -> Result<String, Refusal> {
    // The format has no way to write it.
    if path.contains(|c: char| c == '"' || c.is_control()) {
        let message =
            format!("{path:?} has a character that a descriptor of a disk cannot carry; use another path");
        return Err(Refusal::new(Cause::NotSupported, message));
    }
    let kind = match extent {
        Extent::File => "monolithicFlat",
        Extent::Device => "fullDevice",
    };
    // What a BIOS takes it for; the data are not booted from, so nothing reads it.
    let cylinders = (sectors / (16 * 63)).clamp(2, 16_383);
    Ok(format!(
        "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType=\"{kind}\"\n\n# Extent description\n\
         RW {sectors} FLAT \"{path}\" 0\n\n# The Disk Data Base\n#DDB\n\nddb.virtualHWVersion = \"4\"\nddb.adapterType = \"ide\"\n\
         ddb.geometry.cylinders = \"{cylinders}\"\nddb.geometry.heads = \"16\"\nddb.geometry.sectors = \"63\"\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU opens such descriptors as well.
    #[test]
    fn a_file_is_described_with_its_size() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        File::create(at("disk.raw")).unwrap().set_len(5 << 20).unwrap();
        write(&at("disk.vmdk"), at("disk.raw").to_str().unwrap(), Extent::File).unwrap();
        let asked = std::process::Command::new("qemu-img")
            .args(["info", "--output=json"])
            .arg(at("disk.vmdk"))
            .output();
        let Ok(asked) = asked else {
            nestor_terminal::errln!("not tried: qemu-img is not installed");
            return;
        };
        let said: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
        assert_eq!(
            (said["format"].as_str(), said["virtual-size"].as_u64()),
            (Some("vmdk"), Some(5 << 20)),
            "{said}"
        );
        let description = std::fs::read_to_string(at("disk.vmdk")).unwrap();
        assert!(description.contains("createType=\"monolithicFlat\"\n"), "{description}");
    }

    #[test]
    fn a_path_that_would_end_the_word_is_refused() {
        for path in ["/a\"b", "/a\nb"] {
            assert!(text(path, Extent::Device, 1).unwrap_err().message.contains("use another path"));
        }
        assert!(text("/dev/sd b", Extent::Device, 8).unwrap().contains("RW 8 FLAT \"/dev/sd b\" 0\n"));
    }
}
