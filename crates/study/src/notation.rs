//! How stacks and workloads are written is other crates' business; a study only needs these three answers.

use nestor_load::Workload;
use nestor_stack::{LayerDefinition, Stack};

/// The notation of stacks and workloads.
pub trait Notation {
    /// The stacks that a text with alternatives in braces stands for, in canonical notation.
    ///
    /// # Errors
    ///
    /// The whole message, which may have several lines, if one of them is no stack.
    fn stacks(&self, written: &str) -> Result<Vec<String>, String>;

    /// The workloads that a text with alternatives in braces stands for, in canonical notation.
    ///
    /// # Errors
    ///
    /// The whole message if one of them is no workload.
    fn workloads(&self, written: &str) -> Result<Vec<String>, String>;

    /// The same guest directly on the medium: `ext3/kvm/hdd` for `ext3/kvm/raw/jfs/hdd`. A native stack is its own.
    fn raw_disk(&self, stack: &str) -> String;
}

/// The notation of [`nestor_stack`] and [`nestor_load`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Written;

impl Notation for Written {
    fn stacks(&self, written: &str) -> Result<Vec<String>, String> {
        let stacks = nestor_stack::parse_all(written).map_err(|e| e.to_string())?;
        Ok(stacks.iter().map(Stack::to_string).collect())
    }

    fn workloads(&self, written: &str) -> Result<Vec<String>, String> {
        let texts = nestor_stack::expand(written).map_err(|e| e.to_string())?;
        texts.iter().map(|text| Workload::parse(text).map(|w| w.to_string()).map_err(|e| e.to_string())).collect()
    }

    fn raw_disk(&self, stack: &str) -> String {
        let Ok(parsed) = Stack::parse(stack) else { return stack.to_owned() };
        let layers = parsed.layers();
        let is_hypervisor = |i: &usize| matches!(layers[*i].definition(), LayerDefinition::Hypervisor(_));
        let Some(hypervisor) = (0..layers.len()).find(is_hypervisor) else { return parsed.to_string() };
        let kept = layers[..=hypervisor].iter().chain([parsed.medium()]);
        kept.map(ToString::to_string).collect::<Vec<_>>().join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_disk_keeps_the_guest_and_the_medium() {
        let cases = [
            ("ext3/kvm:cache=writethrough/raw/jfs/hdd", "ext3/kvm:cache=writethrough/hdd"),
            ("ext4/kvm/qcow2/xfs/kvm/raw/xfs/hdd:wd-re3", "ext4/kvm/hdd:wd-re3"),
            ("xfs/kvm/raw/ext4/file:/srv/disk.img", "xfs/kvm/file:/srv/disk.img"),
            ("ext4/hdd", "ext4/hdd"),
        ];
        for (stack, raw) in cases {
            let canonical = |text: &str| Stack::parse(text).unwrap().to_string();
            assert_eq!(Written.raw_disk(stack), canonical(raw), "{stack}");
        }
    }

    #[test]
    fn alternatives_expand_and_mistakes_keep_their_caret() {
        assert_eq!(Written.stacks("ext3/kvm/{,raw/{jfs,xfs}/}hdd").unwrap().len(), 3);
        assert_eq!(Written.workloads("fio:{seq,rand}-{read,write}").unwrap().len(), 4);
        assert!(Written.stacks("ext3/kvn/hdd").unwrap_err().contains('^'));
        assert!(Written.workloads("fio:seq-reed").is_err());
    }
}
