//! libvirt's `<disk>` (<https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms>).

use nestor_stack::Stack;
use nestor_stack::layers::hypervisors::devices::LibvirtDisk;
use nestor_text::{is_hidden, markup_escaped};

use super::{Parts, PasteError};

/// The `<disk>` of a stack's virtual machine, with comments on what else has to be in the domain.
///
/// # Errors
/// When libvirt has no words for it.
pub fn libvirt_xml(stack: &Stack) -> Result<String, PasteError> {
    let parts = Parts::of(stack)?;
    let device = parts.disk.device;
    let Some(disk) = device.libvirt else {
        let what = format!(
            "libvirt has no disk bus for the emulated controller {} in most versions in use",
            device.name
        );
        return Err(PasteError::new(stack, &what, "use --as qemu"));
    };
    // A block device is raw.
    let format = parts.image.map_or("raw", |image| image.layer.name());
    if parts.image.is_some_and(|image| !image.format.libvirt) {
        let what = format!("libvirt does not support {format} images");
        return Err(PasteError::new(stack, &what, "use --as qemu"));
    }
    let path = parts.disk_path();
    if path.contains(is_hidden) {
        let help = "rename the disk, or use `--as qemu`";
        return Err(PasteError::new(
            stack,
            "its disk's name has a character that XML or a reader would lose",
            help,
        ));
    }
    let mut lines: Vec<String> =
        comments(&parts, &disk).into_iter().map(|c| format!("<!-- {c} -->")).collect();
    let kind = if parts.image.is_some() { ("file", "file") } else { ("block", "dev") };
    lines.push(format!("<disk type='{}' device='disk'>", kind.0));
    lines.extend(driver(&parts, format, &disk));
    lines.push(format!("  <source {}='{}'/>", kind.1, markup_escaped(&path)));
    lines.push(format!("  <target dev='{}' bus='{}'/>", disk.target, disk.bus));
    lines.push("</disk>".to_owned());
    Ok(lines.join("\n") + "\n")
}

fn driver(parts: &Parts<'_>, format: &str, disk: &LibvirtDisk) -> Vec<String> {
    let block = &parts.disk.block;
    let mut attributes = format!(
        "name='qemu' type='{format}' cache='{}' io='{}' discard='{}'",
        block.cache.name(),
        block.aio.name(),
        block.discard.name()
    );
    if parts.disk.iothread && disk.controller.is_none() {
        attributes.push_str(" iothread='1'");
    }
    let l2_cache = parts.image.and_then(|image| image.layer.size("l2-cache"));
    match l2_cache {
        Some(size) => vec![
            format!("  <driver {attributes}>"),
            "    <metadata_cache>".to_owned(),
            format!("      <max_size unit='bytes'>{}</max_size>", size.get()),
            "    </metadata_cache>".to_owned(),
            "  </driver>".to_owned(),
        ],
        None => vec![format!("  <driver {attributes}/>")],
    }
}

fn comments(parts: &Parts<'_>, disk: &LibvirtDisk) -> Vec<String> {
    let mut comments = vec![format!("{}, below <devices> of the domain", comment(&parts.stack.to_string()))];
    comments.extend(parts.placeholders().iter().map(|text| comment(text)));
    if parts.disk.iothread {
        comments.push("also below <domain>: <iothreads>1</iothreads>".to_owned());
    }
    if let Some(model) = disk.controller {
        let controller = format!("<controller type='scsi' index='0' model='{model}'");
        let rest = if parts.disk.iothread { "><driver iothread='1'/></controller>" } else { "/>" };
        comments.push(format!("also below <devices>: {controller}{rest}"));
    }
    let tuning = parts.machine.tuning;
    if let Some(scheduler) = tuning.scheduler {
        let disk = disk.target;
        comments.push(format!("also in the guest: echo {scheduler} > /sys/block/{disk}/queue/scheduler"));
    }
    comments
}

/// Two hyphens would end a comment.
fn comment(text: &str) -> String {
    text.replace("--", "- -")
}
