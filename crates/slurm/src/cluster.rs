//! Slurm's own programs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

/// Why Slurm did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlurmError {
    /// Its programs are not there.
    #[error(
        "`{program}` is not installed here: this machine does not belong to a Slurm cluster\n  run Nestor on a machine from which you submit jobs, or omit --slurm; in Debian, the package slurm-client contains it"
    )]
    NotThere {
        /// The program.
        program: &'static str,
    },
    /// A program cannot be started.
    #[error("`{program}` could not be started: {reason}")]
    NotStarted {
        /// The program.
        program: &'static str,
        /// The system's answer.
        reason: String,
    },
    /// A partition is not there, or all of its nodes are out of order.
    #[error(
        "{partition} has no processor that can be used, as `sinfo` says\n  name another one with --slurm-partition, or say with --slurm-tasks how many tasks run at once"
    )]
    NoProcessors {
        /// `the partition long`.
        partition: String,
    },
    /// No cluster says which processors it has.
    #[error(
        "no Slurm cluster answers here; `sinfo` says:\n{}\n  run Nestor where `sinfo` lists the nodes, or omit --slurm",
        indented(said)
    )]
    NoAnswer {
        /// What `sinfo` printed.
        said: String,
    },
    /// It refuses.
    #[error(
        "{said}\n  `{program}` refused; partition, memory, time limit and other options: --slurm-partition, --slurm-time, --slurm-arg"
    )]
    Refused {
        /// The program.
        program: &'static str,
        /// What it printed.
        said: String,
    },
}

fn indented(said: &str) -> String {
    said.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// What Slurm says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It has not begun, for this reason.
    Waits(String),
    /// It runs on this node.
    Runs(String),
    /// It has ended in this state, such as `NODE_FAIL`, on this node.
    Ended(String, String),
}

/// A cluster that runs array jobs.
pub trait Cluster {
    /// Submits an array job with these arguments of `sbatch`; returns its number.
    ///
    /// # Errors
    /// If it is refused.
    fn submit(&mut self, arguments: &[OsString]) -> Result<String, SlurmError>;

    /// The state of each task of a job that is known; `None` if the cluster does not answer now.
    ///
    /// # Errors
    /// If it cannot be asked.
    fn tasks(&mut self, job: &str) -> Result<Option<BTreeMap<usize, TaskState>>, SlurmError>;

    /// Ends a job if it has this name: all of it, or only the tasks that wait.
    ///
    /// # Errors
    /// If it cannot be asked.
    fn cancel(&mut self, job: &str, name: &str, only_waiting: bool) -> Result<(), SlurmError>;
}

/// The cluster that this machine belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slurm;

impl Cluster for Slurm {
    fn submit(&mut self, arguments: &[OsString]) -> Result<String, SlurmError> {
        let output = run("sbatch", arguments)?;
        // `--parsable` prints the number and, of several clusters, `;` and a name.
        let number = output.said.trim().split(';').next().unwrap_or_default().to_owned();
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        if output.succeeded && is_number {
            return Ok(number);
        }
        Err(SlurmError::Refused { program: "sbatch", said: format!("{}{}", output.errors.trim(), number) })
    }

    fn tasks(&mut self, job: &str) -> Result<Option<BTreeMap<usize, TaskState>>, SlurmError> {
        let arguments = ["--array", "--noheader", "--states=all", "--format=%K|%T|%N|%r", "--jobs", job];
        let output = run("squeue", &arguments.map(OsString::from))?;
        // A job is forgotten some minutes after its end (`MinJobAge`).
        if output.succeeded || output.errors.contains("Invalid job id") {
            return Ok(Some(parsed(&output.said)));
        }
        Ok(None)
    }

    fn cancel(&mut self, job: &str, name: &str, only_waiting: bool) -> Result<(), SlurmError> {
        // Numbers are given out again after years, or when a cluster is set up anew: the name is checked too.
        let mut arguments = vec![OsString::from(format!("--jobname={name}"))];
        if only_waiting {
            arguments.push("--state=PENDING".into());
        }
        arguments.push(job.into());
        run("scancel", &arguments).map(drop)
    }
}

impl Slurm {
    /// Checks that jobs can be submitted from this machine.
    ///
    /// # Errors
    /// If Slurm's programs are not there.
    pub fn require() -> Result<(), SlurmError> {
        run("sbatch", &["--version".into()]).map(drop)
    }

