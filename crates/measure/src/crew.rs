//! Who runs the cells of a campaign: benches side by side, of which each takes the next cell as soon as it has finished one; or
//! whoever else can be handed cells and reports how they ended.
//!
//! One thread hands out cells and stores results; each bench runs in a thread of its own. The benches report over one channel, in
//! order.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use nestor_stack::Stack;
use nestor_workload::Workload;

use crate::bench::Bench;
use crate::cell::{CellEnd, CellRequest};
use nestor_results::PlannedCell;
use nestor_results::TraceMode;

/// Runs the cells of a campaign, several at a time. What it reports decides what it is handed next.
pub trait Crew {
    /// Whether it takes another cell now.
    fn has_free(&self) -> bool;

    /// Whether it has reported the end of every cell that it was handed.
    fn is_idle(&self) -> bool;

    /// How many cells it runs at the same time; at least 1.
    fn side_by_side(&self) -> usize;

    /// Takes a cell.
    fn begin(&mut self, order: Order);

    /// Waits for the next report, which comes at least every few seconds.
    fn hear(&mut self) -> Said;

    /// Gives up the cells that have not begun yet, and reports them as not run.
    fn withdraw(&mut self) {}
}

/// A cell as it is handed to a crew.
#[derive(Clone, Debug)]
pub struct Order {
    /// The cell, and its place in the study.
    pub cell: PlannedCell,
    /// Its stack.
    pub stack: Stack,
    /// Its workload.
    pub workload: Workload,
    /// Name and hash of the study that the result is kept under.
    pub study: Option<(String, String)>,
    /// Decides everything that differs between repeats.
    pub seed: u64,
    /// How much to record.
    pub trace: TraceMode,
    /// A directory that is to keep what was recorded.
    pub trace_to: Option<PathBuf>,
    /// How long the cell is expected to take.
    pub expected: Duration,
    /// The digest of what its numbers depend on, where that decides them.
    pub depends_on: Option<String>,
}

impl Order {
    /// What a bench is asked to run.
    pub fn request(&self) -> CellRequest<'_> {
        let key = &self.cell.key;
        CellRequest {
            stack: &self.stack,
            workload: &self.workload,
            study: self.study.as_ref().map(|(name, _)| name.as_str()),
            study_hash: self.study.as_ref().map(|(_, hash)| hash.as_str()),
            block: key.block,
            repeat: key.repeat,
            position: self.cell.position,
            seed: self.seed,
            trace: self.trace,
            untraced_twin: key.untraced_twin,
            trace_to: self.trace_to.as_deref(),
        }
    }
}

/// A report of a crew.
pub enum Said {
    /// Its current activity.
    Step(String),
    /// A cell has ended.
    Ended(Box<(PlannedCell, CellEnd)>),
    /// A cell will have no result, and why.
    NotRun(Box<PlannedCell>, String),
    /// No cell can be run any more, and why. Those that it was handed are reported one by one.
    Stopped(String),
}

enum FromBench {
    Step(String),
    Ended(usize, Box<(PlannedCell, CellEnd)>),
    /// It has failed.
    IsLost,
}

/// Benches at work.
pub(crate) struct Benches<'scope> {
    orders: Vec<Sender<Order>>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
    said: Receiver<FromBench>,
    free: Vec<usize>,
}

impl<'scope> Benches<'scope> {
    /// Puts each bench into a thread of its own.
    pub fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        benches: Vec<&'env mut (dyn Bench + Send)>,
    ) -> Self {
        let (mouth, said) = channel();
        let mut crew = Self { orders: Vec::new(), threads: Vec::new(), said, free: Vec::new() };
        for (number, bench) in benches.into_iter().enumerate() {
            let (sender, orders) = channel();
            let mouth = mouth.clone();
            crew.orders.push(sender);
            crew.threads.push(scope.spawn(move || work(number, bench, &orders, &mouth)));
            crew.free.push(number);
        }
        // The first bench begins.
        crew.free.reverse();
        crew
    }

    fn pass_on_panic(&mut self) {
        self.orders.clear();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Crew for Benches<'_> {
    fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.orders.len()
    }

    fn side_by_side(&self) -> usize {
        self.orders.len().max(1)
    }

    fn begin(&mut self, order: Order) {
        if let Some(bench) = self.free.pop() {
            // A lost bench reports itself.
            let _ = self.orders[bench].send(order);
        }
    }

    /// Waits for the next report of a bench.
    ///
    /// # Panics
    /// If a bench has panicked, with its panic.
    fn hear(&mut self) -> Said {
        loop {
            match self.said.recv() {
                Ok(FromBench::Step(what)) => return Said::Step(what),
                Ok(FromBench::Ended(bench, ended)) => {
                    self.free.push(bench);
                    return Said::Ended(ended);
                }
                Ok(FromBench::IsLost) | Err(_) => self.pass_on_panic(),
            }
        }
    }
}

/// Reports its bench as lost if its thread panics.
struct Loss<'a>(&'a Sender<FromBench>);

impl Drop for Loss<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(FromBench::IsLost);
        }
    }
}

fn work(number: usize, bench: &mut dyn Bench, orders: &Receiver<Order>, mouth: &Sender<FromBench>) {
    let _loss = Loss(mouth);
    // The receiver is closed once the campaign is over.
    let say = |said| {
        let _ = mouth.send(said);
    };
    while let Ok(order) = orders.recv() {
        let step = |what: &str| say(FromBench::Step(what.to_owned()));
        let end = bench.run_cell(&order.request(), &step);
        say(FromBench::Ended(number, Box::new((order.cell, end))));
    }
}
