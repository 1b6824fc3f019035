//! What agents left that were killed themselves: found by their ledgers, and undone only where it certainly is theirs.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::ledger::{LEDGER_FILE, LedgerFile};
use super::origin::{Origin, Relation};
use super::resource::Resource;
use super::undoing::By;
use super::work_root::{RunDirectory, WorkRoot, WorkRootError};
use crate::not_undone::NotUndone;

/// A ledger has a few entries of some hundred bytes.
const MAX_LEDGER_BYTES: u64 = 16 << 20;

/// What was found in a root.
#[derive(Debug, Default)]
pub struct Found {
    /// Work directories of dead agents.
    pub dead: Vec<Leftover>,
    /// Work directories that may be in use; this cannot be determined here.
    pub left_alone: Vec<LeftAlone>,
}

/// A work directory in which nothing is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// Where.
    pub directory: PathBuf,
    /// Why, and what to do about it.
    pub reason: String,
}

/// What a dead agent left behind. While this value lives, no other process can clean it up.
#[derive(Debug)]
pub struct Leftover {
    /// Its work directory.
    pub directory: PathBuf,
    /// What its ledger still lists.
    pub resources: Vec<Resource>,
    /// Whether the machine was started again since: then nothing of it is there any more but what is on disks, and what bears the same name
    /// is another's.
    pub restarted: bool,
    sees_its_mounts: bool,
    run: RunDirectory,
}

/// Looks through the work directories below `root` for those whose agent is dead.
///
/// # Errors
/// The root is not this user's alone: nothing in it is believed.
pub fn leftovers(root: &Path) -> Result<Found, WorkRootError> {
    let Some(root) = WorkRoot::open(root)? else { return Ok(Found::default()) };
    let here = Origin::here();
    let mut found = Found::default();
    for name in root.runs() {
        let examined = root
            .open_run(&name)
            .map_err(|e| LeftAlone { directory: root.path().join(&name), reason: e.to_string() })
            .and_then(|run| examine(run, &here));
        match examined {
            Ok(Some(leftover)) => found.dead.push(leftover),
            Ok(None) => {}
            Err(left_alone) => found.left_alone.push(left_alone),
        }
    }
    Ok(found)
}

/// `None`: an agent lives, or begins to.
fn examine(mut run: RunDirectory, here: &Origin) -> Result<Option<Leftover>, LeftAlone> {
    let directory = run.path().to_owned();
    let alone = |reason: String| LeftAlone { directory: directory.clone(), reason };
    let Some(ledger) = run.open_file(LEDGER_FILE).map_err(|e| alone(e.to_string()))? else { return Ok(None) };
    let mut text = Vec::new();
    let read = ledger.take(MAX_LEDGER_BYTES).read_to_end(&mut text);
    let file: LedgerFile = read
        .map_err(|e| e.to_string())
        .and_then(|_| serde_json::from_slice(&text).map_err(|e| e.to_string()))
        .map_err(|e| alone(format!("its ledger cannot be read ({e}); remove it if no run is using it")))?;
    let Some(origin) = &file.origin else {
        return Err(alone(
            "an older nestor wrote its ledger, which does not say where and when; remove it if no run is using it".into(),
        ));
    };
    let relation = origin.seen_from(here);
    let elsewhere = match relation {
        Relation::OtherHost => Some(format!(
            "it belongs to the machine `{}`: run `nestor doctor --clean` there, or remove it if that machine no longer exists",
            origin.host
        )),
        Relation::OtherNamespace => Some(format!(
            "it belongs to another container of this machine (`{}`): run `nestor doctor --clean` there, or remove it if that \
             container no longer exists",
            origin.host
        )),
        Relation::Same | Relation::Restarted => None,
    };
    match run.take_lock() {
        // The holder of the lock lives, even if the ledger says otherwise.
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(e) => return Err(alone(format!("its lock cannot be taken: {e}"))),
        // An agent that ends meanwhile removes both.
        Ok(None) if matches!(run.open_file(LEDGER_FILE), Ok(None)) => return Ok(None),
        Ok(None) => return Err(alone("it has no lock; remove it if no run is using it".into())),
        Ok(Some(())) => {}
    }
    if let Some(reason) = elsewhere {
        return Err(alone(reason));
    }
    let resources = file.entries.into_iter().map(|(_, resource)| resource).collect();
    let sees_its_mounts = origin.has_mounts_of(here);
    Ok(Some(Leftover {
        directory,
        resources,
        restarted: relation == Relation::Restarted,
        sees_its_mounts,
        run,
    }))
}

fn is_medium(resource: &Resource) -> bool {
    matches!(resource, Resource::Signatures { .. })
}

