//! Roots of one user, and what others could do to them.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_root_is_in_the_users_own_cache_and_elsewhere_only_if_there_is_none() {
    let user = ownership::user();
    let place = |pairs: &'static [(&str, &str)], own: bool| {
        let variable = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v));
        root_from(variable, |_| own).display().to_string()
    };
    let home = &[("HOME", "/home/alice")];
    assert_eq!(place(home, true), "/home/alice/.cache/nestor/work");
    assert_eq!(place(home, false), format!("/var/tmp/nestor-{user}"));
    assert_eq!(place(&[], true), format!("/var/tmp/nestor-{user}"));
    let named = &[("HOME", "/home/alice"), ("XDG_CACHE_HOME", "/scratch"), ("NESTOR_WORK", "/w")];
    assert_eq!(place(&named[..2], true), "/scratch/nestor/work");
    assert_eq!(place(named, false), format!("/w/nestor-{user}"));
    let long = &[("HOME", "/home/a-name-that-is-so-long-that-no-socket-could-ever-be-below-its-cache")];
    assert_eq!(place(long, true), format!("/var/tmp/nestor-{user}"));
}

#[test]
fn a_root_that_is_open_to_others_or_a_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    assert!(WorkRoot::open(&root).unwrap().is_none());
    WorkRoot::make(&root).unwrap();
    assert!(WorkRoot::open(&root).unwrap().is_some());
    for mode in [0o750, 0o701, 0o1777] {
        set_mode(&root, mode);
        let refused = WorkRoot::make(&root).unwrap_err().to_string();
        assert!(refused.contains(&format!("(mode {mode:04o}, not 0700)")), "{refused}");
        assert!(refused.contains("set NESTOR_WORK"), "{refused}");
    }
    set_mode(&root, 0o700);
    let link = folder.path().join("link");
    symlink(&root, &link).unwrap();
    assert!(matches!(WorkRoot::open(&link), Err(WorkRootError::NotOurs(Distrust::Kind { .. }))));
    assert!(matches!(WorkRoot::make(&link), Err(WorkRootError::NotOurs(Distrust::Kind { .. }))));
}

#[test]
fn a_run_directory_that_is_a_link_or_open_to_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = WorkRoot::make(&folder.path().join("root")).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, folder.path().join("root/1")).unwrap();
    fs::create_dir(folder.path().join("root/2")).unwrap();
    set_mode(&folder.path().join("root/2"), 0o755);
    assert_eq!(root.runs(), ["2"], "a link is no run");
    assert!(matches!(root.open_run("1"), Err(WorkRootError::NotOurs(Distrust::Kind { .. }))));
    assert!(matches!(root.open_run("2"), Err(WorkRootError::Open { .. })));
}

#[test]
fn two_runs_of_one_process_number_have_a_directory_each() {
    let folder = tempfile::tempdir().unwrap();
    let root = WorkRoot::make(&folder.path().join("root")).unwrap();
    let [first, second] = [root.make_run().unwrap(), root.make_run().unwrap()];
    assert_ne!(first.path(), second.path());
    first.remove().unwrap();
    assert!(!first.path().exists() && second.path().exists());
}

/// Needs root and the right to mount.
#[test]
fn what_is_mounted_in_a_run_directory_is_seen_whatever_bytes_are_in_its_path() {
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let _alone = crate::agent::alone();
    let folder = tempfile::tempdir().unwrap();
    let above = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff\xe9"));
    fs::create_dir(&above).unwrap();
    let run = WorkRoot::make(&above.join("root")).unwrap().make_run().unwrap();
    let place = run.path().join("place");
    fs::create_dir(&place).unwrap();
    if mount("tmpfs", &place, "tmpfs", MountFlags::empty(), None).is_err() {
        return;
    }
    fs::write(place.join("notes"), "another's").unwrap();
    let refused = run.remove();
    let kept = fs::read_to_string(place.join("notes"));
    unmount(&place, UnmountFlags::empty()).unwrap();
    assert!(refused.unwrap_err().to_string().contains("something is mounted at"));
    assert_eq!(kept.unwrap(), "another's");
    run.remove().unwrap();
}

/// Needs root and the right to mount.
#[test]
fn what_is_mounted_in_a_run_directory_in_another_mount_namespace_stays() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};
    let _alone = crate::agent::alone();
    let folder = tempfile::tempdir().unwrap();
    let run = WorkRoot::make(&folder.path().join("root")).unwrap().make_run().unwrap();
    let place = run.path().join("place");
    fs::create_dir(&place).unwrap();
    // The root of the runs has another path there.
    let script = "mkdir \"$2\" && mount --bind \"$1\" \"$2\" && mount -t tmpfs tmpfs \"$2/$3/place\" && echo ready; read -r end; \
                      grep -c \"$2/$3/place \" /proc/self/mountinfo";
    let mut holder = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        .args([&folder.path().join("root"), &folder.path().join("elsewhere")])
        .arg(run.path().file_name().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
    let is_mounted = said.next().is_some_and(|line| line.is_ok_and(|line| line == "ready"));
    let refused = is_mounted.then(|| run.remove());
    drop(holder.stdin.take());
    let left = said.next();
    holder.wait().unwrap();
    // Not every user may mount.
    let Some(refused) = refused else { return };
    assert!(refused.unwrap_err().to_string().contains("elsewhere"), "with the path that it has there");
    assert_eq!(left.unwrap().unwrap(), "1", "it is still mounted");
    run.remove().unwrap();
}

#[test]
fn a_root_whose_sockets_would_not_have_room_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("n".repeat(MAX_ROOT_BYTES));
    assert!(WorkRoot::make(&long).unwrap_err().to_string().contains("shorter path"));
}

/// Gives a link to another user. Only root can: then `false`.
fn given_away(link: &Path) -> bool {
    std::os::unix::fs::lchown(link, Some(4321), Some(4321)).is_ok()
}

#[test]
fn a_root_below_another_users_link_is_refused_wherever_the_link_leads() {
    let folder = tempfile::tempdir().unwrap();
    let (shared, mine) = (folder.path().join("shared"), folder.path().join("mine"));
    fs::create_dir(&shared).unwrap();
    fs::create_dir(&mine).unwrap();
    set_mode(&shared, 0o1777);
    let (link, hop) = (shared.join("link"), folder.path().join("hop"));
    symlink(&mine, &link).unwrap();
    symlink(&link, &hop).unwrap();
    assert!(WorkRoot::make(&link.join("root")).is_ok() && WorkRoot::make(&hop.join("root")).is_ok());
    if !given_away(&link) {
        return;
    }
    for place in [&link, &hop] {
        for root in [place.join("root"), place.join("new/root")] {
            let refused = WorkRoot::make(&root).unwrap_err().to_string();
            assert!(refused.contains("is a link of user 4321"), "{refused}");
        }
        assert!(WorkRoot::open(&place.join("root")).is_err());
    }
    assert!(!mine.join("new").exists(), "nothing is made through it");
}

#[test]
fn a_root_is_known_by_the_path_that_has_no_links_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().canonicalize().unwrap();
    fs::create_dir(real.join("first")).unwrap();
    symlink("first", real.join("link")).unwrap();
    let root = WorkRoot::make(&real.join("link/root")).unwrap();
    assert_eq!(root.path(), real.join("first/root"));
    let run = root.make_run().unwrap();
    assert!(run.path().starts_with(real.join("first/root")));
    assert_eq!(WorkRoot::open(&real.join("link/root")).unwrap().unwrap().path(), real.join("first/root"));
}
