//! The notation of stacks and workloads, as studies read it.

use nestor_load::Workload;
use nestor_stack::{LayerDefinition, Stack};
use nestor_study::Notation;

/// The grammar of `nestor-stack` and the workloads of `nestor-load`.
pub struct LabNotation;

impl Notation for LabNotation {
    fn stacks(&self, written: &str) -> Result<Vec<String>, String> {
        let stacks = nestor_stack::parse_all(written).map_err(|e| e.to_string())?;
        Ok(stacks.iter().map(Stack::to_string).collect())
    }

    fn workloads(&self, written: &str) -> Result<Vec<String>, String> {
        let texts = nestor_stack::expand(written).map_err(|e| e.to_string())?;
        if texts.is_empty() {
            return Err("a workload is empty\n  it is an engine and a case, as in fio:seq-write; `nestor workloads` lists them".into());
        }
        texts
            .iter()
            .map(|text| Workload::parse(text).map(|w| w.to_string()).map_err(|e| e.to_string()))
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
    fn workloads_have_alternatives_too() {
        let workloads = LabNotation.workloads("fio:{seq,rand}-read").unwrap();
        assert_eq!(workloads, ["fio:seq-read", "fio:rand-read"]);
        assert!(LabNotation.workloads("fio:seq-reed").unwrap_err().contains("seq-read"));
    }
}
