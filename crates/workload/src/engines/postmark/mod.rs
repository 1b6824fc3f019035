//! PostMark, the small-file benchmark (Katcher, NetApp TR-3022, 1997; Debian package `postmark` 1.53, which prints `v1.51`).
//!
//! # The three cases
//! `xs`, `small`, `large` are the configurations of the type-2 hypervisor study (Đorđević, Timčenko, §IV; acceptance rows
//! P-E1 to P-E3): 100 000 files of 1 to 1000 bytes with 50 000 transactions, 10 000 of 1 kB to 90 kB with 5000, 100 of 1 MB
//! to 30 MB with 500. The sizes are **decimal**: with PostMark's fixed seed the bytes read and written are constants, and
//! only those of 1000 to 90 000 and of 1 000 000 to 30 000 000 bytes have the ratio of the published rates (rows P-21 and
//! P-23; the binary sizes of P-22 and P-24 do not fit). Everything else is as PostMark has it by default: blocks of 512
//! bytes, buffered, biases 5, no subdirectories, seed 42.
//!
//! # The constants
//! Seed, sizes, number of files and of transactions decide every count and every byte; blocks and buffering draw no random
//! numbers. So a run of a case that changes none of the former is compared with rows P-20, P-21, P-23, and a difference is
//! an error: the run is not what it says. Subdirectories draw random numbers and change the counts.
//!
//! # Time
//! PostMark's clock counts whole seconds, at least one for each phase, so its rates are of little use. The time of the run
//! is measured around the program; the seconds of its three phases are kept as figures.
//!
//! # What it leaves out
//! It does not look at what `write` and `close` return: on a full file system it counts bytes that were never written (seen:
//! 25 MB "written" to 4 MiB). And it gives the bytes of creations and appends as one sum: here the class `write` has those
//! bytes and no operations, `create` and `append` have the operations and no bytes.

mod report;

use nestor_text::units;

use super::ended::{exit_code, failed, refused};
use super::options::{bytes, count, switch};
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, WorksOn};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult};
use crate::timed::{self, Timed};
use crate::value::{Kind, Value};

/// The engine.
pub struct Postmark;

const PROGRAM: &str = "postmark";

const CASES: &[Case] = &[
    Case { name: "xs", summary: "100 000 files of 1 B to 1000 B, 50 000 transactions" },
    Case { name: "small", summary: "10 000 files of 1 kB to 90 kB, 5000 transactions" },
    Case { name: "large", summary: "100 files of 1 MB to 30 MB, 500 transactions" },
];

/// Which way its operations move data.
const DIRECTIONS: &[(&str, Direction)] =
    &[("append", Direction::Write), ("write", Direction::Write), ("read", Direction::Read)];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "scale",
        kind: Kind::Factor,
        cases: &[],
        summary: "files and transactions relative to the published numbers",
    },
    OptionSpec {
        name: "subdirectories",
        kind: Kind::Count { min: 0, max: 100_000 },
        cases: &[],
        summary: "number of directories for the files; 0 for none",
    },
    OptionSpec { name: "bs", kind: Kind::Bytes, cases: &[], summary: "bytes per read and per write" },
    OptionSpec {
        name: "buffering",
        kind: Kind::Switch,
        cases: &[],
        summary: "through the C library's buffers, not directly to the kernel",
    },
    OptionSpec {
        name: "seed",
        kind: Kind::Count { min: 1, max: i32::MAX as u64 },
        cases: &[],
        summary: "sequence of operations; the same for all replications",
    },
];

/// PostMark's own defaults (its source, "Configurable Parameters").
const BLOCK_BYTES: u64 = 512;
const SEED: u64 = 42;
/// PostMark keeps its sizes in an `int`.
const LARGEST_BLOCK_BYTES: u64 = 1 << 30;

/// To show its progress it counts by tenths (its source, `run_transactions`).
const FEWEST_TRANSACTIONS: u64 = 10;

/// The slowest operation that is not taken for a hang: an operation of the slowest published cell (row P-5, JFS with extra
/// small files) took 3 ms in the mean; this is more than twenty times as much.
const SLOWEST_OPERATION_MS: u64 = 70;
/// The slowest writing or reading that is not taken for a hang.
const SLOWEST_BYTES_PER_S: u64 = 256 << 10;
const SPARE_S: u64 = 120;

