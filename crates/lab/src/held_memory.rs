//! Memory of a machine that is taken up, so that what is left stands to the data as in a larger machine.

use nestor_machine::{Command, Mounting};
use nestor_stack::{Bytes, Layer, MachineIndex};
use nestor_text::units;
use procfs::{FromBufRead as _, Meminfo};

use crate::BuildError;
use crate::built::UndoStep;
use crate::progressing::Progressing;

/// Takes up memory of a machine until so much is available to programs and the page cache (`MemAvailable`, proc(5)).
///
/// The memory is that of a file in a tmpfs: without swap, the kernel cannot take it back.
pub(crate) fn hold_memory(
    progressing: &mut Progressing<'_>,
    on: MachineIndex,
    layer: &Layer,
    available: Bytes,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let machine = progressing.machine(on);
    let text = machine.read_file("/proc/meminfo").map_err(failed)?;
    let has = Meminfo::from_buf_read(text.as_slice())
        .ok()
        .and_then(|memory| memory.mem_available)
        .ok_or_else(|| BuildError::refused(layer, "its kernel does not say how much memory is available"))?;
    let held = has.checked_sub(available.get()).ok_or_else(|| BuildError::NoRoom {
        layer: layer.label(),
        message: format!(
            "the machine has {} available once it has booted, not {}; use a larger memory",
            units::bytes(has),
            units::bytes(available.get())
        ),
    })?;
    let directory = format!("{}/held-memory", progressing.machines[on].facts.work_directory);
    machine
        .mount(Mounting {
            source: "tmpfs".to_owned(),
            target: directory.clone(),
            file_system: "tmpfs".to_owned(),
            program: None,
            options: vec![format!("size={held}"), "mode=0700".to_owned()],
        })
        .map_err(failed)?;
    progressing.note_undo(on, UndoStep::Unmount(directory.clone()));
    if held > 0 {
        let file = format!("{directory}/held");
        machine.run_ok(Command::new(["fallocate", "--length", &held.to_string(), &file])).map_err(failed)?;
    }
    let label = progressing.machines[on].label.stored();
    progressing.note(format!("{label} memory available"), units::bytes(available.get()));
    progressing.note(format!("{label} memory held"), units::bytes(held));
    Ok(())
}
