//! What the files hold that workloads name belongs to the study, and is watched while it runs.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::{Study, WrittenWorkload};

/// A directory with a script in it, and a study of it.
struct Script {
    directory: TempDir,
}

impl Script {
    fn new(text: &str) -> Self {
        let script = Self { directory: TempDir::new().unwrap() };
        script.write(text);
        script
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("x.f")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    fn workload(&self) -> WrittenWorkload {
        format!("wml:script:file={}", self.path().display()).into()
    }

    fn study(&self) -> Study {
        let workloads = vec!["fio:seq-write".into(), self.workload()];
        let mut study = Study::new("s", "S", vec!["ext4/null".into()], workloads);
        study.note_files().unwrap();
        study
    }
}

#[test]
fn a_study_without_files_is_known_by_the_hash_it_always_had() {
    let (stacks, workloads) = (["a", "b"], ["fio:seq-write"]);
    let mut study = Study::new("s", "S", stacks.map(Into::into).to_vec(), workloads.map(Into::into).to_vec());
    study.seed = 7;
    study.note_files().unwrap();
    assert_eq!(study.hash(&"emulated".into()), "6430fcb015343ffb");
    assert!(!serde_json::to_string(&study).unwrap().contains("files"));
    assert!(!study.has_files_not_noted());
}

#[test]
fn a_study_with_a_changed_file_is_another_one() {
    let script = Script::new("run 1");
    let before = script.study();
    assert_eq!(before.hash(&"this".into()), script.study().hash(&"this".into()));
    assert_eq!(before.changed_file(&script.workload()), None);
    script.write("run 2");
    assert_ne!(before.hash(&"this".into()), script.study().hash(&"this".into()));
    assert_eq!(before.changed_file(&script.workload()), Some(script.path().display().to_string()));
    assert_eq!(before.changed_file(&"fio:seq-write".into()), None);
    let read_back: Study = serde_json::from_str(&serde_json::to_string(&before).unwrap()).unwrap();
    assert_eq!(read_back.hash(&"this".into()), before.hash(&"this".into()));
    let earlier = Study { files: Default::default(), ..before };
    assert!(earlier.has_files_not_noted());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let script = Script::new("run 1");
    let mut study = script.study();
    fs::remove_file(script.path()).unwrap();
    let said = study.note_files().unwrap_err().to_string();
    assert!(
        said.starts_with(&format!("cannot read {}, which wml:script", script.path().display())),
        "{said}"
    );
    assert_eq!(study.changed_file(&script.workload()), None, "the workload itself says so");
}
