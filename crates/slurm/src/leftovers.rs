//! What a controller that was killed has left: array jobs that may still run, and results that it has not taken.

use std::collections::HashSet;
use std::fs;

use nestor_results::{CellKey, Store, StoreError};

use crate::cluster::Cluster;
use crate::files::SharedDirectory;
use crate::task::TaskFiles;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Results that were taken.
    pub taken: usize,
    /// Array jobs that were cancelled, if they still ran.
    pub jobs: Vec<String>,
}

/// Ends the array jobs that an earlier controller has left, takes what they have measured of a study, each cell once, and removes
/// their directories.
///
/// # Errors
/// If results cannot be kept. What cannot be read is left where it is.
pub fn take_leftovers(
    cluster: &mut dyn Cluster,
    directory: &SharedDirectory,
    name: &str,
    study_hash: &str,
    store: &mut Store,
) -> Result<Leftovers, StoreError> {
    let mut found = Leftovers::default();
    let mut finished: HashSet<CellKey> = store.finished(study_hash)?;
    for array in directory.arrays() {
        if let Ok(job) = fs::read_to_string(array.join("job-number")) {
            // A job that has ended long ago is none, and a cluster that does not answer says so when cells are submitted.
            let _ = cluster.cancel(&job, name, false);
            found.jobs.push(job);
        }
        let mut is_read = true;
        for files in TaskFiles::in_directory(&array) {
            let Ok(results) = files.results() else {
                is_read = false;
                continue;
            };
            for (_, record) in results {
                let is_ours = record.study_hash.as_deref() == Some(study_hash) && record.measured().is_some();
                if is_ours && finished.insert(record.key()) {
                    store.insert(&record)?;
                    found.taken += 1;
                }
            }
        }
        if is_read {
            let _ = fs::remove_dir_all(&array);
        }
    }
    Ok(found)
}
