//! Files that the user names: each is written whole or not at all, and only where no other user can redirect the write.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nestor_ownership::{self as ownership, Above, NotMade};
use rustix::fs::{Mode, OFlags, fstatfs, openat, readlinkat};
use rustix::io::Errno;

/// Mode of a new file, before the user's umask.
const READABLE: u32 = 0o666;

/// Links that the kernel follows on one way: `MAXSYMLINKS` in include/linux/namei.h.
const MAX_LINKS: usize = 40;

/// Refuses a file that the user named in a folder that is not there: one mistyped path would make folders without a word.
///
/// # Errors
/// The folder does not exist, or is something else.
pub fn require_folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let refused =
        |kind: io::ErrorKind, is: &str| io::Error::new(kind, format!("the folder {} {is}", folder.display()));
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(refused(io::ErrorKind::NotADirectory, "is not a folder but something else")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(refused(e.kind(), "does not exist")),
        Err(e) => Err(e),
    }
}

/// Refuses a directory that the user named for new files, if it cannot be made or nothing can be made in it. Nothing stays of the attempt.
///
/// # Errors
/// It is something else, its folder does not exist, or the system's answer.
pub fn require_directory(path: &Path) -> io::Result<()> {
    let place = match fs::metadata(path) {
        Ok(found) if found.is_dir() => path,
        Ok(_) => return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            require_folder(path)?;
            path.parent().unwrap_or(Path::new("/"))
        }
        Err(e) => return Err(e),
    };
    let attempt = place.join(format!(".nestor-{}", std::process::id()));
    let attempt = ownership::open_above(&attempt).map_err(refused)?.path;
    fs::create_dir(&attempt)
        .and_then(|()| fs::remove_dir(&attempt))
        .map_err(|e| io::Error::new(e.kind(), format!("nothing can be made in {}: {e}", place.display())))
}

/// Writes a file that the user named, in a folder that is there. A file that is there stays until
/// the new one takes its place, and a link is replaced, not followed. A device or a pipe stays what it is and is written to, and
/// so is one that a link of this user's or root's leads to, such as `/dev/stdout`.
///
/// # Errors
/// The file cannot be made there, or not be written; it lies in another user's directory, or in one that others may write to
/// and that is not sticky; a link of this user's leads through one; its folder does not exist.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    require_folder(path)?;
    write_in_own(path, contents)
}

/// As [`write`], in a folder of Nestor's or of a directory that the user named, which is made if it is not there.
///
/// # Errors
/// As [`write`], but for the folder.
pub fn write_in_own(path: &Path, contents: &[u8]) -> io::Result<()> {
    fill(target_of(path)?, contents)
}

/// As [`write`], but open for what is not yet known: an empty file takes the place of what is there at once.
///
/// # Errors
/// As [`write`].
pub fn create(path: &Path) -> io::Result<File> {
    require_folder(path)?;
    match target_of(path)? {
        Target::Into(file) => Ok(file),
        Target::InsteadOf(path) => ownership::new_beside(&path, READABLE)?.persist(path).map_err(|e| e.error),
    }
}

/// Looks at the way to a file that the user named, which is written by others. Afterwards no other user can lead the way elsewhere.
///
/// # Errors
/// As [`write`], for the directories.
pub fn check_way(path: &Path) -> io::Result<()> {
    require_folder(path)?;
    ownership::open_above(path).map(drop).map_err(refused)
}

/// Where the contents of a named file go.
enum Target {
    /// Into a device or a pipe, or into what is open as a descriptor.
    Into(File),
    /// Into a new file that takes the place of whatever is at this path. No other user can redirect the path.
    InsteadOf(PathBuf),
}

fn fill(target: Target, contents: &[u8]) -> io::Result<()> {
    match target {
        Target::Into(mut file) => file.write_all(contents),
        Target::InsteadOf(path) => ownership::replace(&path, READABLE, contents),
    }
}

