//! The engines that are known. A new one is a file here and a line in [`ENGINES`].

mod bonnie;
mod dbench;
mod ended;
mod fio;
mod iometer;
mod iozone;
mod life;
mod options;
mod postmark;
mod random;
mod replay;
mod stamps;
mod wml;

use serde::Serialize;

use crate::engine::{Engine, OptionSpec};
use crate::notation::Workload;

pub(crate) use ended::exit_code;
pub use iometer::SurfacePoint;
pub use life::LifeCycle;

/// All engines.
pub const ENGINES: &[&dyn Engine] = &[
    &fio::Fio,
    &wml::Wml,
    &postmark::Postmark,
    &bonnie::Bonnie,
    &dbench::Dbench,
    &iozone::Iozone,
    &iometer::Iometer,
    &replay::Replay,
    &stamps::Stamps,
    &life::Life,
];

/// One known workload, for lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadSummary {
    /// As it is written, without options: `fio:seq-write`.
    pub workload: String,
    /// What it does.
    pub summary: &'static str,
    /// Its parameters by default: `8 KiB, depth 255, 512 MiB in 64 files`.
    pub parameters: String,
    /// Its options.
    pub options: Vec<OptionSummary>,
}

/// One option of a known workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OptionSummary {
    /// The word before `=`.
    pub option: &'static str,
    /// What may follow it.
    pub form: String,
    /// What it is when not written, if anything.
    pub default: Option<String>,
    /// What it does.
    pub summary: &'static str,
}

/// Every known workload with its options, engine by engine.
pub fn catalogue() -> Vec<WorkloadSummary> {
    let mut list = Vec::new();
    for engine in ENGINES {
        for case in engine.cases() {
            let text = format!("{}:{}", engine.name(), case.name);
            let workload = Workload::of_case(*engine, case);
            let has = |spec: &&OptionSpec| spec.is_of(case.name);
            let option = |spec: &OptionSpec| OptionSummary {
                option: spec.name,
                form: spec.kind.form(),
                default: workload.value(spec.name).map(|value| value.to_string()),
                summary: spec.summary,
            };
            list.push(WorkloadSummary {
                workload: text,
                summary: case.summary,
                parameters: workload.describe(),
                options: engine.options().iter().filter(has).map(option).collect(),
            });
        }
    }
    list
}
