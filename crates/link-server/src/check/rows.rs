//! What was expected of a link beside what was measured.

use nestor_link::End;
use nestor_statistics::binomial_interval;
use serde::Serialize;

use super::CheckedLink;
use super::machine::{Part, Seen, Sending};
use super::shape::Shape;

/// A rate may deviate by that share.
const RATE_TOLERANCE: f64 = 0.01;
/// A delay may deviate by so much.
const DELAY_TOLERANCE_NS: f64 = 10_000.0;
/// A link that loses frames as it should loses so many that the count lies outside of its interval with this probability.
const LOSS_OUTSIDE: f64 = 1e-6;
/// What is measured of frames that arrive is judged if a link that loses as many as it should lets so many arrive.
const FEWEST_ARRIVALS: usize = 20;
/// So many frames on the wire are sent at most for them.
const MOST_FRAMES: u64 = 20_000;

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Bits on the wire in a time, while only this end sends.
    Rate,
    /// The same while the other end sends as much.
    RateBothWays,
    /// The same with several machines at the upper end, which send at once to the lower end, or each of which is sent everything.
    RateOfSeveral,
    /// From the last bit's departure to its arrival.
    Delay,
    /// Frames that do not arrive.
    Lost,
    /// Bytes on the wire of the frames that the interface takes at once, besides the one that is on it.
    Queue,
    /// Frames that do not arrive in the order in which they were sent, or not as they were sent.
    Disordered,
}

/// The unit of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckUnit {
    /// Of a rate.
    BitsPerSecond,
    /// Of a delay.
    Nanoseconds,
    /// Of losses and order.
    Frames,
    /// Of a queue.
    Bytes,
}

/// The frames with which something was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameKind {
    /// As short as there can be.
    Shortest,
    /// As long as the link takes.
    Longest,
    /// TCP segments of 64 KiB, which the interface cuts.
    Segments,
    /// Of more than one kind.
    Mixed,
}

/// Whether a link is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is.
    Holds,
    /// It is not.
    Fails,
    /// So many frames are lost that too few arrive, however many are sent.
    NotMeasured,
}

impl Verdict {
    /// Of a link: it fails with any of its rows, and it holds if all hold.
    pub fn of(rows: &[CheckRow]) -> Self {
        let is_any = |verdict| rows.iter().any(|row| row.verdict == verdict);
        [Self::Fails, Self::NotMeasured].into_iter().find(|verdict| is_any(*verdict)).unwrap_or(Self::Holds)
    }
}

/// One quantity in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckRow {
    /// What was measured.
    pub quantity: Quantity,
    /// The end that sends.
    pub from: End,
    /// The frames that it sends.
    pub frames: FrameKind,
    /// The unit of all figures.
    pub unit: CheckUnit,
    /// How many frames on the wire were sent, of which these are; `None` where it is no count of frames.
    pub of_frames: Option<u64>,
    /// What should be measured.
    pub expected: f64,
    /// The least that may be measured.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// What was; `None` if nothing arrived.
    pub measured: Option<f64>,
    /// Whether that holds.
    pub verdict: Verdict,
    /// What the expectation comes from.
    pub source: &'static str,
}

impl CheckRow {
    /// Judges what was measured of the frames that arrived, if enough of so many sendings arrive over a link as it should be.
    fn judged_of(self, link: &CheckedLink, shape: Shape, sendings: usize) -> Self {
        if fewest_arrivals(link, shape, sendings) < FEWEST_ARRIVALS {
            Self { measured: None, verdict: Verdict::NotMeasured, ..self }
        } else {
            self.judged()
        }
    }

    /// Judges what was measured.
    fn judged(mut self) -> Self {
        self.verdict = match self.measured {
            Some(measured) if (self.low..=self.high).contains(&measured) => Verdict::Holds,
            _ => Verdict::Fails,
        };
        self
    }
}

impl FrameKind {
    fn of(shape: Shape) -> Self {
        match shape {
            Shape::Shortest => Self::Shortest,
            Shape::Longest { .. } => Self::Longest,
            Shape::Segment { .. } => Self::Segments,
        }
    }
}

