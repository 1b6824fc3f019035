//! From a workload to recommendations: what is known, what is missing, which is best, and whether that is so.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use nestor_advise::advice::{Known, Question};
use nestor_advise::evidence::{doubts, not_physical, observation, physical, why};
use nestor_advise::text::{advice_text, plan_text};
use nestor_advise::{
    Advice, Confirmation, Promise, Ranking, Reach, ScreeningPlan, Time, best_trace, candidate, nas, plan,
    price, rank,
};
use nestor_results::{Store, StoredRun, TraceMode, WrittenPlace, WrittenStack};
use serde::Serialize;

use super::known::Runs;
use super::measure::{Bench, CONFIRM, PROBE, Part, SCREEN, fresh_seed, opening_s, runs_of, usual_cell_s};
use super::question::Asked;
use super::{AdviseArguments, From, access, settle_place};
use crate::commands::study::{WrittenMedium, plan_lines, written_media};
use crate::output::{print_json, say};
use crate::results_file::open_for;

/// Fewer pairs have no interval worth the name.
const FEWEST_PAIRS: u32 = 2;
/// Of so many of the best stacks the price is traced, if it is not known.
const PRICED: usize = 6;

/// A plan as `--json` prints it.
#[derive(Serialize)]
struct Planned<'a> {
    #[serde(flatten)]
    plan: &'a ScreeningPlan,
    /// Devices and files of the user's on which everything is lost.
    writes_to: Vec<WrittenMedium>,
}

