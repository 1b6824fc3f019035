//! fio, the flexible I/O tester (Debian package `fio`; written against version 3.33).
//!
//! # The four cases
//! `seq-read`, `seq-write`, `rand-read`, `rand-write` are the four of the nested-file-system study (Le, Huang, Wang, FAST '12,
//! §4.1 and table 4): 5 GB in total, parallelism 255, 8 KB blocks, native asynchronous I/O. What the table leaves open is set
//! here and can be changed: 5 GB are 5 GiB, in files of 8 MiB ("many small files"); the default `scale` of 0.1 fits an
//! emulated disk, and every result carries the factor.
//!
//! **Why `direct=on` by default.** Linux's native AIO (libaio) is asynchronous only for files opened with `O_DIRECT`; on
//! buffered files `io_submit` does the I/O before it returns, so a depth of 255 would in truth be 1. It also keeps the
//! guest's page cache out of the measurement.
//!
//! # When a run ends
//! At the end of the data set or at `runtime`, whichever comes first. There is no second pass: a block is read or written
//! at most once, in sequential cases by going through the files one after the other, in random ones by fio's random map.
//! So nothing is ever read again from a cache the run itself has filled. `runtime=off` always runs to the end.
//!
//! # The data set
//! Files are laid out before the measured run, also for writes (which then overwrite): fio fills them one after the other
//! with random bytes, `fallocate=none`, and calls fsync on each. So every block exists on the medium when it is read, none is
//! all zeroes that a layer could leave out, and none is equal to another. Which file is laid out first is the seed's: the others
//! follow in their order, those before it last, so what is next to a file on the disk is what was.
//! That needs all names in one option, which fio takes of one job with up to 256 files.
//! `overwrite=off` makes write cases create their
//! files while measured, so that allocation is measured too.
//!
//! # What is recorded
//! Latency is fio's `lat`: from the moment the request is made to its completion, waiting for submission included; as a
//! histogram (JSON+ bins, whose middle is at most 0.8 % from the truth), never as percentiles. fsyncs are a class
//! of their own. Throughput by second comes from fio's bandwidth log, written to memory and saved when the run is over.
//! Where every request is traced, each operation is recorded instead (`write_lat_log`, `write_iolog`), which costs about
//! 0.6 us of processor time an operation (engine `null`, 524,288 operations on hardware: 0.25 s without, 0.55 s with).
//! Buffered writes end with an fsync of every file, which counts into the measured time.

mod bandwidth_log;
pub(super) mod data_set;
pub(super) mod job;
pub(super) mod report;

use nestor_text::units;

use super::options::{bytes, choice, count, switch, time_limit_s};
use crate::demand::Demand;
use crate::engine::{
    About, Case, DataSet, Engine, Misfit, OptionSpec, Place, RecordedStep, Step, StepOutput, Untimed,
};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult};
use crate::value::{Kind, Value};

/// The engine.
pub struct Fio;

const CASES: &[Case] = &[
    Case { name: "seq-read", summary: "reads all files, one after the other, from beginning to end" },
    Case { name: "seq-write", summary: "writes all files, one after the other, from beginning to end" },
    Case { name: "rand-read", summary: "reads blocks at random from all files, each at most once" },
    Case { name: "rand-write", summary: "writes blocks at random in all files, each at most once" },
    Case { name: "mixed", summary: "reads and writes blocks at random in all files, each at most once" },
];

const WRITE_ONLY: &[&str] = &["seq-write", "rand-write"];
const WITH_WRITES: &[&str] = &["seq-write", "rand-write", "mixed"];

/// Engines that wait for each operation, so that their depth is always 1.
const SYNCHRONOUS: &[&str] = &["psync", "sync"];

