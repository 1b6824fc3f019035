//! Guests and hosts under a load as a [`Matrix`], from what is known of a place.

use std::collections::{BTreeMap, BTreeSet};

use nestor_results::{Known, KnownStack, StackPart, WrittenStack, WrittenWorkload};
use nestor_stack::{Anatomy, Layer, Stack, StackError};
use nestor_statistics::prediction::completion::FEWEST_CELLS;
use nestor_workload::RateUnit;
use serde::Serialize;
use thiserror::Error;

use crate::evidence::Evidence;
use crate::matrix::{CompletionScore, GuestFs, HostFs, Matrix, MatrixCell, SCORE_TRIES, SCORED_FROM};

/// What the stacks of one matrix may differ in.
const EXCHANGED: [StackPart; 3] = [StackPart::GuestFileSystem, StackPart::HostFileSystem, StackPart::Image];

/// A matrix with all its cells.
pub struct CompletedMatrix {
    /// By guest, then by host.
    pub cells: Vec<MatrixCell>,
    /// Those most worth measuring next, the best first.
    pub suggested: Vec<Suggestion>,
    /// What the same would have missed with two thirds of what is known.
    pub score: Option<CompletionScore>,
}

/// A cell that is worth measuring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// The guest.
    pub guest: GuestFs,
    /// The host.
    pub host: HostFs,
    /// What measures it.
    pub command: String,
}

/// Why a matrix is not completed.
#[derive(Debug, Error)]
pub enum Incomplete {
    /// Too few of its cells were measured.
    #[error("too few cells of the matrix were measured")]
    TooFew(Vec<Suggestion>),
    /// A cell to measure would be no stack.
    #[error(transparent)]
    Stack(#[from] StackError),
}

/// The matrix of a load, with a stack from which others are made by exchanging the guest and the host.
pub struct LoadMatrix {
    load: WrittenWorkload,
    /// What was measured.
    pub matrix: Matrix,
    /// What rates are counted in.
    pub unit: RateUnit,
    pattern: Stack,
}

/// Rate and stack by guest and host.
type Cells = BTreeMap<(GuestFs, HostFs), (f64, WrittenStack)>;

/// The matrix of stacks that differ in nothing but the guest and the host; of several the one with most cells.
pub fn load_matrix(known: &Known, workload: &WrittenWorkload) -> Option<LoadMatrix> {
    // Hosts by everything else, the image among it; disks without a host, which have no image, by everything else.
    let mut groups: BTreeMap<(Vec<&str>, String), Cells> = BTreeMap::new();
    let mut raw: BTreeMap<Vec<&str>, Cells> = BTreeMap::new();
    let mut moves = false;
    for cell in known.cells.iter().filter(|cell| cell.workload == *workload) {
        let (Some(parts), Some(stack)) = (known.stacks.get(&cell.stack), cell.stack.value()) else {
            continue;
        };
        moves |= cell.bytes_per_second > 0.0;
        let found = (cell.rate(), cell.stack.clone());
        let guest = GuestFs(stack.anatomy().guest_file_system().cloned());
        match stack.anatomy().host_file_system().cloned() {
            None => {
                raw.entry(common(parts)).or_default().insert((guest, HostFs::RawDisk), found);
            }
            Some(host) => {
                let image = parts.get(&StackPart::Image).cloned().unwrap_or_default();
                groups.entry((common(parts), image)).or_default().insert((guest, HostFs::On(host)), found);
            }
        }
    }
    let with_raw = groups.into_iter().map(|((common, _), mut cells)| {
        let pattern = cells.values().next().map(|(_, stack)| stack.clone());
        cells.extend(raw.get(&common).cloned().unwrap_or_default());
        (pattern, cells)
    });
    let (pattern, cells) = with_raw.max_by_key(|(_, cells)| cells.len())?;
    let rows: BTreeSet<GuestFs> = cells.keys().map(|(guest, _)| guest.clone()).collect();
    let columns: BTreeSet<HostFs> = cells.keys().map(|(_, host)| host.clone()).collect();
    let (rows, mut columns) = (Vec::from_iter(rows), Vec::from_iter(columns));
    columns.sort_by_key(HostFs::sort_key);
    let place = |(guest, host): &(GuestFs, HostFs)| {
        let row = rows.iter().position(|known| known == guest)?;
        Some((row, columns.iter().position(|known| known == host)?))
    };
    let measured = cells.iter().filter_map(|(key, (rate, _))| Some((place(key)?, *rate))).collect();
    let matrix = Matrix { rows, columns, measured };
    let unit = if moves { RateUnit::BytesPerSecond } else { RateUnit::OperationsPerSecond };
    let load = workload.clone();
    Some(LoadMatrix { load, matrix, unit, pattern: pattern?.value()?.clone() })
}

/// Everything but the guest, the host, and the image between them. Every stack has the same parts, so that values are enough.
fn common(parts: &KnownStack) -> Vec<&str> {
    let same = parts.iter().filter(|(part, _)| !EXCHANGED.contains(part));
    same.map(|(_, value)| value.as_str()).collect()
}

/// File systems to begin with where too few were measured.
const USUAL: [&str; 4] = ["ext4", "xfs", "ext3", "btrfs"];

/// What was measured, then the others.
fn with_others<T: Clone + PartialEq, const N: usize>(measured: &[T], others: [T; N]) -> Vec<T> {
    let more = others.into_iter().filter(|other| !measured.contains(other));
    measured.iter().cloned().chain(more).collect()
}

impl LoadMatrix {
    /// Completes it, with so many cells to measure next.
    ///
    /// # Errors
    ///
    /// The cells that are to be measured before, where there are too few, and what [`stack`](Self::stack) says of one to measure.
    pub fn complete(&self, evidence: &Evidence, suggest: usize) -> Result<CompletedMatrix, Incomplete> {
        let suggestions = |cells: Vec<(GuestFs, HostFs)>| {
            let named = cells.into_iter().map(|(guest, host)| self.suggestion(guest, host, evidence));
            named.collect::<Result<Vec<Suggestion>, StackError>>()
        };
        let measured = self.matrix.measured.len();
        let Some(answer) = self.matrix.complete(suggest) else {
            let wanted = self.wanted(FEWEST_CELLS.saturating_sub(measured));
            return Err(Incomplete::TooFew(suggestions(wanted)?));
        };
        let score = self.matrix.score((measured * 2 / 3).min(SCORED_FROM), SCORE_TRIES);
        Ok(CompletedMatrix { cells: answer.cells, suggested: suggestions(answer.suggested)?, score })
    }

