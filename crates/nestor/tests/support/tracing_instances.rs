//! What a recorder leaves in tracefs.

use std::fs;
use std::process::Command;

use super::Sandbox;

/// Fails if an instance of tracefs of that process is left. tracefs may not be mounted any more, so it is mounted for that.
pub fn assert_no_instance(sandbox: &Sandbox, pid: u32) {
    let place = sandbox.text("tracefs");
    fs::create_dir_all(&place).unwrap();
    assert!(Command::new("mount").args(["-t", "tracefs", "none", &place]).status().unwrap().success());
    let entries = fs::read_dir(format!("{place}/instances")).unwrap().flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    Command::new("umount").arg(&place).status().unwrap();
    assert!(!names.iter().any(|name| name.starts_with(&format!("nestor-{pid}"))), "{names:?}");
}
