//! `nestor predict --matrix`: guests × hosts from the cells that were measured.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_advise::Unit;
use nestor_predict::matrix::{CompletionScore, MatrixCell, MatrixNulls};
use nestor_predict::methods::measure_many;
use nestor_predict::{Evidence, Matrix};
use nestor_report::units::digits;
use nestor_results::{Known, KnownPlace, KnownStack, StackPart, WrittenStack};
use nestor_stack::{Anatomy, Layer, Stack};
use nestor_statistics::prediction::completion::FEWEST_CELLS;
use serde::Serialize;

use super::aims::percent;
use super::place;
use crate::named::workload_named;
use crate::output::{print_json, table};

/// The host where there is none.
const RAW_DISK: &str = "raw disk";
/// What the stacks of one matrix may differ in.
const EXCHANGED: [StackPart; 3] = [StackPart::GuestFileSystem, StackPart::HostFileSystem, StackPart::Image];

/// The matrix of a load, with a stack from which others are made by exchanging the guest and the host.
pub struct OfLoad {
    /// What was measured.
    pub matrix: Matrix,
    unit: Unit,
    pattern: Stack,
}

#[derive(Serialize)]
struct Json<'a> {
    place: &'a KnownPlace,
    workload: &'a str,
    unit: &'static str,
    cells: &'a [MatrixCell],
    suggested: Vec<Suggestion>,
    score: Option<CompletionScore>,
}

#[derive(Serialize)]
struct Suggestion {
    guest: String,
    host: String,
    command: String,
}

