//! Going on with a study that was begun: only with the same one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::{Result, bail};
use nestor_report::units;
use nestor_results::{Store, Study, StudyRecord, Written, WrittenPlace};

use crate::arguments::{LabArguments, StudyHow};

/// The study that was begun last in this file of results, with what the command line changes of its extent.
pub fn begun_last(store: &Store, how: &StudyHow, lab: &LabArguments) -> Result<Study> {
    let ground = WrittenPlace::from(lab.place_of_begun_study(store)?);
    let Some(record) = store.study_begun_last(&ground)? else {
        bail!(
            "no study was begun in {} on `--on {ground}`\n  begin one with `nestor study FILE`",
            store.path().display()
        );
    };
    if how.scale.is_some() && how.scale != record.study.scale {
        bail!(
            "the study begun last, `{}`, has another scale; to begin it at this scale, name its file",
            record.study.name
        );
    }
    super::prepare(record.study, how, lab)
}

/// The study as it is to be gone on with. Refuses one that is not the one that was begun, and says what has changed.
pub fn as_begun(store: &Store, study: Study, ground: &WrittenPlace) -> Result<Study> {
    let study = as_named(store, study, ground)?;
    if store.study(&study.hash(ground))?.is_some() {
        return Ok(study);
    }
    let not_noted = Study { files: BTreeMap::new(), recording: Vec::new(), ..study.clone() };
    if not_noted.has_files_not_noted() && began_recording_the_same(store, &not_noted, ground)? {
        let files = units::listed(study.files.keys());
        errln!(
            "note: an earlier version began this study and did not record the contents of {files}: whether \
             they have changed since is not known"
        );
        return Ok(not_noted);
    }
    let begun = store.studies()?;
    let alike = begun.iter().filter(|r| r.study.name == study.name && r.ground == *ground);
    // The one that is the most like it; of several, the one that was worked on last.
    let began = |record: &StudyRecord| record.sessions.last().map(|s| s.began_at.clone());
    let nearest = alike.min_by_key(|r| (changes(r, &study).len(), Reverse(began(r))));
    let Some(before) = nearest else {
        bail!(
            "no study `{}` was begun in {} on `--on {ground}`, so there is nothing to resume\n  to begin \
             it, omit --resume",
            study.name,
            store.path().display()
        );
    };
    let changed_files = changed_files(before, &study);
    let as_it_was = match changed_files.as_slice() {
        [] => "`nestor study --resume` without a file resumes the earlier study".to_owned(),
        files => format!("to resume the earlier study, restore {}", files.join(" and ")),
    };
    bail!(
        "the study `{}` has changed since it was begun:\n{}\n  \
         its results are kept; {as_it_was}; to begin the changed study, omit --resume",
        study.name,
        changes(before, &study).iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    );
}

/// The study under the name that it was begun with: earlier versions had in it what each part records, or nothing of that.
pub fn as_named(store: &Store, study: Study, ground: &WrittenPlace) -> Result<Study> {
    if store.study(&study.hash(ground))?.is_some() {
        return Ok(study);
    }
    for recording in [study.recording_of_parts(), Vec::new()] {
        let earlier = Study { recording, ..study.clone() };
        if began_recording_the_same(store, &earlier, ground)? {
            return Ok(earlier);
        }
    }
    Ok(study)
}

/// Whether a study of this name was begun, and recorded what this one records.
fn began_recording_the_same(store: &Store, study: &Study, ground: &WrittenPlace) -> Result<bool> {
    Ok(store.study(&study.hash(ground))?.is_some_and(|begun| begun.study.records_as(study)))
}

/// Files that a workload names in both and that do not hold what they held.
fn changed_files<'a>(before: &StudyRecord, now: &'a Study) -> Vec<&'a str> {
    let then = &before.study.files;
    let changed = now.files.iter().filter(|(path, digest)| then.get(*path).is_some_and(|old| old != *digest));
    changed.map(|(path, _)| path.as_str()).collect()
}

/// What differs between a study as it was begun and as it is now.
fn changes(before: &StudyRecord, now: &Study) -> Vec<String> {
    let mut changes: Vec<String> =
        changed_files(before, now).iter().map(|path| format!("contents of the file {path}")).collect();
    let before = &before.study;
    fn names<T>(written: &[Written<T>]) -> Vec<&str> {
        written.iter().map(Written::as_str).collect()
    }
    for (what, then, now) in [
        ("stack", names(&before.stacks), names(&now.stacks)),
        ("workload", names(&before.workloads), names(&now.workloads)),
    ] {
        changes.extend(now.iter().filter(|x| !then.contains(x)).map(|x| format!("new {what}: {x}")));
        changes.extend(then.iter().filter(|x| !now.contains(x)).map(|x| format!("removed {what}: {x}")));
    }
    for (stack, baseline) in &now.baselines {
        if let Some(then) = before.baselines.get(stack).filter(|then| *then != baseline) {
            changes.push(format!("baseline of {stack}: was {then}, is now {baseline}"));
        }
    }
    if !before.records_as(now) {
        changes.push("what is recorded".to_owned());
    }
    if before.seed != now.seed {
        changes.push(format!("seed: was {}, is now {}", before.seed, now.seed));
    }
    if changes.is_empty() {
        changes.push("order of its stacks or workloads".to_owned());
    }
    changes
}
