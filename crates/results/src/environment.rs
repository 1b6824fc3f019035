//! Where and on what a cell ran.

use std::collections::BTreeMap;

use nestor_processor::ProcessorSpeed;
use nestor_stack::{Accelerator, MEDIUM_CLASS, MEDIUM_WRITE_CACHE, MachineName, MediumClass, UserMedium};
use serde::{Deserialize, Serialize};

use crate::WrittenPlace;

/// Where and on what a cell ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Kept", into = "Kept")]
pub struct Environment {
    /// Nestor's version and build.
    pub nestor: String,
    /// `emulated`, `this` or `ssh:HOST`.
    pub ground: WrittenPlace,
    /// The machines, outermost first.
    pub machines: Vec<MachineRecord>,
    /// Packages that matter (qemu, fio, mkfs tools, kernel) with their versions, by machine label and name.
    pub packages: BTreeMap<String, String>,
    /// The settings of the cell in words a reader can check: cache modes, schedulers, read-ahead, sizes, disk timing.
    pub settings: BTreeMap<String, String>,
    /// What makes the numbers of the workload less than they seem.
    pub remarks: Vec<String>,
    /// What makes those of the place less than they seem.
    pub place_remark: Option<String>,
    /// What the kernel says of the medium, if it is the user's. Records of before it was kept have it in the settings.
    pub user_medium: Option<UserMedium>,
    /// SHA-256, in hexadecimal, of all that decides its numbers: programs, images, place, stack, workload with the files it
    /// names, what is recorded, seed. Only in virtual time do they decide them.
    pub depends_on: Option<String>,
}

impl Environment {
    /// Whether the cell ran in virtual time.
    pub fn is_in_virtual_time(&self) -> bool {
        self.ground.is_in_virtual_time()
    }

    /// The speed of the modelled processor, where the cell ran in virtual time.
    pub fn modelled_processor(&self) -> Option<ProcessorSpeed> {
        self.ground.modelled_processor()
    }

    /// All remarks.
    pub fn all_remarks(&self) -> impl Iterator<Item = &str> {
        self.remarks.iter().chain(&self.place_remark).map(String::as_str)
    }

    /// What the kernel says of the medium, if it is the user's.
    pub fn known_user_medium(&self) -> Option<UserMedium> {
        self.user_medium.or_else(|| {
            let class = self.settings.get(MEDIUM_CLASS).and_then(|words| MediumClass::parse(words))?;
            let write_cache = self.settings.get(MEDIUM_WRITE_CACHE).map(|words| words == "on");
            Some(UserMedium { class, write_cache })
        })
    }
}

/// One machine of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineRecord {
    /// `host`, `guest`, …
    pub label: MachineName,
    /// Kernel release.
    pub kernel: String,
    /// CPU model as the machine sees it.
    pub cpu_model: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// What executes its instructions.
    pub accelerator: Accelerator,
}

impl MachineRecord {
    /// `Linux 6.1.0-28-amd64, 2 x QEMU TCG CPU version 2.5+, 1024 MiB, tcg`.
    pub fn in_words(&self) -> String {
        let Self { kernel, cpu_model, cpus, memory_bytes, accelerator, .. } = self;
        format!("Linux {kernel}, {cpus} x {cpu_model}, {} MiB, {accelerator}", memory_bytes >> 20)
    }
}

/// An [`Environment`] as results files have it: remarks are among the settings, as `remark 1` … and `remark on the place`.
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    nestor: String,
    ground: WrittenPlace,
    machines: Vec<MachineRecord>,
    packages: BTreeMap<String, String>,
    settings: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_medium: Option<UserMedium>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    depends_on: Option<String>,
}

const PLACE_REMARK: &str = "remark on the place";

/// The setting that keeps a remark, counted from 1.
fn remark_setting(number: usize) -> String {
    format!("remark {number}")
}

impl From<Kept> for Environment {
    fn from(mut kept: Kept) -> Self {
        let place_remark = kept.settings.remove(PLACE_REMARK);
        let remarks = (1..).map_while(|number| kept.settings.remove(&remark_setting(number))).collect();
        let Kept { nestor, ground, machines, packages, settings, user_medium, depends_on } = kept;
        Self { nestor, ground, machines, packages, settings, remarks, place_remark, user_medium, depends_on }
    }
}

impl Environment {
    /// The settings as results files have them, with the remarks.
    pub(crate) fn kept_settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.settings.clone();
        settings.extend((1..).map(remark_setting).zip(self.remarks.iter().cloned()));
        settings.extend(self.place_remark.clone().map(|remark| (PLACE_REMARK.to_owned(), remark)));
        settings
    }
}

impl From<Environment> for Kept {
    fn from(environment: Environment) -> Self {
        let settings = environment.kept_settings();
        let Environment { nestor, ground, machines, packages, user_medium, depends_on, .. } = environment;
        Self { nestor, ground, machines, packages, settings, user_medium, depends_on }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_kept_among_the_settings_as_they_were() {
        let of_old = r#"{"nestor":"","ground":"this","machines":[],"packages":{},"settings":{"cache":"none","remark 1":"a","remark 10":"j","remark 2":"b","remark on the place":"p"}}"#;
        let read: Environment = serde_json::from_str(of_old).unwrap();
        assert_eq!(read.remarks, ["a", "b"]);
        assert_eq!(read.all_remarks().collect::<Vec<_>>(), ["a", "b", "p"]);
        // One that does not follow another is a setting like others.
        assert_eq!(read.settings.keys().collect::<Vec<_>>(), ["cache", "remark 10"]);
        assert_eq!(serde_json::to_string(&read).unwrap(), of_old);
    }
}
