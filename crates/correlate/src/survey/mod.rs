//! The first reading of a level: what must be known before its requests can be joined in one pass.
//!
//! Memory is bounded whatever the length: a histogram, the longest requests, and a sample of requests at places that
//! are chosen by a hash, so that the two sides of a join sample the same places without knowing of each other.

mod sample;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use nestor_layout::Class;
use nestor_statistics::LatencyHistogram;
use nestor_trace::{Operation, Request, TraceError};

use crate::input::LevelInput;
use crate::space::SpaceMap;
use crate::tree::LevelTimes;

pub(crate) use sample::{Occurrence, Place, Sample, Unkept};

/// Longest requests that are kept aside, so that the rest can be put into order within the time of the longest of
/// them (see [`crate::order`]).
const LONGEST: usize = 4096;
/// Times with steps of a microsecond are what text traces have.
const MICROSECOND_NS: u64 = 1000;

/// What the first reading found out.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Requests.
    pub requests: u64,
    /// Reads, writes, flushes, discards.
    pub by_operation: [u64; 4],
    /// Those of which [`Request::is_misaligned`] says so.
    pub misaligned: u64,
    /// Flushes of which only one moment is known.
    pub momentary_flushes: bool,
    /// First moment and last, on the level's own clock.
    pub span_ns: (u64, u64),
    /// Requests that took longest, in the order of issue.
    pub longest: Vec<Request>,
    /// No other request took longer from issue to completion.
    pub rest_wait_ns: u64,
    /// How far requests are out of the order of completion.
    pub disorder_ns: u64,
    /// Resolution of its times.
    pub resolution_ns: u64,
    /// Its requests have classes.
    pub attributed: bool,
    /// Queue and service.
    pub times: LevelTimes,
    /// Queued to completed, by operation, of a level whose requests are shown.
    pub latency: BTreeMap<Operation, LatencyHistogram>,
    /// The first flushes, as many as [`MOST_FLUSHES`].
    pub flushes: Vec<FlushTimes>,
    /// Places as they are in this level's own space.
    pub lower_sample: Sample,
    /// Places in the space of the level below.
    pub upper_sample: Sample,
    /// Bytes of reads and writes that the map to the level below knows and does not know.
    pub mapped_bytes: (u64, u64),
    /// Farthest byte that was asked for.
    pub end: u64,
    /// Why the requests end early, if they do.
    pub torn: Option<TraceError>,
}

/// Flushes that are kept to compare clocks by.
const MOST_FLUSHES: usize = 2048;

/// When a flush was sent on, and when it was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlushTimes {
    /// When the layer above handed it over.
    pub queued_ns: u64,
    /// When it was sent on.
    pub issued_ns: u64,
    /// When it was over.
    pub completed_ns: u64,
}

