//! Whether a script can run at all, as far as its text and its plan tell: nothing is touched.

use nestor_wml::{Action, Flowop, FlowopKind, Script, Span, Value};

use crate::error::FlowError;
use crate::options::file_sets;
use crate::program::Program;
use crate::source::Source;
use crate::tree::{Tree, check_shape};

/// Looks for what would end a run before it begins, or at the first use of a flowop.
///
/// # Errors
/// The first such place, with its line and column.
pub fn check(script: &Script, source: Source<'_>) -> Result<(), FlowError> {
    let cannot = |span: &Span, problem: String| {
        let (line, column) = source.place_of(span);
        FlowError::CannotRun { script: source.name.to_owned(), line, column, problem }
    };
    for set in file_sets(script) {
        check_shape(set).map_err(|why| cannot(&set.span, format!("file set {} {why}", set.name)))?;
    }
    for action in &script.actions {
        let Action::Run(run) = action else { continue };
        for thread in run.processes.iter().flat_map(|process| &process.threads) {
            if let Some((flowop, problem)) = impossible(&thread.flowops) {
                return Err(cannot(&flowop.span, format!("flowop {} {problem}", flowop.name)));
            }
        }
    }
    Ok(())
}

/// The first flowop that fails whenever it is used.
fn impossible(flowops: &[Flowop]) -> Option<(&Flowop, &'static str)> {
    use FlowopKind::{AioWrite, AppendFile, AppendFileRandom, Composite, Read, Write};
    flowops.iter().find_map(|flowop| match &flowop.kind {
        Composite(inner) => impossible(inner),
        Read | Write | AppendFile | AppendFileRandom | AioWrite if flowop.io_bytes == Value::Fixed(0) => {
            Some((flowop, MOVES_NOTHING))
        }
        AioWrite if !flowop.random => Some((flowop, ASYNCHRONOUS_IN_ORDER)),
        _ => None,
    })
}

/// What is wrong with an operation of no bytes.
pub(crate) const MOVES_NOTHING: &str = "moves no data: give it iosize=";
/// What is wrong with an asynchronous write without `random`.
pub(crate) const ASYNCHRONOUS_IN_ORDER: &str =
    "writes asynchronously and sequentially, which has no meaning: add random";

/// Plans everything that a script asks for, up to the first file and the first thread: for tests of what [`check`] lets pass.
///
/// # Errors
/// A tree that cannot be made.
pub fn plan(script: &Script, source: Source<'_>, data_seed: u64) -> Result<(), FlowError> {
    check(script, source)?;
    for action in &script.actions {
        let sets = match action {
            Action::CreateFiles(sets) => sets,
            Action::Run(run) => {
                let program = Program::new(&run.processes, 1);
                assert!(program.thread_count() as u64 <= nestor_wml::limits::MOST_THREADS);
                &run.file_sets
            }
            _ => continue,
        };
        for (number, set) in sets.iter().enumerate() {
            let tree = Tree::plan(set, data_seed, number as u64)?;
            assert!(tree.preallocated_bytes() <= tree.bytes());
        }
    }
    Ok(())
}
