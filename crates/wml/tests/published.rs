//! Scripts that others have published: every `*.f` below a directory is read.

use std::path::{Path, PathBuf};

use nestor_wml::{Source, parse};

fn scripts(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("NESTOR_WML_FILES names a directory");
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("the directory can be read").path()) {
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|extension| extension == "f") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
#[ignore = "needs scripts: NESTOR_WML_FILES names a directory with them"]
fn every_published_script_is_read() {
    let directory = std::env::var_os("NESTOR_WML_FILES").expect("NESTOR_WML_FILES names a directory");
    let scripts = scripts(directory.as_ref());
    assert!(!scripts.is_empty(), "there is no *.f in NESTOR_WML_FILES");
    let mut failed = 0;
    for path in &scripts {
        let bytes = std::fs::read(path).expect("the script can be read");
        if let Err(error) = parse(&Source::new(&path.to_string_lossy(), &bytes), &[]) {
            println!("{error}\n");
            failed += 1;
        }
    }
    println!("{} of {} scripts are read", scripts.len() - failed, scripts.len());
    assert_eq!(failed, 0);
}