/// Follows links of this user's and root's, one by one, to a device or a pipe. Each component is opened in the open directory
/// above it without following it, and what is written to is what was looked at, so it cannot be swapped in between.
fn target_of(path: &Path) -> io::Result<Target> {
    let named = ownership::make_above(path).map_err(refused)?;
    let instead = Ok(Target::InsteadOf(named.path.clone()));
    let mut reached = named;
    for _ in 0..=MAX_LINKS {
        let name = reached.path.file_name().unwrap_or_default();
        let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match openat(&reached.directory, name, look, Mode::empty()) {
            Err(Errno::NOENT) => return instead,
            found => File::from(found?),
        };
        let metadata = found.metadata()?;
        if metadata.is_dir() {
            return Err(Errno::ISDIR.into());
        } else if metadata.is_file() {
            return instead;
        } else if !metadata.is_symlink() {
            return open_special(&reached, &found, &metadata).map(Target::Into);
        } else if is_descriptor(&reached)? {
            // A file that a shell opened as `/dev/stdout` is written on where the shell has it.
            return File::options()
                .append(true)
                .custom_flags(libc::O_NOCTTY)
                .open(&reached.path)
                .map(Target::Into);
        } else if !is_of_user_or_root(&metadata) {
            return instead;
        }
        let leads_to = readlinkat(&found, "", Vec::new())?;
        let leads_to = Path::new(std::ffi::OsStr::from_bytes(leads_to.as_bytes()));
        let next = reached.path.parent().unwrap_or(Path::new("/")).join(leads_to);
        reached = match ownership::open_above(&next) {
            Err(NotMade::System { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return instead;
            }
            opened => opened.map_err(refused)?,
        };
    }
    Err(Errno::LOOP.into())
}

/// Opens for writing the very device or pipe that was looked at.
fn open_special(reached: &Above, looked_at: &File, metadata: &fs::Metadata) -> io::Result<File> {
    let directory = reached.path.parent().unwrap_or(Path::new("/"));
    let is_shared = ownership::writers_at(directory, &fs::symlink_metadata(directory)?).is_some();
    if is_shared && !is_of_user_or_root(metadata) {
        return Err(io::Error::other(format!(
            "{} is not a file, and user {} put it there; name another file",
            reached.path.display(),
            metadata.uid()
        )));
    }
    // What is open for nothing but a look is opened again by its descriptor, without a path (proc_pid_fd(5)).
    let again = format!("/proc/self/fd/{}", looked_at.as_raw_fd());
    File::options().write(true).custom_flags(libc::O_NOCTTY).open(again)
}

/// Whether what was reached is a link that stands for an open file: its text is no path.
fn is_descriptor(reached: &Above) -> io::Result<bool> {
    let is_named_so = reached.path.parent().is_some_and(|parent| parent.ends_with("fd"));
    Ok(is_named_so && fstatfs(&reached.directory)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

fn is_of_user_or_root(metadata: &fs::Metadata) -> bool {
    [0, ownership::user()].contains(&metadata.uid())
}

fn refused(error: NotMade) -> io::Error {
    let is_ours = !matches!(error, NotMade::NotOurs(_));
    let error = io::Error::from(error);
    if is_ours {
        return error;
    }
    let advice = "name a file in a directory that belongs to you or root and that no one else may write to, \
                  or a file directly in a directory like /tmp";
    io::Error::new(error.kind(), format!("{error}\n  {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, lchown, symlink};

    #[test]
    fn a_link_is_replaced_and_what_it_names_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, report] = ["victim", "report.html"].map(|name| folder.path().join(name));
        fs::write(&victim, "of somebody else").unwrap();
        symlink(&victim, &report).unwrap();
        write(&report, b"<html>").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
        assert_eq!(fs::read_to_string(&report).unwrap(), "<html>");
        assert!(!report.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn a_pipe_and_a_link_to_one_are_written_to_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, link] = ["pipe", "link"].map(|name| folder.path().join(name));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        symlink(&pipe, &link).unwrap();
        for named in [&pipe, &link] {
            // Open both ways, so that writing to it does not wait for a reader.
            let mut reader = File::options().read(true).write(true).open(&pipe).unwrap();
            write(named, b"text").unwrap();
            let mut read = [0; 4];
            io::Read::read_exact(&mut reader, &mut read).unwrap();
            assert_eq!(&read, b"text");
        }
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        assert!(link.is_symlink());
    }

    #[test]
    fn a_directory_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), b"text").is_err());
        assert!(folder.path().is_dir());
    }

    #[test]
    fn a_named_file_makes_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("tpyo/b/report.html");
        for refused in [write(&report, b"").err(), create(&report).err(), check_way(&report).err()] {
            let refused = refused.unwrap().to_string();
            assert!(refused.ends_with("tpyo/b does not exist"), "{refused}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        require_folder(Path::new("report.html")).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(write(&folder.path().join("file/report.html"), b"").is_err());
    }

    #[test]
    fn a_directory_for_new_files_is_tried_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        require_directory(folder.path()).unwrap();
        require_directory(&folder.path().join("new")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(folder.path().join("file"), "").unwrap();
        let refused = |path: &Path| require_directory(path).unwrap_err().to_string();
        assert_eq!(refused(&folder.path().join("file")), "it is not a directory");
        assert!(refused(&folder.path().join("no/new")).ends_with("no does not exist"));
        let refused = refused(Path::new("/proc/new"));
        assert!(refused.starts_with("nothing can be made in /proc: No such file"), "{refused}");
    }

    #[test]
    fn missing_directories_are_made_and_what_a_descriptor_leads_to_is_written_on() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("a/b/report.html");
        write_in_own(&report, b"<html>").unwrap();
        let open = File::options().append(true).open(&report).unwrap();
        let link = folder.path().join("link");
        symlink(format!("/proc/self/fd/{}", open.as_raw_fd()), &link).unwrap();
        write(&link, b"</html>").unwrap();
        assert_eq!(fs::read_to_string(&report).unwrap(), "<html></html>");
        assert!(link.is_symlink());
        create(&report).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&report).unwrap(), "new");
    }

    const OTHER: u32 = 4321;

    /// A directory as `/tmp` in a private one, with a directory of another user's in it; `None` without root, which alone can
    /// give something away.
    fn shared() -> Option<(tempfile::TempDir, PathBuf)> {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().canonicalize().unwrap().join("shared");
        fs::create_dir_all(shared.join("theirs")).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        lchown(shared.join("theirs"), Some(OTHER), Some(OTHER)).ok()?;
        Some((folder, shared))
    }

    fn pipe_at(path: &Path) -> File {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        // Open both ways, so that opening it to write does not wait for a reader.
        File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap()
    }

    fn is_empty(mut pipe: &File) -> bool {
        io::Read::read(&mut pipe, &mut [0]).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn another_users_link_is_replaced_and_the_device_or_pipe_behind_it_gets_nothing() {
        let Some((folder, shared)) = shared() else { return };
        let pipe = pipe_at(&folder.path().join("pipe"));
        let report = shared.join("report.html");
        symlink(folder.path().join("pipe"), &report).unwrap();
        lchown(&report, Some(OTHER), Some(OTHER)).unwrap();
        write(&report, b"<html>").unwrap();
        assert!(is_empty(&pipe));
        assert!(!report.is_symlink());
        assert_eq!(fs::read(&report).unwrap(), b"<html>");
    }

    #[test]
    fn another_users_pipe_and_an_own_link_through_another_users_directory_are_refused() {
        let Some((folder, shared)) = shared() else { return };
        let theirs = pipe_at(&shared.join("pipe"));
        lchown(shared.join("pipe"), Some(OTHER), Some(OTHER)).unwrap();
        let refused = write(&shared.join("pipe"), b"text").unwrap_err().to_string();
        assert!(refused.contains("user 4321 put it there; name another file"), "{refused}");
        let behind = pipe_at(&shared.join("theirs/pipe"));
        let link = folder.path().join("link");
        symlink(shared.join("theirs/pipe"), &link).unwrap();
        let refused = write(&link, b"text").unwrap_err().to_string();
        assert!(refused.contains("theirs belongs to user 4321"), "{refused}");
        assert!(is_empty(&theirs) && is_empty(&behind) && link.is_symlink());
    }

    #[test]
    fn what_is_put_there_after_the_look_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, later, report] = ["pipe", "later", "report"].map(|name| folder.path().join(name));
        let mut looked_at = pipe_at(&pipe);
        let swapped = pipe_at(&later);
        let [of_pipe, of_report] = [&pipe, &report].map(|path| target_of(path).unwrap());
        fs::remove_file(&pipe).unwrap();
        for name in [&pipe, &report] {
            symlink(&later, name).unwrap();
        }
        fill(of_pipe, b"text").unwrap();
        fill(of_report, b"text").unwrap();
        assert!(is_empty(&swapped));
        let mut read = [0; 4];
        io::Read::read_exact(&mut looked_at, &mut read).unwrap();
        assert_eq!((&read, fs::read(&report).unwrap().as_slice()), (b"text", b"text".as_slice()));
    }

    #[test]
    fn nothing_is_made_or_replaced_in_or_through_another_users_directory() {
        let Some((folder, shared)) = shared() else { return };
        let secret = folder.path().join("secret");
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("index.html"), "root's").unwrap();
        symlink(&secret, shared.join("reports")).unwrap();
        lchown(shared.join("reports"), Some(OTHER), Some(OTHER)).unwrap();
        for (name, reason) in [
            ("reports/index.html", "reports is a link of user 4321"),
            ("reports/new/index.html", "reports is a link of user 4321"),
            ("theirs/index.html", "theirs belongs to user 4321"),
            ("theirs/new/index.html", "theirs belongs to user 4321"),
        ] {
            let created = if name.contains("new") { None } else { create(&shared.join(name)).err() };
            for refused in [write_in_own(&shared.join(name), b"").err(), created].into_iter().flatten() {
                let refused = refused.to_string();
                assert!(refused.contains(reason) && refused.contains("\n  name a file in"), "{refused}");
            }
        }
        assert_eq!(fs::read_to_string(secret.join("index.html")).unwrap(), "root's");
        assert_eq!(
            fs::read_dir(&secret).unwrap().count() + fs::read_dir(shared.join("theirs")).unwrap().count(),
            1
        );
        write(&shared.join("index.html"), b"mine").unwrap();
    }
}
