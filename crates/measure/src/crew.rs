//! Several benches that run cells side by side: each takes the next cell as soon as it has finished one.
//!
//! One thread hands out cells and stores results; each bench runs in a thread of its own. The benches report over one channel, in
//! order.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use nestor_stack::Stack;
use nestor_workload::Workload;

use crate::bench::Bench;
use crate::cell::{CellEnd, CellRequest};
use nestor_results::PlannedCell;
use nestor_results::TraceMode;

/// A cell as it is handed to a bench.
pub(crate) struct Order {
    pub cell: PlannedCell,
    pub stack: Stack,
    pub workload: Workload,
    /// Name and hash of the study that the result is kept under.
    pub study: Option<(String, String)>,
    pub seed: u64,
    pub trace: TraceMode,
    pub trace_to: Option<PathBuf>,
}

impl Order {
    fn request(&self) -> CellRequest<'_> {
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

/// A report of a bench.
pub(crate) enum Said {
    /// Its current activity.
    Step(String),
    /// A cell has ended.
    Ended(Box<(PlannedCell, CellEnd)>),
}

enum FromBench {
    Step(String),
    Ended(usize, Box<(PlannedCell, CellEnd)>),
    /// It has failed.
    IsLost,
}

/// Benches at work.
pub(crate) struct Crew<'scope> {
    orders: Vec<Sender<Order>>,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
    said: Receiver<FromBench>,
    free: Vec<usize>,
}

impl<'scope> Crew<'scope> {
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

    /// Whether a bench is free.
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether all benches are free.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.orders.len()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Hands a cell to a free bench.
    pub fn begin(&mut self, order: Order) {
        if let Some(bench) = self.free.pop() {
            // A lost bench reports itself.
            let _ = self.orders[bench].send(order);
        }
    }

    /// Waits for the next report of a bench.
    ///
    /// # Panics
    /// If a bench has panicked, with its panic.
    pub fn hear(&mut self) -> Said {
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

    fn pass_on_panic(&mut self) {
        self.orders.clear();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
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
