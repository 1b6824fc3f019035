//! The command line of a QEMU that runs.

mod backend;
mod board;
mod device;
mod words;

use nestor_stack::Bytes;

use crate::properties::Properties;
use crate::{Accelerated, ConfigError, LeftOut, VirtualMachine};
pub(crate) use board::scsi_controller;
use words::{CommandLine, Word};

/// Whether a program's path is that of a QEMU that runs whole machines.
pub fn is_qemu(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    // The kernel says so of a program that was replaced by a newer one.
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    name.starts_with("qemu-system-") || matches!(name, "qemu" | "kvm" | "qemu-kvm")
}

/// Reads the arguments of a QEMU, without the program itself. `has_kvm` is whether it was seen to have a machine of KVM's; `source_name`
/// stands for a file in errors.
///
/// # Errors
/// An argument that says something of disks, memory or processors and that QEMU would not understand either.
pub fn read(
    source_name: &str,
    arguments: &[String],
    has_kvm: Option<bool>,
) -> Result<VirtualMachine, ConfigError> {
    let help = "Nestor reads the options of QEMU 2.12 to 10; is it one of another version, or patched?";
    read_words(arguments, has_kvm).map_err(|message| ConfigError::new(source_name, None, message, help))
}

fn read_words(arguments: &[String], has_kvm: Option<bool>) -> Result<VirtualMachine, String> {
    let line = CommandLine::parse(arguments)?;
    let mut left_out = line.left_out.clone();
    let asked = accelerators(&line)?;
    let is_kvm = has_kvm.unwrap_or_else(|| asked.first().is_some_and(|first| first != "tcg"));
    if let Some(other) = asked.first().filter(|first| !["kvm", "tcg"].contains(&first.as_str())) {
        left_out.push(LeftOut::new(format!("accelerator {other}"), "stacks have KVM and QEMU's emulation"));
    }
    let disks = device::disks(&line, &mut left_out)?;
    left_out.push(LeftOut::new(
        "what was plugged in or changed while it ran",
        "it is not on QEMU's command line",
    ));
    Ok(VirtualMachine {
        name: name(&line)?,
        accelerated: if is_kvm { Accelerated::Kvm } else { Accelerated::Emulated },
        memory: Some(memory(&line)?),
        cpus: Some(cpus(&line)?),
        disks,
        left_out,
    })
}

/// The accelerators in the order in which QEMU tries them (QEMU's manual, `-accel`).
fn accelerators(line: &CommandLine) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for word in &line.words {
        match word {
            Word::Option { name: "accel", value } => {
                found.extend(Properties::parse(value, "accel")?.get("accel").map(str::to_owned));
            }
            Word::Option { name: "machine" | "M", value } => {
                let listed = Properties::parse(value, "type")?;
                found.extend(listed.get("accel").into_iter().flat_map(|of| of.split(':')).map(str::to_owned));
            }
            Word::Flag("enable-kvm") => found.push("kvm".to_owned()),
            _ => {}
        }
    }
    if found.is_empty() {
        // As QEMU does.
        found.push("tcg".to_owned());
    }
    Ok(found)
}

fn name(line: &CommandLine) -> Result<Option<String>, String> {
    let Some(value) = line.last("name") else { return Ok(None) };
    let name = Properties::parse(value, "guest")?;
    Ok(name.get("guest").or_else(|| name.get("name")).map(str::to_owned))
}

/// What QEMU gives a machine of which nothing else is said (`-m`).
const DEFAULT_MEMORY: Bytes = Bytes::mib(128);

fn memory(line: &CommandLine) -> Result<Bytes, String> {
    let Some(value) = line.last("m") else { return Ok(DEFAULT_MEMORY) };
    let properties = Properties::parse(value, "size")?;
    let Some(size) = properties.get("size") else { return Ok(DEFAULT_MEMORY) };
    size_in(size, 1 << 20).ok_or_else(|| format!("-m {value}: `{size}` is no size of memory"))
}

/// A size as QEMU writes it, in `unit` where no other unit is said (util/cutils.c, `qemu_strtosz`).
fn size_in(text: &str, unit: u64) -> Option<Bytes> {
    let text = text.trim();
    let letter = text.chars().last()?;
    let shift = "BKMGTPE".find(letter.to_ascii_uppercase());
    let (digits, unit) = match shift {
        Some(step) => (&text[..text.len() - letter.len_utf8()], 1_u64 << (10 * step)),
        None => (text, unit),
    };
    if let Some(hexadecimal) = digits.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok()?.checked_mul(unit).map(Bytes);
    }
    if !digits.contains('.') {
        return digits.parse::<u64>().ok()?.checked_mul(unit).map(Bytes);
    }
    let size = digits.parse::<f64>().ok().filter(|size| size.is_finite() && *size >= 0.0)? * unit as f64;
    // A fraction of a byte is nothing, and more than the numbers hold is no size.
    (size < u64::MAX as f64).then_some(Bytes(size as u64))
}

/// Virtual processors: as many as are said, or as the topology has (hw/core/machine-smp.c).
fn cpus(line: &CommandLine) -> Result<u64, String> {
    let Some(value) = line.last("smp") else { return Ok(1) };
    let properties = Properties::parse(value, "cpus")?;
    let number = |key: &str| -> Result<Option<u64>, String> {
        let read = properties.get(key).map(|text| text.parse::<u64>().ok().filter(|count| *count > 0));
        match read {
            Some(None) => Err(format!("-smp {value}: {key} is no number of processors")),
            Some(count) => Ok(count),
            None => Ok(None),
        }
    };
    if let Some(cpus) = number("cpus")? {
        return Ok(cpus);
    }
    let mut product = 1_u64;
    for key in ["sockets", "dies", "clusters", "cores", "threads"] {
        product = product.saturating_mul(number(key)?.unwrap_or(1));
    }
    Ok(product)
}
