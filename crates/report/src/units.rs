//! Numbers of samples as people read them: always with their unit, never with more digits than they deserve.

use nestor_statistics::{Interval, Mean, Ratio};
pub use nestor_text::units::*;
use nestor_workload::RateUnit;

/// `8 [7.9, 8.1]`: a number and its interval, as far as it is known.
pub fn with_interval(value: f64, interval: Option<Interval>) -> String {
    let interval = interval.map(|i| format!(" [{}, {}]", digits(i.low), digits(i.high)));
    format!("{}{}", digits(value), interval.unwrap_or_default())
}

/// An interval of throughputs without the unit: `[25.1, 27.3]`.
pub fn rate_interval(interval: Interval, unit: RateUnit) -> String {
    format!("[{}, {}]", without_unit(interval.low, unit), without_unit(interval.high, unit))
}

/// How certain a mean throughput is, without the unit: its interval, or the two that it is of: `25.1, 27.3`. `None` of one.
pub fn spread(mean: &Mean, rates: &[f64], unit: RateUnit) -> Option<String> {
    let two = || {
        let listed = || listed(rates.iter().map(|rate| without_unit(*rate, unit)));
        (rates.len() == 2 && mean.samples == 2).then(listed)
    };
    mean.interval.map(|interval| rate_interval(interval, unit)).or_else(two)
}

fn without_unit(value: f64, unit: RateUnit) -> String {
    digits(value / unit.scale())
}

/// A mean of seconds without the unit, with half its interval: `6.000 ± 0.248`.
pub fn seconds_of(mean: &Mean) -> String {
    let half = mean.interval.map(|interval| format!(" ± {:.3}", interval.half_width()));
    format!("{:.3}{}", mean.value, half.unwrap_or_default())
}

/// `5 fresh stacks`, `1 fresh stack: no interval`.
pub fn fresh_stacks(samples: usize) -> String {
    match samples {
        1 => "1 fresh stack: no interval".to_owned(),
        2 => "2 fresh stacks: no interval".to_owned(),
        n => format!("{n} fresh stacks"),
    }
}

/// A change against the baseline: `-14.7 %`, `+0.0 %`.
pub fn change(ratio: &Ratio) -> String {
    format!("{} %", signed(ratio.change_percent()))
}

/// The interval of a change without the unit: `[-18.9, -10.2]`.
pub fn change_interval(ratio: &Ratio) -> Option<String> {
    ratio.change_interval_percent().map(|i| format!("[{}, {}]", signed(i.low), signed(i.high)))
}
