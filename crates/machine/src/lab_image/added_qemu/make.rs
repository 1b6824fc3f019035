//! Adds a QEMU to the lab: takes the program with its libraries, modules and firmware, and makes an image.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use nestor_stack::layers::hypervisors::devices::{Controller, Disk, device_models};
use sha2::{Digest as _, Sha256};

use super::super::added::{copy, copy_base};
use super::super::cache::{ADDED_QEMU, Cache, PartialImage, ROOT_SQUASHFS};
use super::super::environment::Environment;
use super::super::tool::{self, ToolFailure};
use super::super::{LabImage, LabImageError, absolute, verify};
use super::program::{Program, libraries, program};
use super::{
    AboutQemu, AddedQemu, LIBRARIES_VARIABLE, MODULES_VARIABLE, QEMU_IN_ROOT, RunsHere, added_qemu,
    directory_name,
};

/// Programs that are called and Debian's packages that bring them.
const PROGRAMS: [(&str, &str); 2] = [("sh", "dash"), ("mksquashfs", "squashfs-tools")];

/// How a QEMU's version begins.
const VERSION: &str = "QEMU emulator version ";

/// Devices without which no machine of the lab starts.
const REQUIRED_DEVICES: &[&str] =
    &["virtio-serial-pci", "virtserialport", "virtio-blk-pci", "virtio-rng-pci"];

/// Firmware of the boards `pc` and `q35`, booted with a kernel. A QEMU may lack some, which it then does not have built in either.
const FIRMWARE: &[&str] = &[
    "bios-256k.bin",
    "kvmvapic.bin",
    "linuxboot_dma.bin",
    "linuxboot.bin",
    "pvh.bin",
    "multiboot_dma.bin",
    "multiboot.bin",
    "efi-virtio.rom",
];
/// The firmware without which no machine starts.
const REQUIRED_FIRMWARE: &[&str] = &["bios-256k.bin", "linuxboot_dma.bin"];

/// Modules of QEMU that machines of the lab use; in a QEMU without modules they are built in.
const MODULES: &[&str] = &["accel-tcg-x86_64.so"];

/// Where QEMU has its modules, from where the program is.
const MODULE_DIRECTORIES: &[&str] =
    &["../lib/x86_64-linux-gnu/qemu", "../lib/qemu", "../lib64/qemu", "../lib64/qemu-kvm"];

/// Where distributions have firmware that is not in QEMU's own directory, from where the program is.
const FIRMWARE_DIRECTORIES: &[&str] =
    &["../share/qemu", "../share/seabios", "../lib/ipxe/qemu", "../share/ipxe/qemu", "pc-bios", "../pc-bios"];

/// Has QEMU execute two commands and log them, which only the trace backend `log` does.
const TRIES_TRACING: &str = "printf '%s' '{\"execute\":\"qmp_capabilities\"}{\"execute\":\"quit\"}' | \"$1\" -machine none \
     -nodefaults -display none -S -D \"$2\" -trace 'enable=handle_qmp_command' -qmp stdio";

/// What to add, and how.
pub struct AddQemu<'a> {
    /// The name that stacks call it by: letters, digits, `.`, `_` and `-`.
    pub name: &'a str,
    /// The program, `qemu-system-x86_64`.
    pub file: &'a Path,
    /// Where images are kept.
    pub cache_directory: &'a Path,
    /// Set by the caller to end it within seconds and without a trace.
    pub interrupted: &'a AtomicBool,
}

/// What is at work.
struct Making<'a> {
    environment: Environment,
    partial: PartialImage,
    what: &'a AddQemu<'a>,
    /// The program without links.
    file: PathBuf,
    /// What it is told when it runs here.
    here: RunsHere,
}

