//! Numbers as people read them.

use nestor_model::{Interval, Ratio};

/// Three significant digits, or all digits before the point.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.000_5 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

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

/// A percentage with sign: one decimal below 100 %, none above.
fn signed(percent: f64) -> String {
    let rounded = (percent * 10.0).round() / 10.0;
    // Rounding may leave a negative zero, which would print as "-0.0".
    let rounded = if rounded == 0.0 { 0.0 } else { rounded };
    if rounded.abs() >= 100.0 { format!("{rounded:+.0}") } else { format!("{rounded:+.1}") }
}

/// `512 B`, `64.0 KiB`, `3.1 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// `1 run`, `3 runs`.
pub(crate) fn plural(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}
