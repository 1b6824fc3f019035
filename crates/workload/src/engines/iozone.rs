//! IOzone's six tests of one file, as fio jobs.
//!
//! The image propagation study (Jones et al., CLOSER '11, §4.2; acceptance rows D-E3, D-E4, D-7) ran IOzone 347 with records of
//! 16 MiB on a file of twice the memory: 4 GiB in the guest. IOzone is not in Debian, and its tests are plain: one thread
//! goes through one file, record by record, with `read` and `write`, through the page cache.
//!
//! | IOzone's test | here |
//! |---|---|
//! | `write` | writes a file that does not exist, in order; blocks are allocated as they come (`fallocate=none`) |
//! | `rewrite` | writes a file laid out before, in order |
//! | `read` | reads a file laid out before, in order |
//! | `reread` | the same read twice in one run of fio, by two jobs one after the other; the second one is the test |
//! | `rand-read` | reads every record once, in random order |
//! | `rand-write` | writes every record once, in random order |
//!
//! * **`fsync=on`** (the default) is IOzone's `-e`: the time of writing holds an fsync at the end (fio's `end_fsync`). Without
//!   it a test of writing measures the memory.
//! * **Caches**: fio drops the file's pages before each test (`invalidate=1`), as IOzone's `-U` does by unmounting; only
//!   before the second job of `reread` they are kept, for that is what the test is about.
//! * **The size** is twice the memory in the paper. What machine it will be is not known here, so the default is twice the
//!   memory of a 256 MiB guest; `size=` says otherwise, and the published sizes are `size=4G` and, on the host, `size=8G`.
//! * No time limit: a test ends at the end of the file.
//! * **Processor time**: IOzone's `-+u` prints it in per cent of the test's time. Here it is fio's own, of the one job of a test; with `fsync=on`
//!   it holds what the last fsync took, and is of the same time.

use nestor_text::units;

use super::ended::{exit_code, failed};
use super::fio::job::{
    Arguments, SLOWEST_LAYOUT_BYTES_PER_S, SLOWEST_RUN_BYTES_PER_S, SPARE_S, escaped, layout_block,
};
use super::fio::report::{Expected, Report, SyncTimes};
use super::options::{bytes, switch};
use super::random::seed_of;
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, Target};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult, OperationClass};
use crate::value::{Kind, Value};

/// The engine.
pub struct Iozone;

const CASES: &[Case] = &[
    Case { name: "write", summary: "writes a new file in order" },
    Case { name: "rewrite", summary: "writes a file that exists in order" },
    Case { name: "read", summary: "reads a file in order" },
    Case { name: "reread", summary: "reads a file in order twice; the second reading counts" },
    Case { name: "rand-read", summary: "reads the records of a file at random, each once" },
    Case { name: "rand-write", summary: "writes the records of a file at random, each once" },
];

const WITH_WRITES: &[&str] = &["write", "rewrite", "rand-write"];
const RANDOM: &[&str] = &["rand-read", "rand-write"];

/// Which way its operations move data.
const DIRECTIONS: &[(&str, Direction)] =
    &[(NEW_FILE, Direction::Write), (FIRST, Direction::Read), (AGAIN, Direction::Read)];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "size",
        kind: Kind::Bytes,
        cases: &[],
        summary: "the file; should be twice the machine's memory",
    },
    OptionSpec { name: "bs", kind: Kind::Bytes, cases: &[], summary: "bytes per record" },
    OptionSpec {
        name: "fsync",
        kind: Kind::Switch,
        cases: WITH_WRITES,
        summary: "the time includes an fsync at the end (IOzone's -e)",
    },
    OptionSpec {
        name: "seed",
        kind: Kind::Count { min: 1, max: u32::MAX as u64 },
        cases: RANDOM,
        summary: "fixed order of the records; by default, a different one for each replication",
    },
];