    fn suggestion(
        &self,
        guest: GuestFs,
        host: HostFs,
        evidence: &Evidence,
    ) -> Result<Suggestion, StackError> {
        let stack = self.stack(&guest, &host)?;
        let command = evidence.command("run", &format!("'{stack}' '{}'", self.load));
        Ok(Suggestion { guest, host, command })
    }

    /// So many guests and hosts that would make the matrix tell something: of those that were measured with others first.
    pub fn wanted(&self, count: usize) -> Vec<(GuestFs, HostFs)> {
        let usual = USUAL.map(|name| Layer::parse(name).expect("it is a layer"));
        let guests = with_others(&self.matrix.rows, usual.clone().map(|layer| GuestFs(Some(layer))));
        let hosts = with_others(&self.matrix.columns, usual.map(HostFs::On));
        let all = (0..guests.len()).flat_map(|row| (0..hosts.len()).map(move |column| (row, column)));
        let mut left: Vec<(usize, usize)> =
            all.filter(|cell| !self.matrix.measured.contains_key(cell)).collect();
        // Near the corner of what is known.
        left.sort_by_key(|(row, column)| row.max(column).to_owned());
        let named = |(row, column): (usize, usize)| (guests[row].clone(), hosts[column].clone());
        left.into_iter().take(count).map(named).collect()
    }

    /// The stack of a guest and a host.
    ///
    /// # Errors
    /// Options of the other layers that exclude one of them.
    pub fn stack(&self, guest: &GuestFs, host: &HostFs) -> Result<Stack, StackError> {
        let parts = self.pattern.anatomy();
        let (guest_fs, host_fs) = (parts.guest_file_system(), parts.host_file_system());
        let is = |layer: &Layer, other: Option<&Layer>| other.is_some_and(|other| std::ptr::eq(other, layer));
        let Anatomy { above, virtual_machine, below, medium, .. } = parts;
        // The raw disk has neither the image nor the file system that it is on.
        let left_out = match host {
            HostFs::RawDisk => below.iter().position(|layer| is(layer, host_fs)),
            HostFs::On(_) => None,
        };
        let below = &below[left_out.map_or(0, |last| last + 1)..];
        let exchanged = |layer| match host {
            HostFs::On(file_system) if is(layer, host_fs) => file_system,
            _ => layer,
        };
        let above = guest.0.iter().chain(above.iter().filter(|layer| !is(layer, guest_fs)));
        let layers = above.chain(virtual_machine).chain(below.iter().map(exchanged)).chain([medium]);
        Stack::of(layers.cloned())
    }
}

#[cfg(test)]
mod tests {
    use nestor_results::{KnownCell, stack_parts};

