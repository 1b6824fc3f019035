//! Offset and drift as a line, and how far the true one can be from it.

use super::Pair;

/// Drift beyond which no clock is searched: the kernel slews its clock by at most 500 ppm (adjtimex(2)), quartz adds
/// less than 100.
pub(super) const MOST_DRIFT: f64 = 600e-6;
/// Steps of a search by thirds: (2/3)^96 of 1200 ppm is below one part in 10^19.
const THIRDS: usize = 96;

/// The offset of a lower clock against an upper one, by the lower one's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub origin_ns: i64,
    pub offset_ns: i64,
    pub slope: f64,
}

impl Line {
    pub fn offset_at(&self, lower_ns: i64) -> i64 {
        let drift = lower_ns.saturating_sub(self.origin_ns) as f64 * self.slope;
        self.offset_ns.saturating_add(drift.round() as i64)
    }

    /// Whether the line lies between the bounds of a pair.
    pub fn agrees(&self, pair: &Pair, slack_ns: i64) -> bool {
        let offset_ns = self.offset_at(pair.at_ns);
        pair.low_ns - slack_ns <= offset_ns && offset_ns <= pair.high_ns + slack_ns
    }
}

/// All bounds, seen from one moment and one offset, as numbers that are small enough for floating point. Of the low
/// ones only the upper convex hull matters, and of the high ones the lower: a line above the hull's corners is above
/// all of them.
pub(super) struct Envelope {
    origin_ns: i64,
    base_ns: i64,
    /// Time since `origin_ns`, and bound of the offset less `base_ns`.
    lows: Vec<(f64, f64)>,
    highs: Vec<(f64, f64)>,
}

impl Envelope {
    pub fn new(pairs: &[Pair], origin_ns: i64, base_ns: i64, slack_ns: i64) -> Self {
        let mut order: Vec<&Pair> = pairs.iter().collect();
        order.sort_unstable_by_key(|pair| pair.at_ns);
        let (mut lows, mut highs) = (Vec::new(), Vec::new());
        for pair in order {
            let at = (pair.at_ns - origin_ns) as f64;
            add_corner(&mut lows, (at, (pair.low_ns - slack_ns - base_ns) as f64), 1.0);
            add_corner(&mut highs, (at, (pair.high_ns + slack_ns - base_ns) as f64), -1.0);
        }
        Self { origin_ns, base_ns, lows, highs }
    }

    /// Lowest and highest offset at `moment` of lines with this slope that keep all bounds.
    fn room(&self, slope: f64, moment: f64) -> (f64, f64) {
        let low = self
            .lows
            .iter()
            .map(|(at, bound)| bound - slope * (at - moment))
            .fold(f64::NEG_INFINITY, f64::max);
        let high =
            self.highs.iter().map(|(at, bound)| bound - slope * (at - moment)).fold(f64::INFINITY, f64::min);
        (low, high)
    }

    /// The line with most room on both sides, and half that room; less than 0 if no line keeps all bounds. Clocks hardly
    /// drift: where the bounds leave it open, one that does not is taken.
    pub fn widest(&self) -> (Line, f64) {
        // The room is a concave function of the slope: the least of many linear functions.
        let room = |slope: f64| {
            let (low, high) = self.room(slope, 0.0);
            high - low
        };
        let steepest = search(-MOST_DRIFT, MOST_DRIFT, room);
        let level = room(0.0);
        let slope = if level > 0.0 && level >= room(steepest) / 2.0 { 0.0 } else { steepest };
        let (low, high) = self.room(slope, 0.0);
        let offset_ns = self.base_ns + (low + (high - low) / 2.0).round() as i64;
        (Line { origin_ns: self.origin_ns, offset_ns, slope }, (high - low) / 2.0)
    }

    /// Lowest and highest offset at a moment of any line that keeps all bounds; `slope` is one of them.
    pub fn offsets_at(&self, at_ns: i64, slope: f64) -> (i64, i64) {
        let moment = (at_ns.saturating_sub(self.origin_ns)) as f64;
        let feasible = |slope: f64| {
            let (low, high) = self.room(slope, moment);
            high >= low
        };
        // Slopes that keep all bounds are an interval around the given one.
        let edge = |outside: f64| {
            let (mut inside, mut outside) = (slope, outside);
            if feasible(outside) {
                return outside;
            }
            for _ in 0..64 {
                let middle = (inside + outside) / 2.0;
                if feasible(middle) { inside = middle } else { outside = middle }
            }
            inside
        };
        let (least, most) = (edge(-MOST_DRIFT), edge(MOST_DRIFT));
        // The lowest offset is a convex function of the slope, the highest a concave one.
        let at_low = search(least, most, |slope| -self.room(slope, moment).0);
        let at_high = search(least, most, |slope| self.room(slope, moment).1);
        let base = self.base_ns as f64;
        let (low, high) = (self.room(at_low, moment).0, self.room(at_high, moment).1);
        ((base + low).floor() as i64, (base + high).ceil() as i64)
    }
}

/// Adds a point to the right of a convex hull: the upper one where `side` is 1, the lower one where it is -1 (Andrew,
/// Information Processing Letters 9, 1979).
fn add_corner(hull: &mut Vec<(f64, f64)>, point: (f64, f64), side: f64) {
    while let [.., a, b] = hull[..] {
        let turn = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
        // The last corner stays only if the way to the point bends towards the inside there.
        if turn * side < 0.0 {
            break;
        }
        hull.pop();
    }
    hull.push(point);
}

/// Where a concave function is largest between two numbers.
fn search(mut from: f64, mut to: f64, value: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..THIRDS {
        let third = (to - from) / 3.0;
        let (a, b) = (from + third, to - third);
        if value(a) < value(b) { from = a } else { to = b }
    }
    (from + to) / 2.0
}
