//! The correlation as a whole: two readings and what they say.

use nestor_trace::{Operation, TraceError};

use crate::clock::{self, Clock, signed};
use crate::error::CorrelateError;
use crate::input::{Absorption, LevelInput};
use crate::join::{Between, Joined, Lane, MOST_LEVELS, Observer, Passing, Sampler, Sweep};
use crate::kind::LevelKind;
use crate::order::Ordered;
use crate::space::SpaceMap;
use crate::survey::{Survey, survey};
use crate::tree::{Correlation, Join, Level, LevelIndex, Origin};

/// Share of the bytes asked for that a map must know.
const LEAST_MAPPED: f64 = 0.5;
/// Requests above without a single one below that make a map wrong rather than a trace short.
const ENOUGH_TO_JUDGE: u64 = 32;

/// What a correlation is to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorrelateOptions {
    /// Requests around the trace's middle that are kept with their children.
    pub timeline_trees: usize,
}

impl Default for CorrelateOptions {
    fn default() -> Self {
        Self { timeline_trees: 200 }
    }
}

/// Joins the requests of all levels, topmost first. Each level is read twice. Memory is bounded by the requests that
/// are under way at once and a few fixed histories (some 40 MiB a level at most), not by the traces' length.
///
/// # Errors
/// See [`CorrelateError`].
pub fn correlate(
    levels: &[LevelInput<'_>],
    options: &CorrelateOptions,
) -> Result<Correlation, CorrelateError> {
    join_levels(levels, options, None)
}

/// [`correlate`], and tells `observer` of every request below the topmost level in the order in which they begin.
///
/// # Errors
/// See [`CorrelateError`].
pub fn correlate_observed(
    levels: &[LevelInput<'_>],
    options: &CorrelateOptions,
    observer: &mut dyn FnMut(&Joined<'_>),
) -> Result<Correlation, CorrelateError> {
    join_levels(levels, options, Some(observer))
}

fn join_levels<'a>(
    levels: &'a [LevelInput<'a>],
    options: &CorrelateOptions,
    observer: Option<Observer<'a>>,
) -> Result<Correlation, CorrelateError> {
    check_count(levels)?;
    let mut remarks = Vec::new();
    let mut surveys = read_all(levels, &mut remarks)?;
    check_maps(levels, &surveys, &mut remarks)?;
    let clocks = clocks(levels, &surveys, &mut remarks);
    let spans = spans_on_top(&surveys, &clocks);
    let betweens = betweens(levels, &surveys, &clocks, &spans);
    // The middle of what the lowest level saw: the topmost one may have been recorded for longer.
    let (first, last) = spans[levels.len() - 1];
    let middle = first + (last - first) / 2;
    let asked = topmost_asked(levels);
    let mut sampler = Sampler::new(options.timeline_trees, middle.max(spans[0].0));
    // fio keeps no record of each fsync: what it waits for is looked for where it first appears.
    for level in [LevelIndex::TOP, asked] {
        sampler.look_for(level, &surveys[level.position()].latency);
    }
    let lanes = lanes(levels, &mut surveys, &clocks)?;
    let mut passings = vec![Passing::new(asked, levels.len())];
    if asked > LevelIndex::TOP {
        passings.push(Passing::new(LevelIndex::TOP, levels.len()));
    }
    let swept = Sweep::new(lanes, betweens, sampler, passings, observer).run();
    if swept.forced > 0 {
        remarks.push(format!(
            "{} requests counted as complete too early, because more were in flight than possible",
            swept.forced
        ));
    }
    let joins = joins(levels, swept.betweens, &clocks, &mut remarks);
    check_joins(levels, &surveys, &joins, &mut remarks)?;
    let (trees, timeline) = swept.sampler.finish();
    let mut passages = swept.passages.into_iter();
    Ok(Correlation {
        levels: levels.iter().zip(&surveys).map(|(level, survey)| described(level, survey)).collect(),
        joins,
        blame: swept.blame,
        times: surveys.iter_mut().map(|survey| std::mem::take(&mut survey.times)).collect(),
        passage: passages.next().unwrap_or_default(),
        application_passage: passages.next().unwrap_or_default(),
        trees,
        timeline,
        most_held: swept.most_held as u64,
        agreement: None,
        remarks,
    })
}

fn check_count(levels: &[LevelInput<'_>]) -> Result<(), CorrelateError> {
    if levels.len() < 2 {
        return Err(CorrelateError::TooFewLevels { levels: levels.len() });
    }
    if levels.len() > MOST_LEVELS {
        return Err(CorrelateError::TooManyLevels { levels: levels.len(), limit: MOST_LEVELS });
    }
    Ok(())
}

/// The level at which the topmost layer asks for something: below the application, whose operations are no requests.
fn topmost_asked(levels: &[LevelInput<'_>]) -> LevelIndex {
    let asked = levels.iter().position(|level| level.kind() != LevelKind::Application);
    LevelIndex::at(asked.unwrap_or(levels.len() - 1))
}

/// What lies between each level and the one below it.
fn betweens<'a>(
    levels: &'a [LevelInput<'a>],
    surveys: &[Survey],
    clocks: &[Clock],
    spans: &[(i64, i64)],
) -> Vec<Between<'a>> {
    let between = |lower: usize| {
        let (level, tolerance) = (&levels[lower], clocks[lower - 1].tolerance_ns);
        let mut between = Between::new(&level.map, level.cache, tolerance, [spans[lower - 1], spans[lower]]);
        between.momentary_flushes = surveys[lower - 1].momentary_flushes;
        between.is_image_file = level.kind() == LevelKind::ImageFile;
        between.flushes_below = surveys[lower].by_operation[Operation::Flush as usize] > 0;
        // From whom calls come, they are not calls yet.
        let is_calls = |level: &LevelInput<'_>| matches!(level.kind(), LevelKind::Calls(_));
        between.flushes_if_needed = is_calls(level) && !is_calls(&levels[lower - 1]);
        between.discards_below = surveys[lower].by_operation[Operation::Discard as usize] > 0;
        between
    };
    (1..levels.len()).map(between).collect()
}

