//! `nestor load timed`: a program's time and CPU, as one line of JSON.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use nestor_workload::{Ended, Timed};

use crate::whole_file;

/// Arguments of `nestor load timed`.
#[derive(Args, Debug)]
pub struct TimedArguments {
    /// Where the times go
    #[arg(long, value_name = "FILE")]
    result: PathBuf,
    /// An argument that the program gets at its end when it runs as root
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    as_root: Vec<String>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

/// Exit code of a shell for a program that is not there.
const NO_PROGRAM: i32 = 127;

/// Runs it; ends as it ends.
///
/// # Errors
/// When the result cannot be written.
pub fn run(arguments: &TimedArguments) -> Result<ExitCode> {
    let (program, rest) = arguments.program.split_first().context("no program was given")?;
    let as_root: &[String] = if rustix::process::geteuid().is_root() { &arguments.as_root } else { &[] };
    let begin = Instant::now();
    let started = Command::new(program).args(rest).args(as_root).status();
    let elapsed = begin.elapsed();
    let (ended, code) = match started {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => (Ended::Code(code), code),
            (None, signal) => (Ended::Signal(signal.unwrap_or_default()), 128 + signal.unwrap_or_default()),
        },
        Err(e) => {
            errln!("{program} could not be started: {e}");
            (Ended::NoProgram, NO_PROGRAM)
        }
    };
    // SAFETY: all zeros is a value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the type the call fills.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let timed = Timed {
        ended,
        elapsed_ns: elapsed.as_nanos() as u64,
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        max_rss_bytes: usage.ru_maxrss as u64 * 1024,
    };
    let text = serde_json::to_string(&timed).context("the times have no JSON form")?;
    whole_file::write(&arguments.result, text.as_bytes())
        .with_context(|| format!("cannot write {}", arguments.result.display()))?;
    Ok(ExitCode::from(code as u8))
}
