//! Adds a kernel to the lab: takes it and its modules out of a package of Debian's, or a kernel's file and a tree of modules, and makes an image.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::super::added::{copy, copy_base};
use super::super::cache::{ADDED, ADDED_KERNEL, ADDED_MODULES_CPIO, Cache, PartialImage, ROOT_SQUASHFS};
use super::super::environment::Environment;
use super::super::initramfs::{ModulesCpio, write_modules_cpio};
use super::super::modules::ModuleTree;
use super::super::recipe::Recipe;
use super::super::tool::{self, ToolFailure};
use super::super::{LabImage, LabImageError, absolute, verify};
use super::{ADDED_IN_ROOT, AboutKernel, AddedKernel, added_kernel, directory_name, kernel_version};

/// Programs that are called and Debian's packages that bring them.
const PROGRAMS: [(&str, &str); 5] = [
    ("cp", "coreutils"),
    ("depmod", "kmod"),
    ("dpkg-deb", "dpkg"),
    ("mksquashfs", "squashfs-tools"),
    ("xz", "xz-utils"),
];

/// How compressed modules end, and what unpacks them in place. A kernel that loads them from an initramfs needs them as they are.
const COMPRESSED: [(&str, &str, &[&str]); 3] = [
    ("xz", "xz", &["--decompress", "--quiet"]),
    ("gz", "gzip", &["--decompress", "--quiet"]),
    ("zst", "zstd", &["--decompress", "--rm", "--quiet"]),
];

/// Files that are named in one call of a program.
const FILES_OF_A_CALL: usize = 200;

/// What to add, and how.
pub struct AddKernel<'a> {
    /// The name that stacks call it by: letters, digits, `.`, `_` and `-`.
    pub name: &'a str,
    /// A package of Debian's with a kernel, or the kernel itself (`bzImage`).
    pub file: &'a Path,
    /// Of a kernel itself: the directory with its modules, as `make modules_install` made it (`…/lib/modules/RELEASE`). `None`: it has all that
    /// it needs built in.
    pub modules: Option<&'a Path>,
    /// Where images are kept.
    pub cache_directory: &'a Path,
    /// Set by the caller to end it within seconds and without a trace.
    pub interrupted: &'a AtomicBool,
}

/// What is at work.
struct Making<'a> {
    environment: Environment,
    partial: PartialImage,
    interrupted: &'a AtomicBool,
}

/// Adds a kernel to a lab image under a name, in place of one that has the name already.
///
/// # Errors
/// The file is no kernel for x86, or has not what every machine of the lab needs to start; or a program is missing or fails.
pub fn add_kernel(base: &LabImage, what: &AddKernel) -> Result<AddedKernel, LabImageError> {
    let environment = Environment::of_this_process();
    environment.require(&PROGRAMS)?;
    let cache = Cache::new(&absolute(what.cache_directory)?);
    let directory_name = directory_name(what.name);
    let lock = cache.lock(what.interrupted, &|_| {})?;
    cache.remove_stale(&lock)?;
    let partial = cache.begin(&directory_name, &lock)?;
    let making = Making { environment, partial, interrupted: what.interrupted };

    let root = making.partial.directory().join("root");
    make_directory(&root.join("lib/modules"))?;
    let kernel = making.take(what, &root)?;
    let contents = fs::read(&kernel).map_err(LabImageError::file("cannot read", &kernel))?;
    let unusable = |reason: &str| LabImageError::UnusableKernel {
        file: what.file.to_owned(),
        reason: reason.to_owned(),
    };
    let version = kernel_version(&contents).ok_or_else(|| unusable("it is no kernel for x86 (bzImage)"))?;
    let release = version.split(' ').next().unwrap_or_default().to_owned();
    let tree = making.take_modules(what, &root, &release)?;
    let modules = read_tree(&tree)?;
    let recipe = Recipe::built_in();
    let boot = modules.load_order(&recipe.boot_modules).map_err(|missing| {
        unusable(&format!(
            "it has not what every machine of the lab needs to start, neither built in nor as modules: {}",
            missing.join(", ")
        ))
    })?;
    let missing: BTreeSet<String> =
        modules.load_order(&recipe.required_modules).err().into_iter().flatten().collect();
    let about = AboutKernel {
        release,
        version: version.to_owned(),
        sha256: verify::sha256(what.file)?.0,
        missing_modules: missing.into_iter().collect(),
        base: base.contents()?,
    };
    making.write_image(base, &kernel, &tree, &boot, &about)?;
    let directory = cache.put_in_place(making.partial, &directory_name)?;
    Ok(added_kernel(directory, base, about))
}

