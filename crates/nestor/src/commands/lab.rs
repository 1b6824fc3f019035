//! `nestor lab`: the image that every machine boots.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use nestor_machine::lab_image::{self, EnsureOptions, LabImage, LabProgress, Recipe};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::LabCommand;
use crate::output::print_json;
use crate::paths;
use crate::progress::Progress;

/// Runs `nestor lab …`.
///
/// # Errors
/// When the image cannot be made, or is not there.
pub fn run(command: &LabCommand) -> Result<()> {
    match command {
        LabCommand::Build { json } => {
            let image = ensure_lab_image()?;
            if *json { print_json(&describe(&image)?) } else { say(&image) }
        }
        LabCommand::ScatteredImage { path, bytes } => Ok(nestor_build::make_scattered(path, *bytes)?),
        LabCommand::Show { json } => {
            let Some(image) = lab_image::find(&paths::cache_directory()) else {
                bail!("the lab image does not exist yet; `nestor lab build` makes it");
            };
            if *json { print_json(&describe(&image)?) } else { say(&image) }
        }
    }
}

/// Hash of the current recipe and whether its image is there.
pub fn state() -> (String, bool) {
    (Recipe::built_in().hash(), lab_image::find(&paths::cache_directory()).is_some())
}

/// The lab image, made first if it is not there.
///
/// # Errors
/// When it cannot be made: no network, no room, missing programs.
pub fn ensure_lab_image() -> Result<LabImage> {
    let cache_directory = paths::cache_directory();
    let recorded = |directory: &Path| {
        errln!(
            "the lab image in {} was made by a version that recorded no hashes; from now on it must not \
             change",
            directory.display()
        );
    };
    if let Some(image) = lab_image::find_verified(&cache_directory, &recorded)? {
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
    let options = EnsureOptions { cache_directory, progress: &progress, interrupted: &interrupted };
    let image = lab_image::ensure(&options);
    bar.finish();
    Ok(image?)
}

fn describe(image: &LabImage) -> Result<serde_json::Value> {
    Ok(json!({
        "directory": image.directory,
        "kernel": image.kernel,
        "modules_cpio": image.modules_cpio,
        "root_squashfs": image.root_squashfs,
        "hash": image.manifest.hash,
        "contents": image.contents()?,
        "kernel_release": image.manifest.kernel_release,
        "suite": image.manifest.suite,
        "packages": image.manifest.packages,
    }))
}

fn say(image: &LabImage) -> Result<()> {
    let bytes = std::fs::metadata(&image.root_squashfs).map_or(0, |m| m.len());
    outln!("{}", image.directory.display());
    outln!(
        "  Debian {} {}, Linux {}, {} packages, {} MiB",
        image.manifest.suite,
        image.manifest.architecture,
        image.manifest.kernel_release,
        image.manifest.packages.len(),
        bytes >> 20
    );
    Ok(())
}