/// So many times a shape is to be sent that enough arrives: `usual` times or more, unless that were more than [`MOST_FRAMES`].
pub fn sendings_for(link: &CheckedLink, shape: Shape, usual: usize) -> usize {
    let most = usize::try_from(MOST_FRAMES / shape.frames()).unwrap_or(usize::MAX);
    let doubled = std::iter::successors(Some(usual), |sendings| Some(2 * sendings));
    let mut tried = doubled.take_while(|sendings| *sendings <= most.max(usual));
    tried.find(|sendings| fewest_arrivals(link, shape, *sendings) >= FEWEST_ARRIVALS).unwrap_or(usual)
}

/// Of how many sendings of a shape something arrives at least.
fn fewest_arrivals(link: &CheckedLink, shape: Shape, sendings: usize) -> usize {
    let arrives = 1.0 - link.wire.loss.powf(shape.frames() as f64);
    binomial_interval(sendings, arrives, LOSS_OUTSIDE).0
}

/// How fast frames arrive that were sent without a pause.
pub fn rate_row(
    link: &CheckedLink,
    quantity: Quantity,
    from: End,
    plan: &[Sending],
    seen: &Seen,
) -> CheckRow {
    const SOURCE: &str =
        "the rate; IEEE 802.3, 3.1.1 and 4.4.2: bits of a frame with preamble, check sequence and gap";
    let shape = plan.first().map_or(Shape::Shortest, |first| first.shape);
    row_of_rate(link, quantity, from, shape, arrival_rate(plan, seen), SOURCE).judged_of(
        link,
        shape,
        plan.len(),
    )
}

/// A rate beside that of the link, not judged yet.
fn row_of_rate(
    link: &CheckedLink,
    quantity: Quantity,
    from: End,
    shape: Shape,
    measured: Option<f64>,
    source: &'static str,
) -> CheckRow {
    let rate = link.wire.rate_bits_per_s as f64;
    CheckRow {
        quantity,
        from,
        frames: FrameKind::of(shape),
        unit: CheckUnit::BitsPerSecond,
        of_frames: None,
        expected: rate,
        low: rate * (1.0 - RATE_TOLERANCE),
        high: rate * (1.0 + RATE_TOLERANCE),
        measured,
        verdict: Verdict::NotMeasured,
        source,
    }
}

/// Bits that were on the wire between the last bits of the first and of the last that arrived, in a second.
fn arrival_rate(plan: &[Sending], seen: &Seen) -> Option<f64> {
    let known = || seen.arrivals.iter().filter_map(|arrival| Some((arrival.part?, arrival.at_ns)));
    let ((first, begins_ns), (last, ends_ns)) = (known().next()?, known().next_back()?);
    let of_first = |part: Part| Some(plan.get(part.index)?.shape.bits_of_first(part.end));
    let between: u64 = plan.get(first.index..last.index)?.iter().map(|sent| sent.shape.bits()).sum();
    let bits = (between + of_first(last)?).checked_sub(of_first(first)?)?;
    let ns = ends_ns.checked_sub(begins_ns).filter(|ns| *ns > 0)?;
    Some(bits as f64 * 1e9 / ns as f64)
}

/// How fast frames of a shape arrive that several machines sent without a pause, or that one sent to several: of all who receive, the rate that
/// is furthest from what is expected.
pub fn shared_rate_row(link: &CheckedLink, from: End, shape: Shape, seen: &[Seen]) -> CheckRow {
    let rate = link.wire.rate_bits_per_s as f64;
    let rates = seen.iter().map(|seen| {
        let (first, last) = seen.arrivals.first().zip(seen.arrivals.last())?;
        let ns = last.at_ns.checked_sub(first.at_ns).filter(|ns| *ns > 0)?;
        Some((seen.arrivals.len() as u64 - 1) as f64 * shape.bits() as f64 * 1e9 / ns as f64)
    });
    let furthest = rates.max_by(|a, b| {
        let off = |measured: &Option<f64>| measured.map_or(f64::INFINITY, |measured| (measured - rate).abs());
        off(a).total_cmp(&off(b))
    });
    let source = "the rate of the one wire at the lower end, which all share";
    row_of_rate(link, Quantity::RateOfSeveral, from, shape, furthest.flatten(), source).judged()
}