/// Which way its operations move data.
const DIRECTIONS: &[(&str, Direction)] = Direction::OF_READ_AND_WRITE;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "read",
        kind: Kind::Count { min: 1, max: 99 },
        cases: &["mixed"],
        summary: "percentage of reads among the operations",
    },
    OptionSpec { name: "bs", kind: Kind::Bytes, cases: &[], summary: "bytes per operation" },
    OptionSpec {
        name: "depth",
        kind: Kind::Count { min: 1, max: 65_536 },
        cases: &[],
        summary: "operations in flight, per job (1 for psync and sync)",
    },
    OptionSpec {
        name: "scale",
        kind: Kind::Factor,
        cases: &[],
        summary: "data set relative to the published 5 GiB",
    },
    OptionSpec {
        name: "size",
        kind: Kind::Bytes,
        cases: &[],
        summary: "data set in bytes, instead of scale",
    },
    OptionSpec {
        name: "files",
        kind: Kind::Count { min: 1, max: data_set::MOST_FILES },
        cases: &[],
        summary: "number of files",
    },
    OptionSpec {
        name: "filesize",
        kind: Kind::Bytes,
        cases: &[],
        summary: "bytes per file, instead of files; adjusted to fit the size of the data set",
    },
    OptionSpec {
        name: "runtime",
        kind: Kind::TimeLimit,
        cases: &[],
        summary: "time limit; the run also ends at the end of the data set",
    },
    OptionSpec {
        name: "direct",
        kind: Kind::Switch,
        cases: &[],
        summary: "bypass the page cache (O_DIRECT)",
    },
    OptionSpec {
        name: "engine",
        kind: Kind::Choice(&["libaio", "io_uring", "posixaio", "psync", "sync"]),
        cases: &[],
        summary: "how operations are submitted to the kernel",
    },
    OptionSpec {
        name: "numjobs",
        kind: Kind::Count { min: 1, max: 256 },
        cases: &[],
        summary: "threads that share the data set, each with its own files",
    },
    OptionSpec {
        name: "service",
        kind: Kind::Choice(&["sequential", "roundrobin", "random"]),
        cases: &[],
        summary: "order of files: one after the other, in turn, or random",
    },
    OptionSpec {
        name: "overwrite",
        kind: Kind::Switch,
        cases: WRITE_ONLY,
        summary: "write to files laid out before, not to new ones",
    },
    OptionSpec {
        name: "fsync",
        kind: Kind::Count { min: 1, max: 1_000_000_000 },
        cases: WITH_WRITES,
        summary: "number of writes after which the file is fsynced",
    },
    OptionSpec {
        name: "seed",
        kind: Kind::Count { min: 1, max: u32::MAX as u64 },
        cases: &[],
        summary: "fixed sequence of random operations; by default, a different one for each replication",
    },
];

/// Block size of FAST '12, table 4.
const BLOCK_BYTES: u64 = 8 << 10;
/// Parallelism of FAST '12, table 4.
const DEPTH: u64 = 255;
/// A tenth of the published data set: twice the memory of a 256 MiB guest.
const SCALE_MILLIONTHS: u64 = 100_000;
/// Ours: "many small files" has no number in the paper.
const FILE_BYTES: u64 = 8 << 20;
/// Ours: long enough for a modelled disk to settle, short enough for a study of many cells.
const RUNTIME_S: u64 = 10;

impl Engine for Fio {
    fn about(&self) -> &'static About {
        &About {
            name: "fio",
            program: "fio",
            package: Some("fio"),
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    /// Debian's is linked with the libraries of Ceph and others.
    fn trial(&self) -> Option<&'static [&'static str]> {
        Some(&["fio", "--version"])
    }

