use super::*;

const HOST: MachineIndex = MachineIndex::OUTERMOST;

/// The position of a machine beside the host.
fn beside() -> MachineIndex {
    let stack = Stack::parse("nfs/link/ext4/hdd").unwrap();
    stack.machines().indexed().last().unwrap().0
}

fn keep(directory: &Path, key: &str, root: MachineIndex, used_s: u64, state_bytes: u64) {
    let files = Files::of(directory, key);
    fs::File::create(&files.state).unwrap().set_len(state_bytes).unwrap();
    let description = Description { root, guests: Vec::new(), state_bytes };
    fs::write(&files.description, serde_json::to_vec(&description).unwrap()).unwrap();
    let used = SystemTime::UNIX_EPOCH + Duration::from_secs(used_s);
    fs::File::options().write(true).open(&files.description).unwrap().set_modified(used).unwrap();
}

#[test]
fn the_one_used_longest_ago_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..MOST_STACKS as u64 {
        keep(folder.path(), &format!("k{n}"), HOST, 1_000 - n, 5);
    }
    let last = Files::of(folder.path(), &format!("k{}", MOST_STACKS - 1));
    let first = Files::of(folder.path(), "k0");
    assert!(last.description().is_some());
    make_room(folder.path(), HOST).unwrap();
    assert!(last.description().is_none() && !last.state.exists());
    assert!(first.description().is_some());
    keep(folder.path(), "another", HOST, 2_000, 5);
    let somebody_loads_one = lock_shared(folder.path()).unwrap();
    make_room(folder.path(), HOST).unwrap();
    assert!(first.description().is_some() && Files::of(folder.path(), "k4").description().is_some());
    drop(somebody_loads_one);
    make_room(folder.path(), HOST).unwrap();
    assert!(Files::of(folder.path(), "k4").description().is_none());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2 * (MOST_STACKS - 1) + 1, "with a lock file");
}

#[test]
fn stacks_with_two_machines_are_kept_as_often_as_others_unless_they_are_too_large() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..MOST_STACKS as u64 {
        keep(folder.path(), &format!("host-{n}"), HOST, 1_000 - n, 5);
        keep(folder.path(), &format!("client-{n}"), beside(), 1_000 - n, 5);
    }
    let is_kept = |key: &str| Files::of(folder.path(), key).description().is_some();
    make_room(folder.path(), beside()).unwrap();
    assert!(is_kept("host-5") && is_kept("client-4") && !is_kept("client-5"));
    keep(folder.path(), "large", HOST, 2_000, MOST_BYTES - 10);
    make_room(folder.path(), beside()).unwrap();
    assert!(is_kept("large") && is_kept("host-0") && is_kept("client-0"));
    assert!(!is_kept("host-1") && !is_kept("client-1"));
}

#[test]
fn what_a_killed_run_was_writing_is_removed_and_half_a_host_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("k.partial-4194305");
    fs::write(&left, "half").unwrap();
    let own = folder.path().join(format!("k.partial-{}", std::process::id()));
    fs::write(&own, "half").unwrap();
    make_room(folder.path(), HOST).unwrap();
    assert!(!left.exists() && own.exists());
    let files = Files::of(folder.path(), "k");
    fs::write(&files.state, "state").unwrap();
    assert!(files.description().is_none());
}

#[test]
fn a_state_that_was_cut_is_no_kept_host() {
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), "k", HOST, 1, 5);
    let files = Files::of(folder.path(), "k");
    assert!(files.description().is_some());
    fs::write(&files.state, "sta").unwrap();
    assert!(files.description().is_none());
}
