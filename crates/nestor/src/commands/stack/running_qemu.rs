//! A QEMU that runs on this machine, as `/proc` has it.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use nestor_vm_config::qemu::is_qemu;

/// A QEMU that runs.
pub struct RunningQemu {
    /// Its program.
    pub program: String,
    /// Its arguments, without the program.
    pub arguments: Vec<String>,
    /// Where it runs, from where relative paths lead; `None` if this user may not know.
    pub directory: Option<PathBuf>,
    /// Whether it has a machine of KVM's; `None` if this user may not know.
    pub has_kvm: Option<bool>,
}

const WHICH: &str = "`pgrep -a qemu` lists those that run";

impl RunningQemu {
    /// The QEMU with that number.
    ///
    /// # Errors
    /// There is no such process, it is no QEMU, or this user may not see what it is.
    pub fn find(pid: u32) -> Result<Self> {
        let path = |name: &str| format!("/proc/{pid}/{name}");
        let command_line = fs::read(path("cmdline")).map_err(|e| not_seen(pid, &e))?;
        let words = words(&command_line);
        let Some((first, arguments)) = words.split_first() else {
            bail!("process {pid} has no command line: it has ended, or is the kernel's\n  {WHICH}");
        };
        // What is executed counts. Only its user and root may know it; others know what it calls itself.
        let program = match fs::read_link(path("exe")) {
            Ok(program) => program.to_string_lossy().into_owned(),
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(not_seen(pid, &e)),
            Err(_) => first.clone(),
        };
        if !is_qemu(&program) {
            bail!("process {pid} is no QEMU that runs a virtual machine: it is {program}\n  {WHICH}");
        }
        Ok(Self {
            program,
            arguments: arguments.to_vec(),
            directory: fs::read_link(path("cwd")).ok(),
            has_kvm: has_kvm(&path("fd")).ok(),
        })
    }
}

fn not_seen(pid: u32, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        // ESRCH is what a process gives that ends in that moment.
        _ if error.raw_os_error() == Some(libc::ESRCH) => anyhow!("process {pid} has ended\n  {WHICH}"),
        ErrorKind::NotFound => anyhow!("there is no process {pid}\n  {WHICH}"),
        ErrorKind::PermissionDenied => {
            anyhow!(
                "process {pid} is another user's, who may hide it: {error}\n  run this as that user, or as root"
            )
        }
        _ => anyhow!("process {pid} cannot be looked at: {error}\n  {WHICH}"),
    }
}

fn words(command_line: &[u8]) -> Vec<String> {
    let text = command_line.strip_suffix(b"\0").unwrap_or(command_line);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether a file of KVM's for a virtual machine is among those that a process has open (virt/kvm/kvm_main.c names it so).
fn has_kvm(directory: &str) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        let link = fs::read_link(entry?.path());
        if link.is_ok_and(|file| file.as_os_str().as_bytes() == b"anon_inode:kvm-vm") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_many_as_there_are() {
        assert_eq!(words(b"qemu\0-name\0\0-m\x001G\0"), ["qemu", "-name", "", "-m", "1G"]);
        assert_eq!(words(b""), [""; 0]);
    }

    #[test]
    fn who_is_no_qemu_or_is_not_there_is_refused() {
        let refused = |pid| RunningQemu::find(pid).err().map(|e| e.to_string()).unwrap_or_default();
        let own = std::process::id();
        assert!(refused(own).starts_with(&format!("process {own} is no QEMU")), "{}", refused(own));
        // More than there can be (include/linux/threads.h, PID_MAX_LIMIT).
        assert!(refused(4_194_305).starts_with("there is no process 4194305"), "{}", refused(4_194_305));
    }
}
