//! The notation of stacks and workloads, as studies read it.

use anyhow::{Context, Result};
use nestor_load::{Profile, Workload};
use nestor_stack::{LayerDefinition, Stack};
use nestor_study::Notation;

/// The grammar of `nestor-stack` and the workloads of `nestor-load`.
pub struct LabNotation;

/// What a file's name ends in that holds a profile of `nestor characterize`.
const PROFILE: &str = ".toml";

/// A profile's load on a longer file than this is not run unless its size is named: laying it out takes minutes, and room.
pub const LARGEST_FILE_BYTES: u64 = 8 << 30;

/// The file of a profile, and the size of the file that its load is to work on if that is named: `mail.toml:size=64G`.
pub fn profile_named(text: &str) -> Option<(&str, Option<&str>)> {
    match text.rsplit_once(":size=") {
        Some((file, size)) if file.ends_with(PROFILE) => Some((file, Some(size))),
        _ => text.ends_with(PROFILE).then_some((text, None)),
    }
}

/// The workload that is written so: in the notation, or as the file of a profile.
///
/// # Errors
/// When it is neither.
pub fn workload_named(text: &str) -> Result<Workload> {
    let Some((file, size)) = profile_named(text) else { return Ok(Workload::parse(text)?) };
    let profile = read_profile(file)?;
    let file_bytes = match size {
        Some(size) => size.parse::<nestor_stack::Bytes>()?.get(),
        None => profile.file_bytes().min(LARGEST_FILE_BYTES),
    };
    if size.is_none() && profile.file_bytes() > file_bytes {
        static TOLD: std::sync::Once = std::sync::Once::new();
        TOLD.call_once(|| {
            errln!(
                "note: the requests of {file} span {:.0} GB, but the load's file has {:.1} GB: seeks are \
                 shorter than in the recording; {file}:size=64G makes the file longer",
                profile.file_bytes() as f64 / 1e9,
                file_bytes as f64 / 1e9
            );
        });
    }
    Ok(Workload::parse(&profile.workload(file_bytes))?)
}

/// Reads the profile in a file.
///
/// # Errors
/// When it cannot be read or is none.
pub fn read_profile(file: &str) -> Result<Profile> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read the profile {file}"))?;
    Profile::parse(&text).with_context(|| format!("{file} is not a profile of `nestor characterize`"))
}

impl Notation for LabNotation {
    fn stacks(&self, written: &str) -> Result<Vec<String>, String> {
        let stacks = nestor_stack::parse_all(written).map_err(|e| e.to_string())?;
        Ok(stacks.iter().map(Stack::to_string).collect())
    }

    fn workloads(&self, written: &str) -> Result<Vec<String>, String> {
        let texts = nestor_stack::expand(written).map_err(|e| e.to_string())?;
        if texts.is_empty() {
            return Err("a workload is empty\n  write an engine and a case, as in fio:seq-write; `nestor \
                        workloads` lists them"
                .into());
        }
        texts
            .iter()
            .map(|text| workload_named(text).map(|w| w.to_string()).map_err(|e| format!("{e:#}")))
            .collect()
    }

    fn raw_disk(&self, stack: &str) -> String {
        let Ok(parsed) = Stack::parse(stack) else { return stack.to_owned() };
        let layers = parsed.layers();
        let is_hypervisor = |i: &usize| matches!(layers[*i].definition(), LayerDefinition::Hypervisor(_));
        // What is between the application's hypervisor and the medium goes.
        match (0..layers.len()).find(is_hypervisor) {
            Some(hypervisor) => {
                let kept: Vec<String> = layers[..=hypervisor].iter().map(|l| l.label()).collect();
                format!("{}/{}", kept.join("/"), parsed.medium())
            }
            None => parsed.to_string(),
        }
    }

    fn native(&self, stack: &str) -> String {
        let Ok(parsed) = Stack::parse(stack) else { return stack.to_owned() };
        let layers = parsed.layers();
        let is_hypervisor = |i: &usize| matches!(layers[*i].definition(), LayerDefinition::Hypervisor(_));
        match (0..layers.len()).find(is_hypervisor) {
            // What the application works on goes down to the medium.
            Some(hypervisor) => {
                let above = layers[..hypervisor].iter().map(|l| l.label());
                let kept: Vec<String> = above.chain([parsed.medium().to_string()]).collect();
                kept.join("/")
            }
            None => parsed.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_disk_of_a_guest_is_its_baseline() {
        let raw_disk = |stack| LabNotation.raw_disk(stack);
        assert_eq!(raw_disk("ext3/kvm/raw/jfs/hdd"), "ext3/kvm/hdd");
        assert_eq!(
            raw_disk("ext3/kvm:cache=writethrough/hdd:wd-re3"),
            "ext3/kvm:cache=writethrough/hdd:wd-re3"
        );
        assert_eq!(raw_disk("ext4/kvm/qcow2/xfs/kvm/raw/ext4/null"), "ext4/kvm/null");
        assert_eq!(raw_disk("ext4/hdd"), "ext4/hdd");
    }

    #[test]
    fn natively_its_file_system_is_on_the_medium() {
        let native = |stack| LabNotation.native(stack);
        assert_eq!(native("ext3/kvm:disk=lsi:memory=192M/raw/jfs/hdd:st336938lw"), "ext3/hdd:st336938lw");
        assert_eq!(native("ext4/kvm/qcow2/xfs/kvm/raw/ext4/null"), "ext4/null");
        assert_eq!(native("ext4/hdd"), "ext4/hdd");
    }

    #[test]
    fn a_profiles_file_may_have_a_size() {
        assert_eq!(profile_named("a/mail.toml"), Some(("a/mail.toml", None)));
        assert_eq!(profile_named("mail.toml:size=64G"), Some(("mail.toml", Some("64G"))));
        assert_eq!(profile_named("fio:seq-read:size=1G"), None);
    }

    #[test]
    fn workloads_have_alternatives_too() {
        let workloads = LabNotation.workloads("fio:{seq,rand}-read").unwrap();
        assert_eq!(workloads, ["fio:seq-read", "fio:rand-read"]);
        assert!(LabNotation.workloads("fio:seq-reed").unwrap_err().contains("seq-read"));
    }
}
