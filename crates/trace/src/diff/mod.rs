//! Each number of two traces beside each other.

mod noise;
mod traces;

use nestor_statistics::{Interval, LatencyHistogram, unpaired_ratio};
use serde::Serialize;

use self::noise::{Batches, Estimate, mean, quantile};
pub use self::traces::{ComparedLayer, ComparedTraces};
use crate::{LayerMetrics, Operation, Phase};

/// Among some thirty numbers side by side, one or two would be outside a 95 % interval by chance. Each
/// of thirty 99.83 % intervals (Bonferroni) is wider by 3.14 over 1.96, points of the normal distribution.
const FOR_MANY: f64 = 1.6;

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Requests per second.
    PerSecond,
    /// 0 to 1.
    Share,
    /// Sectors.
    Sectors,
    /// A plain number.
    Number,
}

/// Whether a difference means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval of the ratio excludes 1, and would do so if it were [`FOR_MANY`] times as wide.
    Differs,
    /// It does not.
    WithinNoise,
    /// It is a count or of too short a trace: no interval.
    NoInterval,
}

/// A number that stands for many lengths of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
}

/// Which lengths of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Of this interval.
    pub phase: Phase,
    /// Of these requests alone; absent where it is not told by operation.
    pub of: Option<Operation>,
}

impl Times {
    /// Whether they are those of the reads or the writes among the requests of `whole`. Flushes are in no whole.
    pub fn is_part_of(self, whole: Self) -> bool {
        let of_data = matches!(self.of, Some(Operation::Read | Operation::Write));
        of_data && whole == Self { of: None, ..self }
    }
}

/// One number of both traces.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// `mean Q2C`.
    pub metric: &'static str,
    /// What it says, for people: `a request waits`.
    pub meaning: &'static str,
    /// What it is of which times; absent where it is of something else.
    #[serde(skip)]
    pub times: Option<(Statistic, Times)>,
    /// Its unit.
    pub unit: Unit,
    /// In the first trace.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// B over A; absent where one is 0.
    pub ratio: Option<f64>,
    /// Its 95 % interval, where there is one.
    pub interval: Option<Interval>,
    /// Whether that is more than noise.
    pub verdict: Verdict,
    /// How much it matters, to sort by: larger is more.
    pub importance: f64,
}

/// All numbers that both have, the most important first.
pub fn differences(a: &LayerMetrics, b: &LayerMetrics) -> Vec<Difference> {
    let mut found = Vec::new();
    rates(a, b, &mut found);
    times(a, b, &mut found);
    counts(a, b, &mut found);
    found.sort_by(|x, y| y.importance.total_cmp(&x.importance));
    found
}

fn difference(
    (metric, meaning): (&'static str, &'static str),
    unit: Unit,
    a: f64,
    b: f64,
    interval: Option<Interval>,
) -> Difference {
    let ratio = (a > 0.0 && b > 0.0).then(|| b / a);
    let verdict = match interval {
        Some(interval) if contains_one(interval) => Verdict::WithinNoise,
        Some(_) => Verdict::Differs,
        None => Verdict::NoInterval,
    };
    // Of shares the difference counts: 1 in 1000 and 2 in 1000 are both few. Something that is in one of them only is
    // taken for a factor of ten.
    let size = match ratio {
        _ if unit == Unit::Share => 2.0 * (a - b).abs(),
        Some(ratio) => ratio.ln().abs(),
        None if a == b => 0.0,
        None => 10_f64.ln(),
    };
    let weight = match verdict {
        Verdict::Differs => 1.0,
        Verdict::NoInterval => 0.3,
        Verdict::WithinNoise => 0.01,
    };
    Difference {
        metric,
        meaning,
        times: None,
        unit,
        a,
        b,
        ratio,
        interval,
        verdict,
        importance: size * weight,
    }
}

/// Whether an interval widened for many comparisons contains 1.
fn contains_one(interval: Interval) -> bool {
    let (low, high) = (interval.low.ln(), interval.high.ln());
    let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0);
    middle.abs() <= half * FOR_MANY
}