    use super::*;

    const WORKLOAD: &str = "fio:seq-write";

    fn known(stacks: &[&str]) -> Known {
        let cell = |stack: &&str| KnownCell {
            stack: (*stack).into(),
            workload: WORKLOAD.into(),
            runs: vec![1],
            bytes_per_second: 1e6,
            operations_per_second: 100.0,
            response_s: None,
            run_rates: vec![100.0],
            deviation: None,
        };
        Known {
            cells: stacks.iter().map(cell).collect(),
            stacks: stacks.iter().map(|s| ((*s).into(), stack_parts(&(*s).into()))).collect(),
            ..Known::default()
        }
    }

    fn layer(text: &str) -> Layer {
        Layer::parse(text).unwrap()
    }

    fn on(file_system: &str) -> HostFs {
        HostFs::On(layer(file_system))
    }

    fn guest(file_system: &str) -> GuestFs {
        GuestFs(Some(layer(file_system)))
    }

    #[test]
    fn images_are_not_mixed_and_native_stacks_are_no_hosts() {
        let native = ["ext4/hdd", "xfs/hdd", "jfs/hdd", "ext2/hdd", "ext3/hdd"];
        let nested =
            ["ext4/kvm/raw/xfs/hdd", "ext4/kvm/qcow2/xfs/hdd", "xfs/kvm/raw/xfs/hdd", "ext4/kvm/hdd"];
        let found = load_matrix(&known(&[&native[..], &nested[..]].concat()), &WORKLOAD.into()).unwrap();
        // ext4 and xfs on xfs in a raw image, and ext4 on the disk.
        assert_eq!(found.matrix.measured.len(), 3);
        assert_eq!(found.matrix.columns, [HostFs::RawDisk, on("xfs")]);
        assert!(load_matrix(&known(&native), &WORKLOAD.into()).is_none());
    }

    #[test]
    fn too_few_cells_name_those_that_are_missing() {
        let two =
            load_matrix(&known(&["ext4/kvm/raw/xfs/hdd", "jfs/kvm/raw/xfs/hdd"]), &WORKLOAD.into()).unwrap();
        let cell = |file_system: &str, host: &str| (guest(file_system), on(host));
        assert_eq!(two.wanted(2), [cell("ext4", "ext4"), cell("jfs", "ext4")]);
        let one = load_matrix(&known(&["xfs/kvm/raw/xfs/hdd"]), &WORKLOAD.into()).unwrap();
        assert_eq!(one.wanted(3), [cell("xfs", "ext4"), cell("ext4", "xfs"), cell("ext4", "ext4")]);
    }

    #[test]
    fn commands_name_stacks_that_are_any() {
        let stack = |pattern: &str, guest: &GuestFs, host: &HostFs| {
            let found = load_matrix(&known(&[pattern]), &WORKLOAD.into()).unwrap();
            found.stack(guest, host).unwrap().to_string()
        };
        let sized = "ext4/kvm/raw:size=2G/xfs/hdd:size=3G";
        assert_eq!(stack(sized, &guest("jfs"), &on("ext2")), "jfs/kvm/raw:size=2G/ext2/hdd:size=3G");
        assert_eq!(stack(sized, &guest("jfs"), &HostFs::RawDisk), "jfs/kvm/hdd:size=3G");
        assert_eq!(stack(sized, &GuestFs(None), &HostFs::RawDisk), "kvm/hdd:size=3G");
        let nested = "ext4/kvm/qcow2/xfs/kvm/raw/ext4/null";
        assert_eq!(stack(nested, &guest("jfs"), &on("btrfs")), "jfs/kvm/qcow2/btrfs/kvm/raw/ext4/null");
    }
}
