//! Whether an image is still what was made: no other user can have changed it, and its contents have the recorded hashes.
//!
//! ```text
//! <cache>/lab/<hash>/SHA256SUMS      recorded when it was made, in the form of sha256sum(1)
//! <cache>/lab/<hash>/verified.json   which files were read and found to have these hashes
//! ```
//!
//! Reading an image takes a second or two, so a file is read again only after it has changed: `verified.json` has its inode,
//! size, and times of change. Only a file's owner can forge its times, and the owner of the directory is this user or root.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::{
    ADDED, ADDED_KERNEL, ADDED_MODULES_CPIO, ADDED_QEMU, HYPERVISOR, KERNEL, MANIFEST, MODULES_CPIO,
    ROOT_SQUASHFS,
};
use super::error::LabImageError;
use nestor_ownership::{self as ownership, Distrust};

/// The recorded hashes.
pub const SUMS: &str = "SHA256SUMS";

/// What was compared with them.
const VERIFIED: &str = "verified.json";

/// Everybody may read an image.
const READABLE: u32 = 0o644;

/// The files that every image has.
const FILES: [&str; 4] = [KERNEL, MODULES_CPIO, ROOT_SQUASHFS, MANIFEST];

/// The files of an image.
pub fn files(directory: &Path) -> impl Iterator<Item = &'static str> + use<> {
    let optional = [HYPERVISOR, ADDED_KERNEL, ADDED_MODULES_CPIO, ADDED, ADDED_QEMU];
    let there: Vec<_> = optional.into_iter().filter(|name| directory.join(name).exists()).collect();
    FILES.into_iter().chain(there)
}

/// A file as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
    sha256: String,
}

impl Seen {
    fn of(metadata: &fs::Metadata, sha256: &str) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
            sha256: sha256.to_owned(),
        }
    }
}

/// Checks that those of these directories that exist are this user's or root's and that no other user may write to them, or
/// put others in their place.
pub fn check_directories(directories: &[PathBuf]) -> Result<(), LabImageError> {
    let distrusted = |cause: Distrust| LabImageError::NotTrusted { cause };
    for directory in directories {
        let directory = &ownership::resolved(directory).map_err(distrusted)?;
        let metadata = match fs::symlink_metadata(directory) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(LabImageError::file("cannot look at", directory)(e)),
        };
        ownership::of_user_or_root(directory, &metadata).map_err(distrusted)?;
    }
    Ok(())
}

/// Records the hashes of an image's files, and makes the files read-only for other users.
pub fn record(directory: &Path) -> Result<(), LabImageError> {
    let mut text = String::new();
    for name in files(directory) {
        let path = directory.join(name);
        let close = |path: &Path| {
            let mode = fs::metadata(path)?.mode() & 0o7777 & !0o022;
            fs::set_permissions(path, Permissions::from_mode(mode))
        };
        close(&path).map_err(LabImageError::file("cannot close to others", &path))?;
        text += &format!("{}  {name}\n", sha256(&path)?.0);
    }
    let path = directory.join(SUMS);
    ownership::replace_durably(&path, READABLE, text.as_bytes())
        .map_err(LabImageError::file("cannot write", &path))
}

/// SHA-256 of the recorded hashes, as 64 hexadecimal digits.
///
/// # Errors
/// The record is missing or cannot be read.
pub fn sha256_of_sums(directory: &Path) -> Result<String, LabImageError> {
    Ok(sha256(&directory.join(SUMS))?.0)
}

/// Compares an image with what was recorded when it was made. An image of an older version has no record: then what is there
/// is recorded, and `true` returned.
///
/// # Errors
/// Another user can change the image, or its contents differ from those recorded.
pub fn verify(directory: &Path) -> Result<bool, LabImageError> {
    for name in files(directory).map(Some).chain([None, Some(SUMS), Some(VERIFIED)]) {
        check_entry(&name.map_or_else(|| directory.to_owned(), |name| directory.join(name)), name.is_none())?;
    }
    let sums = directory.join(SUMS);
    let newly = !sums.exists();
    if newly {
        record(directory)?;
    }
    let text = fs::read_to_string(&sums).map_err(LabImageError::file("cannot read", &sums))?;
    let recorded: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once("  ")).map(|(hash, name)| (name, hash)).collect();
    let memory = directory.join(VERIFIED);
    let known: BTreeMap<String, Seen> =
        fs::read(&memory).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let mut seen = BTreeMap::new();
    for name in files(directory) {
        let path = directory.join(name);
        let hash = recorded.get(name).copied().unwrap_or_default();
        let metadata = fs::metadata(&path).map_err(LabImageError::file("cannot look at", &path))?;
        let mut now = Seen::of(&metadata, hash);
        if known.get(name) != Some(&now) {
            let (found, metadata) = sha256(&path)?;
            if found != hash {
                return Err(LabImageError::Changed { path });
            }
            now = Seen::of(&metadata, hash);
        }
        seen.insert(name.to_owned(), now);
    }
    if seen != known {
        // Root's image is read again each time by users who may not note here that they have read it.
        let _ = serde_json::to_vec(&seen).map(|bytes| ownership::replace_durably(&memory, READABLE, &bytes));
    }
    Ok(newly)
}

/// An entry of an image's directory, or the directory: not a link, and not writable by others.
fn check_entry(path: &Path, is_directory: bool) -> Result<(), LabImageError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(LabImageError::file("cannot look at", path)(e)),
    };
    let wanted = if is_directory { "a directory" } else { "a file" };
    let is_it = if is_directory { metadata.is_dir() } else { metadata.is_file() };
    let checked = if is_it {
        ownership::of_user_or_root(path, &metadata)
    } else {
        Err(Distrust::Kind { path: path.to_owned(), wanted })
    };
    checked.map_err(|cause| LabImageError::NotTrusted { cause })
}

