//! From the archive of an installed root to the image's files: kernel, boot modules, squashfs, manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::LabManifest;
use super::build::Build;
use super::cache::{HYPERVISOR, KERNEL, MANIFEST, MODULES_CPIO, ROOT_SQUASHFS};
use super::error::LabImageError;
use super::initramfs::{ModulesCpio, write_modules_cpio};
use super::modules::{ModuleTree, declared_needs};
use super::progress::LabStage;

/// Where the modules of every kernel lie in a root whose `/lib` is merged into `/usr/lib`.
const MODULES: &str = "usr/lib/modules";

/// dpkg's list of installed packages.
const DPKG_STATUS: &str = "var/lib/dpkg/status";

/// What is added to the root: the image's own parts, so that a host can boot guests from what it has itself.
const ADDED: [&str; 3] = ["./boot/vmlinuz", "./boot/modules.cpio", "./etc/nestor-lab.json"];

/// Adds what does not come from the image's own packages to the root's archive, for a kernel of that release; versions of packages, by name.
pub type AddMore<'a> = &'a dyn Fn(&str) -> Result<BTreeMap<String, String>, LabImageError>;

/// Makes the image's files from `root_tar`, which is removed on the way.
pub fn pack(build: &Build, root_tar: &Path, more: AddMore<'_>) -> Result<(), LabImageError> {
    let tell = |within: f64, detail: &str| build.tracker.tell(LabStage::Packing, within, detail);
    tell(0.0, "the kernel and its modules");
    let extracted = extract(build, root_tar)?;
    let release = kernel_release(&extracted.join(MODULES))?;
    let tree = extracted.join(MODULES).join(&release);
    let boot_modules = check_modules(build, &tree, &release)?;
    let image = build.partial.image();
    let modules_cpio = image.join(MODULES_CPIO);
    write_modules_cpio(&ModulesCpio { load: &boot_modules, all: None }, &modules_cpio)
        .map_err(LabImageError::file("cannot write", &modules_cpio))?;
    let kernel = image.join(KERNEL);
    let installed = extracted.join(format!("boot/vmlinuz-{release}"));
    match &build.recipe.hypervisor {
        None => fs::rename(&installed, &kernel).map_err(LabImageError::file("cannot take", &installed))?,
        Some(_) => unpack_kernel(build, &installed, &kernel)?,
    }
    if let Some(compressed) = &build.recipe.hypervisor {
        unpack_hypervisor(&extracted.join(compressed), &image.join(HYPERVISOR))?;
    }
    let added = more(&release)?;
    write_manifest(build, &extracted.join(DPKG_STATUS), &release, added)?;

    tell(0.3, "the image's own parts");
    add_to_root(build, root_tar, &release)?;
    tell(0.4, "the root");
    squash(build, root_tar)?;
    fs::remove_file(root_tar).map_err(LabImageError::file("cannot remove", root_tar))?;
    tell(1.0, "done");
    Ok(())
}

fn extract(build: &Build, root_tar: &Path) -> Result<PathBuf, LabImageError> {
    let directory = build.partial.directory().join("extracted");
    fs::create_dir(&directory).map_err(LabImageError::file("cannot create", &directory))?;
    let mut command = build.environment.command("tar");
    command.arg("--extract").arg("--file").arg(root_tar).arg("--directory").arg(&directory);
    command.args(["--no-same-owner", "--no-same-permissions"]);
    command.args(["./boot", &format!("./{MODULES}"), &format!("./{DPKG_STATUS}")]);
    build.run(&mut command, &mut |_| {}).map_err(|failure| {
        failure.during("taking the kernel out of the new root", build.partial.directory())
    })?;
    Ok(directory)
}

