use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// An agent whose work directory is beside the user's directory.
fn agent(root: &Path) -> (Agent, String) {
    let agent = Agent::new(&root.join("work")).unwrap();
    let users = root.join("srv");
    fs::create_dir(&users).unwrap();
    fs::write(users.join("kept"), "kept").unwrap();
    (agent, users.display().to_string())
}

fn made(agent: &Agent, within: &str) -> OwnDirectory {
    match agent.make_own_directory(within, &[]).unwrap() {
        Answer::OwnDirectory(made) => made,
        other => panic!("{other:?}"),
    }
}

fn refused(agent: &Agent, within: &str, kept: &[String]) -> Refusal {
    agent.make_own_directory(within, kept).unwrap_err()
}

fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_run_has_a_directory_of_its_own_which_goes_with_all_in_it_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let (agent, users) = agent(&root.path().canonicalize().unwrap());
    let [one, two] = [made(&agent, &users), made(&agent, &users)];
    assert_ne!(one.path, two.path);
    for own in [&one, &two] {
        assert_eq!(Path::new(&own.path).parent(), Some(Path::new(&users)));
        assert_eq!(fs::metadata(&own.path).unwrap().permissions().mode() & 0o7777, 0o700);
        assert_eq!(names(&own.path), Vec::<String>::new(), "the probe is gone");
        assert!(users.starts_with(&own.mounted_at) && !own.file_system.is_empty());
        fs::create_dir(format!("{}/inside", own.path)).unwrap();
        fs::write(format!("{}/inside/disk.raw", own.path), "image").unwrap();
    }
    agent.remove_own_directory(&one.path).unwrap();
    assert_eq!(names(&users).len(), 2);
    assert!(agent.remove_own_directory(&one.path).is_err(), "it is none of this run's any more");
    assert!(agent.remove_own_directory(&users).is_err(), "and the user's never was");
    agent.finish();
    assert_eq!(names(&users), ["kept"]);
}

#[test]
fn what_cannot_have_a_directory_of_the_run_is_refused_and_left_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let (agent, users) = agent(&root);
    let within = |name: &str| root.join(name).display().to_string();
    assert_eq!(refused(&agent, &within("none"), &[]).cause, Cause::NotThere);
    let file = format!("{users}/kept");
    assert_eq!(refused(&agent, &file, &[]).cause, Cause::OfAnotherKind { found: FileKind::File });
    let above = root.display().to_string();
    let inside = agent.work_directory.display().to_string();
    for laboratory in [above, inside] {
        let refusal = refused(&agent, &laboratory, &[]);
        assert_eq!(refusal.cause, Cause::InUse);
        assert!(refusal.message.contains("the laboratory's own files"), "{refusal}");
    }
    let cache = format!("{users}/cache");
    assert_eq!(refused(&agent, &users, &[cache]).cause, Cause::InUse, "it need not be there yet");
    fs::set_permissions(&users, fs::Permissions::from_mode(0o777)).unwrap();
    let refusal = refused(&agent, &users, &[]);
    assert_eq!(refusal.cause, Cause::NotPermitted);
    assert!(refusal.message.contains("may be written to by others"), "{refusal}");
    assert_eq!(names(&users), ["kept"]);
    agent.finish();
}

/// Needs the right to mount.
#[test]
fn a_file_system_that_is_read_only_or_full_is_refused() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let _alone = crate::agent::alone();
    let root = tempfile::tempdir().unwrap();
    let (agent, users) = agent(&root.path().canonicalize().unwrap());
    let mounted = |flags, size: &str| {
        let options = std::ffi::CString::new(format!("mode=700,{size}")).unwrap();
        mount("tmpfs", &users, "tmpfs", flags, Some(options.as_c_str())).is_ok()
    };
    for (flags, size, cause) in [
        (MountFlags::RDONLY, "size=64m", Cause::NotPermitted),
        (MountFlags::empty(), "size=1m", Cause::NoSpace),
    ] {
        if !mounted(flags, size) {
            return;
        }
        let refusal = agent.make_own_directory(&users, &[]);
        unmount(&users, UnmountFlags::DETACH).unwrap();
        assert_eq!(refusal.unwrap_err().cause, cause);
    }
    if mounted(MountFlags::empty(), "size=64m") {
        let own = agent.make_own_directory(&users, &[]);
        let Ok(Answer::OwnDirectory(own)) = own else { panic!("{own:?}") };
        agent.finish();
        let left = names(&users);
        unmount(&users, UnmountFlags::DETACH).unwrap();
        assert_eq!((own.file_system.as_str(), own.source.as_str()), ("tmpfs", "tmpfs"));
        assert_eq!(own.mounted_at, users);
        assert_eq!(left, Vec::<String>::new());
    }
}

#[test]
fn what_is_in_the_place_of_a_runs_directory_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let elsewhere = root.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("kept"), "kept").unwrap();
    let link = root.join("nestor-0");
    symlink(&elsewhere, &link).unwrap();
    remove(&link.display().to_string()).unwrap();
    assert!(link.exists(), "a link is none of ours, nor what it leads to");
    let through = link.join("nestor-1");
    fs::create_dir(&through).unwrap();
    let left = remove(&through.display().to_string()).unwrap_err();
    assert!(matches!(left, NotUndone::OwnDirectoryLeft { .. }), "{left}");
    assert!(elsewhere.join("kept").exists() && through.exists());
    assert_eq!(remove(&root.join("none").display().to_string()), Ok(()));
}
