//! What this machine's kernel has of that which links need, for `nestor doctor`.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use nestor_machine::Facts;

use crate::link_problem::KernelPart;

/// What is tried, each in a network namespace that ends with the command (`unshare(1)`), so that nothing of it is left.
const TRIED: [(KernelPart, &[&str]); 3] = [
    (KernelPart::Namespaces, &["true"]),
    (KernelPart::VirtualInterfaces, &["ip", "link", "add", "type", "veth"]),
    (KernelPart::Shaping, &["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]),
];

/// The file systems that show the parts of NFS.
const FILE_SYSTEMS: [(KernelPart, &str); 3] =
    [(KernelPart::NfsServer, "nfsd"), (KernelPart::NfsClient, "nfs"), (KernelPart::NfsClient4, "nfs4")];

/// What is missing on this machine; needs root.
pub(crate) fn lacking_here(facts: &Facts) -> Vec<KernelPart> {
    let registered = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let known = file_systems(&registered).chain(facts.file_systems.iter().map(String::as_str));
    let tried = TRIED.iter().filter(|(_, argv)| !succeeds("unshare", &[&["--net"], *argv].concat()));
    let has_disks = std::path::Path::new("/sys/block/nbd0").exists()
        || succeeds("modprobe", &["--dry-run", "--quiet", "nbd"]);
    let disks = (!has_disks).then_some(KernelPart::NetworkDisk);
    tried.map(|(part, _)| *part).chain(lacking_file_systems(known)).chain(disks).collect()
}

fn lacking_file_systems<'a>(known: impl Iterator<Item = &'a str>) -> Vec<KernelPart> {
    let known: BTreeSet<&str> = known.collect();
    FILE_SYSTEMS.iter().filter(|(_, name)| !known.contains(name)).map(|(part, _)| *part).collect()
}

/// The names in /proc/filesystems, of which each is the last word of a line.
pub(crate) fn file_systems(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split_whitespace().last())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_has_is_read_as_it_writes_it() {
        let known = file_systems("nodev\tproc\nnodev\tnfs\n\text4\n");
        assert_eq!(known.collect::<Vec<_>>(), ["proc", "nfs", "ext4"]);
    }

    #[test]
    fn each_part_of_nfs_is_missed_by_itself() {
        let lacking = |known: &[&'static str]| lacking_file_systems(known.iter().copied());
        assert_eq!(lacking(&["ext4", "nfs", "nfs4"]), [KernelPart::NfsServer]);
        assert_eq!(lacking(&["nfs", "nfsd"]), [KernelPart::NfsClient4]);
        assert_eq!(lacking(&["nfs", "nfs4", "nfsd"]), []);
    }
}
