//! Mounts: the kernel's list (`/proc/self/mountinfo`, proc_pid_mountinfo(5)), and which mount is which.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// `STATX_MNT_ID_UNIQUE` of include/uapi/linux/stat.h, since Linux 6.8: `stx_mnt_id` is then an id of the mount that is
/// not used again until the machine restarts, in any mount namespace.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// A mount as in the kernel's list, without what remounting or changing its options alters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number, which is reused when it is gone.
    pub id: u64,
    /// Numbers of its device, which are reused if the file system is not on a disk: `0:41`.
    pub device: String,
    /// Which directory of the file system is mounted.
    pub root: String,
    /// Where, as the list writes it.
    pub point: String,
    /// Kind of file system.
    pub kind: String,
    /// What is mounted, as the list writes it.
    pub source: String,
}

impl Line {
    /// Where it is mounted.
    pub fn place(&self) -> PathBuf {
        unescaped(&self.point)
    }

    /// What is mounted; a path only if it is a block device.
    pub fn source_path(&self) -> PathBuf {
        unescaped(&self.source)
    }
}

/// A line of the list, with the number of the mount on which it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    parent: u64,
    line: Line,
}

impl Entry {
    /// `36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/vda rw,errors=continue`
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ');
        let mut after = after.split(' ');
        let (id, parent) = (before.next()?.parse().ok()?, before.next()?.parse().ok()?);
        let mut fields = before.map(str::to_owned);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        let (kind, source) = (after.next()?.to_owned(), after.next()?.to_owned());
        Some(Self { parent, line: Line { id, device, root, point, kind, source } })
    }
}

/// Parses a whole list. One line that is not understood fails all of it, because it could be the wanted one.
fn parse_list(list: &[u8]) -> io::Result<Vec<Entry>> {
    let lines = list.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let entries = lines.map(|line| {
        let line = as_text(line);
        Entry::parse(&line)
            .ok_or_else(|| io::Error::other(format!("the list of mounts has the line `{line}`")))
    });
    entries.collect()
}

/// Bytes that are not UTF-8 as octal numbers, as the kernel writes blanks: [`unescaped`] makes them bytes again.
fn as_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a String never fails.
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text
}

/// The identity of the mount at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountIdentity {
    /// Its id that is never used again; absent if the kernel has none (before Linux 6.8) or could not be asked.
    pub unique: Option<u64>,
    /// Its line of the kernel's list.
    pub line: Line,
}

impl MountIdentity {
    /// The mount that is seen at a directory, the last of several; `None`: nothing is mounted there.
    ///
    /// # Errors
    /// If the directory or the kernel's list cannot be read.
    pub fn at(target: &Path) -> io::Result<Option<Self>> {
        // This does not read the file system, whose device may be gone.
        let directory = match openat(CWD, target, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            opened => opened?,
        };
        let place = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
        let id = id_of(&directory)?;
        let line = all()?.into_iter().find(|line| line.id == id && line.place() == place);
        Ok(line.map(|line| Self { unique: unique_id(&directory), line }))
    }
}

fn id_of(directory: &OwnedFd) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd()))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("the kernel does not say which mount it is in"))
}

fn unique_id(directory: &OwnedFd) -> Option<u64> {
    let found = statx(directory, "", AtFlags::EMPTY_PATH, MNT_ID_UNIQUE).ok()?;
    (found.stx_mask & MNT_ID_UNIQUE.bits() != 0).then_some(found.stx_mnt_id)
}

/// All mounts that this process sees, in the kernel's order.
///
/// # Errors
/// The list cannot be read, or not be understood.
pub fn all() -> io::Result<Vec<Line>> {
    Ok(own_entries()?.into_iter().map(|entry| entry.line).collect())
}

