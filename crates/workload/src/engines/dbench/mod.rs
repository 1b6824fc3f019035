//! dbench, the file half of the NetBench file server benchmark (Tridgell; Debian package `dbench` 4.0).
//!
//! The ESX study (Ahmad et al., WWC '03, §4; acceptance rows) ran version 2.0 with 30, 40 and 50 clients, by
//! default parameters. Every client goes through the same list of operations as a Windows client did against a file server
//! (`client.txt` of the package, 458 344 lines) again and again until the time is over, in files of its own. dbench
//! has no random numbers: the seed of a run changes nothing.
//!
//! # Time
//! Clients first warm up for a fifth of `runtime`, which dbench 4.0 fixes itself (its source, `options.warmup`), then are
//! measured for `runtime`. Version 2.0 had no time limit and ended with its list; version 4.0's own default is ten minutes.
//!
//! # What it reports
//! Counts, mean and longest latency of every kind of operation: each a class of its own. Bytes it gives only as one rate of
//! reads and writes together, in millions of bytes per second: they are the class `read-and-write`, which has no operations
//! of its own, as many bytes as the rate says for the whole time. The rate is that of the last second in which all clients
//! ran; dbench looks at its clock once a second.

mod report;

use super::ended::{exit_code, failed, refused};
use super::options::{choice, count, switch, time_limit_s};
use crate::demand::Demand;
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, WorksOn};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult};
use crate::timed::{self, Timed};
use crate::value::{Kind, Value};

/// The engine.
pub struct Dbench;

const PROGRAM: &str = "dbench";

const CASES: &[Case] = &[Case {
    name: "fileserver",
    summary: "clients of a file server: names, attributes, reads, writes, flushes",
}];

/// The data of its requests (`ReadX`, `WriteX`) is known only in one sum, so none has a direction.
const DIRECTIONS: &[(&str, Direction)] = &[];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "clients",
        kind: Kind::Count { min: 1, max: 10_000 },
        cases: &[],
        summary: "number of clients, each a process with its own files",
    },
    OptionSpec {
        name: "runtime",
        kind: Kind::TimeLimit,
        cases: &[],
        summary: "duration of the measurement, after a warm-up of a fifth of it",
    },
    OptionSpec {
        name: "sync",
        kind: Kind::Choice(&["off", "fsync", "directories", "all", "open"]),
        cases: &[],
        summary: "fsync after writes, sync of changed directories, both, or O_SYNC",
    },
    OptionSpec {
        name: "xattr",
        kind: Kind::Switch,
        cases: &[],
        summary: "extended attributes for each file, as Samba 4 stores them",
    },
];

/// The fewest of paper A's (table 2: 30, 40, 50).
const CLIENTS: u64 = 30;
/// Ours: long enough for the kernel's write-back (30 s after a page was written, by default) to be in the measurement.
const RUNTIME_S: u64 = 60;

/// Files of one client at most at once, counted by going through the list of Debian's package, and seen in a run: what it
/// creates and extends less what it deletes.
const CLIENT_BYTES: u64 = 23_965_486;
const CLIENT_FILES: u64 = 85;

/// Launching the clients, and deleting their files at the end, for each client.
const SPARE_S: u64 = 120;
const SPARE_PER_CLIENT_S: u64 = 10;

