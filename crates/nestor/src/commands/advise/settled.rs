//! `nestor advise --settle`: a dispute on the user's own machine.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use nestor_advise::evidence::{flush_trace, observation, physical, unit_of, why};
use nestor_advise::settle::{
    Decides, Dispute, Evidence, FailedRun, Outcome, Settlement, dispute, disputes, judge,
};
use nestor_advise::text::{disputes_text, settlement_text};
use nestor_results::{RunFilter, Store, StoredRun, Study, TraceMode, WrittenStack, WrittenWorkload};
use nestor_stack::{Layer, Stack};
use serde::Serialize;

use super::measure::{Bench, Part, fresh_seed, opening_s, usual_cell_s};
use super::{AdviseArguments, From, access, settle_place};
use crate::commands::study::{WrittenMedium, check_profiles, plan_lines, written_media};
use crate::output::{columns, print_json, say};
use crate::results_file::open_for;

/// Pairs at least and at most, where speed decides.
const PAIRS: (usize, usize) = (2, 6);

/// A line of the list of disputes.
#[derive(Serialize)]
struct Listed {
    id: &'static str,
    question: &'static str,
    sides: Vec<(&'static str, &'static str)>,
    stacks: Vec<Stack>,
    workloads: &'static [&'static str],
    decides: Decides,
    cannot: Option<&'static str>,
}

/// What is to be measured.
#[derive(Serialize)]
struct Planned {
    stacks: Vec<String>,
    workloads: Vec<String>,
    /// Devices and files of the user's on which everything is lost.
    writes_to: Vec<WrittenMedium>,
    blocks: u32,
    cells: usize,
    expected_s: f64,
}

impl Planned {
    fn text(&self) -> String {
        let (stacks, workloads, blocks) = (self.stacks.len(), self.workloads.len(), self.blocks);
        let minutes = (self.expected_s / 60.0).ceil();
        let mut text = format!(
            "plan: {stacks} stacks x {workloads} workloads x {blocks} = {} cells, about {minutes:.0} min\n",
            self.cells
        );
        for line in self.stacks.iter().chain(&self.workloads) {
            text.push_str(&format!("  {line}\n"));
        }
        text.push_str(&plan_lines(&self.writes_to));
        text
    }
}

/// A settlement with what is said first.
#[derive(Serialize)]
struct Printed {
    physical: Option<Vec<String>>,
    #[serde(flatten)]
    settlement: Settlement,
}

