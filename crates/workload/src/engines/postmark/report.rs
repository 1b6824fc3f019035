//! PostMark's verbose report, read and checked.

use std::collections::BTreeMap;

use super::{Configuration, PROGRAM, SEED, scale_millionths};
use crate::engine::{DataSet, StepOutput};
use crate::engines::options::count;
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{LoadResult, OperationClass, OperationResult};
use crate::timed::Timed;

const VERSIONS: &str = "1.53 of Debian, which prints v1.51";

/// What the report says, number by number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    version: String,
    seconds_total: u64,
    seconds_of_transactions: u64,
    transactions_per_second: u64,
    created: u64,
    created_alone: u64,
    created_with_transactions: u64,
    read: u64,
    appended: u64,
    deleted: u64,
    deleted_alone: u64,
    deleted_with_transactions: u64,
    data_read: Amount,
    data_written: Amount,
}

/// An amount of data as PostMark prints it: two decimals of a unit, which is a power of 1024 (its source, `scalef`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amount {
    hundredths: u64,
    unit_bytes: u64,
}

impl Amount {
    fn bytes(self) -> u64 {
        (u128::from(self.hundredths) * u128::from(self.unit_bytes) / 100) as u64
    }
}

/// What a run with PostMark's fixed seed must count: acceptance rows P-20, P-21 and P-23.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    row: &'static str,
    created: u64,
    read: u64,
    appended: u64,
    /// Hundredths of 1 048 576 bytes.
    data_read: u64,
    data_written: u64,
}

/// The constants of a workload that keeps all that they rest on.
pub(super) fn constants_of(workload: &Workload) -> Option<Constants> {
    let unchanged = scale_millionths(workload) == 1_000_000
        && count(workload, "seed") == SEED
        && count(workload, "subdirectories") == 0;
    let constants = match workload.case() {
        "xs" => Constants {
            row: "P-20",
            created: 125_075,
            read: 25_155,
            appended: 24_808,
            data_read: 1256,
            data_written: 6521,
        },
        "small" => Constants {
            row: "P-21",
            created: 12_475,
            read: 2485,
            appended: 2515,
            data_read: 11_281,
            data_written: 58_629,
        },
        _ => Constants {
            row: "P-23",
            created: 347,
            read: 257,
            appended: 243,
            data_read: 431_252,
            data_written: 614_565,
        },
    };
    unchanged.then_some(constants)
}

impl Report {
    /// Reads what the program printed.
    pub(super) fn read(stdout: &str) -> Result<Self, LoadError> {
        if stdout.trim().is_empty() {
            return Err(LoadError::NoOutput { program: PROGRAM, detail: String::new() });
        }
        let version = stdout
            .lines()
            .find_map(|line| line.strip_prefix("PostMark v"))
            .and_then(|rest| rest.split_whitespace().next())
            .ok_or_else(|| unreadable("its output does not begin with its version".to_owned()))?;
        let mut lines = Lines { rest: stdout, last: "Time:" };
        lines.after("Time:")?;
        let (seconds_total, _) = lines.number(" seconds total")?;
        let (seconds_of_transactions, rest) = lines.number(" seconds of transactions (")?;
        let transactions_per_second = number_before(rest, " per second)")?;
        lines.after("Files:")?;
        let (created, _) = lines.number(" created (")?;
        let created_alone = lines.labelled("Creation alone: ")?;
        let created_with_transactions = lines.labelled("Mixed with transactions: ")?;
        let (read, _) = lines.number(" read (")?;
        let (appended, _) = lines.number(" appended (")?;
        let (deleted, _) = lines.number(" deleted (")?;
        let deleted_alone = lines.labelled("Deletion alone: ")?;
        let deleted_with_transactions = lines.labelled("Mixed with transactions: ")?;
        lines.after("Data:")?;
        let data_read = lines.amount(" read (")?;
        let data_written = lines.amount(" written (")?;
        Ok(Self {
            version: version.to_owned(),
            seconds_total,
            seconds_of_transactions,
            transactions_per_second,
            created,
            created_alone,
            created_with_transactions,
            read,
            appended,
            deleted,
            deleted_alone,
            deleted_with_transactions,
            data_read,
            data_written,
        })
    }

    /// Checks the report against itself, against what was asked for, and against the published constants.
    fn check(&self, workload: &Workload) -> Result<(), LoadError> {
        let files = Configuration::of(workload).files;
        for (what, left, right) in [
            ("files created, and those alone and with transactions", self.created, {
                self.created_alone.saturating_add(self.created_with_transactions)
            }),
            ("files deleted, and those alone and with transactions", self.deleted, {
                self.deleted_alone.saturating_add(self.deleted_with_transactions)
            }),
            ("files created alone, and files requested", self.created_alone, files),
            ("files created, and files deleted", self.created, self.deleted),
        ] {
            if left != right {
                return Err(inconsistent(format!("{what}: {left} and {right}")));
            }
        }
        let Some(constants) = constants_of(workload) else {
            return Ok(());
        };
        let megabytes = |hundredths: u64| Amount { hundredths, unit_bytes: 1 << 20 }.bytes();
        for (what, ours, constant) in [
            ("files created", self.created, constants.created),
            ("files read", self.read, constants.read),
            ("files appended to", self.appended, constants.appended),
            ("bytes read", self.data_read.bytes(), megabytes(constants.data_read)),
            ("bytes written", self.data_written.bytes(), megabytes(constants.data_written)),
        ] {
            if ours != constant {
                return Err(inconsistent(format!(
                    "{ours} {what}, but this configuration with seed {SEED} always has {constant} (row {}): \
                     this postmark is not the published one",
                    constants.row
                )));
            }
        }
        Ok(())
    }

