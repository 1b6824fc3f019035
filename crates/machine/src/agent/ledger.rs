//! What an agent made, so that it can be taken down in reverse order, also by a later process.
//!
//! The ledger is a small file in the agent's work directory, written before each resource is made. After
//! a crash, its entries may or may not exist, so every undo is harmless if nothing was made.

use std::io;

use serde::{Deserialize, Serialize};

pub use super::leftovers::{Found, LeftAlone, Leftover, leftovers};
use super::origin::Origin;
pub(crate) use super::resource::is_same_live_process;
pub use super::resource::{Resource, process_start_ticks};
pub use super::undoing::{By, DirectoryIdentity};
use super::work_root::RunDirectory;
use crate::not_undone::NotUndone;

/// The list of what was made, mirrored in a file.
#[derive(Debug)]
pub struct Ledger {
    directory: RunDirectory,
    contents: LedgerFile,
    next: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LedgerFile {
    /// The agent, for people.
    pub owner_pid: u32,
    /// Absent in what older versions wrote.
    pub origin: Option<Origin>,
    pub entries: Vec<(u64, Resource)>,
}

/// The ledger's name in a work directory.
pub const LEDGER_FILE: &str = "ledger.json";

impl Ledger {
    /// An empty ledger in `directory`, whose lock this process holds.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(directory: RunDirectory) -> io::Result<Self> {
        let contents =
            LedgerFile { owner_pid: std::process::id(), origin: Some(Origin::here()), entries: Vec::new() };
        let ledger = Self { directory, contents, next: 1 };
        ledger.save()?;
        Ok(ledger)
    }

    /// The directory it is in.
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// Writes down what is about to be made; the number is for [`Self::strike`].
    ///
    /// # Errors
    /// When the file cannot be written: then nothing should be made.
    pub fn enter(&mut self, resource: Resource) -> io::Result<u64> {
        let number = self.next;
        self.next += 1;
        self.contents.entries.push((number, resource));
        self.save().map(|()| number)
    }

    /// Writes down more of what was entered before it was made.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn revise(&mut self, number: u64, resource: Resource) -> io::Result<()> {
        if let Some(entry) = self.contents.entries.iter_mut().find(|(n, _)| *n == number) {
            entry.1 = resource;
        }
        self.save()
    }

    /// Strikes out what was undone or never came to be.
    pub fn strike(&mut self, number: u64) {
        self.contents.entries.retain(|(n, _)| *n != number);
        // An entry too many is harmless: its undo will find nothing.
        let _ = self.save();
    }

    /// The number of the latest entry that fits.
    pub fn find(&self, matches: impl Fn(&Resource) -> bool) -> Option<(u64, Resource)> {
        self.contents.entries.iter().rev().find(|(_, r)| matches(r)).cloned()
    }

    /// Undoes everything, last first, and reports what could not be undone.
    pub fn take_down(&mut self) -> Vec<NotUndone> {
        let mut left = Vec::new();
        let mut problems = Vec::new();
        for (number, resource) in std::mem::take(&mut self.contents.entries).into_iter().rev() {
            if let Err(problem) = resource.take_down_for_good(By::Maker) {
                problems.push(problem);
                left.insert(0, (number, resource));
            }
        }
        self.contents.entries = left;
        let _ = self.save();
        problems
    }

    /// The mounts of file servers.
    pub fn served_mounts(&self) -> Vec<Resource> {
        let entries = self.contents.entries.iter().map(|(_, resource)| resource);
        entries.filter(|resource| resource.is_served_mount()).cloned().collect()
    }

    fn save(&self) -> io::Result<()> {
        self.directory
            .replace_file(LEDGER_FILE, &serde_json::to_vec(&self.contents).map_err(io::Error::other)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::work_root::WorkRoot;

    #[test]
    fn what_was_made_is_taken_down_last_first() {
        let directory = tempfile::tempdir().unwrap();
        let outer = directory.path().join("outer");
        let inner = outer.join("inner");
        let run = WorkRoot::make(&directory.path().join("root")).unwrap().make_run().unwrap();
        let mut ledger = Ledger::create(run).unwrap();
        for path in [&outer, &inner] {
            let directory = |made| Resource::Directory { path: path.display().to_string(), made };
            let number = ledger.enter(directory(None)).unwrap();
            fs::create_dir(path).unwrap();
            ledger.revise(number, directory(DirectoryIdentity::at(path))).unwrap();
        }
        assert_eq!(ledger.take_down(), []);
        assert!(!outer.exists(), "the outer directory can only go after the inner one");
    }

    #[test]
    fn nobody_else_can_read_a_ledger() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let run = WorkRoot::make(&directory.path().join("root")).unwrap().make_run().unwrap();
        let file = run.path().join(LEDGER_FILE);
        let _ledger = Ledger::create(run).unwrap();
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
