//! Checks that precede any statistic. Their findings become [`Mark`]s.
//!
//! All are pure functions of what was measured. A check that lacks its inputs is silent, except one: where nothing
//! below the application could be recorded, data that fits into memory is taken to come from there.

mod conservation;
mod expected;

use nestor_processor::ProcessorSpeed;
use nestor_stack::{LayerIndex, MachineName};
use nestor_statistics::steady;
use nestor_text::units;
use nestor_trace::metrics::ClassMetrics;
use nestor_trace::{DirectionMetrics, LayerMetrics};
use nestor_workload::Direction;

use crate::Environment;
use crate::record::{LayerRecord, Mark, Measured};

pub use expected::{DirectDisk, Expected};

/// CPUs that were busy for a larger share than this may have set the pace instead of the storage.
pub const CPU_BOUND_ABOVE: f64 = 0.70;
/// A layer that saw a smaller share of the application's bytes than this had a cache above it at work.
pub const CACHED_BELOW: f64 = 0.90;
/// Less data than this gets no verdict on caches: one read-ahead window or one journal commit outweighs it.
const SMALLEST_VOLUME_BYTES: u64 = 1 << 20;
/// A data set should be this many times the memory in front of it (Traeger et al., ACM TOS 4(2), 2008, §3).
const WORKING_SET_OVER_MEMORY: u64 = 2;
/// A larger share of requests that could not be joined is marked.
pub const UNMATCHED_ABOVE: f64 = 0.01;
/// A larger share of a layer's bytes whose use is not known is marked.
pub const UNCLASSIFIED_ABOVE: f64 = 0.02;

/// All marks that the numbers of a cell earn.
pub fn marks(measured: &Measured, environment: &Environment, expected: &Expected) -> Vec<Mark> {
    let mut marks = Vec::new();
    if environment.machines.first().is_some_and(|m| m.accelerator.is_emulation()) {
        marks.push(Mark::EmulatedCpu);
    }
    marks.extend(cpu_bound(measured, environment.modelled_processor()));
    marks.extend(cached(measured, environment, expected.reads_leave_at));
    let violations = conservation::violations(measured, expected);
    marks.extend(violations.into_iter().map(|reason| Mark::Inconsistent { reason }));
    marks.extend(not_steady(measured));
    marks.extend(events_dropped(measured));
    marks.extend(unmatched(measured));
    marks.extend(unclassified(measured));
    marks
}

fn unclassified(measured: &Measured) -> Vec<Mark> {
    let share = |metrics: &LayerMetrics| {
        let bytes = metrics.classes.values().map(ClassMetrics::bytes).fold(0, u64::saturating_add);
        metrics.unclassified_bytes().filter(|_| bytes > 0).map(|unknown| unknown as f64 / bytes as f64)
    };
    traced_below_application(measured)
        .filter_map(|(layer, metrics)| Some((layer, share(metrics)?)))
        .filter(|(_, share)| *share > UNCLASSIFIED_ABOVE)
        .map(|(layer, share)| Mark::Unclassified { layer: layer.layer.clone(), share })
        .collect()
}

fn unmatched(measured: &Measured) -> Option<Mark> {
    let share = measured.correlation.as_ref()?.unmatched_share()?;
    (share > UNMATCHED_ABOVE).then_some(Mark::Unmatched { share })
}

fn cpu_bound(measured: &Measured, modelled: Option<ProcessorSpeed>) -> Vec<Mark> {
    let host_listed = measured.cpu_busy.first().map(|(_, busy)| *busy);
    let host = (MachineName::HOST, measured.host_cpu_busy);
    // The outermost host is normally the first machine of the list; it is added where it is another or missing.
    let extra = (host_listed.is_none_or(|busy| busy < host.1)).then_some(host);
    let mut found: Vec<(MachineName, f64)> = measured.cpu_busy.clone();
    if let Some((label, busy)) = extra {
        match found.iter_mut().find(|(l, _)| *l == label) {
            Some(listed) => listed.1 = listed.1.max(busy),
            None => found.insert(0, (label, busy)),
        }
    }
    let busy = found.into_iter().filter(|(_, busy)| *busy > CPU_BOUND_ABOVE);
    busy.map(|(machine, busy)| Mark::CpuBound { machine, busy, modelled }).collect()
}

/// What a layer counted of one direction.
pub(crate) const fn metrics_of(metrics: &LayerMetrics, direction: Direction) -> &DirectionMetrics {
    match direction {
        Direction::Read => &metrics.read,
        Direction::Write => &metrics.write,
    }
}

