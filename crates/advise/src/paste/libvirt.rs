//! libvirt's `<disk>` (<https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms>).

use nestor_stack::Stack;
use nestor_stack::layers::hypervisors::Aio;

use super::{Parts, PasteError};

/// How a device model is called in libvirt.
struct Bus {
    bus: &'static str,
    target: &'static str,
    /// A controller that has to be in the domain besides.
    controller: Option<&'static str>,
}

fn bus(device: &str) -> Option<Bus> {
    let (bus, target, controller) = match device {
        "virtio-blk" => ("virtio", "vda", None),
        "virtio-scsi" => ("scsi", "sda", Some("virtio-scsi")),
        "lsi" => ("scsi", "sda", Some("lsilogic")),
        "mptsas" => ("scsi", "sda", Some("lsisas1068")),
        "pvscsi" => ("scsi", "sda", Some("vmpvscsi")),
        "ahci" => ("sata", "sda", None),
        "ide" => ("ide", "hda", None),
        _ => return None,
    };
    Some(Bus { bus, target, controller })
}

/// The `<disk>` of a stack's virtual machine, with comments on what else has to be in the domain.
///
/// # Errors
/// When libvirt has no words for it.
pub fn libvirt_xml(stack: &Stack) -> Result<String, PasteError> {
    let parts = Parts::of(stack)?;
    let device = parts.machine.device.name;
    let Some(bus) = bus(device) else {
        let what =
            format!("libvirt has no disk bus for the emulated controller {device} in most versions in use");
        return Err(PasteError::new(stack, &what, "use --as qemu"));
    };
    let format = parts.image.map_or("raw", |(image, _)| image.name());
    if format == "vhdx" {
        return Err(PasteError::new(stack, "libvirt does not support vhdx images", "use --as qemu"));
    }
    let mut lines: Vec<String> =
        comments(&parts, &bus).into_iter().map(|c| format!("<!-- {c} -->")).collect();
    let kind = if parts.image.is_some() { ("file", "file") } else { ("block", "dev") };
    lines.push(format!("<disk type='{}' device='disk'>", kind.0));
    lines.extend(driver(&parts, format, &bus));
    lines.push(format!("  <source {}='{}'/>", kind.1, escaped(&parts.disk_path())));
    lines.push(format!("  <target dev='{}' bus='{}'/>", bus.target, bus.bus));
    lines.push("</disk>".to_owned());
    Ok(lines.join("\n") + "\n")
}

fn driver(parts: &Parts<'_>, format: &str, bus: &Bus) -> Vec<String> {
    let block = &parts.machine.block;
    let io = match block.aio {
        Aio::Threads => "threads",
        Aio::Native => "native",
        Aio::IoUring => "io_uring",
    };
    let mut attributes = format!(
        "name='qemu' type='{format}' cache='{}' io='{io}' discard='{}'",
        crate::cache_mode(&parts.stack.to_string()).unwrap_or_default(),
        block.discard.name()
    );
    if parts.machine.iothread && bus.controller.is_none() {
        attributes.push_str(" iothread='1'");
    }
    let l2_cache = parts.image.and_then(|(image, _)| image.size("l2-cache"));
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

fn comments(parts: &Parts<'_>, bus: &Bus) -> Vec<String> {
    let mut comments = vec![format!("{}, below <devices> of the domain", comment(&parts.stack.to_string()))];
    comments.extend(parts.placeholders().iter().map(|text| comment(text)));
    if parts.machine.iothread {
        comments.push("also below <domain>: <iothreads>1</iothreads>".to_owned());
    }
    if let Some(model) = bus.controller {
        let controller = format!("<controller type='scsi' index='0' model='{model}'");
        let rest = if parts.machine.iothread { "><driver iothread='1'/></controller>" } else { "/>" };
        comments.push(format!("also below <devices>: {controller}{rest}"));
    }
    let tuning = parts.machine.tuning;
    if let Some(scheduler) = tuning.scheduler {
        let disk = bus.target;
        comments.push(format!("also in the guest: echo {scheduler} > /sys/block/{disk}/queue/scheduler"));
    }
    comments
}

/// Two hyphens would end a comment.
fn comment(text: &str) -> String {
    text.replace("--", "- -")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}
