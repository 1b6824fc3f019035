//! Where images are kept, and how one comes to be there: built by one process at a time in a directory of its own, put in
//! place by one rename.
//!
//! ```text
//! <cache>/debs/                          fetched packages, kept for the next build
//! <cache>/lab/lock                       held by the process that builds
//! <cache>/lab/<hash>/                    a finished image
//! <cache>/lab/<hash>.partial-<process>/  a running build, or what a killed one left
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::error::LabImageError;
use super::orphans;
use super::verify;
use super::{LabImage, LabManifest};
use nestor_kernel::mounts::mounted_below;
use nestor_ownership as ownership;

/// The names of an image's files.
pub const KERNEL: &str = "vmlinuz";
/// The image's part of the initramfs.
pub const MODULES_CPIO: &str = "modules.cpio";
/// The root.
pub const ROOT_SQUASHFS: &str = "root.squashfs";
/// The hypervisor that boots before the kernel; not every image has one.
pub const HYPERVISOR: &str = "hypervisor";
/// The kernel of the user's, of an image that has one.
pub const ADDED_KERNEL: &str = "added-vmlinuz";
/// That kernel's part of the initramfs.
pub const ADDED_MODULES_CPIO: &str = "added-modules.cpio";
/// What that kernel is.
pub const ADDED: &str = "added.json";
/// What the QEMU of the user's is, of an image that has one.
pub const ADDED_QEMU: &str = "added-qemu.json";
/// What the image is made of.
pub const MANIFEST: &str = "manifest.json";

/// What the name of an unfinished build's directory has between hash and process.
const PARTIAL: &str = ".partial-";

/// A file in an unfinished build's directory that names another directory the build uses.
const WORK_DIRECTORY_NOTE: &str = "work-directory";

/// How often a process that waits looks whether the other has finished.
const POLL: Duration = Duration::from_millis(200);

/// The directories of lab images below one cache directory.
pub struct Cache {
    directory: PathBuf,
}

/// Held by the one process that may build; gone with it, however it ends.
pub struct BuildLock {
    _file: File,
}

impl Cache {
    /// Images and packages below `directory`, which need not exist yet.
    pub fn new(directory: &Path) -> Self {
        Cache { directory: directory.to_owned() }
    }

    /// Where fetched packages are kept.
    pub fn debs(&self) -> PathBuf {
        self.directory.join("debs")
    }

    fn images(&self) -> PathBuf {
        self.directory.join("lab")
    }

    /// Where the image of this (short) hash is or will be.
    pub fn image_directory(&self, hash: &str) -> PathBuf {
        self.images().join(hash)
    }

    /// Checks that no other user can have put anything into the cache.
    pub fn check_owner(&self) -> Result<(), LabImageError> {
        verify::check_directories(&[self.directory.clone(), self.images(), self.debs()])
    }

    /// The image of this (short) hash, if it is there, as it was made. `recorded` hears of an image that an older version
    /// made, without a record.
    pub fn find_verified(
        &self,
        hash: &str,
        recorded: &dyn Fn(&Path),
    ) -> Result<Option<LabImage>, LabImageError> {
        self.check_owner()?;
        let Some(image) = self.find(hash) else { return Ok(None) };
        if verify::verify(&image.directory)? {
            recorded(&image.directory);
        }
        Ok(Some(image))
    }