    fn default_value(&self, workload: &Workload, option: &str) -> Option<Value> {
        Some(match option {
            "read" if workload.case() == "mixed" => Value::Count(50),
            "bs" => Value::Bytes(BLOCK_BYTES),
            "depth" => Value::Count(if is_synchronous(workload) { 1 } else { DEPTH }),
            "scale" if workload.given("size").is_none() => Value::Factor(SCALE_MILLIONTHS),
            "filesize" if workload.given("files").is_none() => Value::Bytes(FILE_BYTES),
            "runtime" => Value::TimeLimit(Some(RUNTIME_S)),
            "direct" => Value::Switch(true),
            "engine" => Value::Choice("libaio"),
            "numjobs" => Value::Count(1),
            "service" if workload.case().starts_with("seq-") => Value::Choice("sequential"),
            "service" => Value::Choice("random"),
            "overwrite" if WRITE_ONLY.contains(&workload.case()) => Value::Switch(true),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        check_depth(workload)?;
        data_set::check(workload)
    }

    fn demand(&self, workload: &Workload) -> Demand {
        let outstanding = count(workload, "depth").saturating_mul(count(workload, "numjobs"));
        let case = workload.case();
        Demand {
            outstanding: Some(outstanding),
            workers: Some(outstanding),
            past_page_cache: switch(workload, "direct"),
            random_reads: matches!(case, "rand-read" | "mixed"),
            random_writes: matches!(case, "rand-write" | "mixed"),
            in_order: case.starts_with("seq-"),
            ..Demand::default()
        }
    }

    fn data_set(&self, workload: &Workload) -> DataSet {
        data_set::DataPlan::of(workload).data_set()
    }

    fn describe(&self, workload: &Workload) -> String {
        let plan = data_set::DataPlan::of(workload);
        let mut words = vec![units::size(bytes(workload, "bs"))];
        if workload.case() == "mixed" {
            words.push(format!("{} % reads", count(workload, "read")));
        }
        words.push(format!("depth {}", count(workload, "depth")));
        if plan.jobs > 1 {
            words.push(format!("{} jobs", plan.jobs));
        }
        if !switch(workload, "direct") {
            words.push("buffered".to_owned());
        }
        words.push(plan.in_words());
        words.join(", ")
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        let mut remarks = Vec::new();
        if choice(workload, "engine") == "libaio"
            && !switch(workload, "direct")
            && count(workload, "depth") > 1
        {
            remarks.push(
                "libaio without direct=on is not asynchronous: the kernel sees one operation at a time"
                    .to_owned(),
            );
        }
        remarks
    }

    fn untimed(&self, workload: &Workload) -> Option<Untimed> {
        let syncs = report::SyncTimes::of_engine(choice(workload, "engine"));
        let has_syncs = matches!(workload.value("fsync"), Some(Value::Count(1..)));
        (has_syncs && syncs == report::SyncTimes::Wrong)
            .then_some(Untimed { class: report::FSYNC, option: "engine=psync or engine=io_uring" })
    }

    fn prepare(&self, workload: &Workload, place: &Place, seed: u64) -> Vec<Step> {
        job::prepare(workload, place, seed)
    }

    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step {
        job::measure(workload, place, seed)
    }

    fn measure_recorded(&self, workload: &Workload, place: &Place, seed: u64) -> Option<RecordedStep> {
        job::measure_recorded(workload, place, seed)
    }

    fn check_preparation(&self, _workload: &Workload, output: &StepOutput) -> Result<(), LoadError> {
        report::Report::read(output).map(|_| ())
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        let plan = data_set::DataPlan::of(workload);
        let expected = report::Expected {
            jobs: plan.jobs,
            block_bytes: Some(bytes(workload, "bs")),
            bytes: plan.bytes(),
            time_limit_s: time_limit_s(workload, "runtime"),
            data_set: plan.data_set(),
            syncs: report::SyncTimes::of_engine(choice(workload, "engine")),
        };
        report::Report::read(output)?.into_result(workload, &expected, output)
    }
}

fn is_synchronous(workload: &Workload) -> bool {
    SYNCHRONOUS.contains(&choice(workload, "engine"))
}

fn check_depth(workload: &Workload) -> Result<(), Misfit> {
    if is_synchronous(workload) && count(workload, "depth") > 1 {
        let engine = choice(workload, "engine");
        return Err(Misfit {
            option: "depth",
            why: format!("engine={engine} waits for each operation: its depth is always 1"),
            remedy: "omit depth, or use numjobs= for parallelism, or engine=io_uring".to_owned(),
        });
    }
    Ok(())
}

/// Whether the workload writes to files that do not exist before.
fn makes_new_files(workload: &Workload) -> bool {
    workload.value("overwrite") == Some(Value::Switch(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demand_is_that_of_all_jobs_in_the_order_of_the_case() {
        let of = |text: &str| Workload::parse(text).unwrap().demand();
        let usual =
            Demand { outstanding: Some(3), workers: Some(3), past_page_cache: true, ..Demand::default() };
        assert_eq!(of("fio:seq-read:depth=3"), Demand { in_order: true, ..usual });
        assert_eq!(of("fio:rand-write:depth=3"), Demand { random_writes: true, ..usual });
        let mixed = Demand {
            outstanding: Some(128),
            workers: Some(128),
            random_reads: true,
            random_writes: true,
            ..Demand::default()
        };
        assert_eq!(of("fio:mixed:depth=32:numjobs=4:direct=off"), mixed);
    }
}