    /// Processors of a partition, or of the default one, that are not out of order.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub fn processors(partition: Option<&str>) -> Result<usize, SlurmError> {
        let mut arguments = vec![OsString::from("--noheader"), "--format=%P|%C".into()];
        arguments.extend(partition.map(|name| format!("--partition={name}").into()));
        let output = run("sinfo", &arguments)?;
        match usable_processors(&output.said, partition.is_some()) {
            Some(processors) if output.succeeded => Ok(processors),
            _ if !output.errors.trim().is_empty() => {
                Err(SlurmError::NoAnswer { said: output.errors.trim().to_owned() })
            }
            _ => Err(SlurmError::NoProcessors {
                partition: partition
                    .map_or_else(|| "the default partition".to_owned(), |p| format!("the partition {p}")),
            }),
        }
    }
}

/// Of lines `partition|allocated/idle/other/total`, in which the default partition has a `*`.
fn usable_processors(said: &str, any_partition: bool) -> Option<usize> {
    let lines = said.lines().filter_map(|line| line.split_once('|'));
    let numbers = lines.filter(|(name, _)| any_partition || name.ends_with('*')).filter_map(|(_, counts)| {
        let mut counts = counts.trim().split('/').map(|count| count.parse::<usize>().ok());
        Some(counts.next()?? + counts.next()??)
    });
    let sum: usize = numbers.sum();
    (sum > 0).then_some(sum)
}

struct Said {
    succeeded: bool,
    said: String,
    errors: String,
}

fn run(program: &'static str, arguments: &[OsString]) -> Result<Said, SlurmError> {
    let mut command = Command::new(program);
    // What a user has set for the output of these programs by hand would be in the way.
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C");
    for variable in ["SQUEUE_FORMAT", "SQUEUE_STATES", "SQUEUE_SORT", "SINFO_FORMAT", "SINFO_SORT"] {
        command.env_remove(variable);
    }
    let output = command.output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => SlurmError::NotThere { program },
        _ => SlurmError::NotStarted { program, reason: e.to_string() },
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said { succeeded: output.status.success(), said: text(&output.stdout), errors: text(&output.stderr) })
}

/// Of lines `task|state|node|reason`.
fn parsed(said: &str) -> BTreeMap<usize, TaskState> {
    let lines = said.lines().filter_map(|line| {
        let mut fields = line.splitn(4, '|').map(str::trim);
        let task = fields.next()?.parse().ok()?;
        let (state, node, reason) = (fields.next()?, fields.next()?, fields.next()?);
        Some((task, state_of(state, node, reason)))
    });
    lines.collect()
}

/// The states are those of squeue(1), "JOB STATE CODES". In `COMPLETING`, the task itself has ended and the node cleans up, which a
/// dead node never does. A state of a later version counts as one in which the task still runs.
fn state_of(state: &str, node: &str, reason: &str) -> TaskState {
    match state {
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "RESV_DEL_HOLD"
        | "SPECIAL_EXIT" => TaskState::Waits(reason.to_owned()),
        "BOOT_FAIL" | "CANCELLED" | "COMPLETED" | "COMPLETING" | "DEADLINE" | "FAILED" | "NODE_FAIL"
        | "OUT_OF_MEMORY" | "PREEMPTED" | "REVOKED" | "TIMEOUT" => {
            TaskState::Ended(state.to_owned(), node.to_owned())
        }
        _ => TaskState::Runs(node.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read() {
        let said =
            "2|PENDING||Resources\n0|RUNNING|n1|None\n1|NODE_FAIL|n2|None\n3|STAGE_OUT|n3|a|b\nN/A|x\n";
        let expected = [
            (0, TaskState::Runs("n1".to_owned())),
            (1, TaskState::Ended("NODE_FAIL".to_owned(), "n2".to_owned())),
            (2, TaskState::Waits("Resources".to_owned())),
            (3, TaskState::Runs("n3".to_owned())),
        ];
        assert_eq!(parsed(said), BTreeMap::from(expected));
    }

    #[test]
    fn processors_that_are_out_of_order_do_not_count() {
        let said = "debug*|3/5/8/16\nlong|10/20/0/30\n";
        assert_eq!(usable_processors(said, false), Some(8));
        assert_eq!(usable_processors("long|10/20/0/30\n", true), Some(30));
        assert_eq!(usable_processors("", false), None);
        assert_eq!(usable_processors("debug*|0/0/16/16\n", false), None);
    }

    #[test]
    fn what_is_not_installed_is_said() {
        let error = run("nestor-no-such-program", &[]).err().unwrap();
        assert!(error.to_string().starts_with("`nestor-no-such-program` is not installed here"), "{error}");
    }
}
