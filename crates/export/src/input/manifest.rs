//! The directory that `nestor run --trace-to` leaves for each cell.

use std::fs;
use std::path::{Path, PathBuf};

use nestor_correlate::{Absorption, CacheBetween, SpaceMap, read_extents};
use nestor_trace::{RequestHeader, RequestReader};
use serde::Deserialize;

use crate::error::ExportError;

/// The file that describes the others.
const MANIFEST: &str = "manifest.json";

#[derive(Deserialize)]
struct Manifest {
    levels: Vec<ManifestLevel>,
}

#[derive(Deserialize)]
struct ManifestLevel {
    /// Names as in the stack, which the machine that recorded did not know.
    #[serde(default)]
    layer: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    machine: String,
    file: String,
    map: String,
    extents: Option<String>,
    cluster_bytes: Option<u64>,
    cached_reads: String,
    cached_writes: String,
}

/// One trace point and what lies between the one above and it.
pub(super) struct Recorded {
    pub header: RequestHeader,
    pub file: PathBuf,
    pub map: SpaceMap,
    pub cache: CacheBetween,
}

/// The trace points of a directory, or of the only directory within it that has any; `None` where there are none.
pub(super) fn recorded_levels(directory: &Path) -> Result<Option<Vec<Recorded>>, ExportError> {
    if !directory.is_dir() {
        return Ok(None);
    }
    if directory.join(MANIFEST).exists() {
        return read(directory).map(Some);
    }
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
        .map_err(|source| ExportError::Read { path: directory.to_path_buf(), source })?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(MANIFEST).exists())
        .collect();
    found.sort();
    match found.as_slice() {
        [] => Ok(None),
        [only] => read(only).map(Some),
        [first, ..] => Err(ExportError::Several {
            path: directory.to_path_buf(),
            count: found.len(),
            first: first.clone(),
        }),
    }
}

fn read(directory: &Path) -> Result<Vec<Recorded>, ExportError> {
    let path = directory.join(MANIFEST);
    let wrong = |reason: String| ExportError::Manifest { path: path.clone(), reason };
    let text = fs::read(&path).map_err(|source| ExportError::Read { path: path.clone(), source })?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    let mut levels = Vec::new();
    for level in manifest.levels {
        let file = beside(directory, &level.file)
            .ok_or_else(|| wrong(format!("{:?} is no file in it", level.file)))?;
        let map = match (level.map.as_str(), &level.extents, level.cluster_bytes) {
            ("identity", ..) => SpaceMap::Identity,
            ("extents", Some(name), _) => {
                let extents =
                    beside(directory, name).ok_or_else(|| wrong(format!("{name:?} is no file in it")))?;
                SpaceMap::Extents(read_extents(&extents, None).map_err(|e| wrong(e.to_string()))?)
            }
            ("clusters", _, Some(bytes)) if bytes.is_power_of_two() => SpaceMap::Clusters { bytes },
            (map, ..) => return Err(wrong(format!("the map {map:?} of {} is not understood", level.file))),
        };
        let cache =
            CacheBetween { reads: absorption(&level.cached_reads), writes: absorption(&level.cached_writes) };
        let recorded = RequestReader::open(&file)?.header().clone();
        let known = |name: String, else_this: &str| if name.is_empty() { else_this.to_owned() } else { name };
        let header = RequestHeader {
            layer: known(level.layer, &recorded.layer),
            kind: known(level.kind, &recorded.kind),
            machine: known(level.machine, &recorded.machine),
            ..recorded
        };
        levels.push(Recorded { header, file, map, cache });
    }
    if levels.is_empty() { Err(ExportError::NoLevels) } else { Ok(levels) }
}

/// A file of the directory itself: what is named must not lead out of it.
fn beside(directory: &Path, name: &str) -> Option<PathBuf> {
    let only_a_name = Path::new(name).file_name().is_some_and(|file| file == name);
    only_a_name.then(|| directory.join(name))
}

fn absorption(word: &str) -> Absorption {
    match word {
        "never" => Absorption::Never,
        "possible" => Absorption::Possible,
        _ => Absorption::Unknown,
    }
}
