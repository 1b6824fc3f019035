//! A study from its definition to its report.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use nestor_machine::agent::work_root;
use nestor_measure::campaign::CampaignEnd;
use nestor_report::{StudyReport, render_study, study_text};
use nestor_results::{
    Decisions, Estimator, Saving, SessionRecord, Store, Study, StudyEffort, StudyRecord, TraceCost,
    WrittenPlace, require_room, trace_costs,
};
use nestor_slurm::Slurm;

use super::next::next_commands;
use super::plan::{print_plan, say_what_begins};
use super::resume::{as_begun, as_named};
use super::user_media::require_allowed;
use crate::arguments::{LabArguments, StudyHow};
use crate::commands::compare::costs_in_text;
use crate::commands::run::set_tracing;
use crate::commands::study_report::{of_study, write_report};
use crate::named::tell;
use crate::output::{columns, print_json, say, style};
use crate::whole_file::require_folder;
use crate::{paths, session, slurm};

/// What the command line changes of a study goes into it.
///
/// # Errors
/// What does not go together, what cannot be on this machine, and media that do not exist or that the command line does not allow to be
/// written to.
pub fn prepare(mut study: Study, how: &StudyHow, lab: &LabArguments) -> Result<Study> {
    tell(&study.remarks);
    if let Some(replications) = how.replications {
        study.replications = replications;
        study.parts.iter_mut().for_each(|part| part.replications = replications);
    }
    if how.no_stop {
        study.stop_not_followed = study.stop.take();
    }
    study.budget = how.budget.or(study.budget);
    if lab.again {
        // Results are kept under the study's identity; another seed is another one.
        study.seed =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_secs());
    }
    super::check_profiles(&study)?;
    set_tracing(&mut study, lab)?;
    if let Some(file) = &how.output {
        require_folder(file)
            .with_context(|| format!("the report {} could not be written", file.display()))?;
    }
    study.note_files()?;
    study.note_recording();
    session::leave_out_what_cannot_run(&mut study, lab);
    // A cluster has machines of its own, and says what it does not run.
    if !how.slurm.slurm {
        let stacks = session::check_plan(&study, lab)?;
        let made = session::require_made(&stacks, lab);
        match made {
            Err(missing) if how.plan => errln!("note: before it can run: {missing}"),
            made => made?,
        }
    }
    if !how.plan && !session::place_to_check(&lab.on).is_emulated() {
        require_allowed(&study.stacks, &how.allow)?;
    }
    Ok(study)
}

/// What came of a study.
pub struct CarriedOut {
    /// As it is kept now.
    pub record: StudyRecord,
    /// What is said of it; `None` where it was only planned.
    pub report: Option<StudyReport>,
    costs: Vec<TraceCost>,
    saving: Option<Saving>,
    path: PathBuf,
}

/// Plans a study, runs what is left of it, and writes its report.
///
/// # Errors
/// Why it cannot be gone on with, or nothing could be measured.
pub fn carry_out(study: Study, how: &StudyHow, lab: &LabArguments, store: &mut Store) -> Result<CarriedOut> {
    if how.slurm.slurm {
        slurm::settle_place(lab)?;
        if !how.plan {
            Slurm::require()?;
        }
    }
    if how.resume {
        lab.place_of_begun_study(store)?;
    }
    let place = if how.plan { lab.likely_place()? } else { lab.place()?.place.clone() };
    session::check_settled(&study, &place)?;
    let path = how.output.clone().unwrap_or_else(|| paths::default_report(&study.name));
    let mut record = record_of(store, study, place.clone().into(), how.resume)?;
    let effort = effort_left(store, &record)?;
    let side_by_side = session::likely_side_by_side(&record.study, &place, lab)?;
    let spread = how.slurm.slurm.then(|| slurm::plan(store, &record, &effort, &how.slurm)).transpose()?;
    if how.plan {
        print_plan(&record, &effort, side_by_side, spread.as_ref(), lab.json)?;
        return Ok(CarriedOut { record, report: None, costs: Vec::new(), saving: None, path });
    }
    if effort.most.cells > 0 {
        if !lab.quiet {
            say_what_begins(&record, &effort, side_by_side, spread.as_ref())?;
        }
        let media_here = spread.is_none().then_some(&place);
        require_room(&record.study, media_here, &effort, store.path(), work_root())?;
    }
    begin(store, &mut record, &effort, side_by_side)?;
    let (end, interrupted) = match &spread {
        None => session::run_until_interrupted(&record.study, lab, true, store)?,
        Some(spread) => slurm::run_until_interrupted(&record, lab, &how.slurm, spread, store)?,
    };
    keep_end(store, &mut record, &end)?;
    session::refuse_interrupted(&end, interrupted)?;
    if end.already_done > 0 {
        errln!(
            "{} cells had been measured before and were not measured again (--again measures them again)",
            end.already_done
        );
    }
    let costs = costs_of(store, &record)?;
    let report = StudyReport::from_store(store, &record)?;
    write_report(&path, &render_study(&report))?;
    let samples = store.cell_samples(&record.hash)?;
    let rule = record.study.stop_not_followed.as_ref();
    let saving = rule.map(|rule| Saving::of(&record.study, rule, record.sentinels, &samples));
    Ok(CarriedOut { record, report: Some(report), costs, saving, path })
}

