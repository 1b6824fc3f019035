//! `nestor predict`: what a load will reach on another stack.

mod kept;
mod matrix;
mod place;
mod text;
mod validate;
mod verify;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use nestor_predict::calibration::{Tracks, tracks};
use nestor_predict::{Answer, Asked, Evidence, Knowledge, Load, Missing, Question, answer, missing_here};
use nestor_results::{Known, KnownPlace, WrittenStack, profile_named, read_profile, written_stacks};
use nestor_stack::Stack;
use serde::Serialize;

use crate::arguments::{LabArguments, number_above};
use crate::named::workload_named;
use crate::order::require_order;
use crate::output::{print_json, say};
use crate::results_file::{Access, open_for};

/// Arguments of `nestor predict`.
#[derive(Args, Debug)]
pub struct PredictArguments {
    /// The load: a workload that was measured somewhere, or a profile of `nestor characterize` (FILE.toml)
    #[arg(long, value_name = "WORKLOAD", required_unless_present = "validate")]
    workload: Option<String>,
    /// Where it runs now [default: the measured stack that is most like the target]
    #[arg(long, value_name = "STACK")]
    from: Option<String>,
    /// The target stack; braces make several stacks of one
    #[arg(long, value_name = "STACK", required_unless_present_any = ["validate", "matrix"])]
    to: Option<String>,
    /// Then run it there, and say how far off the prediction was and where the time went
    #[arg(long, conflicts_with_all = ["validate", "matrix"])]
    verify: bool,
    /// How much more computing takes there, in per cent, if that is known
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = compute_overhead, allow_negative_numbers = true)]
    compute_overhead: f64,
    /// How long computing takes there, relative to here, if that is known: 0.8 is a processor that is a quarter faster
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = compute_scale, allow_negative_numbers = true)]
    compute_scale: f64,
    /// Complete the matrix of guests and hosts for the load from the cells that were measured
    #[arg(long, conflicts_with_all = ["to", "from"])]
    matrix: bool,
    /// With --matrix: name this many cells most worth measuring next
    #[arg(long, value_name = "NUMBER", default_value_t = 3, requires = "matrix", conflicts_with_all = ["to", "from", "validate"])]
    suggest: usize,
    /// Hide known cells, predict them, and show the errors: by stack, by family of loads, and the matrix from 12 cells
    #[arg(long, conflicts_with_all = ["to", "from", "matrix"])]
    validate: bool,
    #[command(flatten)]
    lab: LabArguments,
}

/// What computing can take more, in per cent: -100 would be no time at all.
fn compute_overhead(text: &str) -> Result<f64, String> {
    number_above(-100.0, text).ok_or_else(|| "write a number of per cent above -100, such as 9.4".to_owned())
}

/// A ratio of two times.
fn compute_scale(text: &str) -> Result<f64, String> {
    number_above(0.0, text).ok_or_else(|| "write a factor above 0, such as 0.8".to_owned())
}

/// An answer with what was asked.
#[derive(Serialize)]
struct Predicted {
    place: KnownPlace,
    question: Question,
    unit: &'static str,
    answer: Answer,
    /// What was measured only at other places, if the answer is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<Missing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<verify::Verified>,
}

/// Runs it.
///
/// # Errors
/// When the store cannot be read, or what is asked is no question.
pub fn run(arguments: &PredictArguments) -> Result<ExitCode> {
    require_names(arguments)?;
    let access = if arguments.verify { Access::Adds } else { Access::Reads };
    let mut store = open_for(&arguments.lab, access)?;
    let known = place::known(&store, &arguments.lab)?;
    let on = place::named(&known.place, &arguments.lab)?;
    if arguments.validate {
        return validate::run(&Evidence::of(&known, on), &known, arguments.lab.json);
    }
    let Some(workload) = &arguments.workload else { bail!("--workload is missing") };
    if arguments.matrix {
        return matrix::run(&known, on, workload, arguments.suggest, arguments.lab.json);
    }
    let targets = written_stacks(arguments.to.as_deref().unwrap_or_default())?;
    let mut evidence = Evidence::of(&known, on);
    targets.iter().for_each(|target| evidence.add_stack(target));
    let load = load_named(workload, &evidence, &known)?;
    let from = arguments.from.as_deref().map(Stack::parse).transpose()?.map(WrittenStack::from);
    from.iter().for_each(|from| evidence.add_stack(from));
    let mut answers = Vec::new();
    for target in &targets {
        let asked = Asked {
            from: from.as_ref(),
            to: target,
            machine: nestor_statistics::prediction::TargetMachine {
                overhead_share: arguments.compute_overhead / 100.0,
                compute_scale: arguments.compute_scale,
            },
        };
        answers.push(predict(&asked, &load, &evidence, &known, store.path())?);
    }
    if !arguments.lab.json {
        answers.iter().for_each(|predicted| say(&text::answer(predicted, &load)));
    }
    if arguments.verify {
        for predicted in &mut answers {
            let verified = verify::run(predicted, &load, &arguments.lab, &mut store)?;
            if !arguments.lab.json {
                say(&text::verified(&verified, &load));
            }
            predicted.verified = Some(verified);
        }
    }
    if arguments.lab.json {
        print_json(&answers)?;
    }
    let known = answers.iter().all(|predicted| predicted.answer.rate.is_some());
    Ok(if known { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Refuses a workload that is named as a stack, before any results are read.
fn require_names(arguments: &PredictArguments) -> Result<()> {
    let workload = arguments.workload.as_deref().unwrap_or_default();
    let stacks = [&arguments.from, &arguments.to].into_iter().flatten().map(String::as_str);
    let values: Vec<&str> = std::iter::once(workload).chain(stacks).collect();
    require_order(&values, 0, "--workload takes the workload, --from and --to take stacks")
}

/// The load of a name: a profile's file, or a workload.
fn load_named(text: &str, evidence: &Evidence, known: &Known) -> Result<Load> {
    let profile = profile_named(text).map(|(file, _)| read_profile(file)).transpose()?;
    let workload = workload_named(text)?;
    Ok(match profile {
        Some(profile) => Load::observed(profile, workload),
        None => Load::measured(&workload, evidence, known)?,
    })
}

/// The answer to one question, from a store.
fn predict(
    asked: &Asked<'_>,
    load: &Load,
    evidence: &Evidence,
    known: &Known,
    store: &std::path::Path,
) -> Result<Predicted> {
    let (question, evidence) = load.question(asked, evidence, known)?;
    let (knowledge, tracks) = learnt_from(&evidence, &known.place, store);
    let answer = answer(&question, &evidence, &knowledge, &tracks);
    let elsewhere = match answer.rate {
        Some(_) => Vec::new(),
        None => missing_here(&question, &evidence, known),
    };
    let (place, unit) = (known.place.clone(), load.unit.name());
    Ok(Predicted { place, question, unit, answer, elsewhere, verified: None })
}

/// The learnt model of a place in a store, and what the other methods were off there.
fn learnt_from(evidence: &Evidence, place: &KnownPlace, store: &std::path::Path) -> (Knowledge, Tracks) {
    let knowledge = match kept::read(store, place).and_then(|kept| Knowledge::with(kept, evidence)) {
        Some(knowledge) => knowledge,
        None => {
            let fitted = Knowledge::fit(evidence);
            kept::write(store, place, &fitted);
            fitted
        }
    };
    (knowledge, tracks(evidence))
}
