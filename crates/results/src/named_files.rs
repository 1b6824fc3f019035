//! Files that workloads name. Their content decides what is measured, and the workload's notation does not contain it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{Study, WrittenWorkload};

/// A file that a workload names cannot be read.
#[derive(Debug, Error)]
#[error(
    "cannot read {path}, which {workload} names: {reason}\n  paths are relative to the directory in which `nestor` is started"
)]
pub struct NamedFileError {
    path: String,
    workload: String,
    reason: io::Error,
}

impl Study {
    /// Notes the content of the files that its workloads name. They are part of its [`hash`](Study::hash) from then on.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read.
    pub fn note_files(&mut self) -> Result<(), NamedFileError> {
        let mut files = BTreeMap::new();
        for workload in &self.workloads {
            for path in files_of(workload) {
                let unreadable =
                    |reason| NamedFileError { path: path.clone(), workload: workload.to_string(), reason };
                let digest = digest_of(&path).map_err(unreadable)?;
                files.insert(path, digest);
            }
        }
        self.files = files;
        Ok(())
    }

    /// The files that a workload names, and their content: as noted, otherwise as it is now. `None` if one cannot be read.
    pub(crate) fn named_files(&self, workload: &WrittenWorkload) -> Option<Vec<(String, String)>> {
        let holds = |path: String| {
            let noted = self.files.get(&path).cloned();
            let holds = noted.or_else(|| digest_of(&path).ok())?;
            Some((path, holds))
        };
        files_of(workload).into_iter().map(holds).collect()
    }

    /// Whether its workloads name files whose content was not noted, because an earlier version began the study.
    pub fn has_files_not_noted(&self) -> bool {
        self.workloads.iter().flat_map(files_of).any(|path| !self.files.contains_key(&path))
    }

    /// A file that a workload of this study names and that holds something else than was noted. One that cannot be read is
    /// none: the workload itself says so.
    pub fn changed_file(&self, workload: &WrittenWorkload) -> Option<String> {
        let mut noted = files_of(workload).into_iter().filter_map(|path| {
            let then = self.files.get(&path)?;
            Some((path, then))
        });
        noted.find(|(path, then)| digest_of(path).is_ok_and(|now| now != **then)).map(|(path, _)| path)
    }
}

fn files_of(workload: &WrittenWorkload) -> Vec<String> {
    workload.value().map(|w| w.files().map(str::to_owned).collect()).unwrap_or_default()
}

/// SHA-256 of a file's content, read in pieces: traces are large.
fn digest_of(path: &str) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hex::encode(digest.finalize())),
            Ok(bytes) => digest.update(&piece[..bytes]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