/// Adds a QEMU to a lab image under a name, in place of one that has the name already.
///
/// # Errors
/// The file is no QEMU for x86-64 that runs here, or has not what machines of the lab need; or a program is missing or fails.
pub fn add_qemu(base: &LabImage, what: &AddQemu<'_>) -> Result<AddedQemu, LabImageError> {
    let environment = Environment::of_this_process();
    environment.require(&PROGRAMS)?;
    let file = fs::canonicalize(what.file).map_err(LabImageError::file("cannot read", what.file))?;
    let cache = Cache::new(&absolute(what.cache_directory)?);
    let directory_name = directory_name(what.name);
    let lock = cache.lock(what.interrupted, &|_| {})?;
    cache.remove_stale(&lock)?;
    let partial = cache.begin(&directory_name, &lock)?;
    let here = runs_here(&file);
    let making = Making { environment, partial, what, file, here };

    let contents = fs::read(&making.file).map_err(LabImageError::file("cannot read", &making.file))?;
    let kind = program(&contents).ok_or_else(|| {
        making.unusable("it is no program for x86-64; name the program and not its package")
    })?;
    if let Program::Loaded { by } = &kind {
        // A missing library is said better than by the program, which then does not start.
        making.libraries_of(by, &making.file)?;
    }
    let version = making.version()?;
    let missing_devices = making.missing_devices()?;
    making.require_accelerators()?;
    making.require_tracing()?;
    let parts = making.parts(&kind)?;
    let about = AboutQemu {
        version,
        file: making.file.clone(),
        sha256: verify::sha256(&making.file)?.0,
        contents: contents_of(&parts)?,
        missing_devices,
        here: making.here.clone(),
        base: base.contents()?,
    };
    making.write_image(base, &kind, &parts, &about)?;
    let directory = cache.put_in_place(making.partial, &directory_name)?;
    Ok(added_qemu(directory, base, about))
}

/// What a program is told, from where it is. The directories of an installed QEMU come last: a QEMU has what it does not bring from there.
fn runs_here(file: &Path) -> RunsHere {
    let beside = file.parent().unwrap_or(Path::new("/"));
    let there = |directory: PathBuf| fs::canonicalize(directory).ok().filter(|directory| directory.is_dir());
    let firmware = [beside, Path::new("/usr/bin")]
        .into_iter()
        .flat_map(|at| FIRMWARE_DIRECTORIES.iter().filter_map(move |directory| there(at.join(directory))));
    let mut firmware: Vec<PathBuf> = firmware.collect();
    let mut seen = BTreeSet::new();
    firmware.retain(|directory| seen.insert(directory.clone()));
    RunsHere {
        libraries: env::var(LIBRARIES_VARIABLE).ok().filter(|directories| !directories.is_empty()),
        modules: MODULE_DIRECTORIES.iter().find_map(|directory| there(beside.join(directory))),
        firmware,
    }
}

/// One digest of all files, by their names in the image.
fn contents_of(parts: &BTreeMap<String, PathBuf>) -> Result<String, LabImageError> {
    let mut digest = Sha256::new();
    for (name, path) in parts {
        digest.update(format!("{name}\0{}\0", verify::sha256(path)?.0));
    }
    Ok(hex::encode(digest.finalize()))
}

