//! Intervals and changes as people read them.

use nestor_statistics::{Interval, Ratio};
use nestor_text::units::{digits, signed};

/// `[25.1, 27.3]`, or nothing.
pub(crate) fn interval(interval: Option<Interval>, scale: f64) -> String {
    interval.map_or_else(String::new, |i| format!("[{}, {}]", digits(i.low / scale), digits(i.high / scale)))
}

/// `+61.0 % [+51.2, +70.9]`.
pub(crate) fn change(ratio: &Ratio) -> String {
    change_of(ratio.value, ratio.interval)
}

/// The same from a ratio and its interval.
pub(crate) fn change_of(ratio: f64, interval: Option<Interval>) -> String {
    let percent = |ratio: f64| signed((ratio - 1.0) * 100.0);
    let range = interval.map_or_else(String::new, |i| format!(" [{}, {}]", percent(i.low), percent(i.high)));
    format!("{} %{range}", percent(ratio))
}
