//! Running known operations on images in a machine booted from the lab image, whose kernel has file systems that this
//! one may lack.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

use std::path::Path;
use std::process::Command;

/// Runs a script of `tests/data` on images, and returns what it said: it must say `exercised` once for each. `None` if
/// there is no lab image; says so then.
pub fn exercise_in_lab(script: &str, images: &[&Path]) -> Option<String> {
    let home = std::env::var_os("HOME")?;
    let kept = std::fs::read_dir(Path::new(&home).join(".cache/nestor/lab")).into_iter().flatten().flatten();
    let Some(lab) = kept.map(|entry| entry.path()).find(|path| path.join("root.squashfs").exists()) else {
        eprintln!("not tried: there is no lab image; `make lab` makes it");
        return None;
    };
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let output =
        Command::new(data.join("in-lab-machine")).arg(lab).arg(data.join(script)).args(images).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("exercised").count(), images.len(), "{errors}{said}");
    Some(said)
}
