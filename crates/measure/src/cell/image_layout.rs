//! The file systems in images, as the machine that holds the images sees them: what a server knows of its guests' structures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nestor_lab::{BuiltImage, BuiltStack};
use nestor_machine::Command;
use nestor_stack::LayerIndex;

use super::CellError;
use super::condense::{CONDENSING_S, MOST_LAYOUT_BYTES, fetch};

/// Reads the layout in each image that is a disk as it is, without a format's tables, into `directory`; by the image's layer. No guest is
/// asked or held, so what a guest has not written yet is not in it. One that cannot be read is remarked on.
pub(super) fn image_layouts(
    built: &BuiltStack,
    directory: &Path,
    remarks: &mut Vec<String>,
) -> BTreeMap<LayerIndex, PathBuf> {
    let mut found = BTreeMap::new();
    for image in built.images.iter().filter(|image| image.map_command.is_none()) {
        match image_layout(built, image, directory) {
            Ok(Some(layout)) => {
                found.insert(image.layer, layout);
            }
            Ok(None) => {}
            Err(e) => {
                let layer = built.stack.layer(image.layer).label();
                remarks.push(format!(
                    "the layout in {layer} could not be read by the machine that holds it: {e}"
                ));
            }
        }
    }
    found
}

fn image_layout(
    built: &BuiltStack,
    image: &BuiltImage,
    directory: &Path,
) -> Result<Option<PathBuf>, CellError> {
    let Some((file_system, path)) = built.local_place_of(image) else { return Ok(None) };
    let place = &built.machines[file_system.machine];
    let name = format!("layout-in-image-{}", image.layer.position());
    let there = format!("{}/{name}", place.facts.work_directory);
    let argv = ["{nestor}", "trace", "layout", "--device", &path, "--output", &there];
    place.machine.run_ok(Command::new(argv).timeout_s(CONDENSING_S))?;
    fetch(&place.machine, &there, &directory.join(name), MOST_LAYOUT_BYTES).map(Some)
}
