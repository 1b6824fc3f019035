//! `nestor load list`: the workloads of the published studies by name.

use anyhow::Result;
use nestor_workload::papers::PAPER_WORKLOADS;
use nestor_workload::personality_names;

use crate::arguments::JsonArguments;
use crate::output::{print_json, say, table};

/// Lists them.
///
/// # Errors
/// When the list has no JSON form.
pub fn run(arguments: &JsonArguments) -> Result<()> {
    if arguments.json {
        return print_json(PAPER_WORKLOADS);
    }
    let mut papers: Vec<char> = PAPER_WORKLOADS.iter().map(|row| row.paper).collect();
    papers.dedup();
    for paper in papers {
        let rows: Vec<[String; 3]> = PAPER_WORKLOADS
            .iter()
            .filter(|row| row.paper == paper)
            .map(|row| [format!("  {}", row.experiment), row.workload.to_owned(), row.summary.to_owned()])
            .collect();
        say(&format!("{}\n", title(paper)));
        out!("{}", table(&["  experiment", "workload", ""], &rows));
        outln!();
    }
    say(&format!(
        "nestor run STACK WORKLOAD runs one on a stack, nestor load run WORKLOAD --dir DIRECTORY on this machine;\n\
         nestor workloads lists all options; scripts for nestor load wml: {}\n",
        personality_names().join(", ")
    ));
    Ok(())
}

/// The study a letter stands for.
fn title(paper: char) -> &'static str {
    match paper {
        'L' => "L  nested file systems (Le, Huang, Wang, FAST '12)",
        'A' => "A  disk performance of ESX (Ahmad and others, WWC '03)",
        'D' => "D  image propagation and paravirtual I/O (CLOSER '11)",
        'H' => "H  virtualised NAS (Hildebrand and others, WIOV '11)",
        'P' => "P  file systems under type-2 hypervisors, with PostMark (Đorđević, Timčenko)",
        _ => "others",
    }
}
