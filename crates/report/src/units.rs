//! Numbers of samples as people read them: always with their unit, never with more digits than they deserve.

use nestor_statistics::{Interval, Mean, Ratio};
pub use nestor_text::units::*;

/// An interval of rates without the unit: `[25.1, 27.3]`.
pub fn rate_interval(interval: Interval) -> String {
    format!("[{}, {}]", digits(interval.low / 1e6), digits(interval.high / 1e6))
}

/// How certain a mean rate is, without the unit: its interval, or the two rates that it is of: `25.1, 27.3`. `None` of one rate.
pub fn spread(mean: &Mean, rates: &[f64]) -> Option<String> {
    let two =
        || (rates.len() == 2 && mean.samples == 2).then(|| listed(rates.iter().map(|r| digits(r / 1e6))));
    mean.interval.map(rate_interval).or_else(two)
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
