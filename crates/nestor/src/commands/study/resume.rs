//! Going on with a study that was begun: only with the same one.

use anyhow::{Result, bail};
use nestor_study::{Store, Study, StudyRecord};

use crate::cli::{LabArguments, StudyHow};

/// The study that was begun last in this file of results, with what the command line changes of its extent.
pub fn begun_last(store: &Store, how: &StudyHow, lab: &LabArguments) -> Result<Study> {
    let ground = lab.on.to_string();
    let Some(record) = store.study_begun_last(&ground)? else {
        bail!(
            "no study was begun in {} on `--on {ground}`\n  begin one with `nestor study FILE`",
            store.path().display()
        );
    };
    if how.scale.is_some() && how.scale != record.study.scale {
        bail!(
            "the study begun last, `{}`, has another scale; name its file to begin it in this one",
            record.study.name
        );
    }
    super::prepare(record.study, how, lab)
}

/// Refuses to go on with a study that is not the one that was begun, and says what has changed.
pub fn require_unchanged(store: &Store, study: &Study, ground: &str) -> Result<()> {
    let hash = study.hash(ground);
    if store.study(&hash)?.is_some() {
        return Ok(());
    }
    let begun = store.studies()?;
    let mut alike = begun.iter().filter(|r| r.study.name == study.name && r.ground == ground);
    let Some(before) = alike.next_back() else {
        bail!(
            "no study `{}` was begun in {} on `--on {ground}`, so there is nothing to go on with\n  \
             leave --resume out to begin it",
            study.name,
            store.path().display()
        );
    };
    bail!(
        "the study `{}` has changed since it was begun:\n{}\n  \
         what was measured is kept; `nestor study --resume` without a file goes on with the study as it was, \
         and without --resume the changed one begins anew",
        study.name,
        changes(before, study).iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    );
}

/// What differs between a study as it was begun and as it is now.
fn changes(before: &StudyRecord, now: &Study) -> Vec<String> {
    let before = &before.study;
    let mut changes = Vec::new();
    for (what, then, now) in
        [("stack", &before.stacks, &now.stacks), ("workload", &before.workloads, &now.workloads)]
    {
        changes.extend(now.iter().filter(|x| !then.contains(x)).map(|x| format!("new {what}: {x}")));
        changes.extend(then.iter().filter(|x| !now.contains(x)).map(|x| format!("{what} gone: {x}")));
    }
    for (stack, baseline) in &now.baselines {
        if let Some(then) = before.baselines.get(stack).filter(|then| *then != baseline) {
            changes.push(format!("{stack} was compared with {then}, now with {baseline}"));
        }
    }
    if before.seed != now.seed {
        changes.push(format!("the seed was {}, now it is {}", before.seed, now.seed));
    }
    if changes.is_empty() {
        changes.push("the order of its stacks or workloads".to_owned());
    }
    changes
}
