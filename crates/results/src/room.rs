//! Whether the space that a study will take is free, before hours are spent on filling it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nestor_stack::{MediumKind, Place, Stack};
use nestor_text::units;
use thiserror::Error;

use crate::{Study, StudyEffort, WrittenStack};

/// A study needs more space than is free.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "the study may need {} for {what}, but only {} are free\n  nothing was begun; free some space, or name \
     {otherwise}, or use smaller data sets (scale=, size=) or fewer blocks (-n)",
    units::bytes(*.bytes),
    units::bytes(*.free)
)]
pub struct NoRoom {
    /// How much is needed on one file system.
    bytes: u64,
    /// What for, and where.
    what: String,
    /// How much is free there.
    free: u64,
    /// What else can be named.
    otherwise: String,
}

/// Space that is needed somewhere.
struct Need {
    /// A file or directory on the file system; it need not be there yet.
    path: PathBuf,
    bytes: u64,
    /// What for.
    what: &'static str,
    /// What else can be done than making room.
    otherwise: &'static str,
}

/// Refuses to begin if the planned space exceeds what is free where it is needed.
/// `place` is `None` where the media are on other machines; the data of modelled disks is in `work_root`.
///
/// # Errors
/// How much is needed, where, and how much is free there.
pub fn require_room(
    study: &Study,
    place: Option<&Place>,
    effort: &StudyEffort,
    store: &Path,
    work_root: PathBuf,
) -> Result<(), NoRoom> {
    let mut needs =
        place.map_or_else(Vec::new, |place| data_needs(study, place, effort.data_bytes(), work_root));
    needs.push(Need {
        path: store.to_owned(),
        bytes: effort.results_bytes,
        what: "results",
        otherwise: "another results file: --store FILE",
    });
    refuse_what_does_not_fit(&needs, &|path| {
        let existing = nearest_existing(path);
        let room = rustix::fs::statvfs(existing).ok()?;
        Some((fs::metadata(existing).ok()?.dev(), room.f_bavail.saturating_mul(room.f_frsize)))
    })
}

/// `room` tells the file system of a path and its free bytes; where it does not, nothing is refused.
fn refuse_what_does_not_fit(
    needs: &[Need],
    room: &dyn Fn(&Path) -> Option<(u64, u64)>,
) -> Result<(), NoRoom> {
    for need in needs {
        let Some((file_system, free)) = room(&need.path) else { continue };
        let here: Vec<&Need> =
            needs.iter().filter(|n| room(&n.path).is_some_and(|(other, _)| other == file_system)).collect();
        let bytes = here.iter().map(|n| n.bytes).fold(0, u64::saturating_add);
        if bytes <= free {
            continue;
        }
        let here = || here.iter().filter(|need| need.bytes > 0);
        let what: Vec<String> = here().map(|n| format!("{} ({})", n.what, n.path.display())).collect();
        let mut otherwise: Vec<&str> = here().map(|n| n.otherwise).collect();
        otherwise.dedup();
        return Err(NoRoom { bytes, what: what.join(" and "), free, otherwise: otherwise.join(", or ") });
    }
    Ok(())
}

/// The data of a modelled disk is in the work directory, that of a file of the user's in the file, where what it holds
/// already is room too. A device has the room that it has, and another machine's is not known here.
fn data_needs(study: &Study, place: &Place, bytes: u64, work_root: PathBuf) -> Vec<Need> {
    match place {
        Place::Emulated(_) => vec![Need {
            path: work_root,
            bytes,
            what: "data of the modelled disk",
            otherwise: "another work directory: NESTOR_WORK=DIRECTORY",
        }],
        Place::This => files_as_media(study)
            .into_iter()
            .map(|path| {
                if path.is_dir() {
                    let otherwise = "another directory as medium";
                    return Need { path, bytes, what: "data of the medium", otherwise };
                }
                let (length, allocated) = fs::metadata(&path)
                    .map_or((0, 0), |file| (file.len(), file.blocks().saturating_mul(512)));
                let bytes = bytes.min(length).saturating_sub(allocated);
                Need { path, bytes, what: "data of the medium", otherwise: "another file as medium" }
            })
            .collect(),
        Place::Ssh(_) | Place::Domain(_) | Place::SshPair { .. } | Place::Manager { .. } => Vec::new(),
    }
}

