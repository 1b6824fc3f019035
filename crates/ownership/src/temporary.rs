//! Temporary directories of one command.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::make_above;

/// Names another directory for work directories and for large temporary files.
pub const WORK_VARIABLE: &str = "NESTOR_WORK";

/// The default place for them; for work directories only if the user has no cache directory.
pub const PUBLIC_PLACE: &str = "/var/tmp";

/// Random characters of a name.
const CHANCE: usize = 16;

/// The place for large temporary files of one command: `$NESTOR_WORK`, else `/var/tmp`, because `/tmp`
/// may be memory.
pub fn place_for_temporary() -> PathBuf {
    std::env::var_os(WORK_VARIABLE)
        .filter(|v| !v.is_empty())
        .map_or_else(|| PUBLIC_PLACE.into(), PathBuf::from)
}

/// A new directory in `place` that is removed when it is dropped. Its name cannot be guessed, and only this user may use it,
/// whatever the umask. So files in it may have predictable names. `place` is created if it is missing, and stays.
///
/// # Errors
/// If it cannot be created, or another user could redirect the path.
pub fn temporary_directory_in(place: &Path, prefix: &str) -> io::Result<TempDir> {
    let place = safe_place(place, prefix)?;
    let private = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).rand_bytes(CHANCE).permissions(private).tempdir_in(place)
}

/// A new file without a name, for large temporary data of one command: it is gone when it is closed, even if the program was killed.
///
/// # Errors
/// If it cannot be created, or another user could redirect the path.
pub fn unnamed_file() -> io::Result<File> {
    tempfile::tempfile_in(safe_place(&place_for_temporary(), "data")?)
}

/// The place as a path that exists and that no other user can replace, so that it may be used.
fn safe_place(place: &Path, entry: &str) -> io::Result<PathBuf> {
    let made = make_above(&place.join(entry))?;
    Ok(made.path.parent().unwrap_or(Path::new("/")).to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn no_directory_is_made_beyond_another_users_link() {
        use std::os::unix::fs::{lchown, symlink};
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let [real, link] = ["real", "link"].map(|name| folder.path().join(name));
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        drop(temporary_directory_in(&link, "nestor-").expect("a link of one's own"));
        lchown(&link, Some(65534), Some(65534)).unwrap();
        assert!(temporary_directory_in(&link, "nestor-").is_err());
        assert_eq!(std::fs::read_dir(&real).unwrap().count(), 0);
    }

    #[test]
    fn a_place_that_is_missing_is_made_and_not_taken_from_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        let place = shared.join("new/deeper");
        drop(temporary_directory_in(&place, "nestor-").expect("what is missing is made"));
        // As if another user had created it first.
        if std::os::unix::fs::chown(shared.join("new"), Some(4321), Some(4321)).is_err() {
            return;
        }
        for place in [shared.join("new"), place.clone(), shared.join("new/other")] {
            let refused = temporary_directory_in(&place, "nestor-").unwrap_err().to_string();
            assert!(refused.contains("belongs to user 4321"), "{refused}");
        }
        assert_eq!(std::fs::read_dir(place).unwrap().count(), 0);
        assert!(!shared.join("new/other").exists());
    }

    #[test]
    fn a_temporary_directory_is_private_even_without_a_umask() {
        const INSIDE: &str = "NESTOR_TEST_WITHOUT_UMASK";
        if std::env::var_os(INSIDE).is_some() {
            let place = tempfile::tempdir().unwrap();
            let open = place.path().metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(open, 0o777, "there is no umask");
            std::fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
            let made = temporary_directory_in(place.path(), "nestor-").unwrap();
            assert_eq!(made.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
            return;
        }
        // The umask is the whole process's.
        let mut again = Command::new(std::env::current_exe().unwrap());
        let name = "temporary::tests::a_temporary_directory_is_private_even_without_a_umask";
        again.args(["--exact", name]).env(INSIDE, "1");
        // SAFETY: umask(2) is async-signal-safe and cannot fail.
        unsafe {
            again.pre_exec(|| {
                libc::umask(0);
                Ok(())
            });
        }
        let output = again.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
}