/// The mount that a directory is in.
///
/// # Errors
/// If the directory or the kernel's list cannot be read.
pub fn mount_of(directory: &Path) -> io::Result<Option<Line>> {
    let opened = openat(CWD, directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let id = id_of(&opened)?;
    Ok(all()?.into_iter().find(|line| line.id == id))
}

fn own_entries() -> io::Result<Vec<Entry>> {
    parse_list(&fs::read("/proc/self/mountinfo")?)
}

/// A place at or below a directory where something is mounted, in the mount namespace of this process or of any other process
/// that it may look at: removing a directory takes away what is mounted there in all of them. The directory's path has no links
/// in it.
///
/// # Errors
/// If a list cannot be read.
pub fn mounted_below(directory: &Path) -> io::Result<Option<PathBuf>> {
    let own = own_entries()?;
    let there = Location::of(&own, directory);
    let is_below = |list: &[Entry], entry: &Entry| match (&there, Location::of_point(list, entry)) {
        (Some(there), Some(point)) => point.device == there.device && point.path.starts_with(&there.path),
        // Whatever has no other name has its path.
        _ => entry.line.place().starts_with(directory),
    };
    let in_own = own.iter().find(|entry| entry.line.place().starts_with(directory) || is_below(&own, entry));
    if let Some(found) = in_own {
        return Ok(Some(found.line.place()));
    }
    for list in lists_of_others()? {
        let list = parse_list(&list)?;
        if let Some(found) = list.iter().find(|entry| is_below(&list, entry)) {
            return Ok(Some(found.line.place()));
        }
    }
    Ok(None)
}

/// The place of a file in its file system, independent of its path in a mount namespace.
#[derive(Debug, PartialEq, Eq)]
struct Location {
    device: String,
    path: PathBuf,
}

impl Location {
    /// Of a directory as this process sees it.
    fn of(own: &[Entry], directory: &Path) -> Option<Self> {
        let opened = openat(CWD, directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let id = id_of(&opened).ok()?;
        let mount = own.iter().find(|entry| entry.line.id == id)?;
        Self::below(&mount.line, directory)
    }

    /// Of the directory that a mount covers; `None` if what is below it is not in the list, as in a changed root.
    fn of_point(list: &[Entry], entry: &Entry) -> Option<Self> {
        let parent = list.iter().find(|other| other.line.id == entry.parent)?;
        Self::below(&parent.line, &entry.line.place())
    }

    fn below(mount: &Line, place: &Path) -> Option<Self> {
        let relative = place.strip_prefix(mount.place()).ok()?;
        Some(Self { device: mount.device.clone(), path: unescaped(&mount.root).join(relative) })
    }
}

/// The lists of all other mount namespaces in which a process is that this one may look at.
fn lists_of_others() -> io::Result<Vec<Vec<u8>>> {
    let number = |process: &Path| fs::metadata(process.join("ns/mnt")).map(|found| found.ino()).ok();
    let mut known: HashSet<u64> = number(Path::new("/proc/self")).into_iter().collect();
    let mut lists = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let process = entry?.path();
        let first = process.file_name().and_then(|name| name.as_encoded_bytes().first());
        let is_process = first.is_some_and(u8::is_ascii_digit);
        // The list of another user's process can be read where the number of its namespace cannot.
        if !is_process || number(&process).is_some_and(|number| !known.insert(number)) {
            continue;
        }
        // A process that has ended has no list, and not every user may read those of others.
        lists.extend(fs::read(process.join("mountinfo")));
    }
    Ok(lists)
}

/// A path as the list writes it: blanks, tabs, line ends and backslashes are octal numbers.
pub fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(number) => {
                bytes.push(number);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_taken_apart() {
        let line = r"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:2 - ext3 /dev/root\134x ro,errors=continue";
        let Entry { parent, line: found } = Entry::parse(line).unwrap();
        assert_eq!((parent, found.place().as_path()), (35, Path::new("/mnt 2")));
        let fields = [&found.device, &found.root, &found.kind, &found.source];
        assert_eq!(
            (found.id, fields),
            (36, ["98:0", "/mnt1", "ext3", r"/dev/root\134x"].map(String::from).each_ref())
        );
        for line in ["", "36 35", "36 35 98:0 / /mnt rw", "x 35 98:0 / /mnt rw - ext3 /dev/x rw"] {
            assert_eq!(Entry::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_place_that_is_no_utf_8_is_known_byte_for_byte() {
        let list = b"36 35 98:0 / /mnt/\xff\xc3\xa4\xe9 rw - tmpfs \xfe rw\n";
        let entries = parse_list(list).unwrap();
        let place = entries[0].line.place();
        assert_eq!(place.as_os_str().as_encoded_bytes(), b"/mnt/\xff\xc3\xa4\xe9");
        assert_eq!(entries[0].line.source, r"\376");
        assert!(parse_list(b"36 35 98:0 / /mnt rw - tmpfs tmpfs rw\n37 36").is_err(), "cut off");
    }

    #[test]
    fn a_mount_of_another_namespace_is_found_by_its_place_in_the_file_system() {
        let here = parse_list(b"20 1 8:1 / / rw - ext4 /dev/a rw\n21 20 8:2 /top /data rw - ext4 /dev/b rw")
            .unwrap();
        let run = Location::below(&here[1].line, Path::new("/data/work/7")).unwrap();
        assert_eq!(run.path, Path::new("/top/work/7"));
        // In a container, with another path.
        let there = parse_list(
            b"40 1 0:9 / / rw - overlay none rw\n41 40 8:2 /top/work /w rw - ext4 /dev/b rw\n42 41 0:50 / /w/7/x rw - tmpfs t rw",
        )
        .unwrap();
        let point = Location::of_point(&there, &there[2]).unwrap();
        assert!(point.device == run.device && point.path.starts_with(&run.path), "{point:?}");
        assert_eq!(Location::of_point(&there, &there[0]), None);
    }

    #[test]
    fn a_directory_is_a_mount_point_or_is_not() {
        let root = MountIdentity::at(Path::new("/")).unwrap().unwrap();
        assert_eq!(root.line.point, "/");
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(MountIdentity::at(folder.path()).unwrap(), None);
        assert_eq!(MountIdentity::at(&folder.path().join("absent")).unwrap(), None);
    }
}
