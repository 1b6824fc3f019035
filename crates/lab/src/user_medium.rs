//! Devices and files of the user: checked before use, and left without a signature.

use nestor_machine::{Command, Machine};
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
    let format = "%F";
    let found = machine
        .run(Command::new(["stat", "--dereference", &format!("--format={format}"), "--", path]))
        .map_err(failed)?;
    if !found.succeeded() {
        let what = match kind {
            MediumKind::File => {
                format!("the file {path} does not exist; make it with `truncate --size 16G {path}`")
            }
            _ => format!("the device {path} does not exist; `lsblk` lists the devices"),
        };
        return Err(BuildError::refused(layer, what));
    }
    let kind_found = found.stdout_text().trim().to_owned();
    let wanted = if kind == MediumKind::File { "regular" } else { "block special" };
    if !kind_found.starts_with(wanted) {
        return Err(BuildError::refused(layer, wrong_kind(path, &kind_found, wanted)));
    }
    machine.claim(path).map_err(|e| {
        if e.machine_is_lost() { failed(e) } else { BuildError::refused(layer, e.to_string()) }
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

/// What to write instead of `dev:` or `file:` with something of another kind.
fn wrong_kind(path: &str, found: &str, wanted: &str) -> String {
    let instead = match found {
        "block special file" => format!("write `dev:{path}`"),
        "directory" => format!("name a file in it; `truncate --size 16G {path}/disk.img` makes one"),
        found if found.starts_with("regular") => format!("write `file:{path}`"),
        _ => "media are block devices and regular files".to_owned(),
    };
    format!("{path} is a {found}, not a {wanted} file; {instead}")
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