/// The levels, opened for the second reading.
fn lanes<'a>(
    levels: &'a [LevelInput<'a>],
    surveys: &mut [Survey],
    clocks: &[Clock],
) -> Result<Vec<Lane<'a>>, CorrelateError> {
    let named = named_in_causes(levels, surveys);
    let mut lanes = Vec::new();
    for (index, level) in levels.iter().enumerate() {
        let stream =
            level.source.open().map_err(|source| requests_error(levels, LevelIndex::at(index), source))?;
        let upward = clocks[..index].iter().rev().cloned().collect();
        let ordered = Ordered::new(stream, &mut surveys[index]);
        let is_virtual_disk = level.kind() == LevelKind::Hypervisor;
        lanes.push(Lane::new(ordered, upward, named[index], is_virtual_disk));
    }
    Ok(lanes)
}

/// What the sweep found between the levels, with the clocks it used.
fn joins(
    levels: &[LevelInput<'_>],
    swept: Vec<Between<'_>>,
    clocks: &[Clock],
    remarks: &mut Vec<String>,
) -> Vec<Join> {
    let mut joins = Vec::new();
    for (upper, between) in swept.into_iter().enumerate() {
        let names = format!("{} to {}", levels[upper].header.layer, levels[upper + 1].header.layer);
        if between.forgot() {
            remarks.push(format!(
                "{names}: the record of written ranges is full; some origins of later writes are unknown"
            ));
        }
        let clock = &clocks[upper];
        joins.push(Join {
            above: LevelIndex::at(upper),
            clock_offset_ns: clock.offset_ns,
            clock_drift_ppb: clock.drift_ppb,
            clock_bound_ns: clock.bound_ns,
            clock_pairs: clock.pairs,
            clocks_were_read: clock.was_read,
            clock_jumps: clock.jumps.len() as u32,
            ..between.tally.finish(&names, remarks)
        });
    }
    joins
}

/// Which levels a [`Cause`](crate::Cause) tells the classes of: every attributed one, and always one at the top. Above an
/// attributed file system the application has nothing to add: whatever it asks for is file data.
fn named_in_causes(levels: &[LevelInput<'_>], surveys: &[Survey]) -> Vec<bool> {
    let below_application = levels[0].kind() == LevelKind::Application && surveys[1].attributed;
    let first = usize::from(below_application);
    (0..levels.len()).map(|level| level == first || (level > first && surveys[level].attributed)).collect()
}

fn described(level: &LevelInput<'_>, survey: &Survey) -> Level {
    let header = &level.header;
    Level {
        layer: header.layer.clone(),
        kind: level.kind(),
        machine: header.machine.as_str().into(),
        requests: survey.requests,
        misaligned: survey.misaligned,
    }
}

pub(crate) fn requests_error(
    levels: &[LevelInput<'_>],
    level: LevelIndex,
    source: TraceError,
) -> CorrelateError {
    CorrelateError::Requests { level, layer: levels[level.position()].header.layer.clone(), source }
}

/// The first reading of every level.
fn read_all(levels: &[LevelInput<'_>], remarks: &mut Vec<String>) -> Result<Vec<Survey>, CorrelateError> {
    let asked = topmost_asked(levels);
    let mut surveys = Vec::new();
    for (index, level) in levels.iter().enumerate() {
        let below = levels.get(index + 1).map(|lower| &lower.map);
        let at = LevelIndex::at(index);
        let is_top = at == LevelIndex::TOP;
        let survey = survey(level, below, is_top, is_top || at == asked)
            .map_err(|source| requests_error(levels, at, source))?;
        let layer = &level.header.layer;
        if survey.requests == 0 {
            return Err(CorrelateError::Empty { level: at, layer: layer.clone() });
        }
        if let Some(error) = &survey.torn {
            remarks.push(format!("{layer}: {error}"));
        }
        if level.header.dropped > 0 {
            remarks.push(format!(
                "{layer}: at least {} requests are missing from its trace; requests that belong to them \
                 have no parent or no child",
                level.header.dropped
            ));
        }
        surveys.push(survey);
    }
    Ok(surveys)
}

/// Refuses maps that are of something else.
fn check_maps(
    levels: &[LevelInput<'_>],
    surveys: &[Survey],
    remarks: &mut Vec<String>,
) -> Result<(), CorrelateError> {
    for (lower, level) in levels.iter().enumerate().skip(1) {
        let SpaceMap::Extents(map) = &level.map else { continue };
        let (above, below) = (&levels[lower - 1].header.layer, &level.header.layer);
        let refuse = |reason: String| {
            Err(CorrelateError::MapDoesNotFit { above: above.clone(), below: below.clone(), reason })
        };
        let (mapped, missing) = surveys[lower - 1].mapped_bytes;
        let (upper_end, lower_end) = map.ends();
        if (mapped as f64) < LEAST_MAPPED * (mapped as f64 + missing as f64) {
            return refuse(format!(
                "it covers {mapped} of the {} bytes that {above} requested, up to byte {upper_end}, but \
                 {above} used bytes up to {}; use the map of the image at that time",
                mapped.saturating_add(missing),
                surveys[lower - 1].end
            ));
        }
        let space = level.header.space_bytes;
        if space > 0 && lower_end > space {
            return refuse(format!(
                "it extends to byte {lower_end} of a device of {space} bytes; does it belong to another device, or \
                 does a partition begin later?"
            ));
        }
        if missing > 0 {
            remarks.push(format!(
                "{above} to {below}: {} KiB that were requested are not in the map (holes, or the image \
                 grew)",
                missing.div_ceil(1024)
            ));
        }
    }
    Ok(())
}

/// Says where joins are so few that a map is of something else.
fn check_joins(
    levels: &[LevelInput<'_>],
    surveys: &[Survey],
    joins: &[Join],
    remarks: &mut Vec<String>,
) -> Result<(), CorrelateError> {
    for join in joins {
        let (upper, lower) = (join.above.position(), join.above.below().position());
        let (above, below) = (&levels[upper].header.layer, &levels[lower].header.layer);
        let [reads, writes, ..] = surveys[upper].by_operation;
        let found = [Origin::Parent, Origin::WriteBack, Origin::FlushOfParent, Origin::ReadModifyWrite]
            .iter()
            .any(|origin| join.origin_bytes.get(origin).is_some_and(|bytes| *bytes > 0));
        if found || reads + writes < ENOUGH_TO_JUDGE {
            continue;
        }
        if matches!(levels[lower].map, SpaceMap::Extents(_)) {
            return Err(CorrelateError::MapDoesNotFit {
                above: above.clone(),
                below: below.clone(),
                reason: format!(
                    "no request of {below} is where the map puts those of {above}; use the map of the image \
                     and the trace of the device that were used"
                ),
            });
        }
        remarks.push(format!("{above} to {below}: no request of the one belongs to a request of the other"));
    }
    Ok(())
}

/// The clock of every level but the topmost, against the level above.
fn clocks(levels: &[LevelInput<'_>], surveys: &[Survey], remarks: &mut Vec<String>) -> Vec<Clock> {
    let between = |lower: usize| {
        let (above, below) = (&levels[lower - 1].header, &levels[lower].header);
        let resolution = surveys[lower - 1].resolution_ns.max(surveys[lower].resolution_ns);
        if above.machine == below.machine && !above.machine.is_empty() {
            return Clock::same(resolution);
        }
        if let Some(clock) = levels[lower - 1]
            .shared_clock
            .zip(levels[lower].shared_clock)
            .and_then(|(above, below)| Clock::shared(&above, &below, resolution))
        {
            return clock;
        }
        let slack = if resolution > 1 { resolution } else { 0 };
        let (sample, sample_below) = (&surveys[lower - 1].upper_sample, &surveys[lower].lower_sample);
        let writes_wait = levels[lower].cache.writes != Absorption::Possible;
        let mut pairs = clock::pairs(sample, sample_below, writes_wait, signed(slack));
        let span = (signed(surveys[lower].span_ns.0), signed(surveys[lower].span_ns.1));
        let fallback = signed(surveys[lower - 1].span_ns.0) - span.0;
        let guess = clock::guess(&above.clock, &below.clock).map(|guess| match writes_wait {
            true => guess,
            false => clock::not_before(guess, &clock::written_before(sample, sample_below)),
        });
        if pairs.is_empty()
            && levels[lower - 1].kind() == LevelKind::Application
            && let Some(guess) = guess
        {
            pairs = clock::flush_pairs(&surveys[lower - 1].flushes, &surveys[lower].flushes, guess);
        }
        let mut said = Vec::new();
        let clock = Clock::estimate(&pairs, guess, fallback, span, slack, &mut said);
        let names = format!("{} to {}", above.layer, below.layer);
        remarks.extend(said.into_iter().map(|remark| format!("{names}: {remark}")));
        if clock.bound_ns == u64::MAX && guess.is_some() {
            remarks.push(format!(
                "{names}: no pair of requests bounds the clocks; they are taken to agree on the time of day"
            ));
        }
        for at_ns in &clock.jumps {
            let after = (at_ns - span.0).max(0) as f64 / 1e9;
            remarks.push(format!(
                "{names}: one of the two clocks jumped {after:.3} s after the lower trace began"
            ));
        }
        clock
    };
    (1..levels.len()).map(between).collect()
}

/// When each level was recorded, on the topmost level's clock.
fn spans_on_top(surveys: &[Survey], clocks: &[Clock]) -> Vec<(i64, i64)> {
    let on_top = |(level, survey): (usize, &Survey)| {
        let up =
            |time: u64| clocks[..level].iter().rev().fold(signed(time), |time, clock| clock.to_upper(time));
        (up(survey.span_ns.0), up(survey.span_ns.1))
    };
    surveys.iter().enumerate().map(on_top).collect()
}
