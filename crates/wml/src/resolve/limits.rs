//! What a run asks for in all.

use std::collections::HashSet;
use std::mem::Discriminant;

use super::Result;
use crate::Span;
use crate::error::Fault;
use crate::limits::{
    MOST_BUFFER_BYTES, MOST_COUNTED, MOST_DESCRIPTORS, MOST_FILES, MOST_SET_BYTES, MOST_STEPS,
    MOST_THREAD_BYTES, MOST_THREADS, ROTATING_FDS, WHOLE_FILE_BYTES,
};
use crate::plan::{FileSet, Flowop, FlowopKind, Process, Thread, Value};

/// The mean of what is drawn.
pub(super) fn mean(value: &Value) -> f64 {
    match value {
        Value::Fixed(number) => *number as f64,
        Value::Drawn(variable) => variable.mean(),
    }
}

/// # Errors
/// The file set that is one too many.
pub(super) fn check_file_sets(sets: &[FileSet]) -> Result<()> {
    let (mut files, mut bytes) = (0_u64, 0.0);
    for set in sets {
        files = files.saturating_add(set.entries).saturating_add(set.leaf_directories);
        if files > MOST_FILES {
            let problem = format!("this makes {files} files and leaf directories in all");
            return Err(Fault::misfit(&set.span, problem, format!("at most {MOST_FILES} are allowed")));
        }
        bytes += mean(&set.file_bytes) * set.entries as f64;
        if bytes > MOST_SET_BYTES as f64 {
            let problem = format!("this makes files of {bytes:.0} bytes in all");
            return Err(Fault::misfit(&set.span, problem, format!("at most {MOST_SET_BYTES} are allowed")));
        }
    }
    Ok(())
}

/// What a thread asks for.
#[derive(Default)]
struct Wants {
    steps: u64,
    descriptors: u64,
    buffer_bytes: u64,
}

impl Wants {
    fn of(thread: &Thread) -> Self {
        let mut wants = Self::default();
        wants.add(&thread.flowops);
        wants
    }

    fn add(&mut self, flowops: &[Flowop]) {
        for flowop in flowops {
            self.steps += 1;
            let largest = if flowop.rotate { flowop.fd.max(ROTATING_FDS) } else { flowop.fd };
            self.descriptors = self.descriptors.max(u64::from(largest) + 1);
            let bytes = match flowop.kind {
                FlowopKind::ReadWholeFile if flowop.io_bytes == Value::Fixed(0) => WHOLE_FILE_BYTES as f64,
                FlowopKind::Read | FlowopKind::ReadWholeFile => mean(&flowop.io_bytes),
                _ => 0.0,
            };
            self.buffer_bytes = self.buffer_bytes.max(bytes as u64);
            if let FlowopKind::Composite(inner) = &flowop.kind {
                self.add(inner);
            }
        }
    }
}

/// Flowops whose operations are counted apart.
type Counted<'p> = HashSet<(&'p str, Discriminant<FlowopKind>)>;

fn count<'p>(flowops: &'p [Flowop], counted: &mut Counted<'p>) {
    for flowop in flowops {
        match &flowop.kind {
            FlowopKind::Composite(inner) => count(inner, counted),
            kind => drop(counted.insert((&flowop.name, std::mem::discriminant(kind)))),
        }
    }
}

/// # Errors
/// The process with which it is too much; `processes` come with their places.
pub(super) fn check_processes(processes: &[(Span, Process)], file_sets: usize) -> Result<()> {
    let mut all = [0_u64; 5];
    let (mut counted, mut definitions) = (Counted::new(), 0);
    for (span, process) in processes {
        for thread in &process.threads {
            let threads = process.instances.saturating_mul(thread.instances);
            let wants = Wants::of(thread);
            // A thread remembers something of each file set too.
            let steps = wants.steps.max(file_sets as u64);
            for (sum, each) in
                all.iter_mut().zip([1, steps, wants.descriptors, wants.buffer_bytes, thread.memory_bytes])
            {
                *sum = sum.saturating_add(threads.saturating_mul(each));
            }
            count(&thread.flowops, &mut counted);
            definitions += 1;
        }
        let limits = [
            (all[0], MOST_THREADS, "threads"),
            (all[1], MOST_STEPS, "flowops and file sets of single threads"),
            (all[2], MOST_DESCRIPTORS, "descriptors (fd) of single threads"),
            (all[3], MOST_BUFFER_BYTES, "bytes of memory that threads read into (iosize)"),
            (all[4], MOST_THREAD_BYTES, "bytes of memory of threads (memsize)"),
            (counted.len() as u64, MOST_COUNTED as u64, "flowops of different names"),
            (definitions, MOST_COUNTED as u64, "definitions of threads"),
        ];
        for (found, most, what) in limits {
            if found > most {
                let problem = format!("this process makes {found} {what} in all");
                return Err(Fault::misfit(span, problem, format!("a run can have at most {most}")));
            }
        }
    }
    Ok(())
}
