//! What another user of the machine puts where the program looks: run as two real users.
//!
//! Needs root, to be both of them.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::json;
use support::{binary, can_run, copy_program};

/// Debian's `nobody`.
const ATTACKER: u32 = 65534;

/// A user that needs no name.
const ORDINARY: u32 = 12345;

/// What the victim's file holds, and what the attacker wants it to hold.
const HIS: &str = "the victim's own\n";
const PLANTED: &str = "planted";

/// A directory for everybody, as `/tmp` is, with the program and a home of the victim's.
struct Machine {
    folder: tempfile::TempDir,
    victim: u32,
}

impl Machine {
    fn new(victim: u32) -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        set_mode(folder.path(), 0o755);
        let machine = Self { folder, victim };
        // The build's own directory may be closed to other users.
        copy_program(&binary(), &machine.path("nestor"));
        fs::create_dir(machine.path("shared")).unwrap();
        set_mode(&machine.path("shared"), 0o1777);
        for home in [machine.path("home"), machine.path("attackers")] {
            fs::create_dir(&home).unwrap();
            set_mode(&home, 0o700);
        }
        chown(machine.path("home"), Some(victim), Some(victim)).unwrap();
        chown(machine.path("attackers"), Some(ATTACKER), Some(ATTACKER)).unwrap();
        fs::write(machine.secret(), HIS).unwrap();
        set_mode(&machine.secret(), 0o600);
        chown(machine.secret(), Some(victim), Some(victim)).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file that only the victim may read or write.
    fn secret(&self) -> PathBuf {
        self.path("home/secret")
    }

    fn root(&self) -> PathBuf {
        self.path(&format!("shared/nestor-{}", self.victim))
    }

    /// A shell script that the attacker runs; it has to succeed.
    fn attack(&self, script: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).env("ROOT", self.root()).current_dir(self.path("shared"));
        let output = shell.uid(ATTACKER).gid(ATTACKER).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The program as the victim runs it.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("nestor"));
        command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", self.path("home")).env("NESTOR_WORK", self.path("shared"));
        command.current_dir(self.path("home")).stdin(Stdio::null()).uid(self.victim).gid(self.victim);
        command
    }

    /// Whether it succeeds, and all that it says.
    fn nestor(&self, arguments: &[&str]) -> (bool, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (status.success(), said)
    }

    /// A ledger as a dead agent of this machine would have left it, were it the victim's.
    fn ledger(&self) -> String {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let origin = json!({
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "machine": text("/etc/machine-id"),
            "boot": text("/proc/sys/kernel/random/boot_id"),
            "pid_namespace": fs::metadata("/proc/self/ns/pid").unwrap().ino(),
            "pid_namespace_began": first_process_began(),
            "mount_namespace": fs::metadata("/proc/self/ns/mnt").unwrap().ino(),
        });
        let setting = json!({ "setting": { "path": self.secret(), "former": PLANTED } });
        // Numbers that no process has, for versions that go by them.
        json!({ "owner_pid": 4_194_305, "owner_start_ticks": 1, "origin": origin, "entries": [[1, setting]] })
            .to_string()
    }

    /// Everything that reads the root, and what it says.
    fn victims_commands(&self) -> Vec<(bool, String)> {
        let disk = self.path("home/disk.img");
        fs::File::create(&disk).unwrap().set_len(64 << 20).unwrap();
        chown(&disk, Some(self.victim), Some(self.victim)).unwrap();
        let stack = format!("ext4/file:{}", disk.display());
        let run = ["run", "--on", "this", &stack, "fio:seq-write:scale=0.005", "-n", "1"];
        [&["doctor", "--clean"][..], &run, &["doctor"]].map(|arguments| self.nestor(arguments)).into()
    }
}

