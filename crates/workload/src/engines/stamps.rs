//! Marked data: a workload whose every write tells who wrote it, so that the joins of the requests can be checked.
//!
//! Every sector that is written carries the number of its operation; the modelled disk at the bottom notes the numbers
//! that arrive. Whatever the layers between merged, split or delayed, the two together say which request of the guest each
//! request of the disk came from, and the study counts how often the join of the traces says the same. The operations go
//! past the page cache to a block device: with a file system at the top the place of an operation on the device would
//! itself be something to infer.

use std::collections::BTreeMap;

use nestor_text::complaint::why_it_ended;
use serde::Deserialize;

use super::ended::{exit_code, refused};
use super::options::{bytes, count};
use crate::demand::Demand;
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, WorksOn};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult, MOST_SECONDS, OperationClass, OperationResult};
use crate::value::{Kind, Value};

/// The engine.
pub struct Stamps;

/// How it is called in messages: it is this program itself.
const PROGRAM: &str = "nestor";

const CASES: &[Case] =
    &[Case { name: "mixed", summary: "writes marked blocks and reads them, in order and at random" }];

/// Which way its operations move data.
const DIRECTIONS: &[(&str, Direction)] = Direction::OF_READ_AND_WRITE;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec { name: "bs", kind: Kind::Bytes, cases: &[], summary: "bytes per operation" },
    OptionSpec {
        name: "depth",
        kind: Kind::Count { min: 1, max: 256 },
        cases: &[],
        summary: "operations in flight",
    },
    OptionSpec {
        name: "size",
        kind: Kind::Bytes,
        cases: &[],
        summary: "size of the part of the device that is used",
    },
    OptionSpec {
        name: "operations",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        cases: &[],
        summary: "number of operations",
    },
    OptionSpec {
        name: "read",
        kind: Kind::Count { min: 0, max: 100 },
        cases: &[],
        summary: "percentage of reads among the operations",
    },
    OptionSpec {
        name: "sequential",
        kind: Kind::Count { min: 0, max: 100 },
        cases: &[],
        summary: "percentage of operations that follow the previous one",
    },
];

/// Bounds of an operation: what every device takes for direct I/O, and what a thread's buffer may take in a small machine.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 4096..=4 << 20;
/// The slowest operation that is not taken for a hang, on a nested emulated machine.
const SLOWEST_OPERATION_MS: u64 = 250;
/// The slowest filling that is not taken for a hang.
const SLOWEST_FILL_BYTES_PER_S: u64 = 1 << 20;
const SPARE_S: u64 = 120;