/// Answers and prints.
///
/// # Errors
/// What is wrong with the arguments, or why nothing could be measured.
pub fn run(arguments: &AdviseArguments) -> Result<ExitCode> {
    let asked = Asked::of(arguments)?;
    let mut store = open_for(&arguments.lab, access(arguments))?;
    settle_place(arguments, &store)?;
    let advice = if arguments.from == From::Store && !arguments.plan {
        from_store(&store, &asked, arguments)?
    } else {
        let plan = planned(&store, &asked, arguments)?;
        let writes_to = written_media(&asked.all_stacks())?;
        let text = plan_text(&plan, &asked.workload) + &plan_lines(&writes_to);
        if arguments.plan {
            match arguments.lab.json {
                true => print_json(&Planned { plan: &plan, writes_to })?,
                false => say(&text),
            }
            return Ok(ExitCode::SUCCESS);
        }
        err!("{text}");
        measured(&mut store, &asked, &plan, arguments)?
    };
    if arguments.lab.json {
        print_json(&advice)?;
    } else {
        say(&advice_text(&advice));
    }
    Ok(if advice.recommendations.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What the store alone says, of the place that it has results of.
///
/// # Errors
/// When it cannot be read.
pub fn from_store(store: &Store, asked: &Asked, arguments: &AdviseArguments) -> Result<Advice> {
    let ground = arguments.lab.place_of_results(store)?.into();
    let runs = Runs::of(store, asked, &ground)?;
    let ranking = rank(&asked.space, &asked.yours, &runs.observations(asked));
    let confirmation = match candidate(&ranking, |stack| not_physical(&runs.of_stack(asked, stack))) {
        Err(reason) => Confirmation::NotTried { reason },
        Ok(best) => earlier_confirmation(store, asked, &best, &ground)?.unwrap_or(Confirmation::NotTried {
            reason: "--numbers store measures nothing; --numbers both tests the best stack against yours"
                .to_owned(),
        }),
    };
    Ok(advice(asked, &runs, ranking, confirmation, &ground))
}

fn planned(store: &Store, asked: &Asked, arguments: &AdviseArguments) -> Result<ScreeningPlan> {
    let runs = Runs::of(store, asked, &arguments.lab.likely_place()?.into())?;
    let known = if arguments.from == From::Screen { Vec::new() } else { runs.observations(asked) };
    let time = Time {
        budget: Some(arguments.budget),
        cell_s: Some(usual_cell_s(store, &arguments.lab, &asked.yours, &asked.workload)?),
        opening_s: opening_s(),
        probes: promises_unpriced(asked, &runs),
    };
    Ok(plan(&asked.space, &asked.yours, &known, time, arguments.seed)?)
}

/// Screens, traces prices, and tests the best.
fn measured(
    store: &mut Store,
    asked: &Asked,
    plan: &ScreeningPlan,
    arguments: &AdviseArguments,
) -> Result<Advice> {
    let ground = arguments.lab.likely_place()?.into();
    let mut runs = Runs::of(store, asked, &ground)?;
    if arguments.from == From::Screen {
        runs.forget_runs();
    }
    let mut bench = Bench::new(&arguments.lab, store, arguments.budget);
    if !plan.stacks.is_empty() {
        let part = Part {
            name: SCREEN.to_owned(),
            stacks: plan.stacks.clone(),
            workloads: vec![asked.workload.clone()],
            replications: 1,
            trace: TraceMode::Layers,
            seed: if arguments.from == From::Screen { fresh_seed() } else { arguments.seed },
            probes: Vec::new(),
            leave: Duration::from_secs_f64(plan.cell_s.unwrap_or(0.0) * f64::from(2 * FEWEST_PAIRS)),
        };
        let numbers = bench.measure(part)?;
        runs.add(bench.store(), &numbers, &asked.workload)?;
    }
    let ranking = rank(&asked.space, &asked.yours, &runs.observations(asked));
    let confirmation = confirm(&mut bench, asked, &ranking, plan.pairs, &mut runs)?;
    runs.failures.append(&mut bench.ended_early);
    let ranking = rank(&asked.space, &asked.yours, &runs.observations(asked));
    Ok(advice(asked, &runs, ranking, confirmation, &ground))
}

/// Whether a trace shows what becomes of flushes with a promise.
fn is_priced(runs: &Runs, promise: Promise) -> bool {
    runs.traces_of(promise).iter().any(|trace| trace.reach() != Reach::NeverAsked)
}

/// How many promises there are of which no trace shows what becomes of flushes; runs to come may show some of them.
fn promises_unpriced(asked: &Asked, runs: &Runs) -> usize {
    let stacks = asked.space.stacks().chain([&asked.yours]);
    let promises: HashSet<Promise> = stacks.map(Promise::of).collect();
    promises.iter().filter(|promise| !is_priced(runs, **promise)).count()
}

/// One stack for each promise of the best stacks of which no trace shows what becomes of flushes.
fn unpriced(ranking: &Ranking, runs: &Runs) -> Vec<WrittenStack> {
    let mut promises = Vec::new();
    let mut stacks = Vec::new();
    for (place, row) in ranking.rows.iter().enumerate() {
        let promise = Promise::of(&row.stack);
        if (place >= PRICED && !row.is_yours) || promises.contains(&promise) {
            continue;
        }
        if !is_priced(runs, promise) {
            stacks.push(row.stack.clone());
        }
        promises.push(promise);
    }
    stacks
}

/// Tests the best stack against yours with fresh pairs, and traces the prices that are not known.
fn confirm(
    bench: &mut Bench<'_>,
    asked: &Asked,
    ranking: &Ranking,
    pairs: u32,
    runs: &mut Runs,
) -> Result<Confirmation> {
    let best = candidate(ranking, |stack| not_physical(&runs.of_stack(asked, stack)));
    let left = bench.cells_left(&asked.yours, &asked.workload)?;
    let pairs = pairs.min(u32::try_from(left / 2).unwrap_or(u32::MAX));
    let tests = best.is_ok() && pairs >= FEWEST_PAIRS;
    let mut probes = unpriced(ranking, runs);
    // The test of the best comes first if there is not time for both.
    probes.truncate(if tests { left - 2 * pairs as usize } else { left });
    let stacks = match &best {
        Ok(best) if tests => vec![asked.yours.clone(), best.clone()],
        _ => Vec::new(),
    };
    let mut numbers = Vec::new();
    if tests || !probes.is_empty() {
        let part = Part {
            name: if tests { CONFIRM } else { PROBE }.to_owned(),
            workloads: if tests { vec![asked.workload.clone()] } else { Vec::new() },
            stacks,
            replications: if tests { pairs } else { 1 },
            trace: if tests { TraceMode::Full } else { TraceMode::Layers },
            seed: if tests { fresh_seed() } else { 1 },
            probes,
            leave: Duration::ZERO,
        };
        numbers = bench.measure(part)?;
        runs.add(bench.store(), &numbers, &asked.workload)?;
    }
    match best {
        Err(reason) => Ok(Confirmation::NotTried { reason }),
        Ok(best) if tests => confirmation_of(bench.store(), asked, &best, &numbers),
        Ok(_) => Ok(Confirmation::NotTried {
            reason: "the budget ran out before the best stack could be tested against yours".to_owned(),
        }),
    }
}

/// What pairs of one study say of a stack compared with yours.
fn confirmation_of(
    store: &Store,
    asked: &Asked,
    stack: &WrittenStack,
    numbers: &[i64],
) -> Result<Confirmation> {
    let mut seen = Vec::new();
    let mut runs = Vec::new();
    let mut counted = Vec::new();
    for number in numbers {
        let run = store.run(*number)?;
        // What was only probed is no part of the pairs.
        if run.record.workload != asked.workload {
            continue;
        }
        runs.push(*number);
        let Some(one) = observation(&run, asked.unit) else { continue };
        seen.push(one);
        counted.push(run);
    }
    for one in [stack, &asked.yours] {
        let of_it: Vec<&StoredRun> = counted.iter().filter(|run| run.record.stack == *one).collect();
        if let Some(reason) = not_physical(&of_it) {
            let reason = format!("{one}: {reason}");
            return Ok(Confirmation::NotPhysical { stack: stack.clone(), reason, runs });
        }
    }
    Ok(Confirmation::of_observations(stack, &asked.yours, &seen, runs))
}

/// The latest test of a stack against yours that the store has.
fn earlier_confirmation(
    store: &Store,
    asked: &Asked,
    best: &WrittenStack,
    ground: &WrittenPlace,
) -> Result<Option<Confirmation>> {
    let stacks = [asked.yours.clone(), best.clone()];
    let of_these = store.studies()?.into_iter().filter(|record| {
        record.study.name == CONFIRM
            && record.ground == *ground
            && record.study.stacks.starts_with(&stacks)
            && record.study.workloads.first().is_some_and(|workload| *workload == asked.workload)
    });
    let mut latest: Option<Vec<i64>> = None;
    for record in of_these {
        let numbers = runs_of(store, &record.hash)?;
        if !numbers.is_empty() && latest.as_ref().is_none_or(|known| numbers.last() > known.last()) {
            latest = Some(numbers);
        }
    }
    latest.map(|numbers| confirmation_of(store, asked, best, &numbers)).transpose()
}

fn advice(
    asked: &Asked,
    runs: &Runs,
    ranking: Ranking,
    confirmation: Confirmation,
    ground: &WrittenPlace,
) -> Advice {
    let measured = ranking.rows.iter().filter(|row| row.measured);
    let cells: Vec<(String, Vec<&StoredRun>)> =
        measured.map(|row| (row.stack.to_string(), runs.of_stack(asked, &row.stack))).collect();
    let counted: Vec<&StoredRun> = cells.iter().flat_map(|(_, runs)| runs.iter().copied()).collect();
    let mut doubts = doubts(&counted);
    if runs.left_out() > 0 {
        doubts.push(format!("{} violate an identity and were left out", runs.left_out()));
    }
    doubts.extend(runs.failures.iter().cloned());
    let yours = runs.of_stack(asked, &asked.yours);
    let question = Question {
        workload: asked.workload.clone(),
        ground: ground.clone(),
        unit: asked.unit,
        yours: asked.yours.clone(),
        physical: physical(&cells),
        doubts,
        held_fixed: asked.space.held_fixed(),
    };
    Advice::of(question, ranking, confirmation, |stack| {
        let traces = runs.traces_of(Promise::of(stack));
        let losses = |known| nas::losses(known, best_trace(stack, &traces));
        Known {
            not_physical: not_physical(&runs.of_stack(asked, stack)),
            price: price(stack, &traces),
            losses: stack.value().map(losses).unwrap_or_default(),
            mechanism: if asked.yours == *stack { None } else { why(&yours, &runs.of_stack(asked, stack)) },
        }
    })
}
