//! What an agent made, so that it can be taken down in reverse order, also by a later process.
//!
//! The ledger is a small file in the agent's work directory, written before the thing is made: whoever finds it
//! after a crash undoes entries that may or may not exist, so every undo is harmless when there is nothing to undo.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use serde::{Deserialize, Serialize};

/// Something that was made and has to be undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// A process group whose leader was started by us; the start time tells it from a later process of that number.
    Process {
        /// Process id and group id.
        pid: u32,
        /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
        start_ticks: u64,
        /// What it is, for messages.
        what: String,
    },
    /// A mounted file system.
    Mount {
        /// Where.
        target: String,
    },
    /// A loop device.
    LoopDevice {
        /// `/dev/loopN`; empty while it is being made, when nobody knows its name: then all of the file are meant.
        device: String,
        /// The file it was made of: a device that was reused for another file is left alone.
        file: String,
    },
    /// A directory, removed only if empty.
    Directory {
        /// Where.
        path: String,
    },
    /// What we wrote on a device or file of the user's that carried nothing before, or could be overwritten.
    Signatures {
        /// The device or file.
        path: String,
    },
    /// A kernel setting with its former value.
    Setting {
        /// The file of `/sys` or `/proc/sys`.
        path: String,
        /// What it held before.
        former: String,
    },
}

impl Resource {
    /// Undoes it; succeeds when there is nothing (any more) to undo.
    ///
    /// # Errors
    /// What still exists and why it could not be removed.
    pub fn take_down(&self) -> Result<(), String> {
        match self {
            Self::Process { pid, start_ticks, what } => end_process_group(*pid, *start_ticks, what),
            Self::Mount { target } => unmount_everything_at(target),
            Self::LoopDevice { device, file } if device.is_empty() => detach_loops_of(file),
            Self::LoopDevice { device, file } => detach_loop(device, file),
            Self::Directory { path } => match fs::remove_dir(path) {
                Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                    Err(format!("the directory {path} could not be removed: {e}"))
                }
                _ => Ok(()),
            },
            Self::Signatures { path } => erase_signatures(path),
            Self::Setting { path, former } => match fs::write(path, former) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    Err(format!("{path} could not be set back to `{former}`: {e}"))
                }
                _ => Ok(()),
            },
        }
    }
}

/// Start time of a process in clock ticks since boot, or `None` if there is no such process.
pub fn process_start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may hold anything, so fields are counted after it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

fn is_same_live_process(pid: u32, start_ticks: u64) -> bool {
    process_start_ticks(pid) == Some(start_ticks) && !is_zombie(pid)
}

fn is_zombie(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

fn end_process_group(pid: u32, start_ticks: u64, what: &str) -> Result<(), String> {
    let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    if !is_same_live_process(pid, start_ticks) {
        return Ok(());
    }
    for (signal, patience) in
        [(Signal::TERM, Duration::from_secs(2)), (Signal::KILL, Duration::from_secs(10))]
    {
        // A group that is gone is what we want.
        let _ = kill_process_group(group, signal);
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if test_kill_process(group).is_err() || !is_same_live_process(pid, start_ticks) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Err(format!("{what} (process {pid}) did not end after SIGKILL"))
}

fn unmount_everything_at(target: &str) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match unmount(target, UnmountFlags::empty()) {
            Ok(()) => {}
            // EINVAL: not a mount point (any more).
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(()),
            Err(rustix::io::Errno::BUSY) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(e) => return Err(format!("{target} could not be unmounted: {e}")),
        }
    }
}

fn erase_signatures(path: &str) -> Result<(), String> {
    match Command::new("wipefs").args(["--all", "--force", "--quiet", "--", path]).output() {
        Ok(output) if output.status.success() => {
            empty_file(path);
            Ok(())
        }
        // A device that was pulled, a file that was removed: nothing is left to erase.
        _ if !Path::new(path).exists() => Ok(()),
        Ok(output) => Err(format!(
            "what was written to {path} could not be erased: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        )),
        Err(e) => Err(format!("what was written to {path} could not be erased, wipefs does not run: {e}")),
    }
}

/// Makes holes of all that a regular file holds, so that it is as empty as it was. Where the file system cannot, old
/// data stay in it, as they do on a device.
fn empty_file(path: &str) {
    use rustix::fs::{FallocateFlags, fallocate};
    let Ok(file) = fs::OpenOptions::new().write(true).open(path) else { return };
    if let Some(bytes) = file.metadata().ok().filter(fs::Metadata::is_file).map(|found| found.len()) {
        let _ = fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes.max(1));
    }
}

fn detach_loops_of(file: &str) -> Result<(), String> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = devices.map(|device| device.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with("loop"))
        .try_for_each(|name| detach_loop(&format!("/dev/{name}"), file))
}

fn detach_loop(device: &str, file: &str) -> Result<(), String> {
    let name = device.trim_start_matches("/dev/");
    let Ok(backing) = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")) else {
        return Ok(());
    };
    if backing.trim_end().trim_end_matches(" (deleted)") != file {
        return Ok(());
    }
    match Command::new("losetup").args(["--detach", device]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "the loop device {device} could not be detached: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        )),
        Err(e) => Err(format!("the loop device {device} could not be detached, losetup does not run: {e}")),
    }
}

/// The list of what was made, mirrored in a file.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    contents: LedgerFile,
    next: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct LedgerFile {
    owner_pid: u32,
    owner_start_ticks: u64,
    entries: Vec<(u64, Resource)>,
}

/// The ledger's name in a work directory.
pub const LEDGER_FILE: &str = "ledger.json";

