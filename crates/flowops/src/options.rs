//! How a script is run: what its text does not say.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nestor_wml::{Action, FileSet, FlowopKind, Script};

/// How a script is run.
#[derive(Clone, Debug, Default)]
pub struct FlowOptions {
    /// Where the directories of the script are, if not where it says; see [`relocate`].
    pub places: BTreeMap<String, PathBuf>,
    /// The directory that no file set may leave, without links in its path: the one that `places` are below.
    pub inside: Option<PathBuf>,
    /// Decides what is random while the workload runs, and the order in which files are made.
    pub seed: u64,
    /// Decides the trees and sizes of file sets, and which files exist from the beginning.
    pub data_seed: u64,
    /// Ends each run then, instead of what the script says.
    pub time_s: Option<f64>,
    /// Ends each run after exactly so many operations.
    pub operations: Option<u64>,
    /// Open loop: passes of the threads begin at this rate, and their latency is counted from then.
    pub passes_per_second: Option<f64>,
    /// Only makes the file sets.
    pub only_prepare: bool,
    /// The file sets are there already, made with the same options.
    pub prepared: bool,
    /// Removes the file sets at the end.
    pub remove: bool,
    /// `system` is not obeyed.
    pub no_system: bool,
    /// Block devices that may be overwritten.
    pub overwrite: Vec<PathBuf>,
    /// Files do not grow beyond this: writes that would, begin again at the start. For tries in little space.
    pub growth_limit_bytes: Option<u64>,
    /// Asynchronous writes begin only when they are waited for.
    #[cfg(test)]
    pub(crate) lazy_writes: bool,
}

impl FlowOptions {
    /// The directory in which a set's own directory is.
    pub(crate) fn directory_of(&self, set: &FileSet) -> PathBuf {
        self.places.get(&set.path).cloned().unwrap_or_else(|| PathBuf::from(&set.path))
    }
}

/// Where each directory of a script goes when all of it goes under `directory`: the only one becomes `directory` itself; several
/// become directories below it, by their last names.
pub fn relocate(script: &Script, directory: &Path) -> BTreeMap<String, PathBuf> {
    let mut paths: Vec<&str> = file_sets(script).map(|set| set.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    if let [only] = paths[..] {
        return [(only.to_owned(), directory.to_owned())].into();
    }
    let below = |path: &str| {
        let parts = Path::new(path).components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        directory.join(parts.collect::<PathBuf>())
    };
    paths.into_iter().map(|path| (path.to_owned(), below(path))).collect()
}

/// All file sets of a script, each as often as an action names it.
pub fn file_sets(script: &Script) -> impl Iterator<Item = &FileSet> {
    script.actions.iter().flat_map(|action| match action {
        Action::CreateFiles(sets) => sets.as_slice(),
        Action::Run(run) => run.file_sets.as_slice(),
        _ => &[],
    })
}

/// A script whose data sets are larger or smaller than written.
#[derive(Clone, Debug)]
pub struct Scaled {
    /// The script.
    pub script: Script,
    /// Bytes of its largest run's data set, compared with what is written.
    pub factor: f64,
    /// To be put into [`FlowOptions::growth_limit_bytes`].
    pub growth_limit_bytes: Option<u64>,
}

/// How to scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// By this factor.
    Factor(f64),
    /// To so many bytes.
    Bytes(u64),
    /// To what can be tried anywhere: at most [`TINY_BYTES`] in all, and few files.
    Tiny,
}

/// All file sets of a script that is only tried.
pub const TINY_BYTES: u64 = 64 << 20;
/// Most entries of a file set that is only tried.
const TINY_ENTRIES: u64 = 100_000;
/// A set of fewer files becomes larger by their size, others by their number.
const FEW_FILES: u64 = 64;
/// A set of fewer files of one size becomes smaller by their size, others by their number: scripts count on some files.
const MANY_FILES: u64 = 1001;
/// Files that are only tried are not made smaller than this, if that is possible: operations of usual sizes still fit.
const SMALLEST_FILE_BYTES: u64 = 256 << 10;

