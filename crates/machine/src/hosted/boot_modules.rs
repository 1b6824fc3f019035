//! The drivers of the controllers that hosted hypervisors emulate. The initramfs of the lab image has those of virtio only, and the others are on
//! the root that they are needed for; so they are taken from there, and the image stays the same for all.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::tool::Tool;
use crate::init::MORE_MODULES;
use crate::lab_image::{CpioWriter, ModuleTree};
use crate::refusal::{Cause, Refusal};

/// Takes files out of the lab image's root.
pub const UNSQUASHFS: &str = "unsquashfs";

/// The drivers of the controllers that a root can be on.
const DRIVERS: [&str; 3] = ["ahci", "ata_piix", "sd_mod"];

/// Where the root has its modules, as a pattern of unsquashfs.
const MODULES: &str = "usr/lib/modules/*";

/// Adds the drivers in `root` to the initramfs `archive`; `directory` is made for what is taken out.
///
/// # Errors
/// The root cannot be read, or has other modules than a lab image; or there is no room.
pub fn add(root: &Path, archive: &Path, directory: &Path, tool: &Tool<'_>) -> Result<(), Refusal> {
    let take = |patterns: &[String]| tool.other(&taking(root, directory, patterns));
    take(&["modules.dep", "modules.builtin"].map(|name| format!("{MODULES}/{name}")))?;
    let home = only_directory(&directory.join("usr/lib/modules"))?;
    let text = |name: &str| {
        let path = home.join(name);
        fs::read_to_string(&path)
            .map_err(|e| Refusal::of_io(&format!("{} could not be read", path.display()), &e))
    };
    let tree = ModuleTree::parse(&text("modules.dep")?, &text("modules.builtin")?);
    let order = tree.load_order(&DRIVERS.map(str::to_owned)).map_err(|missing| {
        Refusal::new(
            Cause::NotSupported,
            format!("the lab image lacks the kernel modules {}", missing.join(", ")),
        )
    })?;
    take(&order.iter().map(|file| format!("{MODULES}/{file}")).collect::<Vec<_>>())?;
    let files: Vec<PathBuf> = order.iter().map(|file| home.join(file)).collect();
    append(&files, archive)
        .map_err(|e| Refusal::of_io(&format!("{} could not be written", archive.display()), &e))
}

/// One processor is enough, and a progress bar for nobody.
fn taking(root: &Path, directory: &Path, patterns: &[String]) -> Vec<String> {
    let words = [UNSQUASHFS, "-quiet", "-no-progress", "-no-xattrs", "-processors", "1", "-force", "-dest"];
    let paths = [directory, root].map(|path| path.display().to_string());
    words.map(str::to_owned).into_iter().chain(paths).chain(patterns.iter().cloned()).collect()
}

/// The one kernel of a lab image.
fn only_directory(modules: &Path) -> Result<PathBuf, Refusal> {
    let found: Vec<PathBuf> =
        fs::read_dir(modules).into_iter().flatten().flatten().map(|e| e.path()).collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        _ => Err(Refusal::new(
            Cause::NotSupported,
            format!("the lab image has modules of {} kernels, and one is expected", found.len()),
        )),
    }
}

/// Another archive behind those that are in the file: the kernel unpacks all of them.
fn append(files: &[PathBuf], archive: &Path) -> io::Result<()> {
    let target = fs::OpenOptions::new().append(true).open(archive)?;
    let mut writer = CpioWriter::new(BufWriter::new(target));
    let mut list = String::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let opened = fs::File::open(file)?;
        let size = opened.metadata()?.len();
        writer.file(&format!("modules/{name}"), 0o644, size, opened)?;
        list.push_str(&format!("{name}\n"));
    }
    writer.file(MORE_MODULES.trim_start_matches('/'), 0o644, list.len() as u64, list.as_bytes())?;
    writer.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::agent::process::Spawner;

    /// A made-up root of a lab image.
    fn root(directory: &Path, dependencies: &str) -> PathBuf {
        let tree = directory.join("tree");
        let modules = tree.join("usr/lib/modules/6.1.0-1-amd64");
        for (name, text) in [
            ("modules.dep", dependencies),
            ("modules.builtin", "kernel/scsi_mod.ko\n"),
            ("kernel/ahci.ko", "the driver of AHCI"),
            ("kernel/libata.ko", "what it needs"),
            ("kernel/ata_piix.ko", "another"),
            ("kernel/sd_mod.ko", "disks"),
        ] {
            let path = modules.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = directory.join("root.squashfs");
        let made = Command::new("mksquashfs").arg(&tree).arg(&root).args(["-quiet", "-no-progress"]).output();
        assert!(made.unwrap().status.success());
        root
    }

    const DEPENDENCIES: &str = "kernel/ahci.ko: kernel/libata.ko kernel/scsi_mod.ko\nkernel/libata.ko: kernel/scsi_mod.ko\n\
                                kernel/ata_piix.ko: kernel/libata.ko\nkernel/sd_mod.ko: kernel/scsi_mod.ko\n";

    #[test]
    fn drivers_come_from_the_root_in_the_order_of_loading() {
        let directory = tempfile::tempdir().unwrap();
        let root = root(directory.path(), DEPENDENCIES);
        let archive = directory.path().join("initramfs");
        fs::write(&archive, b"").unwrap();
        let spawner = Spawner::new();
        let tool = Tool::for_tests("none", directory.path(), &spawner);
        add(&root, &archive, &directory.path().join("taken"), &tool).unwrap();
        let out = directory.path().join("out");
        fs::create_dir(&out).unwrap();
        let mut unpack = Command::new("sh");
        unpack.args(["-ec", "mkdir modules; cpio -id --quiet <../initramfs"]).current_dir(&out);
        assert!(unpack.status().unwrap().success());
        let list = fs::read_to_string(out.join(MORE_MODULES.trim_start_matches('/'))).unwrap();
        assert_eq!(list, "libata.ko\nahci.ko\nata_piix.ko\nsd_mod.ko\n");
        assert_eq!(fs::read_to_string(out.join("modules/ahci.ko")).unwrap(), "the driver of AHCI");
    }

    #[test]
    fn a_root_without_a_driver_is_refused_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let root = root(directory.path(), "kernel/ahci.ko:\nkernel/sd_mod.ko:\n");
        let archive = directory.path().join("initramfs");
        fs::write(&archive, b"").unwrap();
        let spawner = Spawner::new();
        let tool = Tool::for_tests("none", directory.path(), &spawner);
        let refused = add(&root, &archive, &directory.path().join("taken"), &tool).unwrap_err();
        assert!(refused.message.contains("lacks the kernel modules ata_piix"), "{refused}");
    }
}