/// "Record size: 16MB" (paper D, figure 5).
const RECORD_BYTES: u64 = 16 << 20;
/// Twice the memory of a 256 MiB guest.
const FILE_BYTES: u64 = 512 << 20;
/// Twice the memory of paper D's guest: row D-7.
const PUBLISHED_FILE_BYTES: u64 = 4 << 30;
/// The largest buffer of one thread in a small machine.
const LARGEST_RECORD_BYTES: u64 = 64 << 20;

/// The case that makes its own file.
const NEW_FILE: &str = "write";

/// How the jobs are called, and the classes of `reread`.
const FIRST: &str = "read";
const AGAIN: &str = "reread";

impl Engine for Iozone {
    fn about(&self) -> &'static About {
        &About {
            name: "iozone",
            program: "fio",
            package: Some("fio"),
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    fn default_value(&self, workload: &Workload, option: &str) -> Option<Value> {
        Some(match option {
            "size" => Value::Bytes(FILE_BYTES),
            "bs" => Value::Bytes(RECORD_BYTES),
            "fsync" if WITH_WRITES.contains(&workload.case()) => Value::Switch(true),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        let record = bytes(workload, "bs");
        if record > LARGEST_RECORD_BYTES {
            return Err(Misfit {
                option: "bs",
                why: "the record is a buffer in the machine's memory".to_owned(),
                remedy: format!("write at most {}", units::size(LARGEST_RECORD_BYTES)),
            });
        }
        if bytes(workload, "size") < record {
            return Err(Misfit {
                option: if workload.given("size").is_some() { "size" } else { "bs" },
                why: "no record fits".to_owned(),
                remedy: format!("write a size of at least {}", units::size(record)),
            });
        }
        Ok(())
    }

    fn data_set(&self, workload: &Workload) -> DataSet {
        let bytes = file_bytes(workload);
        let scale_factor = bytes as f64 / PUBLISHED_FILE_BYTES as f64;
        DataSet { bytes, files: 1, file_bytes: bytes, scale_factor }
    }

    fn describe(&self, workload: &Workload) -> String {
        let end = if switch(workload, "fsync") { ", fsync at the end" } else { "" };
        let (file, record) = (file_bytes(workload), bytes(workload, "bs"));
        format!("{} in records of {}, buffered{end}", units::size(file), units::size(record))
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        let mut remarks = vec![
            "IOzone's test done by fio; a file of less than twice the memory measures memory".to_owned(),
        ];
        if WITH_WRITES.contains(&workload.case()) && !switch(workload, "fsync") {
            remarks
                .push("fsync=off: what is still in the page cache at the end counts as written".to_owned());
        }
        if workload.case() == AGAIN {
            remarks.push(
                "the run has both readings; the test's result is that of the class reread, in its own time"
                    .to_owned(),
            );
        }
        remarks
    }

    fn prepare(&self, workload: &Workload, place: &Place, _seed: u64) -> Vec<Step> {
        if workload.case() == NEW_FILE {
            return remove_file(place);
        }
        let mut arguments = Arguments::of_all_jobs();
        arguments
            .set("filename", escaped(&file_name(place)))
            .set("size", file_bytes(workload))
            .set("fallocate", "none");
        let block = layout_block(workload, file_bytes(workload));
        arguments.set("rw", "write").set("bs", block).set("ioengine", "psync");
        arguments.set("refill_buffers", 1).set("end_fsync", 1).job("layout");
        vec![Step {
            title: format!("laying out {}", units::size(file_bytes(workload))),
            argv: arguments.0,
            input_files: Vec::new(),
            copied_files: Vec::new(),
            output_files: Vec::new(),
            timeout_s: SPARE_S + file_bytes(workload) / SLOWEST_LAYOUT_BYTES_PER_S,
        }]
    }

    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step {
        let mut arguments = Arguments::of_all_jobs();
        arguments
            .set("filename", escaped(&file_name(place)))
            .set("size", file_bytes(workload))
            .set("fallocate", "none");
        arguments
            .set("bs", bytes(workload, "bs"))
            .set("ioengine", "psync")
            .set("direct", 0)
            .set("invalidate", 1);
        let direction = match workload.case() {
            "write" | "rewrite" => "write",
            "rand-read" => "randread",
            "rand-write" => "randwrite",
            _ => "read",
        };
        arguments.set("rw", direction);
        if RANDOM.contains(&workload.case()) {
            arguments.set("randrepeat", 0).set("randseed", seed_of(workload, seed));
        }
        if workload.case() != NEW_FILE {
            arguments.set("overwrite", 1).set("allow_file_create", 0);
        }
        if switch(workload, "fsync") {
            arguments.set("end_fsync", 1);
        }
        let log = arguments.measured(place);
        let mut passes = 1;
        if workload.case() == AGAIN {
            arguments.job(FIRST).job(AGAIN).set("stonewall", 1).set("invalidate", 0);
            passes = 2;
        } else {
            arguments.job(workload.case());
        }
        Step {
            title: format!("{workload} on {}", place.target.path()),
            argv: arguments.0,
            input_files: Vec::new(),
            copied_files: Vec::new(),
            output_files: vec![log],
            timeout_s: SPARE_S + passes * file_bytes(workload) / SLOWEST_RUN_BYTES_PER_S,
        }
    }

    fn check_preparation(&self, workload: &Workload, output: &StepOutput) -> Result<(), LoadError> {
        if workload.case() == NEW_FILE {
            return match exit_code("rm", &output.ended)? {
                0 => Ok(()),
                _ => Err(failed("rm", output.stderr.trim().to_owned())),
            };
        }
        Report::read(output).map(|_| ())
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        let expected = Expected {
            jobs: 1,
            block_bytes: Some(bytes(workload, "bs")),
            bytes: file_bytes(workload),
            time_limit_s: None,
            data_set: self.data_set(workload),
            syncs: SyncTimes::Right,
        };
        let report = Report::read(output)?;
        if workload.case() != AGAIN {
            return Ok(with_processor_time(report.into_result(workload, &expected, output)?));
        }
        let passes = report.of_each_job();
        if passes.len() != 2 {
            let detail = format!("{} jobs in the report, but the test reads the file twice", passes.len());
            return Err(LoadError::Inconsistent { program: "fio", detail });
        }
        // The log of bandwidth has both passes, each from its own zero: it is left out.
        let without_log = StepOutput { files: Vec::new(), ..output.clone() };
        let mut passes = passes.into_iter().map(|pass| pass.into_result(workload, &expected, &without_log));
        match (passes.next(), passes.next()) {
            (Some(first), Some(again)) => Ok(both_passes(first?, again?)),
            _ => unreachable!("there are two"),
        }
    }
}

/// Gives the one class of a test that moves data the processor time of the run, all of which is its own.
fn with_processor_time(mut test: LoadResult) -> LoadResult {
    let cpu_s = test.cpu_user_s + test.cpu_system_s;
    let percent = 100.0 * cpu_s / (test.elapsed_ns.max(1) as f64 / 1e9);
    for (_, done) in test.operations.iter_mut().filter(|(class, _)| class.direction().is_some()) {
        done.cpu_percent = Some(percent);
    }
    test
}

/// One result of both readings: a class for each, with a time of its own.
fn both_passes(first: LoadResult, again: LoadResult) -> LoadResult {
    let [first, again] = [first, again].map(with_processor_time);
    let named = |pass: &LoadResult, name: &str| {
        let elapsed_ns = Some(pass.elapsed_ns);
        let mut renamed: Vec<_> = pass.operations.values().cloned().collect();
        renamed.iter_mut().for_each(|class| class.elapsed_ns = elapsed_ns);
        renamed.into_iter().map(|class| (OperationClass(name.to_owned()), class)).collect::<Vec<_>>()
    };
    LoadResult {
        operations: named(&first, FIRST).into_iter().chain(named(&again, AGAIN)).collect(),
        elapsed_ns: first.elapsed_ns + again.elapsed_ns,
        cpu_user_s: first.cpu_user_s + again.cpu_user_s,
        cpu_system_s: first.cpu_system_s + again.cpu_system_s,
        ..again
    }
}

/// Whole records.
fn file_bytes(workload: &Workload) -> u64 {
    let record = bytes(workload, "bs");
    bytes(workload, "size") / record * record
}

/// The file that an earlier run left would make `write` a `rewrite`.
fn remove_file(place: &Place) -> Vec<Step> {
    let Target::Directory(_) = &place.target else {
        return Vec::new();
    };
    vec![Step {
        title: "removing the file of an earlier run".to_owned(),
        argv: ["rm", "--force", "--", &file_name(place)].map(str::to_owned).to_vec(),
        input_files: Vec::new(),
        copied_files: Vec::new(),
        output_files: Vec::new(),
        timeout_s: SPARE_S,
    }]
}

fn file_name(place: &Place) -> String {
    match &place.target {
        Target::Directory(directory) => format!("{}/nestor-iozone.tmp", directory.trim_end_matches('/')),
        Target::Device(device) => device.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::OperationResult;

    fn arguments(text: &str) -> String {
        let place =
            Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor".to_owned() };
        Workload::parse(text).unwrap().measure(&place, 1).argv.join("\n")
    }

    #[test]
    fn a_new_file_is_written_and_synced() {
        let place =
            Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor".to_owned() };
        let remove = &Workload::parse("iozone:write").unwrap().prepare(&place, 1)[0];
        assert_eq!(remove.argv.join(" "), "rm --force -- /mnt/top/nestor-iozone.tmp");
        insta::assert_snapshot!(arguments("iozone:write:size=4G"), @r"
        fio
        --thread=1
        --eta=never
        --output-format=json+
        --filename=/mnt/top/nestor-iozone.tmp
        --size=4294967296
        --fallocate=none
        --bs=16777216
        --ioengine=psync
        --direct=0
        --invalidate=1
        --rw=write
        --end_fsync=1
        --lat_percentiles=1
        --clat_percentiles=0
        --write_bw_log=/run/nestor/nestor-fio
        --log_avg_msec=1000
        --bwavgtime=1000
        --per_job_logs=0
        --name=write
        ");
    }

    #[test]
    fn the_second_reading_follows_the_first_and_keeps_the_cache() {
        let text = arguments("iozone:reread");
        assert!(text.contains("--invalidate=1\n--rw=read\n--overwrite=1\n--allow_file_create=0\n"), "{text}");
        assert!(text.ends_with("--name=read\n--name=reread\n--stonewall=1\n--invalidate=0"), "{text}");
    }

    #[test]
    fn a_test_has_its_processor_time() {
        let done = |name: &str| (OperationClass(name.to_owned()), OperationResult::default());
        let test = |name, elapsed_ns, cpu_user_s| LoadResult {
            elapsed_ns,
            cpu_user_s,
            cpu_system_s: 0.5,
            operations: [done(name), done("fsync")].into(),
            ..LoadResult::default()
        };
        let percent =
            |result: &LoadResult, name: &str| result.operations[&OperationClass(name.to_owned())].cpu_percent;
        let written = with_processor_time(test("write", 4_000_000_000, 0.5));
        assert_eq!((percent(&written, "write"), percent(&written, "fsync")), (Some(25.0), None));
        let twice = both_passes(test("read", 4_000_000_000, 0.5), test("read", 1_000_000_000, 0.0));
        assert_eq!((percent(&twice, FIRST), percent(&twice, AGAIN)), (Some(25.0), Some(50.0)));
        assert_eq!((twice.elapsed_ns, twice.cpu_user_s + twice.cpu_system_s), (5_000_000_000, 1.5));
    }

    #[test]
    fn records_are_whole_and_fit() {
        let workload = Workload::parse("iozone:rand-read:size=40M").unwrap();
        assert_eq!(workload.describe(), "32 MiB in records of 16 MiB, buffered");
        let error = Workload::parse("iozone:read:size=8M").unwrap_err();
        assert_eq!(error.remedy, "write a size of at least 16 MiB");
        assert_eq!(Workload::parse("iozone:read:size=4G").unwrap().data_set().scale_factor, 1.0);
    }
}
