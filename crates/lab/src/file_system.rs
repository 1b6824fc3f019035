//! Makes and mounts the file systems of a stack.

use nestor_machine::{Command, Machine, MachineError, Mounting};
use nestor_stack::{FileSystemSpec, LayerIndex, MachineIndex, MkfsTarget};

use crate::built::{BuiltFileSystem, UndoStep};
use crate::progressing::{Offered, Progressing, Thing};
use crate::seed::Before;
use crate::{BuildError, image};

/// Makes a file system on a device, unless it came with the device's image, and mounts it.
pub(crate) fn build_file_system(
    progressing: &mut Progressing<'_>,
    index: LayerIndex,
    spec: &FileSystemSpec,
    on: MachineIndex,
    device: &str,
    zeroed: bool,
) -> Result<Offered, BuildError> {
    let layer = progressing.stack.layer(index);
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let machine = progressing.machine(on);
    let height = progressing.stack.below(index).len();
    let is_there = progressing.came_with_image(index, on);
    if !is_there {
        let drawn = progressing.alone.then(|| progressing.seed.drawn(height));
        let argv = (spec.mkfs)(layer, &MkfsTarget { device, zeroed, drawn });
        machine.run_ok(Command::new(argv).timeout_s(600)).map_err(failed)?;
    }
    let target = progressing.mount_point(on, index);
    let mounting = Mounting {
        source: device.to_owned(),
        target: target.clone(),
        file_system: spec.mount_type.to_owned(),
        program: spec.program.map(str::to_owned),
        options: (spec.mount_options)(layer),
    };
    machine.mount(mounting.clone()).map_err(failed)?;
    progressing.note_undo(on, UndoStep::Unmount(target.clone()));
    progressing.file_systems.push(BuiltFileSystem { layer: index, machine: on, mounting, exported: None });
    let free_bytes = image::free_bytes(&machine, layer, &target)?;
    let path = format!("{target}/nestor");
    if !is_there {
        let before = progressing.seed.before(height).within(free_bytes);
        make_before(&machine, &target, before).map_err(failed)?;
        machine.make_directory(&path).map_err(failed)?;
        if layer.is_on("nocow") {
            machine.run_ok(Command::new(["chattr", "+C", "--", &path])).map_err(failed)?;
        }
    }
    // The same for every seed, and so the size of an image.
    let free_bytes = free_bytes.saturating_sub(Before::MOST_BYTES);
    Ok(Offered { on, thing: Thing::Directory { path, free_bytes } })
}

/// Creates the first files of a new file system, so that with another seed all later ones are placed elsewhere.
fn make_before(machine: &Machine, root: &str, before: Before) -> Result<(), MachineError> {
    let directories = (0..before.directories).map(|number| format!("{root}/before-{number}"));
    let argv: Vec<String> = ["mkdir", "--"].map(str::to_owned).into_iter().chain(directories).collect();
    if before.directories > 0 {
        machine.run_ok(Command::new(argv))?;
    }
    if before.pages > 0 {
        let (file, count) = (format!("of={root}/before"), format!("count={}", before.pages));
        // Synced, so that its blocks are chosen before those of anything else.
        let argv = ["dd", "if=/dev/zero", &file, "bs=4096", &count, "conv=fsync", "status=none"];
        machine.run_ok(Command::new(argv))?;
    }
    Ok(())
}
