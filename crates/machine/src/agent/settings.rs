//! Kernel settings: the agent that wrote one sets it back; an heir does so only if it has not been changed since.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use super::undoing::By;
use crate::not_undone::{NotUndone, WhyLeft};

/// Where kernel settings are.
const SETTINGS: [&str; 2] = ["/sys", "/proc/sys"];

/// Writes a kernel setting: an existing file that really is below [`SETTINGS`], whatever links the path goes through.
///
/// # Errors
/// It is elsewhere, or cannot be written.
pub(super) fn write(path: &str, value: &str) -> io::Result<()> {
    let real = real_setting(Path::new(path))?;
    // Neither created nor truncated: a setting exists, and takes its value in one write.
    fs::OpenOptions::new().write(true).open(real)?.write_all(value.as_bytes())
}

fn real_setting(path: &Path) -> io::Result<PathBuf> {
    let plain = path.is_absolute() && path.components().all(|c| !matches!(c, Component::ParentDir));
    let real = if plain { path.canonicalize()? } else { PathBuf::new() };
    if SETTINGS.iter().any(|place| real.starts_with(place) && path.starts_with(place)) {
        return Ok(real);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a kernel setting below /sys or /proc/sys"))
}

/// What a setting holds; of a list of choices the chosen one, which is in brackets.
///
/// # Errors
/// It cannot be read.
pub(super) fn read(path: &str) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or(text.trim(), |(chosen, _)| chosen).to_owned())
}

/// The number of the disk to which a setting belongs, which changes with every new disk or
/// medium and is not reused until the next boot (`diskseq`, since Linux 5.15). `None` if it does not belong to a disk.
pub(super) fn disk_of(path: &str) -> Option<u64> {
    let real = real_setting(Path::new(path)).ok()?;
    let found = real.ancestors().skip(1).find_map(|above| fs::read_to_string(above.join("diskseq")).ok());
    found?.trim().parse().ok()
}

/// Sets a setting back; succeeds when there is nothing to set back (any more).
///
/// # Errors
/// It was left alone, or cannot be written: why, and what to do.
pub(super) fn set_back(
    path: &str,
    former: &str,
    written: Option<&str>,
    disk: Option<u64>,
    by: By,
) -> Result<(), NotUndone> {
    if let By::Heir { work, .. } = by {
        // Writing reports what is not a setting; what cannot be read is not known.
        let found = read(path).ok().filter(|_| real_setting(Path::new(path)).is_ok());
        if let Some(found) = found {
            match verdict(&found, former, written, disk == disk_of(path)) {
                Verdict::SetBack => {}
                Verdict::Nothing => return Ok(()),
                Verdict::LeftAlone(why) => {
                    let (path, former, work) =
                        (path.to_owned(), former.to_owned(), work.display().to_string());
                    return Err(NotUndone::SettingLeft { path, found, former, why, work });
                }
            }
        }
    }
    match write(path, former) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            let (path, former) = (path.to_owned(), former.to_owned());
            Err(NotUndone::Setting { path, former, error: (&e).into() })
        }
        _ => Ok(()),
    }
}

/// What an heir does about a setting.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    SetBack,
    Nothing,
    LeftAlone(WhyLeft),
}

