//! Each cell of a study is explained: by its requests, by the numbers of its layers, or by why there is nothing to say.

use nestor_results::{Outcome, Part, StoredRun, TraceMode};

use super::fixture::*;
use crate::view::{CellReport, LayersWhy};
use crate::{StudyReport, render_study};

/// The cell of a stack under the first workload.
fn cell<'a>(report: &'a StudyReport, stack: &str) -> &'a CellReport {
    report.cells.iter().find(|c| c.stack == stack && c.workload == WORKLOADS[0]).unwrap()
}

fn by_layers(report: &StudyReport, stack: &str) -> LayersWhy {
    cell(report, stack).by_layers.clone().unwrap()
}

/// The same runs with nothing recorded but the application.
fn untraced(mut runs: Vec<StoredRun>, of: impl Fn(&StoredRun) -> bool) -> Vec<StoredRun> {
    for run in runs.iter_mut().filter(|run| of(run)) {
        run.record.trace = TraceMode::None;
        if let Outcome::Measured(measured) = &mut run.record.outcome {
            measured.layers.iter_mut().for_each(|layer| layer.metrics = None);
        }
    }
    runs
}

#[test]
fn a_cell_of_which_the_layers_were_recorded_is_explained_by_their_numbers() {
    let report = StudyReport::of(&study(3), &study_runs());
    // What the host's memory held reached neither its file system's device nor the disk.
    let why = by_layers(&report, STACKS[2]);
    insta::assert_snapshot!(format!("{}\n{}\n{}", why.answer, why.sentences.join("\n"), why.more), @r#"
    Run 25 (67.7 MB/s) against run 1 of its baseline ext3/kvm:cache=writethrough/hdd (105 MB/s), by the numbers of their layers, the most important first.
    the disk worked 15.2 ms per MiB of the application against 9.8 ms (seek 9.6 against 6.2, rotation 3.3 against 2.1, transfer 2.3 against 1.5), 98 % of the time against 98 %
    bytes at the disk: 0.03 times the application's against 1.03 times
    requests at the disk: 0.5 per MiB of the application against 16.5 (0 % merged against 0 %)
    the disk read 3 % of the bytes that the guest read against 100 %; the host's memory answered the rest, or more than 100 % was read ahead into it
    No mechanism is named, because requests were not followed through the layers. To follow them, set trace = "full" in the study file or give --trace full, with --again.
    "#);
    let html = render_study(&report);
    assert_eq!(
        html.matches("<h4>Why</h4>").count(),
        report.cells.iter().filter(|c| c.by_layers.is_some()).count()
    );
    assert!(html.contains("requests at the disk: 0.5"), "the figures are on the page");
    assert!(html.contains("--trace full"), "what would say more is on the page");
}

#[test]
fn every_cell_with_numbers_is_explained() {
    let report = StudyReport::of(&study(3), &study_runs());
    for cell in &report.cells {
        let measured = cell.run.as_ref().is_some_and(|run| run.shown_run.is_some());
        assert_eq!(cell.by_layers.is_some(), measured, "{} {}", cell.stack, cell.workload);
    }
    let baseline = by_layers(&report, BASELINE);
    assert_eq!(
        baseline.answer,
        "This cell is a baseline: others are compared with it. On its own, it sent \
                                 to each level:"
    );
    assert!(baseline.sentences[0].starts_with("per MiB of the application: guest's block layer "));
}

#[test]
fn without_a_trace_it_is_said_that_there_is_none_and_what_mends_it() {
    let report = StudyReport::of(&study(3), &untraced(study_runs(), |_| true));
    let why = by_layers(&report, STACKS[2]);
    assert!(why.answer.contains("was recorded (trace = \"none\")"), "{why:?}");
    assert!(why.more.contains("trace = \"full\"") && why.more.contains("--trace full"), "{why:?}");
    assert_eq!(why.sentences, [""; 0]);
    assert!(render_study(&report).contains("--trace full"));
}

#[test]
fn a_cell_whose_baseline_was_not_recorded_is_not_held_against_it() {
    let report = StudyReport::of(&study(3), &untraced(study_runs(), |run| run.record.stack == BASELINE));
    let why = by_layers(&report, STACKS[1]);
    assert!(why.answer.contains("of its baseline") && why.answer.contains("No layer of run"), "{why:?}");
    assert_eq!(why.sentences.len(), 1);
    let without: Vec<StoredRun> =
        study_runs().into_iter().filter(|run| run.record.stack != BASELINE).collect();
    let why = by_layers(&StudyReport::of(&study(3), &without), STACKS[1]);
    assert!(why.answer.contains("has no run with numbers to compare with"), "{why:?}");
}

#[test]
fn what_is_not_told_apart_is_not_explained_as_if_it_were() {
    let report = StudyReport::of(&study(3), &study_runs());
    let told = |cell: &CellReport| cell.comparison.as_ref().and_then(|c| c.ratio?.differs());
    let mut seen = [0, 0];
    for cell in report.cells.iter().filter(|c| c.by_layers.is_some()) {
        let Some(told) = told(cell) else { continue };
        seen[usize::from(told)] += 1;
        assert_eq!(cell.by_layers.as_ref().unwrap().answer.contains("not told apart"), !told, "{cell:?}");
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn of_one_pair_it_is_not_known_whether_anything_differs() {
    let first: Vec<StoredRun> = study_runs().into_iter().filter(|run| run.record.block == 0).collect();
    let why = by_layers(&StudyReport::of(&study(1), &first), STACKS[2]);
    assert!(why.answer.ends_with("not known whether the two cells differ."), "{why:?}");
}

#[test]
fn a_cell_that_is_apart_is_compared_with_nothing() {
    let mut record = study(3);
    let part = |stacks: &[&str], apart| Part {
        stacks: stacks.iter().map(|stack| (*stack).into()).collect(),
        workloads: record.study.workloads.clone(),
        replications: 3,
        trace: None,
        trace_cost: false,
        apart,
        optional: false,
        left_out: None,
    };
    let compared: Vec<&str> = STACKS.into_iter().filter(|stack| *stack != STACKS[2]).collect();
    record.study.parts = vec![part(&compared, false), part(&[STACKS[2]], true)];
    let report = StudyReport::of(&record, &study_runs());
    assert!(cell(&report, STACKS[1]).comparison.is_some());
    for cell in report.cells.iter().filter(|cell| cell.stack == STACKS[2]) {
        assert_eq!((cell.is_apart, &cell.comparison), (true, &None), "{}", cell.workload);
    }
    insta::assert_snapshot!(by_layers(&report, STACKS[2]).answer, @"This cell is apart: it is compared with nothing, because it is recorded by a rule of its own. On its own, it sent to each level:");
    assert!(render_study(&report).contains("compared with nothing, recorded by a rule of its own"));
}