impl Engine for Dbench {
    fn about(&self) -> &'static About {
        &About {
            name: "dbench",
            program: PROGRAM,
            package: Some("dbench"),
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    fn default_value(&self, _workload: &Workload, option: &str) -> Option<Value> {
        Some(match option {
            "clients" => Value::Count(CLIENTS),
            "runtime" => Value::TimeLimit(Some(RUNTIME_S)),
            "sync" => Value::Choice("off"),
            "xattr" => Value::Switch(false),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        match time_limit_s(workload, "runtime") {
            Some(2..) => Ok(()),
            _ => Err(Misfit {
                option: "runtime",
                why: "dbench runs for a time, and reads its clock once a second".to_owned(),
                remedy: "write a time of at least 2s".to_owned(),
            }),
        }
    }

    fn demand(&self, workload: &Workload) -> Demand {
        Demand { workers: Some(count(workload, "clients")), ..Demand::default() }
    }

    /// What all clients together keep; paper A does not say how much it was.
    fn data_set(&self, workload: &Workload) -> DataSet {
        let clients = count(workload, "clients");
        DataSet {
            bytes: clients * CLIENT_BYTES,
            files: clients * CLIENT_FILES,
            file_bytes: CLIENT_BYTES / CLIENT_FILES,
            scale_factor: 1.0,
        }
    }

    fn works_on(&self) -> WorksOn {
        WorksOn::Directories
    }

    fn describe(&self, workload: &Workload) -> String {
        let runtime_s = runtime_s(workload);
        let mut words = format!(
            "{} clients for {runtime_s} s after {} s of warm-up",
            count(workload, "clients"),
            runtime_s / 5
        );
        match choice(workload, "sync") {
            "off" => {}
            "fsync" => words.push_str(", fsync after writes"),
            "directories" => words.push_str(", changed directories synced"),
            "all" => words.push_str(", fsync after writes, changed directories synced"),
            _ => words.push_str(", O_SYNC"),
        }
        if switch(workload, "xattr") {
            words.push_str(", extended attributes");
        }
        words
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        let mut remarks = Vec::new();
        if runtime_s(workload) < 30 && choice(workload, "sync") == "off" {
            remarks.push(
                "in less than 30 s, the kernel writes back little of the data that dbench leaves in the \
                 page cache: make runtime longer or sync= stricter"
                    .to_owned(),
            );
        }
        remarks
    }

    fn prepare(&self, _workload: &Workload, _place: &Place, _seed: u64) -> Vec<Step> {
        Vec::new()
    }

    fn measure(&self, workload: &Workload, place: &Place, _seed: u64) -> Step {
        let (clients, runtime_s) = (count(workload, "clients"), runtime_s(workload));
        let mut argv = vec![PROGRAM.to_owned(), format!("--directory={}", place.target.path())];
        argv.push(format!("--timelimit={runtime_s}"));
        let sync: &[&str] = match choice(workload, "sync") {
            "fsync" => &["--fsync"],
            "directories" => &["--sync-dir"],
            "all" => &["--fsync", "--sync-dir"],
            "open" => &["--sync"],
            _ => &[],
        };
        argv.extend(sync.iter().map(|&option| option.to_owned()));
        if switch(workload, "xattr") {
            argv.push("--xattr".to_owned());
        }
        argv.push(clients.to_string());
        let (argv, result) = timed::command(place, PROGRAM, argv);
        Step {
            title: format!("{workload} on {}", place.target.path()),
            argv,
            input_files: Vec::new(),
            copied_files: Vec::new(),
            output_files: vec![result],
            // Measured, a fifth of it before, and twice as much for what the clients are in when the time is over.
            timeout_s: SPARE_S + SPARE_PER_CLIENT_S * clients + 3 * runtime_s,
        }
    }

    fn check_preparation(&self, _workload: &Workload, _output: &StepOutput) -> Result<(), LoadError> {
        Ok(())
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        let timed = Timed::read(PROGRAM, output)?;
        let code = exit_code(PROGRAM, &timed.ended)?;
        // A client's complaint is on the standard output, one of dbench itself on the other: `[92] write failed on …`.
        let of_client = output.stdout.lines().find_map(|line| line.strip_prefix('[')?.split_once("] "));
        if let Some((_, complaint)) = of_client
            && code != 0
        {
            return Err(failed(PROGRAM, complaint.to_owned()));
        }
        if code != 0 {
            let of_dbench = output.stderr.lines().chain(output.stdout.lines().rev());
            let complaint = of_dbench.map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            return Err(refused(PROGRAM, code, complaint));
        }
        report::into_result(workload, self.data_set(workload), timed, output)
    }
}

fn runtime_s(workload: &Workload) -> u64 {
    time_limit_s(workload, "runtime").unwrap_or(RUNTIME_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Target;

    fn arguments(text: &str) -> String {
        let place =
            Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor".to_owned() };
        Workload::parse(text).unwrap().measure(&place, 1).argv[6..].join(" ")
    }

    #[test]
    fn every_option_reaches_dbench() {
        insta::assert_snapshot!(arguments("dbench:fileserver"), @"dbench --directory=/mnt/top --timelimit=60 30");
        insta::assert_snapshot!(arguments("dbench:fileserver:clients=50:runtime=2m:sync=all:xattr=on"), @"dbench --directory=/mnt/top --timelimit=120 --fsync --sync-dir --xattr 50");
        insta::assert_snapshot!(arguments("dbench:fileserver:sync=open"), @"dbench --directory=/mnt/top --timelimit=60 --sync 30");
    }

    #[test]
    fn dbench_needs_a_time() {
        let error = Workload::parse("dbench:fileserver:runtime=off").unwrap_err();
        assert_eq!(error.remedy, "write a time of at least 2s");
        let short = Workload::parse("dbench:fileserver:runtime=10s").unwrap();
        assert_eq!(short.describe(), "30 clients for 10 s after 2 s of warm-up");
        assert_eq!(short.remarks().len(), 1);
    }

    #[test]
    fn clients_are_workers() {
        let demand = Workload::parse("dbench:fileserver:clients=3").unwrap().demand();
        assert_eq!(demand, Demand { workers: Some(3), ..Demand::default() });
    }
}