    /// The result, after checking it.
    pub(super) fn into_result(
        self,
        workload: &Workload,
        data_set: DataSet,
        timed: Timed,
        output: &StepOutput,
    ) -> Result<LoadResult, LoadError> {
        self.check(workload)?;
        let class = |name: &str, operations: u64, bytes: u64| {
            (OperationClass(name.to_owned()), OperationResult { operations, bytes, ..Default::default() })
        };
        let figure = |name: &str, number: u64| (name.to_owned(), number as f64);
        Ok(LoadResult {
            engine: format!("postmark {}", self.version),
            workload: workload.to_string(),
            elapsed_ns: timed.elapsed_ns,
            operations: BTreeMap::from([
                class("create", self.created, 0),
                class("append", self.appended, 0),
                class("write", 0, self.data_written.bytes()),
                class("read", self.read, self.data_read.bytes()),
                class("delete", self.deleted, 0),
            ]),
            working_set_bytes: data_set.bytes,
            scale_factor: data_set.scale_factor,
            cpu_user_s: timed.user_s,
            cpu_system_s: timed.system_s,
            engine_output: output.stdout.clone(),
            figures: BTreeMap::from([
                figure("postmark_total_s", self.seconds_total),
                figure("postmark_transactions_s", self.seconds_of_transactions),
                figure("postmark_transactions_per_s", self.transactions_per_second),
                figure("created_alone_files", self.created_alone),
                figure("created_with_transactions_files", self.created_with_transactions),
                figure("deleted_alone_files", self.deleted_alone),
                figure("deleted_with_transactions_files", self.deleted_with_transactions),
            ]),
            remarks: Vec::new(),
        })
    }
}

/// The lines of the report that are still to be read; each question goes on after the last answer.
struct Lines<'t> {
    rest: &'t str,
    last: &'static str,
}

impl<'t> Lines<'t> {
    /// The next line with `mark` in it: what is before and what is after the mark.
    fn next(&mut self, mark: &'static str) -> Result<(&'t str, &'t str), LoadError> {
        while !self.rest.is_empty() {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            if let Some(parts) = line.split_once(mark) {
                self.last = mark;
                return Ok(parts);
            }
        }
        Err(unreadable(format!(
            "there is no line with {:?} after the line with {:?}",
            mark.trim(),
            self.last.trim()
        )))
    }

    fn after(&mut self, heading: &'static str) -> Result<(), LoadError> {
        self.next(heading).map(|_| ())
    }

    /// `97 read (` → 97, and what follows.
    fn number(&mut self, mark: &'static str) -> Result<(u64, &'t str), LoadError> {
        let (before, after) = self.next(mark)?;
        Ok((number(before)?, after))
    }

    /// `Creation alone: 100 files (` → 100.
    fn labelled(&mut self, label: &'static str) -> Result<u64, LoadError> {
        let (_, after) = self.next(label)?;
        number_before(after, " files (")
    }

    /// `12.56 megabytes read (` → 12.56 megabytes.
    fn amount(&mut self, mark: &'static str) -> Result<Amount, LoadError> {
        let (before, _) = self.next(mark)?;
        let wrong = || unreadable(format!("{:?} is not an amount of data", before.trim()));
        let (number, unit) = before.trim().split_once(' ').ok_or_else(wrong)?;
        let unit_bytes = match unit {
            "megabytes" => 1 << 20,
            "kilobytes" => 1 << 10,
            "bytes" => 1,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').ok_or_else(wrong)?;
        // Bytes have six decimals, all zero; the others have two.
        let hundredths: u64 = fraction.get(..2).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let hundredths = whole.checked_mul(100).and_then(|w| w.checked_add(hundredths)).ok_or_else(wrong)?;
        Ok(Amount { hundredths, unit_bytes })
    }
}

fn number(text: &str) -> Result<u64, LoadError> {
    text.trim().parse().map_err(|_| unreadable(format!("{:?} is not a number", text.trim())))
}

fn number_before(text: &str, mark: &str) -> Result<u64, LoadError> {
    let (before, _) = text.split_once(mark).ok_or_else(|| unreadable(format!("{text:?} has no {mark:?}")))?;
    number(before)
}

fn unreadable(detail: String) -> LoadError {
    LoadError::Unreadable { program: PROGRAM, detail, versions: VERSIONS }
}

fn inconsistent(detail: String) -> LoadError {
    LoadError::Inconsistent { program: PROGRAM, detail }
}
