//! The directory that `nestor run --trace-to` leaves for each cell: the requests of every trace point, and a file that
//! says how they belong together.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use nestor_trace::{RequestHeader, RequestReader};
use serde::{Deserialize, Serialize};

use crate::clock::SharedClock;
use crate::error::CorrelateError;
use crate::input::{CacheBetween, LevelInput};
use crate::space::{SpaceMap, read_extents};
use crate::tree::LevelIndex;

/// The file that describes the others.
const MANIFEST: &str = "manifest.json";

/// Longest manifest: a level takes a few hundred bytes.
const LONGEST_MANIFEST_BYTES: u64 = 1 << 20;

/// Every trace point of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The cell.
    pub cell: RecordedCell,
    /// The trace points, topmost first.
    pub levels: Vec<RecordedLevel>,
}

/// The cell that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedCell {
    /// The stack.
    pub stack: String,
    /// The workload.
    pub workload: String,
    /// Replication, from 0.
    pub block: u32,
    /// Seed of the workload's random choices.
    pub seed: u64,
}

/// One trace point with its requests, and what lies between the one above and this one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedLevel {
    /// What is known of its requests.
    pub header: RequestHeader,
    /// The file of requests.
    pub file: PathBuf,
    /// How the space of the level above lies in this one's.
    pub map: SpaceMap,
    /// What can answer requests of the level above before this one.
    pub cache: CacheBetween,
    /// Its clock against one that other levels are known against too.
    pub shared_clock: Option<SharedClock>,
    /// The layout of the file system within the image that [`Self::map`] goes through, as this level's machine reads it from the image's file.
    pub image_layout: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    #[serde(flatten)]
    cell: RecordedCell,
    /// Topmost first.
    levels: Vec<ManifestLevel>,
}

#[derive(Serialize, Deserialize)]
struct ManifestLevel {
    /// Names as in the stack; where they are empty those of the file of requests hold.
    #[serde(default)]
    layer: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    machine: String,
    #[serde(default)]
    requests: u64,
    /// The file of requests.
    file: String,
    #[serde(flatten)]
    map: ManifestMap,
    #[serde(flatten)]
    cache: CacheBetween,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shared_clock: Option<SharedClock>,
    /// See [`RecordedLevel::image_layout`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image_layout: Option<String>,
}

/// A [`SpaceMap`]; extents are in a file of their own.
#[derive(Serialize, Deserialize)]
#[serde(tag = "map", rename_all = "kebab-case")]
enum ManifestMap {
    Identity,
    Shifted { shift_bytes: u64 },
    Extents { extents: String },
    Clusters { cluster_bytes: u64 },
}

impl ManifestLevel {
    /// The level with what its files in a directory say; `wrong` is the error of what the manifest says.
    fn read(
        self,
        directory: &Path,
        at: LevelIndex,
        wrong: impl Fn(String) -> CorrelateError,
    ) -> Result<RecordedLevel, CorrelateError> {
        let beside = |name: &str| {
            beside(directory, name).ok_or_else(|| wrong(format!("{name:?} is not a file in its directory")))
        };
        let file = beside(&self.file)?;
        let image_layout = self.image_layout.as_deref().map(beside).transpose()?;
        let map = match self.map {
            ManifestMap::Identity => SpaceMap::Identity,
            ManifestMap::Shifted { shift_bytes } => SpaceMap::Shifted { bytes: shift_bytes },
            ManifestMap::Extents { extents } => SpaceMap::Extents(read_extents(&beside(&extents)?, None)?),
            ManifestMap::Clusters { cluster_bytes } if cluster_bytes.is_power_of_two() => {
                SpaceMap::Clusters { bytes: cluster_bytes }
            }
            ManifestMap::Clusters { cluster_bytes } => {
                return Err(wrong(format!("clusters of {cluster_bytes} bytes, which is not a power of two")));
            }
        };
        let reader = RequestReader::open(&file).map_err(|source| CorrelateError::Requests {
            level: at,
            layer: self.layer.clone(),
            source,
        })?;
        let recorded = reader.header().clone();
        let known = |name: String, usual: &str| if name.is_empty() { usual.to_owned() } else { name };
        let header = RequestHeader {
            layer: known(self.layer, &recorded.layer),
            kind: known(self.kind, &recorded.kind),
            machine: known(self.machine, &recorded.machine),
            ..recorded
        };
        Ok(RecordedLevel {
            header,
            file,
            map,
            cache: self.cache,
            shared_clock: self.shared_clock,
            image_layout,
        })
    }
}

impl RecordedLevel {
    /// The level as what [`correlate`](crate::correlate) takes.
    pub fn input(&self) -> LevelInput<'static> {
        LevelInput::new(self.header.clone(), self.file.clone())
            .with_map(self.map.clone())
            .with_cache(self.cache)
            .with_shared_clock(self.shared_clock)
    }
}

