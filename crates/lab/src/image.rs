//! Makes the images of a stack: how large each is, and that it fits.

use nestor_machine::{Command, Machine};
use nestor_stack::{Bytes, ImageFormatSpec, Layer, LayerIndex, MachineIndex};
use nestor_text::units;

use crate::BuildError;
use crate::built::BuiltImage;
use crate::progressing::{Offered, Progressing, Thing};

/// An image whose size the stack does not give takes at most this, so that the guest's file system is made quickly.
const USUAL_BYTES: u64 = 8 << 30;

/// The same of an image at a repository, which is filled and copied.
const USUAL_SOURCE_BYTES: u64 = 1 << 30;

/// Image sizes are multiples of this; every format accepts it.
const GRANULE_BYTES: u64 = 64 << 20;

/// Makes an image in a directory that has so much room, unless it is there.
pub(crate) fn build_image(
    progressing: &mut Progressing<'_>,
    index: LayerIndex,
    spec: &ImageFormatSpec,
    on: MachineIndex,
    directory: &str,
    free_bytes: u64,
) -> Result<Offered, BuildError> {
    let layer = progressing.stack.layer(index);
    let machine = progressing.machine(on);
    let path = format!("{directory}/disk.{}", spec.extension);
    if progressing.came_with_image(index, on) {
        return Ok(offer_image(progressing, (index, on), path, (layer, spec)));
    }
    let at_repository = index > progressing.stack.medium_index();
    let usual_bytes = if at_repository { USUAL_SOURCE_BYTES } else { USUAL_BYTES };
    let size_bytes = size_bytes(layer, free_bytes, usual_bytes)?;
    let argv = (spec.create)(layer, &path, size_bytes);
    machine
        .run_ok(Command::new(argv).timeout_s(1800))
        .map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
    progressing.note(format!("{} image", layer.name()), units::size(size_bytes));
    Ok(offer_image(progressing, (index, on), path, (layer, spec)))
}

/// A machine has an image, which is opened as `opened` with its format: the layer itself, or that of its source.
pub(crate) fn offer_image(
    progressing: &mut Progressing<'_>,
    (index, on): (LayerIndex, MachineIndex),
    path: String,
    (opened, format): (&Layer, &ImageFormatSpec),
) -> Offered {
    progressing.images.push(BuiltImage {
        layer: index,
        machine: on,
        path: path.clone(),
        format: opened.name().to_owned(),
        map_command: format.map.map(|map| map(&path)),
        in_one_file: (format.in_one_file)(opened),
    });
    Offered { on, thing: Thing::Image { path, layer: index } }
}

/// Bytes that a file in `directory` can take.
///
/// # Errors
/// If the machine does not report it.
pub(crate) fn free_bytes(machine: &Machine, layer: &Layer, directory: &str) -> Result<u64, BuildError> {
    let text = machine
        .run_ok(Command::new(["stat", "--file-system", "--format=%a %S", "--", directory]))
        .map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(blocks)), Some(Ok(block_bytes))) => Ok(blocks * block_bytes),
        _ => Err(BuildError::refused(
            layer,
            format!("the free space in {directory} is unknown: stat says `{}`", text.trim()),
        )),
    }
}

/// The image's virtual size: as the layer says if that fits, otherwise four fifths of the free space, at most what is usual.
///
/// # Errors
/// When it does not fit into the file system below it, sparse or not: it would run out of space in use.
pub(crate) fn size_bytes(layer: &Layer, free_bytes: u64, usual_bytes: u64) -> Result<u64, BuildError> {
    match layer.size("size") {
        Some(Bytes(wanted)) if wanted > free_bytes => Err(BuildError::NoRoom {
            layer: layer.to_string(),
            message: format!(
                "an image of {} MiB does not fit into the file system below it, which has {} MiB free; use \
                 a smaller `size=` for the image, or a larger one for the medium",
                wanted >> 20,
                free_bytes >> 20
            ),
        }),
        Some(Bytes(wanted)) => Ok(wanted),
        None => match (free_bytes / 5 * 4).min(usual_bytes) / GRANULE_BYTES * GRANULE_BYTES {
            0 => Err(BuildError::NoRoom {
                layer: layer.to_string(),
                message: format!(
                    "the file system below it has only {} MiB free; use a larger `size=` for the medium",
                    free_bytes >> 20
                ),
            }),
            size => Ok(size),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nestor_stack::Stack;

    fn size_of(stack: &str, free_mib: u64) -> Result<u64, String> {
        let stack = Stack::parse(stack).unwrap();
        size_bytes(&stack.layers()[2], free_mib << 20, USUAL_BYTES)
            .map(|b| b >> 20)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn an_image_fits_into_its_file_system() {
        assert_eq!(size_of("ext4/kvm/raw/ext4/null", 1000), Ok(768));
        assert_eq!(size_of("ext4/kvm/raw/ext4/null", 100_000), Ok(8192));
        assert_eq!(size_of("ext4/kvm/raw:size=2G/ext4/null", 100_000), Ok(2048));
    }

    #[test]
    fn an_image_that_does_not_fit_is_refused_with_both_sizes() {
        let error = size_of("ext4/kvm/raw:size=2G/ext4/null", 1000).unwrap_err();
        assert!(error.contains("an image of 2048 MiB") && error.contains("has 1000 MiB free"), "{error}");
        assert!(size_of("ext4/kvm/raw/ext4/null", 50).unwrap_err().contains("only 50 MiB free"));
    }
}