impl Ledger {
    /// An empty ledger in `directory`, owned by this process.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let owner_pid = std::process::id();
        let contents = LedgerFile {
            owner_pid,
            owner_start_ticks: process_start_ticks(owner_pid).unwrap_or_default(),
            entries: Vec::new(),
        };
        let ledger = Self { path: directory.join(LEDGER_FILE), contents, next: 1 };
        ledger.save()?;
        Ok(ledger)
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

    /// Undoes everything, last first, and tells what could not be undone.
    pub fn take_down(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        let mut problems = Vec::new();
        for (number, resource) in std::mem::take(&mut self.contents.entries).into_iter().rev() {
            if let Err(problem) = resource.take_down() {
                problems.push(problem);
                left.insert(0, (number, resource));
            }
        }
        self.contents.entries = left;
        let _ = self.save();
        problems
    }

    fn save(&self) -> io::Result<()> {
        let partial = self.path.with_extension("partial");
        fs::write(&partial, serde_json::to_vec(&self.contents).map_err(io::Error::other)?)?;
        fs::rename(partial, &self.path)
    }
}

/// What a dead agent left behind.
#[derive(Debug)]
pub struct Leftover {
    /// Its work directory.
    pub directory: PathBuf,
    /// What its ledger still lists.
    pub resources: Vec<Resource>,
}

/// Looks through the work directories below `root` for those whose agent is dead.
pub fn leftovers(root: &Path) -> Vec<Leftover> {
    let Ok(directories) = fs::read_dir(root) else { return Vec::new() };
    let mut found: Vec<Leftover> = directories
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|directory| directory.is_dir())
        .filter_map(|directory| {
            let text = fs::read(directory.join(LEDGER_FILE)).ok()?;
            let file: LedgerFile = serde_json::from_slice(&text).ok()?;
            if is_same_live_process(file.owner_pid, file.owner_start_ticks) {
                return None;
            }
            Some(Leftover { directory, resources: file.entries.into_iter().map(|(_, r)| r).collect() })
        })
        .collect();
    found.sort_by(|a, b| a.directory.cmp(&b.directory));
    found
}

fn is_medium(resource: &Resource) -> bool {
    matches!(resource, Resource::Signatures { .. })
}

impl Leftover {
    /// Media of the user's that the dead agent had written to. They are not erased: since then they may have been
    /// put to another use.
    pub fn written_media(&self) -> Vec<&str> {
        self.resources
            .iter()
            .filter_map(|resource| match resource {
                Resource::Signatures { path } => Some(path.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Undoes what the dead agent left, last first, except [`Self::written_media`], and removes its work directory.
    ///
    /// # Errors
    /// What could not be undone; the work directory then stays, so that it can be tried again.
    pub fn clean(&self) -> Result<(), Vec<String>> {
        let problems: Vec<String> = self
            .resources
            .iter()
            .rev()
            .filter(|r| !is_medium(r))
            .filter_map(|r| r.take_down().err())
            .collect();
        if problems.is_empty() {
            fs::remove_dir_all(&self.directory)
                .map_err(|e| vec![format!("{} could not be removed: {e}", self.directory.display())])
        } else {
            Err(problems)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn what_was_made_is_taken_down_last_first() {
        let directory = tempfile::tempdir().unwrap();
        let outer = directory.path().join("outer");
        let inner = outer.join("inner");
        let mut ledger = Ledger::create(directory.path()).unwrap();
        for path in [&outer, &inner] {
            ledger.enter(Resource::Directory { path: path.display().to_string() }).unwrap();
            fs::create_dir(path).unwrap();
        }
        assert_eq!(ledger.take_down(), Vec::<String>::new());
        assert!(!outer.exists(), "the outer directory can only go after the inner one");
    }

    /// Needs root, as loop devices do.
    #[test]
    fn a_loop_device_whose_maker_died_before_it_knew_the_name_is_detached() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().canonicalize().unwrap().join("medium");
        fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        if !made.status.success() {
            return;
        }
        let device = String::from_utf8(made.stdout).unwrap().trim().trim_start_matches("/dev/").to_owned();
        let backing =
            || fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).unwrap_or_default();
        let file = file.display().to_string();
        assert_eq!(backing().trim(), file);
        let coming = |file: &str| Resource::LoopDevice { device: String::new(), file: file.to_owned() };
        coming("/of/another").take_down().unwrap();
        assert_eq!(backing().trim(), file);
        coming(&file).take_down().unwrap();
        assert_ne!(backing().trim(), file);
    }

    #[test]
    fn a_living_agent_has_no_leftovers_and_a_dead_one_has() {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("1");
        fs::create_dir(&work).unwrap();
        let mut ledger = Ledger::create(&work).unwrap();
        let kept = root.path().join("kept");
        fs::create_dir(&kept).unwrap();
        ledger.enter(Resource::Directory { path: kept.display().to_string() }).unwrap();
        assert!(leftovers(root.path()).is_empty());

        let text = fs::read_to_string(work.join(LEDGER_FILE)).unwrap();
        let own = format!("\"owner_pid\":{}", std::process::id());
        assert!(text.contains(&own));
        fs::write(work.join(LEDGER_FILE), text.replace(&own, "\"owner_pid\":4194305")).unwrap();
        let found = leftovers(root.path());
        assert_eq!(found.len(), 1);
        found[0].clean().unwrap();
        assert!(!kept.exists() && !work.exists());
    }

    #[test]
    fn a_process_group_is_ended_only_if_it_is_still_the_same() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let ticks = process_start_ticks(child.id()).unwrap();
        let other = Resource::Process { pid: child.id(), start_ticks: ticks + 1, what: "sleep".into() };
        other.take_down().unwrap();
        assert!(child.try_wait().unwrap().is_none(), "a process of the same number is not ours");
        let ours = Resource::Process { pid: child.id(), start_ticks: ticks, what: "sleep".into() };
        ours.take_down().unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