/// Reads a level. `below` is the map to the next one; requests of a level that `is_shown` are chosen by their latency.
pub(crate) fn survey(
    input: &LevelInput<'_>,
    below: Option<&SpaceMap>,
    is_top: bool,
    is_shown: bool,
) -> Result<Survey, TraceError> {
    let mut surveyor = Surveyor::new(below, is_top, is_shown);
    let mut torn = None;
    for request in input.source.open()? {
        match request {
            Ok(request) => surveyor.push(&request),
            Err(error) if surveyor.survey.requests > 0 => {
                torn = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Survey { torn, ..surveyor.finish() })
}

struct Surveyor<'a> {
    survey: Survey,
    below: Option<&'a SpaceMap>,
    is_top: bool,
    is_shown: bool,
    /// The longest so far, by wait; the shortest of them on top.
    longest: BinaryHeap<Reverse<(u64, u64, Held)>>,
    last_completed_ns: u64,
    whole_microseconds: bool,
}

/// A request in a heap that is sorted by other things.
#[derive(Clone, Copy, Debug)]
struct Held(Request);

impl PartialEq for Held {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<'a> Surveyor<'a> {
    fn new(below: Option<&'a SpaceMap>, is_top: bool, is_shown: bool) -> Self {
        let survey = Survey {
            requests: 0,
            by_operation: [0; 4],
            misaligned: 0,
            momentary_flushes: false,
            span_ns: (u64::MAX, 0),
            longest: Vec::new(),
            rest_wait_ns: 0,
            disorder_ns: 0,
            resolution_ns: 1,
            attributed: false,
            times: LevelTimes::default(),
            latency: BTreeMap::new(),
            flushes: Vec::new(),
            lower_sample: Sample::default(),
            upper_sample: Sample::default(),
            mapped_bytes: (0, 0),
            end: 0,
            torn: None,
        };
        Self {
            survey,
            below,
            is_top,
            is_shown,
            longest: BinaryHeap::with_capacity(LONGEST + 1),
            last_completed_ns: 0,
            whole_microseconds: true,
        }
    }

    fn push(&mut self, raw: &Request) {
        let request = in_order(*raw);
        let survey = &mut self.survey;
        survey.by_operation[request.operation as usize] += 1;
        survey.misaligned += u64::from(request.is_misaligned());
        survey.momentary_flushes |=
            request.operation == Operation::Flush && request.queued_ns == request.completed_ns;
        survey.span_ns.0 = survey.span_ns.0.min(request.queued_ns);
        survey.span_ns.1 = survey.span_ns.1.max(request.completed_ns);
        survey.disorder_ns =
            survey.disorder_ns.max(self.last_completed_ns.saturating_sub(request.completed_ns));
        self.last_completed_ns = self.last_completed_ns.max(request.completed_ns);
        self.whole_microseconds = self.whole_microseconds
            && request.issued_ns.is_multiple_of(MICROSECOND_NS)
            && request.completed_ns.is_multiple_of(MICROSECOND_NS);
        survey.attributed |= !matches!(request.class, Class::Unknown | Class::Flush);
        let wait_ns = request.completed_ns - request.issued_ns;
        if request.operation != Operation::Flush {
            survey.times.queue.record_ns(request.issued_ns - request.queued_ns);
            survey.times.service.record_ns(wait_ns);
        } else if survey.flushes.len() < MOST_FLUSHES {
            let Request { queued_ns, issued_ns, completed_ns, .. } = request;
            survey.flushes.push(FlushTimes { queued_ns, issued_ns, completed_ns });
        }
        if self.is_shown {
            let latency = survey.latency.entry(request.operation).or_default();
            latency.record_ns(request.completed_ns - request.queued_ns);
        }
        let number = survey.requests;
        survey.requests += 1;
        self.keep_longest(wait_ns, number, request);
        self.sample(&request);
    }

    fn keep_longest(&mut self, wait_ns: u64, number: u64, request: Request) {
        let full = self.longest.len() == LONGEST;
        if full && self.longest.peek().is_some_and(|Reverse((least, ..))| wait_ns <= *least) {
            self.survey.rest_wait_ns = self.survey.rest_wait_ns.max(wait_ns);
            return;
        }
        self.longest.push(Reverse((wait_ns, number, Held(request))));
        if full && let Some(Reverse((least, ..))) = self.longest.pop() {
            self.survey.rest_wait_ns = self.survey.rest_wait_ns.max(least);
        }
    }

    fn sample(&mut self, request: &Request) {
        let survey = &mut self.survey;
        survey.end = survey.end.max(request.offset.saturating_add(request.bytes));
        if !self.is_top {
            survey.lower_sample.push(request, request.offset);
        }
        let Some(map) = self.below else { return };
        if matches!(request.operation, Operation::Read | Operation::Write) {
            let missing = map.for_each_piece(request.offset, request.bytes, |_, _| {});
            survey.mapped_bytes.0 = survey.mapped_bytes.0.saturating_add(request.bytes - missing);
            survey.mapped_bytes.1 = survey.mapped_bytes.1.saturating_add(missing);
        }
        if let Some(lower) = map.below(request.offset) {
            survey.upper_sample.push(request, lower);
        }
    }

    fn finish(self) -> Survey {
        let mut survey = self.survey;
        if self.whole_microseconds && survey.requests > 0 {
            survey.resolution_ns = MICROSECOND_NS;
        }
        // As many took exactly as long as the rest's longest: they come with the rest.
        let rest = survey.rest_wait_ns;
        let kept = self.longest.into_iter().map(|Reverse((wait_ns, number, held))| (wait_ns, number, held.0));
        let mut longest: Vec<_> = kept.filter(|(wait_ns, ..)| *wait_ns > rest).collect();
        longest.sort_unstable_by_key(|(_, number, request)| (request.issued_ns, *number));
        survey.longest = longest.into_iter().map(|(.., request)| request).collect();
        survey
    }
}

/// The request with times in the order in which they must have been. A recorder that mixes clocks, or a hostile file,
/// gives others.
pub(crate) fn in_order(mut request: Request) -> Request {
    request.issued_ns = request.issued_ns.max(request.queued_ns);
    request.completed_ns = request.completed_ns.max(request.issued_ns);
    request
}