/// Field 22 of `/proc/1/stat`: its start, in clock ticks since boot. Fields are counted after the command's parenthesis.
fn first_process_began() -> Option<u64> {
    let stat = fs::read_to_string("/proc/1/stat").ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_ledger_that_another_user_planted_overwrites_nothing() {
    if !can_run(true, false) {
        return;
    }
    for victim in [0, ORDINARY] {
        let machine = Machine::new(victim);
        machine.attack(&format!(
            "mkdir -p \"$ROOT/1\"; cat >\"$ROOT/1/ledger.json\" <<'END'\n{}\nEND\n: >\"$ROOT/1/lock\"; chmod -R a+rX \"$ROOT\"",
            machine.ledger()
        ));
        for (succeeded, said) in machine.victims_commands() {
            assert_eq!(fs::read_to_string(machine.secret()).unwrap(), HIS, "user {victim}: {said}");
            assert!(!succeeded, "user {victim}: {said}");
            let owner = format!("{} belongs to user {ATTACKER}", machine.root().display());
            assert!(said.contains(&owner) && said.contains("Set NESTOR_WORK"), "user {victim}: {said}");
        }
        assert!(machine.root().join("1/ledger.json").exists(), "it is not removed either");
    }
}

#[test]
fn a_link_in_place_of_the_root_is_not_followed() {
    if !can_run(true, false) {
        return;
    }
    for victim in [0, ORDINARY] {
        let machine = Machine::new(victim);
        // What it leads to is the victim's and private, but was never meant to be a root.
        let other = machine.path("home/other");
        fs::create_dir_all(other.join("1")).unwrap();
        fs::write(other.join("1/ledger.json"), machine.ledger()).unwrap();
        fs::write(other.join("1/lock"), "").unwrap();
        for (path, mode) in [("", 0o700), ("1", 0o700), ("1/ledger.json", 0o600), ("1/lock", 0o600)] {
            set_mode(&other.join(path), mode);
            chown(other.join(path), Some(victim), Some(victim)).unwrap();
        }
        machine.attack(&format!("ln -s '{}' \"$ROOT\"", other.display()));
        for (succeeded, said) in machine.victims_commands() {
            assert_eq!(fs::read_to_string(machine.secret()).unwrap(), HIS, "user {victim}: {said}");
            assert!(
                !succeeded && said.contains(&format!("belongs to user {ATTACKER}")),
                "user {victim}: {said}"
            );
        }
    }
}

#[test]
fn a_run_directory_or_a_ledger_of_another_user_in_an_own_root_is_left_alone() {
    if !can_run(true, false) {
        return;
    }
    for victim in [0, ORDINARY] {
        let machine = Machine::new(victim);
        // Root moved them there, or an administrator's `chown` was too short.
        let [run, mixed] = ["1", "2"].map(|name| machine.root().join(name));
        for directory in [&run, &mixed] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("ledger.json"), machine.ledger()).unwrap();
            fs::write(directory.join("lock"), "").unwrap();
            set_mode(&directory.join("ledger.json"), 0o600);
            set_mode(directory, 0o700);
        }
        set_mode(&machine.root(), 0o700);
        chown(machine.root(), Some(victim), Some(victim)).unwrap();
        chown(&mixed, Some(victim), Some(victim)).unwrap();
        for foreign in [run.clone(), run.join("ledger.json"), mixed.join("ledger.json")] {
            chown(foreign, Some(ATTACKER), Some(ATTACKER)).unwrap();
        }
        let (_, said) = machine.nestor(&["doctor", "--clean"]);
        assert_eq!(fs::read_to_string(machine.secret()).unwrap(), HIS, "user {victim}: {said}");
        assert_eq!(said.matches("left alone: ").count(), 2, "user {victim}: {said}");
        assert!(run.exists() && mixed.exists());
    }
}

#[test]
fn even_an_own_ledger_sets_back_nothing_but_kernel_settings() {
    if !can_run(true, false) {
        return;
    }
    let machine = Machine::new(0);
    let run = machine.root().join("1");
    fs::create_dir_all(&run).unwrap();
    for (name, contents) in [("ledger.json", machine.ledger()), ("lock", String::new())] {
        fs::write(run.join(name), contents).unwrap();
        set_mode(&run.join(name), 0o600);
    }
    for directory in [run.clone(), machine.root()] {
        set_mode(&directory, 0o700);
    }
    let (succeeded, said) = machine.nestor(&["doctor", "--clean"]);
    assert!(!succeeded && said.contains("not a kernel setting below /sys or /proc/sys"), "{said}");
    assert_eq!(fs::read_to_string(machine.secret()).unwrap(), HIS, "{said}");
}

