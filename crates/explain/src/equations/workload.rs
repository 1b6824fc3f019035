//! Equation 1: the time of a workload by what the file system did.

use std::collections::{BTreeMap, BTreeSet};

use nestor_correlate::{Cause, LevelKind, Spent};
use nestor_layout::Class;
use nestor_results::Measured;
use nestor_stack::{LayerRole, MachineName};
use serde::Serialize;

use super::answer::{NotKnown, Why};
use super::term::{Asked, Placement, Term, rows};
use super::{Runs, conserved};
use crate::evidence::add_spent;

/// Equation 1, of all runs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadTime {
    /// Time that was measured, ns.
    pub elapsed_ns: f64,
    /// Time in which the medium worked, ns: what the terms add up to. No moment counts twice.
    pub busy_ns: u64,
    /// By whose request it was: of the topmost file system what the workload asked for, of each below what it did of its own accord.
    pub file_systems: Vec<FileSystemTime>,
    /// By what share of the busy time the terms are off, signed.
    pub off: f64,
    /// What must be known to read the terms.
    pub notes: Vec<String>,
}

/// What one file system made the medium do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileSystemTime {
    /// The layer as written; `None` of requests that belong to none.
    pub layer: Option<String>,
    /// Its machine.
    pub machine: MachineName,
    /// Whether it is a file system, and not a program that uses the device itself.
    pub is_file_system: bool,
    /// All its terms together, ns.
    pub busy_ns: u64,
    /// The terms; those that cannot be told apart are one.
    pub terms: Vec<TermTime>,
}

/// One term, or several that cannot be told apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TermTime {
    /// Which.
    pub terms: BTreeSet<Term>,
    /// Time of the medium, ns.
    pub busy_ns: u64,
    /// Requests of the medium.
    pub requests: u64,
    /// As a share of the whole busy time, 0 to 1.
    pub share: f64,
    /// The lowest and the highest share of a run, where there are several.
    pub share_of_runs: Option<[f64; 2]>,
    /// What it consists of: time by class of request, ns.
    pub classes: BTreeMap<Class, u64>,
}

/// Time by the level that a request is of, counted among those that causes name, and its class. `None`: of no level.
type Owned = BTreeMap<(Option<usize>, Class), Spent>;

/// The class of a cause at the highest level that knows of it.
fn owner(cause: &Cause) -> (Option<usize>, Class) {
    let known = cause.0.iter().enumerate().find_map(|(level, class)| Some((Some(level), (*class)?)));
    known.unwrap_or((None, Class::Unknown))
}

const fn asked(level: Option<usize>) -> Asked {
    if matches!(level, Some(0)) { Asked::FromAbove } else { Asked::OfItsOwn }
}

fn owned<'a>(causes: impl Iterator<Item = (&'a Cause, &'a Spent)>) -> Owned {
    let mut owned = Owned::new();
    for (cause, spent) in causes {
        add_spent(owned.entry(owner(cause)).or_default(), spent);
    }
    owned
}

impl WorkloadTime {
    pub(super) fn of(runs: &Runs<'_>) -> Result<Self, NotKnown> {
        let evidence = &runs.evidence;
        let busy_ns = evidence.blame.busy_ns;
        if busy_ns == 0 {
            return Err(NotKnown {
                why: Why::NothingBelow,
                words: "the medium did nothing while the workload ran: memory answered it".to_owned(),
                mend: "a larger data set, direct I/O or a smaller memory reaches the medium".to_owned(),
            });
        }
        let all = owned(evidence.blame.causes.iter());
        let of_runs: Vec<(Owned, u64)> = runs
            .measured
            .iter()
            .filter_map(|(_, measured)| Some(&measured.correlation.as_ref()?.blame))
            .map(|blame| (owned(blame.causes.iter()), blame.busy_ns))
            .collect();
        let mut levels: BTreeSet<Option<usize>> = all.keys().map(|(level, _)| *level).collect();
        levels.insert(Some(0));
        let mut file_systems: Vec<FileSystemTime> =
            levels.into_iter().map(|level| runs.file_system(level, &all, &of_runs, busy_ns)).collect();
        // What belongs to none comes last.
        file_systems.sort_by_key(|one| one.layer.is_none());
        let terms_ns: u64 = file_systems.iter().flat_map(|one| &one.terms).map(|term| term.busy_ns).sum();
        let mend = runs.measure_again("");
        let off = conserved(terms_ns as f64, busy_ns as f64, "the busy time of the medium", mend)?;
        runs.check_with_log(busy_ns)?;
        let notes = notes(&all, &file_systems);
        Ok(Self { elapsed_ns: evidence.elapsed_ns, busy_ns, file_systems, off, notes })
    }
}

