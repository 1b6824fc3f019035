//! The lab image of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use nestor_lab::{BuildError, KernelFiles, LabFiles, LabProblem, QemuFiles};
use nestor_machine::lab_image::{
    self, AddKernel, AddQemu, AddedKernel, AddedQemu, EnsureOptions, LabHash, LabImage, LabProgress, Recipe,
};
use nestor_stack::{LabPack, Place, Stack};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::interrupt::interrupted_by_signals;
use crate::paths;
use crate::progress::Progress;

/// Hash of the current recipe and whether its image is there.
pub fn state() -> (LabHash, bool) {
    (Recipe::built_in().hash(), lab_image::find(&paths::cache_directory(), None).is_some())
}

/// The lab image, made first if it is not there.
///
/// # Errors
/// When it cannot be made: no network, no room, missing programs.
pub fn ensure(pack: Option<LabPack>) -> Result<LabImage> {
    let cache_directory = paths::cache_directory();
    if let Some(image) = lab_image::find_verified(&cache_directory, pack, &say_recorded)? {
        return Ok(image);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("signals could not be caught")?;
    }
    let bar = Progress::new(100);
    let progress = |news: LabProgress| {
        bar.about(news.stage.label(), news.remaining);
        bar.step(&news.detail);
        // A percentage: the fraction is between 0 and 1.
        bar.position((news.fraction * 100.0) as u64);
    };
    let options = EnsureOptions { pack, cache_directory, progress: &progress, interrupted: &interrupted };
    let image = lab_image::ensure(&options);
    bar.finish();
    Ok(image?)
}

/// Tells of an image that gets its record of hashes only now.
fn say_recorded(directory: &Path) {
    errln!(
        "the lab image in {} was made by a version that recorded no hashes; from now on it must not change",
        directory.display()
    );
}

/// The lab image without a pack, if it has been made: what was never made has nothing added to it.
fn made() -> Result<Option<LabImage>> {
    Ok(lab_image::find_verified(&paths::cache_directory(), None, &say_recorded)?)
}

/// The lab image of this machine, made first if there is none.
///
/// # Errors
/// It cannot be made, or is not to be trusted.
pub fn files() -> Result<LabFiles> {
    files_of(&ensure(None)?)
}

/// The images with more in them that have been made.
///
/// # Errors
/// One is not to be trusted.
pub fn packs() -> Result<BTreeMap<LabPack, LabFiles>> {
    let mut packs = BTreeMap::new();
    for pack in LabPack::ALL {
        let image = lab_image::find_verified(&paths::cache_directory(), Some(pack), &|_| {})?;
        packs.extend(image.as_ref().map(files_of).transpose()?.map(|files| (pack, files)));
    }
    Ok(packs)
}

/// Refuses images with more in them that are needed and have not been made, without looking into those that have.
///
/// # Errors
/// One does not exist.
pub fn require_packs(mut needed: impl Iterator<Item = LabPack>) -> Result<()> {
    let cache_directory = paths::cache_directory();
    match needed.find(|pack| lab_image::find(&cache_directory, Some(*pack)).is_none()) {
        Some(pack) => Err(BuildError::from(LabProblem::NoPack { pack }).into()),
        None => Ok(()),
    }
}

/// The images with more in them that are needed. Refuses, before anything is started, if one has not been made.
///
/// # Errors
/// One that is needed does not exist, or is not to be trusted.
pub fn packs_of(needed: impl Iterator<Item = LabPack>) -> Result<BTreeMap<LabPack, LabFiles>> {
    let needed: BTreeSet<LabPack> = needed.collect();
    if needed.is_empty() {
        return Ok(BTreeMap::new());
    }
    let packs = packs()?;
    match needed.into_iter().find(|pack| !packs.contains_key(pack)) {
        Some(pack) => Err(BuildError::from(LabProblem::NoPack { pack }).into()),
        None => Ok(packs),
    }
}

