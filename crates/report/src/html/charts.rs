//! Small charts as SVG. They use the page's colours by class name and are fluid in width.

use std::fmt::Write as _;

use nestor_text::markup_escaped;
use nestor_workload::RateUnit;

use crate::units;
use crate::view::ServiceShares;

/// A bar of a smaller share is drawn but not told.
const WORTH_SAYING: f64 = 0.005;

/// Bars of a histogram: a label for each, and how much of the whole it holds.
struct Bars {
    labels: Vec<String>,
    shares: Vec<f64>,
}

/// How many requests had which size: one bar per power of two, over an axis from the smallest to the largest of all
/// layers, so that they can be compared. `None` without requests.
pub(super) fn size_histogram(sizes: &[(u64, u64)], (smallest, largest): (u64, u64)) -> Option<String> {
    if sizes.is_empty() {
        return None;
    }
    let total: u64 = sizes.iter().map(|(_, count)| count).sum();
    let power = |bytes: u64| bytes.max(1).ilog2();
    let (first, last) = (power(smallest), power(largest));
    let mut bars = Bars { labels: Vec::new(), shares: Vec::new() };
    for bin in first..=last {
        let inside = sizes.iter().filter(|(bytes, _)| power(*bytes) == bin).map(|(_, count)| count);
        bars.shares.push(inside.sum::<u64>() as f64 / total.max(1) as f64);
        bars.labels.push(units::bytes(1 << bin));
    }
    Some(bar_chart(&bars, "requests by size", Size { width: 180.0, height: 38.0, labels: 2 }))
}

/// How many operations took how long: bars three to an octave, from the first to the last that is not empty.
pub(super) fn latency_histogram(buckets: &[(u64, u64)]) -> Option<String> {
    const PER_OCTAVE: f64 = 3.0;
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let bin = |ns: u64| ((ns.max(1) as f64).log2() * PER_OCTAVE).floor() as i64;
    let (first, last) = (bin(buckets.first()?.0), bin(buckets.last()?.0));
    let mut bars = Bars { labels: Vec::new(), shares: Vec::new() };
    for index in first..=last {
        let inside = buckets.iter().filter(|(ns, _)| bin(*ns) == index).map(|(_, count)| count);
        bars.shares.push(inside.sum::<u64>() as f64 / total.max(1) as f64);
        bars.labels.push(units::duration_ns((index as f64 / PER_OCTAVE).exp2()));
    }
    Some(bar_chart(&bars, "operations by latency", Size { width: 300.0, height: 64.0, labels: 5 }))
}

/// Measures of a chart, in the page's pixels at full size.
struct Size {
    width: f64,
    height: f64,
    /// How many labels stand beside each other without touching.
    labels: usize,
}

fn bar_chart(bars: &Bars, what: &str, size: Size) -> String {
    let Size { width, height, labels } = size;
    let highest = bars.shares.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let step = width / bars.shares.len().max(1) as f64;
    let thickness = (step * 0.86).min(26.0);
    let said = bars.shares.iter().zip(&bars.labels).filter(|(share, _)| **share >= WORTH_SAYING);
    let said: Vec<String> =
        said.map(|(share, label)| format!("from {label} {}", units::share(*share))).collect();
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {width} {}\" role=\"img\"><title>{what}: {}</title><path d=\"",
        height + 16.0,
        markup_escaped(&said.join(", "))
    );
    // One path for all bars: hundreds of cells have thousands of them.
    for (i, share) in bars.shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let tall = (share / highest * height).max(1.0);
        let x = i as f64 * step + (step - thickness) / 2.0;
        let _ = write!(svg, "M{x:.1} {height}v-{tall:.1}h{thickness:.1}v{tall:.1}");
    }
    svg.push_str("\"/>");
    let _ = write!(svg, "<path class=\"axis\" d=\"M0 {height}H{width}\"/>");
    let last = bars.labels.len().saturating_sub(1);
    let every = last.div_ceil(labels - 1).max(1);
    for (i, label) in bars.labels.iter().enumerate().step_by(every) {
        let middle = (i as f64 + 0.5) * step;
        let (anchor, x) = match i {
            0 if last > 0 => ("start", middle - thickness / 2.0),
            _ if i == last && last > 0 => ("end", middle + thickness / 2.0),
            _ => ("middle", middle),
        };
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            height + 12.0,
            markup_escaped(label)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// Where the disk spent its service time, as one bar.
pub(super) fn service_bar(shares: &ServiceShares) -> String {
    let parts = [
        ("seek", shares.seek),
        ("rotation", shares.rotation),
        ("transfer", shares.transfer),
        ("overhead", shares.overhead),
    ];
    const WIDTH: f64 = 1_000.0;
    let mut svg = format!(
        "<svg class=\"stack\" viewBox=\"0 0 {WIDTH} 34\" role=\"img\" aria-label=\"service time of the disk\">"
    );
    let mut x = 0.0;
    for (name, share) in parts {
        let width = share * WIDTH;
        let label = format!("{name} {}", units::percent(share));
        let _ = write!(
            svg,
            "<g class=\"{name}\"><rect x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"34\"><title>{label}</title></rect>"
        );
        // About nine units a letter.
        if width > label.len() as f64 * 9.0 {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"22\" text-anchor=\"middle\">{label}</text>",
                x + width / 2.0
            );
        }
        svg.push_str("</g>");
        x += width;
    }
    svg.push_str("</svg>");
    svg
}

/// The runs of a cell as dots with their mean and its interval, from 0 to `highest`, all in one unit.
pub(super) fn samples_strip(
    samples: &[f64],
    unit: RateUnit,
    mean: &nestor_statistics::Mean,
    highest: f64,
) -> String {
    const WIDTH: f64 = 300.0;
    let typeset_rate = |rate: f64| markup_escaped(&unit.words(rate));
    let at = |value: f64| (value / highest.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) * (WIDTH - 12.0) + 6.0;
    let mut svg = format!(
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} 38\" role=\"img\"><title>{} from {} to {}</title>",
        units::plural(samples.len(), "run"),
        typeset_rate(samples.iter().copied().fold(f64::INFINITY, f64::min)),
        typeset_rate(samples.iter().copied().fold(0.0, f64::max)),
    );
    let _ = write!(svg, "<path class=\"axis\" d=\"M6 20H{}\"/>", WIDTH - 6.0);
    if let Some(interval) = mean.interval {
        let (low, high) = (at(interval.low), at(interval.high));
        let _ = write!(
            svg,
            "<rect class=\"interval\" x=\"{low:.1}\" y=\"6\" width=\"{:.1}\" height=\"14\"/>",
            (high - low).max(1.0)
        );
    }
    let x = at(mean.value);
    let _ = write!(svg, "<path class=\"mean\" d=\"M{x:.1} 3V23\"/>");
    let mut places: Vec<i64> = samples.iter().map(|sample| (at(*sample) * 2.0).round() as i64).collect();
    places.sort_unstable();
    // Dots that lie on each other are one.
    places.dedup();
    for place in places {
        let _ = write!(svg, "<circle cx=\"{:.1}\" cy=\"13\" r=\"3.5\"/>", place as f64 / 2.0);
    }
    let _ = write!(
        svg,
        "<text x=\"6\" y=\"34\">0</text><text x=\"{}\" y=\"34\" text-anchor=\"end\">{}</text></svg>",
        WIDTH - 6.0,
        typeset_rate(highest)
    );
    svg
}
