//! Which machine, start and process namespace a ledger was written in: what it names exists in no other.

use std::fs;

use rustix::ioctl::{Getter, Opcode, ioctl, opcode};
use serde::{Deserialize, Serialize};

use super::resource::process_start_ticks;

/// Where a process runs, as far as process numbers, mounts and devices have a meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The machine's name.
    pub host: String,
    /// What is in `/etc/machine-id`, for machines of one name.
    pub machine: String,
    /// The kernel's number of this start of the machine.
    pub boot: String,
    /// Number of the pid namespace: containers have their own.
    pub pid_namespace: u64,
    /// When its first process began, in clock ticks since boot: a later container gets a dead one's number. Absent if it
    /// is not known, and in ledgers of older versions.
    #[serde(default)]
    pub pid_namespace_began: Option<u64>,
    /// Number of the mount namespace, which another gets when it is gone; absent in what older versions wrote.
    #[serde(default)]
    pub mount_namespace: Option<u64>,
    /// Its id that no other gets until the machine is started again. Absent where the kernel has none (before Linux 6.11), and
    /// in what older versions wrote.
    #[serde(default)]
    pub mount_namespace_id: Option<u64>,
}

/// How one origin looks from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same.
    Same,
    /// The same machine, started again since: processes, mounts, loop devices and settings went with the former start.
    Restarted,
    /// Another container, or another view of processes, on this machine.
    OtherNamespace,
    /// Another machine.
    OtherHost,
}

impl Origin {
    /// That of this process.
    pub fn here() -> Self {
        use std::os::unix::fs::MetadataExt;
        let text = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        Self {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            machine: text("/etc/machine-id"),
            boot: text("/proc/sys/kernel/random/boot_id"),
            pid_namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino()),
            pid_namespace_began: process_start_ticks(1),
            mount_namespace: fs::metadata("/proc/self/ns/mnt").ok().map(|m| m.ino()),
            mount_namespace_id: mount_namespace_id(),
        }
    }

    /// How `self`, where something was made, looks from `here`.
    pub fn seen_from(&self, here: &Self) -> Relation {
        let same_boot = !self.boot.is_empty() && self.boot == here.boot;
        // Many images have no machine id, or an empty one: only a name tells their machines apart.
        let same_name = self.host == here.host && self.machine == here.machine;
        let same_host = same_name && (same_boot || !self.machine.is_empty());
        match (same_boot, same_host) {
            (true, true) if self.has_namespaces_of(here) => Relation::Same,
            // One kernel, but another name: a container.
            (true, _) => Relation::OtherNamespace,
            (false, true) if self.boot.is_empty() || here.boot.is_empty() => Relation::OtherHost,
            (false, true) => Relation::Restarted,
            (false, false) => Relation::OtherHost,
        }
    }

    /// Whether both see the same mounts, by an id that no other namespace ever has.
    pub fn has_mounts_of(&self, here: &Self) -> bool {
        self.mount_namespace_id.is_some()
            && self.mount_namespace_id == here.mount_namespace_id
            && self.boot == here.boot
    }

    /// Whether both see the same processes and mounts. What is not known of either is not the same, but for the id of the mount
    /// namespace: what was mounted and made has an identity of its own.
    fn has_namespaces_of(&self, here: &Self) -> bool {
        let known = self.pid_namespace_began.is_some() && self.mount_namespace.is_some();
        known
            && self.pid_namespace == here.pid_namespace
            && self.pid_namespace_began == here.pid_namespace_began
            && self.mount_namespace == here.mount_namespace
            && (self.mount_namespace_id.is_none() || self.mount_namespace_id == here.mount_namespace_id)
    }
}

/// `NS_GET_MNTNS_ID` of include/uapi/linux/nsfs.h.
const NS_GET_MNTNS_ID: Opcode = opcode::read::<u64>(0xb7, 5);

fn mount_namespace_id() -> Option<u64> {
    let namespace = fs::File::open("/proc/self/ns/mnt").ok()?;
    // SAFETY: the request writes one u64 and nothing else.
    unsafe { ioctl(&namespace, Getter::<NS_GET_MNTNS_ID, u64>::new()) }.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_another_machine_and_a_restart_are_told_apart() {
        let here = Origin {
            host: "a".into(),
            machine: "1".into(),
            boot: "x".into(),
            pid_namespace: 7,
            pid_namespace_began: Some(3),
            mount_namespace: Some(9),
            mount_namespace_id: Some(12),
        };
        assert_eq!(here.seen_from(&here), Relation::Same);
        let of = |change: fn(&mut Origin)| {
            let mut other = here.clone();
            change(&mut other);
            other.seen_from(&here)
        };
        assert_eq!(of(|o| o.pid_namespace = 8), Relation::OtherNamespace);
        assert_eq!(of(|o| o.pid_namespace_began = Some(4)), Relation::OtherNamespace);
        assert_eq!(of(|o| o.mount_namespace = Some(8)), Relation::OtherNamespace);
        assert_eq!(of(|o| o.mount_namespace_id = Some(11)), Relation::OtherNamespace, "a number used again");
        assert_eq!(of(|o| o.mount_namespace_id = None), Relation::Same, "an older version's");
        let sees = |change: fn(&mut Origin)| {
            let mut origin = here.clone();
            change(&mut origin);
            origin.has_mounts_of(&here)
        };
        assert!(sees(|_| ()));
        assert!(!sees(|o| o.mount_namespace_id = None), "a number of a namespace is used again");
        assert!(!sees(|o| o.mount_namespace_id = Some(11)));
        assert!(!sees(|o| o.boot = "another".to_owned()), "ids begin anew");
        let unknown = Origin { pid_namespace_began: None, ..here.clone() };
        assert_eq!(unknown.seen_from(&unknown), Relation::OtherNamespace);
        assert_eq!(of(|o| o.host = "b".into()), Relation::OtherNamespace);
        assert_eq!(of(|o| o.boot = "y".into()), Relation::Restarted);
        assert_eq!(of(|o| o.boot.clear()), Relation::OtherHost);
        let elsewhere = |o: &mut Origin| {
            o.boot = "y".into();
            o.machine = "2".into();
        };
        assert_eq!(of(elsewhere), Relation::OtherHost);
        let nameless = Origin { machine: String::new(), ..here.clone() };
        let restarted = Origin { boot: "y".into(), ..nameless.clone() };
        assert_eq!(restarted.seen_from(&nameless), Relation::OtherHost, "two machines may have an empty id");
        assert_eq!(nameless.seen_from(&nameless), Relation::Same);
    }

    #[test]
    fn this_process_knows_where_it_runs() {
        let here = Origin::here();
        assert!(
            !here.host.is_empty()
                && here.boot.len() == 36
                && here.pid_namespace > 0
                && here.has_namespaces_of(&here),
            "{here:?}"
        );
    }
}
