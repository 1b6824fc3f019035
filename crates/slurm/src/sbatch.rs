//! What `sbatch` is told.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// The script of every task. It is the same whatever is run: the program and the file that says what to do are arguments of it, and
/// no shell interprets them.
pub const SCRIPT: &str = r#"#!/bin/sh
# Made by Nestor. The arguments are the program, and the file that says what the tasks of this array job do.
if [ ! -r "$2" ] || [ ! -x "$1" ]; then
    echo "error: on ${SLURMD_NODENAME:-this node} there is no $2, or $1 cannot be run" >&2
    exit 1
fi
exec "$1" slurm-task "$2"
"#;

/// How tasks are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The partition; Slurm's default if `None`.
    pub partition: Option<String>,
    /// Tasks that run at the same time at most.
    pub at_once: usize,
    /// The time after which Slurm ends a task; the partition's if `None`.
    pub time_limit: Option<Duration>,
    /// MiB of memory for each task.
    pub memory_mib: u64,
    /// Further arguments of `sbatch`, the last ones, so that they prevail.
    pub arguments: Vec<String>,
}

/// The arguments of `sbatch` for an array of `tasks` tasks. `directory` is where their output goes, and where `script` and `job` are.
pub fn arguments(
    request: &Request,
    name: &str,
    tasks: usize,
    without_nodes: &[String],
    files: &SubmittedFiles<'_>,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![
        "--parsable".into(),
        // A task that was lost is handed out again with a results file of its own: it may still be running somewhere.
        "--no-requeue".into(),
        format!("--job-name={name}").into(),
        format!("--array=0-{}%{}", tasks.saturating_sub(1), request.at_once.max(1)).into(),
        "--ntasks=1".into(),
        // A host in virtual time is one thread.
        "--cpus-per-task=1".into(),
        format!("--mem={}M", request.memory_mib).into(),
        with("--chdir=", files.directory),
        // Relative to the directory above, in whose path a `%` would be replaced.
        "--output=task-%a.log".into(),
    ];
    arguments.extend(request.partition.iter().map(|partition| format!("--partition={partition}").into()));
    arguments.extend(request.time_limit.iter().map(|limit| format!("--time={}", slurm_time(*limit)).into()));
    if !without_nodes.is_empty() {
        arguments.push(format!("--exclude={}", without_nodes.join(",")).into());
    }
    arguments.extend(request.arguments.iter().map(OsString::from));
    arguments.extend([files.script.into(), files.program.into(), files.job.into()]);
    arguments
}

/// The files that an array job consists of, by absolute paths.
#[derive(Clone, Copy, Debug)]
pub struct SubmittedFiles<'a> {
    /// Where the output goes.
    pub directory: &'a Path,
    /// [`SCRIPT`].
    pub script: &'a Path,
    /// This program.
    pub program: &'a Path,
    /// The [`ArrayJob`](crate::ArrayJob).
    pub job: &'a Path,
}

fn with(option: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(path);
    argument
}

/// `hours:minutes:seconds`, as sbatch(1) takes it.
fn slurm_time(time: Duration) -> String {
    let seconds = time.as_secs().max(1);
    format!("{}:{:02}:{:02}", seconds / 3600, seconds % 3600 / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(request: &Request, without: &[String]) -> String {
        let directory = Path::new("/home/it's me/$(rm) 50%/array-1");
        let [script, program, job] = ["task.sh", "nestor", "job.json"].map(|name| directory.join(name));
        let files = SubmittedFiles { directory, script: &script, program: &program, job: &job };
        let arguments = arguments(request, "nestor-quick-0123456789abcdef", 23, without, &files);
        arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_sbatch_is_told() {
        let request = Request { at_once: 2, memory_mib: 2048, ..Request::default() };
        insta::assert_snapshot!(shown(&request, &[]), @r"
        --parsable
        --no-requeue
        --job-name=nestor-quick-0123456789abcdef
        --array=0-22%2
        --ntasks=1
        --cpus-per-task=1
        --mem=2048M
        --chdir=/home/it's me/$(rm) 50%/array-1
        --output=task-%a.log
        /home/it's me/$(rm) 50%/array-1/task.sh
        /home/it's me/$(rm) 50%/array-1/nestor
        /home/it's me/$(rm) 50%/array-1/job.json
        ");
    }

    #[test]
    fn the_users_arguments_come_last_and_prevail() {
        let request = Request {
            partition: Some("long".to_owned()),
            at_once: 100,
            time_limit: Some(Duration::from_secs(36 * 3600 + 61)),
            memory_mib: 1500,
            arguments: vec!["--account=lab; rm".to_owned(), "--mem=0".to_owned()],
        };
        let shown = shown(&request, &["n1".to_owned(), "n7".to_owned()]);
        let options: Vec<&str> = shown.lines().skip(9).take(5).collect();
        let expected =
            ["--partition=long", "--time=36:01:01", "--exclude=n1,n7", "--account=lab; rm", "--mem=0"];
        assert_eq!(options, expected);
    }

    #[test]
    fn the_script_hands_its_arguments_on_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let [script, program, job] =
            ["task.sh", "it's $(touch x) a program", "a `job` \"file\""].map(|name| folder.path().join(name));
        std::fs::write(&script, SCRIPT).unwrap();
        std::fs::write(&job, "").unwrap();
        std::os::unix::fs::symlink("/bin/echo", &program).unwrap();
        let run = |job: &Path| {
            let output =
                std::process::Command::new("sh").arg(&script).arg(&program).arg(job).output().unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(run(&job), (true, format!("slurm-task {}\n", job.display())));
        assert!(!run(Path::new("/no/such/file")).0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing was made");
    }
}