impl Making<'_> {
    fn run(&self, what: &'static str, command: &mut Command) -> Result<(), LabImageError> {
        let failed = |failure: ToolFailure| failure.during(what, self.partial.directory());
        tool::run(command, self.interrupted, &mut |_| {}).map_err(failed)
    }

    /// The kernel's file; of a package, which is unpacked into `root`, the one in it.
    fn take(&self, what: &AddKernel, root: &Path) -> Result<PathBuf, LabImageError> {
        if what.file.extension().is_none_or(|ending| ending != "deb") {
            return Ok(what.file.to_owned());
        }
        let mut unpack = self.environment.command("dpkg-deb");
        self.run("unpacking the kernel's package", unpack.arg("--extract").arg(what.file).arg(root))?;
        let kernels = entries(&root.join("boot")).unwrap_or_default().into_iter().filter(|path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinuz"))
        });
        let unusable = |reason: &str| LabImageError::UnusableKernel {
            file: what.file.to_owned(),
            reason: reason.to_owned(),
        };
        match kernels.collect::<Vec<_>>().as_slice() {
            [kernel] => Ok(kernel.clone()),
            [] => Err(unusable(
                "the package has no /boot/vmlinuz-RELEASE; take linux-image-RELEASE and not the package without a release, which \
                 only depends on it",
            )),
            _ => Err(unusable("the package has several kernels")),
        }
    }

    /// The tree of modules at the place where `depmod` looks for it, unpacked and listed.
    fn take_modules(&self, what: &AddKernel, root: &Path, release: &str) -> Result<PathBuf, LabImageError> {
        let tree = root.join("lib/modules").join(release);
        let merged = root.join("usr/lib/modules").join(release);
        if let Some(modules) = what.modules {
            let mut copy = self.environment.command("cp");
            // Its links to sources are of no use, and may lead anywhere.
            self.run(
                "copying the modules",
                copy.args(["--recursive", "--no-dereference"]).arg(modules).arg(&tree),
            )?;
            for link in ["build", "source"] {
                let _ = fs::remove_file(tree.join(link));
            }
        } else if merged.is_dir() {
            fs::rename(&merged, &tree).map_err(LabImageError::file("cannot take", &merged))?;
        } else if !tree.is_dir() {
            make_directory(&tree)?;
            pretend_all_built_in(&tree)?;
        }
        leave_out(&tree.join("kernel"))?;
        self.unpack_modules(&tree)?;
        let mut depmod = self.environment.command("depmod");
        self.run("listing the modules", depmod.arg("--basedir").arg(root).arg(release))?;
        Ok(tree)
    }

    fn unpack_modules(&self, tree: &Path) -> Result<(), LabImageError> {
        let files = files_below(tree)?;
        for (ending, program, arguments) in COMPRESSED {
            let is_so_packed = |path: &&PathBuf| path.to_string_lossy().ends_with(&format!(".ko.{ending}"));
            let packed: Vec<&PathBuf> = files.iter().filter(is_so_packed).collect();
            for files in packed.chunks(FILES_OF_A_CALL) {
                let mut unpack = self.environment.command(program);
                self.run("unpacking the modules", unpack.args(arguments).args(files))?;
            }
        }
        Ok(())
    }

    fn write_image(
        &self,
        base: &LabImage,
        kernel: &Path,
        tree: &Path,
        boot: &[String],
        about: &AboutKernel,
    ) -> Result<(), LabImageError> {
        let image = self.partial.image();
        copy_base(base, &image)?;
        copy(kernel, &image.join(ADDED_KERNEL))?;
        let modules_cpio = image.join(ADDED_MODULES_CPIO);
        let all_modules = format!("{ADDED_IN_ROOT}/modules");
        let files: Vec<PathBuf> = boot.iter().map(|file| tree.join(file)).collect();
        write_modules_cpio(&ModulesCpio { load: &files, all: Some(&all_modules) }, &modules_cpio)
            .map_err(LabImageError::file("cannot write", &modules_cpio))?;
        let text = serde_json::to_string_pretty(about).expect("strings are always valid JSON");
        let path = image.join(ADDED);
        fs::write(&path, text + "\n").map_err(LabImageError::file("cannot write", &path))?;
        self.add_to_root(&image, tree)
    }

    /// The root's squashfs gets one more directory, behind everything that it has.
    fn add_to_root(&self, image: &Path, tree: &Path) -> Result<(), LabImageError> {
        let addition = self.partial.directory().join("addition");
        let added = addition.join(ADDED_IN_ROOT.trim_start_matches('/'));
        make_directory(&added)?;
        let modules = added.join("modules");
        fs::rename(tree, &modules).map_err(LabImageError::file("cannot take", tree))?;
        copy(&image.join(ADDED_KERNEL), &added.join("vmlinuz"))?;
        copy(&image.join(ADDED_MODULES_CPIO), &added.join("modules.cpio"))?;
        let mut append = self.environment.command("mksquashfs");
        append.arg(&addition).arg(image.join(ROOT_SQUASHFS));
        append.args(["-all-root", "-quiet", "-no-progress", "-no-recovery"]);
        self.run("adding the kernel to the root", &mut append)
    }
}

