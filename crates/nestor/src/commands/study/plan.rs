//! `nestor study --plan`: what would run, how long it takes, what space it needs.

use anyhow::Result;
use nestor_report::units;
use nestor_results::{StudyEffort, StudyRecord, duration_words, whole_minutes};
use nestor_slurm::{Spread, SpreadExtent};
use serde::Serialize;

use super::user_media::{WrittenMedium, plan_lines, written_media};
use crate::output::{print_json, say, table};

#[derive(Serialize)]
struct PlanView<'a> {
    study: &'a str,
    scale: Option<&'a str>,
    stacks: usize,
    workloads: usize,
    /// Blocks at most.
    blocks: u32,
    sentinels: bool,
    seed: u64,
    budget_s: Option<u64>,
    effort: &'a StudyEffort,
    /// Where, as `--on` is given it.
    place: String,
    /// Cells that run at once on this machine.
    side_by_side: usize,
    /// How it is spread over a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    slurm: Option<&'a Spread>,
    /// Devices and files of the user's on which everything is lost.
    writes_to: Vec<WrittenMedium>,
    /// The order of the first block: stack, workload.
    first_block: Vec<(String, String)>,
}

/// Prints the plan of what is left of a study.
///
/// # Errors
/// When it has no JSON form.
pub fn print_plan(
    record: &StudyRecord,
    effort: &StudyEffort,
    side_by_side: usize,
    spread: Option<&Spread>,
    json: bool,
) -> Result<()> {
    let study = &record.study;
    let first = study.block_cells(0, record.sentinels, &nestor_results::Decisions::default());
    let view = PlanView {
        study: &study.name,
        scale: study.scale.as_deref(),
        stacks: study.run_stacks().count(),
        workloads: study.run_workloads().count(),
        blocks: study.most_blocks(),
        sentinels: record.sentinels,
        seed: study.seed,
        budget_s: study.budget.map(|b| b.as_secs()),
        effort,
        place: record.ground.as_asked(),
        side_by_side,
        slurm: spread,
        writes_to: written_media(&study.stacks)?,
        first_block: first
            .into_iter()
            .map(|cell| (cell.stack.to_string(), cell.workload.to_string()))
            .collect(),
    };
    if json {
        return print_json(&view);
    }
    say(&plan_text(record, &view));
    Ok(())
}

/// Says in a few lines what is about to begin.
///
/// # Errors
/// For a stack of which it is not known what it writes to.
pub fn say_what_begins(
    record: &StudyRecord,
    effort: &StudyEffort,
    side_by_side: usize,
    spread: Option<&Spread>,
) -> Result<()> {
    err!("{}", summary_text(record, effort, side_by_side, spread)?);
    Ok(())
}

/// Cells, time and space of what is left; of the whole plan what one wants to know before one leaves it alone.
fn summary_text(
    record: &StudyRecord,
    effort: &StudyEffort,
    side_by_side: usize,
    spread: Option<&Spread>,
) -> Result<String> {
    let (least, most) = (&effort.least, &effort.most);
    let range = |least: String, most: String| if least == most { most } else { format!("{least} to {most}") };
    let mut text = format!(
        "plan of {}: {} cells in about {}\n",
        record.study.name,
        range(least.cells.to_string(), most.cells.to_string()),
        match spread {
            Some(spread) => spread.wall_in_words(),
            None =>
                range(whole_minutes(least.wall_s(side_by_side)), whole_minutes(most.wall_s(side_by_side))),
        },
    );
    let place = record.ground.as_asked();
    text.push_str(&format!("  {}\n", where_in_words(&place, side_by_side, spread)));
    if let Some(budget) = record.study.budget {
        text.push_str(&format!(
            "  time allowed {}: cells that do not fit are left out\n",
            duration_words(budget)
        ));
    }
    text.push_str(&plan_lines(&written_media(&record.study.stacks)?));
    let (data, results) = (effort.data_bytes(), effort.results_bytes);
    text.push_str(&format!(
        "  {}; space: up to {} for data, {} for results\n",
        time_rests_on(effort),
        units::bytes(data),
        units::bytes(results)
    ));
    Ok(text)
}

/// Where cells run and how many at once. In real time it is one at a time, because they would slow each other down.
fn where_in_words(place: &str, side_by_side: usize, spread: Option<&Spread>) -> String {
    match (spread, side_by_side) {
        (Some(spread), _) => format!("on {place}, on Slurm: {}", spread.in_words()),
        (None, 1) => format!("on {place}, one cell at a time"),
        (None, many) => format!("on {place}, {many} cells at once"),
    }
}

/// How it is known how long cells will take.
pub fn time_rests_on(effort: &StudyEffort) -> String {
    let (known, all) = (effort.known_cells, effort.most.cells);
    match (known, effort.rests_on_past_cells) {
        (0, false) => "nothing has been measured here yet: the time is a guess".to_owned(),
        (0, true) => "the time is estimated from other cells measured here: it may be off".to_owned(),
        _ => format!("{known} of {all} cells were measured here before; the time is estimated from them"),
    }
}

fn plan_text(record: &StudyRecord, view: &PlanView<'_>) -> String {
    let effort = view.effort;
    let scale = view.scale.map(|s| format!(", scale {s}")).unwrap_or_default();
    let share =
        |e: &nestor_results::Effort| units::percent(if e.seconds > 0.0 { e.load_s / e.seconds } else { 0.0 });
    let wall = |e: &nestor_results::Effort| whole_minutes(e.wall_s(view.side_by_side));
    let mut rows = vec![
        ["cells".to_owned(), effort.least.cells.to_string(), effort.most.cells.to_string()],
        ["time".to_owned(), wall(&effort.least), wall(&effort.most)],
        ["measuring".to_owned(), share(&effort.least), share(&effort.most)],
    ];
    if let Some(spread) = view.slurm {
        rows[1] = ["time".to_owned(), whole_minutes(spread.least.wall_s), whole_minutes(spread.most.wall_s)];
        let hours = |extent: &SpreadExtent| format!("{:.2}", extent.node_hours);
        rows.push(["node-hours".to_owned(), hours(&spread.least), hours(&spread.most)]);
    }
    rows.push(["space".to_owned(), String::new(), units::bytes(effort.disk_bytes)]);
    let mut text = format!(
        "{}  ({}{scale})\n{} stacks, {} workloads, up to {} blocks in random order (seed {}), {}\n\n",
        record.study.title,
        view.study,
        view.stacks,
        view.workloads,
        view.blocks,
        view.seed,
        if view.sentinels {
            "baselines at both ends of each block"
        } else {
            "no baselines at the ends of blocks"
        },
    );
    let may_settle = effort.least != effort.most;
    let head = if may_settle { ["", "at least", "at most"] } else { ["", "", "all"] };
    if !may_settle {
        rows.iter_mut().for_each(|row| row[1] = String::new());
    }
    text.push_str(&table(&head, &rows));
    text.push_str(&format!("\n  {}\n", where_in_words(&view.place, view.side_by_side, view.slurm)));
    if let Some(budget) = record.study.budget {
        text.push_str(&format!(
            "\n  time allowed {}: cells that do not fit are left out\n",
            duration_words(budget)
        ));
    }
    text.push_str(&format!("\n  {}\n", time_rests_on(effort)));
    text.push_str(&plan_lines(&view.writes_to));
    text
}