/// Takes the kernel itself out of its file (Documentation/arch/x86/boot.rst: `setup_sects`, `payload_offset`, `payload_length`): Xen would
/// unpack it at each boot, which is 4.5 thousand million instructions.
fn unpack_kernel(build: &Build, packed: &Path, to: &Path) -> Result<(), LabImageError> {
    let file = fs::read(packed).map_err(LabImageError::file("cannot read", packed))?;
    let payload = kernel_payload(&file).ok_or_else(|| {
        LabImageError::Unusable("its kernel is not packed by xz in a file for x86".to_owned())
    })?;
    let packed = to.with_extension("xz");
    fs::write(&packed, payload).map_err(LabImageError::file("cannot write", &packed))?;
    let mut command = build.environment.command("xz");
    command.args(["--decompress", "--single-stream", "--suffix=.xz"]).arg(&packed);
    build
        .run(&mut command, &mut |_| {})
        .map_err(|failure| failure.during("unpacking the kernel", build.partial.directory()))?;
    let unpacked = packed.with_extension("");
    fs::rename(&unpacked, to).map_err(LabImageError::file("cannot take", &unpacked))
}

/// The xz stream in a kernel's file.
fn kernel_payload(file: &[u8]) -> Option<&[u8]> {
    const XZ: &[u8] = b"\xfd7zXZ\0";
    let word = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?) as usize);
    let sectors = match *file.get(0x1f1)? {
        // As old boot loaders have it.
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * 512 + word(0x248)?;
    let payload = file.get(start..start.checked_add(word(0x24c)?)?)?;
    payload.starts_with(XZ).then_some(payload)
}

/// QEMU boots it only as it is when it is unpacked.
fn unpack_hypervisor(compressed: &Path, to: &Path) -> Result<(), LabImageError> {
    let packed = File::open(compressed).map_err(LabImageError::file("cannot read", compressed))?;
    let mut file = File::create(to).map_err(LabImageError::file("cannot write", to))?;
    std::io::copy(&mut GzDecoder::new(packed), &mut file)
        .map_err(LabImageError::file("cannot unpack", compressed))?;
    Ok(())
}

fn kernel_release(modules: &Path) -> Result<String, LabImageError> {
    let entries = fs::read_dir(modules).map_err(LabImageError::file("cannot read", modules))?;
    let mut releases: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    match (releases.pop(), releases.is_empty()) {
        (Some(release), true) => Ok(release),
        (Some(last), false) => {
            releases.push(last);
            Err(LabImageError::Unusable(format!("it has several kernels, {}", releases.join(" and "))))
        }
        (None, _) => Err(LabImageError::Unusable("it has no kernel".to_owned())),
    }
}

/// The files of the boot modules in the order of loading, once every module a stack may ask for has been seen to be
/// there with all it needs.
fn check_modules(build: &Build, tree: &Path, release: &str) -> Result<Vec<PathBuf>, LabImageError> {
    let read = |name: &str| {
        let path = tree.join(name);
        fs::read_to_string(&path).map_err(LabImageError::file("cannot read", &path))
    };
    let modules = ModuleTree::parse(&read("modules.dep")?, &read("modules.builtin")?);
    let missing = |modules| LabImageError::MissingModules { release: release.to_owned(), modules };
    let boot = modules.load_order(&build.recipe.boot_modules).map_err(missing)?;
    let all: Vec<_> =
        build.recipe.boot_modules.iter().chain(&build.recipe.required_modules).cloned().collect();
    let mut absent = BTreeSet::new();
    for file in modules.load_order(&all).map_err(missing)? {
        let path = tree.join(&file);
        let contents = fs::read(&path).map_err(LabImageError::file("cannot read", &path))?;
        // A boot module has to be as the kernel itself takes it: uncompressed.
        if !contents.starts_with(b"\x7fELF") {
            return Err(LabImageError::Unusable(format!("its module {file} is compressed")));
        }
        if let Err(names) = modules.load_order(&declared_needs(&contents)) {
            absent.extend(names);
        }
    }
    if !absent.is_empty() {
        return Err(missing(absent.into_iter().collect()));
    }
    Ok(boot.iter().map(|file| tree.join(file)).collect())
}

