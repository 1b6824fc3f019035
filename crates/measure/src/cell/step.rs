//! One step of a workload on a machine of the laboratory.

use nestor_machine::{Cause, Command, Finished, Machine, MachineError};
use nestor_workload::{Ended, Step, StepOutput};

use super::kernel_log;

/// Longest results file of a workload that is fetched from a machine: a log of a long run of fio, in one frame.
const MOST_OUTPUT_BYTES: u64 = 48 << 20;
/// What the kernel's log says of a program that has just ended is not older, in seconds.
const JUST_NOW_S: f64 = 10.0;
/// SIGKILL.
const KILL: i32 = 9;

/// Runs one step of a workload on a machine, and fetches its output files.
///
/// # Errors
/// If the machine does not answer. The program's own failure is in the output.
pub fn run_step(machine: &Machine, step: &Step) -> Result<StepOutput, MachineError> {
    let ran = match put_files(machine, step)? {
        Some(failed) => failed,
        None => run_program(machine, step)?,
    };
    fetch_files(machine, step, ran)
}

fn without_files(ended: Ended, stdout: String, stderr: String) -> StepOutput {
    StepOutput { ended, stdout, stderr, files: Vec::new() }
}

/// Writes the files that a step needs on its machine. Its output, if one of the user's cannot be read.
pub(super) fn put_files(machine: &Machine, step: &Step) -> Result<Option<StepOutput>, MachineError> {
    for (path, contents) in &step.input_files {
        machine.write_file(path, contents)?;
    }
    for (path, here) in &step.copied_files {
        let contents = match std::fs::read(here) {
            Ok(contents) => contents,
            Err(e) => {
                let why = format!("cannot read {here}, which the workload names: {e}");
                return Ok(Some(without_files(Ended::Code(1), String::new(), why)));
            }
        };
        machine.write_file(path, &contents)?;
    }
    Ok(None)
}

/// Runs the program of a step, whose files are there; what it left is without its files.
pub(super) fn run_program(machine: &Machine, step: &Step) -> Result<StepOutput, MachineError> {
    what_ran(machine, machine.run(Command::new(step.argv.clone()).timeout_s(step.timeout_s)))
}

/// What the program of a step left on its machine, without its files.
pub(super) fn what_ran(
    machine: &Machine,
    ran: Result<Finished, MachineError>,
) -> Result<StepOutput, MachineError> {
    let finished = match ran {
        Ok(finished) => finished,
        Err(MachineError::Refused { refusal, .. }) if matches!(refusal.cause, Cause::NotInstalled { .. }) => {
            return Ok(without_files(Ended::NoProgram, String::new(), refusal.message));
        }
        Err(e) => return Err(e),
    };
    let ended = match (finished.timed_out, finished.exit_code, finished.signal) {
        (true, ..) => Ended::TimedOut,
        (_, Some(code), _) => Ended::Code(code),
        (_, None, Some(KILL)) => killed(machine),
        (_, None, signal) => Ended::Signal(signal.unwrap_or_default()),
    };
    Ok(without_files(ended, finished.stdout_text(), finished.stderr_text()))
}

/// Fetches the files that a step has left, and removes them.
pub(super) fn fetch_files(
    machine: &Machine,
    step: &Step,
    ran: StepOutput,
) -> Result<StepOutput, MachineError> {
    if ran.ended == Ended::NoProgram || step.output_files.is_empty() {
        return Ok(ran);
    }
    let mut files = Vec::new();
    for path in &step.output_files {
        match machine.read_file_up_to(path, MOST_OUTPUT_BYTES) {
            Ok(bytes) => files.push((path.clone(), String::from_utf8_lossy(&bytes).into_owned())),
            Err(e @ MachineError::TooLong { .. }) => return Err(e),
            // The reader of the output reports a missing file.
            Err(_) => {}
        }
    }
    let remove = ["rm", "-f", "--"].into_iter().chain(step.output_files.iter().map(String::as_str));
    machine.run(Command::new(remove))?;
    Ok(StepOutput { files, ..ran })
}

/// Whether the kernel ended a program for want of memory. Where its log cannot be read, nobody knows.
fn killed(machine: &Machine) -> Ended {
    let ended = kernel_log::uptime_s(machine)
        .and_then(|now_s| kernel_log::out_of_memory_since(machine, now_s - JUST_NOW_S));
    ended.map_or(Ended::Signal(KILL), |ended| Ended::OutOfMemory { resident_bytes: ended.resident_bytes })
}
