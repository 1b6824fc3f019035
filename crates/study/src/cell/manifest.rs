//! What lies in a directory that a user asked for with `--trace-to`: the requests of every trace point, and how they
//! belong together, for `nestor trace correlate` and other programs.

use std::path::Path;

use nestor_correlate::{Absorption, SpaceMap};
use serde::Serialize;

use super::joined::LevelFile;
use super::{CellError, CellRequest};

/// Name of the file that describes the others.
const MANIFEST: &str = "manifest.json";

#[derive(Serialize)]
struct Manifest {
    stack: String,
    workload: String,
    block: u32,
    seed: u64,
    /// Topmost first.
    levels: Vec<ManifestLevel>,
}

#[derive(Serialize)]
struct ManifestLevel {
    layer: String,
    kind: String,
    machine: String,
    requests: u64,
    /// The file of requests.
    file: String,
    /// How the space of the level above lies in this one's: `identity`, `extents`, `clusters`.
    map: &'static str,
    /// Of `extents`: the file with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    extents: Option<String>,
    /// Of `clusters`: bytes of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_bytes: Option<u64>,
    /// Whether reads, writes of the level above can be answered before this one: `never`, `possible`, `unknown`.
    cached_reads: &'static str,
    cached_writes: &'static str,
}

/// Describes what lies in a directory, and writes the maps beside the requests.
pub(super) fn write(
    directory: &Path,
    request: &CellRequest<'_>,
    levels: &[LevelFile],
) -> Result<(), CellError> {
    let failed = |path: &Path, e: std::io::Error| {
        CellError::Trace(format!("{} could not be written: {e}", path.display()))
    };
    let mut described = Vec::new();
    for (index, level) in levels.iter().enumerate() {
        let mut extents = None;
        if let SpaceMap::Extents(map) = &level.map {
            let name = format!("extents-{index}.csv");
            let lines = map.extents().iter().map(|e| format!("{},{},{}\n", e.upper, e.lower, e.bytes));
            let text = "upper,lower,bytes\n".to_owned() + &lines.collect::<String>();
            let path = directory.join(&name);
            std::fs::write(&path, text).map_err(|e| failed(&path, e))?;
            extents = Some(name);
        }
        described.push(ManifestLevel {
            layer: level.header.layer.clone(),
            kind: level.header.kind.clone(),
            machine: level.header.machine.clone(),
            requests: level.header.records,
            file: level.file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(),
            map: match level.map {
                SpaceMap::Identity => "identity",
                SpaceMap::Extents(_) => "extents",
                SpaceMap::Clusters { .. } => "clusters",
            },
            extents,
            cluster_bytes: match level.map {
                SpaceMap::Clusters { bytes } => Some(bytes),
                _ => None,
            },
            cached_reads: word(level.cache.reads),
            cached_writes: word(level.cache.writes),
        });
    }
    let manifest = Manifest {
        stack: request.stack.to_string(),
        workload: request.workload.to_string(),
        block: request.block,
        seed: request.seed,
        levels: described,
    };
    let path = directory.join(MANIFEST);
    let text = serde_json::to_vec_pretty(&manifest).expect("texts and numbers can be written as JSON");
    std::fs::write(&path, text).map_err(|e| failed(&path, e))
}

fn word(absorption: Absorption) -> &'static str {
    match absorption {
        Absorption::Never => "never",
        Absorption::Possible => "possible",
        Absorption::Unknown => "unknown",
    }
}