fn cached(measured: &Measured, environment: &Environment, reads_leave_at: Option<LayerIndex>) -> Vec<Mark> {
    let traced = measured.indexed_layers().filter_map(|(at, l)| Some((at, l, l.metrics.as_ref()?)));
    let below: Vec<(LayerIndex, &LayerRecord, &LayerMetrics)> = traced.collect();
    let mut marks = Vec::new();
    for direction in Direction::BOTH {
        let bytes = measured.load.bytes_of(direction).unwrap_or(0);
        if bytes < SMALLEST_VOLUME_BYTES {
            continue;
        }
        if below.is_empty() {
            marks.extend(fits_into_memory(measured, environment));
            break;
        }
        let share = |m: &LayerMetrics| metrics_of(m, direction).issued_bytes as f64 / bytes as f64;
        // What is read elsewhere is missed from that layer's lower edge on.
        let is_asked =
            |at: LayerIndex| direction == Direction::Write || reads_leave_at.is_none_or(|leave| at < leave);
        let asked = || below.iter().filter(|(at, ..)| is_asked(*at));
        if let Some((_, layer, metrics)) = asked().find(|(_, _, m)| share(m) < CACHED_BELOW) {
            let part = units::percent(share(metrics));
            let volume = bytes as f64 / f64::from(1 << 20);
            let (verb_past, verb) = match direction {
                Direction::Read => ("read", "was read"),
                Direction::Write => ("wrote", "was written"),
            };
            let reason = format!(
                "of {volume:.1} MiB that the application {verb_past}, {part} {verb} below {layer} ({role}) in the {machine}: \
                 the rest stayed in memory at or above it",
                layer = layer.layer,
                role = layer.role,
                machine = layer.machine,
            );
            marks.push(Mark::Cached { reason });
        }
    }
    marks
}

fn fits_into_memory(measured: &Measured, environment: &Environment) -> Option<Mark> {
    let memory = environment.machines.iter().map(|m| m.memory_bytes).fold(0, u64::saturating_add);
    let working_set = measured.load.working_set_bytes;
    (working_set < memory.saturating_mul(WORKING_SET_OVER_MEMORY)).then(|| Mark::Cached {
        reason: format!(
            "nothing below the application was recorded, and its {} MiB of files are less than {WORKING_SET_OVER_MEMORY} x the {} MiB of memory in front of the medium",
            working_set >> 20,
            memory >> 20
        ),
    })
}

pub(crate) fn traced_below_application(
    measured: &Measured,
) -> impl Iterator<Item = (&LayerRecord, &LayerMetrics)> {
    let layers = measured.layers.iter().filter(|l| !l.is_application());
    layers.filter_map(|l| l.metrics.as_ref().map(|m| (l, m)))
}

/// Bytes of all classes in each whole second of a run, oldest first.
pub fn bytes_by_second(measured: &Measured) -> Vec<f64> {
    let whole_seconds = (measured.load.elapsed_ns / 1_000_000_000) as usize;
    let longest = measured.load.operations.values().map(|o| o.bytes_by_second.len()).max().unwrap_or(0);
    (0..longest.min(whole_seconds))
        .map(|i| {
            let bytes = measured.load.operations.values().filter_map(|o| o.bytes_by_second.get(i));
            bytes.fold(0_u64, |sum, bytes| sum.saturating_add(*bytes)) as f64
        })
        .collect()
}

/// The second after which the run was steady to its end; `None` if it was not, or too short to tell.
pub fn steady_after_s(measured: &Measured) -> Option<usize> {
    steady::steady_from(&bytes_by_second(measured))
}

fn not_steady(measured: &Measured) -> Option<Mark> {
    if measured.has_only_lives() {
        return None;
    }
    let elapsed_s = measured.load.elapsed_ns as f64 / 1e9;
    if elapsed_s < steady::ROUNDS as f64 {
        let reason =
            format!("a run of {elapsed_s:.1} s is too short for {} rounds of a second", steady::ROUNDS);
        return Some(Mark::NotSteady { reason });
    }
    let seconds = bytes_by_second(measured);
    let round = seconds.len() / steady::ROUNDS;
    // Where the engine keeps no log there is nothing to judge.
    if round == 0 {
        return None;
    }
    let settled = &seconds[seconds.len() - round * steady::ROUNDS..];
    let rounds: Vec<f64> = settled.chunks(round).map(|c| c.iter().sum()).collect();
    let found = steady::steady_state(&rounds)?;
    (!found.steady).then(|| Mark::NotSteady {
        reason: format!(
            "over {} rounds of {round} s throughput ranged over {} of its mean (20 % allowed) and drifted by {:+.0} % (10 % allowed)",
            steady::ROUNDS,
            units::percent(found.range),
            found.slope * 100.0
        ),
    })
}

fn events_dropped(measured: &Measured) -> Vec<Mark> {
    traced_below_application(measured)
        .filter(|(_, m)| m.dropped_events > 0)
        .map(|(l, m)| Mark::EventsDropped { layer: l.layer.clone(), events: m.dropped_events })
        .collect()
}
