//! The virtual machines that this kernel runs as processes of QEMU.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::PathBuf;

/// Beginnings of the names of QEMU's programs, as distributions have them.
const PROGRAMS: [&str; 3] = ["qemu-system-", "qemu-kvm", "kvm"];

/// A process of QEMU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VirtualMachine {
    /// Its process.
    pub pid: u32,
    /// The name that its command line gives it (`-name`), as libvirt gives all of its domains; empty without one.
    pub name: String,
}

/// Those that run, by their numbers.
pub fn running() -> Vec<VirtualMachine> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<VirtualMachine> = numbers
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_string_lossy().parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let words: Vec<String> = line
                .split(|&byte| byte == 0)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            Some(VirtualMachine { pid, name: name_of(&words)? })
        })
        .collect();
    found.sort();
    found
}

/// The name in the command line of a QEMU that runs a machine; nothing for other programs.
fn name_of(words: &[String]) -> Option<String> {
    let program = words.first()?.rsplit('/').next()?;
    // `kvm` is a name of QEMU, `kvm-nx-lpage-re` is none.
    let is_qemu = PROGRAMS.iter().any(|known| match known.strip_suffix('-') {
        Some(_) => program.starts_with(known),
        None => program == *known,
    });
    if !is_qemu {
        return None;
    }
    let named = words.windows(2).find(|pair| matches!(pair[0].as_str(), "-name" | "--name"));
    let options = named.map_or("", |pair| pair[1].as_str());
    let parts = || options.split(',');
    let name = parts().find_map(|part| part.strip_prefix("guest="));
    Some(name.or_else(|| parts().next().filter(|part| !part.contains('='))).unwrap_or_default().to_owned())
}

/// A file that a process has open at an offset of its own: a regular file or a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its descriptor.
    pub descriptor: u32,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it can be written to, as images of running machines mostly can.
    pub is_writable: bool,
    /// Which file it is, by device and number there; two descriptors of one file have the same.
    pub identity: (u64, u64),
}

/// The regular files and block devices that a process has open. Empty for a process that is not there, or another user's.
pub fn open_files(pid: u32) -> Vec<OpenFile> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut seen = BTreeSet::new();
    let mut found: Vec<OpenFile> = entries
        .filter_map(|entry| {
            let descriptor: u32 = entry.file_name().to_string_lossy().parse().ok()?;
            let metadata = fs::metadata(entry.path()).ok()?;
            let kind = metadata.file_type();
            if !(kind.is_file() || kind.is_block_device()) || !seen.insert(descriptor) {
                return None;
            }
            // proc(5): the permissions of the link are those with which the file was opened.
            let is_writable = fs::symlink_metadata(entry.path()).is_ok_and(|link| link.mode() & 0o200 != 0);
            let identity = match kind.is_block_device() {
                true => (metadata.rdev(), 0),
                false => (metadata.dev(), metadata.ino()),
            };
            Some(OpenFile { descriptor, path: fs::read_link(entry.path()).ok()?, is_writable, identity })
        })
        .collect();
    found.sort_by_key(|file| file.descriptor);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(line: &str) -> Option<String> {
        name_of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn machines_are_known_by_their_program_and_named_by_their_command_line() {
        assert_eq!(
            name("/usr/bin/qemu-system-x86_64 -name guest=mail,debug-threads=on -S").as_deref(),
            Some("mail")
        );
        assert_eq!(name("qemu-system-aarch64 -name build,process=x").as_deref(), Some("build"));
        assert_eq!(name("/usr/libexec/qemu-kvm -m 64").as_deref(), Some(""));
        assert_eq!(name("kvm -name debug-threads=on").as_deref(), Some(""));
        assert_eq!(name("qemu-img convert a b"), None);
        assert_eq!(name("vi qemu-system-x86_64"), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn files_of_this_process_are_found_with_how_they_are_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = open_files(std::process::id());
        let ours = found.iter().find(|open| open.path == file.path()).unwrap();
        assert!(ours.is_writable && ours.identity.1 != 0);
        assert_eq!(open_files(u32::MAX), []);
    }
}
