//! Sizes and distances of requests.

use crate::html::layer_colour::LayerColour;
use crate::html::svg::{Anchor, LETTER, SMALL, Svg, fitted};
use crate::html::typeset;
use crate::units;
use crate::view::LayerRow;

/// Lines that differ without colour too; there are never more layers than the eye can follow.
const DASHES: usize = 5;

/// The request sizes of each layer below each other, on one axis: one bar for each power of two.
pub(super) fn sizes_svg(layers: &[LayerRow]) -> Option<String> {
    let shown: Vec<&LayerRow> = layers.iter().filter(|l| !l.sizes.is_empty()).collect();
    let all = || shown.iter().flat_map(|l| &l.sizes).map(|(bytes, _)| power(*bytes));
    let (first, last) = (all().min()?, all().max()?);
    let axis = SizeAxis { first, bins: (last - first + 1) as usize };
    let height = shown.len() as f64 * SizeAxis::ROW;
    let mut svg = Svg::new("sizes", SizeAxis::WIDTH, height + 38.0, "request sizes of each layer");
    for (index, layer) in shown.iter().enumerate() {
        let base = index as f64 * SizeAxis::ROW + SizeAxis::TALL + 12.0;
        axis.bars(&mut svg, base, layer, &layer.name_among(layers));
    }
    axis.labels(&mut svg, height);
    Some(svg.finish())
}

fn power(bytes: u64) -> u32 {
    bytes.max(1).ilog2()
}

/// The powers of two that request sizes have.
struct SizeAxis {
    first: u32,
    bins: usize,
}

impl SizeAxis {
    const WIDTH: f64 = 540.0;
    const LEFT: f64 = 110.0;
    const ROW: f64 = 66.0;
    const TALL: f64 = 44.0;

    fn step(&self) -> f64 {
        (Self::WIDTH - Self::LEFT - 4.0) / self.bins as f64
    }

    /// The name of a layer and its bars, which stand on `base`.
    fn bars(&self, svg: &mut Svg, base: f64, layer: &LayerRow, name: &str) {
        let (left, tallest, step) = (Self::LEFT, Self::TALL, self.step());
        let colour = LayerColour::of_row(layer).class();
        let counts: u64 = layer.sizes.iter().map(|(_, count)| count).sum();
        let mut shares = vec![0.0; self.bins];
        for (bytes, count) in &layer.sizes {
            shares[(power(*bytes) - self.first) as usize] += *count as f64 / counts.max(1) as f64;
        }
        let highest = shares.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        svg.text("name", 2.0, base - 22.0, Anchor::Start, &fitted(name, left - 12.0, LETTER));
        let requests = units::plural_u64(counts, "request", "requests");
        svg.text("what", 2.0, base - 7.0, Anchor::Start, &fitted(&typeset(&requests), left - 8.0, SMALL));
        for (bin, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let from = 1u64 << (self.first + bin as u32);
            let tall = (share / highest * (tallest - 12.0)).max(1.0);
            let x = left + bin as f64 * step;
            let title = format!("{name}: from {}: {}", units::bytes(from), units::share(*share));
            svg.titled(&format!("bar {colour}"), &title, |svg| {
                svg.rect("hit", x, base - tallest, step, tallest);
                svg.rect("plain", x + step * 0.08, base - tall, step * 0.84, tall);
                // Only what stands out is labelled; the rest is a look away.
                if *share >= 0.1 && step >= 34.0 {
                    let label = typeset(&units::percent(*share));
                    svg.text("tick", x + step / 2.0, base - tall - 3.0, Anchor::Middle, &label);
                }
            });
        }
        svg.path("axis", &format!("M{left:.1} {base:.1}H{}", Self::WIDTH));
    }

    /// What stands below the lowest bars.
    fn labels(&self, svg: &mut Svg, base: f64) {
        let middle = (Self::LEFT + Self::WIDTH) / 2.0;
        let caption = "share of the requests with sizes from each value to its double";
        svg.text("tick", middle, base + 30.0, Anchor::Middle, caption);
        let every = (self.bins as f64 * 54.0 / (Self::WIDTH - Self::LEFT)).ceil().max(1.0) as usize;
        for bin in (0..self.bins).step_by(every) {
            let x = Self::LEFT + (bin as f64 + 0.5) * self.step();
            let size = typeset(&units::bytes(1 << (self.first + bin as u32)));
            svg.text("tick", x, base + 12.0, Anchor::Middle, &size);
        }
    }
}

/// How far it is from each request to the next, as shares of the range that a layer uses: the distribution of each
/// layer, over a logarithmic axis.
pub(super) fn seeks_svg(layers: &[LayerRow]) -> Option<String> {
    let shown = seek_curves(layers);
    if shown.is_empty() {
        return None;
    }
    let plane = SeekPlane { top: shown.len() as f64 * 18.0 + 26.0 };
    let title = "distances between requests of each layer";
    let mut svg = Svg::new("seeks", SeekPlane::WIDTH, plane.base() + 40.0, title);
    plane.grid(&mut svg);
    for (index, curve) in shown.iter().enumerate() {
        plane.curve(&mut svg, index, curve);
    }
    Some(svg.finish())
}

