//! What is mounted where, and by whom.

use serde::{Deserialize, Serialize};

/// A file system to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounting {
    /// Device or other source.
    pub source: String,
    /// Directory, made if missing.
    pub target: String,
    /// Kernel's name of the file system.
    pub file_system: String,
    /// The program that is the file system, through the kernel's FUSE: it mounts it, stays, and ends when it is unmounted. `None`: the
    /// kernel itself.
    pub program: Option<String>,
    /// Mount options.
    pub options: Vec<String>,
}

impl Mounting {
    /// The command that mounts it.
    pub(crate) fn command(&self) -> Vec<String> {
        let places = [self.source.clone(), self.target.clone()];
        let options: Vec<String> = match self.options.as_slice() {
            [] => Vec::new(),
            options => vec!["-o".to_owned(), options.join(",")],
        };
        let words: Vec<String> = match &self.program {
            // ntfs-3g, for one, does not look at what follows `--`.
            Some(program) => vec![program.clone()],
            // Not by a helper such as `mount.nilfs2`: that starts a daemon, which keeps the file system from being unmounted.
            None => ["mount", "--internal-only", "-t", &self.file_system].map(str::to_owned).into(),
        };
        let end_of_options = self.program.is_none().then(|| "--".to_owned());
        words.into_iter().chain(options).chain(end_of_options).chain(places).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_mounts_without_a_helper_and_a_program_by_itself() {
        let mounting = |program: Option<&str>, options: &[&str]| Mounting {
            source: "/dev/vdb".to_owned(),
            target: "/mnt/a".to_owned(),
            file_system: "nilfs2".to_owned(),
            program: program.map(str::to_owned),
            options: options.iter().map(|&option| option.to_owned()).collect(),
        };
        let said = |mounting: Mounting| mounting.command().join(" ");
        assert_eq!(said(mounting(None, &[])), "mount --internal-only -t nilfs2 -- /dev/vdb /mnt/a");
        assert_eq!(
            said(mounting(Some("ntfs-3g"), &["ro", "noatime"])),
            "ntfs-3g -o ro,noatime /dev/vdb /mnt/a"
        );
    }
}
