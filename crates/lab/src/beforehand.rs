//! What can be known to be missing before anything is tried, made or kept.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;

use nestor_machine::FileKind;
use nestor_stack::{Layer, MachineIndex, MachineLabel, MediumKind, Place, Stack};

use crate::lab_problem::{LabProblem, MemoryDemand};
use crate::user_medium::{not_there, wrong_kind};
use crate::{BuildError, memory};

/// Refuses a stack whose machines ask for more memory than this machine has, or whose medium is not on it. Of other machines nothing is
/// known before they are reached: there, building the stack refuses it.
///
/// # Errors
/// What is missing, and what to do.
pub fn require_machine(stack: &Stack, place: &Place, available_bytes: u64) -> Result<(), BuildError> {
    let machines = match place {
        Place::Emulated(_) => memory::roots_need(stack),
        Place::This => {
            [Some(stack.medium()), stack.source().last()]
                .into_iter()
                .flatten()
                .try_for_each(require_medium)?;
            let machines = stack.machines();
            let guests = machines.inside(MachineIndex::OUTERMOST);
            guests.map(|guest| (guest, memory::guest_needs(stack, guest))).collect()
        }
        Place::Ssh(_) | Place::Domain(_) | Place::SshPair { .. } | Place::Manager { .. } => return Ok(()),
    };
    let labels = stack.machines();
    let demands = machines.into_iter().map(|(index, bytes)| (labels[index].label, bytes));
    Ok(require_memory(demands.collect(), available_bytes)?)
}

/// Refuses machines of a stack, each with the bytes that it needs, that ask together for more than the machine that runs them has.
pub(crate) fn require_memory(
    machines: Vec<(MachineLabel, u64)>,
    available_bytes: u64,
) -> Result<(), LabProblem> {
    let demand = |(machine, bytes): (MachineLabel, u64)| MemoryDemand { machine, bytes };
    let machines: Vec<MemoryDemand> = machines.into_iter().map(demand).collect();
    let needed_bytes: u64 = machines.iter().map(|machine| machine.bytes).sum();
    if needed_bytes > available_bytes / 10 * 9 {
        return Err(LabProblem::TooMuchMemory { machines, available_bytes });
    }
    Ok(())
}

/// Refuses a device, file or directory of the user's that is not there, or is of another kind.
fn require_medium(medium: &Layer) -> Result<(), BuildError> {
    let wanted = match medium.medium_kind() {
        Some(MediumKind::Device) => FileKind::BlockDevice,
        Some(MediumKind::File) => FileKind::File,
        Some(MediumKind::Directory) => FileKind::Directory,
        _ => return Ok(()),
    };
    let Some(path) = medium.path() else { return Ok(()) };
    let shown = path.display().to_string();
    let found = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(BuildError::refused(medium, not_there(&shown, wanted)));
        }
        // Who builds it has other rights, and says what is wrong.
        Err(_) => return Ok(()),
    };
    let found = match found {
        kind if kind.is_block_device() => FileKind::BlockDevice,
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Directory,
        _ => FileKind::Other,
    };
    if found == wanted {
        return Ok(());
    }
    Err(BuildError::refused(medium, wrong_kind(&shown, found, wanted)))
}

#[cfg(test)]
mod tests {
    use nestor_stack::HostTime;

    use super::*;

    fn refused(stack: &str, place: &Place) -> String {
        let required = require_machine(&Stack::parse(stack).unwrap(), place, 8 << 30);
        required.map_or_else(|e| e.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn machines_that_ask_for_more_memory_than_there_is_are_refused() {
        let emulated = Place::Emulated(HostTime::Real);
        assert_eq!(refused("ext4/kvm:memory=4G/raw/xfs/hdd", &emulated), "fine");
        let said = refused("ext4/kvm:memory=900G/raw/xfs/hdd", &emulated);
        assert!(said.contains("(host: 901 GiB), but this machine has 8.00 GiB"), "{said}");
        assert!(refused("nfs/link:memory=900G/xfs/hdd", &emulated).contains("client: 900 GiB"));
        let elsewhere = Place::Ssh("lab".parse().unwrap());
        assert_eq!(refused("ext4/kvm:memory=900G/dev:/dev/none", &elsewhere), "fine");
    }

    #[test]
    fn a_medium_has_to_be_there_and_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        let shown = file.display();
        let as_file = format!("ext4/file:{shown}");
        assert!(refused(&as_file, &Place::This).contains(&format!("truncate --size 16G {shown}")));
        fs::write(&file, "").unwrap();
        assert_eq!(refused(&as_file, &Place::This), "fine");
        assert!(refused(&format!("ext4/dev:{shown}"), &Place::This).contains("write `file:"));
        assert!(refused("ext4/dev:/dev/none", &Place::This).contains("`lsblk` lists the devices"));
        let as_directory = |path: &str| refused(&format!("ext4/kvm/raw/dir:{path}"), &Place::This);
        assert_eq!(as_directory(&folder.path().display().to_string()), "fine");
        assert!(as_directory("/srv/none").contains("make it with `mkdir /srv/none`"));
        assert!(as_directory(&shown.to_string()).contains(&format!("write `file:{shown}`")));
        let with_source = format!("ext4/kvm/copy:scp/{as_file}//link/raw/ext4/dev:/dev/none");
        assert!(refused(&with_source, &Place::This).contains("`lsblk` lists the devices"));
        let said = refused(&format!("ext4/kvm:memory=900G/file:{shown}"), &Place::This);
        assert!(said.contains("guest: 900 GiB"), "{said}");
    }
}
