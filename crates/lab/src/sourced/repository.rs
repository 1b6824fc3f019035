//! The image at the repository: its file, full of bytes that no program can compress, and in it the layers that come with the image.

use std::ops::Range;

use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::{Bytes, Layer, LayerIndex, MachineIndex};

use super::{SourcedImage, format_at_repository};
use crate::built::{Top, UndoStep};
use crate::lab_problem::LabProblem;
use crate::link_counters::parse_value;
use crate::progressing::{Offered, Progressing, Thing};
use crate::{BuildError, Lab};

/// The file of an image while it is filled, if it has a format of its own.
const CONTENTS: &str = "contents";

/// Seconds that filling an image may take.
const FILL_LIMIT_S: u64 = 3_600;

/// The most that the kernel lets a program discard of a loop device at once: nothing.
const NO_DISCARDS: &str = "0";

/// An image that was made.
pub(super) struct Made {
    pub(super) path: String,
    /// The block device of its medium; `None` where that is not known.
    pub(super) disk: Option<String>,
    /// The file that is written before the image has its format: the image itself, if that is raw.
    pub(super) contents: String,
    pub(super) installed: Installed,
}

/// Layers that are made in an image at its repository.
pub(super) struct Installed {
    /// Where a workload of these layers would work.
    pub(super) top: Top,
    /// Which of the stack's undo steps are theirs.
    undo: Range<usize>,
}

impl Lab {
    /// The layers of the source on the repository's own medium, up to the image, which is full; and the layers that come with it.
    pub(super) fn make_image(
        &mut self,
        progressing: &mut Progressing<'_>,
        repository: MachineIndex,
    ) -> Result<Made, BuildError> {
        let stack = progressing.stack;
        let recorded = (progressing.points.len(), progressing.file_systems.len(), progressing.images.len());
        let mut layers = stack.indexed_source().rev();
        let no_image = || BuildError::refused(stack.medium(), "the source has no image");
        let (medium, layer) = layers.next().ok_or_else(no_image)?;
        (self.progress)(&format!("building {layer} at the repository"));
        let mut offered = self.build_medium(progressing, medium, repository)?;
        let disk = self.disk_of_medium(progressing, medium, repository);
        for (index, layer) in layers.filter(|(_, layer)| !layer.is_link()) {
            (self.progress)(&format!("building {layer} at the repository"));
            offered = self.build_layer(progressing, index, layer, offered)?;
        }
        let Thing::Image { path, layer } = offered.thing else { return Err(no_image()) };
        (self.progress)("filling the image at the repository");
        let machine = progressing.machine(repository);
        let image = stack.layer(layer);
        let contents = if is_raw(image) { path.clone() } else { format!("{path}.{CONTENTS}") };
        virtual_bytes(&machine, &path)
            .and_then(|bytes| {
                let filling = write_random(&contents, bytes, self.seed.contents(layer));
                machine.run_ok(Command::new(filling).timeout_s(FILL_LIMIT_S))
            })
            .map_err(|source| BuildError::Layer { layer: image.label(), source })?;
        let installed = self.install(progressing, repository, &contents)?;
        // Nothing is recorded at the repository: a workload does not reach it.
        progressing.points.truncate(recorded.0);
        progressing.file_systems.truncate(recorded.1);
        progressing.images.truncate(recorded.2);
        Ok(Made { path, disk, contents, installed })
    }