/// A kernel without modules: what machines ask for is taken to be built in, so that asking is no error.
fn pretend_all_built_in(tree: &Path) -> Result<(), LabImageError> {
    let recipe = Recipe::built_in();
    let all = recipe.boot_modules.iter().chain(&recipe.required_modules);
    let text: String = all.map(|module| format!("kernel/{module}.ko\n")).collect();
    for (name, text) in [("modules.builtin", text.as_str()), ("modules.order", "")] {
        let path = tree.join(name);
        fs::write(&path, text).map_err(LabImageError::file("cannot write", &path))?;
    }
    Ok(())
}

/// Removes the modules that the lab image leaves out, for hardware that no lab machine has.
fn leave_out(modules: &Path) -> Result<(), LabImageError> {
    let recipe = Recipe::built_in();
    let keeps_some = |excluded: &str| recipe.include_modules.iter().any(|kept| kept.starts_with(excluded));
    for excluded in recipe.exclude_modules.iter().filter(|excluded| !keeps_some(excluded)) {
        let directory = modules.join(excluded);
        match fs::remove_dir_all(&directory) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(LabImageError::file("cannot remove", &directory)(e));
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_tree(tree: &Path) -> Result<ModuleTree, LabImageError> {
    let read = |name: &str| {
        let path = tree.join(name);
        fs::read_to_string(&path).map_err(LabImageError::file("cannot read", &path))
    };
    Ok(ModuleTree::parse(&read("modules.dep")?, &read("modules.builtin")?))
}

fn make_directory(directory: &Path) -> Result<(), LabImageError> {
    fs::create_dir_all(directory).map_err(LabImageError::file("cannot create", directory))
}

fn entries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

/// All files in a directory and in those below it; links are not followed.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>, LabImageError> {
    let (mut files, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for path in entries(&directory).map_err(LabImageError::file("cannot read", &directory))? {
            let metadata =
                fs::symlink_metadata(&path).map_err(LabImageError::file("cannot look at", &path))?;
            if metadata.is_dir() {
                directories.push(path);
            } else if metadata.is_file() {
                files.push(path);
            }
        }
    }
    // In no order that a file system chose.
    files.sort();
    Ok(files)
}
