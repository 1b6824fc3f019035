//! Which class of device a medium of the user's is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the kernel says of a medium of the user's. Results keep it as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMedium {
    /// What it is.
    pub class: MediumClass,
    /// Whether it answers writes from a cache; `None` where no kernel says.
    pub write_cache: Option<bool>,
}

/// The setting that shows the class.
pub const MEDIUM_CLASS: &str = "medium class";
/// The setting that shows whether the medium has a write cache that is on.
pub const MEDIUM_WRITE_CACHE: &str = "medium write cache";
/// How a flash disk is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Serial ATA.
    Sata,
    /// Serial Attached SCSI.
    Sas,
    /// NVM Express.
    Nvme,
}

/// What kind of device a medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// With platters; revolutions per minute where the disk says.
    HardDisk {
        /// Revolutions per minute.
        rpm: Option<u16>,
    },
    /// Without moving parts.
    Flash(Link),
    /// A disk that a hypervisor makes.
    Virtual,
    /// Not known.
    Unknown,
}

/// The kind and number of devices that hold a medium. Results keep it as text, as [`Self::stored`] writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MediumClass {
    /// Of each.
    pub kind: DeviceKind,
    /// How many; 1 where that is not known.
    pub disks: u32,
}

/// The stored words of a class.
const STORED: [(&str, DeviceKind); 6] = [
    (HARD_DISK, DeviceKind::HardDisk { rpm: None }),
    ("SATA flash disk", DeviceKind::Flash(Link::Sata)),
    ("SAS flash disk", DeviceKind::Flash(Link::Sas)),
    ("NVMe flash disk", DeviceKind::Flash(Link::Nvme)),
    ("virtual disk", DeviceKind::Virtual),
    (UNKNOWN, DeviceKind::Unknown),
];
const HARD_DISK: &str = "hard disk";
const UNKNOWN: &str = "unknown";
/// Between a hard disk and its revolutions per minute, and after them.
const OF: &str = " of ";
const RPM: &str = " rpm";
/// Between number and kind of several disks.
const TIMES: &str = " x ";

impl MediumClass {
    /// If nothing is known.
    pub const UNKNOWN: Self = Self { kind: DeviceKind::Unknown, disks: 1 };

    /// The words in which results keep it. They are those of every version, whatever is shown.
    pub fn stored(&self) -> String {
        let kind = match self.kind {
            DeviceKind::HardDisk { rpm: Some(rpm) } => format!("{HARD_DISK}{OF}{rpm}{RPM}"),
            kind => STORED.iter().find(|(_, of)| *of == kind).map_or(UNKNOWN, |(words, _)| words).to_owned(),
        };
        if self.disks > 1 { format!("{}{TIMES}{kind}", self.disks) } else { kind }
    }

    /// Reads what [`Self::stored`] writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (disks, kind) = match text.split_once(TIMES) {
            Some((disks, kind)) => (disks.parse().ok()?, kind),
            None => (1, text),
        };
        let known = STORED.iter().find(|(words, _)| *words == kind).map(|(_, kind)| *kind);
        let with_speed = || {
            let rpm = kind.strip_prefix(HARD_DISK)?.strip_prefix(OF)?.strip_suffix(RPM)?;
            Some(DeviceKind::HardDisk { rpm: Some(rpm.parse().ok()?) })
        };
        let kind = known.or_else(with_speed)?;
        Some(Self { kind, disks })
    }
}

impl fmt::Display for MediumClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.disks > 1 {
            write!(f, "{} x ", self.disks)?;
        }
        match self.kind {
            DeviceKind::HardDisk { rpm: Some(rpm) } => write!(f, "hard disk of {rpm} rpm"),
            DeviceKind::HardDisk { rpm: None } => f.write_str("hard disk"),
            DeviceKind::Flash(Link::Sata) => f.write_str("SATA flash disk"),
            DeviceKind::Flash(Link::Sas) => f.write_str("SAS flash disk"),
            DeviceKind::Flash(Link::Nvme) => f.write_str("NVMe flash disk"),
            DeviceKind::Virtual => f.write_str("virtual disk"),
            DeviceKind::Unknown => f.write_str("unknown"),
        }
    }
}

impl TryFrom<String> for MediumClass {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a class of media"))
    }
}

impl From<MediumClass> for String {
    fn from(class: MediumClass) -> Self {
        class.stored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_again() {
        for text in [
            "hard disk",
            "hard disk of 7200 rpm",
            "3 x hard disk of 15000 rpm",
            "SATA flash disk",
            "SAS flash disk",
            "2 x NVMe flash disk",
            "virtual disk",
            "unknown",
        ] {
            assert_eq!(MediumClass::parse(text).unwrap().stored(), text);
        }
        assert_eq!(MediumClass::parse("floppy"), None);
    }
}