impl Runs<'_> {
    fn file_system(
        &self,
        level: Option<usize>,
        all: &Owned,
        of_runs: &[(Owned, u64)],
        whole_ns: u64,
    ) -> FileSystemTime {
        let of_level = |owned: &Owned| -> Vec<(Class, Spent)> {
            owned.iter().filter(|((at, _), _)| *at == level).map(|((_, class), s)| (*class, *s)).collect()
        };
        let spent = of_level(all);
        let rows = rows(spent.iter().map(|(class, _)| (*class, asked(level))));
        let belongs = |row: &BTreeSet<Term>, class| {
            Placement::of(class, asked(level)).terms.iter().any(|t| row.contains(t))
        };
        let terms = rows.into_iter().map(|row| {
            let mine: Vec<&(Class, Spent)> =
                spent.iter().filter(|(class, _)| belongs(&row, *class)).collect();
            let busy_ns = mine.iter().map(|(_, spent)| spent.busy_ns).sum();
            let shares = of_runs.iter().map(|(owned, whole_ns)| {
                let mine = of_level(owned).into_iter().filter(|(class, _)| belongs(&row, *class));
                share(mine.map(|(_, spent)| spent.busy_ns).sum(), *whole_ns)
            });
            TermTime {
                busy_ns,
                requests: mine.iter().map(|(_, spent)| spent.requests).sum(),
                share: share(busy_ns, whole_ns),
                share_of_runs: (of_runs.len() > 1).then(|| {
                    shares.fold([f64::INFINITY, 0.0], |[low, high], one| [low.min(one), high.max(one)])
                }),
                classes: mine.iter().map(|(class, spent)| (*class, spent.busy_ns)).collect(),
                terms: row,
            }
        });
        let terms: Vec<TermTime> = terms.collect();
        let named = level.and_then(|level| self.named_levels().into_iter().nth(level));
        let (layer, machine, is_file_system) = match (level, named) {
            (None, _) => (None, MachineName::Unknown, false),
            (Some(_), Some((layer, machine, is))) => (Some(layer), machine, is),
            (Some(level), None) => (Some(format!("file system {}", level + 1)), MachineName::Unknown, true),
        };
        FileSystemTime {
            layer,
            machine,
            is_file_system,
            busy_ns: terms.iter().map(|term| term.busy_ns).sum(),
            terms,
        }
    }

    /// The levels whose classes causes tell, topmost first: the first below the application, and the file systems below it.
    fn named_levels(&self) -> Vec<(String, MachineName, bool)> {
        let Some((measured, correlation)) =
            self.measured.first().and_then(|(_, measured)| Some((*measured, measured.correlation.as_ref()?)))
        else {
            return Vec::new();
        };
        let named: Vec<_> = correlation
            .levels
            .iter()
            .filter(|level| level.kind != LevelKind::Application)
            .map(|level| {
                let is_file_system = is_file_system(measured, &level.layer, &level.machine);
                (level.layer.clone(), level.machine.clone(), is_file_system)
            })
            .enumerate()
            .filter(|(at, (_, _, is_file_system))| *at == 0 || *is_file_system)
            .map(|(_, level)| level)
            .collect();
        let told = correlation.blame.causes.keys().map(|cause| cause.0.len()).max().unwrap_or(0);
        // Where one of them has no classes, it is not known which.
        if named.len() == told { named } else { Vec::new() }
    }

    /// Holds the busy time against the medium's own log: it cannot be busy for longer than its requests took together.
    fn check_with_log(&self, busy_ns: u64) -> Result<(), NotKnown> {
        let logged = |measured: &Measured| {
            let metrics = measured.layers.last()?.metrics.as_ref()?;
            let times = [&metrics.d2c, &metrics.flush_d2c];
            Some(times.into_iter().map(crate::evidence::sum_ns).sum::<f64>())
        };
        let Some(served_ns) = self
            .measured
            .iter()
            .map(|(_, measured)| logged(measured))
            .sum::<Option<f64>>()
            .filter(|ns| *ns > 0.0)
        else {
            return Ok(());
        };
        let busy_ns = busy_ns as f64;
        let whole = "the time of all requests in the medium's log";
        conserved(busy_ns, busy_ns.min(served_ns), whole, self.measure_again("")).map(|_| ())
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Whether the layer of a level is a file system.
fn is_file_system(measured: &Measured, layer: &str, machine: &MachineName) -> bool {
    let of_level = measured.layers.iter().filter(|one| one.layer == layer && one.machine == *machine);
    of_level.map(|one| &one.role).any(|role| matches!(role, LayerRole::FileSystem(_)))
}

/// What must be known to read the terms: of each class that took time.
fn notes(all: &Owned, file_systems: &[FileSystemTime]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if file_systems.first().is_some_and(|one| !one.is_file_system) {
        notes.push(
            "what is at the top has no blocks of a file system (a program uses the device itself, or the files are on a server): \
             equation 1 speaks of one, so what was asked there is not divided"
                .to_owned(),
        );
    }
    let said = all.iter().filter(|(_, spent)| spent.busy_ns > 0);
    for ((level, class), _) in said {
        if let Some(also) =
            Placement::of(*class, asked(*level)).also.filter(|also| !notes.iter().any(|n| n == also))
        {
            notes.push(also.to_owned());
        }
    }
    let of_files = file_systems.iter().filter(|one| one.is_file_system).flat_map(|one| &one.terms);
    if of_files.flat_map(|term| term.classes.keys()).any(|class| *class == Class::FileData) {
        notes.push(
            "file blocks have what was written to places that were free again when the layout was read: deleted files, and their \
             deleted directories and maps"
                .to_owned(),
        );
    }
    notes
}
