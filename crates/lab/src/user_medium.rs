//! Devices and files of the user: checked before use, and left without a signature.

use nestor_machine::{Cause, Command, FileKind, Machine};
use nestor_stack::{Layer, MediumKind};

use crate::BuildError;

/// Takes a medium until it is released, and erases its data then. Refuses one that is in use, or that
/// carries a signature or may hold any other data unless it was named for overwriting.
///
/// # Errors
/// What is wrong with the medium and what to do.
pub(crate) fn take(
    machine: &Machine,
    layer: &Layer,
    path: &str,
    kind: MediumKind,
    may_overwrite: bool,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let wanted = if kind == MediumKind::File { FileKind::File } else { FileKind::BlockDevice };
    machine.claim(path, wanted).map_err(|e| match e.cause() {
        Cause::NotThere => BuildError::refused(layer, not_there(path, wanted)),
        Cause::OfAnotherKind { found } => BuildError::refused(layer, wrong_kind(path, found, wanted)),
        _ if e.machine_is_lost() => failed(e),
        _ => BuildError::refused(layer, e.to_string()),
    })?;
    let taken = refuse_signatures(machine, layer, path, may_overwrite)
        .and_then(|()| if may_overwrite { Ok(()) } else { refuse_data(machine, layer, path) })
        .and_then(|()| machine.erase_at_release(path).map_err(failed));
    if taken.is_err() {
        // Not marked as ours, so nothing on it is erased.
        let _ = machine.release(path);
    }
    taken
}

/// What to do about a medium that does not exist.
pub(crate) fn not_there(path: &str, wanted: FileKind) -> String {
    match wanted {
        FileKind::File => {
            format!("the file {path} does not exist; make it with `truncate --size 16G {path}`")
        }
        FileKind::Directory => {
            format!("the directory {path} does not exist; make it with `mkdir {path}`")
        }
        _ => format!("the device {path} does not exist; `lsblk` lists the devices"),
    }
}

/// What to write instead of `dev:`, `file:` or `dir:` with something of another kind.
pub(crate) fn wrong_kind(path: &str, found: FileKind, wanted: FileKind) -> String {
    let instead = match found {
        FileKind::BlockDevice => format!("write `dev:{path}`"),
        FileKind::File => format!("write `file:{path}`"),
        FileKind::Directory => {
            format!(
                "name a file in it, which `truncate --size 16G {path}/disk.img` makes, or write `dir:{path}` without a file system above it"
            )
        }
        FileKind::Other => "media are block devices, regular files and directories".to_owned(),
    };
    format!("{path} is {found}, not {wanted}; {instead}")
}

/// Refuses a medium that may hold data; erases one that may be overwritten.
fn refuse_signatures(
    machine: &Machine,
    layer: &Layer,
    path: &str,
    may_overwrite: bool,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let signatures = machine
        .run_ok(Command::new([
            "wipefs",
            "--no-act",
            "--noheadings",
            "--output",
            "OFFSET,TYPE,LABEL",
            "--",
            path,
        ]))
        .map_err(failed)?;
    let signatures: Vec<&str> = signatures.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !signatures.is_empty() && !may_overwrite {
        return Err(BuildError::refused(
            layer,
            format!(
                "{path} carries a signature ({}), so it may hold data; nothing was written. If you can lose \
                 all of it, use `--overwrite {path}`",
                signatures.join("; ")
            ),
        ));
    }
    if !signatures.is_empty() {
        machine
            .run_ok(Command::new(["wipefs", "--all", "--force", "--quiet", "--", path]))
            .map_err(failed)?;
        // Partitions that were on it are gone; a file or a partition has none to forget.
        let _ = machine.run(Command::new(["blockdev", "--rereadpt", path]));
    }
    Ok(())
}

/// Refuses a medium that is not known to be all zeros: most formats have no signature, or none that `wipefs` knows.
fn refuse_data(machine: &Machine, layer: &Layer, path: &str) -> Result<(), BuildError> {
    let found = machine.inspect(path).map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
    match found {
        Some(found) => Err(BuildError::refused(
            layer,
            format!(
                "{path} {found}; nothing was written. If you can lose all of it, use `--overwrite {path}`"
            ),
        )),
        None => Ok(()),
    }
}
