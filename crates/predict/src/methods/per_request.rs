//! What the target adds to each request, whatever the disk does: a fixed time and a time for each byte.

use std::collections::BTreeMap;

use nestor_results::WrittenStack;
use nestor_statistics::prediction::{PerRequestCost, RequestTime};
use nestor_statistics::surface::GridPoint;

use super::{Predicted, measure_surface};
use crate::evidence::{Evidence, Question};
use crate::learnt_model::Knowledge;
use crate::missing::Missing;

/// Sizes that a line through times needs.
const FEWEST_SIZES: usize = 2;
/// A deeper queue that gains less than this does not help any more.
const FLAT: f64 = 1.05;

pub(super) fn predict(question: &Question, evidence: &Evidence, _: &Knowledge) -> Result<Predicted, Missing> {
    let both = alone_on_both(question, evidence);
    let sizes: std::collections::BTreeSet<u32> = both.iter().map(|(point, _)| point.bytes).collect();
    let lacks = |stack: &WrittenStack| Missing {
        what: format!("requests of several sizes, one at a time, on {stack}"),
        command: Some(measure_surface(evidence, stack, Some(1))),
    };
    if sizes.len() < FEWEST_SIZES {
        let has =
            |stack| evidence.points.get(stack).is_some_and(|p| p.rates.iter().any(|(at, _)| at.depth == 1));
        return Err(lacks(if has(&question.from) { &question.to } else { &question.from }));
    }
    if question.reference.response_s <= 0.0 {
        let what = "the time of a request where the load runs now".to_owned();
        let command = Some(evidence.command("run", &format!("'{}' '{}'", question.from, question.load)));
        return Err(Missing { what, command });
    }
    let times: Vec<RequestTime> = both.iter().map(|(_, time)| *time).collect();
    let cost = PerRequestCost::fit(&times).ok_or_else(|| lacks(&question.to))?;
    let shape = &question.shape;
    let customers = f64::from(shape.customers());
    let pass_s = customers / question.reference.requests_per_s;
    // All but the request itself stays: thinking, and what the system takes.
    let think_s = (pass_s - question.reference.response_s).max(0.0);
    let response_s = question.reference.response_s;
    let most = most_per_s(evidence, &question.to, shape.customers());
    let free = cost.rate(customers, think_s, shape.mean_bytes, response_s, None);
    let rate = cost.rate(customers, think_s, shape.mean_bytes, response_s, most).ok_or_else(|| Missing {
        what: "a target that adds time to requests; this one would make their time negative".to_owned(),
        command: None,
    })?;
    let mut steps = vec![format!(
        "{} adds {:.1} us to each request and {:.2} us for each KiB: {:.2} ms become {:.2} ms",
        question.to,
        cost.fixed_s * 1e6,
        cost.per_byte_s * 1024.0 * 1e6,
        response_s * 1e3,
        (response_s + cost.of(shape.mean_bytes)) * 1e3
    )];
    if let (Some(most), Some(free)) = (most, free)
        && free > most
    {
        steps.push(format!("at most {most:.0} requests/s have been measured there"));
    }
    Ok(Predicted {
        rate: question.reference.rate * rate / question.reference.requests_per_s,
        deviation: (misfit(&cost, &times) / pass_s.max(1e-9)).min(1.0),
        steps,
    })
}

/// Points at depth 1 that were measured on both stacks, of a direction and randomness like the load's where there are any.
fn alone_on_both(question: &Question, evidence: &Evidence) -> Vec<(GridPoint, RequestTime)> {
    let (Some(from), Some(to)) = (evidence.points.get(&question.from), evidence.points.get(&question.to))
    else {
        return Vec::new();
    };
    let alone = from.rates.iter().filter(|(point, _)| point.depth == 1);
    let both = alone.filter_map(|(point, here)| {
        let (_, there) = to.rates.iter().find(|(other, _)| other == point)?;
        let time =
            RequestTime { bytes: f64::from(point.bytes), reference_s: 1.0 / here, target_s: 1.0 / there };
        Some((*point, time))
    });
    let both: Vec<(GridPoint, RequestTime)> = both.collect();
    let shape = &question.shape;
    let near = |(point, _): &&(GridPoint, RequestTime)| {
        (f64::from(point.read_percent) / 100.0 - shape.read_share).abs() <= 0.5
            && (f64::from(point.random_percent) / 100.0 - shape.random_share).abs() <= 0.5
    };
    let alike: Vec<(GridPoint, RequestTime)> = both.iter().filter(near).copied().collect();
    let sizes: std::collections::BTreeSet<u32> = alike.iter().map(|(point, _)| point.bytes).collect();
    if sizes.len() >= FEWEST_SIZES { alike } else { both }
}

/// What the one thread that handles requests there can do: the most requests per second of any point, if as many were under way as
/// the load has, or if more of them no longer helped. Otherwise it was never seen at its limit.
fn most_per_s(evidence: &Evidence, stack: &WrittenStack, customers: u32) -> Option<f64> {
    let points = evidence.points.get(stack)?;
    let mut by_depth: BTreeMap<u32, f64> = BTreeMap::new();
    for (point, rate) in &points.rates {
        let most = by_depth.entry(point.depth).or_insert(*rate);
        *most = most.max(*rate);
    }
    let most = by_depth.values().copied().max_by(f64::total_cmp)?;
    let mut deepest = by_depth.iter().rev();
    let (depth, last) = deepest.next()?;
    let is_flat = deepest.next().is_some_and(|(_, before)| *last <= before * FLAT);
    (*depth >= customers || is_flat).then_some(most)
}

/// Deviation of the times from the line.
fn misfit(cost: &PerRequestCost, times: &[RequestTime]) -> f64 {
    let off = |time: &RequestTime| time.target_s - time.reference_s - cost.of(time.bytes);
    let squares: f64 = times.iter().map(|time| off(time).powi(2)).sum();
    (squares / (times.len().max(3) - 2) as f64).sqrt()
}