/// Numbers over time, held against the spread of batches of each trace.
fn rates(a: &LayerMetrics, b: &LayerMetrics, found: &mut Vec<Difference>) {
    let (first, second) = (Batches::of(a), Batches::of(b));
    let per_second = |n: u64, m: &LayerMetrics| if m.span_s > 0.0 { n as f64 / m.span_s } else { 0.0 };
    let requests = |m: &LayerMetrics| per_second(m.read.completed + m.write.completed, m);
    let moved = |m: &LayerMetrics| per_second(m.read.completed_bytes + m.write.completed_bytes, m);
    let depth = |m: &LayerMetrics| m.timeline.as_ref().and_then(|t| t.mean_depth()).unwrap_or(0.0);
    let all = [
        (
            ("IOPS", "requests per second"),
            Unit::PerSecond,
            requests(a),
            requests(b),
            &first.requests,
            &second.requests,
        ),
        (
            ("throughput", "data per second"),
            Unit::BytesPerSecond,
            moved(a),
            moved(b),
            &first.bytes,
            &second.bytes,
        ),
        (
            ("queue depth", "requests in flight"),
            Unit::Number,
            depth(a),
            depth(b),
            &first.depth,
            &second.depth,
        ),
    ];
    for (name, unit, x, y, batches_a, batches_b) in all {
        if x > 0.0 || y > 0.0 {
            let interval = unpaired_ratio(batches_a, batches_b).and_then(|ratio| ratio.interval);
            found.push(difference(name, unit, x, y, interval));
        }
    }
}

/// An interval, of which requests it is, names of its mean, median and 99th percentile, and how to get it.
type NamedTimes = (
    Phase,
    Option<Operation>,
    [(&'static str, &'static str); 3],
    fn(&LayerMetrics) -> Option<&LatencyHistogram>,
);

const TIMES: [NamedTimes; 9] = [
    (
        Phase::Q2C,
        None,
        [
            ("mean Q2C", "a request takes"),
            ("p50 Q2C", "half take more than"),
            ("p99 Q2C", "1 % take more than"),
        ],
        |m| m.q2c.as_ref(),
    ),
    (
        Phase::D2C,
        None,
        [
            ("mean D2C", "the device takes"),
            ("p50 D2C", "the device takes, for half of the requests, more than"),
            ("p99 D2C", "the device takes, for 1 %, more than"),
        ],
        |m| m.d2c.as_ref(),
    ),
    (
        Phase::Q2D,
        None,
        [
            ("mean Q2D", "the queue takes"),
            ("p50 Q2D", "the queue takes, for half of the requests, more than"),
            ("p99 Q2D", "the queue takes, for 1 %, more than"),
        ],
        |m| m.q2d.as_ref(),
    ),
    (
        Phase::I2D,
        None,
        [
            ("mean I2D", "the scheduler takes"),
            ("p50 I2D", "the scheduler takes, for half of the requests, more than"),
            ("p99 I2D", "the scheduler takes, for 1 %, more than"),
        ],
        |m| m.i2d.as_ref(),
    ),
    (
        Phase::Q2G,
        None,
        [
            ("mean Q2G", "getting a request takes"),
            ("p50 Q2G", "getting a request takes, for half of them, more than"),
            ("p99 Q2G", "getting a request takes, for 1 %, more than"),
        ],
        |m| m.q2g.as_ref(),
    ),
    (
        Phase::Q2C,
        Some(Operation::Read),
        [
            ("mean read Q2C", "a read takes"),
            ("p50 read Q2C", "half of the reads take more than"),
            ("p99 read Q2C", "1 % of the reads take more than"),
        ],
        |m| m.read_times.q2c.as_ref(),
    ),
    (
        Phase::Q2C,
        Some(Operation::Write),
        [
            ("mean write Q2C", "a write takes"),
            ("p50 write Q2C", "half of the writes take more than"),
            ("p99 write Q2C", "1 % of the writes take more than"),
        ],
        |m| m.write_times.q2c.as_ref(),
    ),
    (
        Phase::D2C,
        Some(Operation::Flush),
        [
            ("mean flush", "a flush takes"),
            ("p50 flush", "half of the flushes take more than"),
            ("p99 flush", "1 % of the flushes take more than"),
        ],
        |m| m.flush_d2c.as_ref(),
    ),
    (
        Phase::Q2Q,
        None,
        [
            ("mean Q2Q", "between bios there are"),
            ("p50 Q2Q", "between half of the bios there are more than"),
            ("p99 Q2Q", "between 1 % of the bios there are more than"),
        ],
        |m| m.q2q.as_ref(),
    ),
];