impl Recording {
    /// The levels that have requests. One without has nothing to join: everything above it was answered from a cache.
    pub fn busy_levels(&self) -> impl Iterator<Item = &RecordedLevel> {
        self.levels.iter().filter(|level| level.header.records > 0)
    }

    /// Describes what lies in a directory, and writes the maps beside the requests, which must be in it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), CorrelateError> {
        let write = |path: PathBuf, text: &[u8]| {
            fs::write(&path, text).map_err(|source| CorrelateError::Write { path, source })
        };
        let mut levels = Vec::new();
        for (index, level) in self.levels.iter().enumerate() {
            let map = match &level.map {
                SpaceMap::Identity => ManifestMap::Identity,
                SpaceMap::Shifted { bytes } => ManifestMap::Shifted { shift_bytes: *bytes },
                SpaceMap::Clusters { bytes } => ManifestMap::Clusters { cluster_bytes: *bytes },
                SpaceMap::Extents(map) => {
                    let extents = format!("extents-{index}.csv");
                    let lines =
                        map.extents().iter().map(|e| format!("{},{},{}\n", e.upper, e.lower, e.bytes));
                    let text = "upper,lower,bytes\n".to_owned() + &lines.collect::<String>();
                    write(directory.join(&extents), text.as_bytes())?;
                    ManifestMap::Extents { extents }
                }
            };
            levels.push(ManifestLevel {
                layer: level.header.layer.clone(),
                kind: level.header.kind.clone(),
                machine: level.header.machine.clone(),
                requests: level.header.records,
                file: name_of(&level.file),
                map,
                cache: level.cache,
                shared_clock: level.shared_clock,
                image_layout: level.image_layout.as_deref().map(name_of),
            });
        }
        let manifest = Manifest { cell: self.cell.clone(), levels };
        let text = serde_json::to_vec_pretty(&manifest).expect("texts and numbers can be written as JSON");
        write(directory.join(MANIFEST), &text)
    }

    /// The recording that a directory is, or the only one within it; `None` where there is none.
    ///
    /// # Errors
    /// A file cannot be read or is not understood; there are several recordings.
    pub fn find(directory: &Path) -> Result<Option<Self>, CorrelateError> {
        if !directory.is_dir() {
            return Ok(None);
        }
        if directory.join(MANIFEST).exists() {
            return Self::read(directory).map(Some);
        }
        let mut found: Vec<PathBuf> = fs::read_dir(directory)
            .map_err(|source| CorrelateError::Io { path: directory.to_path_buf(), source })?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join(MANIFEST).exists())
            .collect();
        found.sort();
        match found.as_slice() {
            [] => Ok(None),
            [only] => Self::read(only).map(Some),
            [first, ..] => Err(CorrelateError::Several {
                path: directory.to_path_buf(),
                count: found.len(),
                first: first.clone(),
            }),
        }
    }

    fn read(directory: &Path) -> Result<Self, CorrelateError> {
        let path = directory.join(MANIFEST);
        let wrong = |reason: String| CorrelateError::Manifest { path: path.clone(), reason };
        let mut text = Vec::new();
        fs::File::open(&path)
            .and_then(|file| file.take(LONGEST_MANIFEST_BYTES + 1).read_to_end(&mut text))
            .map_err(|source| CorrelateError::Io { path: path.clone(), source })?;
        if text.len() as u64 > LONGEST_MANIFEST_BYTES {
            return Err(wrong(format!("it is longer than {LONGEST_MANIFEST_BYTES} bytes")));
        }
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        let kept = manifest.levels.into_iter().enumerate();
        let levels: Vec<RecordedLevel> = kept
            .map(|(index, level)| level.read(directory, LevelIndex::at(index), wrong))
            .collect::<Result<_, _>>()?;
        if levels.is_empty() {
            return Err(wrong("it has no trace point".to_owned()));
        }
        Ok(Self { cell: manifest.cell, levels })
    }
}

