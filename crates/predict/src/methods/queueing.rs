//! A closed network: workers think, wait for a processor, and wait for a disk whose speed depends on how many requests it has.
//!
//! Where the load's own use of processors is known, that part of its think time is spent at a station with as many servers as the
//! target has processors. The disk's speed is the target's surface at the load's point, over the depth. Where it was measured at
//! one depth only, nobody knows how it is at others, unless as many requests are under way there.

use std::collections::BTreeSet;

use nestor_statistics::Station;
use nestor_statistics::closed_network::{Equilibrium, MOST_CUSTOMERS, StationUse, solve};
use nestor_statistics::surface::Surface;

use super::ratio::time_s;
use super::{Predicted, measure_surface};
use crate::evidence::{Evidence, Question};
use crate::learnt_model::Knowledge;
use crate::missing::Missing;

/// The depths that a curve should have: alone, some, and many.
const WANTED_DEPTHS: [u32; 3] = [1, 8, 64];

pub(super) fn predict(question: &Question, evidence: &Evidence, _: &Knowledge) -> Result<Predicted, Missing> {
    let surface = surface(question, evidence)?;
    let customers = question.shape.customers().min(MOST_CUSTOMERS);
    let (curve, deviation) = speed_by_depth(&surface, question, customers);
    if question.reference.response_s <= 0.0 {
        let what = "the time of a request where the load runs now".to_owned();
        let command = Some(evidence.command("run", &format!("'{}' '{}'", question.from, question.load)));
        return Err(Missing { what, command });
    }
    let (think_s, computing_s) = computing(question);
    let system_s = system_s(question);
    let servers = question.processors.max(1);
    let stations = [
        Station::Delay { demand_s: think_s + system_s },
        Station::Measured { passes_per_s: curve.clone() },
        Station::Queue { demand_s: computing_s, servers },
    ];
    let found = solve(&stations, customers)
        .ok_or_else(|| Missing { what: "workers whose requests take some time".to_owned(), command: None })?;
    let rate = question.reference.rate * found.passes_per_s / question.reference.requests_per_s;
    let mut steps = disk_steps(customers, think_s, &curve, &found);
    if computing_s > 0.0 {
        steps.push(format!(
            "between requests, each worker uses one of {servers} processors for {:.2} ms; they are {:.0} % busy",
            computing_s * 1e3,
            found.passes_per_s * computing_s / f64::from(servers) * 100.0
        ));
    }
    Ok(Predicted { rate, deviation, steps })
}

/// The disk's surface at the place asked for, if it was measured at more than one depth.
fn surface(question: &Question, evidence: &Evidence) -> Result<Surface, Missing> {
    let points = evidence.points.get(&question.to);
    let depths: BTreeSet<u32> =
        points.map(|points| points.rates.iter().map(|(point, _)| point.depth).collect()).unwrap_or_default();
    let missing_depth = WANTED_DEPTHS.into_iter().find(|wanted| !depths.contains(wanted));
    let lacks = |depth| Missing {
        what: format!("surfaces of {} at several depths", question.to),
        command: Some(measure_surface(evidence, &question.to, depth)),
    };
    if depths.len() < 2 {
        return Err(lacks(missing_depth));
    }
    points.and_then(|points| points.surface()).ok_or_else(|| lacks(missing_depth))
}

/// What the workers and the disk do, in sentences.
fn disk_steps(customers: u32, think_s: f64, curve: &[f64], found: &Equilibrium) -> Vec<String> {
    let StationUse { customers: waiting, residence_s, .. } = found.stations[1];
    vec![
        format!(
            "{customers} workers think {:.2} ms and wait for a disk that does {:.0} requests/s for one \
             worker and {:.0} for {}",
            think_s * 1e3,
            curve.first().copied().unwrap_or_default(),
            curve.last().copied().unwrap_or_default(),
            curve.len()
        ),
        format!(
            "{:.1} requests/s; {waiting:.1} are at the disk, for {:.2} ms each",
            found.passes_per_s,
            residence_s * 1e3
        ),
    ]
}

/// Requests per second with one under way, with two, up to the deepest that was measured.
fn speed_by_depth(surface: &Surface, question: &Question, customers: u32) -> (Vec<f64>, f64) {
    let deepest = surface.points().iter().map(|(point, _)| point.depth).max().unwrap_or(1);
    let each: Vec<(f64, f64)> =
        (1..=deepest.min(customers).max(1)).map(|depth| time_s(surface, &question.shape, depth)).collect();
    let speeds: Vec<f64> = each.iter().map(|(time, _)| 1.0 / time).collect();
    let at = (question.shape.outstanding.round() as usize).clamp(1, each.len()) - 1;
    (speeds, each[at].1)
}

/// What a worker does between requests, in seconds: thinking, and computing as long as that takes on the target. Unknown computing
/// is thinking.
fn computing(question: &Question) -> (f64, f64) {
    let think_s = question.shape.think_s;
    let (machine, reference) = (question.machine, &question.reference);
    let here_s = reference.processors_busy / reference.requests_per_s;
    if here_s <= 0.0 || !here_s.is_finite() || question.processors == 0 {
        return (think_s * (1.0 + machine.overhead_share) * machine.compute_scale, 0.0);
    }
    let there_s = here_s * (1.0 + machine.overhead_share) * machine.compute_scale;
    ((think_s - here_s).max(0.0), there_s)
}

/// What a worker spends besides thinking and waiting where it runs now: T = C + S + L.
fn system_s(question: &Question) -> f64 {
    let shape = &question.shape;
    let pass_s = f64::from(shape.customers()) / question.reference.requests_per_s;
    (pass_s - shape.think_s - question.reference.response_s).max(0.0)
}
