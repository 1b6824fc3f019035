//! `nestor predict --matrix`: guests × hosts from the cells that were measured.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_advise::Unit;
use nestor_predict::Matrix;
use nestor_report::units::digits;
use nestor_stack::{Layer, LayerDefinition, Stack};
use nestor_study::{Known, KnownStack};
use serde::Serialize;

use crate::notation::workload_named;
use crate::output::{print_json, table};

/// The host where there is none.
const RAW_DISK: &str = "raw disk";
const GUEST: &str = "guest file system";
const HOST: &str = "host file system";
const IMAGE: &str = "image";

/// The matrix of a load, with a stack from which others are made by exchanging the guest and the host.
pub struct OfLoad {
    /// What was measured.
    pub matrix: Matrix,
    unit: Unit,
    pattern: Stack,
}

#[derive(Serialize)]
struct Json<'a> {
    workload: &'a str,
    unit: &'static str,
    cells: &'a [nestor_predict::matrix::MatrixCell],
    suggested: Vec<Suggestion>,
    score: Option<nestor_predict::matrix::CompletionScore>,
}

#[derive(Serialize)]
struct Suggestion {
    guest: String,
    host: String,
    command: String,
}

/// Completes the matrix of a load.
///
/// # Errors
/// When too little of it was measured.
pub fn run(known: &Known, workload: &str, suggest: usize, json: bool) -> Result<ExitCode> {
    let name = workload_named(workload)?.to_string();
    let Some(of_load) = matrix_of(known, &name) else {
        bail!(
            "no guest was measured under {name} on a host file system yet\n  measure some: nestor study FILE, or nestor replicate nested-fs"
        );
    };
    let measured = of_load.matrix.measured.len();
    let Some(answer) = of_load.matrix.complete(suggest) else {
        bail!("{measured} cells of the matrix were measured under {name}; four tell something");
    };
    let suggestions = answer.suggested.iter().map(|(guest, host)| Suggestion {
        guest: guest.clone(),
        host: host.clone(),
        command: format!("nestor run '{}' '{name}'", of_load.stack(guest, host)),
    });
    let suggestions: Vec<Suggestion> = suggestions.collect();
    // What the same would have missed with as large a part of what is known.
    let score = of_load.matrix.score((measured * 2 / 3).min(12), 10);
    if json {
        print_json(&Json {
            workload: &name,
            unit: of_load.unit.name(),
            cells: &answer.cells,
            suggested: suggestions,
            score,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let (scale, unit) = (of_load.unit.scale(), of_load.unit.name());
    let rows: Vec<[String; 4]> = answer
        .cells
        .iter()
        .map(|cell| {
            let interval = match (cell.interval, cell.is_told) {
                (None, _) => "measured".to_owned(),
                (Some(_), false) => "I don't know".to_owned(),
                (Some(i), true) => format!("[{}, {}]", digits(i.low / scale), digits(i.high / scale)),
            };
            let rate = if cell.is_told { digits(cell.rate / scale) } else { "-".to_owned() };
            [cell.row.clone(), cell.column.clone(), rate, interval]
        })
        .collect();
    outln!("{name}: {measured} of {} cells measured", answer.cells.len());
    out!("{}", table(&["guest", "host", unit, "90 % interval"], &rows));
    if let Some(score) = score {
        outln!(
            "\nof the known cells, {} told the others with an error of {:.1} % (median; 90 % below {:.1} %), {:.0} % within their intervals",
            score.from,
            score.median * 100.0,
            score.p90 * 100.0,
            score.coverage * 100.0
        );
    }
    if !suggestions.is_empty() {
        outln!("\nmost worth measuring next:");
        suggestions.iter().for_each(|s| outln!("  {}", s.command));
    }
    Ok(ExitCode::SUCCESS)
}

/// Rate and stack by guest and host.
type Cells = BTreeMap<(String, String), (f64, String)>;

/// The matrix of stacks that differ in nothing but the guest and the host; of several the one with most cells.
pub fn matrix_of(known: &Known, workload: &str) -> Option<OfLoad> {
    // Hosts by everything else, the image among it; disks without a host, which have no image, by everything else.
    let mut groups: BTreeMap<(String, String), Cells> = BTreeMap::new();
    let mut raw: BTreeMap<String, Cells> = BTreeMap::new();
    let mut moves = false;
    for cell in known.cells.iter().filter(|cell| cell.workload == workload) {
        let Some(parts) = known.stacks.get(&cell.stack) else { continue };
        moves |= cell.bytes_per_second > 0.0;
        let part = |name: &str| parts.get(name).cloned().unwrap_or_default();
        let found = (cell.rate(), cell.stack.clone());
        match part(HOST) {
            host if host.is_empty() => {
                raw.entry(common(parts)).or_default().insert((part(GUEST), RAW_DISK.to_owned()), found);
            }
            host => {
                groups.entry((common(parts), part(IMAGE))).or_default().insert((part(GUEST), host), found);
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
    Some(OfLoad { matrix: Matrix { rows, columns, measured }, unit, pattern: Stack::parse(&pattern?).ok()? })
}

/// Everything but the guest, the host, and the image between them.
fn common(parts: &KnownStack) -> String {
    let same = parts.iter().filter(|(part, _)| ![GUEST, HOST, IMAGE].contains(&part.as_str()));
    same.map(|(part, value)| format!("{part}={value}")).collect::<Vec<_>>().join("|")
}

impl OfLoad {
    /// The stack of a guest and a host.
    fn stack(&self, guest: &str, host: &str) -> String {
        let layers = self.pattern.layers();
        let is_file_system = |at: &usize| matches!(layers[*at].definition(), LayerDefinition::FileSystem(_));
        let crossing = layers.iter().position(|layer| layer.definition().is_crossing()).unwrap_or(0);
        let guest_at = (0..crossing).find(is_file_system);
        let host_at = (crossing..layers.len()).find(is_file_system);
        let label = |(at, layer): (usize, &Layer)| match at {
            at if Some(at) == guest_at => Some(guest.to_owned()),
            // Neither the image nor the file system that it is on.
            at if host == RAW_DISK && at > crossing && host_at.is_some_and(|last| at <= last) => None,
            at if Some(at) == host_at => Some(host.to_owned()),
            _ => Some(layer.label()),
        };
        layers.iter().enumerate().filter_map(label).collect::<Vec<_>>().join("/")
    }
}

#[cfg(test)]
mod tests {
    use nestor_study::{KnownCell, stack_parts};

    use super::*;

    const WORKLOAD: &str = "fio:seq-write";

    fn known(stacks: &[&str]) -> Known {
        let cell = |stack: &&str| KnownCell {
            stack: (*stack).to_owned(),
            workload: WORKLOAD.to_owned(),
            runs: vec![1],
            bytes_per_second: 1e6,
            operations_per_second: 100.0,
            response_s: None,
            deviation: None,
        };
        Known {
            cells: stacks.iter().map(cell).collect(),
            stacks: stacks.iter().map(|s| ((*s).to_owned(), stack_parts(s).unwrap())).collect(),
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
    fn commands_name_stacks_that_are_any() {
        let found = matrix_of(&known(&["ext4/kvm/raw:size=2G/xfs/hdd:size=3G"]), WORKLOAD).unwrap();
        assert_eq!(found.stack("jfs", "ext2"), "jfs/kvm/raw:size=2G/ext2/hdd:size=3G");
        assert_eq!(found.stack("jfs", RAW_DISK), "jfs/kvm/hdd:size=3G");
        let nested = matrix_of(&known(&["ext4/kvm/qcow2/xfs/kvm/raw/ext4/null"]), WORKLOAD).unwrap();
        assert_eq!(nested.stack("jfs", "btrfs"), "jfs/kvm/qcow2/btrfs/kvm/raw/ext4/null");
    }
}
