//! Replay of a block trace of the user's, on the machine at the top of the stack: `{nestor} load replay`.
//!
//! On a directory, the trace's span becomes a file, which is made before the measurement; on a device the requests go
//! where they went in the trace. How true the replay was to the trace's times comes with the result.

use std::collections::BTreeMap;

use nestor_statistics::LatencyHistogram;
use nestor_text::complaint::why_it_ended;
use serde::Deserialize;

use super::ended::{exit_code, failed};
use super::options::{choice, switch};
use crate::demand::Demand;
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, Target};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult, OperationClass, OperationResult};
use crate::value::{Kind, Value};

/// The engine.
pub struct Replay;

/// How it is called in messages: it is this program itself.
const PROGRAM: &str = "nestor";

const CASES: &[Case] = &[Case { name: "trace", summary: "replays the requests of a recorded block trace" }];

/// Which way its operations move data.
const DIRECTIONS: &[(&str, Direction)] = Direction::OF_READ_AND_WRITE;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec { name: "file", kind: Kind::File, cases: &[], summary: "the trace, in any supported format" },
    OptionSpec {
        name: "speed",
        kind: Kind::Factor,
        cases: &[],
        summary: "speed relative to the trace's own times",
    },
    OptionSpec {
        name: "pace",
        kind: Kind::Choice(&["timed", "max"]),
        cases: &[],
        summary: "at the trace's times, or as fast as possible",
    },
    OptionSpec {
        name: "from",
        kind: Kind::Choice(&["auto", "q", "d"]),
        cases: &[],
        summary: "requests as queued, or as issued to the driver",
    },
    OptionSpec {
        name: "depth",
        kind: Kind::Count { min: 1, max: 32_768 },
        cases: &[],
        summary: "maximum of requests in flight",
    },
    OptionSpec {
        name: "fit",
        kind: Kind::Choice(&["exact", "wrap", "scale"]),
        cases: &[],
        summary: "how to place a trace that is larger than the target",
    },
    OptionSpec {
        name: "discard",
        kind: Kind::Switch,
        cases: &[],
        summary: "also replay the trace's discards",
    },
];

/// The name of the file that a replay makes in a directory; `nestor_replay::MADE_NAME`.
const MADE_NAME: &str = "nestor-replay.data";
/// The longest trace that is replayed in a cell.
const LONGEST_S: u64 = 4 * 3600;

