//! `nestor lab`: the image that every machine boots.

use anyhow::{Result, bail};
use nestor_machine::lab_image::{self, AddedKernel, AddedQemu, LabImage};
use nestor_text::units::ByteUnit;
use serde_json::json;

use crate::arguments::LabCommand;
use crate::output::print_json;
use crate::paths;

/// Runs `nestor lab …`.
///
/// # Errors
/// When the image cannot be made, or is not there.
pub fn run(command: &LabCommand) -> Result<()> {
    match command {
        LabCommand::Build { json } => tell(&crate::lab_image::ensure(None)?, *json),
        LabCommand::Pack { pack, json } => tell(&crate::lab_image::ensure(Some(*pack))?, *json),
        LabCommand::Kernel { name, file, modules, json } => {
            let added = crate::lab_image::add_kernel(name, file, modules.as_deref())?;
            tell_kernel(name, &added, *json)
        }
        LabCommand::Qemu { name, file, json } => {
            tell_qemu(name, &crate::lab_image::add_qemu(name, file)?, *json)
        }
        LabCommand::ScatteredImage { path, bytes } => Ok(nestor_lab::make_scattered(path, *bytes)?),
        LabCommand::Show { json } => {
            let Some(image) = lab_image::find(&paths::cache_directory(), None) else {
                bail!("the lab image does not exist yet; `nestor lab build` makes it");
            };
            tell(&image, *json)
        }
    }
}

fn tell(image: &LabImage, json: bool) -> Result<()> {
    if json { print_json(&describe(image)?) } else { say(image) }
}

fn tell_kernel(name: &str, added: &AddedKernel, json: bool) -> Result<()> {
    let about = &added.about;
    if json {
        return print_json(&json!({ "name": name, "directory": added.image.directory, "kernel": about }));
    }
    outln!("{name}: Linux {}", about.version);
    outln!("  from a file with SHA-256 {}", about.sha256);
    if !about.missing_modules.is_empty() {
        outln!("  without these modules, which some stacks need: {}", about.missing_modules.join(", "));
    }
    outln!("  a file system whose machine boots it: ext4:kernel={name}");
    Ok(())
}

fn tell_qemu(name: &str, added: &AddedQemu, json: bool) -> Result<()> {
    let about = &added.about;
    if json {
        return print_json(&json!({ "name": name, "directory": added.image.directory, "qemu": about }));
    }
    outln!("{name}: QEMU {}", about.version);
    outln!("  from a file with SHA-256 {}", about.sha256);
    outln!("  with its libraries, modules and firmware: SHA-256 {}", about.contents);
    if !about.missing_devices.is_empty() {
        outln!("  without these devices, which some stacks need: {}", about.missing_devices.join(", "));
    }
    outln!("  a guest that runs in it: ext4/kvm:qemu={name}");
    Ok(())
}

fn describe(image: &LabImage) -> Result<serde_json::Value> {
    Ok(json!({
        "directory": image.directory,
        "kernel": image.kernel,
        "modules_cpio": image.modules_cpio,
        "root_squashfs": image.root_squashfs,
        "hypervisor": image.hypervisor,
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
        "  Debian {} {}, Linux {}, {} packages, {}",
        image.manifest.suite,
        image.manifest.architecture,
        image.manifest.kernel_release,
        image.manifest.packages.len(),
        ByteUnit::MiB.whole(bytes)
    );
    Ok(())
}
