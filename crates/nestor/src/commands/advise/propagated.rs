//! `nestor advise --propagate`: which way an image should come to its node.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use nestor_advise::propagate::{ObservedLife, Question, observed_life, propagation_advice};
use nestor_advise::text::propagation_text;
use nestor_results::{RunFilter, Store, WrittenPlace};
use nestor_stack::layers::network::link_default;
use nestor_stack::{BitRate, Bytes};

use super::AdviseArguments;
use crate::output::{print_json, say};
use crate::results_file::{Access, open_for};

/// Answers and prints.
///
/// # Errors
/// What is wrong with the arguments, or that nothing was measured that answers.
pub fn run(arguments: &AdviseArguments, image_bytes: u64) -> Result<ExitCode> {
    let link_rate = link_rate(&arguments.network.link)?;
    let store = open_for(&arguments.lab, Access::Reads)?;
    let place: WrittenPlace = arguments.lab.place_of_results(&store)?.into();
    let question = Question {
        image_bytes,
        instances: arguments.propagation.instances,
        link_rate,
        reads_bytes: arguments.propagation.reads,
        run_options: run_options(arguments),
    };
    let advice = propagation_advice(&question, &place, &lives(&store, &place)?)?;
    match arguments.lab.json {
        true => print_json(&advice)?,
        false => say(&propagation_text(&advice)),
    }
    Ok(if advice.choice.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The length of an image: a size, or that of a file.
///
/// # Errors
/// It is neither, or nothing is in it.
pub fn image_bytes(text: &str) -> Result<u64, String> {
    let bytes = match text.parse::<Bytes>() {
        Ok(size) => size.get(),
        Err(no_size) => match fs::metadata(text) {
            Ok(file) if file.is_file() => file.len(),
            Ok(_) => return Err(format!("`{text}` is not a regular file; give the size of the image")),
            Err(error) => return Err(format!("it is no file ({error}), and {no_size}")),
        },
    };
    match bytes {
        0 => Err("an image of 0 bytes need not come to any node; give the size of yours".to_owned()),
        bytes => Ok(bytes),
    }
}

/// What an instance reads.
///
/// # Errors
/// It is no size, or nothing.
pub fn read_bytes(text: &str) -> Result<u64, String> {
    match text.parse::<Bytes>().map_err(|error| error.to_string())?.get() {
        0 => Err("an instance that reads nothing of its image needs none; leave it out if it is not known"
            .to_owned()),
        bytes => Ok(bytes),
    }
}

fn link_rate(text: &str) -> Result<BitRate> {
    let text = if text.is_empty() { link_default("rate") } else { text };
    let help = "of --propagate, --link takes the rate alone, as in --link 100mbit";
    text.parse().with_context(|| format!("`{text}` is no rate of a link; {help}"))
}

/// By which `nestor run` measures in the same place for the same results file.
fn run_options(arguments: &AdviseArguments) -> Vec<String> {
    let mut words = Vec::new();
    if arguments.lab.on != Default::default() {
        words.extend(["--on".to_owned(), arguments.lab.on.to_string()]);
    }
    if let Some(store) = &arguments.lab.store {
        words.extend(["--store".to_owned(), store.display().to_string()]);
    }
    words
}

/// The lives of single instances in the results of a place.
fn lives(store: &Store, place: &WrittenPlace) -> Result<Vec<ObservedLife>> {
    let filter = RunFilter { ground: Some(place.clone()), latest_only: true, ..RunFilter::default() };
    let mut lives = Vec::new();
    for listed in store.list(&filter)? {
        // Records are large, and a file of results may hold thousands of runs under other workloads.
        if listed.workload.value().is_some_and(|workload| workload.life().is_some()) {
            lives.extend(observed_life(&store.run(listed.number)?));
        }
    }
    Ok(lives)
}
