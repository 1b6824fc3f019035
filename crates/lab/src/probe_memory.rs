//! The results of probes, in small files of the cache directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

/// What one kind of probe found, by the identity of what it probed.
pub struct ProbeMemory {
    path: PathBuf,
    known: BTreeMap<String, String>,
}

impl ProbeMemory {
    /// Reads the stored results; an unreadable file counts as missing.
    pub fn open(path: PathBuf) -> Self {
        let known =
            fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self { path, known }
    }

    /// What was found earlier.
    pub fn recall(&self, identity: &str) -> Option<&str> {
        self.known.get(identity).map(String::as_str)
    }

    /// Keeps what was found.
    pub fn remember(&mut self, identity: &str, found: &str) {
        if self.known.insert(identity.to_owned(), found.to_owned()).as_deref() != Some(found) {
            self.keep();
        }
    }

    /// Forgets a result that no longer holds.
    pub fn forget(&mut self, identity: &str) {
        if self.known.remove(identity).is_some() {
            self.keep();
        }
    }

    /// A new file takes the old one's place, so that nothing is written through a link. Without the file the next run probes
    /// again.
    fn keep(&self) {
        let write = || {
            let bytes = serde_json::to_vec_pretty(&self.known)?;
            if let Some(directory) = self.path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
            }
            nestor_ownership::replace(&self.path, 0o666, &bytes)
        };
        let _ = write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_through_a_link_in_the_memorys_place() {
        let directory = tempfile::tempdir().unwrap();
        let memory = directory.path().join("memory.json");
        let elsewhere = directory.path().join("of-the-users");
        fs::write(&elsewhere, "his").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &memory).unwrap();
        ProbeMemory::open(memory.clone()).remember("a", "kvm");
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "his");
        assert_eq!(ProbeMemory::open(memory).recall("a"), Some("kvm"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_broken_memory_is_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        let memory = directory.path().join("memory.json");
        fs::write(&memory, b"{ not json").unwrap();
        assert_eq!(ProbeMemory::open(memory).recall("a"), None);
    }
}