    /// The image of this (short) hash, if it is there and complete.
    pub fn find(&self, hash: &str) -> Option<LabImage> {
        let directory = self.image_directory(hash);
        let text = fs::read_to_string(directory.join(MANIFEST)).ok()?;
        let manifest: LabManifest = serde_json::from_str(&text).ok()?;
        let image = LabImage {
            kernel: directory.join(KERNEL),
            modules_cpio: directory.join(MODULES_CPIO),
            root_squashfs: directory.join(ROOT_SQUASHFS),
            hypervisor: Some(directory.join(HYPERVISOR)).filter(|file| file.is_file()),
            directory,
            manifest,
        };
        let complete = [&image.kernel, &image.modules_cpio, &image.root_squashfs]
            .into_iter()
            .all(|file| fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0));
        (complete && image.manifest.hash.short() == hash).then_some(image)
    }

    /// Waits until this process is the one that may build. `waiting` gets the process that holds the lock.
    pub fn lock(&self, interrupted: &AtomicBool, waiting: &dyn Fn(&str)) -> Result<BuildLock, LabImageError> {
        let images = self.images();
        make_directory(&images)?;
        let path = images.join("lock");
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(LabImageError::file("cannot open", &path))?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => waiting(&owner(&mut file)),
                Err(TryLockError::Error(e)) => return Err(LabImageError::file("cannot lock", &path)(e)),
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(LabImageError::Interrupted);
            }
            std::thread::sleep(POLL);
        }
        // The number serves only for the messages of processes that wait; nothing depends on it.
        let _ = file.set_len(0);
        let _ = file.seek(SeekFrom::Start(0)).and_then(|_| write!(file, "{}", std::process::id()));
        Ok(BuildLock { _file: file })
    }

    /// Removes what killed builds left. Only the holder of the lock builds, so every other unfinished build has no
    /// owner any more.
    pub fn remove_stale(&self, _lock: &BuildLock) -> Result<(), LabImageError> {
        let images = self.images();
        let entries = fs::read_dir(&images).map_err(LabImageError::file("cannot read", &images))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.file_name().is_some_and(|name| name.to_string_lossy().contains(PARTIAL)) {
                orphans::end(&path);
                PartialImage { directory: path, work_directory: None }.remove()?;
            }
        }
        Ok(())
    }

    /// A new directory to build the image of this hash in.
    pub fn begin(&self, hash: &str, _lock: &BuildLock) -> Result<PartialImage, LabImageError> {
        let directory = self.images().join(format!("{hash}{PARTIAL}{}", std::process::id()));
        let partial = PartialImage { directory, work_directory: None };
        let image = partial.image();
        make_directory(&image)?;
        make_directory(&self.debs())?;
        Ok(partial)
    }

    /// Puts a finished image in place, of a damaged one that may be there already.
    pub fn finish(&self, partial: PartialImage, hash: &str) -> Result<LabImage, LabImageError> {
        let target = self.put_in_place(partial, hash)?;
        self.find(hash)
            .ok_or_else(|| LabImageError::Unusable(format!("{} is not complete", target.display())))
    }

    /// Puts the files of a build in place under a name, instead of what has it, and returns their directory.
    pub fn put_in_place(&self, partial: PartialImage, name: &str) -> Result<PathBuf, LabImageError> {
        verify::record(&partial.image())?;
        for file in verify::files(&partial.image()) {
            let path = partial.image().join(file);
            // A machine that loses its power right after the rename must not find an empty image.
            File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(LabImageError::file("cannot write", &path))?;
        }
        let target = self.image_directory(name);
        if target.exists() {
            fs::remove_dir_all(&target).map_err(LabImageError::file("cannot remove", &target))?;
        }
        fs::rename(partial.image(), &target).map_err(LabImageError::file("cannot put in place", &target))?;
        partial.remove()?;
        Ok(target)
    }
}

/// Makes a directory, with those above it, that no other user may write to, regardless of this process's umask.
fn make_directory(directory: &Path) -> Result<(), LabImageError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(directory)
        .map_err(LabImageError::file("cannot create", directory))
}

/// The process that the lock's file names, for a message.
fn owner(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text));
    match text.trim().parse::<u32>() {
        Ok(pid) => format!("process {pid} is building the same image"),
        Err(_) => "another process is building the same image".to_owned(),
    }
}

/// An image that is being built; removed when dropped.
pub struct PartialImage {
    directory: PathBuf,
    work_directory: Option<PathBuf>,
}

impl PartialImage {
    /// The directory of this build.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory that becomes the image.
    pub fn image(&self) -> PathBuf {
        self.directory.join("image")
    }

    /// Notes a directory elsewhere that belongs to this build, before it is made, so that it is removed in any case.
    pub fn set_work_directory(&mut self, work_directory: &Path) -> Result<(), LabImageError> {
        let note = self.directory.join(WORK_DIRECTORY_NOTE);
        fs::write(&note, work_directory.as_os_str().as_encoded_bytes())
            .map_err(LabImageError::file("cannot write", &note))?;
        self.work_directory = Some(work_directory.to_owned());
        Ok(())
    }

    /// Removes everything of this build.
    fn remove(&self) -> Result<(), LabImageError> {
        let noted = || fs::read_to_string(self.directory.join(WORK_DIRECTORY_NOTE)).ok().map(PathBuf::from);
        if let Some(work_directory) = self.work_directory.clone().or_else(noted) {
            remove_tree(&work_directory)?;
        }
        remove_tree(&self.directory)
    }
}

impl Drop for PartialImage {
    fn drop(&mut self) {
        // A failure cannot be handled here; the next build tries again and reports it.
        let _ = self.remove();
    }
}

