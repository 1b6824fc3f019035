//! Which of the file systems that a built stack stands on are full.
//!
//! A workload sees only an I/O error when one of them runs out of space: sparse images, sparse files as disks and
//! the data of modelled disks promise more space than exists.

use nestor_machine::{Command, Machine};
use nestor_stack::{LayerIndex, MachineIndex, MediumKind, Stack};

use crate::{BuiltStack, Lab};

/// Less than this is full: file systems keep some blocks to themselves.
const FULL_BYTES: u64 = 16 << 20;

impl Lab {
    /// The full file systems, each with its machine and what to do. Machines that do not answer are skipped.
    pub fn full_file_systems(&self, built: &BuiltStack) -> Vec<String> {
        let mut full = Vec::new();
        for mounted in &built.file_systems {
            let machine = &built.machines[mounted.machine].machine;
            if is_full(machine, &mounted.mounting.target) {
                let (label, kind) = (machine.label(), built.stack.layer(mounted.layer).name());
                let larger = larger(&built.stack, mounted.layer);
                full.push(format!(
                    "the {kind} of the {label} is full: use a smaller data set (`scale=`){larger}"
                ));
            }
        }
        let ground = self.ground();
        let medium = built.stack.medium();
        let is_directory = medium.medium_kind() == Some(MediumKind::Directory);
        let holding = medium.path().and_then(|path| if is_directory { Some(path) } else { path.parent() });
        if let Some(path) = holding.map(|path| path.display().to_string()) {
            if is_full(&built.machines[MachineIndex::OUTERMOST].machine, &path) {
                full.push(format!(
                    "the file system of {path}, which holds the medium, is full: free some space there, or \
                     use a smaller data set (`scale=`)"
                ));
            }
        } else if is_full(ground, &self.ground_facts.work_directory) {
            full.push(format!(
                "the file system of {}, which holds the data of the modelled disk, is full: free some space \
                 there, set NESTOR_WORK to a directory with more space, or use a smaller data set (`scale=`)",
                self.ground_facts.work_directory
            ));
        }
        full
    }
}

/// Name of the option that says how large something is.
const SIZE_OPTION: &str = "size";

/// That what a file system lies on may be larger: the nearest layer below it that has a size. Of a network file system, that is below the
/// server's. What the user's own medium holds is as large as it is.
fn larger(stack: &Stack, file_system: LayerIndex) -> String {
    let sized = stack.below(file_system).iter().find(|layer| layer.spec.option(SIZE_OPTION).is_some());
    sized.map_or_else(String::new, |layer| format!(", or a larger `{SIZE_OPTION}=` for {}", layer.name()))
}

fn is_full(machine: &Machine, path: &str) -> bool {
    let asked =
        machine.run(Command::new(["stat", "--file-system", "--format=%a %S %b", "--", path]).timeout_s(10));
    asked.is_ok_and(|answer| says_full(&answer.stdout_text()))
}

/// Free blocks, bytes of a block, blocks in all; those without blocks (`/dev`, `/proc`) cannot be full.
fn says_full(stat: &str) -> bool {
    let numbers: Vec<u64> = stat.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    matches!(numbers.as_slice(), [free, bytes, blocks] if *blocks > 0 && free.saturating_mul(*bytes) < FULL_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_larger_is_the_nearest_layer_that_has_a_size() {
        let said = |text: &str| {
            let stack = Stack::parse(text).unwrap();
            larger(&stack, LayerIndex::TOP)
        };
        assert_eq!(said("nfs/link/xfs/hdd:size=1G"), ", or a larger `size=` for hdd");
        assert_eq!(said("nfs/link/ext4/loop/raw/xfs/hdd"), ", or a larger `size=` for raw");
        assert_eq!(said("ext4/kvm/qcow2/nfs/link/xfs/hdd"), ", or a larger `size=` for qcow2");
        assert_eq!(said("ext4/nbd/link/hdd"), ", or a larger `size=` for hdd");
        assert_eq!(said("ext4/kvm/dev:/dev/sdb"), "");
    }

    #[test]
    fn a_file_system_with_next_to_nothing_free_is_full() {
        assert!(says_full("0 4096 76800\n"));
        assert!(says_full("100 4096 76800\n"));
        assert!(!says_full("76000 4096 76800\n"));
        assert!(!says_full("0 4096 0\n"), "of no size");
        assert!(!says_full("stat: cannot read"));
    }
}
