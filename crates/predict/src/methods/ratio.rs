//! The ratio of surfaces (ESX study, §4): what requests of the load's size, direction and randomness reach on the target,
//! relative to where it runs now.

use nestor_model::surface::Surface;

use super::{Predicted, measure_surface};
use crate::answer::Missing;
use crate::evidence::{Evidence, Question, Shape};
use crate::learnt_model::Knowledge;

/// Half a 90 % interval in deviations.
const HALF_OF_90: f64 = 1.645;

pub(super) fn predict(question: &Question, evidence: &Evidence, _: &Knowledge) -> Result<Predicted, Missing> {
    let surface = |stack: &str| {
        let points = evidence.points.get(stack).and_then(|points| points.surface());
        points.ok_or_else(|| Missing {
            what: format!("a surface of {stack}"),
            command: Some(measure_surface(stack, None)),
        })
    };
    let (from, to) = (surface(&question.from)?, surface(&question.to)?);
    let depth = common_depth(&from, &to, &question.shape).ok_or_else(|| Missing {
        what: "surfaces of both stacks with as many requests under way".to_owned(),
        command: Some(measure_surface(&question.to, None)),
    })?;
    let (here, here_deviation) = time_s(&from, &question.shape, depth);
    let (there, there_deviation) = time_s(&to, &question.shape, depth);
    let ratio = here / there;
    Ok(Predicted {
        rate: question.reference.rate * ratio,
        deviation: here_deviation.hypot(there_deviation),
        steps: vec![
            format!(
                "requests like the load's, {depth} at once: {:.1}/s on {}, {:.1}/s on {}",
                1.0 / here,
                question.from,
                1.0 / there,
                question.to
            ),
            format!("{:.4} x {ratio:.4}", question.reference.rate),
        ],
    })
}

/// A depth at which both were measured, the nearest to the load's own.
fn common_depth(from: &Surface, to: &Surface, shape: &Shape) -> Option<u32> {
    let depths = |surface: &Surface| -> std::collections::BTreeSet<u32> {
        surface.points().iter().map(|(point, _)| point.depth).collect()
    };
    let far = |depth: &u32| (f64::from(*depth).ln() - shape.outstanding.max(1.0).ln()).abs();
    depths(from).intersection(&depths(to)).copied().min_by(|a, b| far(a).total_cmp(&far(b)))
}

/// Seconds from one request's end to the next one's, mean over the load's sizes, and the deviation of its logarithm.
pub(super) fn time_s(surface: &Surface, shape: &Shape, depth: u32) -> (f64, f64) {
    let (mut time, mut deviation) = (0.0, 0.0);
    for (point, share) in shape.points(depth) {
        let found = surface.at(&point);
        time += share / found.requests_per_s;
        deviation += share * (found.interval.high / found.interval.low).ln() / 2.0 / HALF_OF_90;
    }
    (time, deviation)
}