fn write_manifest(
    build: &Build,
    dpkg_status: &Path,
    release: &str,
    added: BTreeMap<String, String>,
) -> Result<(), LabImageError> {
    let status = fs::read_to_string(dpkg_status).map_err(LabImageError::file("cannot read", dpkg_status))?;
    let manifest = LabManifest {
        hash: build.recipe.hash(),
        suite: build.recipe.suite.clone(),
        architecture: build.recipe.architecture.clone(),
        kernel_release: release.to_owned(),
        packages: installed_packages(&status).into_iter().chain(added).collect(),
    };
    let text = serde_json::to_string_pretty(&manifest).expect("strings are always valid JSON");
    let path = build.partial.image().join(MANIFEST);
    fs::write(&path, text + "\n").map_err(LabImageError::file("cannot write", &path))
}

/// Names and versions in dpkg's status file: paragraphs of `Field: value`.
fn installed_packages(status: &str) -> BTreeMap<String, String> {
    let field = |paragraph: &str, name: &str| -> Option<String> {
        paragraph.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
    };
    status
        .split("\n\n")
        .filter(|paragraph| field(paragraph, "Status").is_some_and(|status| status.ends_with(" installed")))
        .filter_map(|paragraph| Some((field(paragraph, "Package")?, field(paragraph, "Version")?)))
        .collect()
}

fn add_to_root(build: &Build, root_tar: &Path, release: &str) -> Result<(), LabImageError> {
    let directory = build.partial.directory().join("added");
    let image = build.partial.image();
    let [kernel, modules_cpio, manifest] = ADDED.map(|path| directory.join(path));
    for parent in [kernel.parent(), manifest.parent()].into_iter().flatten() {
        fs::create_dir_all(parent).map_err(LabImageError::file("cannot create", parent))?;
    }
    match build.recipe.hypervisor {
        // The kernel itself is already there, under the name its package gives it.
        None => symlink(format!("vmlinuz-{release}"), &kernel),
        Some(_) => fs::copy(image.join(KERNEL), &kernel).map(drop),
    }
    .map_err(LabImageError::file("cannot create", &kernel))?;
    for (from, to) in [(MODULES_CPIO, &modules_cpio), (MANIFEST, &manifest)] {
        fs::copy(image.join(from), to).map_err(LabImageError::file("cannot write", to))?;
    }
    let mut command = build.environment.command("tar");
    command.arg("--append").arg("--file").arg(root_tar).arg("--directory").arg(&directory);
    command.args(["--owner=0", "--group=0", "--mode=u=rw,go=r"]).args(ADDED);
    build.run(&mut command, &mut |_| {}).map_err(|failure| {
        failure.during("adding the image's own parts to the root", build.partial.directory())
    })
}

fn squash(build: &Build, root_tar: &Path) -> Result<(), LabImageError> {
    let input = File::open(root_tar).map_err(LabImageError::file("cannot read", root_tar))?;
    let mut command = build.environment.command("sqfstar");
    // lz4: a root that is read by an emulated processor has to be cheap to unpack above all.
    command
        .args(["-quiet", "-no-progress", "-comp", "lz4"])
        .arg(build.partial.image().join(ROOT_SQUASHFS))
        .stdin(input);
    build
        .run(&mut command, &mut |_| {})
        .map_err(|failure| failure.during("packing the root", build.partial.directory()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_are_listed() {
        let status = "Package: fio\nStatus: install ok installed\nVersion: 3.33-3\nDescription: x\n Version: 9\n\n\
            Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n\
            Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\n";
        let packages: Vec<_> = installed_packages(status).into_iter().collect();
        assert_eq!(packages, [("fio".into(), "3.33-3".into()), ("libc6".into(), "2.36-9".into())]);
    }

    #[test]
    fn there_is_exactly_one_kernel() {
        let directory = tempfile::tempdir().unwrap();
        assert!(kernel_release(directory.path()).unwrap_err().to_string().ends_with("it has no kernel"));
        fs::create_dir(directory.path().join("6.1.0-1-amd64")).unwrap();
        assert_eq!(kernel_release(directory.path()).unwrap(), "6.1.0-1-amd64");
        fs::create_dir(directory.path().join("6.1.0-2-amd64")).unwrap();
        assert!(kernel_release(directory.path()).unwrap_err().to_string().contains("several kernels"));
    }
}