#[test]
fn a_link_in_the_place_of_an_own_ledger_is_not_followed() {
    if !can_run(true, false) {
        return;
    }
    let machine = Machine::new(ORDINARY);
    let run = machine.root().join("1");
    fs::create_dir_all(&run).unwrap();
    fs::write(machine.path("home/ledger.json"), machine.ledger()).unwrap();
    symlink(machine.path("home/ledger.json"), run.join("ledger.json")).unwrap();
    for path in [machine.path("home/ledger.json"), run.clone(), machine.root()] {
        set_mode(&path, 0o700);
        chown(&path, Some(ORDINARY), Some(ORDINARY)).unwrap();
    }
    let (_, said) = machine.nestor(&["doctor", "--clean"]);
    assert_eq!(fs::read_to_string(machine.secret()).unwrap(), HIS, "{said}");
    assert!(said.contains("is not a file but a link"), "{said}");
}

#[test]
fn a_lab_image_that_another_user_planted_is_not_booted() {
    if !can_run(true, false) {
        return;
    }
    for victim in [0, ORDINARY] {
        let machine = Machine::new(victim);
        let (_, doctor) = machine.nestor(&["doctor", "--json"]);
        let findings: serde_json::Value = serde_json::from_str(&doctor).unwrap();
        let found = findings.as_array().unwrap().iter().find(|f| f["subject"] == "lab image").unwrap();
        let hash = found["found"].as_str().unwrap().split(' ').next().unwrap();
        let manifest = json!({ "hash": hash, "suite": "bookworm", "architecture": "amd64", "kernel_release": "6.1", "packages": {} });
        machine.attack(&format!(
            "mkdir -p cache/lab/{hash}; cd cache/lab/{hash}; for f in vmlinuz modules.cpio root.squashfs; do echo planted >$f; done
             echo '{manifest}' >manifest.json; sha256sum * >../sums; mv ../sums SHA256SUMS; chmod -R a+rX ../.."
        ));
        let cache = machine.path("shared/cache");
        let mut command = machine.command(&["lab", "build", "--json"]);
        let output = command.env("NESTOR_CACHE", &cache).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "user {victim}: {}", String::from_utf8_lossy(&output.stdout));
        let owner = format!("{} belongs to user {ATTACKER}", cache.display());
        assert!(said.contains(&owner) && said.contains("Set NESTOR_CACHE"), "user {victim}: {said}");
    }
}

#[test]
fn results_in_a_folder_that_may_not_be_written_to_are_read() {
    if !can_run(true, false) {
        return;
    }
    let machine = Machine::new(ORDINARY);
    let [open, shown] = ["open.sqlite", "shown/results.sqlite"].map(|name| machine.path(name));
    let log = |store: &Path| store.with_extension("sqlite-wal");
    fs::create_dir(machine.path("shown")).unwrap();
    let store = nestor_results::Store::open(&open).unwrap();
    // As a copy or a killed run leaves it: all tables are in the log still.
    fs::copy(&open, &shown).unwrap();
    fs::copy(log(&open), log(&shown)).unwrap();
    drop(store);
    for with_its_log in [true, false] {
        if !with_its_log {
            fs::remove_file(log(&shown)).unwrap();
            fs::copy(&open, &shown).unwrap();
        }
        let (fine, said) = machine.nestor(&["report", "--store", &shown.display().to_string()]);
        assert!(fine && said.contains("no runs"), "with its log: {with_its_log}: {said}");
        let files = fs::read_dir(machine.path("shown")).unwrap().count();
        assert_eq!(files, 1 + usize::from(with_its_log), "nothing is made beside it");
    }
}
