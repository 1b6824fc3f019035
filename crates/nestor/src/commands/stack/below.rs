//! What is below a virtual disk on this machine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nestor_lab::disk_below;
use nestor_machine::{Command, Machine};
use nestor_vm_config::{Disk, HostFacts, ImageFacts, Store, Under, image_facts};

/// Looks at the image and at what is below it. What cannot be found out is said.
pub fn facts(machine: &Machine, disk: &Disk, directory: Option<&Path>) -> HostFacts {
    let (path, is_file) = match &disk.store {
        Store::File(path) => (path, true),
        Store::FileOnServer(path) => (path, true),
        Store::Device(path) => (path, false),
        Store::Nvme(_) | Store::Other(_) => return HostFacts::default(),
    };
    let path = match absolute(path, directory) {
        Ok(path) => path,
        Err(why) => return unknown(why),
    };
    // The file of another user's machine may lie where this one may not look.
    if let Err(error) = fs::metadata(&path) {
        let shown = path.display();
        return unknown(match error.kind() {
            ErrorKind::NotFound => {
                format!("{shown} is not on this machine, so nothing is known of what is below")
            }
            _ => format!("{shown} cannot be looked at: {error}"),
        });
    }
    let Some(text) = path.to_str() else { return unknown(format!("{} is no UTF-8", path.display())) };
    let found = disk_below(machine, text, !is_file);
    let mut facts = HostFacts {
        under: Under { file_system: found.file_system, class: Some(found.class), between: found.between },
        ..HostFacts::default()
    };
    if is_file {
        match image(machine, text, disk.format.as_deref()) {
            Ok(image) => facts.image = Some(image),
            Err(why) => facts.unknown.push(why),
        }
    }
    facts
}

fn absolute(path: &Path, directory: Option<&Path>) -> Result<PathBuf, String> {
    match directory {
        _ if path.is_absolute() => Ok(path.to_owned()),
        Some(directory) => Ok(directory.join(path)),
        None => Err(format!(
            "{} leads from a directory that only the machine's user may know (run this as that user, or as root)",
            path.display()
        )),
    }
}

fn unknown(why: String) -> HostFacts {
    HostFacts { unknown: vec![why], ..HostFacts::default() }
}

/// What QEMU's tool says of an image, which may be in use. A format that is known is not guessed: the guest of a raw image could write a
/// header of another format.
fn image(machine: &Machine, path: &str, format: Option<&str>) -> Result<ImageFacts, String> {
    let mut words = vec!["qemu-img", "info", "--force-share", "--output=json"];
    words.extend(format.into_iter().flat_map(|format| ["-f", format]));
    words.extend(["--", path]);
    let printed = machine.run_ok(Command::new(words).timeout_s(60));
    let printed =
        printed.map_err(|e| format!("`qemu-img info` (package qemu-utils) does not read {path}: {e}"))?;
    image_facts(&printed)
        .map_err(|e| format!("`qemu-img info` says of {path} what Nestor does not read: {e}"))
}