impl Making<'_> {
    fn unusable(&self, reason: &str) -> LabImageError {
        LabImageError::UnusableQemu { file: self.what.file.to_owned(), reason: reason.to_owned() }
    }

    /// What a program prints.
    fn said(&self, what: &'static str, command: &mut Command) -> Result<String, LabImageError> {
        let mut text = String::new();
        let mut on_line = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        tool::run(command, self.what.interrupted, &mut on_line)
            .map_err(|failure: ToolFailure| failure.during(what, self.partial.directory()))?;
        Ok(text)
    }

    /// The program, which loads only modules of its own.
    fn qemu(&self) -> Command {
        self.with_modules(Command::new(&self.file))
    }

    fn with_modules(&self, mut command: Command) -> Command {
        if let Some(directory) = &self.here.modules {
            command.env(MODULES_VARIABLE, directory);
        }
        command
    }

    fn qemu_said(&self, what: &'static str, arguments: &[&str]) -> Result<String, LabImageError> {
        self.said(what, self.qemu().args(arguments))
    }

    /// Whether it has a device. Each is asked for alone: the list of all devices loads all modules, also those of an installed QEMU that
    /// this one does not bring, and then it ends.
    fn has_device(&self, device: &str) -> Result<bool, LabImageError> {
        let mut command = self.qemu();
        command.args(["-device", &format!("{device},help")]);
        match tool::run(&mut command, self.what.interrupted, &mut |_| {}) {
            Ok(()) => Ok(true),
            Err(ToolFailure::Failed { .. }) => Ok(false),
            Err(failure) => Err(failure.during("asking QEMU for its devices", self.partial.directory())),
        }
    }

    /// Those that it has not.
    fn lacking(&self, devices: impl Iterator<Item = String>) -> Result<Vec<String>, LabImageError> {
        let mut lacking = BTreeSet::new();
        for device in devices.collect::<BTreeSet<_>>() {
            if !self.has_device(&device)? {
                lacking.insert(device);
            }
        }
        Ok(lacking.into_iter().collect())
    }

    fn version(&self) -> Result<String, LabImageError> {
        let text = self.qemu_said("asking QEMU for its version", &["--version"])?;
        let line = text.lines().next().and_then(|line| line.strip_prefix(VERSION));
        line.map(str::to_owned)
            .ok_or_else(|| self.unusable("it does not say that it is a QEMU for whole machines"))
    }

    /// Devices of stacks that it has not. Refuses one that lacks what every machine has.
    fn missing_devices(&self) -> Result<Vec<String>, LabImageError> {
        let lacking = self.lacking(REQUIRED_DEVICES.iter().map(|&device| device.to_owned()))?;
        if !lacking.is_empty() {
            return Err(
                self.unusable(&format!("it lacks devices that every machine has: {}", lacking.join(", ")))
            );
        }
        self.lacking(device_models().iter().flat_map(drivers))
    }

    fn require_accelerators(&self) -> Result<(), LabImageError> {
        let text = self.qemu_said("asking QEMU for its accelerators", &["-accel", "help"])?;
        let lacking: Vec<&str> = ["kvm", "tcg"]
            .into_iter()
            .filter(|accelerator| !text.lines().any(|line| line.trim() == *accelerator))
            .collect();
        match lacking.is_empty() {
            true => Ok(()),
            false => Err(self.unusable(&format!("it was built without {}", lacking.join(" and ")))),
        }
    }

    /// Every machine's QEMU logs the drivers that take devices over, and recorders have it log requests.
    fn require_tracing(&self) -> Result<(), LabImageError> {
        let log = self.partial.directory().join("trace.log");
        let mut command = self.with_modules(self.environment.command("sh"));
        command.args(["-c", TRIES_TRACING, "sh"]).arg(&self.file).arg(&log);
        self.said("trying QEMU's trace events", &mut command)?;
        if fs::metadata(&log).is_ok_and(|file| file.len() > 0) {
            return Ok(());
        }
        Err(self.unusable(
            "it logs no trace events, by which requests are recorded; build it with --enable-trace-backends=log",
        ))
    }

    /// All files that the image gets, by their names there.
    fn parts(&self, kind: &Program) -> Result<BTreeMap<String, PathBuf>, LabImageError> {
        let mut parts = BTreeMap::from([("program".to_owned(), self.file.clone())]);
        let find = |name: &str| {
            self.here.firmware.iter().map(|directory| directory.join(name)).find(|path| path.is_file())
        };
        for name in FIRMWARE {
            match find(name) {
                Some(path) => drop(parts.insert(format!("share/{name}"), path)),
                None if REQUIRED_FIRMWARE.contains(name) => {
                    return Err(self.unusable(&format!("its firmware {name} is nowhere beside it")));
                }
                None => {}
            }
        }
        let directory = self.here.modules.iter();
        let modules = directory.flat_map(|directory| MODULES.iter().map(|name| (name, directory.join(name))));
        let modules: Vec<(&&str, PathBuf)> = modules.filter(|(_, path)| path.is_file()).collect();
        if let Program::Loaded { by } = kind {
            for file in std::iter::once(&self.file).chain(modules.iter().map(|(_, path)| path)) {
                parts.extend(self.libraries_of(by, file)?);
            }
            parts.insert("qemu-system-x86_64".to_owned(), by.clone());
        }
        parts.extend(modules.into_iter().map(|(name, path)| (format!("modules/{name}"), path)));
        Ok(parts)
    }

    fn libraries_of(&self, loader: &Path, file: &Path) -> Result<Vec<(String, PathBuf)>, LabImageError> {
        let listing = self.said("listing QEMU's libraries", Command::new(loader).arg("--list").arg(file))?;
        let found = libraries(&listing).map_err(|missing| {
            self.unusable(&format!(
                "these libraries of it are not here: {} (LD_LIBRARY_PATH names directories that have them)",
                missing.join(", ")
            ))
        })?;
        Ok(found.into_iter().map(|(name, path)| (format!("lib/{name}"), path)).collect())
    }

    fn write_image(
        &self,
        base: &LabImage,
        kind: &Program,
        parts: &BTreeMap<String, PathBuf>,
        about: &AboutQemu,
    ) -> Result<(), LabImageError> {
        let image = self.partial.image();
        copy_base(base, &image)?;
        let text = serde_json::to_string_pretty(about).expect("strings are always valid JSON");
        write(&image.join(ADDED_QEMU), &(text + "\n"))?;
        let addition = self.partial.directory().join("addition");
        let added = addition.join(QEMU_IN_ROOT.trim_start_matches('/'));
        for (name, path) in parts {
            let to = added.join(name);
            let directory = to.parent().unwrap_or(&added);
            fs::create_dir_all(directory).map_err(LabImageError::file("cannot create", directory))?;
            copy(path, &to)?;
        }
        let run = added.join("run");
        write(&run, &launcher(kind))?;
        make_executable(&run)?;
        let mut append = self.environment.command("mksquashfs");
        append.arg(&addition).arg(image.join(ROOT_SQUASHFS));
        append.args(["-all-root", "-quiet", "-no-progress", "-no-recovery"]);
        // Adding the same QEMU again makes the same image, so that results are known again.
        append.args(["-mkfs-time", "0", "-all-time", "0"]);
        self.said("adding QEMU to the root", &mut append).map(drop)
    }
}