/// What a case asks PostMark for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Configuration {
    smallest_bytes: u64,
    largest_bytes: u64,
    files: u64,
    transactions: u64,
}

impl Configuration {
    /// As published (paper P, §IV), times `scale`.
    fn of(workload: &Workload) -> Self {
        let published = match workload.case() {
            "xs" => Self { smallest_bytes: 1, largest_bytes: 1000, files: 100_000, transactions: 50_000 },
            "small" => {
                Self { smallest_bytes: 1000, largest_bytes: 90_000, files: 10_000, transactions: 5000 }
            }
            _ => Self { smallest_bytes: 1_000_000, largest_bytes: 30_000_000, files: 100, transactions: 500 },
        };
        // At most 1000 times 100 000: far from overflow.
        let scaled = |number: u64| (number * scale_millionths(workload) / 1_000_000).max(1);
        Self { files: scaled(published.files), transactions: scaled(published.transactions), ..published }
    }

    fn mean_bytes(self) -> u64 {
        (self.smallest_bytes + self.largest_bytes) / 2
    }
}

fn scale_millionths(workload: &Workload) -> u64 {
    match workload.value("scale") {
        Some(Value::Factor(millionths)) => millionths,
        other => unreachable!("scale is a factor with a default, not {other:?}"),
    }
}