fn verdict(found: &str, former: &str, written: Option<&str>, is_same_disk: bool) -> Verdict {
    match written {
        _ if found == former => Verdict::Nothing,
        None => Verdict::LeftAlone(WhyLeft::UnknownSetting),
        Some(written) if found != written && is_same_disk => Verdict::LeftAlone(WhyLeft::ChangedSetting),
        // Another disk, which that run never had.
        Some(written) if found != written => Verdict::Nothing,
        Some(_) if !is_same_disk => Verdict::LeftAlone(WhyLeft::OtherDisk),
        Some(_) => Verdict::SetBack,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kernel_setting_is_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("of-the-users");
        fs::write(&file, "his").unwrap();
        let up = format!("/proc/sys/../..{}", file.display());
        // What it leads to may be written by its owner only.
        let out = "/proc/sys/../self/comm".to_owned();
        for path in [file.display().to_string(), up, out, "sys/x".to_owned(), String::new()] {
            let refused = set_back(&path, "x", None, None, By::Maker);
            assert!(refused.is_err_and(|e| e.to_string().contains("not a kernel setting")), "{path}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "his");
        assert_eq!(set_back("/sys/nothing/here", "1", None, None, By::Maker), Ok(()));
    }

    #[test]
    fn a_setting_may_be_reached_through_links_that_stay_among_settings() {
        // /sys/class/… are links into /sys/devices/….
        let Some(Ok(link)) = fs::read_dir("/sys/class/tty").ok().and_then(|mut d| d.next()) else { return };
        let real = real_setting(&link.path()).unwrap();
        assert!(real.starts_with("/sys/devices"), "{}", real.display());
        // /proc/sys/… does not have it, /proc/self is not a setting.
        assert!(real_setting(Path::new("/proc/self/comm")).is_err());
    }

    #[test]
    fn an_heir_sets_back_only_what_nobody_has_changed_on_the_same_disk() {
        assert_eq!(verdict("none", "bfq", Some("none"), true), Verdict::SetBack);
        assert_eq!(verdict("bfq", "bfq", Some("none"), false), Verdict::Nothing);
        assert_eq!(verdict("kyber", "bfq", Some("none"), false), Verdict::Nothing, "of another disk");
        for (found, written, is_same_disk) in
            [("kyber", Some("none"), true), ("none", Some("none"), false), ("none", None, true)]
        {
            let verdict = verdict(found, "bfq", written, is_same_disk);
            assert!(matches!(verdict, Verdict::LeftAlone(_)), "{found} {written:?}: {verdict:?}");
        }
    }

    /// A setting of this machine's that can be written without an effect: a free loop device's. Needs root.
    #[test]
    fn a_setting_that_another_has_changed_or_of_another_disk_is_named_and_left_alone() {
        let heir = By::Heir { work: Path::new("/w/7"), sees_its_mounts: true };
        let path = "/sys/block/loop7/queue/read_ahead_kb";
        let Ok(device) = fs::File::open("/dev/loop7") else { return };
        // Another run of this test waits; a device of the user's is not touched.
        rustix::fs::flock(&device, rustix::fs::FlockOperation::LockExclusive).unwrap();
        if Path::new("/sys/block/loop7/loop").exists() {
            return;
        }
        let Ok(before) = read(path) else { return };
        let Some(disk) = disk_of(path) else { return };
        if write(path, "68").is_err() {
            return;
        }
        let changed = set_back(path, "72", Some("64"), Some(disk), heir);
        let of_another = set_back(path, "72", Some("68"), Some(disk + 1), heir);
        let older = set_back(path, "72", None, None, heir);
        let kept = read(path).unwrap();
        let own = set_back(path, "72", Some("68"), Some(disk), heir);
        let after = read(path).unwrap();
        write(path, &before).unwrap();
        for left_alone in [changed, of_another, older] {
            let why = left_alone.unwrap_err();
            assert!(why.to_string().contains("was left alone; it holds `68` and held `72`"), "{why}");
        }
        assert_eq!((kept.as_str(), own, after.as_str()), ("68", Ok(()), "72"));
    }

    #[test]
    fn a_setting_belongs_to_the_disk_above_it_or_to_none() {
        assert_eq!(disk_of("/proc/sys/kernel/pid_max"), None);
        let Some(Ok(disk)) = fs::read_dir("/sys/block").ok().and_then(|mut disks| disks.next()) else {
            return;
        };
        let number = fs::read_to_string(disk.path().join("diskseq")).ok().and_then(|n| n.trim().parse().ok());
        assert_eq!(disk_of(&disk.path().join("queue/scheduler").display().to_string()), number);
    }
}
