//! What KVM adds to a machine's counter in its guests.

use std::fs;
use std::io;
use std::path::Path;

/// Where KVM shows its data about each guest (`virt/kvm/kvm_main.c`: a directory by process and descriptor).
const KVM_DIRECTORY: &str = "/sys/kernel/debug/kvm";

/// What is added to this machine's counter in a guest that a process runs.
///
/// # Errors
/// KVM does not report it: debugfs is not mounted, or the guest runs without KVM.
pub fn in_guest_of(process: u32) -> io::Result<i64> {
    offset_below(Path::new(KVM_DIRECTORY), process)
}

fn offset_below(directory: &Path, process: u32) -> io::Result<i64> {
    let prefix = format!("{process}-");
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            let text = fs::read_to_string(entry.path().join("vcpu0/tsc-offset"))?;
            return text.trim().parse().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e));
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("process {process} has no guest of KVM")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_of_a_process_is_found_by_its_number() {
        let folder = tempfile::tempdir().unwrap();
        for (name, offset) in [("12-9", "5\n"), ("123-11", "-977\n")] {
            let processor = folder.path().join(name).join("vcpu0");
            fs::create_dir_all(&processor).unwrap();
            fs::write(processor.join("tsc-offset"), offset).unwrap();
        }
        assert_eq!(offset_below(folder.path(), 123).unwrap(), -977);
        assert_eq!(offset_below(folder.path(), 12).unwrap(), 5);
        assert_eq!(offset_below(folder.path(), 1).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