/// What a frame that finds the wire free takes beside its bits; of all, the one that is furthest from what is expected.
pub fn delay_row(link: &CheckedLink, from: End, plan: &[Sending], seen: &Seen) -> CheckRow {
    let expected = link.wire.delay_ns as f64;
    let delays = seen.arrivals.iter().filter_map(|arrival| {
        let sent = plan.get(arrival.part?.index)?;
        let wire_ns = sent.shape.bits() as f64 * 1e9 / link.wire.rate_bits_per_s as f64;
        Some(arrival.at_ns as f64 - sent.at_ns as f64 - wire_ns)
    });
    CheckRow {
        quantity: Quantity::Delay,
        from,
        frames: FrameKind::Mixed,
        unit: CheckUnit::Nanoseconds,
        of_frames: None,
        expected,
        low: (expected - DELAY_TOLERANCE_NS).max(0.0),
        high: expected + DELAY_TOLERANCE_NS,
        measured: delays.max_by(|a, b| (a - expected).abs().total_cmp(&(b - expected).abs())),
        verdict: Verdict::NotMeasured,
        source: "the delay; the time of a frame on the wire is its bits / rate",
    }
    .judged_of(link, Shape::Shortest, plan.len())
}

/// How many frames on the wire are sent.
fn frames_of(plan: &[Sending]) -> u64 {
    plan.iter().map(|sent| sent.shape.frames()).sum()
}

/// How many frames do not arrive.
pub fn lost_row(link: &CheckedLink, from: End, plan: &[Sending], seen: &Seen) -> CheckRow {
    let shape = plan.first().map_or(Shape::Shortest, |first| first.shape);
    let sent = frames_of(plan);
    let arrived = seen.arrivals.iter().map(|arrival| arrival.part.map_or(1, |part| part.end - part.begin));
    let trials = usize::try_from(sent).unwrap_or(usize::MAX);
    let (low, high) = binomial_interval(trials, link.wire.loss, LOSS_OUTSIDE);
    CheckRow {
        quantity: Quantity::Lost,
        from,
        frames: FrameKind::of(shape),
        unit: CheckUnit::Frames,
        of_frames: Some(sent),
        expected: sent as f64 * link.wire.loss,
        low: low as f64,
        high: high as f64,
        measured: Some(sent as f64 - arrived.sum::<u64>() as f64),
        verdict: Verdict::NotMeasured,
        source: "a binomial of the loss, of frames on the wire: outside of its interval with a probability of 1e-6",
    }
    .judged()
}

/// How many bytes the interface takes at time zero besides the frame that is on the wire.
pub fn queue_row(link: &CheckedLink, from: End, plan: &[Sending], seen: &Seen) -> CheckRow {
    let shape = plan.first().map_or(Shape::Shortest, |first| first.shape);
    let bytes = shape.bits() as f64 / 8.0;
    let at_once = seen.taken_ns.iter().filter(|at_ns| **at_ns == 0).count();
    let queue = link.wire.queue_bytes as f64;
    CheckRow {
        quantity: Quantity::Queue,
        from,
        frames: FrameKind::of(shape),
        unit: CheckUnit::Bytes,
        of_frames: None,
        expected: queue,
        low: (queue - bytes).max(0.0),
        high: queue,
        measured: at_once.checked_sub(1).map(|ahead| ahead as f64 * bytes),
        verdict: Verdict::NotMeasured,
        source: "the queue, less than a frame short of it: only whole frames are taken",
    }
    .judged()
}

/// How much arrives that is not what was sent, or not later than what was sent before.
pub fn disorder_row(link: &CheckedLink, from: End, plan: &[Sending], seen: &Seen) -> CheckRow {
    let mut next = (0, 0);
    let wrong = seen.arrivals.iter().filter(|arrival| {
        let is_in_order = arrival.part.is_some_and(|part| (part.index, part.begin) >= next);
        next = arrival.part.map_or(next, |part| (part.index, part.end));
        !is_in_order
    });
    CheckRow {
        quantity: Quantity::Disordered,
        from,
        frames: FrameKind::Mixed,
        unit: CheckUnit::Frames,
        of_frames: Some(frames_of(plan)),
        expected: 0.0,
        low: 0.0,
        high: 0.0,
        measured: Some(wrong.count() as f64),
        verdict: Verdict::NotMeasured,
        source: "a wire is a queue, and changes nothing of a frame",
    }
    .judged_of(link, Shape::Shortest, plan.len())
}
