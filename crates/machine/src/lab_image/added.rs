//! What images with something of the user's in them have in common: each is a whole lab image with that beside the image's own.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::cache::{Cache, KERNEL, MANIFEST, MODULES_CPIO, ROOT_SQUASHFS};
use super::{LabImage, LabImageError, absolute, verify};

/// What is told of such an image beside its files.
pub(super) trait About: DeserializeOwned {
    /// The [contents](LabImage::contents) of the lab image that the rest of it is of.
    fn base(&self) -> &str;
}

/// The directory of an image with what is told of it in `file`, checked as [`find_verified`](super::find_verified) checks the lab image. `None` if there
/// is none of that name for this lab image: none was added, or to another image, so that two would differ in more than what was added.
///
/// # Errors
/// [`LabImageError::NotTrusted`], [`LabImageError::Changed`].
pub(super) fn find<A: About>(
    cache_directory: &Path,
    directory_name: &str,
    file: &str,
    base: &LabImage,
) -> Result<Option<(PathBuf, A)>, LabImageError> {
    let cache = Cache::new(&absolute(cache_directory)?);
    cache.check_owner()?;
    let directory = cache.image_directory(directory_name);
    let Ok(text) = fs::read_to_string(directory.join(file)) else { return Ok(None) };
    let Ok(about) = serde_json::from_str::<A>(&text) else { return Ok(None) };
    if about.base() != base.contents()? {
        return Ok(None);
    }
    verify::verify(&directory)?;
    Ok(Some((directory, about)))
}

/// The image in a directory, of which all but the files is as of the lab image.
pub(super) fn image_in(directory: PathBuf, base: &LabImage) -> LabImage {
    LabImage {
        kernel: directory.join(KERNEL),
        modules_cpio: directory.join(MODULES_CPIO),
        root_squashfs: directory.join(ROOT_SQUASHFS),
        directory,
        ..base.clone()
    }
}

/// Copies the lab image's files to an image that is being made of it.
pub(super) fn copy_base(base: &LabImage, image: &Path) -> Result<(), LabImageError> {
    for (from, to) in
        [(&base.kernel, KERNEL), (&base.modules_cpio, MODULES_CPIO), (&base.root_squashfs, ROOT_SQUASHFS)]
    {
        copy(from, &image.join(to))?;
    }
    copy(&base.directory.join(MANIFEST), &image.join(MANIFEST))
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), LabImageError> {
    fs::copy(from, to).map(drop).map_err(LabImageError::file("cannot copy", from))
}
