//! The lab image: one read-only Debian root with its kernel, which every machine boots, at every level.
//!
//! It is built once from `lab/recipe.toml` by mmdebstrap, without root's rights where subordinate ids allow it, and kept
//! under the hash of the recipe:
//!
//! - `vmlinuz`, the kernel, for `-kernel`;
//! - `modules.cpio`, directories and the modules that are needed to find the root, for the front of `-initrd`; the program
//!   that becomes the machine's first process is appended by [`initramfs`];
//! - `root.squashfs`, the root, for a read-only disk; it holds the other two in `/boot` and the manifest as
//!   `/etc/nestor-lab.json`, so that a host can boot guests from its own root;
//! - `hypervisor`, the hypervisor that boots before the kernel, in images that have one ([`LabPack`]);
//! - `manifest.json`, what is in it;
//! - `SHA256SUMS`, the hashes of the other files, which are compared before the image is booted.

mod added;
mod added_kernel;
mod added_qemu;
mod build;
mod cache;
mod cpio;
mod environment;
mod error;
mod fetch;
mod initramfs;
mod modules;
mod orphans;
mod pack;
mod progress;
mod recipe;
mod sources;
mod tool;
mod verify;
mod virtualbox;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nestor_stack::LabPack;
use serde::{Deserialize, Serialize};

pub use added_kernel::{
    ADDED_KERNEL_IN_ROOT, ADDED_MODULES_CPIO_IN_ROOT, AboutKernel, AddKernel, AddedKernel, add_kernel,
    find_added_kernel,
};
pub use added_qemu::{
    ADDED_QEMU_IN_ROOT, AboutQemu, AddQemu, AddedQemu, Program, RunsHere, add_qemu, find_added_qemu,
    libraries, program,
};
use cache::Cache;
pub use cpio::CpioWriter;
use environment::Environment;
pub use error::LabImageError;
pub use initramfs::{MODULE_LOAD_LIST, MODULE_TREE, initramfs};
pub use modules::ModuleTree;
use progress::Tracker;
pub use progress::{LabProgress, LabStage};
pub use recipe::{LabHash, Recipe};
pub use sources::MIRROR_VARIABLE;

/// Where a host that runs the image finds the kernel for its guests.
pub const KERNEL_IN_ROOT: &str = "/boot/vmlinuz";
/// Where a host that runs the image finds the first part of its guests' initramfs.
pub const MODULES_CPIO_IN_ROOT: &str = "/boot/modules.cpio";
/// Where a machine finds the manifest of the image it runs.
pub const MANIFEST_IN_ROOT: &str = "/etc/nestor-lab.json";

/// The files of a lab image.
#[derive(Clone, Debug)]
pub struct LabImage {
    /// The directory that holds the others.
    pub directory: PathBuf,
    /// The kernel.
    pub kernel: PathBuf,
    /// The first part of the initramfs.
    pub modules_cpio: PathBuf,
    /// The root.
    pub root_squashfs: PathBuf,
    /// The hypervisor that boots before the kernel, of an image that has one.
    pub hypervisor: Option<PathBuf>,
    /// What is in it.
    pub manifest: LabManifest,
}

impl LabImage {
    /// SHA-256 of the list of its files with their hashes, 64 hexadecimal digits.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn contents(&self) -> Result<String, LabImageError> {
        verify::sha256_of_sums(&self.directory)
    }
}

/// What a lab image is made of.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LabManifest {
    /// Hash of the recipe.
    pub hash: LabHash,
    /// Debian's name of the release.
    pub suite: String,
    /// Debian's name of the architecture.
    pub architecture: String,
    /// The kernel, as `uname -r` prints it.
    pub kernel_release: String,
    /// Versions of all installed packages, by name.
    pub packages: BTreeMap<String, String>,
}

/// How to come to a lab image.
pub struct EnsureOptions<'a> {
    /// What it has besides what every image has.
    pub pack: Option<LabPack>,
    /// Where images and packages are kept.
    pub cache_directory: PathBuf,
    /// Receives the progress of a build; never called if the image exists.
    pub progress: &'a dyn Fn(LabProgress),
    /// Set by the caller, for example in a signal's handler, to end a build within seconds and without a trace.
    pub interrupted: &'a AtomicBool,
}

/// The image of the recipe this program was compiled with, with a pack or without, if it has been built already.
pub fn find(cache_directory: &Path, pack: Option<LabPack>) -> Option<LabImage> {
    Cache::new(cache_directory).find(&Recipe::of(pack).short_hash())
}

/// The same, checked: it is this user's or root's, no other user may write to it, and its files have the hashes that were
/// recorded when it was made. `recorded` hears of an image that has no record yet and gets one.
///
/// # Errors
/// [`LabImageError::NotTrusted`], [`LabImageError::Changed`].
pub fn find_verified(
    cache_directory: &Path,
    pack: Option<LabPack>,
    recorded: &dyn Fn(&Path),
) -> Result<Option<LabImage>, LabImageError> {
    Cache::new(&absolute(cache_directory)?).find_verified(&Recipe::of(pack).short_hash(), recorded)
}

fn absolute(cache_directory: &Path) -> Result<PathBuf, LabImageError> {
    std::path::absolute(cache_directory)
        .map_err(LabImageError::file("cannot use the cache directory", cache_directory))
}

/// The image of the recipe this program was compiled with; built first if it is not there.
///
/// Two processes that need it at once build it once. What a killed build left is removed, the packages it had fetched are
/// used.
///
/// # Errors
/// See [`LabImageError`]; nothing but fetched packages is left behind.
pub fn ensure(options: &EnsureOptions) -> Result<LabImage, LabImageError> {
    ensure_recipe(&Recipe::of(options.pack), &Environment::of_this_process(), options)
}

fn ensure_recipe(
    recipe: &Recipe,
    environment: &Environment,
    options: &EnsureOptions,
) -> Result<LabImage, LabImageError> {
    let cache = Cache::new(&absolute(&options.cache_directory)?);
    let hash = recipe.short_hash();
    if let Some(image) = cache.find_verified(&hash, &|_| {})? {
        return Ok(image);
    }
    let tracker = Tracker::new(options.progress);
    let lock = cache.lock(options.interrupted, &|detail| tracker.tell(LabStage::Waiting, 0.0, detail))?;
    if let Some(image) = cache.find_verified(&hash, &|_| {})? {
        return Ok(image);
    }
    cache.remove_stale(&lock)?;
    build::build(recipe, environment, &cache, &lock, tracker, options.interrupted)
}

#[cfg(test)]
mod tests;
