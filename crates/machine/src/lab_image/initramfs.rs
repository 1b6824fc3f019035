//! The two archives a lab machine starts from: modules and directories, which belong to the image, and the program.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use super::cpio::CpioWriter;

/// Where the load order of the boot modules is found in the initramfs: one path on a line, in the order of loading.
pub const MODULE_LOAD_LIST: &str = "/modules/load";

/// Where the initramfs names the directory of the root that has the kernel's modules, if `/lib/modules` has not.
pub const MODULE_TREE: &str = "/modules/tree";

/// Directories the first process finds before it has mounted anything.
const SKELETON: [&str; 7] = ["dev", "proc", "sys", "run", "tmp", "newroot", "modules"];

/// Writes the initramfs a machine boots: the image's `modules_cpio` followed by `binary` as `/init`.
///
/// `out` appears complete or not at all.
///
/// # Errors
/// A file that cannot be read or written; the message names it.
pub fn initramfs(modules_cpio: &Path, binary: &Path, out: &Path) -> io::Result<()> {
    let mut target = nestor_ownership::new_beside(out, 0o666).map_err(|e| naming(out, e))?;
    let mut modules = File::open(modules_cpio).map_err(|e| naming(modules_cpio, e))?;
    io::copy(&mut modules, target.as_file_mut()).map_err(|e| naming(modules_cpio, e))?;
    let program = File::open(binary).map_err(|e| naming(binary, e))?;
    let size = program.metadata().map_err(|e| naming(binary, e))?.len();
    let mut writer = CpioWriter::new(BufWriter::new(target.as_file_mut()));
    writer.file("init", 0o755, size, program).map_err(|e| naming(binary, e))?;
    writer.finish().map_err(|e| naming(out, e))?;
    target.persist(out).map(drop).map_err(|e| naming(out, e.error))
}

/// The modules that a part of the initramfs is about.
pub(super) struct ModulesCpio<'a> {
    /// Files on this machine, in the order of loading.
    pub(super) load: &'a [PathBuf],
    /// The directory of the root that has all of the kernel's, if `/lib/modules` has not.
    pub(super) all: Option<&'a str>,
}

/// Writes the image's part of the initramfs: directories, the console, and the boot modules with their load order.
pub(super) fn write_modules_cpio(modules: &ModulesCpio<'_>, out: &Path) -> io::Result<()> {
    let target = File::create(out).map_err(|e| naming(out, e))?;
    let mut writer = CpioWriter::new(BufWriter::new(target));
    for name in SKELETON {
        writer.directory(name)?;
    }
    // Without these two the kernel starts the first process with neither input nor output.
    writer.character_device("dev/console", 5, 1)?;
    writer.character_device("dev/null", 1, 3)?;
    let mut load_list = String::new();
    for module in modules.load {
        let file_name = module.file_name().and_then(|n| n.to_str()).ok_or_else(|| {
            let message = format!("{} is not the name of a module", module.display());
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        let file = File::open(module).map_err(|e| naming(module, e))?;
        let size = file.metadata().map_err(|e| naming(module, e))?.len();
        writer.file(&format!("modules/{file_name}"), 0o644, size, file).map_err(|e| naming(module, e))?;
        load_list.push_str(&format!("/modules/{file_name}\n"));
    }
    let name = MODULE_LOAD_LIST.trim_start_matches('/');
    writer.file(name, 0o644, load_list.len() as u64, load_list.as_bytes())?;
    if let Some(all) = modules.all {
        writer.file(MODULE_TREE.trim_start_matches('/'), 0o644, all.len() as u64, all.as_bytes())?;
    }
    writer.finish()?;
    Ok(())
}

fn naming(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn both_archives_are_seen_by_cpio_one_after_the_other() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("virtio.ko"), "first").unwrap();
        fs::write(at("virtio-rng.ko"), "second").unwrap();
        fs::write(at("nestor"), [7; 1001]).unwrap();
        let load = [at("virtio.ko"), at("virtio-rng.ko")];
        let modules = ModulesCpio { load: &load, all: Some("/nestor-kernel/modules") };
        write_modules_cpio(&modules, &at("modules.cpio")).unwrap();
        initramfs(&at("modules.cpio"), &at("nestor"), &at("initramfs")).unwrap();

        // cpio stops at the first archive's end and reads whole blocks, so its second call sees the second archive.
        let script =
            "exec <initramfs; mkdir 1 2; (cd 1; cpio -id --quiet -f 'dev/*'); (cd 2; cpio -id --quiet)";
        let status = Command::new("sh").args(["-ec", script]).current_dir(directory.path()).status().unwrap();
        assert!(status.success());
        let load = fs::read_to_string(at("1/modules/load")).unwrap();
        assert_eq!(load, "/modules/virtio.ko\n/modules/virtio-rng.ko\n");
        assert_eq!(fs::read_to_string(at("1/modules/virtio-rng.ko")).unwrap(), "second");
        assert_eq!(fs::read_to_string(at("1/modules/tree")).unwrap(), "/nestor-kernel/modules");
        assert!(SKELETON.iter().all(|name| at("1").join(name).is_dir()));
        assert_eq!(fs::read(at("2/init")).unwrap(), [7; 1001]);
        let is_partial = |name: &str| name.starts_with(".nestor-");
        let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.into_iter().any(|name| is_partial(&name.to_string_lossy())));
    }

    #[test]
    fn a_missing_program_is_named_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        write_modules_cpio(&ModulesCpio { load: &[], all: None }, &at("modules.cpio")).unwrap();
        let error = initramfs(&at("modules.cpio"), &at("nestor"), &at("initramfs")).unwrap_err();
        assert!(error.to_string().contains("nestor: No such file"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
