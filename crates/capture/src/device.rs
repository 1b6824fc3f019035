//! The device that is recorded.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nestor_trace::TraceError;
use nestor_trace::event::Device;

/// An open block device.
pub(super) struct BlockDevice {
    pub path: PathBuf,
    pub file: File,
    pub number: Device,
    /// The kernel's name of it (`vda`).
    pub name: String,
    pub is_partition: bool,
    pub partitions: Vec<Device>,
}

impl BlockDevice {
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(TraceError::io("open the device", path))?;
        let metadata = file.metadata().map_err(TraceError::io("look at", path))?;
        if !metadata.file_type().is_block_device() {
            return Err(TraceError::NotABlockDevice { path: path.to_path_buf() });
        }
        let rdev = metadata.rdev();
        let number = Device { major: libc::major(rdev), minor: libc::minor(rdev) };
        let link = PathBuf::from(format!("/sys/dev/block/{}:{}", number.major, number.minor));
        let sysfs = fs::canonicalize(&link).map_err(TraceError::io("find the device in", &link))?;
        let name = sysfs.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self {
            path: path.to_path_buf(),
            file,
            number,
            name,
            is_partition: sysfs.join("partition").exists(),
            partitions: partitions(&sysfs),
        })
    }

    /// An error about this device.
    pub fn cannot(&self, method: &'static str, reason: impl Into<String>) -> TraceError {
        TraceError::Capture { device: self.path.clone(), method, reason: reason.into() }
    }
}

fn partitions(sysfs: &Path) -> Vec<Device> {
    let Ok(entries) = fs::read_dir(sysfs) else { return Vec::new() };
    let number_of = |directory: PathBuf| {
        directory.join("partition").exists().then_some(())?;
        let number = fs::read_to_string(directory.join("dev")).ok()?;
        let (major, minor) = number.trim().split_once(':')?;
        Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
    };
    let mut found: Vec<_> = entries.flatten().filter_map(|entry| number_of(entry.path())).collect();
    found.sort();
    found
}