/// A study on a ground as it is kept, with its sessions so far.
fn record_of(store: &Store, study: Study, ground: WrittenPlace, resume: bool) -> Result<StudyRecord> {
    let study = if resume { as_begun(store, study, &ground)? } else { as_named(store, study, &ground)? };
    let hash = study.hash(&ground);
    let usual_cell = store.usual_cell_s(&ground)?.map(std::time::Duration::from_secs_f64);
    let before = store.study(&hash)?;
    // Decided once: later the time that cells take is known better, and the blocks that are there would be other ones.
    let sentinels = before.as_ref().map_or_else(|| study.plan(usual_cell).sentinels, |b| b.sentinels);
    let looked_until = before.as_ref().and_then(|b| b.study.looked_until.max(Some(b.study.most_blocks())));
    let study = Study { sentinels: Some(sentinels), looked_until, ..study };
    let sessions = before.map(|b| b.sessions).unwrap_or_default();
    Ok(StudyRecord { hash, ground, sentinels, study, ended_early: None, sessions })
}

/// Keeps that the study is begun, so that it can be gone on with whatever happens from here.
fn begin(
    store: &mut Store,
    record: &mut StudyRecord,
    effort: &StudyEffort,
    side_by_side: usize,
) -> Result<()> {
    record.sessions.push(SessionRecord {
        began_at: now(),
        study_cells: Some(record.study.all_cells(record.sentinels, &Decisions::default()).len()),
        planned_cells: (effort.least.cells, effort.most.cells),
        planned_s: (effort.least.wall_s(side_by_side), effort.most.wall_s(side_by_side)),
        cells: 0,
        elapsed_s: None,
        load_s: 0.0,
    });
    Ok(store.save_study(record)?)
}

/// Keeps how the session ended.
fn keep_end(store: &mut Store, record: &mut StudyRecord, end: &CampaignEnd) -> Result<()> {
    record.ended_early = end.not_run.first().map(|cell| cell.reason.clone());
    if let Some(session) = record.sessions.last_mut() {
        session.cells = end.kept;
        session.elapsed_s = Some(end.elapsed_s);
        session.load_s = end.load_s;
    }
    Ok(store.save_study(record)?)
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What is left of a study will take.
fn effort_left(store: &Store, record: &StudyRecord) -> Result<StudyEffort> {
    let estimator = Estimator::of(&store.past_cells(&record.ground)?);
    let finished = store.finished(&record.hash)?;
    let decisions = Decisions::of(&record.study, &store.cell_samples(&record.hash)?, None);
    Ok(record.study.effort(&estimator, record.sentinels, &decisions, &|cell| finished.contains(cell)))
}

/// What tracing cost where that was measured.
fn costs_of(store: &Store, record: &StudyRecord) -> Result<Vec<TraceCost>> {
    if !record.study.measures_trace_cost() {
        return Ok(Vec::new());
    }
    let runs = store.runs(&of_study(record))?;
    Ok(trace_costs(&runs.iter().collect::<Vec<_>>()))
}

impl CarriedOut {
    /// Prints the report.
    ///
    /// # Errors
    /// When it has no JSON form.
    pub fn print(&self, lab: &LabArguments) -> Result<ExitCode> {
        let Some(report) = &self.report else { return Ok(ExitCode::SUCCESS) };
        if lab.json {
            let mut json = serde_json::to_value(report)?;
            if !self.costs.is_empty() {
                json["trace_costs"] = serde_json::to_value(&self.costs)?;
            }
            if let Some(saving) = &self.saving {
                json["saving"] = serde_json::to_value(saving)?;
            }
            print_json(&json)?;
        } else {
            out!("{}", study_text(report, style()));
            say(&costs_in_text(&self.costs));
            self.saving.iter().for_each(|saving| outln!("{}", saving.in_words()));
            outln!("report: {}", self.path.display());
            self.print_next(report);
        }
        Ok(if report.times.measured_runs > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn print_next(&self, report: &StudyReport) {
        const HEAD: &str = "next:   ";
        let repeats = self.record.ground.is_in_virtual_time();
        let commands = next_commands(report, &self.record, repeats);
        // Commands are copied, so that none is broken: one that a terminal would break is left out.
        let lines = commands.iter().map(|(command, shows)| format!("{command}   ({shows})"));
        let fits = |line: &String| columns().is_none_or(|columns| HEAD.len() + line.len() <= columns);
        for (number, line) in lines.filter(fits).enumerate() {
            outln!("{}{line}", if number == 0 { HEAD } else { "        " });
        }
    }
}
