mod distributions;
mod errors;
mod language;
mod limits;
mod properties;

use crate::{Action, Flowop, FlowopKind, Run, Script, Source, WmlError, parse};

/// A small script that does something.
const SMALL: &str = "\
set $where=/data
define fileset name=docs,path=$where,entries=40,size=8k,dirwidth=10,prealloc
define process name=p {
  thread name=t,instances=3 {
    flowop openfile name=open,filesetname=docs,fd=1
    flowop readwholefile name=get,fd=1,iosize=4k
    flowop closefile name=close,fd=1
  }
}
run 5
";

fn try_read(text: &str) -> Result<Script, WmlError> {
    parse(&Source::new("test.f", text), &[])
}

fn read(text: &str) -> Script {
    try_read(text).unwrap_or_else(|error| panic!("{error}"))
}

fn read_with(text: &str, overrides: &[(&str, &str)]) -> Result<Script, WmlError> {
    let overrides: Vec<_> =
        overrides.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    parse(&Source::new("test.f", text), &overrides)
}

fn error(text: &str) -> String {
    try_read(text).expect_err("the script is wrong").to_string()
}

fn runs(script: &Script) -> Vec<&Run> {
    let mut runs = Vec::new();
    for action in &script.actions {
        if let Action::Run(run) = action {
            runs.push(run);
        }
    }
    runs
}

/// The script's only run.
fn run(script: &Script) -> &Run {
    match runs(script)[..] {
        [run] => run,
        ref runs => panic!("{} runs", runs.len()),
    }
}

fn warnings(script: &Script) -> String {
    script.warnings.iter().map(|warning| format!("{}: {}\n", warning.line, warning.text)).collect()
}

/// A script with one thread that does this with the file set `docs`.
fn thread(flowops: &str) -> String {
    format!(
        "define fileset name=docs,path=/data,entries=4,dirwidth=2\n\
         define process name=p {{ thread name=t {{\n{flowops}\n}} }}\nrun 1\n"
    )
}

/// The flowops of a script with one thread.
fn flowops(script: &Script) -> &[Flowop] {
    &run(script).processes[0].threads[0].flowops
}

fn inner(flowop: &Flowop) -> &[Flowop] {
    match &flowop.kind {
        FlowopKind::Composite(inner) => inner,
        kind => panic!("{kind:?} is not composite"),
    }
}