fn name_of(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A file of the directory itself: what is named must not lead out of it.
fn beside(directory: &Path, name: &str) -> Option<PathBuf> {
    let only_a_name = Path::new(name).file_name().is_some_and(|file| file == name);
    only_a_name.then(|| directory.join(name))
}

#[cfg(test)]
mod tests {
    use nestor_trace::RequestWriter;

    use super::*;
    use crate::{Absorption, ExtentMap, MappedExtent};

    fn level(directory: &Path, name: &str, map: SpaceMap, cache: CacheBetween) -> RecordedLevel {
        let file = directory.join(format!("{name}.requests"));
        let header = RequestHeader {
            layer: name.to_owned(),
            kind: "block".to_owned(),
            machine: "host".to_owned(),
            space_bytes: 1 << 30,
            ..RequestHeader::default()
        };
        RequestWriter::create(&file, header.clone()).unwrap().finish().unwrap();
        RecordedLevel { header, file, map, cache, shared_clock: None, image_layout: None }
    }

    fn recording(directory: &Path) -> Recording {
        fs::create_dir_all(directory).unwrap();
        let extents = [(0, 1 << 20, 4096), (8192, 0, 65_536)].map(|(upper, lower, bytes)| MappedExtent {
            upper,
            lower,
            bytes,
        });
        let extents = ExtentMap::new(extents.to_vec()).unwrap();
        let unsure = CacheBetween { reads: Absorption::Possible, writes: Absorption::Unknown };
        Recording {
            cell: RecordedCell {
                stack: "ext4/kvm/qcow2/xfs/hdd".to_owned(),
                workload: "fio:rand-read".to_owned(),
                block: 2,
                seed: 41,
            },
            levels: vec![
                level(directory, "ext4", SpaceMap::Identity, CacheBetween::NONE),
                level(directory, "qcow2", SpaceMap::Clusters { bytes: 65_536 }, CacheBetween::WRITE_BACK),
                level(directory, "xfs", SpaceMap::Extents(extents), unsure),
                level(directory, "part", SpaceMap::Shifted { bytes: 63 << 9 }, CacheBetween::NONE),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_from_the_directory_and_from_the_one_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("000-cell");
        let written = recording(&directory);
        written.write(&directory).unwrap();
        let mut with_layout = written.clone();
        with_layout.levels[2].image_layout = Some(directory.join("image.layout"));
        with_layout.write(&directory).unwrap();
        assert_eq!(Recording::find(&directory).unwrap(), Some(with_layout));
        written.write(&directory).unwrap();
        for from in [directory.as_path(), folder.path()] {
            assert_eq!(Recording::find(from).unwrap().as_ref(), Some(&written));
        }
        assert_eq!(Recording::find(&folder.path().join("none")).unwrap(), None);
        assert_eq!(written.busy_levels().count(), 0);
        let other = folder.path().join("001-cell");
        recording(&other).write(&other).unwrap();
        let refused = Recording::find(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("holds 2 recordings; name one of them, such as"), "{refused}");
    }

    #[test]
    fn the_manifest_stays_as_other_programs_know_it() {
        let folder = tempfile::tempdir().unwrap();
        recording(folder.path()).write(folder.path()).unwrap();
        insta::assert_snapshot!(fs::read_to_string(folder.path().join(MANIFEST)).unwrap(), @r#"
        {
          "stack": "ext4/kvm/qcow2/xfs/hdd",
          "workload": "fio:rand-read",
          "block": 2,
          "seed": 41,
          "levels": [
            {
              "layer": "ext4",
              "kind": "block",
              "machine": "host",
              "requests": 0,
              "file": "ext4.requests",
              "map": "identity",
              "cached_reads": "never",
              "cached_writes": "never"
            },
            {
              "layer": "qcow2",
              "kind": "block",
              "machine": "host",
              "requests": 0,
              "file": "qcow2.requests",
              "map": "clusters",
              "cluster_bytes": 65536,
              "cached_reads": "possible",
              "cached_writes": "possible"
            },
            {
              "layer": "xfs",
              "kind": "block",
              "machine": "host",
              "requests": 0,
              "file": "xfs.requests",
              "map": "extents",
              "extents": "extents-2.csv",
              "cached_reads": "possible",
              "cached_writes": "unknown"
            },
            {
              "layer": "part",
              "kind": "block",
              "machine": "host",
              "requests": 0,
              "file": "part.requests",
              "map": "shifted",
              "shift_bytes": 32256,
              "cached_reads": "never",
              "cached_writes": "never"
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_manifest_that_leads_elsewhere_or_makes_no_sense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        recording(folder.path()).write(folder.path()).unwrap();
        let path = folder.path().join(MANIFEST);
        let text = fs::read_to_string(&path).unwrap();
        for (what, instead) in [
            ("xfs.requests", "../xfs.requests"),
            ("xfs.requests", "/etc/passwd"),
            ("extents-2.csv", "../extents-2.csv"),
            ("identity", "upside-down"),
            ("65536", "65535"),
            ("possible", "perhaps"),
            ("[", "{"),
        ] {
            assert!(text.contains(what), "{what}");
            fs::write(&path, text.replace(what, instead)).unwrap();
            let refused = Recording::find(folder.path()).unwrap_err();
            assert!(matches!(refused, CorrelateError::Manifest { .. }), "{instead}: {refused}");
        }
        fs::write(&path, " ".repeat(2 << 20)).unwrap();
        assert!(
            Recording::find(folder.path()).unwrap_err().to_string().contains("longer than 1048576 bytes")
        );
        fs::write(&path, "{ \"levels\": [] }").unwrap();
        assert!(Recording::find(folder.path()).unwrap_err().to_string().contains("no trace point"));
    }
}
