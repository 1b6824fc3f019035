//! `nestor predict --matrix`: guests × hosts from the cells that were measured.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_predict::Matrix;
use nestor_report::units::digits;
use nestor_study::{Known, KnownStack};
use serde::Serialize;

use crate::notation::workload_named;
use crate::output::{print_json, table};

/// The host where there is none.
const RAW_DISK: &str = "raw disk";
const GUEST: &str = "guest file system";
const HOST: &str = "host file system";

/// The matrix of a load, with a stack from which others are made by exchanging the guest and the host.
pub struct OfLoad {
    /// What was measured.
    pub matrix: Matrix,
    pattern: String,
}

#[derive(Serialize)]
struct Json<'a> {
    workload: &'a str,
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
        print_json(&Json { workload: &name, cells: &answer.cells, suggested: suggestions, score })?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 5]> = answer
        .cells
        .iter()
        .map(|cell| {
            let interval = match (cell.interval, cell.is_told) {
                (None, _) => "measured".to_owned(),
                (Some(_), false) => "I don't know".to_owned(),
                (Some(i), true) => format!("[{}, {}]", digits(i.low / 1e6), digits(i.high / 1e6)),
            };
            let rate = if cell.is_told { digits(cell.rate / 1e6) } else { "-".to_owned() };
            [cell.row.clone(), cell.column.clone(), rate, interval, String::new()]
        })
        .collect();
    outln!("{name}: {measured} of {} cells measured", answer.cells.len());
    out!("{}", table(&["guest", "host", "MB/s", "90 % interval", ""], &rows));
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
    let mut groups: BTreeMap<String, Cells> = BTreeMap::new();
    for cell in known.cells.iter().filter(|cell| cell.workload == workload) {
        let Some(parts) = known.stacks.get(&cell.stack) else { continue };
        let rate =
            if cell.bytes_per_second > 0.0 { cell.bytes_per_second } else { cell.operations_per_second };
        let part = |name: &str| parts.get(name).cloned().unwrap_or_default();
        let host = match part(HOST) {
            host if host.is_empty() => RAW_DISK.to_owned(),
            host => host,
        };
        groups.entry(common(parts)).or_default().insert((part(GUEST), host), (rate, cell.stack.clone()));
    }
    let cells = groups.into_values().max_by_key(Cells::len)?;
    let pattern =
        cells.iter().find(|((_, host), _)| host != RAW_DISK).map(|(_, (_, stack))| stack.clone())?;
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
    Some(OfLoad { matrix: Matrix { rows, columns, measured }, pattern })
}

/// Everything but the guest, the host, and the image between them.
fn common(parts: &KnownStack) -> String {
    let same = parts.iter().filter(|(part, _)| ![GUEST, HOST, "image"].contains(&part.as_str()));
    same.map(|(part, value)| format!("{part}={value}")).collect::<Vec<_>>().join("|")
}

impl OfLoad {
    /// The stack of a guest and a host.
    fn stack(&self, guest: &str, host: &str) -> String {
        let mut layers: Vec<String> = self.pattern.split('/').map(str::to_owned).collect();
        let last = layers.len() - 1;
        guest.clone_into(&mut layers[0]);
        if host == RAW_DISK {
            // Neither the image nor the file system that it is on.
            layers.drain(last.saturating_sub(2)..last);
        } else {
            host.clone_into(&mut layers[last - 1]);
        }
        layers.join("/")
    }
}
