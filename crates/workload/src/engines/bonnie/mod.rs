//! Bonnie++ (Coker; Debian package `bonnie++` 2.00a, whose reports are of the form 1.98).
//!
//! The image propagation study (Jones et al., CLOSER '11, §4.2) ran version 1.03e for sequential throughput, file operations
//! and their processor time (acceptance rows D-E5 to D-E7), with files of twice the memory.
//!
//! # The tests, and what they are here
//! | test | class | operations | bytes |
//! |---|---|---|---|
//! | per char output | `put-char` | one byte each, of the first 3 MiB | 3 MiB |
//! | block output | `put-block` | one `write` of a block each | the file size |
//! | rewrite | `rewrite` | a block read, changed, and written over | the file size, **once**, as Bonnie++ counts them |
//! | per char input | `get-char` | one byte each, of the first 3 MiB | 3 MiB |
//! | block input | `get-block` | one `read` of a block each | the file size |
//! | random seeks | `seek` | a block read anywhere, by 5 processes; one in ten is changed and written | 0: not counted |
//! | sequential create, stat, delete | `create-seq`, `stat-seq`, `delete-seq` | a file in the order of its name | 0 |
//! | random create, stat, delete | `create-rand`, `stat-rand`, `delete-rand` | a file in random order | 0 |
//!
//! Bonnie++ gives a rate, per cent of processor time, and the longest latency of each test. How much it did follows from what
//! it was asked for, and the time of each test from the rate; so the times are as exact as its rates, which are whole
//! numbers of KiB or of files per second. Versions before 1.9x wrote the whole file by single characters; this one writes
//! 3 MiB so (its source, `DefaultByteIO`), each byte with a system call of its own, which on an emulated processor takes longer than all else;
//! `chars=off` leaves these two tests out.
//!
//! # Tests that are too fast
//! Bonnie++ prints `+++++` for a test of less than half a second. Such a test is absent from the result, and the result
//! says which are.
//!
//! # The memory
//! Bonnie++ refuses files of less than twice the machine's memory. It is told `-r 0`, which switches that off: the default
//! here is twice the memory of a 256 MiB guest, and `size=` says otherwise.

mod report;

use nestor_text::units;

use super::ended::{exit_code, failed, refused};
use super::options::{bytes, count, switch};
use super::random::seed_of;
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, WorksOn};
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult};
use crate::timed::{self, Timed};
use crate::value::{Kind, Value};

/// The engine.
pub struct Bonnie;

const PROGRAM: &str = "bonnie++";

const CASES: &[Case] = &[
    Case {
        name: "all",
        summary: "writes, rewrites, reads and seeks in a file, then makes and deletes files",
    },
    Case { name: "sequential", summary: "writes, rewrites, reads and seeks in a file" },
    Case { name: "files", summary: "makes, stats and deletes files, in order and at random" },
];

const WITH_DATA: &[&str] = &["all", "sequential"];
const WITH_FILES: &[&str] = &["all", "files"];

/// Which way its tests move data. What `rewrite` reads is as much as it writes, and it counts as a write.
const DIRECTIONS: &[(&str, Direction)] = &[
    ("put-char", Direction::Write),
    ("put-block", Direction::Write),
    ("rewrite", Direction::Write),
    ("get-char", Direction::Read),
    ("get-block", Direction::Read),
];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "size",
        kind: Kind::Bytes,
        cases: WITH_DATA,
        summary: "the file, in whole MiB; should be twice the machine's memory",
    },
    OptionSpec {
        name: "bs",
        kind: Kind::Bytes,
        cases: WITH_DATA,
        summary: "bytes per block, a power of two from 256 to 1M",
    },
    OptionSpec {
        name: "chars",
        kind: Kind::Switch,
        cases: WITH_DATA,
        summary: "also the tests of single characters, each a system call of one byte",
    },
    OptionSpec {
        name: "files",
        kind: Kind::Count { min: 1024, max: 1024 * MOST_THOUSANDS_OF_FILES },
        cases: WITH_FILES,
        summary: "number of files, a multiple of 1024",
    },
    OptionSpec {
        name: "filesize",
        kind: Kind::Count { min: 0, max: 1 << 30 },
        cases: WITH_FILES,
        summary: "bytes in each of these files",
    },
    OptionSpec {
        name: "directories",
        kind: Kind::Count { min: 1, max: 100_000 },
        cases: WITH_FILES,
        summary: "number of directories for these files",
    },
    OptionSpec {
        name: "fsync",
        kind: Kind::Switch,
        cases: &[],
        summary: "fsync after every write and after every file operation",
    },
    OptionSpec {
        name: "seed",
        kind: Kind::Count { min: 1, max: u32::MAX as u64 },
        cases: &[],
        summary: "fixed sequence of random operations; by default, a different one for each replication",
    },
];