/// Settles a dispute, or lists them.
///
/// # Errors
/// When there is no such dispute, or nothing could be measured.
pub fn run(arguments: &AdviseArguments, id: &str) -> Result<ExitCode> {
    if id == "list" {
        return list(arguments);
    }
    let Some(dispute) = dispute(id) else {
        let ids: Vec<&str> = disputes().map(|dispute| dispute.id).collect();
        bail!(
            "`--settle` has no question `{id}`\n  its questions are {}; `nestor advise --settle list` shows what each asks",
            ids.join(", ")
        );
    };
    if dispute.cannot.is_some() {
        return print(&judge(dispute, &Evidence::default()), None, arguments);
    }
    let part = part(dispute, arguments)?;
    let mut store = open_for(&arguments.lab, access(arguments))?;
    settle_place(arguments, &store)?;
    let cell_s = usual_cell_s(&store, &arguments.lab, &part.stacks[0], &part.workloads[0])?;
    let part = Part { replications: replications(dispute, &part, arguments, cell_s), ..part };
    let cells = part.stacks.len() * part.workloads.len() * part.replications as usize;
    let plan = Planned {
        stacks: part.stacks.iter().map(ToString::to_string).collect(),
        workloads: part.workloads.iter().map(ToString::to_string).collect(),
        writes_to: written_media(&part.stacks)?,
        blocks: part.replications,
        cells,
        expected_s: cell_s * cells as f64 + opening_s(),
    };
    if arguments.plan {
        match arguments.lab.json {
            true => print_json(&plan)?,
            false => say(&plan.text()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let stacks = part.stacks.clone();
    if arguments.from != From::Store {
        err!("{}", plan.text());
        Bench::new(&arguments.lab, &mut store, arguments.budget).measure(part)?;
    }
    let runs = runs_of(&store, dispute, &stacks, arguments)?;
    let settlement = judge(dispute, &evidence(dispute, &stacks, &runs));
    print(&settlement, physical(&by_cell(&runs)), arguments)
}

/// The runs of each stack and workload, by these two.
fn by_cell(runs: &[StoredRun]) -> Vec<(String, Vec<&StoredRun>)> {
    let mut cells: BTreeMap<String, Vec<&StoredRun>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.record.measured().is_some()) {
        cells.entry(format!("{} under {}", run.record.stack, run.record.workload)).or_default().push(run);
    }
    cells.into_iter().collect()
}

fn list(arguments: &AdviseArguments) -> Result<ExitCode> {
    if arguments.lab.json {
        let medium = Layer::parse(&arguments.disk)?;
        let listed = |dispute: &'static Dispute| -> Result<Listed> {
            Ok(Listed {
                id: dispute.id,
                question: dispute.question,
                sides: dispute.sides.iter().map(|side| (side.who, side.says)).collect(),
                stacks: dispute.stacks_on(&medium)?,
                workloads: dispute.workloads,
                decides: dispute.decides,
                cannot: dispute.cannot,
            })
        };
        print_json(&disputes().map(listed).collect::<Result<Vec<_>>>()?)?;
    } else {
        say(&disputes_text(disputes(), columns()));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to be measured, with one block.
fn part(dispute: &Dispute, arguments: &AdviseArguments) -> Result<Part> {
    let stacks = dispute.stacks_on(&Layer::parse(&arguments.disk)?)?;
    let stacks: Vec<WrittenStack> = stacks.into_iter().map(Into::into).collect();
    let workloads = dispute.workloads();
    check_profiles(&Study::new("settle", "", stacks.clone(), workloads.clone()))?;
    Ok(Part {
        name: format!("settle-{}", dispute.id.to_lowercase()),
        stacks,
        workloads,
        replications: 1,
        trace: if dispute.decides == Decides::Flushes { TraceMode::Layers } else { TraceMode::Full },
        seed: if arguments.from == From::Screen { fresh_seed() } else { arguments.seed },
        probes: Vec::new(),
        leave: Duration::ZERO,
    })
}

/// As many blocks as the budget holds; flushes are counted, so that one is enough.
fn replications(dispute: &Dispute, part: &Part, arguments: &AdviseArguments, cell_s: f64) -> u32 {
    if dispute.decides == Decides::Flushes {
        return 1;
    }
    let block_s = cell_s * (part.stacks.len() * part.workloads.len()) as f64;
    let blocks = ((arguments.budget.as_secs_f64() - opening_s()).max(0.0) / block_s.max(1.0)) as usize;
    u32::try_from(blocks.clamp(PAIRS.0, PAIRS.1)).unwrap_or(1)
}

/// Runs of these stacks under these workloads: with `--numbers screen` those of the latest study alone.
fn runs_of(
    store: &Store,
    dispute: &Dispute,
    stacks: &[WrittenStack],
    arguments: &AdviseArguments,
) -> Result<Vec<StoredRun>> {
    let workloads = dispute.workloads();
    let mut runs = Vec::new();
    for stack in stacks {
        for workload in &workloads {
            let filter = RunFilter {
                stack: Some(stack.clone()),
                workload: Some(workload.clone()),
                ground: Some(arguments.lab.likely_place()?.into()),
                latest_only: true,
                ..RunFilter::default()
            };
            runs.extend(store.runs(&filter)?);
        }
    }
    if arguments.from == From::Screen {
        let newest = runs.iter().max_by_key(|run| run.number).and_then(|run| run.record.study_hash.clone());
        runs.retain(|run| run.record.study_hash == newest);
    }
    Ok(runs)
}

fn evidence(dispute: &Dispute, stacks: &[WrittenStack], runs: &[StoredRun]) -> Evidence {
    let mut evidence = Evidence {
        stacks: dispute.stacks.iter().copied().zip(stacks.iter().cloned()).collect(),
        traces: runs.iter().filter_map(flush_trace).collect(),
        ..Evidence::default()
    };
    for run in runs {
        let workload = run.record.workload.clone();
        if let Some(seen) = observation(run, unit_of(&workload)) {
            evidence.observations.entry(workload).or_default().push(seen);
        } else if let Some(failure) = run.record.failure() {
            let key = (run.record.stack.clone(), workload);
            let (says_not_possible, message) = (failure.says_not_possible(), failure.message.clone());
            evidence.failures.insert(key, FailedRun { says_not_possible, message });
        }
    }
    evidence.mechanisms = mechanisms(dispute, stacks, runs);
    evidence
}

/// Why each stack differs from the first, workload by workload.
fn mechanisms(
    dispute: &Dispute,
    stacks: &[WrittenStack],
    runs: &[StoredRun],
) -> BTreeMap<(WrittenStack, WrittenStack, WrittenWorkload), String> {
    let runs_of = |stack: &WrittenStack, workload: &WrittenWorkload| -> Vec<&StoredRun> {
        runs.iter().filter(|run| run.record.stack == *stack && run.record.workload == *workload).collect()
    };
    let mut found = BTreeMap::new();
    for workload in &dispute.workloads() {
        for (index, baseline) in stacks.iter().enumerate() {
            for candidate in &stacks[index + 1..] {
                if let Some(why) = why(&runs_of(baseline, workload), &runs_of(candidate, workload)) {
                    found.insert((baseline.clone(), candidate.clone(), workload.clone()), why);
                }
            }
        }
    }
    found
}

fn print(
    settlement: &Settlement,
    physical: Option<Vec<String>>,
    arguments: &AdviseArguments,
) -> Result<ExitCode> {
    let told = settlement.sides.iter().any(|side| side.outcome != Outcome::NotTested);
    let success = told || settlement.cannot.is_some();
    if arguments.lab.json {
        print_json(&Printed { physical, settlement: settlement.clone() })?;
    } else {
        say(&settlement_text(settlement, physical.as_deref(), &arguments.lab.likely_place()?.into()));
    }
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
