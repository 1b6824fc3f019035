//! What can be wrong with a workload's text and with its run.

use std::fmt;
use std::ops::Range;

use nestor_text::Marked;

/// A text that is no workload, with the part to blame and what would fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct WorkloadError {
    /// The whole text.
    pub text: String,
    /// The bytes of it that are to blame.
    pub span: Range<usize>,
    /// What is wrong.
    pub problem: Problem,
    /// What to write instead.
    pub remedy: String,
}

/// What is wrong with a workload's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The first word names no engine.
    #[error("there is no engine {0:?}")]
    UnknownEngine(String),
    /// There is no second word.
    #[error("{0} needs a case after it")]
    NoCase(&'static str),
    /// The second word names no case.
    #[error("{engine} has no case {case:?}")]
    UnknownCase {
        /// The engine.
        engine: &'static str,
        /// What was written.
        case: String,
    },
    /// An option without `=`.
    #[error("{0:?} does not have the form option=value")]
    NotAnOption(String),
    /// The engine, or the case, does not have the option.
    #[error("{place} has no option {option:?}")]
    UnknownOption {
        /// `fio` or `fio:seq-read`.
        place: String,
        /// What was written.
        option: String,
    },
    /// An option twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// An option without a value.
    #[error("{0} needs a value after =")]
    NoValue(&'static str),
    /// A value that does not fit the option.
    #[error("{option} cannot be {value:?}")]
    BadValue {
        /// The option.
        option: &'static str,
        /// What was written.
        value: String,
    },
    /// Options that do not go together.
    #[error("{0}")]
    Misfit(String),
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marked = Marked { line: &self.text, span: self.span.clone(), message: &self.problem };
        writeln!(f, "a workload is not understood\n{marked}")?;
        write!(f, "  {}", self.remedy)
    }
}

/// Why a run of a workload has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// The program is not installed.
    #[error(
        "{program} is not installed on the machine that runs the workload: install the package {program} there"
    )]
    NoProgram {
        /// The program.
        program: &'static str,
    },
    /// The program was killed from outside.
    #[error("{program} was ended by signal {signal} before it had finished; {hint}")]
    Killed {
        /// The program.
        program: &'static str,
        /// The signal's number.
        signal: i32,
        /// What usually sends it, and where to look.
        hint: &'static str,
    },
    /// The machine's kernel ended it.
    #[error(
        "the machine ran out of memory, and its kernel ended {program}, which had {}: give the machine more (`kvm:memory=512M`), or \
         take a workload with fewer threads or smaller requests",
        nestor_text::units::size(*resident_bytes >> 20 << 20)
    )]
    OutOfMemory {
        /// The program.
        program: &'static str,
        /// Memory that it had, without files.
        resident_bytes: u64,
    },
    /// The program did not end.
    #[error(
        "{program} did not finish in time and was killed: the stack below it hangs, or is far slower than expected; \
         check the machine's kernel log, or make the data set smaller (size=, scale=)"
    )]
    TimedOut {
        /// The program.
        program: &'static str,
    },
    /// No room for the data set.
    #[error(
        "the directory or device is full: {detail}; use a smaller data set (size=, scale=) or a larger stack"
    )]
    Full {
        /// The program's own message.
        detail: String,
    },
    /// A file server has no longer what the workload had open.
    #[error("{program} had a file or directory open that its server no longer has or exports: {detail}")]
    Stale {
        /// The program.
        program: &'static str,
        /// The program's own message.
        detail: String,
    },
    /// An operation of the workload failed.
    #[error("{program} got an error from the stack: {detail}")]
    OperationFailed {
        /// The program.
        program: &'static str,
        /// The program's own message.
        detail: String,
    },
    /// The program refused to start.
    #[error("{program} refused the workload (exit code {code}): {detail}")]
    Refused {
        /// The program.
        program: &'static str,
        /// Its exit code.
        code: i32,
        /// The program's own message.
        detail: String,
    },
    /// Nothing was printed.
    #[error("{program} ended without printing a result{}", said(.detail))]
    NoOutput {
        /// The program.
        program: &'static str,
        /// What it said on its error output, if anything.
        detail: String,
    },
    /// The output is not what the program is known to print.
    #[error("the output of {program} cannot be read: {detail}; versions known to work: {versions}")]
    Unreadable {
        /// The program.
        program: &'static str,
        /// Where and why.
        detail: String,
        /// Versions this was tested with.
        versions: &'static str,
    },
    /// The program ran, but measured nothing.
    #[error("{program} measured nothing: {detail}")]
    NothingMeasured {
        /// The program.
        program: &'static str,
        /// Why, and what to change.
        detail: String,
    },
    /// The output contradicts itself or the workload.
    #[error("the result of {program} contradicts itself: {detail}")]
    Inconsistent {
        /// The program.
        program: &'static str,
        /// The identity that does not hold, with both sides.
        detail: String,
    },
}

/// `: what it said`, or nothing.
fn said(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}
