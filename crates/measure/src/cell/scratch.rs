//! Where requests are kept while they are joined: a temporary directory, or the user's own, which stays.
//!
//! Either is created by a call that fails if anything exists there, so no other user can have planted a link or a file. The
//! temporary one is in the agent's own work directory if that is on this machine, and is removed with it at the latest.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nestor_lab::Lab;
use nestor_ownership::{NotMade, make_above, place_for_temporary, temporary_directory_in};
use nestor_stack::Place;
use tempfile::TempDir;

use super::CellRequest;

/// A directory for one cell's requests.
pub(super) enum Scratch {
    /// Removed when it is dropped.
    Passing(TempDir),
    /// In the user's directory.
    Kept(PathBuf),
}

/// Runs of one name in one directory of the user's.
const MOST_OF_A_NAME: u32 = 10_000;

impl Scratch {
    /// Makes it: in the user's directory if there is one, else in the agent's work directory.
    pub fn of(lab: &Lab, request: &CellRequest<'_>) -> io::Result<Self> {
        if let Some(directory) = request.trace_to {
            return kept_in(directory, &name_of(request)).map(Self::Kept);
        }
        let base = match lab.place() {
            Place::Emulated(_) | Place::This => {
                let facts = lab.ground().facts().map_err(io::Error::other)?;
                PathBuf::from(facts.work_directory)
            }
            // As for agents: large, so not in /tmp, which may be memory.
            Place::Ssh(_) | Place::Domain(_) | Place::SshPair { .. } | Place::Manager { .. } => {
                place_for_temporary()
            }
        };
        passing_in(&base).map(Self::Passing)
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Passing(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }

    /// Whether the user wants to keep its content.
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

/// A directory with an unpredictable name.
fn passing_in(base: &Path) -> io::Result<TempDir> {
    temporary_directory_in(base, "nestor-requests-")
}

/// A new directory of that name, or of that name and a number if the name is taken. Missing directories above it are
/// created. No other user may rename its content, because later files are created by path.
fn kept_in(directory: &Path, name: &str) -> io::Result<PathBuf> {
    let made = make_above(&directory.join(name)).map_err(|e| {
        let is_ours = !matches!(e, NotMade::NotOurs(_));
        let e = io::Error::from(e);
        let advice = "name a directory that belongs to you or root and that no other user may write to";
        if is_ours { e } else { io::Error::new(e.kind(), format!("{e}\n  {advice}")) }
    })?;
    let directory = made.path.parent().unwrap_or(directory);
    for number in 1..=MOST_OF_A_NAME {
        let path = directory.join(if number == 1 { name.to_owned() } else { format!("{name}-{number}") });
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("{} already holds {MOST_OF_A_NAME} directories named {name}", directory.display()),
    ))
}

/// Creates a new file: never opens an existing one, and never follows a link.
pub(super) fn new_file(path: &Path) -> io::Result<File> {
    nestor_ownership::new_file(path, 0o666)
}

/// `003-ext3.kvm.raw.jfs.hdd-fio.seq-write-block0`: in the order in which cells ran, readable, without slashes.
fn name_of(request: &CellRequest<'_>) -> String {
    let plain = |text: String| -> String {
        let kept = text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_=".contains(c) { c } else { '.' });
        kept.take(80).collect()
    };
    let (stack, workload) = (plain(request.stack.to_string()), plain(request.workload.to_string()));
    format!("{:03}-{stack}-{workload}-block{}", request.position, request.block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    #[test]
    fn a_directory_that_somebody_planted_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let (planted, base) = (real.join("planted"), real.join("traces"));
        std::fs::create_dir(&planted).unwrap();
        std::fs::create_dir(&base).unwrap();
        symlink(&planted, base.join("000-a")).unwrap();
        symlink(folder.path().join("nowhere"), base.join("000-a-2")).unwrap();
        let made = kept_in(&base, "000-a").unwrap();
        assert_eq!(made, base.join("000-a-3"));
        assert_eq!(made.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(made.join("point-0.requests"), "of the user's").unwrap();
        assert_eq!(kept_in(&base, "000-a").unwrap(), base.join("000-a-4"), "what was kept stays");
        assert_eq!(std::fs::read_dir(&planted).unwrap().count(), 0);
    }

    /// Needs root, because only root can change an owner.
    #[test]
    fn a_directory_in_which_others_could_rename_what_is_made_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [open, theirs, link] = ["open", "theirs", "link"].map(|name| folder.path().join(name));
        std::fs::create_dir_all(open.join("sub")).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::create_dir(&theirs).unwrap();
        symlink(folder.path(), &link).unwrap();
        let is_root = [&theirs, &link].iter().all(|path| lchown(path, Some(4321), Some(4321)).is_ok());
        let mut refused =
            vec![(open.clone(), "others"), (open.join("sub"), "others"), (open.join("new"), "others")];
        if is_root {
            refused.extend([
                (theirs.join("dir"), "theirs belongs to user 4321"),
                (theirs.clone(), "theirs belongs to user 4321"),
                (link.join("dir"), "link is a link of user 4321"),
            ]);
        }
        for (directory, reason) in refused {
            let error = kept_in(&directory, "000-a").unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("\n  name a directory"), "{error}");
        }
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
        assert!(!folder.path().join("dir").exists());
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(kept_in(&open.join("mine/deeper"), "000-a").unwrap().is_dir());
    }

    #[test]
    fn a_passing_directory_is_private_has_a_name_of_chance_and_goes_away() {
        let base = tempfile::tempdir().unwrap();
        let (a, b) = (passing_in(base.path()).unwrap(), passing_in(base.path()).unwrap());
        let name = a.path().file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(name.len(), "nestor-requests-".len() + 16);
        assert_ne!(a.path(), b.path());
        assert!(!name.contains(&format!("-{}-", std::process::id())));
        assert_eq!(a.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        drop((a, b));
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_file_is_made_through_a_link_or_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("precious"), "data").unwrap();
        symlink(at("precious"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        for name in ["precious", "link", "dangling"] {
            assert_eq!(new_file(&at(name)).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
        assert_eq!(std::fs::read_to_string(at("precious")).unwrap(), "data");
        assert!(!at("nowhere").exists());
        assert!(new_file(&at("new")).is_ok());
    }
}
