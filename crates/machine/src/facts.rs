//! What a machine is, read from its `/proc` and `/sys`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nestor_kernel::memory;
use nestor_stack::HypervisorKind;
use procfs::{CpuInfo, Current as _};

use crate::hypervisor::hypervisor;
use crate::message::Facts;

/// What runs emulated hosts.
pub const LAB_HYPERVISOR: HypervisorKind = HypervisorKind::Qemu;

/// The facts of the machine this process runs on, which began at this time of its clock.
pub fn of_this_machine(work_directory: &Path, begun_ns: u64) -> Facts {
    let lab_machine = crate::init::is_first_process();
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy().into_owned();
    Facts {
        name: uname.nodename().to_string_lossy().into_owned(),
        cpu_model: cpu_model().unwrap_or_else(|| "unknown".into()),
        cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory::total_bytes().unwrap_or(0),
        root: rustix::process::geteuid().is_root(),
        may_use_hardware: hypervisor(LAB_HYPERVISOR).may_use_hardware(),
        // A lab machine has what the lab image has; looking would only cost its slow processor time.
        hypervisor: if lab_machine { None } else { hypervisor(LAB_HYPERVISOR).version() },
        work_directory: work_directory.display().to_string(),
        binary: super::agent::process::OWN_BINARY.to_owned(),
        pid: std::process::id(),
        begun_ns,
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

/// The file systems that the kernel has registered, and those that it would load at a mount: it asks for the module with the
/// alias `fs-` and the type (`MODULE_ALIAS_FS`, include/linux/fs.h), so `modules.alias` names them all.
fn file_systems(registered: &str, modules: &Path) -> Vec<String> {
    let aliases = fs::read_to_string(modules.join("modules.alias")).unwrap_or_default();
    let loadable =
        aliases.lines().filter_map(|line| line.strip_prefix("alias fs-")?.split_whitespace().next());
    // A line without `nodev` holds only the name.
    let on_devices = registered.lines().map(str::trim).filter(|name| !name.contains(char::is_whitespace));
    let all: BTreeSet<&str> = on_devices.chain(loadable).filter(|name| !name.is_empty()).collect();
    all.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read_as_the_kernel_writes_them() {
        let registered = "nodev\tproc\n\txfs\n\text4\n";
        assert_eq!(file_systems(registered, Path::new("/nonexistent")), ["ext4", "xfs"]);
        let modules = tempfile::tempdir().unwrap();
        let aliases = "# Aliases extracted from modules themselves.\nalias fs-jfs jfs\nalias fs-ext3 ext4\n\
                       alias pci:v00001AF4d* virtio_pci\nalias fs-xfs xfs\n";
        fs::write(modules.path().join("modules.alias"), aliases).unwrap();
        assert_eq!(file_systems(registered, modules.path()), ["ext3", "ext4", "jfs", "xfs"]);
    }
}
