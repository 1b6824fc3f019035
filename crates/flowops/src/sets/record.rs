//! What is remembered of the sets that were made in a directory, so that they may be replaced, used again or removed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::names::Recorded;
use super::origin::Origin;
use super::seal::Seal;
use crate::error::FlowError;

/// The file in the directory.
const NAME: &str = ".nestor-filesets.json";
/// A record of 10 000 sets has 6 MiB; what is longer was not written by this program.
const MOST_BYTES: u64 = 16 << 20;

/// What is remembered of the sets in a directory.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    pub(super) sets: BTreeMap<String, Made>,
}

/// How a set was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) seed: u64,
    pub(super) files: usize,
    pub(super) directories: usize,
    pub(super) bytes: u64,
    /// Whether a workload has changed the files since.
    pub(super) used: bool,
    /// Whether this program made everything in its directory. Only then is it ever removed: not where files that were there
    /// were adopted (`reuse`, `trusttree`), and not where a record does not say.
    #[serde(default)]
    pub(super) ours: bool,
    /// Whether the directory itself was there, empty, and so stays.
    #[serde(default)]
    pub(super) stays: bool,
    /// The directory, if this program made what is in it; also after it was adopted, when nothing is removed any more.
    #[serde(default)]
    pub(super) origin: Option<Origin>,
    /// What it made there.
    #[serde(default)]
    pub(super) names: Recorded,
    /// The files as they were when they had been prepared, if they were only prepared.
    #[serde(default)]
    pub(super) seal: Option<Seal>,
}

impl Made {
    /// Whether what stands there is the directory that this program made, and this user's.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let me = rustix::process::geteuid().as_raw();
        fs::symlink_metadata(path).is_ok_and(|found| found.uid() == me)
            && self.origin.as_ref().is_some_and(|origin| origin.is(path))
    }

    /// Whether files as they are wanted now were prepared, and no workload has changed them.
    pub(super) fn is_fresh(&self, wanted: &Self) -> bool {
        let contents = |made: &Self| (made.seed, made.files, made.directories, made.bytes);
        contents(self) == contents(wanted) && !self.used && self.seal.is_some()
    }

    /// Whether they have not been changed or replaced since. The file system may have been mounted again.
    pub(super) fn is_untouched(&self, path: &Path, found: &Seal) -> bool {
        self.seal.as_ref() == Some(found) && self.origin.as_ref().is_none_or(|origin| origin.has_mark(path))
    }
}

impl Memory {
    /// What cannot be understood is nothing that is known; what another user could have written is refused.
    pub(super) fn read(directory: &Path) -> Result<Self, FlowError> {
        let path = directory.join(NAME);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = match File::options().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
                return Err(FlowError::Record { path, why: "is a link" });
            }
            Err(e) => return Err(FlowError::call("cannot read", path.display().to_string(), e)),
        };
        let failed = |e| FlowError::call("cannot read", path.display().to_string(), e);
        let found = file.metadata().map_err(failed)?;
        let refused = |why| Err(FlowError::Record { path: path.clone(), why });
        if !found.is_file() {
            return refused("is not a regular file");
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return refused("belongs to another user");
        }
        if found.mode() & 0o022 != 0 {
            return refused("may be written by other users");
        }
        if found.len() > MOST_BYTES {
            return refused("is too long for such a record");
        }
        let mut text = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut text).map_err(failed)?;
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Puts it in its place by a rename: never through a link.
    pub(super) fn write(&self, directory: &Path) -> Result<(), FlowError> {
        let path = directory.join(NAME);
        let written = |memory: &Self| serde_json::to_vec_pretty(memory).expect("a map of numbers is JSON");
        let mut text = written(self);
        if text.len() as u64 > MOST_BYTES {
            let mut sets = self.sets.clone();
            sets.values_mut().for_each(|made| made.names.shorten());
            text = written(&Self { sets });
        }
        nestor_ownership::replace(&path, 0o600, &text)
            .map_err(|e| FlowError::call("cannot write", path.display().to_string(), e))
    }

    /// Forgets a set; nothing is left of a record without sets.
    pub(super) fn forget(mut self, directory: &Path, name: &str) -> Result<(), FlowError> {
        self.sets.remove(name);
        if !self.sets.is_empty() {
            return self.write(directory);
        }
        let path = directory.join(NAME);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(FlowError::call("cannot remove", path.display().to_string(), e))
            }
            _ => Ok(()),
        }
    }
}
