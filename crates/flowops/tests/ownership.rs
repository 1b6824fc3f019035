//! What is the user's stays: nothing is removed that this program did not make, and nothing is touched outside of `--dir`.

#![allow(clippy::print_stdout)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use nestor_flowops::{
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
    assert_eq!(fs::read(&sentinel).unwrap(), b"precious");
    // Nothing is removed as long as something else is there.
    assert!(folder.path().join("s/00000001/00000001").exists());
    fs::remove_file(&sentinel).unwrap();
    run(folder.path(), &set(""), removing()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What a later run says to a set that a run has made and the user has changed; nothing below the set's directory changes.
fn kept(folder: &Path, how: &[&str]) -> Vec<String> {
    let before = everything(folder);
    let mut said = Vec::new();
    for attributes in how {
        for options in [FlowOptions::default(), removing()] {
            if let Err(refusal) = run(folder, &set(attributes), options) {
                said.push(refusal.to_string());
            }
            assert!(everything(folder) == before, "{attributes}: files were changed");
        }
    }
    said
}

/// All paths below a set's directory, with their contents.
fn everything(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.join("s")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path.clone());
            }
            found.push((path.clone(), fs::read(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_directory_that_took_the_place_of_a_set_is_the_users() {
    // Of any names, and of those that the set had; with and without `reuse` before.
    for (name, adopts) in [("20240116", false), ("20240116", true), ("00000002", false)] {
        let folder = folder();
        run(folder.path(), &set(""), FlowOptions::default()).unwrap();
        fs::remove_dir_all(folder.path().join("s")).unwrap();
        fs::create_dir_all(folder.path().join("s/20240115")).unwrap();
        fs::write(folder.path().join("s/20240115/12345678"), "diary").unwrap();
        fs::write(folder.path().join("s").join(name), "diary").unwrap();
        if adopts {
            run(folder.path(), &set(",reuse"), FlowOptions::default()).unwrap();
        }
        let said = kept(folder.path(), &["", ",trusttree"]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("was not made by this program"), "{said:?}");
        // Where only names that the set has are in it.
        let folder = self::folder();
        run(folder.path(), &set(""), FlowOptions::default()).unwrap();
        fs::rename(folder.path().join("s"), folder.path().join("moved")).unwrap();
        fs::create_dir_all(folder.path().join("s/00000001")).unwrap();
        fs::write(folder.path().join("s/00000001/00000001"), "diary").unwrap();
        let said = kept(folder.path(), &[""]);
        assert!(said.len() == 2 && said[0].contains("was not made by this program"), "{said:?}");
    }
}

#[test]
fn a_set_that_was_adopted_is_not_removed_any_more() {
    for how in [",reuse", ",trusttree"] {
        let folder = folder();
        run(folder.path(), &set(""), FlowOptions::default()).unwrap();
        run(folder.path(), &set(how), FlowOptions::default()).unwrap();
        assert_eq!(kept(folder.path(), &[how, ""]).len(), 2);
    }
}

#[test]
fn a_number_that_the_set_does_not_have_is_not_removed() {
    for name in ["20240116", "00000002", "00000001/00000005", "00000001/00000000", "00000001/1234567890"] {
        let folder = folder();
        run(folder.path(), &set(""), FlowOptions::default()).unwrap();
        fs::write(folder.path().join("s").join(name), "diary").unwrap();
        let said = kept(folder.path(), &[""]);
        assert!(said.len() == 2 && said[0].contains(&format!("s/{name} was not made by")), "{said:?}");
    }
    // A file where the set has a directory, and the other way round.
    let folder = folder();
    run(folder.path(), &set(""), FlowOptions::default()).unwrap();
    let file = folder.path().join("s/00000001/00000001");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(kept(folder.path(), &[""]).len(), 2);
}

#[test]
fn a_set_of_another_size_is_known_by_its_record() {
    let folder = folder();
    let larger = set("").replace("entries=4", "entries=40").replace("dirwidth=5", "dirwidth=2");
    for text in [&larger, &set(""), &larger] {
        run(folder.path(), text, FlowOptions::default()).unwrap();
    }
    run(folder.path(), &set(""), removing()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_record_that_came_from_elsewhere_gives_no_right_to_remove() {
    let made = folder();
    run(made.path(), &set(""), FlowOptions::default()).unwrap();
    // As an archive brings it, with attributes and all.
    let unpacked = folder();
    let mut copy = std::process::Command::new("cp");
    copy.arg("-a").arg(made.path().join(".")).arg(unpacked.path());
    assert!(copy.status().unwrap().success());
    let said = kept(unpacked.path(), &[""]);
    assert!(said.len() == 2 && said[0].contains("was not made by this program"), "{said:?}");
    // The right directory, but not its mark, where the file system has attributes.
    let set_directory = made.path().join("s");
    if rustix::fs::removexattr(&set_directory, "user.nestor.set").is_ok() {
        assert_eq!(kept(made.path(), &[""]).len(), 2);
    }
    // Written by hand.
    let forged = folder();
    fs::create_dir(forged.path().join("s")).unwrap();
    fs::write(forged.path().join("s/20240116"), "diary").unwrap();
    let text = r#"{"sets": {"s": {"seed": 0, "files": 4, "directories": 2, "bytes": 4096, "used": true, "ours": true}}}"#;
    let record = forged.path().join(".nestor-filesets.json");
    fs::write(&record, text).unwrap();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(kept(forged.path(), &[""]).len(), 2);
}

#[test]
fn a_file_of_the_users_is_neither_shortened_nor_lengthened() {
    for bytes in [20_000, 10, 0] {
        let folder = folder();
        fs::create_dir_all(folder.path().join("s/00000001")).unwrap();
        fs::write(folder.path().join("s/00000001/00000002"), vec![7; bytes]).unwrap();
        let said = kept(folder.path(), &[",reuse"]);
        let expected = format!("s/00000001/00000002 has {bytes} bytes instead of 1024 and was not made by");
        assert!(said.len() == 2 && said[0].contains("file set s (line 1)"), "{said:?}");
        assert!(said[0].contains(&expected), "{said:?}");
    }
    // Those that this program made are: also when they were adopted before.
    let folder = folder();
    run(folder.path(), &set(""), FlowOptions::default()).unwrap();
    let file = folder.path().join("s/00000001/00000002");
    for bytes in [20_000, 10] {
        fs::write(&file, vec![7; bytes]).unwrap();
        run(folder.path(), &set(",reuse"), FlowOptions::default()).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().len(), 1024);
    }
}

#[test]
fn a_file_with_other_names_is_not_adopted() {
    for how in [",reuse", ",trusttree"] {
        let folder = folder();
        fs::create_dir_all(folder.path().join("s/00000001")).unwrap();
        let letter = folder.path().join("letter");
        fs::write(&letter, vec![7; 1024]).unwrap();
        fs::hard_link(&letter, folder.path().join("s/00000001/00000001")).unwrap();
        let said = kept(folder.path(), &[how]);
        assert!(said.len() == 2 && said[0].contains("s/00000001/00000001 has other names"), "{said:?}");
    }
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
                refusal.contains("file set s (line 1)") && refusal.contains("is a link to another place"),
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
    run(folder.path(), &set(",trusttree"), removing()).unwrap();
    assert!(sentinel.exists());
}

/// A set of four files that are written over as a whole.
const WRITER: &str = "define fileset name=s,path=/x,entries=4,size=4k,dirwidth=5,prealloc\n\
    define process name=p { thread name=t { flowop openfile name=o,filesetname=s,fd=1\n\
    flowop writewholefile name=w,fd=1\nflowop closefile name=c,fd=1 } }\nrun 60\n";

fn preparing() -> FlowOptions {
    FlowOptions { only_prepare: true, ..FlowOptions::default() }
}

/// A run of files that were prepared, which opens each of them.
fn with_prepared() -> FlowOptions {
    FlowOptions { prepared: true, operations: Some(60), ..FlowOptions::default() }
}

/// Prepares a set, lets the user do something with its directory, and sees a run refused that leaves all as it is.
fn refused_after(what: &str, change: impl FnOnce(&Path)) {
    let folder = folder();
    run(folder.path(), WRITER, preparing()).unwrap();
    change(&folder.path().join("s"));
    let before = everything(folder.path());
    let refusal = refused(folder.path(), WRITER, with_prepared());
    assert!(refusal.contains("/s are not those that were prepared"), "{what}: {refusal}");
    assert!(refusal.contains("move your own files elsewhere"), "{what}: {refusal}");
    assert!(everything(folder.path()) == before, "{what}: files were changed");
}

/// Waits until a file that is written has a later time of change than this one: the file system's clock may go by ticks.
fn pass_a_tick(file: &Path, clock: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let changed = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let last = changed(file);
    loop {
        fs::write(clock, "tick").unwrap();
        if changed(clock) > last {
            break;
        }
    }
}

#[test]
fn files_of_the_users_in_place_of_prepared_ones_are_not_overwritten() {
    let mine = [b'm'; 4096];
    let file = |set: &Path| set.join("00000001/00000002");
    refused_after("another directory", |set| {
        let own = set.with_file_name("own");
        fs::create_dir_all(own.join("00000001")).unwrap();
        for number in 1..=4 {
            fs::write(own.join(format!("00000001/0000000{number}")), mine).unwrap();
        }
        fs::rename(set, set.with_file_name("old")).unwrap();
        fs::rename(own, set).unwrap();
    });
    refused_after("another file", |set| {
        let own = set.with_file_name("own");
        fs::write(&own, mine).unwrap();
        fs::rename(own, file(set)).unwrap();
    });
    refused_after("another length", |set| fs::write(file(set), "precious").unwrap());
    refused_after("other contents", |set| {
        pass_a_tick(&file(set), &set.with_file_name("clock"));
        fs::write(file(set), mine).unwrap();
    });
    refused_after("one more", |set| fs::write(set.join("00000001/00000005"), mine).unwrap());
    refused_after("one less", |set| fs::remove_file(file(set)).unwrap());
}

#[test]
fn a_directory_without_the_mark_of_the_prepared_one_is_not_taken() {
    let folder = folder();
    let set = folder.path().join("s");
    run(folder.path(), WRITER, preparing()).unwrap();
    if rustix::fs::removexattr(&set, "user.nestor.set").is_err() {
        println!("did not run: no attributes of users on {}", folder.path().display());
        return;
    }
    assert!(refused(folder.path(), WRITER, with_prepared()).contains("are not those that were prepared"));
}

#[test]
fn prepared_files_may_be_read_renamed_around_and_stand_beside_others() {
    let folder = folder();
    run(folder.path(), WRITER, preparing()).unwrap();
    // Neither is below a name that sets have.
    fs::write(folder.path().join("s/notes"), "mine").unwrap();
    fs::write(folder.path().join("s/00000001/notes"), "mine").unwrap();
    fs::read(folder.path().join("s/00000001/00000001")).unwrap();
    let moved = folder.path().with_extension("moved");
    fs::rename(folder.path(), &moved).unwrap();
    let ran = run(&moved, WRITER, with_prepared());
    fs::rename(&moved, folder.path()).unwrap();
    assert_eq!(ran.unwrap().runs[0].operations(), 60);
}

#[test]
fn files_prepared_by_an_earlier_version_are_prepared_again() {
    let folder = folder();
    run(folder.path(), WRITER, preparing()).unwrap();
    let record = folder.path().join(".nestor-filesets.json");
    let mut known: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert!(known["sets"]["s"].as_object_mut().unwrap().remove("seal").is_some());
    fs::write(&record, known.to_string()).unwrap();
    assert!(refused(folder.path(), WRITER, with_prepared()).contains("prepare them first"));
    run(folder.path(), WRITER, preparing()).unwrap();
    run(folder.path(), WRITER, with_prepared()).unwrap();
}
