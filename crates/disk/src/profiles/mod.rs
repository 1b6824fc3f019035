//! The media that Nestor knows, one file each. To add one, write its file and add it to [`PROFILES`].

mod null;
mod nvme_pcie4;
mod raid0_14x10k;
mod raid0_5x10k;
mod raid5_5x10k;
mod ssd_sata;
mod st1000lm024;
mod st336938lw;
mod wd_7200_1tb;
mod wd_re3;

use crate::error::DiskError;
use crate::profile::Profile;

/// Every profile. The first of a kind is the kind's default.
pub const PROFILES: &[&Profile] = &[
    &null::NULL,
    &wd_7200_1tb::WD_7200_1TB,
    &wd_re3::WD_RE3,
    &st1000lm024::ST1000LM024,
    &st336938lw::ST336938LW,
    &raid0_14x10k::RAID0_14X10K,
    &raid0_5x10k::RAID0_5X10K,
    &raid5_5x10k::RAID5_5X10K,
    &ssd_sata::SSD_SATA,
    &nvme_pcie4::NVME_PCIE4,
];

/// The profile of that name; the name of a kind (`hdd`) means the kind's first profile.
///
/// # Errors
/// It does not exist; the error lists the profiles that do.
pub fn profile(name: &str) -> Result<&'static Profile, DiskError> {
    let by_name = PROFILES.iter().find(|p| p.name == name);
    let by_kind = || PROFILES.iter().find(|p| p.medium.kind() == name);
    by_name.or_else(by_kind).copied().ok_or_else(|| DiskError::UnknownProfile {
        name: name.to_owned(),
        known: PROFILES.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
    })
}