impl Engine for Stamps {
    fn about(&self) -> &'static About {
        &About {
            name: "stamps",
            program: PROGRAM,
            package: None,
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    fn default_value(&self, _workload: &Workload, option: &str) -> Option<Value> {
        Some(match option {
            "bs" => Value::Bytes(4 << 10),
            "depth" => Value::Count(16),
            "size" => Value::Bytes(64 << 20),
            "operations" => Value::Count(2000),
            "read" | "sequential" => Value::Count(30),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        let (block, size) = (bytes(workload, "bs"), bytes(workload, "size"));
        if !BLOCK_BYTES.contains(&block) || block % BLOCK_BYTES.start() != 0 {
            return Err(Misfit {
                option: "bs",
                why: "operations go past the page cache, each with a buffer of its own".to_owned(),
                remedy: "write a multiple of 4k, at most 4M".to_owned(),
            });
        }
        if size < block {
            return Err(Misfit {
                option: "size",
                why: "no operation fits".to_owned(),
                remedy: "write a size of at least bs".to_owned(),
            });
        }
        Ok(())
    }

    fn demand(&self, workload: &Workload) -> Demand {
        let depth = Some(count(workload, "depth"));
        Demand { outstanding: depth, workers: depth, ..Demand::default() }
    }

    fn data_set(&self, workload: &Workload) -> DataSet {
        let bytes = bytes(workload, "size");
        DataSet { bytes, files: 1, file_bytes: bytes, scale_factor: 1.0 }
    }

    fn works_on(&self) -> WorksOn {
        WorksOn::Devices
    }

    fn describe(&self, workload: &Workload) -> String {
        format!(
            "{} operations of {} KiB, {} % reads, {} % in order, depth {}, on {} MiB",
            count(workload, "operations"),
            bytes(workload, "bs") as f64 / 1024.0,
            count(workload, "read"),
            count(workload, "sequential"),
            count(workload, "depth"),
            bytes(workload, "size") >> 20,
        )
    }

    fn remarks(&self, _workload: &Workload) -> Vec<String> {
        vec!["marked data are for checking joins: the disk inspects all of it".to_owned()]
    }

    fn prepare(&self, workload: &Workload, place: &Place, _seed: u64) -> Vec<Step> {
        let size = bytes(workload, "size");
        let mut argv = command(place);
        argv.extend(["--fill".to_owned(), format!("--span={size}")]);
        vec![Step {
            title: format!("filling {} MiB", size >> 20),
            argv,
            input_files: Vec::new(),
            copied_files: Vec::new(),
            output_files: Vec::new(),
            timeout_s: SPARE_S + size / SLOWEST_FILL_BYTES_PER_S,
        }]
    }

    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step {
        let operations = count(workload, "operations");
        let mut argv = command(place);
        let file = operations_file(place);
        argv.extend([format!("--operations={file}"), format!("--seed={seed}")]);
        argv.extend([format!("--span={}", bytes(workload, "size")), format!("--requests={operations}")]);
        argv.extend([
            format!("--bytes={}", bytes(workload, "bs")),
            format!("--depth={}", count(workload, "depth")),
        ]);
        let share = |option: &str| count(workload, option) as f64 / 100.0;
        argv.extend([format!("--reads={}", share("read")), format!("--sequential={}", share("sequential"))]);
        Step {
            title: format!("{workload} on {}", place.target.path()),
            argv,
            input_files: Vec::new(),
            copied_files: Vec::new(),
            output_files: vec![file],
            timeout_s: SPARE_S + operations * SLOWEST_OPERATION_MS / 1000,
        }
    }

    fn marked_operations(&self, place: &Place) -> Option<String> {
        Some(operations_file(place))
    }

    fn check_preparation(&self, _workload: &Workload, output: &StepOutput) -> Result<(), LoadError> {
        ended_well(output)
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        ended_well(output)?;
        let unreadable = |detail: String| {
            let versions = env!("CARGO_PKG_VERSION");
            LoadError::Unreadable { program: PROGRAM, versions, detail }
        };
        let no_output = || LoadError::NoOutput { program: PROGRAM, detail: output.stderr.trim().to_owned() };
        let text = output.files.first().map(|(_, text)| text.as_str()).ok_or_else(no_output)?;
        let operations: Vec<MarkedOperation> = serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|e| unreadable(e.to_string()))?;
        let start_ns = operations.iter().map(|o| o.started_ns).min().ok_or_else(no_output)?;
        let end_ns = operations.iter().map(|o| o.ended_ns).max().unwrap_or(start_ns);
        let elapsed_ns = end_ns.saturating_sub(start_ns);
        let seconds = usize::try_from(elapsed_ns / 1_000_000_000).unwrap_or(usize::MAX);
        let unlikely = operations
            .iter()
            .find(|o| o.ended_ns < o.started_ns || !OPERATIONS.contains(&o.operation.as_str()));
        if unlikely.is_some() || seconds > MOST_SECONDS {
            let detail =
                "an operation ends before it begins, takes over a month, or is not a read, write or flush";
            return Err(unreadable(detail.to_owned()));
        }
        Ok(LoadResult {
            engine: format!("nestor {}", env!("CARGO_PKG_VERSION")),
            workload: workload.to_string(),
            elapsed_ns,
            operations: by_class(&operations, start_ns, seconds),
            working_set_bytes: self.data_set(workload).bytes,
            scale_factor: 1.0,
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            engine_output: String::new(),
            figures: BTreeMap::new(),
            remarks: Vec::new(),
        })
    }
}

/// Kinds of operations, as [`MarkedOperation`] has them.
const OPERATIONS: [&str; 4] = ["read", "write", "flush", "discard"];

/// A line of what the writer leaves.
#[derive(Debug, Deserialize)]
struct MarkedOperation {
    operation: String,
    bytes: u64,
    started_ns: u64,
    ended_ns: u64,
}

/// `{nestor}` is this program wherever the step runs.
fn command(place: &Place) -> Vec<String> {
    let mut argv = ["{nestor}", "trace", "stamp-write", "--device"].map(str::to_owned).to_vec();
    argv.push(place.target.path().to_owned());
    argv
}

fn operations_file(place: &Place) -> String {
    format!("{}/marked-operations.jsonl", place.scratch.trim_end_matches('/'))
}

fn ended_well(output: &StepOutput) -> Result<(), LoadError> {
    match exit_code(PROGRAM, &output.ended)? {
        0 => Ok(()),
        code => Err(refused(PROGRAM, code, &why_it_ended(&output.stderr))),
    }
}

/// What the operations of each class did in the whole seconds from `start_ns` on.
fn by_class(
    operations: &[MarkedOperation],
    start_ns: u64,
    seconds: usize,
) -> BTreeMap<OperationClass, OperationResult> {
    let mut classes: BTreeMap<OperationClass, OperationResult> = BTreeMap::new();
    for operation in operations {
        let class = classes.entry(OperationClass(operation.operation.clone())).or_default();
        class.operations += 1;
        class.bytes = class.bytes.saturating_add(operation.bytes);
        class.latency.record_ns(operation.ended_ns.saturating_sub(operation.started_ns));
        // The last second is a part of one.
        class.bytes_by_second.resize(seconds, 0);
        let second = ((operation.ended_ns - start_ns) / 1_000_000_000) as usize;
        if let Some(bytes) = class.bytes_by_second.get_mut(second) {
            *bytes = bytes.saturating_add(operation.bytes);
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Ended, Target};

    fn output(ended: Ended, file: &str, stderr: &str) -> StepOutput {
        StepOutput {
            ended,
            stdout: String::new(),
            stderr: stderr.to_owned(),
            files: vec![("/scratch/marked-operations.jsonl".to_owned(), file.to_owned())],
        }
    }

    #[test]
    fn the_commands_say_all_that_was_asked_for() {
        let workload = Workload::parse("stamps:mixed:bs=64k:depth=8:size=1G:operations=10:read=0").unwrap();
        let place = Place { target: Target::Device("/dev/vdb".to_owned()), scratch: "/scratch".to_owned() };
        let fill = &workload.prepare(&place, 1)[0];
        assert_eq!(
            fill.argv.join(" "),
            "{nestor} trace stamp-write --device /dev/vdb --fill --span=1073741824"
        );
        let step = workload.measure(&place, 7);
        insta::assert_snapshot!(step.argv.join("\n"), @r"
        {nestor}
        trace
        stamp-write
        --device
        /dev/vdb
        --operations=/scratch/marked-operations.jsonl
        --seed=7
        --span=1073741824
        --requests=10
        --bytes=65536
        --depth=8
        --reads=0
        --sequential=0.3
        ");
        assert_eq!(workload.marked_operations(&place).as_ref(), step.output_files.first());
    }

    #[test]
    fn operations_that_cannot_have_been_are_refused_and_take_no_memory() {
        let workload = Workload::parse("stamps:mixed").unwrap();
        for (operation, bytes, from, to) in [
            ("write", 1, 0, u64::MAX),
            ("write", 1, 0, 40 * 24 * 3600 * 1_000_000_000_u64),
            ("write", 1, 5, 4),
            ("steal", 1, 1, 2),
        ] {
            let line = format!(
                r#"{{"operation":"{operation}","bytes":{bytes},"started_ns":{from},"ended_ns":{to}}}"#
            );
            let error = workload.parse_output(&output(Ended::Code(0), &line, "")).unwrap_err();
            assert!(error.to_string().contains("an operation ends before it begins"), "{error}");
        }
        let most =
            format!(r#"{{"operation":"write","bytes":{},"started_ns":0,"ended_ns":3000000000}}"#, u64::MAX);
        let result =
            workload.parse_output(&output(Ended::Code(0), &[&*most, &*most].join("\n"), "")).unwrap();
        assert_eq!(result.bytes(), u64::MAX);
    }

    #[test]
    fn operations_are_counted_by_what_they_did() {
        let workload = Workload::parse("stamps:mixed").unwrap();
        let line = |operation: &str, from: u64, to: u64| {
            format!(
                r#"{{"stamp":1,"operation":"{operation}","offset":0,"bytes":4096,"started_ns":{from},"ended_ns":{to}}}"#
            )
        };
        let second = 1_000_000_000;
        let lines =
            [line("write", 5, second), line("read", 9, second + 10), line("write", second, 2 * second + 5)];
        let result = workload.parse_output(&output(Ended::Code(0), &lines.join("\n"), "")).unwrap();
        assert_eq!(result.elapsed_ns, 2 * second);
        let class = |class: &str| &result.operations[&OperationClass(class.to_owned())];
        assert_eq!((class("write").operations, class("write").bytes, class("read").operations), (2, 8192, 1));
        assert_eq!(class("write").bytes_by_second, [4096, 0]);
        assert_eq!(class("read").latency.count(), 1);
    }

    #[test]
    fn what_went_wrong_is_said() {
        let workload = Workload::parse("stamps:mixed").unwrap();
        let said = |output: &StepOutput| workload.parse_output(output).unwrap_err().to_string();
        let refused = said(&output(Ended::Code(1), "", "error: /mnt is a directory"));
        assert_eq!(refused, "nestor refused the workload (exit code 1): /mnt is a directory");
        assert!(said(&output(Ended::TimedOut, "", "")).contains("did not finish in time"));
        assert!(said(&output(Ended::Code(0), "", "")).contains("without printing a result"));
        assert!(said(&output(Ended::Code(0), "{garbage", "")).contains("cannot be read"));
        let error = Workload::parse("stamps:mixed:bs=512").unwrap_err().to_string();
        assert!(error.contains("write a multiple of 4k"), "{error}");
    }

    #[test]
    fn the_demand_is_the_depth() {
        let demand = Workload::parse("stamps:mixed:depth=3").unwrap().demand();
        assert_eq!(demand, Demand { outstanding: Some(3), workers: Some(3), ..Demand::default() });
    }
}
