//! The threads of a run and the flowops whose operations are counted.

use std::collections::BTreeMap;

use nestor_wml::{Flowop, FlowopKind, Process, Thread};

use crate::recorder::Recorder;

/// A flowop whose operations are counted: all of one name and kind, in all threads.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) group: Group,
    pub(crate) recorder: Recorder,
}

/// What a flowop's time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Another operation of the file system.
    OtherIo,
    /// Waits for another thread, for a rate or for a time; or uses the processor.
    Waiting,
}

impl Group {
    /// Whether it counts as an operation of the workload.
    pub(crate) fn is_io(self) -> bool {
        self != Self::Waiting
    }

    /// Whether it moves data.
    pub(crate) fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// A flowop with its number.
pub(crate) struct Step<'p> {
    pub(crate) flowop: &'p Flowop,
    /// Index into [`Program::rows`]; of a composite flowop meaningless.
    pub(crate) row: usize,
    /// Number among the steps of its thread, for what a thread remembers of each.
    pub(crate) number: usize,
    /// Steps of a composite flowop.
    pub(crate) inner: Vec<Step<'p>>,
}

/// All threads of one definition.
pub(crate) struct ThreadPlan<'p> {
    /// Number among the plans of its program.
    pub(crate) number: usize,
    pub(crate) process: &'p Process,
    pub(crate) thread: &'p Thread,
    pub(crate) steps: Vec<Step<'p>>,
    /// How many steps there are, inner ones included.
    pub(crate) step_count: usize,
}

impl ThreadPlan<'_> {
    /// How many threads follow it, in all instances of its process.
    pub(crate) fn instances(&self) -> u64 {
        self.process.instances * self.thread.instances
    }
}

/// A run, ready to be started.
pub(crate) struct Program<'p> {
    pub(crate) threads: Vec<ThreadPlan<'p>>,
    pub(crate) rows: Vec<Row>,
    /// Whether anything asks how much all threads together have done.
    pub(crate) counts_totals: bool,
}

impl<'p> Program<'p> {
    pub(crate) fn new(processes: &'p [Process], shards: usize) -> Self {
        let mut rows = Rows { rows: Vec::new(), index: BTreeMap::new(), shards };
        let mut counts_totals = false;
        let mut threads = Vec::new();
        for process in processes {
            for thread in &process.threads {
                let mut number = 0;
                let steps = compile(&thread.flowops, &mut rows, &mut number);
                counts_totals |= any(&steps, &|flowop| asks_for_totals(flowop));
                threads.push(ThreadPlan {
                    number: threads.len(),
                    process,
                    thread,
                    steps,
                    step_count: number,
                });
            }
        }
        Self { threads, rows: rows.rows, counts_totals }
    }

    /// How many threads there will be.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.iter().map(|plan| plan.instances() as usize).sum()
    }

    /// Calls `visit` with every flowop, inner ones included.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(&ThreadPlan<'p>, &Step<'p>)) {
        for thread in &self.threads {
            each_step(&thread.steps, &mut |step| visit(thread, step));
        }
    }
}

fn each_step<'s, 'p>(steps: &'s [Step<'p>], visit: &mut dyn FnMut(&'s Step<'p>)) {
    for step in steps {
        visit(step);
        each_step(&step.inner, visit);
    }
}

