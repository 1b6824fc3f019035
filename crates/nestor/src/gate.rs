//! Gates of `nestor compare`: saved baselines, and exit codes that a program can go by.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use nestor_results::{Doubt, SavedBaseline, Store, StoredRun, WrittenWorkload};
use nestor_statistics::LimitVerdict;

/// After an error under `--fail-if`, because 1 and 2 are answers there.
const ERROR_CODE: u8 = 3;

/// How a rule begins, also one whose option is misspelt.
const BEGINNING_OF_RULES: &[u8] = b"--fail";

/// The exit code of an error, if the command line has a gate; read from its words, because it may be them that are wrong.
pub fn code_of_error(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    is_gate(arguments.skip(1)).then_some(ExitCode::from(ERROR_CODE))
}

fn is_gate(mut words: impl Iterator<Item = OsString>) -> bool {
    words.next().is_some_and(|command| command == "compare")
        && words.any(|word| word.as_encoded_bytes().starts_with(BEGINNING_OF_RULES))
}

/// Prints a gate's answer. The exit code is the answer, also where nobody reads the words.
///
/// # Errors
/// They cannot be written.
pub fn print(text: &str) -> Result<()> {
    match nestor_terminal::try_print(format_args!("{text}")) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("the output could not be written")
        }
        _ => Ok(()),
    }
}

/// The exit code of a gate's answer.
pub fn exit_code(worst: LimitVerdict) -> ExitCode {
    ExitCode::from(match worst {
        LimitVerdict::Fine => 0,
        LimitVerdict::Worse => 1,
        LimitVerdict::Undecided => 2,
    })
}

/// Saves the runs of a cell as a baseline.
///
/// # Errors
/// One of them failed, or the results file cannot be written.
pub fn save(name: &str, runs: &[&StoredRun], store: &mut Store) -> Result<()> {
    if let Some(failed) = runs.iter().find(|run| run.record.measured().is_none()) {
        bail!("run {} failed, so that nothing was saved as `{name}`", failed.number);
    }
    store.save_baseline(name, &runs.iter().map(|run| run.number).collect::<Vec<_>>())?;
    errln!(
        "saved as `{name}` in {}      nestor compare --against {name} STACK WORKLOAD",
        store.path().display()
    );
    Ok(())
}

/// The runs of a saved baseline, which have to be of this workload.
///
/// # Errors
/// There is none of that name, or it is of another workload.
pub fn saved(name: &str, workload: &WrittenWorkload, store: &Store) -> Result<Vec<StoredRun>> {
    let runs = store.baseline(name)?;
    let Some(first) = runs.first() else {
        let names = store.baseline_names()?;
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        bail!(
            "{} has no baseline `{name}`; saved are: {there}\n  nestor run STACK WORKLOAD --save {name} makes one",
            store.path().display()
        );
    };
    if first.record.workload != *workload {
        bail!("the baseline `{name}` is of `{}`, not of `{workload}`", first.record.workload);
    }
    Ok(runs)
}

/// A saved baseline as a command notes it that is compared with it.
pub fn noted(name: &str, runs: &[StoredRun]) -> SavedBaseline {
    SavedBaseline { name: name.to_owned(), runs: runs.iter().map(|run| run.id.clone()).collect() }
}

/// What a comparison with a saved baseline has to say.
pub fn doubt(name: &str, runs: &[StoredRun]) -> Doubt {
    let last_start = runs.iter().map(|run| run.record.started_at.as_str()).max();
    Doubt::of_saved(name, last_start.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_comparison_with_a_rule_is_a_gate() {
        let gate = |words: &[&str]| is_gate(words.iter().map(OsString::from));
        assert!(gate(&["compare", "a", "b", "--fail-if", "x"]) && gate(&["compare", "--fail-if=x"]));
        assert!(gate(&["compare", "a", "b", "--fail-fi", "x"]), "a misspelt one is meant to be one");
        assert!(!gate(&["compare", "a", "b"]) && !gate(&["run", "--fail-if", "x"]) && !gate(&[]));
    }
}
