//! What one takes, and between which bounds many at once are.

use std::collections::BTreeMap;

use nestor_results::Resource;
use nestor_stack::{MachineLabel, MachineName};
use nestor_statistics::summary::CONFIDENCE;
use nestor_statistics::{Estimated, Interval};
use serde::Serialize;

/// Seconds of one more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The seconds.
    pub seconds: f64,
    /// The 95 % prediction interval; `None` where fewer than three sizes were measured.
    pub interval: Option<Interval>,
}

/// What the busiest resource has to do for one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Which.
    pub resource: Resource,
    /// Its service demand, in seconds.
    pub demand_s: f64,
    /// Share (0 to 1) of the time of one that this is.
    pub share: f64,
}

/// What one takes alone, and N that begin together on one node.
///
/// The bounds are the asymptotic ones of operational analysis (Denning and Buzen, ACM Comput. Surv. 10, 1978, section "Bottleneck analysis"): the
/// busiest resource serves all N one after another, so that they take at least N·D_max; and at most N·T1, one after the other. The disk of the
/// repository counts once: all N want the same image, and what it has read for one is in the repository's page cache for the others. They hold while
/// the demands of one do not grow with N, as they would where a disk has to seek between several files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtOnce {
    /// One alone.
    pub one: Estimate,
    /// From the lower bound of the fewest seconds to the upper bound of the most; of one, its interval.
    pub all_s: Interval,
    /// The busiest resource; `None` where none was counted.
    pub bottleneck: Option<Bottleneck>,
}

/// Whether what it does for one may be done for all others, too.
fn is_read_for_all(resource: &Resource) -> bool {
    matches!(resource, Resource::Disk(machine) if *machine == MachineName::Of(MachineLabel::Repository))
}

impl AtOnce {
    /// Of one's seconds, and its mean demands.
    pub(super) fn of(seconds: Estimated, demands: &BTreeMap<Resource, Estimated>, instances: u32) -> Self {
        let count = f64::from(instances);
        let at_least_0 = |interval: Interval| Interval { low: interval.low.max(0.0), ..interval };
        let interval = seconds.interval(CONFIDENCE).map(at_least_0);
        let one = Estimate { seconds: seconds.value().max(0.0), interval };
        let ends = interval.unwrap_or(Interval { low: one.seconds, high: one.seconds });
        // No resource is busy for longer than it takes.
        let low_end = |demand: &Estimated| {
            demand.interval(CONFIDENCE).map_or(demand.value(), |interval| interval.low).clamp(0.0, ends.low)
        };
        let of_each = demands.iter().filter(|(resource, _)| !is_read_for_all(resource));
        let most = of_each.map(|(_, demand)| low_end(demand)).fold(0.0, f64::max);
        let busiest = demands.iter().max_by(|a, b| a.1.value().total_cmp(&b.1.value()));
        let bottleneck = busiest.map(|(resource, demand)| {
            let demand_s = demand.value().clamp(0.0, one.seconds);
            let share = if one.seconds > 0.0 { demand_s / one.seconds } else { 0.0 };
            Bottleneck { resource: resource.clone(), demand_s, share }
        });
        let all_s = Interval { low: ends.low.max(count * most), high: count * ends.high };
        Self { one, all_s, bottleneck }
    }

    /// The order of ways by their upper bound, in seconds: those without an interval have no such bound, and come last.
    pub(super) fn upper_bound_s(&self) -> (bool, f64) {
        (self.one.interval.is_none(), self.all_s.high)
    }
}