/// A curve that one layer has or several have.
struct SeekCurve {
    names: String,
    /// Of the first of them.
    colour: LayerColour,
    /// Distances, and the share of requests within each.
    points: Vec<(f64, f64)>,
}

/// Layers that hand requests on in the same order have one curve, which would hide all but the last of them.
fn seek_curves(layers: &[LayerRow]) -> Vec<SeekCurve> {
    let mut shown: Vec<SeekCurve> = Vec::new();
    let with_seeks = layers.iter().filter_map(|layer| Some((layer, layer.seeks.as_ref()?)));
    for (layer, seeks) in with_seeks.filter(|(_, s)| s.count > 1 && !s.cdf_sectors.is_empty()) {
        let (name, points) = (layer.name_among(layers), seeks.normalised_cdf().collect::<Vec<_>>());
        match shown.iter_mut().find(|known| alike(&known.points, &points)) {
            Some(known) => known.names = format!("{}, {name}", known.names),
            None => shown.push(SeekCurve { names: name, colour: LayerColour::of_row(layer), points }),
        }
    }
    shown
}

/// Where the curves of distances are, below their legend.
struct SeekPlane {
    top: f64,
}

impl SeekPlane {
    const WIDTH: f64 = 540.0;
    const LEFT: f64 = 44.0;
    const RIGHT: f64 = Self::WIDTH - 14.0;
    const TALL: f64 = 190.0;
    /// Distances below this share of the range stand at the left edge with those of none.
    const LEAST: f64 = 1e-6;

    fn base(&self) -> f64 {
        self.top + Self::TALL
    }

    fn at(&self, distance: f64, share: f64) -> (f64, f64) {
        let along = (distance.max(Self::LEAST).log10() - Self::LEAST.log10()) / -Self::LEAST.log10();
        (Self::LEFT + along * (Self::RIGHT - Self::LEFT), self.base() - share * Self::TALL)
    }

    fn grid(&self, svg: &mut Svg) {
        let (left, right, base) = (Self::LEFT, Self::RIGHT, self.base());
        for percent in [0, 25, 50, 75, 100] {
            let (_, y) = self.at(1.0, f64::from(percent) / 100.0);
            svg.path("grid", &format!("M{left:.1} {y:.1}H{right:.1}"));
            svg.text("tick", left - 6.0, y + 4.0, Anchor::End, &typeset(&format!("{percent} %")));
        }
        for (distance, label) in [
            (Self::LEAST, "none"),
            (1e-5, "0.001 %"),
            (1e-4, "0.01 %"),
            (1e-3, "0.1 %"),
            (1e-2, "1 %"),
            (0.1, "10 %"),
            (1.0, "100 %"),
        ] {
            let (x, _) = self.at(distance, 0.0);
            svg.path("grid", &format!("M{x:.1} {:.1}V{:.1}", self.top, base + 4.0));
            let (x, anchor) =
                if distance < 1.0 { (x, Anchor::Middle) } else { (Self::WIDTH - 2.0, Anchor::End) };
            svg.text("tick", x, base + 17.0, anchor, &typeset(label));
        }
        let along = "distance to the next request, as a share of the range in use";
        svg.text("tick", (left + right) / 2.0, base + 34.0, Anchor::Middle, along);
        let up = "share of the requests within this distance";
        svg.text("tick", 2.0, self.top - 10.0, Anchor::Start, up);
    }

    /// A curve and its line of the legend.
    fn curve(&self, svg: &mut Svg, index: usize, SeekCurve { names, colour, points }: &SeekCurve) {
        let without = points.iter().filter(|(d, _)| *d <= 0.0).map(|(_, share)| *share).fold(0.0, f64::max);
        let median = points.iter().find(|(_, share)| *share >= 0.5).map_or(0.0, |(d, _)| *d);
        let half = if median > 0.0 { format!(", half within {}", of_range(median)) } else { String::new() };
        let words = format!("{names}: {} without a seek{half}", units::percent(without));
        let class = format!("line dash-{}", index % DASHES);
        let y = 12.0 + index as f64 * 18.0;
        let mut data = String::new();
        for (i, (distance, share)) in points.iter().enumerate() {
            let (x, y) = self.at(*distance, *share);
            data.push_str(&format!("{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' }));
        }
        let left = Self::LEFT;
        svg.titled(&format!("curve {}", colour.class()), &words, |svg| {
            svg.path(&class, &format!("M{left:.1} {:.1}h34", y - 4.0));
            let shown = fitted(&words, Self::WIDTH - left - 44.0, LETTER);
            svg.text("name", left + 42.0, y, Anchor::Start, &shown);
            svg.path(&class, &data);
        });
    }
}

/// Whether two curves cannot be told apart by eye: each step within a hundredth of a decade.
fn alike(a: &[(f64, f64)], b: &[(f64, f64)]) -> bool {
    let near = |a: f64, b: f64| (a <= 0.0 && b <= 0.0) || (a / b).log10().abs() < 0.01;
    a.len() == b.len() && a.iter().zip(b).all(|((a, _), (b, _))| near(*a, *b))
}

/// A share of a range, with as many digits as it deserves.
fn of_range(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 0.01 => "0.01 %".to_owned(),
        p if p < 1.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}