impl Engine for Replay {
    fn about(&self) -> &'static About {
        &About {
            name: "replay",
            program: PROGRAM,
            package: None,
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    fn default_value(&self, _workload: &Workload, option: &str) -> Option<Value> {
        Some(match option {
            "speed" => Value::Factor(1_000_000),
            "pace" => Value::Choice("timed"),
            "from" => Value::Choice("auto"),
            "fit" => Value::Choice("exact"),
            "discard" => Value::Switch(false),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        if choice(workload, "pace") == "max" && workload.given("speed").is_some() {
            return Err(Misfit {
                option: "speed",
                why: "pace=max and speed exclude each other".to_owned(),
                remedy: "give either speed or pace=max".to_owned(),
            });
        }
        Ok(())
    }

    fn demand(&self, workload: &Workload) -> Demand {
        match workload.value("depth") {
            Some(Value::Count(depth)) => {
                Demand { outstanding: Some(depth), workers: Some(depth), ..Demand::default() }
            }
            _ => Demand::default(),
        }
    }

    /// What the trace touches is known only when it is read, where it is replayed.
    fn data_set(&self, _workload: &Workload) -> DataSet {
        DataSet { bytes: 0, files: 1, file_bytes: 0, scale_factor: 1.0 }
    }

    fn describe(&self, workload: &Workload) -> String {
        let file =
            workload.value("file").map_or_else(|| "file= names it".to_owned(), |file| file.to_string());
        match (choice(workload, "pace"), workload.given("speed")) {
            ("max", _) => format!("{file}, as fast as possible"),
            (_, Some(speed)) => format!("{file}, at {speed} times its speed"),
            _ => format!("{file}, at its own times"),
        }
    }

    fn remarks(&self, _workload: &Workload) -> Vec<String> {
        Vec::new()
    }

    fn prepare(&self, workload: &Workload, place: &Place, _seed: u64) -> Vec<Step> {
        match &place.target {
            Target::Device(_) => Vec::new(),
            Target::Directory(path) => {
                let mut step = command(workload, place, path);
                step.title = "making the file that the trace is replayed on".to_owned();
                step.argv.push("--prepare".to_owned());
                vec![step]
            }
        }
    }

    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step {
        let target = match &place.target {
            Target::Device(path) => path.clone(),
            Target::Directory(path) => format!("{}/{MADE_NAME}", path.trim_end_matches('/')),
        };
        let mut step = command(workload, place, &target);
        step.title = format!("{workload} on {target}");
        step.argv.push(format!("--overwrite={target}"));
        step.argv.extend(["--json".to_owned(), format!("--seed={seed}")]);
        step
    }

    fn check_preparation(&self, _workload: &Workload, output: &StepOutput) -> Result<(), LoadError> {
        ended_well(output)
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        ended_well(output)?;
        let report: Report = serde_json::from_str(&output.stdout).map_err(|e| LoadError::Unreadable {
            program: PROGRAM,
            versions: env!("CARGO_PKG_VERSION"),
            detail: e.to_string(),
        })?;
        Ok(report.into_result(workload, &output.stdout))
    }
}

fn command(workload: &Workload, place: &Place, target: &str) -> Step {
    let trace = format!("{}/nestor-replay.trace", place.scratch.trim_end_matches('/'));
    let mut argv = ["{nestor}", "load", "replay", &trace, "--target", target].map(str::to_owned).to_vec();
    let speed = match choice(workload, "pace") {
        "max" => "max".to_owned(),
        _ => workload.value("speed").map_or_else(|| "1".to_owned(), |speed| speed.to_string()),
    };
    argv.push(format!("--speed={speed}"));
    match choice(workload, "from") {
        "auto" => {}
        from => argv.push(format!("--stage={from}")),
    }
    if let Some(depth) = workload.value("depth") {
        argv.push(format!("--depth={depth}"));
    }
    match choice(workload, "fit") {
        "wrap" => argv.push("--wrap".to_owned()),
        "scale" => argv.push("--scale-space".to_owned()),
        _ => {}
    }
    if switch(workload, "discard") {
        argv.push("--discard".to_owned());
    }
    let file = workload.value("file").map_or_else(String::new, |file| file.to_string());
    Step {
        title: String::new(),
        argv,
        input_files: Vec::new(),
        copied_files: vec![(trace, file)],
        output_files: Vec::new(),
        timeout_s: LONGEST_S,
    }
}

fn ended_well(output: &StepOutput) -> Result<(), LoadError> {
    match exit_code(PROGRAM, &output.ended)? {
        0 => Ok(()),
        _ => Err(failed(PROGRAM, why_it_ended(&output.stderr))),
    }
}

/// What of the replay's report is used here; all of it is kept beside the result.
#[derive(Deserialize)]
struct Report {
    target_bytes: u64,
    elapsed_ns: u64,
    engine: String,
    lag: Option<LatencyHistogram>,
    held_back: u64,
    classes: Vec<ClassOfRequests>,
    remarks: Vec<String>,
}

#[derive(Deserialize)]
struct ClassOfRequests {
    class: String,
    requests: u64,
    bytes: u64,
    from_submission: LatencyHistogram,
    from_intended: Option<LatencyHistogram>,
}

impl Report {
    fn into_result(self, workload: &Workload, text: &str) -> LoadResult {
        let mut figures = BTreeMap::new();
        if let Some(lag) = &self.lag {
            for (quantile, name) in [(0.5, "lag_p50_ns"), (0.99, "lag_p99_ns"), (1.0, "lag_max_ns")] {
                figures.extend(lag.quantile_ns(quantile).map(|ns| (name.to_owned(), ns as f64)));
            }
        }
        figures.insert("held_back_requests".to_owned(), self.held_back as f64);
        let operations = self.classes.into_iter().map(|class| {
            let result = OperationResult {
                operations: class.requests,
                bytes: class.bytes,
                // The wait of a sender that follows the trace's times, if it was replayed at times.
                latency: class.from_intended.unwrap_or(class.from_submission),
                ..OperationResult::default()
            };
            (OperationClass(class.class), result)
        });
        LoadResult {
            engine: format!("nestor {} ({})", env!("CARGO_PKG_VERSION"), self.engine),
            workload: workload.to_string(),
            elapsed_ns: self.elapsed_ns,
            operations: operations.collect(),
            working_set_bytes: self.target_bytes,
            scale_factor: 1.0,
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            engine_output: text.to_owned(),
            figures,
            remarks: self.remarks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_first_and_then_written_over() {
        let workload = Workload::parse("replay:trace:file=a.trace:speed=2:from=d:fit=wrap").unwrap();
        let place =
            Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor".to_owned() };
        let prepare = &workload.prepare(&place, 1)[0];
        insta::assert_snapshot!(prepare.argv.join(" "), @"{nestor} load replay /run/nestor/nestor-replay.trace --target /mnt/top --speed=2 --stage=d --wrap --prepare");
        assert_eq!(
            prepare.copied_files,
            [("/run/nestor/nestor-replay.trace".to_owned(), "a.trace".to_owned())]
        );
        let step = workload.measure(&place, 3);
        insta::assert_snapshot!(step.argv[4..].join(" "), @"--target /mnt/top/nestor-replay.data --speed=2 --stage=d --wrap --overwrite=/mnt/top/nestor-replay.data --json --seed=3");
    }

    #[test]
    fn a_speed_of_none_is_refused() {
        let error = Workload::parse("replay:trace:file=a:pace=max:speed=2").unwrap_err().to_string();
        assert!(error.contains("give either speed or pace=max"), "{error}");
    }

    #[test]
    fn only_a_depth_states_a_demand() {
        let of = |text: &str| Workload::parse(text).unwrap().demand();
        let deep = Demand { outstanding: Some(12), workers: Some(12), ..Demand::default() };
        assert_eq!(of("replay:trace:file=/t:depth=12:pace=max"), deep);
        assert_eq!(of("replay:trace:file=/t"), Demand::default());
    }
}
