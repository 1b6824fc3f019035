//! File systems on loop devices of this machine.

use std::fs;
use std::process::Command;

use super::Sandbox;

/// A file system on a loop device, mounted; both go at the end.
pub struct LoopMount {
    /// The loop device.
    pub device: String,
    /// Where it is mounted.
    pub point: String,
}

impl LoopMount {
    /// Makes it; the sandbox holds its image.
    pub fn new(sandbox: &Sandbox, file_system: &str) -> Self {
        let image = sandbox.disk(&format!("{file_system}.disk"), 512 << 20);
        tool(&[
            &format!("mkfs.{file_system}"),
            match file_system {
                "xfs" | "btrfs" => "-q",
                _ => "-qF",
            },
            &image,
        ]);
        let device = tool(&["losetup", "--find", "--show", &image]);
        let point = sandbox.text(&format!("{file_system}.mounted"));
        fs::create_dir_all(&point).unwrap();
        let mounted = Self { device, point };
        tool(&["mount", &mounted.device, &mounted.point]);
        mounted
    }

    /// Unmounts it, and mounts it again at the same place from another loop device.
    pub fn mount_elsewhere(&mut self) {
        tool(&["umount", &self.point]);
        let image = tool(&["losetup", "--noheadings", "--output", "BACK-FILE", &self.device]);
        // The old one is still taken while the new one is looked for.
        let device = tool(&["losetup", "--find", "--show", &image]);
        let old = std::mem::replace(&mut self.device, device);
        tool(&["losetup", "--detach", &old]);
        tool(&["mount", &self.device, &self.point]);
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        // A frozen file system cannot be unmounted; it would stay for good.
        let _ = Command::new("fsfreeze").args(["--unfreeze", &self.point]).output();
        let _ = Command::new("umount").arg(&self.point).output();
        let _ = Command::new("losetup").args(["--detach", &self.device]).output();
    }
}

/// Runs a program that must succeed; what it prints.
pub fn tool(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().expect("the tool can be started");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
