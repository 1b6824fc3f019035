//! The ratio of surfaces (ESX study, §4): what requests of the load's size, direction and randomness reach on the target,
//! relative to where it runs now.

use nestor_results::WrittenStack;
use nestor_statistics::surface::Surface;

use super::{Predicted, measure_surface};
use crate::evidence::{Evidence, Question, Shape};
use crate::learnt_model::Knowledge;
use crate::missing::Missing;

/// A surface with so many times two more or fewer requests under way than the load has tells nothing of it.
const MOST_OCTAVES: f64 = 3.0;
/// What an octave adds to the deviation: a guess, which what the method was off replaces once it was tried.
const OCTAVE: f64 = 0.1;

pub(super) fn predict(question: &Question, evidence: &Evidence, _: &Knowledge) -> Result<Predicted, Missing> {
    let wanted = (question.shape.outstanding.round().clamp(1.0, 256.0)) as u32;
    let surface = |stack: &WrittenStack| {
        let points = evidence.points.get(stack).and_then(|points| points.surface());
        points.ok_or_else(|| Missing {
            what: format!("a surface of {stack}"),
            command: Some(measure_surface(evidence, stack, Some(wanted))),
        })
    };
    let (from, to) = (surface(&question.from)?, surface(&question.to)?);
    let lacks = |what: &str, stack: &WrittenStack| Missing {
        what: what.to_owned(),
        command: Some(measure_surface(evidence, stack, Some(wanted))),
    };
    let no_depth = || {
        let has = to.points().iter().any(|(point, _)| is_near(point.depth, wanted));
        let what = format!("surfaces of both stacks with about {wanted} requests in flight");
        lacks(&what, if has { &question.from } else { &question.to })
    };
    let depth = common_depth(&from, &to, &question.shape).filter(|depth| is_near(*depth, wanted));
    let depth = depth.ok_or_else(no_depth)?;
    for (surface, stack) in [(&from, &question.from), (&to, &question.to)] {
        if !reaches(surface, &question.shape, depth) {
            return Err(lacks("a surface whose request sizes include the load's", stack));
        }
    }
    let (here, here_deviation) = time_s(&from, &question.shape, depth);
    let (there, there_deviation) = time_s(&to, &question.shape, depth);
    let ratio = here / there;
    Ok(Predicted {
        rate: question.reference.rate * ratio,
        deviation: here_deviation.hypot(there_deviation).hypot(OCTAVE * apart(depth, wanted)),
        steps: vec![
            format!(
                "requests like the load's, {depth} in flight: {:.1}/s on {}, {:.1}/s on {}",
                1.0 / here,
                question.from,
                1.0 / there,
                question.to
            ),
            format!("{:.4} x {ratio:.4}", question.reference.rate),
        ],
    })
}

/// Octaves between two depths.
fn apart(depth: u32, wanted: u32) -> f64 {
    (f64::from(depth.max(1)) / f64::from(wanted.max(1))).log2().abs()
}

fn is_near(depth: u32, wanted: u32) -> bool {
    apart(depth, wanted) <= MOST_OCTAVES
}

/// Whether most of the load's requests are of sizes that were measured, or half or twice of one.
fn reaches(surface: &Surface, shape: &Shape, depth: u32) -> bool {
    let sizes =
        surface.points().iter().filter(|(point, _)| point.depth == depth).map(|(point, _)| point.bytes);
    let (least, most) = sizes.fold((u32::MAX, 0), |(least, most), bytes| (least.min(bytes), most.max(bytes)));
    let inside = |bytes: u32| bytes >= least / 2 && bytes <= most.saturating_mul(2);
    let shares: f64 =
        shape.points(depth).iter().filter(|(p, _)| inside(p.bytes)).map(|(_, share)| share).sum();
    shares > 0.5
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
        deviation += share * found.interval.deviation_of_logarithm();
    }
    (time, deviation)
}