fn times(a: &LayerMetrics, b: &LayerMetrics, found: &mut Vec<Difference>) {
    let inflation = |m: &LayerMetrics| m.q2c.as_ref().map_or(1.0, |whole| Batches::of(m).inflation(whole));
    let (wide_a, wide_b) = (inflation(a), inflation(b));
    let whole_ns = |m: &LayerMetrics| m.q2c.as_ref().and_then(|whole| Some(whole.summary()?.mean_ns));
    let longer_whole_ns = whole_ns(a).zip(whole_ns(b)).map(|(a, b)| a.max(b));
    for (phase, of, names, histogram) in TIMES {
        let (Some(x), Some(y)) = (histogram(a), histogram(b)) else { continue };
        let pairs = [
            (Statistic::Mean, mean(x, wide_a).zip(mean(y, wide_b))),
            (Statistic::P50, quantile(x, 0.5, wide_a).zip(quantile(y, 0.5, wide_b))),
            (Statistic::P99, quantile(x, 0.99, wide_a).zip(quantile(y, 0.99, wide_b))),
        ];
        for (name, (statistic, pair)) in names.into_iter().zip(pairs) {
            if let Some((x, y)) = pair {
                let times = Some((statistic, Times { phase, of }));
                let number = difference(name, Unit::Nanoseconds, x.value, y.value, interval(&x, &y));
                // A large factor of a small part of a request's time matters less than a small factor of most of it.
                let within = longer_whole_ns.filter(|whole| *whole > 0.0 && phase != Phase::Q2Q);
                let share = within.map_or(1.0, |whole| (x.value.max(y.value) / whole).min(1.0));
                let importance = number.importance * share;
                found.push(Difference { times, importance, ..number });
            }
        }
    }
}

/// Of the ratio of two independent estimates: their widths add up as squares, on a scale of logarithms.
fn interval(a: &Estimate, b: &Estimate) -> Option<Interval> {
    let half = a.log_half_width().hypot(b.log_half_width());
    let ratio = b.value / a.value;
    (half.is_finite() && ratio.is_finite() && ratio > 0.0)
        .then(|| Interval { low: ratio * (-half).exp(), high: ratio * half.exp() })
}

fn counts(a: &LayerMetrics, b: &LayerMetrics, found: &mut Vec<Difference>) {
    let over = |x: u64, y: u64| if y == 0 { 0.0 } else { x as f64 / y as f64 };
    let mut add = |name, unit, of: &dyn Fn(&LayerMetrics) -> f64| {
        let (x, y) = (of(a), of(b));
        if x > 0.0 || y > 0.0 {
            found.push(difference(name, unit, x, y, None));
        }
    };
    add(("requests", "requests"), Unit::Number, &|m| (m.read.completed + m.write.completed) as f64);
    add(("bytes", "data"), Unit::Bytes, &|m| (m.read.completed_bytes + m.write.completed_bytes) as f64);
    add(("request size", "a request has"), Unit::Bytes, &|m| over(m.issued_bytes(), m.issued()));
    add(("reads", "share of reads"), Unit::Share, &|m| over(m.read.issued, m.issued()));
    add(("merged", "share of bios merged"), Unit::Share, &|m| m.merged_share().unwrap_or(0.0));
    add(("sequential", "share that follows the previous request"), Unit::Share, &|m| {
        m.sequential_share.unwrap_or(0.0)
    });
    add(("D2D seek", "from one request to the next"), Unit::Sectors, &|m| {
        m.d2d_seeks.as_ref().map_or(0.0, |s| s.mean_sectors)
    });
    add(("flushes", "flushes sent per request"), Unit::Number, &|m| over(m.flushes, m.issued()));
    add(("FUA writes", "share of writes that are FUA"), Unit::Share, &|m| over(m.fua_writes, m.write.issued));
    add(("plugged", "share of the time plugged"), Unit::Share, &|m| {
        m.plugs.as_ref().and_then(|p| p.plugged_share()).unwrap_or(0.0)
    });
}
