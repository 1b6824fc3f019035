//! What a store knows, as predictions take it.

use std::collections::BTreeMap;

use nestor_results::{
    Executor, Known, KnownCell, KnownDemand, KnownLoad, KnownStack, WrittenStack, WrittenWorkload,
    stack_parts,
};
use nestor_workload::SurfacePoint;

use crate::evidence::Points;
use crate::mechanism::{Below, Machine};
use crate::{Demand, Evidence, MeasuredLoad, Shape};

impl Evidence {
    /// Everything but surfaces, which are no loads, as cells; surfaces as points. Loads of which no request was seen are left out.
    /// `on` names the place in commands, where it has to be named.
    pub fn of(known: &Known, on: Option<String>) -> Self {
        let mut evidence = Self { on, ..Self::default() };
        let mips = known.place.on.modelled_processor().map(|speed| f64::from(speed.mips()));
        evidence.cells = known.cells.iter().filter_map(|cell| measured_load(known, cell, mips)).collect();
        for (name, load) in known.loads.iter().filter(|(name, _)| !is_surface(name)) {
            evidence.shapes.insert(name.clone(), shape(load));
            let family = name.value().map(|workload| workload.family().to_owned()).unwrap_or_default();
            evidence.families.insert(name.clone(), family);
        }
        for (stack, parts) in &known.stacks {
            insert_stack(&mut evidence, stack, parts);
        }
        let points = known.surfaces.iter();
        evidence.points = points.map(|(stack, points)| (stack.clone(), points_of(points))).collect();
        evidence
    }

    /// Adds a stack on which nothing was measured yet: what it is made of is known.
    pub fn add_stack(&mut self, stack: &WrittenStack) {
        if !self.stacks.contains_key(stack) {
            insert_stack(self, stack, &stack_parts(stack));
        }
    }
}

/// Whether it measures the points of a surface and not a load.
pub(crate) fn is_surface(workload: &WrittenWorkload) -> bool {
    workload.value().is_some_and(|workload| workload.demand().is_surface)
}

/// A cell as a load; `None` for surfaces, for what reached nothing, and for loads of which no request was ever recorded: nothing can be
/// said about them. `mips` is the speed of the modelled processor; `None` in real time, where instructions are not seconds.
fn measured_load(known: &Known, cell: &KnownCell, mips: Option<f64>) -> Option<MeasuredLoad> {
    let rate = cell.rate();
    let is_seen = known.loads.get(&cell.workload).is_some_and(|load| load.mean_bytes > 0.0);
    if rate <= 0.0 || !is_seen || is_surface(&cell.workload) {
        return None;
    }
    let place = (cell.stack.clone(), cell.workload.clone());
    let demand = known.demands.get(&place).zip(mips);
    let seen = known.loads_on.get(&place);
    let seen = seen.filter(|seen| seen.mean_bytes > 0.0 && seen.requests_per_s > 0.0);
    Some(MeasuredLoad {
        stack: cell.stack.clone(),
        load: cell.workload.clone(),
        rate,
        operations_per_s: cell.operations_per_second,
        response_s: cell.response_s,
        requests_per_s: seen.map_or(cell.operations_per_second, |seen| seen.requests_per_s),
        request_s: seen.map(|seen| seen.request_s).filter(|time| *time > 0.0),
        shape: seen.map(shape),
        demand: demand.map(|(demand, mips)| seconds_of(demand, mips)),
        runs: cell.runs.clone(),
        run_rates: cell.run_rates.clone(),
    })
}

/// Points of a surface. Those that were measured several times count with their geometric mean.
fn points_of(points: &[(i64, SurfacePoint)]) -> Points {
    let mut found = Points::default();
    let mut sums = BTreeMap::<_, (f64, f64)>::new();
    for (run, point) in points {
        let sum = sums.entry(point.point).or_default();
        *sum = (sum.0 + point.requests_per_s.ln(), sum.1 + 1.0);
        if !found.runs.contains(run) {
            found.runs.push(*run);
        }
    }
    found.rates = sums.into_iter().map(|(point, (logs, count))| (point, (logs / count).exp())).collect();
    found
}

fn insert_stack(evidence: &mut Evidence, stack: &WrittenStack, parts: &KnownStack) {
    evidence.stacks.insert(stack.clone(), parts.clone());
    if let Some(value) = stack.value() {
        evidence.machines.insert(stack.clone(), Machine::of(value));
    }
}

/// In seconds, which a processor of so many million instructions a second takes.
fn seconds_of(demand: &KnownDemand, mips: f64) -> Demand {
    let seconds = |executor: Executor| demand.instructions.get(&executor).map(|count| count / (mips * 1e6));
    let guest_kernel = seconds(Executor::GuestKernel);
    let host_kernel = seconds(Executor::HostKernel).unwrap_or_default();
    Demand {
        application_s: seconds(Executor::Application).unwrap_or_default(),
        // Without a guest, the host's kernel is that of the application.
        kernel_s: guest_kernel.unwrap_or(host_kernel),
        below_s: guest_kernel.map(|_| Below {
            hypervisor_s: seconds(Executor::Hypervisor).unwrap_or_default(),
            host_kernel_s: host_kernel,
        }),
        top_requests: demand.top_requests,
        top_writes: demand.top_writes,
        top_flushes: demand.top_flushes,
        disk_requests: demand.disk_requests,
        disk_flushes: demand.disk_flushes,
        data_s: demand.data_s,
        flush_s: demand.flush_s,
    }
}

fn shape(load: &KnownLoad) -> Shape {
    Shape {
        read_share: load.read_share,
        random_share: load.random_share,
        mean_bytes: load.mean_bytes,
        sizes: Vec::new(),
        flush_share: load.flush_share,
        workers: load.workers,
        think_s: load.think_ms / 1e3,
        outstanding: load.outstanding,
    }
}
