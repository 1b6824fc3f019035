//! Settings of the kernel for the block devices of a stack.

use nestor_machine::{Command, Machine};
use nestor_stack::{Layer, MachineIndex};

use crate::BuildError;
use crate::progressing::Progressing;

/// Sets the I/O scheduler and the read-ahead of a block device where the layer that offers it says so, and notes what
/// is in force.
pub(crate) fn tune(
    progressing: &mut Progressing<'_>,
    on: MachineIndex,
    layer: &Layer,
    device: &str,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let machine = progressing.machine(on);
    let queue = format!("/sys/block/{}/queue", device.trim_start_matches("/dev/"));
    let tuning = layer.block_tuning();
    if let Some(scheduler) = tuning.scheduler {
        let module = if scheduler == "kyber" { "kyber-iosched" } else { scheduler };
        let _ = machine.run(Command::new(["modprobe", "-q", module]));
        machine.set(&format!("{queue}/scheduler"), scheduler).map_err(failed)?;
    }
    if let Some(readahead) = tuning.readahead {
        machine
            .set(&format!("{queue}/read_ahead_kb"), &(readahead.get() >> 10).to_string())
            .map_err(failed)?;
    }
    if tuning.no_merges {
        // 2: not even with the request queued last (Documentation/block/queue-sysfs.rst).
        machine.set(&format!("{queue}/nomerges"), "2").map_err(failed)?;
    }
    let label = progressing.machines[on].label.stored();
    if tuning.no_merges {
        progressing.note(format!("{label} merges"), "off");
    }
    let scheduler = read_setting(&machine, &format!("{queue}/scheduler"));
    let chosen =
        scheduler.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("none", |(s, _)| s);
    progressing.note(format!("{label} scheduler"), chosen);
    let readahead_kib = read_setting(&machine, &format!("{queue}/read_ahead_kb"));
    progressing.note(format!("{label} read-ahead"), format!("{readahead_kib} KiB"));
    Ok(())
}

/// A setting of the kernel; empty for a partition, which has none of its own.
fn read_setting(machine: &Machine, path: &str) -> String {
    machine.read_file(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).unwrap_or_default()
}
