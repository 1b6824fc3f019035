//! `--on ssh:HOST` with an ssh of the test's own, whose other machine is a directory: the copy of the program there.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use support::{Sandbox, binary, write_program};

/// Runs what it is asked to in the other machine's home. If there is a file `cut` beside it, that many bytes of the next copy
/// arrive, and then the connection is gone.
const SSH: &str = r#"#!/bin/sh
far=$(dirname "$0")
while test "$1" != --; do echo "$1" >>"$far/options"; shift; done
shift 2
cd "$far/home" || exit 255
case "$1" in
*"cat >"*) if test -e "$far/cut"; then
    bytes=$(cat "$far/cut"); rm "$far/cut"
    head -c "$bytes" | sh -c "$1"
    exit
fi;;
esac
exec sh -c "$1"
"#;

/// Another machine.
struct Far {
    sandbox: Sandbox,
}

impl Far {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        fs::create_dir_all(sandbox.path("far/home")).unwrap();
        fs::set_permissions(sandbox.path("far/home"), fs::Permissions::from_mode(0o755)).unwrap();
        write_program(&sandbox.path("far/ssh"), SSH);
        Self { sandbox }
    }

    /// Runs on it what cannot succeed there, and says what came of it.
    fn run(&self) -> String {
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.sandbox.text("far"));
        let mut command = self.sandbox.nestor(["run", "--on", "ssh:far", "ext4/file:/no/such/disk.img"]);
        let output = command.args(["fio:seq-write", "-n", "1"]).env("PATH", path).output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
    }

    fn copies(&self) -> Vec<PathBuf> {
        let directory = self.sandbox.path("far/home/.cache/nestor/bin");
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// That the program over there answered.
    fn assert_answers(&self, said: &str) {
        let medium = said.contains("make it with `truncate") || said.contains("/no/such/disk.img");
        assert!(medium || said.contains("which needs root"), "{said}");
        assert!(!said.contains("does not work") && !said.contains("could not be copied"), "{said}");
        let [copy] = &self.copies()[..] else { panic!("{:?}", self.copies()) };
        assert!(fs::read(copy).unwrap() == fs::read(binary()).unwrap(), "the copy is another program");
    }
}

#[test]
fn a_copy_that_was_cut_is_not_kept_and_the_next_run_copies_it_again() {
    let far = Far::new();
    for bytes in ["0", "100000"] {
        fs::write(far.sandbox.path("far/cut"), bytes).unwrap();
        let said = far.run();
        assert!(said.contains("could not be copied") && said.contains("bytes arrived"), "{said}");
        assert_eq!(far.copies(), Vec::<PathBuf>::new());
    }
    far.assert_answers(&far.run());
    let options = fs::read_to_string(far.sandbox.path("far/options")).unwrap();
    assert!(options.contains("ForwardAgent=no"), "{options}");
}

#[test]
fn a_damaged_copy_is_replaced_before_it_is_run() {
    let far = Far::new();
    far.assert_answers(&far.run());
    let copy = far.copies().remove(0);
    fs::File::options().write(true).open(&copy).unwrap().set_len(100_000).unwrap();
    far.assert_answers(&far.run());
}

#[test]
fn a_directory_of_copies_that_others_may_write_to_is_not_used() {
    let far = Far::new();
    let directory = far.sandbox.path("far/home/.cache/nestor/bin");
    fs::create_dir_all(&directory).unwrap();
    for place in [".", ".cache", ".cache/nestor", ".cache/nestor/bin"] {
        for open in [".", ".cache", ".cache/nestor", ".cache/nestor/bin"] {
            let mode = if open == place { 0o777 } else { 0o755 };
            fs::set_permissions(far.sandbox.path("far/home").join(open), fs::Permissions::from_mode(mode))
                .unwrap();
        }
        let said = far.run();
        assert!(said.contains(&format!("far was not used: others may write to {place},")), "{said}");
        assert_eq!(far.copies(), Vec::<PathBuf>::new());
    }
}
