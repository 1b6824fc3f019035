//! A digest of everything that decides a cell's numbers in virtual time: cells with the same digest need not be measured again.

use std::collections::BTreeMap;

use nestor_stack::LabPack;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::TraceMode;
use crate::plan::CellKey;
use crate::study::Study;

/// What cells in virtual time depend on besides themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaboratoryDigest {
    /// SHA-256 of what all cells share.
    pub base: [u8; 32],
    /// The contents of the images with more in them, which only some stacks boot.
    pub packs: BTreeMap<LabPack, String>,
    /// The contents of the images with a kernel of the user's, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, String>,
    /// The contents of the images with a QEMU of the user's, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub qemus: BTreeMap<String, String>,
}

impl LaboratoryDigest {
    /// Whether a laboratory has all of this one, so that numbers are the same there.
    pub fn is_within(&self, other: &Self) -> bool {
        let has = |(pack, contents): (&LabPack, &String)| other.packs.get(pack) == Some(contents);
        let has_kernel = |(name, contents): (&String, &String)| other.kernels.get(name) == Some(contents);
        let has_qemu = |(name, contents): (&String, &String)| other.qemus.get(name) == Some(contents);
        self.base == other.base
            && self.packs.iter().all(has)
            && self.kernels.iter().all(has_kernel)
            && self.qemus.iter().all(has_qemu)
    }
}

impl Study {
    /// The digest of a cell's dependencies. `None` if a file that its workload names cannot be read, if the study does
    /// not hold it, or if its image does not exist.
    pub fn dependencies(&self, laboratory: &LaboratoryDigest, cell: &CellKey) -> Option<String> {
        let parsed = cell.stack.value()?;
        let stack = parsed.to_string();
        let trace =
            if cell.untraced_twin { TraceMode::None } else { self.rule(&cell.stack, &cell.workload)?.trace };
        // A repeat without recorders does not count as a run, although its numbers are the same.
        let kind = if cell.untraced_twin { "twin" } else { "run" }.to_owned();
        let mut texts =
            vec![stack, cell.workload.to_string(), trace.to_string(), cell.seed(self.seed).to_string(), kind];
        if let Some(pack) = parsed.lab_pack() {
            texts.push(laboratory.packs.get(&pack)?.clone());
        }
        if let Some(kernel) = parsed.added_kernel() {
            texts.push(laboratory.kernels.get(kernel)?.clone());
        }
        if let Some(qemu) = parsed.added_qemu() {
            texts.push(laboratory.qemus.get(qemu)?.clone());
        }
        for (path, holds) in self.named_files(&cell.workload)? {
            texts.extend([path, holds]);
        }
        let mut digest = Sha256::new();
        digest.update(laboratory.base);
        // Texts of any length are told apart by their lengths.
        for text in texts {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        Some(hex::encode(digest.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_may_change_a_number_changes_the_digest() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let replayed = format!("replay:trace:file={}", file.path().display());
        let workloads = vec!["fio:seq-write".into(), "fio:seq-read".into(), replayed.as_str().into()];
        let study = Study::new("s", "", vec!["ext4/hdd".into(), "xfs/hdd".into()], workloads);
        let cell = |stack: &str, workload: &str, block| CellKey {
            stack: stack.into(),
            workload: workload.into(),
            block,
            repeat: 0,
            untraced_twin: false,
        };
        let laboratory = |base| LaboratoryDigest { base: [base; 32], ..LaboratoryDigest::default() };
        let first = cell("ext4/hdd", "fio:seq-write", 0);
        let of = |study: &Study, cell: &CellKey| study.dependencies(&laboratory(7), cell);
        let digest = of(&study, &first).unwrap();
        assert_eq!(of(&study, &first).as_ref(), Some(&digest), "the same is the same");
        let mut others = vec![
            study.dependencies(&laboratory(8), &first),
            of(&study, &cell("xfs/hdd", "fio:seq-write", 0)),
            of(&study, &cell("ext4/hdd", "fio:seq-read", 0)),
            of(&study, &cell("ext4/hdd", "fio:seq-write", 1)),
            of(&study, &CellKey { repeat: 1, ..first.clone() }),
            of(&study, &CellKey { untraced_twin: true, ..first.clone() }),
            of(&Study { seed: 2, ..study.clone() }, &first),
            of(&Study { trace: TraceMode::None, ..study.clone() }, &first),
            of(&Study { trace: TraceMode::Layers, ..study.clone() }, &first),
            of(&study, &cell("ext4/hdd", &replayed, 0)),
        ];
        std::fs::write(file.path(), "1").unwrap();
        others.push(of(&study, &cell("ext4/hdd", &replayed, 0)));
        let known: std::collections::HashSet<_> = others.into_iter().map(Option::unwrap).collect();
        assert_eq!(known.len(), 11);
        assert!(!known.contains(&digest));
        assert_eq!(of(&study, &cell("jfs/hdd", "fio:seq-write", 0)), None, "the study does not hold it");
        drop(file);
        assert_eq!(of(&study, &cell("ext4/hdd", &replayed, 0)), None, "its file is gone");
    }

    #[test]
    fn a_qemu_counts_by_what_it_is_and_not_by_its_name() {
        let study = Study::new("s", "", vec!["ext4/kvm:qemu=next/hdd".into()], vec!["fio:seq-write".into()]);
        let cell = CellKey {
            stack: "ext4/kvm:qemu=next/hdd".into(),
            workload: "fio:seq-write".into(),
            block: 0,
            repeat: 0,
            untraced_twin: false,
        };
        let laboratory = |contents: &str| LaboratoryDigest {
            qemus: BTreeMap::from([("next".to_owned(), contents.to_owned())]),
            ..LaboratoryDigest::default()
        };
        let of = |contents| study.dependencies(&laboratory(contents), &cell);
        assert!(of("a").is_some() && of("a") == of("a") && of("a") != of("b"));
        assert_eq!(study.dependencies(&LaboratoryDigest::default(), &cell), None);
        assert!(laboratory("a").is_within(&laboratory("a")) && !laboratory("a").is_within(&laboratory("b")));
    }

    #[test]
    fn a_kernel_counts_by_what_it_is_and_not_by_its_name() {
        let study = Study::new("s", "", vec!["ext4:kernel=next/hdd".into()], vec!["fio:seq-write".into()]);
        let cell = CellKey {
            stack: "ext4:kernel=next/hdd".into(),
            workload: "fio:seq-write".into(),
            block: 0,
            repeat: 0,
            untraced_twin: false,
        };
        let laboratory = |contents: &str| LaboratoryDigest {
            kernels: BTreeMap::from([("next".to_owned(), contents.to_owned())]),
            ..LaboratoryDigest::default()
        };
        let of = |contents| study.dependencies(&laboratory(contents), &cell);
        assert!(of("a").is_some() && of("a") == of("a") && of("a") != of("b"));
        assert_eq!(study.dependencies(&LaboratoryDigest::default(), &cell), None);
        assert!(laboratory("a").is_within(&laboratory("a")) && !laboratory("a").is_within(&laboratory("b")));
    }
}