    /// The layers that come with the image, made in it.
    fn install(
        &mut self,
        progressing: &mut Progressing<'_>,
        repository: MachineIndex,
        contents: &str,
    ) -> Result<Installed, BuildError> {
        let stack = progressing.stack;
        let layers: Vec<(LayerIndex, &Layer)> = stack.layers_in_image().collect();
        let lowest = layers.last().map_or_else(|| stack.medium(), |(_, layer)| layer);
        let failed = |source| BuildError::Layer { layer: lowest.label(), source };
        let machine = progressing.machine(repository);
        let undo_before = progressing.undo.len();
        self.load_modules(&machine, &["loop"]);
        let device = machine.attach_loop(contents, false).map_err(failed)?;
        progressing.note_undo(repository, UndoStep::DetachLoop(device.clone()));
        // What is discarded would become holes of the image, which some programs do not copy.
        let discards = format!("/sys/block/{}/queue/discard_max_bytes", device.trim_start_matches("/dev/"));
        machine.write_file(&discards, NO_DISCARDS.as_bytes()).map_err(failed)?;
        let mut offered = Offered { on: repository, thing: Thing::Block { device, zeroed: false } };
        for (index, layer) in layers.iter().rev() {
            (self.progress)(&format!("making {layer} in the image at the repository"));
            offered = self.build_layer(progressing, *index, layer, offered)?;
        }
        let top = match offered.thing {
            Thing::Directory { path, .. } => Top::Directory(path),
            Thing::Block { device, .. } => Top::Device(device),
            // A machine within the machine has it.
            Thing::Image { path, .. } => Top::Device(path),
            Thing::Remote { .. } => return Err(BuildError::refused(lowest, "it is on a network")),
        };
        Ok(Installed { top, undo: undo_before..progressing.undo.len() })
    }

    /// Ends the making of the image at the repository, which has its format then.
    pub(crate) fn close_source(
        &mut self,
        progressing: &mut Progressing<'_>,
        image: &mut SourcedImage,
    ) -> Result<(), BuildError> {
        if let Some(Installed { undo, .. }) = image.installed.take() {
            let problems = self.undo_steps(progressing.undo.drain(undo).collect());
            if !problems.is_empty() {
                return Err(LabProblem::NotUndone { problems }.into());
            }
        }
        let repository = image.repository.end.machine.clone();
        let name = format_at_repository(progressing.stack);
        // One that could not let go of the image was ended.
        self.standing(image.repository.end.index)?;
        if image.contents == image.source {
            return image
                .find_length()
                .map_err(|source| BuildError::Layer { layer: name.to_owned(), source });
        }
        // Into the image as it was made, with the options of its layer.
        let convert = ["qemu-img", "convert", "-n", "-f", "raw", "-O", name, &image.contents, &image.source];
        let converted = repository
            .run_ok(Command::new(convert).timeout_s(FILL_LIMIT_S))
            .and_then(|_| repository.run_ok(Command::new(["rm", "--", &image.contents])));
        converted
            .and_then(|_| image.find_length())
            .map_err(|source| BuildError::Layer { layer: name.to_owned(), source })
    }
}

fn is_raw(image: &Layer) -> bool {
    image.image_format().is_some_and(|format| format.map.is_none())
}

/// fio's buffers are random unless it is told to repeat them. It reads a number as a signed one of 64 bits (`str_to_decimal` in parse.c).
fn write_random(path: &str, bytes: Bytes, seed: u64) -> Vec<String> {
    let argv = [
        "fio",
        "--name=fill",
        "--rw=write",
        "--bs=1M",
        "--refill_buffers",
        "--end_fsync=1",
        "--output=/dev/null",
    ];
    let own = [
        format!("--filename={path}"),
        format!("--size={}", bytes.get()),
        format!("--randseed={}", seed >> 1),
    ];
    argv.map(str::to_owned).into_iter().chain(own).collect()
}

/// The size of the disk in an image.
fn virtual_bytes(machine: &Machine, path: &str) -> Result<Bytes, MachineError> {
    #[derive(serde::Deserialize)]
    struct Info {
        #[serde(rename = "virtual-size")]
        virtual_size: u64,
    }
    let argv = ["qemu-img", "info", "--output=json", "--", path];
    let said = machine.run_ok(Command::new(argv))?;
    let info: Info = parse_value(machine, &argv, &said)?;
    Ok(Bytes(info.virtual_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_seed_is_fio_can_read_it() {
        for seed in [0, 15_660_284_300_619_551_532, u64::MAX] {
            let argv = write_random("/images/disk.raw", Bytes::mib(1), seed);
            let given = argv.iter().find_map(|word| word.strip_prefix("--randseed=")).unwrap();
            assert!(given.parse::<i64>().unwrap() >= 0);
            assert!(argv.contains(&"--size=1048576".to_owned()));
        }
    }
}
