//! What a machine is, read from its `/proc` and `/sys`.

use std::fs;
use std::path::Path;

use nestor_stack::HypervisorKind;
use procfs::{CpuInfo, Current as _, Meminfo};

use crate::hypervisor::hypervisor;
use crate::message::Facts;

/// What runs emulated hosts.
pub const LAB_HYPERVISOR: HypervisorKind = HypervisorKind::Qemu;

/// File systems whose modules may exist without being loaded.
const FILE_SYSTEMS: [&str; 8] = ["ext2", "ext3", "ext4", "xfs", "jfs", "reiserfs", "btrfs", "f2fs"];

/// The facts of the machine this process runs on.
pub fn of_this_machine(work_directory: &Path) -> Facts {
    let lab_machine = crate::init::is_first_process();
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy().into_owned();
    Facts {
        name: uname.nodename().to_string_lossy().into_owned(),
        cpu_model: cpu_model().unwrap_or_else(|| "unknown".into()),
        cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        root: rustix::process::geteuid().is_root(),
        kvm_device: fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok(),
        // A lab machine has what the lab image has; looking would only cost its slow processor time.
        hypervisor: if lab_machine { None } else { hypervisor(LAB_HYPERVISOR).version() },
        work_directory: work_directory.display().to_string(),
        binary: super::agent::process::OWN_BINARY.to_owned(),
        pid: std::process::id(),
        file_systems: if lab_machine {
            Vec::new()
        } else {
            file_systems(&read("/proc/filesystems"), Path::new(&format!("/lib/modules/{kernel}")))
        },
        kernel,
    }
}

fn cpu_model() -> Option<String> {
    Some(CpuInfo::current().ok()?.model_name(0)?.to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn file_systems(known: &str, modules: &Path) -> Vec<String> {
    let loadable = fs::read_to_string(modules.join("modules.dep")).unwrap_or_default();
    let has = |name: &&str| {
        known.lines().any(|line| line.trim() == *name)
            || loadable.lines().any(|line| line.contains(&format!("/{name}.ko")))
            // One driver serves ext2, ext3 and ext4.
            || (name.starts_with("ext") && loadable.contains("/ext4.ko"))
    };
    FILE_SYSTEMS.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read_as_the_kernel_writes_them() {
        let none = Path::new("/nonexistent");
        assert_eq!(file_systems("nodev\tproc\n\text4\n\txfs\n", none), ["ext4", "xfs"]);
    }
}
