//! Where the files of a network file system lie on the device of the server's, so that calls become requests on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use nestor_capture::FileHandles;
use nestor_lab::{BuiltFileSystem, BuiltStack, Exported};
use nestor_stack::LayerIndex;
use nestor_trace::FileExtents;

use super::CellError;
use super::calls::has_image;
use super::condense::{Layouts, answer, fetch_layout};

/// The places of a server's files, by the hashes of their handles.
pub(super) type FilePlaces = HashMap<u32, FileExtents>;

/// Of each network file system without an image on it, by its layer; `layouts` are those of the file systems that are exported. In `remarks`,
/// what is not known, and why.
pub(super) fn file_places(
    built: &BuiltStack,
    layouts: &Layouts,
    directory: &Path,
    remarks: &mut Vec<String>,
) -> BTreeMap<LayerIndex, FilePlaces> {
    let mut places = BTreeMap::new();
    for mounted in built.file_systems.iter().filter(|mounted| !has_image(built, mounted.layer)) {
        let Some(exported) = &mounted.exported else { continue };
        match of_one(built, mounted, exported, layouts, directory, remarks) {
            Ok(of_one) => places.extend(of_one.map(|files| (mounted.layer, files))),
            Err(e) => {
                let label = built.stack.layer(mounted.layer).label();
                remarks.push(format!("where the files of {label} lie at the server is not known: {e}"));
            }
        }
    }
    places
}

fn of_one(
    built: &BuiltStack,
    mounted: &BuiltFileSystem,
    exported: &Exported,
    layouts: &Layouts,
    directory: &Path,
    remarks: &mut Vec<String>,
) -> Result<Option<FilePlaces>, CellError> {
    let Some(local) = built.local_file_system_of(mounted) else { return Ok(None) };
    let Some(there) = layouts.get(&local.layer) else { return Ok(None) };
    let machine = &built.machines[exported.machine].machine;
    let argv = ["{nestor}", "trace", "handles", "--directory", &exported.path];
    let handles: FileHandles = answer(machine, &argv)?;
    if handles.is_short {
        let (label, asked) = (built.stack.layer(mounted.layer).label(), handles.files.len());
        remarks.push(format!("the calls of {label}: of the server's files, only {asked} are told apart"));
    }
    let here = directory.join(format!("layout-at-server-{}", mounted.layer.position()));
    let layout = fetch_layout(&built.machines[local.machine].machine, there, &here)?;
    let mut inodes: HashMap<u32, BTreeSet<u64>> = HashMap::new();
    handles.files.iter().for_each(|(hash, inode)| _ = inodes.entry(*hash).or_default().insert(*inode));
    // Whose call it is cannot be told where two files have one hash.
    let files = inodes.into_iter().filter_map(|(hash, inodes)| {
        let only = inodes.first().copied().filter(|_| inodes.len() == 1)?;
        Some((hash, only))
    });
    let files: Vec<(u32, u64)> = files.collect();
    let mut extents = layout.files(&files.iter().map(|(_, inode)| *inode).collect());
    let place = |(hash, inode)| Some((hash, FileExtents::new(extents.remove(&inode)?)));
    Ok(Some(files.into_iter().filter_map(place).collect()))
}
