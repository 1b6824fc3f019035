//! Programs that a killed build left running: found by a mark in their environment, which every child inherits.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Pid;

use super::tool::kill_group;
use nestor_ownership as ownership;

/// The variable that holds the directory of a program's build.
const MARK: &str = "NESTOR_LAB_BUILD";

/// Marks a program as part of the build in `directory`.
pub fn mark(command: &mut Command, directory: &Path) {
    command.env(MARK, directory);
}

/// Kills what is still running of the build in `directory`, whose own process is gone.
///
/// mmdebstrap continues for a while after its parent's death, and what it writes meanwhile could not be removed. Some of its
/// processes do not let their environment be read, but all of them are in the group that the program was started in.
pub fn end(directory: &Path) {
    let own_group = rustix::process::getpgrp();
    let groups: BTreeSet<_> = marked_processes(directory)
        .into_iter()
        .filter_map(|pid| rustix::process::getpgid(Some(pid)).ok())
        .filter(|&group| group != own_group)
        .map(Pid::as_raw_pid)
        .collect();
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        kill_group(group);
    }
}

fn marked_processes(directory: &Path) -> Vec<Pid> {
    let mut mark = format!("{MARK}=").into_bytes();
    mark.extend_from_slice(directory.as_os_str().as_encoded_bytes());
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        // A zombie's environment is empty, and every user controls the environment of their own processes.
        .filter(|pid| {
            let process = format!("/proc/{}", pid.as_raw_pid());
            if fs::metadata(&process).map_or(true, |metadata| metadata.uid() != ownership::user()) {
                return false;
            }
            let environment = fs::read(format!("{process}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == mark)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::time::Duration;

    use super::*;

    /// A program with a child that a test may leave behind: the process that adopts it must collect it.
    fn start(directory: &Path) -> std::process::Child {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]).process_group(0);
        mark(&mut command, directory);
        let child = command.spawn().unwrap();
        while marked_processes(directory).len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    #[test]
    fn marked_programs_and_their_children_are_ended_and_no_others() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mut first, mut second) = (start(own.path()), start(other.path()));
        end(own.path());
        assert!(marked_processes(own.path()).is_empty());
        assert!(!first.wait().unwrap().success());
        assert!(second.try_wait().unwrap().is_none());
        assert_eq!(marked_processes(other.path()).len(), 2);
        end(other.path());
        assert!(!second.wait().unwrap().success());
    }
}