/// The files and directories that are media of a study, each once.
fn files_as_media(study: &Study) -> BTreeSet<PathBuf> {
    let stacks = study.stacks.iter().filter_map(WrittenStack::value);
    stacks.filter_map(file_as_medium).collect()
}

fn file_as_medium(stack: &Stack) -> Option<PathBuf> {
    let medium = stack.medium();
    let is_file = matches!(medium.medium_kind(), Some(MediumKind::File | MediumKind::Directory));
    is_file.then(|| medium.path().map(Path::to_owned)).flatten()
}

/// The path itself, or the nearest directory above that is there and will hold it.
fn nearest_existing(path: &Path) -> &Path {
    let there = path.ancestors().find(|above| above.exists());
    // What is above a relative path in the end is the empty one: here.
    there.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn needs() -> [Need; 2] {
        let need = |path: &str, bytes, what, otherwise| Need { path: path.into(), bytes, what, otherwise };
        [
            need("/work", 3 * GIB, "data of the modelled disk", "another work directory"),
            need("/home/r.sqlite", GIB, "results", "another results file"),
        ]
    }

    fn refusal(room: &dyn Fn(&Path) -> Option<(u64, u64)>) -> String {
        refuse_what_does_not_fit(&needs(), room).map_or_else(|e| e.to_string(), |()| "it fits".to_owned())
    }

    #[test]
    fn each_file_system_has_to_hold_what_goes_there() {
        let apart = |work: u64, home: u64| {
            refusal(&move |path| Some(if path.starts_with("/work") { (1, work) } else { (2, home) }))
        };
        assert_eq!(apart(3 * GIB, GIB), "it fits");
        insta::assert_snapshot!(apart(2_900 << 20, GIB), @"
        the study may need 3.00 GiB for data of the modelled disk (/work), but only 2.83 GiB are free
          nothing was begun; free some space, or name another work directory, or use smaller data sets (scale=, size=) or fewer blocks (-n)
        ");
        insta::assert_snapshot!(apart(3 * GIB, 0), @"
        the study may need 1.00 GiB for results (/home/r.sqlite), but only 0 B are free
          nothing was begun; free some space, or name another results file, or use smaller data sets (scale=, size=) or fewer blocks (-n)
        ");
    }

    #[test]
    fn on_one_file_system_they_add_up() {
        assert_eq!(refusal(&|_| Some((1, 4 * GIB))), "it fits");
        insta::assert_snapshot!(refusal(&|_| Some((1, 3 * GIB))), @"
        the study may need 4.00 GiB for data of the modelled disk (/work) and results (/home/r.sqlite), but only 3.00 GiB are free
          nothing was begun; free some space, or name another work directory, or another results file, or use smaller data sets (scale=, size=) or fewer blocks (-n)
        ");
    }

    #[test]
    fn where_nothing_is_known_nothing_is_refused() {
        assert_eq!(refusal(&|_| None), "it fits");
    }

    #[test]
    fn a_file_of_the_users_has_the_room_that_it_takes_already() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk.img");
        fs::write(&disk, vec![1_u8; 1 << 20]).unwrap();
        fs::File::options().write(true).open(&disk).unwrap().set_len(GIB).unwrap();
        let disk = disk.display();
        let stacks = vec![format!("ext4/file:{disk}").into(), format!("xfs/file:{disk}").into()];
        let study = Study::new("s", "S", stacks, vec!["fio:seq-write".into()]);
        let needs = |place: &Place, bytes| data_needs(&study, place, bytes, PathBuf::new());
        let needed = |bytes| needs(&Place::This, bytes).iter().map(|n| n.bytes).collect::<Vec<_>>();
        assert_eq!(needed(1 << 20), [0], "one file, once");
        assert!(needed(64 << 20)[0] <= 63 << 20, "{:?}", needed(64 << 20));
        assert!(needed(64 << 30)[0] < GIB, "no more than the file is long");
        assert!(needs(&Place::Ssh("host".to_owned()), GIB).is_empty());
    }

    #[test]
    fn what_is_not_there_yet_will_be_in_the_nearest_directory() {
        assert_eq!(nearest_existing(Path::new("/no/such/place")), Path::new("/"));
        assert_eq!(nearest_existing(Path::new("no-such-file.sqlite")), Path::new("."));
    }
}
