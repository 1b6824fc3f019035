//! Makes the partitions of a stack: writes a table with one of them, and has the kernel make its device.

use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::{LayerIndex, MachineIndex, PartitionOptions};
use serde::Deserialize;

use crate::BuildError;
use crate::built::{BlockPoint, UndoStep};
use crate::progressing::{Offered, Progressing};

/// What `lsblk --json` prints of a block device and of what is in it.
#[derive(Deserialize)]
struct Listing {
    blockdevices: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    path: String,
    /// `part` for a partition.
    #[serde(rename = "type")]
    kind: String,
    /// Of a partition, in sectors of 512 bytes.
    start: Option<u64>,
}

impl Listed {
    fn is_partition(&self) -> bool {
        self.kind == "part"
    }
}

/// Makes a partition of a block device, from some sector to its end.
pub(crate) fn build_partition(
    progressing: &mut Progressing<'_>,
    index: LayerIndex,
    on: MachineIndex,
    whole: &str,
    zeroed: bool,
) -> Result<Offered, BuildError> {
    let layer = progressing.stack.layer(index);
    let refused = |why: &str| BuildError::refused(layer, why);
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let options = layer.partition().ok_or_else(|| refused("it is not a partition"))?;
    let machine = progressing.machine(on);
    if list(&machine, whole).map_err(failed)?.first().is_some_and(Listed::is_partition) {
        return Err(refused(
            "the device below it is a partition, and the kernel knows none within another; omit one of the two",
        ));
    }
    if !progressing.came_with_image(index, on) {
        let sector_bytes = number(&machine, "--getss", whole).map_err(failed)?;
        let bytes = number(&machine, "--getsize64", whole).map_err(failed)?;
        let table = options.table(sector_bytes, bytes / sector_bytes.max(1)).ok_or_else(|| {
            refused(&format!(
                "the device below it has sectors of {sector_bytes} bytes, and the partition would begin within one; use \
                 a multiple, as in start=1M"
            ))
        })?;
        let writing =
            Command { stdin: table.into_bytes(), ..Command::new(PartitionOptions::write_table(whole)) };
        machine.run_ok(writing).map_err(failed)?;
    }
    progressing.note_undo(on, UndoStep::ForgetPartition(whole.to_owned()));
    // A device manager may have had the kernel read the table by now: an update makes what is not there.
    let number = PartitionOptions::NUMBER.to_string();
    machine.run_ok(Command::new(["partx", "--update", "--nr", &number, whole])).map_err(failed)?;
    let start = u64::from(options.start.0);
    let made = list(&machine, whole).map_err(failed)?;
    let made = made.into_iter().find(|listed| listed.is_partition() && listed.start == Some(start));
    let device = made.ok_or_else(|| refused("the kernel does not show the partition that was made"))?.path;
    let point =
        BlockPoint { offered_by: index, machine: on, device, begins_at: Some(options.start.bytes().get()) };
    Ok(progressing.offer_point(point, zeroed))
}

/// A device and its partitions, the device first.
fn list(machine: &Machine, device: &str) -> Result<Vec<Listed>, MachineError> {
    let columns = "PATH,TYPE,START";
    let said = machine.run_ok(Command::new(["lsblk", "--json", "--list", "--output", columns, device]))?;
    Ok(listed(&said))
}

fn listed(said: &str) -> Vec<Listed> {
    serde_json::from_str::<Listing>(said).map(|listing| listing.blockdevices).unwrap_or_default()
}

/// A number that `blockdev` prints of a device.
fn number(machine: &Machine, what: &str, device: &str) -> Result<u64, MachineError> {
    Ok(machine.run_ok(Command::new(["blockdev", what, device]))?.trim().parse().unwrap_or(0))
}

/// Makes the kernel forget the partition of a device. The table goes with what the device is made of.
pub(crate) fn forget_partition(machine: &Machine, device: &str) -> Result<(), MachineError> {
    let number = PartitionOptions::NUMBER.to_string();
    machine.run_ok(Command::new(["partx", "--delete", "--nr", &number, device])).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_known_by_what_the_kernel_says_of_it() {
        // Of util-linux 2.38.1.
        let said = r#"{ "blockdevices": [
            { "path": "/dev/nvme0n1", "type": "disk", "start": null },
            { "path": "/dev/nvme0n1p1", "type": "part", "start": 63 } ] }"#;
        let found = listed(said);
        assert_eq!(found.iter().map(Listed::is_partition).collect::<Vec<_>>(), [false, true]);
        assert_eq!(found.iter().map(|listed| listed.start).collect::<Vec<_>>(), [None, Some(63)]);
        assert!(listed("lsblk: not a block device").is_empty());
    }
}
