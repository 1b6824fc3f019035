//! How close a load of the profile comes to what was observed, by running it in a directory.

use std::path::Path;

use anyhow::{Context, Result};
use nestor_characterize::{Closeness, fit_think_time};
use nestor_text::units;
use nestor_workload::Profile;

use crate::commands::load::run_in;
use crate::output::table;

/// Fits the think time of a profile by running loads of it in a directory.
///
/// # Errors
/// When no load can be run there.
pub fn fit(profile: &mut Profile, directory: &Path, size: Option<u64>) -> Result<Closeness> {
    fit_think_time(profile, size, |workload, seed| {
        run_in(directory, workload, seed)
            .with_context(|| format!("the load {workload} could not be run in {}", directory.display()))
    })
}

/// As a table.
pub fn closeness_text(closeness: &Closeness) -> String {
    let digits = |value: f64| format!("{value:.2}");
    let rows: Vec<[String; 4]> = closeness
        .rows
        .iter()
        .map(|row| {
            let ratio =
                if row.observed > 0.0 { format!("{:.3}", row.load / row.observed) } else { "-".into() };
            [row.what.to_owned(), digits(row.observed), digits(row.load), ratio]
        })
        .collect();
    let runs = units::plural(closeness.runs, "run");
    let met = if closeness.met { "the rates agree within 2 %" } else { "the rates do not agree within 2 %" };
    format!("{}\n{runs}: {met}\n{}", closeness.workload, table(&["", "observed", "load", "ratio"], &rows))
}

#[cfg(test)]
mod tests {
    use nestor_characterize::ClosenessRow;

    use nestor_workload::Workload;

    use super::*;

    #[test]
    fn what_was_observed_and_what_the_load_reached_stand_side_by_side() {
        let row = |what, observed, load| ClosenessRow { what, observed, load };
        let closeness = Closeness {
            workload: Workload::parse("iometer:mail").unwrap(),
            runs: 2,
            met: true,
            rows: vec![
                row("requests/s", 792.0, 792.0),
                row("response, ms", 13.1, 20.0),
                row("reads, %", 0.0, 0.5),
            ],
        };
        insta::assert_snapshot!(closeness_text(&closeness), @r"
        iometer:mail
        2 runs: the rates agree within 2 %
                        observed  load    ratio
          requests/s    792.00    792.00  1.000
          response, ms  13.10     20.00   1.527
          reads, %      0.00      0.50    -
        ");
    }
}