const MIB: u64 = 1 << 20;
/// "A test file size of twice the amount of available RAM" (paper D, §4.2): of a 256 MiB guest.
const FILE_BYTES: u64 = 512 * MIB;
/// Of paper D's guest: row D-7.
const PUBLISHED_FILE_BYTES: u64 = 4 << 30;
/// Bonnie++'s own defaults (its source, `DefaultChunkBits`, `DefaultDirectorySize`).
const BLOCK_BYTES: u64 = 8 << 10;
const FILES: u64 = 16 * 1024;
/// Bytes that are written and read one at a time (its source, `DefaultByteIO`).
const CHAR_BYTES: u64 = 3 * MIB;
/// It keeps the names of all files, in 1 GiB at most (its source, `MaxDataPerFile`: at least 33 bytes a file).
const MOST_THOUSANDS_OF_FILES: u64 = 16_384;

/// The slowest test that is not taken for a hang.
const SLOWEST_BYTES_PER_S: u64 = 256 << 10;
const SLOWEST_FILES_PER_S: u64 = 4;
/// Each of the 8192 seeks, and starting.
const SPARE_S: u64 = 120 + 8192 / 4;

impl Engine for Bonnie {
    fn about(&self) -> &'static About {
        &About {
            name: "bonnie",
            program: PROGRAM,
            package: Some("bonnie++"),
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    fn default_value(&self, workload: &Workload, option: &str) -> Option<Value> {
        let (data, files) = (with_data(workload), with_files(workload));
        Some(match option {
            "size" if data => Value::Bytes(FILE_BYTES),
            "bs" if data => Value::Bytes(BLOCK_BYTES),
            "chars" if data => Value::Switch(true),
            "files" if files => Value::Count(FILES),
            "filesize" if files => Value::Count(0),
            "directories" if files => Value::Count(1),
            "fsync" => Value::Switch(false),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        let misfit = |option, why: &str, remedy: &str| {
            Err(Misfit { option, why: why.to_owned(), remedy: remedy.to_owned() })
        };
        if with_data(workload) {
            if !bytes(workload, "size").is_multiple_of(MIB) {
                return misfit("size", "bonnie++ takes whole MiB", "write a size such as 512M");
            }
            if bytes(workload, "size") / MIB > i32::MAX as u64 {
                return misfit("size", "bonnie++ keeps the MiB in an int", "write a smaller size");
            }
            let block = bytes(workload, "bs");
            if !(256..=MIB).contains(&block) || !block.is_power_of_two() {
                return misfit("bs", "bonnie++ takes powers of two from 256 to 1M", "write one, such as 8k");
            }
        }
        if with_files(workload) && !count(workload, "files").is_multiple_of(1024) {
            return misfit("files", "bonnie++ counts files by 1024", "write a multiple of 1024");
        }
        Ok(())
    }

    fn data_set(&self, workload: &Workload) -> DataSet {
        if with_data(workload) {
            let bytes = bytes(workload, "size");
            let scale_factor = bytes as f64 / PUBLISHED_FILE_BYTES as f64;
            DataSet { bytes, files: 1, file_bytes: bytes, scale_factor }
        } else {
            let (files, file_bytes) = (count(workload, "files"), count(workload, "filesize"));
            // Paper D does not say how many files it made.
            DataSet { bytes: files * file_bytes, files, file_bytes, scale_factor: 1.0 }
        }
    }

    fn works_on(&self) -> WorksOn {
        WorksOn::Directories
    }

    fn describe(&self, workload: &Workload) -> String {
        let mut words = Vec::new();
        if with_data(workload) {
            words.push(format!(
                "{} in blocks of {}",
                units::size(bytes(workload, "size")),
                units::size(bytes(workload, "bs"))
            ));
            if !switch(workload, "chars") {
                words.push("no tests of single characters".to_owned());
            }
        }
        if with_files(workload) {
            let content = match count(workload, "filesize") {
                0 => "empty files".to_owned(),
                bytes => format!("files of {}", units::size(bytes)),
            };
            words.push(format!("{} {content}", count(workload, "files")));
            if count(workload, "directories") > 1 {
                words.push(format!("{} directories", count(workload, "directories")));
            }
        }
        if switch(workload, "fsync") {
            words.push("fsync after every write".to_owned());
        }
        words.join(", ")
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        let mut remarks = Vec::new();
        if with_data(workload) {
            remarks.push(
                "bonnie++ closes its file before it reads it again, but does not empty any cache: it reads \
                 a file of less than twice the machine's memory from memory"
                    .to_owned(),
            );
            remarks.push(
                "bonnie++ counts a rewritten block once, although it reads and writes it: IOzone's rewrite \
                 only writes (row D-25)"
                    .to_owned(),
            );
        }
        remarks
    }

    fn prepare(&self, _workload: &Workload, _place: &Place, _seed: u64) -> Vec<Step> {
        Vec::new()
    }

    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step {
        let mut argv = vec![PROGRAM.to_owned(), "-q".to_owned()];
        let mut set = |option: &str, value: String| argv.extend([option.to_owned(), value]);
        set("-d", place.target.path().to_owned());
        // Programs run as root in the machines; Bonnie++ wants to hear that it is meant.
        set("-m", "nestor".to_owned());
        set("-r", "0".to_owned());
        set("-z", seed_of(workload, seed).to_string());
        let data = match with_data(workload) {
            true => format!("{}:{}", bytes(workload, "size") / MIB, bytes(workload, "bs")),
            false => "0".to_owned(),
        };
        set("-s", data);
        let files = match with_files(workload) {
            true => {
                let (size, directories) = (count(workload, "filesize"), count(workload, "directories"));
                format!("{}:{size}:{size}:{directories}", count(workload, "files") / 1024)
            }
            false => "0".to_owned(),
        };
        set("-n", files);
        if with_data(workload) && !switch(workload, "chars") {
            argv.push("-f".to_owned());
        }
        if switch(workload, "fsync") {
            argv.push("-b".to_owned());
        }
        // It accepts root only with the option for it, and other users only without it.
        let (argv, result) = timed::command_of(place, "bonnie", &["-u", "root"], argv);
        Step {
            title: format!("{workload} on {}", place.target.path()),
            argv,
            input_files: Vec::new(),
            copied_files: Vec::new(),
            output_files: vec![result],
            timeout_s: SPARE_S + longest_s(workload),
        }
    }

    fn check_preparation(&self, _workload: &Workload, _output: &StepOutput) -> Result<(), LoadError> {
        Ok(())
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        let timed = Timed::read(PROGRAM, output)?;
        let code = exit_code(PROGRAM, &timed.ended)?;
        let complaint =
            output.stderr.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        if code != 0 && (complaint.starts_with("Can't write") || complaint.starts_with("Can't read")) {
            return Err(failed(PROGRAM, complaint.to_owned()));
        }
        if code != 0 {
            return Err(refused(PROGRAM, code, complaint));
        }
        report::into_result(workload, self.data_set(workload), timed, output)
    }
}

fn with_data(workload: &Workload) -> bool {
    WITH_DATA.contains(&workload.case())
}

fn with_files(workload: &Workload) -> bool {
    WITH_FILES.contains(&workload.case())
}

/// A bound for the time of all tests.
fn longest_s(workload: &Workload) -> u64 {
    let mut seconds = 0;
    if with_data(workload) {
        // Written, read and written again, and read; and the characters twice.
        seconds += (4 * bytes(workload, "size") + 2 * CHAR_BYTES) / SLOWEST_BYTES_PER_S;
    }
    if with_files(workload) {
        let files = count(workload, "files");
        seconds +=
            6 * files / SLOWEST_FILES_PER_S + 4 * files * count(workload, "filesize") / SLOWEST_BYTES_PER_S;
    }
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Target;

    fn arguments(text: &str) -> String {
        let place =
            Place { target: Target::Directory("/mnt/top".to_owned()), scratch: "/run/nestor".to_owned() };
        let step = Workload::parse(text).unwrap().measure(&place, 1);
        assert_eq!(step.output_files, ["/run/nestor/nestor-bonnie.timed.json"]);
        assert_eq!(step.argv[5..7], ["--as-root=-u", "--as-root=root"]);
        step.argv[8..].join(" ")
    }

    #[test]
    fn every_option_reaches_bonnie() {
        insta::assert_snapshot!(arguments("bonnie:all"), @"bonnie++ -q -d /mnt/top -m nestor -r 0 -z 1216681718 -s 512:8192 -n 16:0:0:1");
        insta::assert_snapshot!(arguments("bonnie:sequential:size=1G:bs=64k:fsync=on:seed=7"), @"bonnie++ -q -d /mnt/top -m nestor -r 0 -z 7 -s 1024:65536 -n 0 -b");
        insta::assert_snapshot!(arguments("bonnie:sequential:chars=off:seed=7"), @"bonnie++ -q -d /mnt/top -m nestor -r 0 -z 7 -s 512:8192 -n 0 -f");
        insta::assert_snapshot!(arguments("bonnie:files:files=2048:filesize=100:directories=4"), @"bonnie++ -q -d /mnt/top -m nestor -r 0 -z 1216681718 -s 0 -n 2:100:100:4");
    }

    #[test]
    fn what_bonnie_would_refuse_is_refused_before() {
        let error = |text: &str| Workload::parse(text).unwrap_err().problem.to_string();
        assert_eq!(error("bonnie:all:size=1000k"), "bonnie++ takes whole MiB");
        assert_eq!(error("bonnie:all:bs=12k"), "bonnie++ takes powers of two from 256 to 1M");
        assert_eq!(error("bonnie:files:files=2000"), "bonnie++ counts files by 1024");
        assert_eq!(error("bonnie:files:bs=8k"), "bonnie:files has no option \"bs\"");
    }
}