/// The order in which they are undone: first machines that outlived the agent, which may use what was made after them, then the rest; last made
/// first.
fn in_order(resources: &[Resource]) -> impl Iterator<Item = &Resource> {
    let (machines, others): (Vec<_>, Vec<_>) =
        resources.iter().rev().partition(|resource| resource.is_outliving_machine());
    machines.into_iter().chain(others)
}

impl Leftover {
    /// Media of the user's that the dead agent had written to. They are not erased: since then they may have been
    /// put to another use.
    pub fn written_media(&self) -> Vec<&str> {
        self.resources
            .iter()
            .filter_map(|resource| match resource {
                Resource::Signatures { path } => Some(path.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Undoes what the dead agent left, first the machines that outlived it, then the rest, last first, except [`Self::written_media`], and removes its work directory. After
    /// a restart of the machine only what is on disks is removed: its own directories, in directories of the user's and the work directory.
    ///
    /// # Errors
    /// What could not be undone; the work directory then stays, so that it can be tried again.
    pub fn clean(&self) -> Result<(), Vec<NotUndone>> {
        let by = By::Heir { work: &self.directory, sees_its_mounts: self.sees_its_mounts };
        let is_there = |r: &&Resource| !self.restarted || r.outlives_restart();
        let there = in_order(&self.resources).filter(is_there).filter(|r| !is_medium(r));
        let problems: Vec<NotUndone> = there.filter_map(|r| r.take_down_for_good(by).err()).collect();
        if problems.is_empty() {
            let path = || self.directory.display().to_string();
            self.run.remove().map_err(|e| vec![NotUndone::WorkDirectory { path: path(), error: (&e).into() }])
        } else {
            Err(problems)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::agent::ledger::{DirectoryIdentity, Ledger};
    use crate::xen::{NotedDomain, Toolstack};

    /// A root with one run, which lists a directory that is there.
    struct Bench {
        folder: tempfile::TempDir,
        work: PathBuf,
        kept: PathBuf,
        /// Dropped when the agent dies.
        ledger: Option<Ledger>,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let run = WorkRoot::make(&folder.path().join("root")).unwrap().make_run().unwrap();
            let (work, kept) = (run.path().to_owned(), folder.path().join("kept"));
            fs::create_dir(&kept).unwrap();
            let mut ledger = Ledger::create(run).unwrap();
            let made = DirectoryIdentity::at(&kept);
            ledger.enter(Resource::Directory { path: kept.display().to_string(), made }).unwrap();
            Self { folder, work, kept, ledger: Some(ledger) }
        }

        fn dead() -> Self {
            Self { ledger: None, ..Self::new() }
        }

        fn found(&self) -> Found {
            leftovers(&self.folder.path().join("root")).unwrap()
        }

        fn ledger_file(&self) -> PathBuf {
            self.work.join(LEDGER_FILE)
        }

        /// Changes the origin in the ledger.
        fn with(self, change: impl FnOnce(&mut serde_json::Value)) -> Self {
            let mut value: serde_json::Value =
                serde_json::from_slice(&fs::read(self.ledger_file()).unwrap()).unwrap();
            change(&mut value);
            fs::write(self.ledger_file(), value.to_string()).unwrap();
            self
        }

        /// That nothing was touched, and why.
        fn why_left_alone(&self) -> String {
            let found = self.found();
            assert!(found.dead.is_empty(), "{found:?}");
            assert!(self.kept.exists() && self.work.exists());
            assert_eq!(found.left_alone.len(), 1);
            found.left_alone[0].reason.clone()
        }
    }

    #[test]
    fn a_machine_that_outlived_the_agent_is_ended_before_what_its_disks_are_made_of() {
        let outlived = NotedDomain::new(Toolstack::Xl, "guest", Some("/lab/root.squashfs")).unwrap();
        let directory = |path: &str| Resource::Directory { path: path.to_owned(), made: None };
        let resources = [directory("/a"), Resource::XenDomain(outlived), directory("/b")];
        let order: Vec<&Resource> = in_order(&resources).collect();
        assert_eq!(order, [&resources[1], &resources[2], &resources[0]]);
    }

    #[test]
    fn a_living_agent_has_no_leftovers_and_a_dead_one_has() {
        let mut bench = Bench::new();
        let found = bench.found();
        assert!(found.dead.is_empty() && found.left_alone.is_empty(), "{found:?}");
        bench.ledger = None;
        let found = bench.found();
        assert_eq!(found.dead.len(), 1);
        assert!(bench.found().dead.is_empty(), "somebody is at it");
        found.dead[0].clean().unwrap();
        assert!(!bench.kept.exists() && !bench.work.exists());
    }

    #[test]
    fn an_agent_that_holds_its_lock_lives_whatever_its_number() {
        // As it looks from another container: no process here has that number.
        let bench = Bench::new().with(|l| l["owner_pid"] = 4_194_305.into());
        let found = bench.found();
        assert!(found.dead.is_empty() && found.left_alone.is_empty(), "{found:?}");
    }

    #[test]
    fn a_directory_that_another_made_in_place_of_a_dead_agents_stays() {
        let bench = Bench::dead();
        let other = bench.folder.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::rename(&other, &bench.kept).unwrap();
        bench.found().dead[0].clean().unwrap();
        assert!(bench.kept.exists() && !bench.work.exists());
    }

    /// Needs root and the right to mount.
    #[test]
    fn a_work_directory_in_which_something_is_mounted_is_not_emptied() {
        use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
        let _alone = crate::agent::alone();
        let bench = Bench::dead();
        let place = bench.work.join("place");
        fs::create_dir(&place).unwrap();
        if mount("tmpfs", &place, "tmpfs", MountFlags::empty(), None).is_err() {
            return;
        }
        fs::write(place.join("notes"), "another's").unwrap();
        let cleaned = bench.found().dead[0].clean();
        let kept = fs::read_to_string(place.join("notes"));
        unmount(&place, UnmountFlags::empty()).unwrap();
        assert_eq!(kept.unwrap(), "another's");
        assert!(cleaned.unwrap_err()[0].to_string().contains("something is mounted at"));
        bench.found().dead[0].clean().unwrap();
        assert!(!bench.work.exists());
    }

    #[test]
    fn after_a_restart_only_what_is_on_disks_is_removed() {
        let mut bench = Bench::new();
        let own = bench.folder.path().canonicalize().unwrap().join("nestor-0123456789abcdef");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("disk.raw"), "an image").unwrap();
        let of_users = Resource::OwnDirectory { path: own.display().to_string() };
        bench.ledger.as_mut().unwrap().enter(of_users).unwrap();
        bench.ledger = None;
        let bench = bench.with(|l| l["origin"]["boot"] = "of another start".into());
        bench.found().dead[0].clean().unwrap();
        assert!(!bench.work.exists() && !own.exists());
        assert!(bench.kept.exists(), "it may be another's of that name");
    }

    #[test]
    fn what_belongs_to_another_machine_or_container_is_named_and_left_alone() {
        let container = Bench::dead().with(|l| l["origin"]["pid_namespace"] = 1.into());
        assert!(container.why_left_alone().contains("another container of this machine"));
        let machine = Bench::dead().with(|l| {
            l["origin"]["boot"] = "another".into();
            l["origin"]["host"] = "elsewhere".into();
        });
        assert!(machine.why_left_alone().contains("the machine `elsewhere`"));
    }

    #[test]
    fn a_ledger_of_an_older_version_or_a_broken_one_is_named_and_left_alone() {
        let older = Bench::dead().with(|l| {
            l.as_object_mut().unwrap().remove("origin");
        });
        assert!(older.why_left_alone().contains("an older nestor"));
        let broken = Bench::dead();
        fs::write(broken.ledger_file(), b"{").unwrap();
        assert!(broken.why_left_alone().contains("cannot be read"));
        let unlocked = Bench::dead();
        fs::remove_file(unlocked.work.join("lock")).unwrap();
        assert!(unlocked.why_left_alone().contains("has no lock"));
    }

    #[test]
    fn a_ledger_that_others_may_write_or_that_is_a_link_is_not_believed() {
        let bench = Bench::dead();
        fs::set_permissions(bench.ledger_file(), fs::Permissions::from_mode(0o620)).unwrap();
        assert!(bench.why_left_alone().contains("mode 0620"));
        let bench = Bench::dead();
        let elsewhere = bench.folder.path().join("elsewhere");
        fs::rename(bench.ledger_file(), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, bench.ledger_file()).unwrap();
        assert!(bench.why_left_alone().contains("a link"));
    }

    #[test]
    fn a_root_that_others_may_enter_is_refused_as_a_whole() {
        let bench = Bench::dead();
        let root = bench.folder.path().join("root");
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(leftovers(&root).unwrap_err().to_string().contains("nothing in it was trusted"));
        assert!(bench.kept.exists() && bench.work.exists());
    }

    #[test]
    fn a_container_that_got_the_namespace_number_of_a_dead_one_is_another() {
        for key in ["mount_namespace", "pid_namespace_began"] {
            let reused = Bench::dead().with(|l| l["origin"][key] = 1.into());
            assert!(reused.why_left_alone().contains("another container of this machine"), "{key}");
            let unknown = Bench::dead().with(|l| {
                l["origin"].as_object_mut().unwrap().remove(key);
            });
            assert!(unknown.why_left_alone().contains("another container of this machine"), "{key}");
        }
    }

    #[test]
    fn a_machine_without_a_machine_id_is_not_taken_for_another_of_its_name() {
        let other = Bench::dead().with(|l| {
            l["origin"]["boot"] = "of another start".into();
            l["origin"]["machine"] = "".into();
        });
        assert!(other.why_left_alone().contains("belongs to the machine"));
    }
}
