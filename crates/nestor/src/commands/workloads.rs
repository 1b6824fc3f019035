//! `nestor workloads`

use anyhow::Result;
use nestor_workload::catalogue;

use crate::arguments::JsonArguments;
use crate::output::{print_json, say, table};

/// Lists the workloads with their options.
///
/// # Errors
/// When the list has no JSON form.
pub fn run(arguments: &JsonArguments) -> Result<()> {
    let workloads = catalogue();
    if arguments.json {
        return print_json(&workloads);
    }
    for workload in workloads {
        say(&format!("{}   {}   ({})\n", workload.workload, workload.summary, workload.parameters));
        let rows: Vec<[String; 3]> = workload
            .options
            .iter()
            .map(|o| {
                let default = o.default.clone().unwrap_or_else(|| "-".into());
                [format!("  :{}={}", o.option, o.form), default, o.summary.to_owned()]
            })
            .collect();
        say(&table(&["  option", "default", ""], &rows));
    }
    Ok(())
}
