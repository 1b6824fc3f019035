//! Steps run by the real programs, in a directory of their own.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use nestor_workload::{Ended, LoadResult, OperationClass, Place, Step, StepOutput, Target, Timed, Workload};

/// Runs a step as a machine would. `{nestor} load timed` is done here, but for processor times and memory.
pub fn run(step: &Step) -> StepOutput {
    for (path, content) in &step.input_files {
        std::fs::write(path, content).unwrap();
    }
    let (argv, as_root, timed) = match &step.argv[..] {
        [nestor, load, timed, option, result, rest @ ..] if nestor == "{nestor}" => {
            assert_eq!([load, timed, option], ["load", "timed", "--result"]);
            let dashes = rest.iter().position(|argument| argument == "--").unwrap();
            let (as_root, argv) = (&rest[..dashes], &rest[dashes + 1..]);
            (argv, as_root.iter().map(|a| a.strip_prefix("--as-root=").unwrap()).collect(), Some(result))
        }
        argv => (argv, Vec::new(), None),
    };
    // SAFETY: a system call without arguments that cannot fail.
    let as_root = if unsafe { libc::geteuid() } == 0 { as_root } else { Vec::new() };
    let start = Instant::now();
    let output = Command::new(&argv[0]).args(&argv[1..]).args(as_root).stdin(Stdio::null()).output();
    let elapsed_ns = start.elapsed().as_nanos() as u64;
    let (ended, stdout, stderr) = match output {
        Err(_) => (Ended::NoProgram, Vec::new(), Vec::new()),
        Ok(output) => {
            let ended = match output.status.code() {
                Some(code) => Ended::Code(code),
                None => Ended::Signal(output.status.signal().expect("it ended one way or the other")),
            };
            (ended, output.stdout, output.stderr)
        }
    };
    if let Some(path) = timed {
        let timed = Timed { ended: ended.clone(), elapsed_ns, user_s: 0.0, system_s: 0.0, max_rss_bytes: 0 };
        std::fs::write(path, serde_json::to_string(&timed).unwrap()).unwrap();
    }
    let read = |path: &String| std::fs::read_to_string(path).ok().map(|text| (path.clone(), text));
    StepOutput {
        ended,
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
        files: step.output_files.iter().filter_map(read).collect(),
    }
}

/// A directory for the workload and one for the logs.
pub struct Bench(pub tempfile::TempDir);

impl Bench {
    pub fn new() -> Self {
        let bench = Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        std::fs::create_dir(bench.0.path().join("top:1")).unwrap();
        std::fs::create_dir(bench.0.path().join("scratch")).unwrap();
        bench
    }

    /// A directory whose name holds fio's separator.
    pub fn top(&self) -> std::path::PathBuf {
        self.0.path().join("top:1")
    }

    pub fn place(&self) -> Place {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        Place { target: Target::Directory(text(&self.top())), scratch: text(&self.0.path().join("scratch")) }
    }

    pub fn prepare(&self, workload: &Workload, place: &Place) {
        for step in workload.prepare(place, 1) {
            workload.check_preparation(&run(&step)).unwrap();
        }
    }

    /// The result and fio's own report, if it was fio.
    pub fn measure(&self, text: &str) -> (LoadResult, serde_json::Value) {
        let workload = Workload::parse(text).unwrap();
        self.prepare(&workload, &self.place());
        let output = run(&workload.measure(&self.place(), 1));
        let result = workload.parse_output(&output).unwrap();
        let report = output.stdout.find('{').and_then(|at| serde_json::from_str(&output.stdout[at..]).ok());
        (result, report.unwrap_or_default())
    }
}

pub fn class<'r>(result: &'r LoadResult, name: &str) -> &'r nestor_workload::OperationResult {
    &result.operations[&OperationClass(name.to_owned())]
}