/// Removes a directory that may hold files of an ordinary user's subordinate ids.
fn remove_tree(directory: &Path) -> Result<(), LabImageError> {
    // Beside the image it is ours; elsewhere it may be gone, and another user's of that name be there.
    if fs::symlink_metadata(directory).is_ok_and(|m| m.uid() != ownership::user() || !m.is_dir()) {
        return Ok(());
    }
    // Never reached by a build of this program; but what is mounted there could be the machine's own.
    let mounted = mounted_below(directory).and_then(|mounted| match mounted {
        Some(place) => {
            Err(std::io::Error::other(format!("{} is mounted there; unmount it", place.display())))
        }
        None => Ok(()),
    });
    mounted.map_err(LabImageError::file("cannot remove the remains of an earlier build,", directory))?;
    match fs::remove_dir_all(directory) {
        Ok(()) => return Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    // Only root in the namespace those files were made in may remove them; mmdebstrap knows how to enter it.
    let mut helper = Command::new("mmdebstrap");
    helper.args(["--unshare-helper", "rm", "-rf", "--"]).arg(directory);
    // A second key pressed at the terminal shall not reach it.
    let _ = helper.process_group(0).output();
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(LabImageError::file("cannot remove the remains of an earlier build,", directory)(e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef";

    fn never() -> AtomicBool {
        AtomicBool::new(false)
    }

    fn lock(cache: &Cache) -> BuildLock {
        cache.lock(&never(), &|_| panic!("nobody else builds")).unwrap()
    }

    fn fill(partial: &PartialImage) {
        for name in [KERNEL, MODULES_CPIO, ROOT_SQUASHFS] {
            fs::write(partial.image().join(name), name).unwrap();
        }
        let manifest = LabManifest {
            hash: serde_json::from_value(format!("{HASH}ff").into()).unwrap(),
            suite: "bookworm".into(),
            architecture: "amd64".into(),
            kernel_release: "6.1.0-1-amd64".into(),
            packages: [("fio".to_owned(), "3.33-3".to_owned())].into(),
        };
        fs::write(partial.image().join(MANIFEST), serde_json::to_string(&manifest).unwrap()).unwrap();
    }

    #[test]
    fn a_finished_image_is_found_and_nothing_else_remains() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path());
        assert!(cache.find(HASH).is_none());
        let lock = lock(&cache);
        let partial = cache.begin(HASH, &lock).unwrap();
        fill(&partial);
        assert!(cache.find(HASH).is_none());
        let image = cache.finish(partial, HASH).unwrap();
        assert_eq!(image.manifest.packages["fio"], "3.33-3");
        assert_eq!(fs::read_to_string(&image.kernel).unwrap(), KERNEL);
        let mut names: Vec<_> = fs::read_dir(cache.images())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [HASH, "lock"]);
    }

    #[test]
    fn a_damaged_image_is_not_found_and_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path());
        let lock = lock(&cache);
        for _ in 0..2 {
            let partial = cache.begin(HASH, &lock).unwrap();
            fill(&partial);
            let image = cache.finish(partial, HASH).unwrap();
            fs::write(image.root_squashfs, "").unwrap();
            assert!(cache.find(HASH).is_none());
        }
    }

    #[test]
    fn what_a_killed_build_left_is_removed_and_the_packages_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        let cache = Cache::new(directory.path());
        let lock = lock(&cache);
        let mut partial = cache.begin(HASH, &lock).unwrap();
        partial.set_work_directory(&elsewhere).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("root.tar"), "x").unwrap();
        fs::write(cache.debs().join("fio.deb"), "x").unwrap();
        let left = partial.directory().to_owned();
        std::mem::forget(partial); // as if the process had been killed
        assert!(left.exists());
        cache.remove_stale(&lock).unwrap();
        assert!(!left.exists() && !elsewhere.exists());
        assert!(cache.debs().join("fio.deb").exists());
    }

    #[test]
    fn a_build_that_fails_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path());
        let lock = lock(&cache);
        let partial = cache.begin(HASH, &lock).unwrap();
        let left = partial.directory().to_owned();
        assert!(left.exists());
        drop(partial);
        assert!(!left.exists());
    }

    #[test]
    fn the_second_of_two_waits_and_can_be_interrupted() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path());
        let first = lock(&cache);
        let interrupted = never();
        let result = cache.lock(&interrupted, &|detail| {
            assert_eq!(detail, format!("process {} is building the same image", std::process::id()));
            interrupted.store(true, Ordering::Relaxed);
        });
        assert!(matches!(result, Err(LabImageError::Interrupted)));
        drop(first);
        lock(&cache);
    }
}