/// The command that runs it, with nothing of the lab image's. The loader has the name of QEMU's program, so that the process is called so.
fn launcher(kind: &Program) -> String {
    let at = QEMU_IN_ROOT;
    let program = match kind {
        Program::Static => format!("{at}/program"),
        Program::Loaded { .. } => format!("{at}/qemu-system-x86_64 --library-path {at}/lib {at}/program"),
    };
    format!("#!/bin/sh\nQEMU_MODULE_DIR={at}/modules exec {program} -L {at}/share \"$@\"\n")
}

/// The device drivers of a device model, as QEMU calls them.
fn drivers(model: &nestor_stack::layers::hypervisors::devices::DeviceModelSpec) -> Vec<String> {
    let controller = Controller { id: "c", pci_bus: None, iothread: None };
    let disk = Disk {
        id: "d",
        node: "n",
        serial: "s",
        write_cache: true,
        controller: "c",
        slot: 0,
        pci_bus: None,
        iothread: None,
    };
    let devices = model.controller.map(|make| make(&controller)).into_iter().chain([(model.disk)(&disk)]);
    devices.filter_map(|device| device["driver"].as_str().map(str::to_owned)).collect()
}

fn write(path: &Path, text: &str) -> Result<(), LabImageError> {
    fs::write(path, text).map_err(LabImageError::file("cannot write", path))
}

fn make_executable(path: &Path) -> Result<(), LabImageError> {
    use std::os::unix::fs::PermissionsExt as _;
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, permissions).map_err(LabImageError::file("cannot change", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_nothing_of_the_lab_images() {
        let loaded = launcher(&Program::Loaded { by: "/lib64/ld-linux-x86-64.so.2".into() });
        assert_eq!(
            loaded,
            "#!/bin/sh\nQEMU_MODULE_DIR=/nestor-qemu/modules exec /nestor-qemu/qemu-system-x86_64 --library-path \
             /nestor-qemu/lib /nestor-qemu/program -L /nestor-qemu/share \"$@\"\n"
        );
        assert!(launcher(&Program::Static).contains("exec /nestor-qemu/program -L "));
    }

    #[test]
    fn the_drivers_of_every_device_model_are_known() {
        let all: Vec<String> = device_models().iter().flat_map(drivers).collect();
        for driver in ["virtio-blk-pci", "virtio-scsi-pci", "scsi-hd", "lsi53c895a", "nvme", "ide-hd"] {
            assert!(all.iter().any(|one| one == driver), "{driver} in {all:?}");
        }
    }
}
