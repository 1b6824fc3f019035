//! What is the user's stays: nothing is removed that this program did not make, and nothing is touched outside of `--dir`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use nestor_flow::{
    FlowError, FlowOptions, FlowReport, Listener, RunReport, Source, make_places, relocate, run_script,
};
use tempfile::TempDir;

struct Deaf;

impl Listener for Deaf {
    fn say(&self, _line: &str) {}
    fn progress(&self, _what: &str, _share: f64) {}
    fn report(&self, _so_far: &RunReport) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Runs a script with all its files below a directory, as `--dir` does.
fn run(folder: &Path, text: &str, options: FlowOptions) -> Result<FlowReport, FlowError> {
    let script = nestor_wml::parse(&nestor_wml::Source::new("test.f", text), &[]).unwrap();
    let (source, inside) = (Source { name: "test.f", text }, folder.canonicalize().unwrap());
    let places = relocate(&script, &inside);
    make_places(&script, source, &places, &inside)?;
    run_script(&script, source, &FlowOptions { places, inside: Some(inside), ..options }, &Deaf)
}

fn refused(folder: &Path, text: &str, options: FlowOptions) -> String {
    run(folder, text, options).unwrap_err().to_string()
}

fn removing() -> FlowOptions {
    FlowOptions { remove: true, ..FlowOptions::default() }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// `create files` of a set `s` with these attributes.
fn set(attributes: &str) -> String {
    format!("define fileset name=s,path=/x,entries=4,size=1k,dirwidth=5,prealloc{attributes}\ncreate files\n")
}

/// Directories of the user's that a script with `reuse` or `trusttree` takes: with files of any name, or only with files that
/// this program could have made.
fn adopted(folder: &Path, name: &str) -> std::path::PathBuf {
    let sentinel = folder.join("s").join(name);
    fs::create_dir_all(sentinel.parent().unwrap()).unwrap();
    fs::write(&sentinel, "precious").unwrap();
    sentinel
}

#[test]
fn what_was_adopted_is_never_removed() {
    for name in ["mine", "00000001/mine", "00000009", "00000001/00000009"] {
        for how in [",reuse", ",trusttree"] {
            let folder = folder();
            let sentinel = adopted(folder.path(), name);
            run(folder.path(), &set(how), FlowOptions::default()).unwrap();
            // Neither by a later run that makes its files anew, nor on request, nor when a run that removes follows.
            let refusal = refused(folder.path(), &set(""), FlowOptions::default());
            assert!(refusal.contains("was not made by this program"), "{refusal}");
            run(folder.path(), &set(how), removing()).unwrap();
            run(folder.path(), &set(how), removing()).unwrap();
            let refusal = refused(folder.path(), &set(""), removing());
            assert!(refusal.contains("was not made by this program"), "{refusal}");
            assert_eq!(fs::read(&sentinel).unwrap(), b"precious", "{name}{how}");
        }
    }
}

#[test]
fn what_the_user_put_among_files_that_were_made_is_not_removed() {
    let folder = folder();
    run(folder.path(), &set(""), FlowOptions::default()).unwrap();
    let sentinel = folder.path().join("s/00000001/notes");
    fs::write(&sentinel, "precious").unwrap();
    for options in [FlowOptions::default(), removing()] {
        let refusal = refused(folder.path(), &set(""), options);
        assert!(refusal.contains("s/00000001/notes was not made by this program"), "{refusal}");
    }
    assert!(refused(folder.path(), &set(",reuse"), removing()).contains("notes"));
    assert_eq!(fs::read(&sentinel).unwrap(), b"precious");
    // Nothing is removed as long as something else is there.
    assert!(folder.path().join("s/00000001/00000001").exists());
    fs::remove_file(&sentinel).unwrap();
    run(folder.path(), &set(""), removing()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_empty_directory_of_the_users_stays() {
    let folder = folder();
    fs::create_dir(folder.path().join("s")).unwrap();
    for _ in 0..2 {
        run(folder.path(), &set(""), FlowOptions::default()).unwrap();
    }
    run(folder.path(), &set(""), removing()).unwrap();
    assert_eq!(fs::read_dir(folder.path().join("s")).unwrap().count(), 0);
}

#[test]
fn links_in_the_directory_lead_nowhere() {
    let outside = folder();
    let precious = outside.path().join("00000001");
    let check = |folder: &TempDir, text: &str| {
        for options in [FlowOptions::default(), removing()] {
            let refusal = refused(folder.path(), text, options);
            assert!(
                refusal.contains("file set s (line 1)") && refusal.contains("leads elsewhere"),
                "{refusal}"
            );
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    };
    fs::write(&precious, "precious").unwrap();
    // The set's own directory, one of its directories, one of its files.
    for how in ["", ",reuse", ",trusttree"] {
        let folder = folder();
        symlink(outside.path(), folder.path().join("s")).unwrap();
        check(&folder, &set(how));
    }
    for how in [",reuse", ",trusttree"] {
        let folder = folder();
        fs::create_dir(folder.path().join("s")).unwrap();
        symlink(outside.path(), folder.path().join("s/00000001")).unwrap();
        check(&folder, &set(how));
        let folder = self::folder();
        fs::create_dir_all(folder.path().join("s/00000001")).unwrap();
        symlink(&precious, folder.path().join("s/00000001/00000001")).unwrap();
        check(&folder, &set(how));
    }
    // A directory that two paths of the script become.
    let folder = folder();
    symlink(outside.path(), folder.path().join("data")).unwrap();
    let two = "define fileset name=s,path=/data,entries=1,dirwidth=2\n\
        define fileset name=t,path=/else,entries=1,dirwidth=2\ncreate files\n";
    check(&folder, two);
}

#[test]
fn paths_of_the_script_stay_below_the_directory() {
    let outer = folder();
    let inner = outer.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let text = "define fileset name=s,path=/../../etc,entries=1,dirwidth=2,prealloc\n\
        define fileset name=t,path=../up,entries=1,dirwidth=2,prealloc\ncreate files\n";
    run(&inner, text, FlowOptions::default()).unwrap();
    assert!(inner.join("etc/s").is_dir() && inner.join("up/t").is_dir());
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
}

#[test]
fn a_record_that_another_user_could_have_written_is_not_believed() {
    let folder = folder();
    let record = folder.path().join(".nestor-filesets.json");
    run(folder.path(), &set(""), FlowOptions::default()).unwrap();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o666)).unwrap();
    let refusal = refused(folder.path(), &set(""), removing());
    assert!(refusal.contains("may be written by other users"), "{refusal}");
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&record, &elsewhere).unwrap();
    symlink(&elsewhere, &record).unwrap();
    assert!(refused(folder.path(), &set(""), removing()).contains("is a link"));
    fs::remove_file(&record).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &record,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(refused(folder.path(), &set(""), removing()).contains("is not a regular file"));
    if rustix::process::geteuid().is_root() {
        fs::remove_file(&record).unwrap();
        fs::rename(&elsewhere, &record).unwrap();
        fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&record, Some(65534), None).unwrap();
        assert!(refused(folder.path(), &set(""), removing()).contains("belongs to another user"));
    }
    assert!(folder.path().join("s/00000001/00000001").exists());
}

#[test]
fn a_record_of_an_earlier_version_gives_no_right_to_remove() {
    let folder = folder();
    let sentinel = adopted(folder.path(), "00000001/00000002");
    let earlier =
        r#"{"sets": {"s": {"seed": 0, "files": 4, "directories": 2, "bytes": 4096, "used": true}}}"#;
    fs::write(folder.path().join(".nestor-filesets.json"), earlier).unwrap();
    assert!(
        refused(folder.path(), &set(""), FlowOptions::default()).contains("was not made by this program")
    );
    run(folder.path(), &set(",reuse"), removing()).unwrap();
    assert!(sentinel.exists());
}
