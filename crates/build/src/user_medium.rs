//! Devices and files of the user's: looked at before they are used, and left without a signature.

use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::{Layer, MediumKind};

use crate::BuildError;
use crate::builder::refused;

/// Refuses a medium that is in use, or that carries a signature unless it was named for overwriting.
///
/// # Errors
/// What is wrong with it and what to do.
pub(crate) fn check(
    machine: &Machine,
    layer: &Layer,
    path: &str,
    kind: MediumKind,
    may_overwrite: bool,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let format = "%F";
    let found = machine
        .run(Command::new(["stat", "--dereference", &format!("--format={format}"), "--", path]))
        .map_err(failed)?;
    if !found.succeeded() {
        let what = match kind {
            MediumKind::File => format!("there is no file {path}; make it with `truncate --size 16G {path}`"),
            _ => format!("there is no device {path}; `lsblk` lists those there are"),
        };
        return Err(refused(layer, what));
    }
    let kind_found = found.stdout_text().trim().to_owned();
    let wanted = if kind == MediumKind::File { "regular" } else { "block special" };
    if !kind_found.starts_with(wanted) {
        return Err(refused(layer, format!("{path} is a {kind_found}, not a {wanted} file; use `dev:` for block devices and `file:` for files")));
    }
    if kind == MediumKind::Device {
        refuse_if_in_use(machine, layer, path)?;
    } else {
        let loops = machine.run_ok(Command::new(["losetup", "--associated", path])).map_err(failed)?;
        if !loops.trim().is_empty() {
            return Err(refused(layer, format!("{path} is in use as a loop device: {}", loops.trim())));
        }
    }
    let signatures = machine
        .run_ok(Command::new(["wipefs", "--no-act", "--noheadings", "--output", "OFFSET,TYPE,LABEL", "--", path]))
        .map_err(failed)?;
    let signatures: Vec<&str> = signatures.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !signatures.is_empty() && !may_overwrite {
        return Err(refused(
            layer,
            format!(
                "{path} carries a signature ({}), so it may hold data; nothing was written. If all of it may be lost, \
                 say so with `--overwrite {path}`",
                signatures.join("; ")
            ),
        ));
    }
    if !signatures.is_empty() {
        erase(machine, path).map_err(failed)?;
    }
    Ok(())
}

/// A device that is mounted, or part of something, is refused whatever the user says.
fn refuse_if_in_use(machine: &Machine, layer: &Layer, path: &str) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let listing = machine
        .run_ok(Command::new(["lsblk", "--noheadings", "--raw", "--output", "NAME,TYPE,MOUNTPOINTS", "--", path]))
        .map_err(failed)?;
    if let Some(problem) = in_use(&listing) {
        return Err(refused(layer, format!("{path} is in use: {problem}; nothing was written")));
    }
    // Swap, md, device-mapper and other kernels' users hold the device exclusively.
    let exclusive = machine.run(Command::new(["blockdev", "--rereadpt", path])).map_err(failed)?;
    if !exclusive.succeeded() && exclusive.stderr_text().contains("busy") {
        return Err(refused(layer, format!("{path} is in use (the kernel says it is busy); nothing was written")));
    }
    Ok(())
}

/// What uses a device, from `lsblk --raw --output NAME,TYPE,MOUNTPOINTS` of it and what is on it.
fn in_use(listing: &str) -> Option<String> {
    let mut rows = listing.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mounted = |row: &[&str]| row.get(2).filter(|m| !m.is_empty()).map(|m| m.replace("\\x0a", " and "));
    let first = rows.next()?;
    if let Some(target) = mounted(&first) {
        return Some(format!("it is mounted on {target}"));
    }
    rows.next().map(|row| match mounted(&row) {
        Some(target) => format!("its {} {} is mounted on {target}", row.get(1).unwrap_or(&"part"), row[0]),
        None => format!("it holds the {} {}", row.get(1).unwrap_or(&"part"), row[0]),
    })
}

/// Removes the signatures that building left, so that the medium is as empty as it was found.
pub(crate) fn erase(machine: &Machine, device: &str) -> Result<(), MachineError> {
    machine.run_ok(Command::new(["wipefs", "--all", "--force", "--quiet", "--", device])).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_with_anything_on_it_is_in_use() {
        assert_eq!(in_use("sdb disk \n"), None);
        assert_eq!(in_use("sdb disk /srv\n").as_deref(), Some("it is mounted on /srv"));
        assert_eq!(in_use("sdb disk \nsdb1 part /srv\n").as_deref(), Some("its part sdb1 is mounted on /srv"));
        assert_eq!(in_use("sdb disk \nvg-data lvm \n").as_deref(), Some("it holds the lvm vg-data"));
        assert_eq!(in_use("sda disk [SWAP]\n").as_deref(), Some("it is mounted on [SWAP]"));
    }
}