/// The kernels of the user's that stacks name. Refuses, before anything is started, if one was not added.
///
/// # Errors
/// One does not exist, or is not to be trusted.
pub fn kernels_of(stacks: &[Stack]) -> Result<BTreeMap<String, KernelFiles>> {
    let names: BTreeSet<&str> = stacks.iter().filter_map(Stack::added_kernel).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let base = made()?;
    let found = |name: &str| -> Result<(String, KernelFiles)> {
        let added =
            base.as_ref().map(|base| lab_image::find_added_kernel(&paths::cache_directory(), name, base));
        let added = added.transpose()?.flatten();
        let added = added.ok_or_else(|| BuildError::from(LabProblem::NoKernel { name: name.to_owned() }))?;
        Ok((name.to_owned(), kernel_files(&added)?))
    };
    names.into_iter().map(found).collect()
}

fn kernel_files(added: &AddedKernel) -> Result<KernelFiles> {
    let about = &added.about;
    Ok(KernelFiles {
        image: files_of(&added.image)?,
        kernel: added.kernel.display().to_string(),
        modules_cpio: added.modules_cpio.display().to_string(),
        about: format!("Linux {}, from a file with SHA-256 {}", about.version, about.sha256),
    })
}

/// The QEMUs of the user's that stacks name. Refuses, before anything is started, if one was not added, or is to run on this machine and is not
/// what was added.
///
/// # Errors
/// One does not exist, has changed, or is not to be trusted.
pub fn qemus_of(place: &Place, stacks: &[Stack]) -> Result<BTreeMap<String, QemuFiles>> {
    let names: BTreeSet<&str> = stacks.iter().filter_map(Stack::added_qemu).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let base = made()?;
    let found = |name: &str| -> Result<(String, QemuFiles)> {
        let added =
            base.as_ref().map(|base| lab_image::find_added_qemu(&paths::cache_directory(), name, base));
        let added = added.transpose()?.flatten();
        let added = added.ok_or_else(|| BuildError::from(LabProblem::NoQemu { name: name.to_owned() }))?;
        let about = &added.about;
        if *place == Place::This && !about.is_unchanged() {
            let changed = LabProblem::QemuChanged { name: name.to_owned(), file: about.file.clone() };
            return Err(BuildError::from(changed).into());
        }
        let files = QemuFiles {
            image: files_of(&added.image)?,
            command: about.command_here(),
            about: format!(
                "QEMU {}, with its libraries and firmware SHA-256 {}",
                about.version, about.contents
            ),
        };
        Ok((name.to_owned(), files))
    };
    names.into_iter().map(found).collect()
}

/// Adds a QEMU to the lab image, which is made first if it is not there.
///
/// # Errors
/// The file is no QEMU that machines of the lab can run in.
pub fn add_qemu(name: &str, file: &Path) -> Result<AddedQemu> {
    let base = ensure(None)?;
    let interrupted = interrupted_by_signals()?;
    let progress = Progress::new(1);
    progress.step("adding QEMU to the lab image");
    let cache_directory = &paths::cache_directory();
    let added =
        lab_image::add_qemu(&base, &AddQemu { name, file, cache_directory, interrupted: &interrupted });
    progress.finish();
    Ok(added?)
}

/// Adds a kernel to the lab image, which is made first if it is not there.
///
/// # Errors
/// The file is no kernel that machines of the lab can boot.
pub fn add_kernel(name: &str, file: &Path, modules: Option<&Path>) -> Result<AddedKernel> {
    let base = ensure(None)?;
    let interrupted = interrupted_by_signals()?;
    let progress = Progress::new(1);
    progress.step("adding the kernel to the lab image");
    let cache_directory = &paths::cache_directory();
    let what = AddKernel { name, file, modules, cache_directory, interrupted: &interrupted };
    let added = lab_image::add_kernel(&base, &what);
    progress.finish();
    Ok(added?)
}

fn files_of(image: &LabImage) -> Result<LabFiles> {
    let text = |path: &Path| path.display().to_string();
    Ok(LabFiles {
        kernel: text(&image.kernel),
        modules_cpio: text(&image.modules_cpio),
        root: text(&image.root_squashfs),
        hypervisor: image.hypervisor.as_deref().map(text),
        hash: Some(image.manifest.hash.clone()),
        contents: image.contents()?,
    })
}
