//! Statistics and prediction: pure arithmetic on numbers that other crates measured.
//!
//! Nothing here opens a file, starts a process or asks for the time. A function that cannot answer from
//! the samples it got says so with `None`; it never makes up an interval.

pub mod additive;
pub mod binomial;
pub mod change_point;
pub mod cholesky;
pub mod closed_network;
pub mod descent;
pub mod design;
pub mod equivalence;
pub mod gate;
pub mod gaussian_process;
mod histogram_error;
pub mod identity;
pub mod informative;
pub mod latency;
mod latency_bounds;
mod latency_code;
pub mod latency_sum;
pub mod line;
pub mod order_effect;
pub mod order_statistics;
pub mod prediction;
pub mod random;
pub mod ratio;
pub mod sequential;
pub mod simplex;
pub mod steady;
pub mod student;
pub mod summary;
pub mod surface;
pub mod variation;

pub use additive::{AdditiveModel, AdditiveRun, LackOfFit, LevelEffect, Prediction};
pub use binomial::binomial_interval;
pub use change_point::{ChangePoint, change_points};
pub use closed_network::{Equilibrium, Station, StationUse};
pub use design::{Design, GivenRun, NoDesign};
pub use equivalence::{Equivalence, equal_within_percent, equivalence, equivalent_by_interval};
pub use gate::{Limit, LimitVerdict, WrongSide, confidence_of_each};
pub use gaussian_process::{GaussianProcess, Normal};
pub use histogram_error::HistogramError;
pub use latency::{HIGHEST_LATENCY_NS, LatencyHistogram, LatencySummary, SHORTEST_LATENCY_NS};
pub use line::{Crossing, CrossingSet, Estimated, FittedLine, crossing, crossing_apart, slope_difference};
pub use order_effect::{OrderEffect, order_effect, rank_correlation};
pub use order_statistics::{QuantileInterval, median_interval, quantile_interval};
pub use random::SeededOrder;
pub use ratio::{
    Ratio, geometric_mean, paired_bootstrap, paired_ratio, paired_ratio_at, unpaired_ratio, unpaired_ratio_at,
};
pub use sequential::{Decision, Replay, StopRule, replay};
pub use steady::{SteadyState, steady_from, steady_state};
pub use summary::{Interval, Mean, coefficient_of_variation, mean, mean_at, median, rate_mean, variance};
pub use variation::{GroupSample, Variation, variation_between, variation_difference};
