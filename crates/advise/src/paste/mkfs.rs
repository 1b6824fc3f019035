//! Lines that make and mount the file systems and the image of a stack.

use nestor_stack::{BlockTuning, Layer, MkfsTarget, Stack};

use super::{HOST_DEVICE, IMAGE_DIRECTORY, Image, Parts, PasteError};
use nestor_text::shell_quoted as quoted;

/// Where the guest mounts its file system, until the user says otherwise.
const GUEST_DIRECTORY: &str = "/srv/data";
/// Size of the image, until the user says otherwise.
const IMAGE_BYTES: u64 = 64 << 30;

/// Lines for the host, then lines for the guest. What would overwrite without asking is left out of the mkfs commands.
///
/// # Errors
/// When the stack is not of one virtual machine, or has a layer that only this program can make.
pub fn mkfs_lines(stack: &Stack) -> Result<String, PasteError> {
    let parts = Parts::of(stack)?;
    let mut lines = vec![format!("# {stack}")];
    let device = parts.host_device();
    if let Some(image @ Image { host, .. }) = parts.image {
        lines.push("# on the host".to_owned());
        if device == HOST_DEVICE {
            lines.push(format!("# {HOST_DEVICE} is a placeholder for your disk; mkfs destroys its contents"));
        } else {
            lines.push(format!("# mkfs destroys the contents of {device}"));
        }
        lines.extend(file_system(host, &device, IMAGE_DIRECTORY));
        lines.push(format!(
            "# {} is a placeholder for the path of your image, and {} GiB for its size",
            parts.disk_path(),
            IMAGE_BYTES >> 30
        ));
        lines.push(create(&parts, image)?);
    }
    let tuned = tuning(&parts.medium.block_tuning(), &queue_name(&device));
    if parts.image.is_none() && !tuned.is_empty() {
        lines.push("# on the host".to_owned());
        if device == HOST_DEVICE {
            lines.push(format!("# {HOST_DEVICE} is a placeholder for your disk"));
        }
    }
    lines.extend(tuned);
    if let Some(guest) = parts.guest {
        lines.push("# in the guest".to_owned());
        let disk = format!("/dev/{}", parts.disk.device.second_disk);
        lines.push(format!("# {disk} is a placeholder for the guest's disk; mkfs destroys its contents"));
        lines.extend(file_system(guest, &disk, GUEST_DIRECTORY));
        lines.extend(tuning(&parts.machine.tuning, parts.disk.device.second_disk));
    }
    Ok(lines.join("\n") + "\n")
}

/// What the kernel calls a device below /sys/block: its own name, to which other paths, such as those by-id, are links.
fn queue_name(device: &str) -> String {
    match device.strip_prefix("/dev/") {
        Some(name) if !name.contains('/') && quoted(name) == name => name.to_owned(),
        _ => format!("$(basename $(readlink -f {}))", quoted(device)),
    }
}

fn file_system(layer: &Layer, device: &str, directory: &str) -> Vec<String> {
    let Some(spec) = layer.file_system() else { return Vec::new() };
    let command = (spec.mkfs)(layer, &MkfsTarget { device, zeroed: false, drawn: None });
    // The lab's own devices are empty; a person should be asked.
    let asks = command.into_iter().filter(|word| !["-F", "-f", "-q"].contains(&word.as_str()));
    let mkfs: Vec<String> = asks.map(|word| quoted(&word)).collect();
    // The lab keeps ext4 from writing inode tables while it measures; elsewhere they are to be written.
    let mut options = (spec.mount_options)(layer);
    options.retain(|option| option != "noinit_itable" || layer.list("mount").any(|own| own == option));
    let mut mount = format!("mount -t {}", spec.program.unwrap_or(spec.mount_type));
    if !options.is_empty() {
        mount.push_str(&format!(" -o {}", options.join(",")));
    }
    let mut lines = vec![
        mkfs.join(" "),
        format!("mkdir -p {directory}"),
        format!("{mount} {} {directory}", quoted(device)),
    ];
    if layer.is_on("nocow") {
        lines.push(format!("chattr +C {directory}    # before making any file there"));
    }
    lines
}

fn create(parts: &Parts<'_>, Image { layer, format, .. }: Image<'_>) -> Result<String, PasteError> {
    let size = layer.size("size").map_or(IMAGE_BYTES, |size| size.get());
    let command = (format.create)(layer, &parts.disk_path(), size);
    if command.first().is_none_or(|program| program != "qemu-img") {
        let what = format!("only the laboratory makes {layer}; no other tool can");
        return Err(PasteError::new(parts.stack, &what, "use alloc=sparse, falloc or full"));
    }
    let words = command.iter().filter(|word| *word != "-q").map(|word| quoted(word));
    Ok(words.collect::<Vec<_>>().join(" "))
}

fn tuning(tuning: &BlockTuning<'_>, disk: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut set =
        |file: &str, value: String| lines.push(format!("echo {value} > /sys/block/{disk}/queue/{file}"));
    if let Some(scheduler) = tuning.scheduler {
        set("scheduler", scheduler.to_owned());
    }
    if let Some(readahead) = tuning.readahead {
        set("read_ahead_kb", (readahead.get() >> 10).to_string());
    }
    if tuning.no_merges {
        set("nomerges", "2".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::queue_name;

    #[test]
    fn queues_are_found_below_the_kernels_name() {
        assert_eq!(queue_name("/dev/sdb"), "sdb");
        assert_eq!(queue_name("/dev/disk/by-id/ata-1"), "$(basename $(readlink -f /dev/disk/by-id/ata-1))");
    }
}