/// Scales all file sets by one factor.
pub fn scale(script: &Script, scale: Scale) -> Scaled {
    let written: f64 = last_sets(script).iter().map(mean_set_bytes).sum();
    let factor = match scale {
        Scale::Factor(factor) => factor,
        Scale::Bytes(bytes) if written > 0.0 => bytes as f64 / written,
        Scale::Tiny if written > TINY_BYTES as f64 => TINY_BYTES as f64 / written * 0.95,
        Scale::Bytes(_) | Scale::Tiny => 1.0,
    };
    let tiny = scale == Scale::Tiny;
    let mut scaled = script.clone();
    for action in &mut scaled.actions {
        let sets = match action {
            Action::CreateFiles(sets) => sets,
            Action::Run(run) => {
                if factor < 1.0 {
                    run.processes = Arc::new(shrink_working_sets(&run.processes));
                }
                &mut run.file_sets
            }
            _ => continue,
        };
        let files = count_files(sets);
        let smallest = if tiny { SMALLEST_FILE_BYTES.min(TINY_BYTES / files.max(1)) } else { 0 };
        *sets = Arc::new(sets.iter().map(|set| scale_set(set, factor, smallest, tiny)).collect());
    }
    let files = count_files(&last_sets(&scaled));
    let growth_limit_bytes = tiny.then(|| (TINY_BYTES / files.max(1)).max(1 << 20));
    let now: f64 = last_sets(&scaled).iter().map(mean_set_bytes).sum();
    Scaled { factor: if written > 0.0 { now / written } else { 1.0 }, script: scaled, growth_limit_bytes }
}

/// Makes each file of all file sets larger or smaller; their number stays. Working sets shrink with the files, as with [`scale`].
pub fn scale_files(script: &Script, factor: f64) -> Script {
    let mut scaled = script.clone();
    for action in &mut scaled.actions {
        let sets = match action {
            Action::CreateFiles(sets) => sets,
            Action::Run(run) => {
                if factor < 1.0 {
                    run.processes = Arc::new(shrink_working_sets(&run.processes));
                }
                &mut run.file_sets
            }
            _ => continue,
        };
        *sets = Arc::new(sets.iter().map(|set| scale_files_of(set, factor)).collect());
    }
    scaled
}

fn scale_files_of(set: &FileSet, factor: f64) -> FileSet {
    use nestor_wml::Value;
    let file_bytes = match &set.file_bytes {
        Value::Fixed(bytes) => Value::Fixed((*bytes as f64 * factor).round() as u64),
        Value::Drawn(variable) => Value::Drawn(Arc::new(variable.times(factor))),
    };
    FileSet { file_bytes, ..set.clone() }
}

/// Files of all sets.
fn count_files(sets: &[FileSet]) -> u64 {
    sets.iter().fold(0, |sum, set| sum.saturating_add(set.entries))
}

/// The sets of the last action that has any: all there are.
fn last_sets(script: &Script) -> Vec<FileSet> {
    script
        .actions
        .iter()
        .rev()
        .find_map(|action| match action {
            Action::CreateFiles(sets) => Some(sets.to_vec()),
            Action::Run(run) => Some(run.file_sets.to_vec()),
            _ => None,
        })
        .unwrap_or_default()
}

/// The mean size of all files of a script together.
pub fn mean_bytes(script: &Script) -> u64 {
    last_sets(script).iter().map(mean_set_bytes).sum::<f64>() as u64
}

/// The mean size of all of a set's files together.
fn mean_set_bytes(set: &FileSet) -> f64 {
    use nestor_wml::Value;
    let mean = match &set.file_bytes {
        Value::Fixed(bytes) => *bytes as f64,
        Value::Drawn(variable) => variable.mean(),
    };
    mean * set.entries as f64
}

fn scale_set(set: &FileSet, factor: f64, smallest_bytes: u64, tiny: bool) -> FileSet {
    use nestor_wml::Value;
    /// Whole pages, so that direct I/O still fits.
    const PAGE: u64 = 4096;
    let mut scaled = set.clone();
    let few = if factor < 1.0 { MANY_FILES } else { FEW_FILES };
    match set.file_bytes {
        Value::Fixed(bytes) if set.entries < few => {
            let smallest = bytes.min((smallest_bytes & !(PAGE - 1)).max(PAGE));
            scaled.file_bytes = Value::Fixed(((bytes as f64 * factor) as u64 & !(PAGE - 1)).max(smallest));
        }
        _ => {
            let entries = (set.entries as f64 * factor).round() as u64;
            scaled.entries = entries.max(set.entries.min(1));
        }
    }
    if tiny {
        scaled.entries = scaled.entries.min(TINY_ENTRIES);
        scaled.leaf_directories = scaled.leaf_directories.min(TINY_ENTRIES);
    }
    scaled
}

/// Working sets were written for files of full size; those of smaller files are all of them.
fn shrink_working_sets(processes: &[nestor_wml::Process]) -> Vec<nestor_wml::Process> {
    fn shrink(flowops: &mut [nestor_wml::Flowop]) {
        for flowop in flowops {
            flowop.working_set = nestor_wml::Value::Fixed(0);
            if let FlowopKind::Composite(inner) = &mut flowop.kind {
                shrink(inner);
            }
        }
    }
    let mut processes = processes.to_vec();
    for thread in processes.iter_mut().flat_map(|process| &mut process.threads) {
        shrink(&mut thread.flowops);
    }
    processes
}
