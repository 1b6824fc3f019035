//! How a study was measured: order, time, stopping, and where it ran, said once for all cells.

use std::collections::BTreeMap;

use nestor_results::Environment;
use nestor_statistics::sequential::Decision;
use serde::Serialize;

use super::typeset;
use crate::units;
use crate::view::{StudyReport, decision_words};

/// The section on how it was measured.
#[derive(Serialize)]
pub(super) struct MeasuredPage {
    method: Vec<String>,
    pub common: CommonPlace,
    stopping: Vec<StoppedPage>,
    sessions: Vec<SessionPage>,
}

/// What the shown runs of all cells have in common.
#[derive(Serialize)]
pub(super) struct CommonPlace {
    /// Label and words of each machine.
    pub machines: Vec<(String, String)>,
    pub settings: Vec<(String, String)>,
    pub packages: Vec<(String, String)>,
    /// What makes the numbers of all cells less than they seem. The top of the page says it.
    pub remarks: Vec<String>,
}

#[derive(Serialize)]
struct StoppedPage {
    stack: String,
    workload: String,
    anchor: Option<String>,
    words: String,
    change: String,
}

#[derive(Serialize)]
struct SessionPage {
    began: String,
    planned: String,
    cells: String,
    took: String,
    measured: String,
}

impl MeasuredPage {
    pub(super) fn of(report: &StudyReport) -> Self {
        Self {
            method: report.method.clone(),
            common: CommonPlace::of(report),
            stopping: report.stopping.iter().map(|s| stopped(report, s)).collect(),
            sessions: report.study.sessions.iter().map(session).collect(),
        }
    }
}

fn stopped(report: &StudyReport, stopped: &crate::view::StoppedComparison) -> StoppedPage {
    let cell = report.cells.iter().position(|c| c.stack == stopped.stack && c.workload == stopped.workload);
    let linked = cell.filter(|i| report.cells[*i].run.is_some());
    let change = |ratio: &nestor_statistics::Ratio| {
        let interval = units::change_interval(ratio).map(|i| format!(" {i}")).unwrap_or_default();
        typeset(&format!("{}{interval}", units::change(ratio)))
    };
    let ratio = match &stopped.decision {
        Decision::Continue { .. } => None,
        decision => decision.ratio(),
    };
    StoppedPage {
        stack: stopped.stack.to_string(),
        workload: stopped.workload.to_string(),
        anchor: linked.map(|i| format!("cell-{i}")),
        words: decision_words(&stopped.decision),
        change: ratio.as_ref().map(change).unwrap_or_default(),
    }
}

fn session(session: &nestor_results::SessionRecord) -> SessionPage {
    let minutes = |s: f64| {
        let (number, unit) = if s < 600.0 { (s, "s") } else { (s / 60.0, "min") };
        typeset(&format!("{number:.0} {unit}"))
    };
    let (least, most) = session.planned_s;
    let planned = if minutes(least) == minutes(most) {
        minutes(most)
    } else {
        format!("{} to {}", minutes(least), minutes(most))
    };
    SessionPage {
        began: session.began_at.replace('T', " ").replace('Z', " UTC"),
        planned,
        cells: units::count(session.cells as u64),
        took: session.elapsed_s.map_or_else(|| "did not end".to_owned(), minutes),
        measured: minutes(session.load_s),
    }
}

impl CommonPlace {
    fn of(report: &StudyReport) -> Self {
        let places: Vec<&Environment> =
            report.cells.iter().filter_map(|c| c.run.as_ref()).map(|r| &r.environment).collect();
        let machines = common(places.iter().map(|e| e.machines.iter().map(machine_words).collect()));
        Self {
            machines,
            settings: common(places.iter().map(|e| pairs(&e.settings))),
            packages: common(places.iter().map(|e| pairs(&e.packages))),
            remarks: common(places.iter().map(|e| e.all_remarks().map(str::to_owned).collect())),
        }
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<(String, String)> {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// `host`, `Linux 6.1.0-28-amd64, tcg, 2 × an invented CPU`. The memory of a machine depends on its stack.
pub(super) fn machine_words(machine: &nestor_results::MachineRecord) -> (String, String) {
    let words = format!(
        "Linux {}, {}, {} × {}",
        machine.kernel, machine.accelerator, machine.cpus, machine.cpu_model
    );
    (machine.label.to_string(), words)
}

/// What is in every list.
fn common<T: PartialEq>(mut lists: impl Iterator<Item = Vec<T>>) -> Vec<T> {
    let mut common = lists.next().unwrap_or_default();
    for list in lists {
        common.retain(|one| list.contains(one));
    }
    common
}