/// Completes the matrix of a load, from what is known of the place that `on` names if it has to be named.
///
/// # Errors
/// When too little of it was measured.
pub fn run(
    known: &Known,
    on: Option<String>,
    workload: &str,
    suggest: usize,
    json: bool,
) -> Result<ExitCode> {
    let name = workload_named(workload)?.to_string();
    let evidence = Evidence { on, ..Evidence::default() };
    let place = known.place.in_words();
    let Some(of_load) = matrix_of(known, &name) else {
        let elsewhere = place::elsewhere(known, &name, |other| other.workload == name);
        bail!(
            "no guest on a host file system has been measured under {name} on {place} yet{}\n  measure \
             some: {}",
            elsewhere.map_or_else(String::new, |there| format!("\n  {there}")),
            measure_many(&evidence)
        );
    };
    let measured = of_load.matrix.measured.len();
    let command = |guest: &str, host: &str| {
        evidence.command("run", &format!("'{}' '{name}'", of_load.stack(guest, host)))
    };
    let Some(answer) = of_load.matrix.complete(suggest) else {
        let wanted = of_load.wanted(FEWEST_CELLS.saturating_sub(measured));
        let commands: Vec<String> =
            wanted.iter().map(|(guest, host)| format!("\n    {}", command(guest, host))).collect();
        bail!(
            "too few cells of the matrix under {name} were measured on {place}: {measured}; at least \
             {FEWEST_CELLS} are needed\n  measure these as well:{}",
            commands.concat()
        );
    };
    let suggestions = answer.suggested.iter().map(|(guest, host)| Suggestion {
        guest: guest.clone(),
        host: host.clone(),
        command: command(guest, host),
    });
    let suggestions: Vec<Suggestion> = suggestions.collect();
    // What the same would have missed with as large a part of what is known.
    let score = of_load.matrix.score((measured * 2 / 3).min(12), 10);
    if json {
        print_json(&Json {
            place: &known.place,
            workload: &name,
            unit: of_load.unit.name(),
            cells: &answer.cells,
            suggested: suggestions,
            score,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{name} on {place}: {measured} of {} cells measured", answer.cells.len());
    out!("{}", cells_text(&answer.cells, of_load.unit));
    out!("{}", score.map(score_text).unwrap_or_default());
    print_suggestions(&suggestions);
    Ok(ExitCode::SUCCESS)
}

fn print_suggestions(suggestions: &[Suggestion]) {
    if !suggestions.is_empty() {
        outln!("\nmost worth measuring next:");
        suggestions.iter().for_each(|s| outln!("  {}", s.command));
    }
}

/// Every cell; those that were not measured with what null models say of them.
fn cells_text(cells: &[MatrixCell], unit: Unit) -> String {
    let rate = |rate: f64| digits(rate / unit.scale());
    let rows: Vec<[String; 6]> = cells
        .iter()
        .map(|cell| {
            let interval = match (cell.interval, cell.is_told) {
                (None, _) => "measured".to_owned(),
                (Some(_), false) => "I don't know".to_owned(),
                (Some(i), true) => format!("[{}, {}]", rate(i.low), rate(i.high)),
            };
            let told = if cell.is_told { rate(cell.rate) } else { "-".to_owned() };
            let null = |of: fn(&MatrixNulls) -> f64| {
                cell.nulls.as_ref().map_or_else(|| "-".to_owned(), |nulls| rate(of(nulls)))
            };
            [
                cell.row.clone(),
                cell.column.clone(),
                told,
                interval,
                null(|nulls| nulls.row_by_column),
                null(|nulls| nulls.mean_of_all),
            ]
        })
        .collect();
    table(&["guest", "host", unit.name(), "90 % interval", "row x column", "mean of all"], &rows)
}

/// What completing from a part missed, and what the null models did.
fn score_text(score: CompletionScore) -> String {
    format!(
        "\n{} of the known cells predict the others with a median error of {} (90th percentile {}), {:.0} % \
         within their intervals\n  \
         for scale: mean of the row x mean of the column {}, mean of all {} (medians of the same cells)\n",
        score.from,
        percent(score.median),
        percent(score.p90),
        score.coverage * 100.0,
        percent(score.nulls.row_by_column),
        percent(score.nulls.mean_of_all)
    )
}

/// Rate and stack by guest and host.
type Cells = BTreeMap<(String, String), (f64, WrittenStack)>;

/// The matrix of stacks that differ in nothing but the guest and the host; of several the one with most cells.
pub fn matrix_of(known: &Known, workload: &str) -> Option<OfLoad> {
    // Hosts by everything else, the image among it; disks without a host, which have no image, by everything else.
    let mut groups: BTreeMap<(String, String), Cells> = BTreeMap::new();
    let mut raw: BTreeMap<String, Cells> = BTreeMap::new();
    let mut moves = false;
    for cell in known.cells.iter().filter(|cell| cell.workload == workload) {
        let Some(parts) = known.stacks.get(&cell.stack) else { continue };
        moves |= cell.bytes_per_second > 0.0;
        let part = |part| parts.get(&part).cloned().unwrap_or_default();
        let found = (cell.rate(), cell.stack.clone());
        let guest = part(StackPart::GuestFileSystem);
        match part(StackPart::HostFileSystem) {
            host if host.is_empty() => {
                raw.entry(common(parts)).or_default().insert((guest, RAW_DISK.to_owned()), found);
            }
            host => {
                let image = part(StackPart::Image);
                groups.entry((common(parts), image)).or_default().insert((guest, host), found);
            }
        }
    }
    let with_raw = groups.into_iter().map(|((common, _), mut cells)| {
        let pattern = cells.values().next().map(|(_, stack)| stack.clone());
        cells.extend(raw.get(&common).cloned().unwrap_or_default());
        (pattern, cells)
    });
    let (pattern, cells) = with_raw.max_by_key(|(_, cells)| cells.len())?;
    let names = |of: fn(&(String, String)) -> &String| {
        let mut names: Vec<String> = cells.keys().map(|key| of(key).clone()).collect();
        names.sort();
        names.dedup();
        names
    };
    let (rows, columns) = (names(|key| &key.0), names(|key| &key.1));
    let place = |names: &[String], name: &String| names.iter().position(|known| known == name);
    let measured = cells
        .iter()
        .filter_map(|((guest, host), (rate, _))| {
            Some(((place(&rows, guest)?, place(&columns, host)?), *rate))
        })
        .collect();
    let unit = if moves { Unit::BytesPerSecond } else { Unit::OperationsPerSecond };
    Some(OfLoad { matrix: Matrix { rows, columns, measured }, unit, pattern: pattern?.value()?.clone() })
}

/// Everything but the guest, the host, and the image between them.
fn common(parts: &KnownStack) -> String {
    let same = parts.iter().filter(|(part, _)| !EXCHANGED.contains(part));
    same.map(|(part, value)| format!("{part}={value}")).collect::<Vec<_>>().join("|")
}

/// File systems to begin with where too few were measured.
const USUAL: [&str; 4] = ["ext4", "xfs", "ext3", "btrfs"];

impl OfLoad {
    /// So many guests and hosts that would make the matrix tell something: of those that were measured with others first.
    fn wanted(&self, count: usize) -> Vec<(String, String)> {
        let with_usual = |measured: &[String]| -> Vec<String> {
            let more = USUAL.iter().map(ToString::to_string).filter(|name| !measured.contains(name));
            measured.iter().cloned().chain(more).collect()
        };
        let (guests, hosts) = (with_usual(&self.matrix.rows), with_usual(&self.matrix.columns));
        let all = (0..guests.len()).flat_map(|row| (0..hosts.len()).map(move |column| (row, column)));
        let mut left: Vec<(usize, usize)> =
            all.filter(|cell| !self.matrix.measured.contains_key(cell)).collect();
        // Near the corner of what is known.
        left.sort_by_key(|(row, column)| row.max(column).to_owned());
        let named = |(row, column): (usize, usize)| (guests[row].clone(), hosts[column].clone());
        left.into_iter().take(count).map(named).collect()
    }

    /// The stack of a guest and a host.
    fn stack(&self, guest: &str, host: &str) -> String {
        let parts = self.pattern.anatomy();
        let (guest_fs, host_fs) = (parts.guest_file_system(), parts.host_file_system());
        let is = |layer: &Layer, named: Option<&Layer>| named.is_some_and(|named| std::ptr::eq(named, layer));
        let Anatomy { above, virtual_machine, below, medium } = parts;
        // The raw disk has neither the image nor the file system that it is on.
        let left_out =
            if host == RAW_DISK { below.iter().position(|layer| is(layer, host_fs)) } else { None };
        let below = &below[left_out.map_or(0, |last| last + 1)..];
        let label = |layer: &Layer| match layer {
            layer if is(layer, guest_fs) => guest.to_owned(),
            layer if is(layer, host_fs) => host.to_owned(),
            layer => layer.label(),
        };
        let layers = above.iter().chain(virtual_machine).chain(below).chain([medium]);
        layers.map(label).collect::<Vec<_>>().join("/")
    }
}

#[cfg(test)]
mod tests {
    use nestor_results::{KnownCell, stack_parts};
    use nestor_statistics::Interval;

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

    #[test]
    fn images_are_not_mixed_and_native_stacks_are_no_hosts() {
        let native = ["ext4/hdd", "xfs/hdd", "jfs/hdd", "ext2/hdd", "ext3/hdd"];
        let nested =
            ["ext4/kvm/raw/xfs/hdd", "ext4/kvm/qcow2/xfs/hdd", "xfs/kvm/raw/xfs/hdd", "ext4/kvm/hdd"];
        let found = matrix_of(&known(&[&native[..], &nested[..]].concat()), WORKLOAD).unwrap();
        // ext4 and xfs on xfs in a raw image, and ext4 on the disk.
        assert_eq!(found.matrix.measured.len(), 3);
        assert_eq!(found.matrix.columns, [RAW_DISK, "xfs"]);
        assert!(matrix_of(&known(&native), WORKLOAD).is_none());
    }

    #[test]
    fn too_few_cells_name_those_that_are_missing() {
        let two = matrix_of(&known(&["ext4/kvm/raw/xfs/hdd", "jfs/kvm/raw/xfs/hdd"]), WORKLOAD).unwrap();
        let cell = |guest: &str, host: &str| (guest.to_owned(), host.to_owned());
        assert_eq!(two.wanted(2), [cell("ext4", "ext4"), cell("jfs", "ext4")]);
        let one = matrix_of(&known(&["xfs/kvm/raw/xfs/hdd"]), WORKLOAD).unwrap();
        assert_eq!(one.wanted(3), [cell("xfs", "ext4"), cell("ext4", "xfs"), cell("ext4", "ext4")]);
    }

    #[test]
    fn null_models_stand_beside_what_is_told() {
        let stacks =
            ["ext3/kvm/raw/ext3/hdd", "ext3/kvm/raw/xfs/hdd", "xfs/kvm/raw/ext3/hdd", "xfs/kvm/raw/jfs/hdd"];
        let mut known = known(&stacks);
        let rates = [100.0, 400.0, 200.0, 200.0];
        known.cells.iter_mut().zip(rates).for_each(|(cell, mb)| cell.bytes_per_second = mb * 1e6);
        let found = matrix_of(&known, WORKLOAD).unwrap();
        let answer = found.matrix.complete(0).unwrap();
        let was_predicted = |cell: &&MatrixCell| cell.nulls.is_some();
        assert_eq!(answer.cells.iter().filter(was_predicted).count(), 2);
        // The rates of the two that are told are the model's; beside them is what their rows and columns are in the mean.
        let told: Vec<MatrixCell> = answer
            .cells
            .into_iter()
            .map(|cell| MatrixCell {
                interval: cell.interval.map(|_| Interval { low: 1e8, high: 5e8 }),
                ..cell
            })
            .map(|cell| MatrixCell { rate: if cell.nulls.is_some() { 3e8 } else { cell.rate }, ..cell })
            .collect();
        insta::assert_snapshot!(cells_text(&told, found.unit), @r"
        guest  host  MB/s  90 % interval  row x column  mean of all
        ext3   ext3  100   measured       -             -
        ext3   jfs   300   [100, 500]     200           200
        ext3   xfs   400   measured       -             -
        xfs    ext3  200   measured       -             -
        xfs    jfs   200   measured       -             -
        xfs    xfs   300   [100, 500]     400           200
        ");
        let nulls = MatrixNulls { mean_of_all: 0.4, row_by_column: 0.21 };
        let score =
            CompletionScore { from: 12, of: 42, tries: 10, median: 0.08, p90: 0.2, coverage: 0.91, nulls };
        insta::assert_snapshot!(score_text(score).trim_start(), @r"
        12 of the known cells predict the others with a median error of 8.0 % (90th percentile 20.0 %), 91 % within their intervals
          for scale: mean of the row x mean of the column 21.0 %, mean of all 40.0 % (medians of the same cells)
        ");
    }

    #[test]
    fn commands_name_stacks_that_are_any() {
        let found = matrix_of(&known(&["ext4/kvm/raw:size=2G/xfs/hdd:size=3G"]), WORKLOAD).unwrap();
        assert_eq!(found.stack("jfs", "ext2"), "jfs/kvm/raw:size=2G/ext2/hdd:size=3G");
        assert_eq!(found.stack("jfs", RAW_DISK), "jfs/kvm/hdd:size=3G");
        let nested = matrix_of(&known(&["ext4/kvm/qcow2/xfs/kvm/raw/ext4/null"]), WORKLOAD).unwrap();
        assert_eq!(nested.stack("jfs", "btrfs"), "jfs/kvm/qcow2/btrfs/kvm/raw/ext4/null");
    }
}