impl Engine for Postmark {
    fn about(&self) -> &'static About {
        &About {
            name: "postmark",
            program: PROGRAM,
            package: Some("postmark"),
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    fn default_value(&self, _workload: &Workload, option: &str) -> Option<Value> {
        Some(match option {
            "scale" => Value::Factor(1_000_000),
            "subdirectories" => Value::Count(0),
            "bs" => Value::Bytes(BLOCK_BYTES),
            "buffering" => Value::Switch(true),
            "seed" => Value::Count(SEED),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        if bytes(workload, "bs") > LARGEST_BLOCK_BYTES {
            return Err(Misfit {
                option: "bs",
                why: "postmark keeps sizes in an int".to_owned(),
                remedy: "write at most 1G".to_owned(),
            });
        }
        if Configuration::of(workload).transactions < FEWEST_TRANSACTIONS {
            return Err(Misfit {
                option: "scale",
                why: "postmark divides by a tenth of the transactions, which is zero for fewer than ten"
                    .to_owned(),
                remedy: format!("use a larger scale, for at least {FEWEST_TRANSACTIONS} transactions"),
            });
        }
        Ok(())
    }

    /// The files that are there at once, at their mean size: creations and deletions keep their number about the same.
    fn data_set(&self, workload: &Workload) -> DataSet {
        let configuration = Configuration::of(workload);
        DataSet {
            bytes: configuration.files * configuration.mean_bytes(),
            files: configuration.files,
            file_bytes: configuration.mean_bytes(),
            scale_factor: scale_millionths(workload) as f64 / 1e6,
        }
    }

    fn works_on(&self) -> WorksOn {
        WorksOn::Directories
    }

    fn describe(&self, workload: &Workload) -> String {
        let Configuration { smallest_bytes, largest_bytes, files, transactions } =
            Configuration::of(workload);
        let mut words = format!(
            "{files} files of {smallest_bytes} to {largest_bytes} bytes, {transactions} transactions, blocks of {}",
            units::size(bytes(workload, "bs"))
        );
        match count(workload, "subdirectories") {
            0 => {}
            directories => words.push_str(&format!(", {directories} directories")),
        }
        if !switch(workload, "buffering") {
            words.push_str(", unbuffered");
        }
        words
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        let mut remarks = vec![
            "postmark does not notice failed writes: check that the file system has room for its files"
                .to_owned(),
            "postmark's own rates use a clock of whole seconds; the time here is measured around the program"
                .to_owned(),
        ];
        if report::constants_of(workload).is_none() {
            remarks.push(
                "the byte counts are not those of the published configuration, so they cannot be checked against it"
                    .to_owned(),
            );
        }
        remarks
    }

    fn prepare(&self, _workload: &Workload, _place: &Place, _seed: u64) -> Vec<Step> {
        Vec::new()
    }

    /// The seed of the run is not used: the published configurations have PostMark's own, and their counts rest on it.
    fn measure(&self, workload: &Workload, place: &Place, _seed: u64) -> Step {
        let file = format!("{}/nestor-postmark.commands", place.scratch.trim_end_matches('/'));
        let (argv, result) = timed::command(place, PROGRAM, vec![PROGRAM.to_owned(), file.clone()]);
        let configuration = Configuration::of(workload);
        // Created and appended, read, deleted: each file and each transaction is at most four operations.
        let operations = 4 * (configuration.files + configuration.transactions);
        let moved = 2 * (configuration.files + configuration.transactions) * configuration.mean_bytes();
        Step {
            title: format!("{workload} on {}", place.target.path()),
            argv,
            input_files: vec![(file, commands(workload, place).into_bytes())],
            copied_files: Vec::new(),
            output_files: vec![result],
            timeout_s: SPARE_S + operations * SLOWEST_OPERATION_MS / 1000 + moved / SLOWEST_BYTES_PER_S,
        }
    }

    fn check_preparation(&self, _workload: &Workload, _output: &StepOutput) -> Result<(), LoadError> {
        Ok(())
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        let timed = Timed::read(PROGRAM, output)?;
        let code = exit_code(PROGRAM, &timed.ended)?;
        // It goes on after errors, so the first one is the cause. Its exit code is 0 all the same.
        if let Some(complaint) = output.stderr.lines().find_map(|line| line.strip_prefix("Error: ")) {
            return Err(failed(PROGRAM, complaint.to_owned()));
        }
        if code != 0 {
            return Err(refused(PROGRAM, code, output.stderr.trim()));
        }
        report::Report::read(&output.stdout)?.into_result(workload, self.data_set(workload), timed, output)
    }
}

/// What PostMark reads instead of a terminal.
fn commands(workload: &Workload, place: &Place) -> String {
    let Configuration { smallest_bytes, largest_bytes, files, transactions } = Configuration::of(workload);
    let block = bytes(workload, "bs");
    let mut lines = vec![
        format!("set location {}", place.target.path()),
        format!("set size {smallest_bytes} {largest_bytes}"),
        format!("set number {files}"),
        format!("set transactions {transactions}"),
        format!("set seed {}", count(workload, "seed")),
        format!("set read {block}"),
        format!("set write {block}"),
        format!("set buffering {}", switch(workload, "buffering")),
    ];
    let directories = count(workload, "subdirectories");
    if directories > 0 {
        lines.push(format!("set subdirectories {directories}"));
    }
    lines.extend(["set report verbose", "run", "quit", ""].map(str::to_owned));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Target;

    fn place() -> Place {
        Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor/".to_owned() }
    }

    #[test]
    fn the_published_configurations_are_what_postmark_is_told() {
        let step = Workload::parse("postmark:small").unwrap().measure(&place(), 7);
        assert_eq!(
            step.argv.join(" "),
            "{nestor} load timed --result /run/nestor/nestor-postmark.timed.json -- \
             postmark /run/nestor/nestor-postmark.commands"
        );
        insta::assert_snapshot!(String::from_utf8(step.input_files[0].1.clone()).unwrap(), @r"
        set location /mnt/top
        set size 1000 90000
        set number 10000
        set transactions 5000
        set seed 42
        set read 512
        set write 512
        set buffering true
        set report verbose
        run
        quit
        ");
        let commands = |text: &str| commands(&Workload::parse(text).unwrap(), &place());
        assert!(
            commands("postmark:xs").contains("set size 1 1000\nset number 100000\nset transactions 50000\n")
        );
        assert!(
            commands("postmark:large")
                .contains("set size 1000000 30000000\nset number 100\nset transactions 500\n")
        );
    }

    #[test]
    fn every_option_reaches_postmark() {
        let workload =
            Workload::parse("postmark:xs:scale=0.01:subdirectories=10:bs=4k:buffering=off:seed=7").unwrap();
        insta::assert_snapshot!(commands(&workload, &place()), @r"
        set location /mnt/top
        set size 1 1000
        set number 1000
        set transactions 500
        set seed 7
        set read 4096
        set write 4096
        set buffering false
        set subdirectories 10
        set report verbose
        run
        quit
        ");
        assert_eq!(
            workload.describe(),
            "1000 files of 1 to 1000 bytes, 500 transactions, blocks of 4 KiB, 10 directories, unbuffered"
        );
        assert_eq!(workload.data_set().scale_factor, 0.01);
    }
}