fn any(steps: &[Step<'_>], wanted: &dyn Fn(&Flowop) -> bool) -> bool {
    steps.iter().any(|step| wanted(step.flowop) || any(&step.inner, wanted))
}

fn asks_for_totals(flowop: &Flowop) -> bool {
    use FlowopKind::{BandwidthLimit, FinishOnBytes, FinishOnCount, IopsLimit, OpsLimit};
    flowop.target.is_none()
        && matches!(flowop.kind, BandwidthLimit | FinishOnBytes | FinishOnCount | IopsLimit | OpsLimit)
}

struct Rows {
    rows: Vec<Row>,
    index: BTreeMap<(String, &'static str), usize>,
    shards: usize,
}

impl Rows {
    fn of(&mut self, flowop: &Flowop) -> usize {
        let kind = word(&flowop.kind);
        *self.index.entry((flowop.name.clone(), kind)).or_insert_with(|| {
            self.rows.push(Row {
                name: flowop.name.clone(),
                kind,
                group: group(&flowop.kind),
                recorder: Recorder::new(self.shards),
            });
            self.rows.len() - 1
        })
    }
}

fn compile<'p>(flowops: &'p [Flowop], rows: &mut Rows, number: &mut usize) -> Vec<Step<'p>> {
    let mut steps = Vec::new();
    for flowop in flowops {
        let own = *number;
        *number += 1;
        let (row, inner) = match &flowop.kind {
            FlowopKind::Composite(inner) => (usize::MAX, compile(inner, rows, number)),
            _ => (rows.of(flowop), Vec::new()),
        };
        steps.push(Step { flowop, row, number: own, inner });
    }
    steps
}

/// A flowop's word in the language.
pub(crate) fn word(kind: &FlowopKind) -> &'static str {
    match kind {
        FlowopKind::Composite(_) => "composite",
        FlowopKind::Read => "read",
        FlowopKind::Write => "write",
        FlowopKind::OpenFile => "openfile",
        FlowopKind::CreateFile => "createfile",
        FlowopKind::CloseFile => "closefile",
        FlowopKind::MakeDirectory => "makedir",
        FlowopKind::RemoveDirectory => "removedir",
        FlowopKind::ListDirectory => "listdir",
        FlowopKind::Fsync => "fsync",
        FlowopKind::FsyncSet => "fsyncset",
        FlowopKind::StatFile => "statfile",
        FlowopKind::ReadWholeFile => "readwholefile",
        FlowopKind::AppendFile => "appendfile",
        FlowopKind::AppendFileRandom => "appendfilerand",
        FlowopKind::DeleteFile => "deletefile",
        FlowopKind::WriteWholeFile => "writewholefile",
        FlowopKind::AioWrite => "aiowrite",
        FlowopKind::AioWait => "aiowait",
        FlowopKind::Block => "block",
        FlowopKind::WakeUp => "wakeup",
        FlowopKind::SemaphoreBlock => "semblock",
        FlowopKind::SemaphorePost => "sempost",
        FlowopKind::Hog => "hog",
        FlowopKind::Delay => "delay",
        FlowopKind::EventLimit => "eventlimit",
        FlowopKind::BandwidthLimit => "bwlimit",
        FlowopKind::IopsLimit => "iopslimit",
        FlowopKind::OpsLimit => "opslimit",
        FlowopKind::FinishOnCount => "finishoncount",
        FlowopKind::FinishOnBytes => "finishonbytes",
        FlowopKind::Print => "print",
        FlowopKind::TestRandomVariable => "testrandvar",
    }
}

/// Filebench's `flowoplib_funcs`: which flowops count as reads, writes, other I/O, or none.
fn group(kind: &FlowopKind) -> Group {
    use FlowopKind::{
        AioWait, AioWrite, AppendFile, AppendFileRandom, CloseFile, CreateFile, DeleteFile, Fsync, FsyncSet,
        ListDirectory, MakeDirectory, OpenFile, Read, ReadWholeFile, RemoveDirectory, StatFile, Write,
        WriteWholeFile,
    };
    match kind {
        Read | ReadWholeFile => Group::Read,
        Write | AppendFile | AppendFileRandom | WriteWholeFile | AioWrite => Group::Write,
        OpenFile | CreateFile | CloseFile | MakeDirectory | RemoveDirectory | ListDirectory | Fsync
        | FsyncSet | StatFile | DeleteFile => Group::OtherIo,
        // Unlike in Filebench, where the wait counts as an operation: the writes it waits for are counted, with the time they took.
        AioWait => Group::Waiting,
        _ => Group::Waiting,
    }
}
