//! What is to be said, as plain data, before it is said in one form or another.

mod classes;
mod compare;
mod layer;
mod life;
mod matrix;
mod network;
mod path;
mod processor_time;
mod run;
mod short_names;
mod study;
mod trace;

pub use classes::{ClassShare, class_words};
pub use compare::CompareView;
pub use layer::{LayerRow, RowRole, ServiceShares};
pub(crate) use life::whole_life_words;
pub use life::{DiskRow, LifeView, ManagedRow, ManagerView, StateRow};
pub use matrix::{CellKind, Matrix, MatrixCell, WITHOUT_OPERATIONS};
pub use network::{AccessRow, CallTimesRow, LinkView, NetworkView, ProcedureRow, WayView};
pub use path::{PathRow, PathView};
pub use processor_time::ProcessorTimeRow;
pub use run::{RunView, RunsView};
pub use short_names::ShortNames;
pub(crate) use study::decision_words;
pub use study::{
    CellReport, KnownMark, LayersWhy, StoppedComparison, StudyPhysical, StudyReport, StudyTimes,
};
pub use trace::{
    JoinRow, LevelName, LevelTime, OriginShare, Part, TimeSpent, TraceView, Waterfall, WaterfallRow,
};

use nestor_results::{Environment, StoredRun, WrittenWorkload};
use nestor_stack::{Accelerator, HostTime, MachineLabel, MachineName, Place};
use nestor_workload::Workload;

/// A workload's parameters in words; empty if it is not understood by this Nestor.
pub(crate) fn workload_words(workload: &WrittenWorkload) -> String {
    workload.value().map(Workload::describe).unwrap_or_default()
}

/// Where the runs were made, in sentences whose first says what their numbers are good for.
pub(crate) fn honesty(runs: &[&StoredRun]) -> Vec<String> {
    honesty_in(runs.iter().map(|run| &run.record.environment))
}

/// The same of places.
pub(crate) fn honesty_in<'a>(environments: impl Iterator<Item = &'a Environment>) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for environment in environments {
        for sentence in honesty_of(environment) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
    }
    sentences
}

fn honesty_of(environment: &Environment) -> Vec<String> {
    const EMULATED: &str = "shapes and ratios hold, absolute CPU-bound numbers do not";
    let Some(host) = environment.machines.first() else { return Vec::new() };
    let modelled = environment.modelled_processor();
    let place = match environment.ground.value() {
        Some(Place::Emulated(HostTime::Virtual(_))) => "on an emulated host in virtual time".to_owned(),
        Some(Place::Emulated(HostTime::Real)) => "on an emulated host".to_owned(),
        Some(Place::This) => "on this machine".to_owned(),
        Some(Place::Ssh(host)) => format!("on {host}"),
        Some(Place::Domain(name)) => format!("in the domain {name}"),
        Some(Place::SshPair { client, server }) => format!("on {server} and {client}"),
        Some(Place::Manager { kind, url }) => format!("on instances of {} at {url}", kind.product()),
        None => format!("on {}", environment.ground),
    };
    // A client or a repository is beside the host and emulated as that is.
    let repository = MachineName::Of(MachineLabel::Repository);
    let is_beside = |label: &MachineName| label.is_client() || *label == repository;
    let mut guests = environment.machines.iter().skip(1).filter(|m| !is_beside(&m.label));
    let emulated_guest = guests.find(|m| m.accelerator.is_emulation());
    let mut sentences = vec![match (host.accelerator, modelled) {
        (Accelerator::Tcg, Some(speed)) => {
            let repeats = match emulated_guest {
                None => "numbers repeat to the last bit",
                Some(_) => "numbers of guests on an emulated CPU (tcg) do not always repeat to the last bit",
            };
            let mips = speed.mips();
            format!("{place}: one modelled processor of {mips} MIPS, in order and without caches; {repeats}")
        }
        (Accelerator::Tcg, None) => format!("{place} (TCG, no KVM here): {EMULATED}"),
        (Accelerator::Hardware, _) => {
            format!("{place} ({} x {}, Linux {})", host.cpus, host.cpu_model, host.kernel)
        }
        (accelerator, _) => format!("{place} ({})", accelerator.name().to_uppercase()),
    }];
    if let Some(guest) = emulated_guest.filter(|_| !host.accelerator.is_emulation()) {
        sentences.push(format!("its {} ran on an emulated CPU (TCG): {EMULATED}", guest.label));
    }
    sentences.extend(environment.all_remarks().map(str::to_owned));
    sentences
}