/// The hash of a file's contents, and the file as it was before it was read.
pub fn sha256(path: &Path) -> Result<(String, fs::Metadata), LabImageError> {
    let read = || {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                bytes => hasher.update(&buffer[..bytes]),
            }
        }
        Ok((hex::encode(hasher.finalize()), metadata))
    };
    read().map_err(LabImageError::file("cannot read", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in FILES {
            fs::write(directory.path().join(name), name).unwrap();
            set_mode(&directory.path().join(name), 0o644);
        }
        directory
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_record_is_one_that_sha256sum_understands() {
        let image = image();
        record(image.path()).unwrap();
        let check = std::process::Command::new("sha256sum")
            .args(["--check", "--strict", SUMS])
            .current_dir(image.path())
            .output()
            .unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
        assert_eq!(String::from_utf8_lossy(&check.stdout).lines().count(), FILES.len());
    }

    #[test]
    fn a_file_with_other_contents_of_the_same_length_is_noticed() {
        for name in FILES {
            let image = image();
            record(image.path()).unwrap();
            assert!(!verify(image.path()).unwrap());
            let mut bytes = fs::read(image.path().join(name)).unwrap();
            bytes[0] ^= 1;
            fs::write(image.path().join(name), bytes).unwrap();
            let error = verify(image.path()).unwrap_err();
            assert!(matches!(&error, LabImageError::Changed { path } if path.ends_with(name)), "{error}");
            assert!(error.to_string().contains("then run `nestor lab build`"), "{error}");
        }
    }

    #[test]
    fn what_was_read_once_is_read_again_only_after_a_change() {
        let image = image();
        record(image.path()).unwrap();
        verify(image.path()).unwrap();
        let memory = fs::read(image.path().join(VERIFIED)).unwrap();
        verify(image.path()).unwrap();
        assert_eq!(fs::read(image.path().join(VERIFIED)).unwrap(), memory);
        // The same contents in another file.
        let kernel = image.path().join(KERNEL);
        fs::remove_file(&kernel).unwrap();
        fs::write(&kernel, KERNEL).unwrap();
        verify(image.path()).unwrap();
        assert_ne!(fs::read(image.path().join(VERIFIED)).unwrap(), memory);
        // A damaged record counts as none.
        fs::write(image.path().join(VERIFIED), b"{").unwrap();
        verify(image.path()).unwrap();
    }

    #[test]
    fn an_image_of_an_older_version_is_recorded_as_it_is() {
        let image = image();
        assert!(verify(image.path()).unwrap(), "with a word");
        assert!(!verify(image.path()).unwrap(), "once");
    }

    #[test]
    fn a_record_that_lacks_a_file_does_not_vouch_for_it() {
        let image = image();
        record(image.path()).unwrap();
        let text = fs::read_to_string(image.path().join(SUMS)).unwrap();
        let without = text.lines().filter(|line| !line.ends_with(KERNEL)).map(|line| format!("{line}\n"));
        fs::write(image.path().join(SUMS), without.collect::<String>()).unwrap();
        assert!(matches!(verify(image.path()), Err(LabImageError::Changed { .. })));
    }

    #[test]
    fn what_others_may_write_to_or_a_link_is_not_booted() {
        for name in ["", KERNEL, ROOT_SQUASHFS, SUMS] {
            let image = image();
            record(image.path()).unwrap();
            let path = image.path().join(name);
            set_mode(&path, if name.is_empty() { 0o757 } else { 0o646 });
            let error = verify(image.path()).unwrap_err().to_string();
            assert!(
                error.contains("may be written to by others") && error.contains("NESTOR_CACHE"),
                "{error}"
            );
        }
        let image = image();
        record(image.path()).unwrap();
        let kernel = image.path().join(KERNEL);
        fs::rename(&kernel, image.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &kernel).unwrap();
        assert!(verify(image.path()).unwrap_err().to_string().contains("is not a file but a link"));
    }

    #[test]
    fn what_a_group_or_an_access_control_list_lets_others_write_to_is_not_booted() {
        for name in ["", KERNEL, SUMS] {
            let image = image();
            record(image.path()).unwrap();
            let path = image.path().join(name);
            if !nestor_ownership::lists::let_user_write(&path) {
                return;
            }
            let error = verify(image.path()).unwrap_err().to_string();
            assert!(error.contains("setfacl -b"), "{error}");
            let error = check_directories(&[image.path().to_owned()]);
            assert_eq!(error.is_err(), name.is_empty());
        }
        if rustix::process::geteuid().is_root() {
            let image = image();
            record(image.path()).unwrap();
            set_mode(image.path(), 0o775);
            let error = verify(image.path()).unwrap_err().to_string();
            assert!(error.contains("chmod g-w"), "{error}");
        }
    }

    #[test]
    fn a_cache_that_is_another_users_link_is_refused() {
        let image = image();
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("cache");
        std::os::unix::fs::symlink(image.path(), &link).unwrap();
        assert!(check_directories(std::slice::from_ref(&link)).is_ok());
        if std::os::unix::fs::lchown(&link, Some(4321), Some(4321)).is_ok() {
            let error = check_directories(&[link]).unwrap_err().to_string();
            assert!(error.contains("is a link of user 4321"), "{error}");
        }
    }
}
