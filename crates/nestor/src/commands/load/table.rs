//! What a script did, as text.

use nestor_flowops::{Ended, FlowReport, FlowopReport, PaceReport, RunReport};
use nestor_report::units::{bytes, count, digits, latency_ns, plural_u64, rate};

use crate::output::table;

/// The first screen: what came out, what makes it less than it seems, then each flowop.
pub fn flow_text(name: &str, factor: f64, report: &FlowReport) -> String {
    let mut text = String::new();
    for set in &report.file_sets {
        text += &format!(
            "{}   {} in {}, {}",
            set.name,
            plural_u64(set.files, "file", "files"),
            plural_u64(set.directories, "directory", "directories"),
            bytes(set.bytes)
        );
        if set.leaf_directories > 0 {
            text += &format!(", {} empty directories", count(set.leaf_directories));
        }
        if set.preallocated < set.files {
            text += &format!("; {} exist at the start", count(set.preallocated));
        }
        text.push('\n');
    }
    if (factor - 1.0).abs() > 1e-9 {
        text += &format!("file sets are {} times as large as the script says\n", digits(factor));
    }
    text += &format!("made in {:.1} s\n", report.prepare_s);
    for run in &report.runs {
        text.push('\n');
        text += &run_text(name, run);
    }
    text
}

fn pace_text(pace: &PaceReport, begun_per_second: f64) -> String {
    let PaceReport { of, asked_per_second, offered, begun } = pace;
    let (asked, reached) = (digits(*asked_per_second), digits(begun_per_second));
    let (due, taken) = (count(*offered), count(*begun));
    let mut text = format!("  requested {asked} {of}/s, {due} were due, {taken} begun ({reached}/s)\n");
    if pace.is_missed() {
        text += &format!("  the rate was not reached: {} are missing\n", count(offered - begun));
    }
    text
}

fn run_text(name: &str, run: &RunReport) -> String {
    let seconds = run.elapsed_ns as f64 / 1e9;
    let per_second = |number: u64| number as f64 / seconds.max(1e-9);
    let cpu_s = run.cpu_user_s + run.cpu_system_s;
    let moves = if run.bytes() > 0 { format!("   {}", rate(per_second(run.bytes()))) } else { String::new() };
    let mut text = format!(
        "{name}   {} operations/s{moves}   {} operations by {} in {seconds:.1} s, {:.1} s of CPU\n",
        digits(per_second(run.operations())),
        count(run.operations()),
        plural_u64(run.threads, "thread", "threads"),
        cpu_s,
    );
    match &run.ended {
        Ended::Starved(why) | Ended::Failed(why) | Ended::Full(why) | Ended::Stale(why) => {
            text += &format!("  ended early: {why}\n")
        }
        Ended::Interrupted => text += "  stopped before its end\n",
        Ended::Time | Ended::Operations | Ended::Done => {}
    }
    if let Some(pace) = &run.pace {
        text += &pace_text(pace, per_second(pace.begun));
    }
    for remark in &run.remarks {
        text += &format!("  {remark}\n");
    }
    text.push('\n');
    let row = |flowop: &FlowopReport| {
        let quantile = |q: f64| flowop.latency.quantile_ns(q).map_or_else(|| "-".to_owned(), latency_ns);
        [
            format!("  {}", flowop.name),
            flowop.kind.clone(),
            count(flowop.operations),
            digits(per_second(flowop.operations)),
            if flowop.bytes > 0 { rate(per_second(flowop.bytes)) } else { "-".to_owned() },
            if flowop.operations > 0 { latency_ns(flowop.mean_ns as u64) } else { "-".to_owned() },
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            quantile(1.0),
        ]
    };
    let heading = ["  flowop", "does", "operations", "/s", "moves", "mean", "p50", "p99", "p99.9", "max"];
    let rows: Vec<_> = run.flowops.iter().chain(&run.passes).map(row).collect();
    text + &table(&heading, &rows)
}
