//! Which processes are meant: all, one with its children, a control group's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::process::{Process, Stat, Task};

/// Where control groups of version 2 are.
pub const CGROUPS: &str = "/sys/fs/cgroup";

/// Whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every thread of the machine.
    Everybody,
    /// A process and those that it started.
    Process(u32),
    /// The processes of a control group and those below it.
    Group(PathBuf),
}

impl Who {
    /// A process with those that it started, if it is there.
    pub fn process(pid: u32) -> Option<Self> {
        Path::new(&format!("/proc/{pid}")).exists().then_some(Self::Process(pid))
    }

    /// A control group, by its path with or without [`CGROUPS`].
    ///
    /// # Errors
    ///
    /// Its path below [`CGROUPS`], if there is none.
    pub fn group(path: &Path) -> Result<Self, &Path> {
        let below = path.strip_prefix(CGROUPS).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
        let directory = Path::new(CGROUPS).join(below);
        if directory.join("cgroup.procs").exists() { Ok(Self::Group(directory)) } else { Err(below) }
    }

    /// In words; nothing for everybody.
    pub fn in_words(&self) -> String {
        match self {
            Self::Everybody => String::new(),
            Self::Process(pid) => match stat_of(*pid) {
                Some(stat) => format!("process {pid} ({})", stat.comm),
                None => format!("process {pid}"),
            },
            Self::Group(directory) => {
                let below = directory.strip_prefix(CGROUPS).unwrap_or(directory);
                format!("control group {}", below.display())
            }
        }
    }

    /// The processes as they are now; empty for everybody's.
    pub fn processes(&self) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        match self {
            Self::Everybody => {}
            Self::Process(pid) => descend(*pid, &mut found),
            Self::Group(directory) => in_group(directory, &mut found),
        }
        found
    }
}

/// The threads of a process.
pub fn threads(pid: u32) -> Vec<u32> {
    tasks(pid).iter().map(|task| task.tid.cast_unsigned()).collect()
}

/// How long each thread of a process has waited in the queue of a processor; none where the kernel does not count it.
pub(crate) fn run_delays(pid: u32) -> BTreeMap<u32, Duration> {
    let waited = |task: &Task| {
        Some((task.tid.cast_unsigned(), Duration::from_nanos(task.schedstat().ok()?.run_delay)))
    };
    tasks(pid).iter().filter_map(waited).collect()
}

/// Whether a process does anything any more. One that has ended and was not waited for is there, but without threads.
pub fn is_alive(pid: u32) -> bool {
    stat_of(pid).is_some_and(|stat| stat.state != 'Z')
}

/// What the kernel counts of a process, if it is there.
pub(crate) fn stat_of(pid: u32) -> Option<Stat> {
    Process::new(pid.try_into().ok()?).and_then(|process| process.stat()).ok()
}

fn tasks(pid: u32) -> Vec<Task> {
    let tasks =
        pid.try_into().ok().and_then(|pid| Process::new(pid).and_then(|process| process.tasks()).ok());
    tasks.into_iter().flatten().flatten().collect()
}

/// A process and its children, theirs, and so on. A process may end meanwhile: then it has none.
fn descend(pid: u32, found: &mut BTreeSet<u32>) {
    if found.insert(pid) {
        let children = tasks(pid).into_iter().filter_map(|task| task.children().ok()).flatten();
        children.for_each(|child| descend(child, found));
    }
}

fn in_group(directory: &Path, found: &mut BTreeSet<u32>) {
    let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    found.extend(processes.lines().filter_map(|line| line.parse::<u32>().ok()));
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        in_group(&entry.path(), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_children_with_it() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let who = Who::process(std::process::id()).unwrap();
        let found = who.processes();
        let words = who.in_words();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()) && found.contains(&std::process::id()), "{found:?}");
        assert!(words.starts_with(&format!("process {} (", std::process::id())), "{words}");
    }

    #[test]
    fn what_is_not_there_is_none() {
        assert_eq!(Who::process(u32::MAX), None);
        let slice = Path::new("no/such.slice");
        assert_eq!(Who::group(&Path::new(CGROUPS).join(slice)), Err(slice));
    }
}
