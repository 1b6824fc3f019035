//! From lives of instances to the way that an image should take.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use nestor_results::WrittenPlace;
use nestor_stack::BitRate;
use nestor_statistics::Estimated;
use nestor_statistics::summary::CONFIDENCE;
use serde::Serialize;

use super::cross_over::LifeLines;
use super::lines::{FEWEST, Lines, Point};
use super::missing::{Example, USUAL_COPIES, USUAL_OVERLAY, first_command};
use super::{AtOnce, CrossOver, Lack, MeasuredRange, Missing, NoPropagation, ObservedLife, Setup, Way};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
    /// Length of the image's file.
    pub image_bytes: u64,
    /// Instances of one node that are asked for at once.
    pub instances: u32,
    /// Rate of the link from the repository to the node.
    pub link_rate: BitRate,
    /// What an instance reads of its image; `None` if that is not known.
    pub reads_bytes: Option<u64>,
    /// Further arguments of `nestor run`, by which it measures in the same place for the same results file.
    #[serde(skip)]
    pub run_options: Vec<String>,
}

/// The ways, and which to take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PropagationAdvice {
    /// What was asked.
    pub question: Question,
    /// Where it was measured.
    pub place: WrittenPlace,
    /// What the lives have in common.
    pub setup: Setup,
    /// What was measured at this rate too, and is not compared with these.
    pub other_setups: Vec<Setup>,
    /// The ways of which a time is known, the one with the shortest upper bound first, and those without an interval last.
    pub ways: Vec<WayAnswer>,
    /// Which to take; `None` where nothing can be compared.
    pub choice: Option<Choice>,
    /// For each overlay and copy, which is done earlier; empty where what an instance reads was not measured of both.
    pub cross_overs: Vec<CrossOver>,
    /// What was not measured.
    pub missing: Vec<Missing>,
}

/// What is known of a way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WayAnswer {
    /// The way, with what is lost when the repository dies.
    #[serde(flatten)]
    pub way: Way,
    /// The transfer of the image, or its opening.
    pub transfer: AtOnce,
    /// What that rests on.
    pub transfer_of: MeasuredRange,
    /// The whole life of an instance that reads as much as was asked for, if that was asked for and measured.
    pub life: Option<AtOnce>,
    /// What that rests on.
    pub life_of: Option<MeasuredRange>,
}

/// What ways are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// Transfers of copies: an overlay has still to read, and how much is not known.
    TransfersOfCopies,
    /// Whole lives.
    Lives,
}

/// The way with the shortest upper bound, of those that have an interval if any has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Which.
    pub way: Way,
    /// By what.
    pub by: Compared,
    /// How many ways were compared.
    pub among: usize,
    /// Of these, the ones that are not told apart from it: of one instance, the interval of the difference is not above 0 (at 95 % for all pairs
    /// of ways together); of several, the bounds overlap.
    pub not_told_apart: Vec<Way>,
}

/// What was measured of one way.
struct Measured<'a> {
    way: &'a Way,
    transfer: Lines<'a>,
    /// Of lives with the workload that most ways have.
    rest: Option<Lines<'a>>,
}

/// A way with what it is compared by.
struct Candidate<'a> {
    way: &'a Way,
    time: &'a AtOnce,
    mean: Estimated,
}

/// Which way the image should come, by the lives that were measured at a place.
///
/// # Errors
/// Nothing was measured at this rate of the link.
pub fn propagation_advice(
    question: &Question,
    place: &WrittenPlace,
    lives: &[ObservedLife],
) -> Result<PropagationAdvice, NoPropagation> {
    let at_rate: Vec<&ObservedLife> =
        lives.iter().filter(|life| life.link_rate == question.link_rate).collect();
    let Some((setup, other_setups)) = settings(&at_rate) else { return Err(nothing(question, place, lives)) };
    let lives: Vec<&ObservedLife> = at_rate.into_iter().filter(|life| life.setup == setup).collect();
    let pattern = usual_pattern(&lives);
    let measured = measured(&lives, pattern);
    let mut ways: Vec<WayAnswer> = measured.iter().filter_map(|one| one.answer(question)).collect();
    let choice = choice(question, &measured, &ways);
    let is_by_lives = choice.as_ref().is_some_and(|choice| choice.by == Compared::Lives);
    let compared_by = |way: &WayAnswer| match is_by_lives {
        true => way.life.as_ref().map_or(UNKNOWN, AtOnce::upper_bound_s),
        false => way.transfer.upper_bound_s(),
    };
    ways.sort_by(|a, b| compare(compared_by(a), compared_by(b)));
    let cross_overs = pattern.map_or_else(Vec::new, |pattern| cross_overs(&measured, pattern, question));
    let example = lives.last().map(|life| Example { stack: &life.stack, trace: setup.trace, question });
    let missing =
        example.map_or_else(Vec::new, |example| missing(&example, &measured, pattern, choice.as_ref()));
    Ok(PropagationAdvice {
        question: question.clone(),
        place: place.clone(),
        setup,
        other_setups,
        ways,
        choice,
        cross_overs,
        missing,
    })
}

fn nothing(question: &Question, place: &WrittenPlace, lives: &[ObservedLife]) -> NoPropagation {
    let place = place.clone();
    let Some(life) = lives.last() else {
        return NoPropagation::NothingMeasured { place, command: first_command(question) };
    };
    let measured: BTreeSet<BitRate> = lives.iter().map(|life| life.link_rate).collect();
    let alike: BTreeSet<&str> =
        lives.iter().filter(|other| other.setup == life.setup).map(|life| life.way.layer.as_str()).collect();
    let example = Example { stack: &life.stack, trace: life.setup.trace, question };
    let command = example.of_sizes(&alike.into_iter().collect::<Vec<_>>());
    let measured = measured.into_iter().collect();
    NoPropagation::NotAtThisRate { asked: question.link_rate, measured, place, command }
}

/// The setup in which most ways were measured, or of several the one with most lives, and the others.
fn settings(lives: &[&ObservedLife]) -> Option<(Setup, Vec<Setup>)> {
    let mut counts: BTreeMap<&Setup, (BTreeSet<&Way>, usize)> = BTreeMap::new();
    for life in lives {
        let (ways, count) = counts.entry(&life.setup).or_default();
        ways.insert(&life.way);
        *count += 1;
    }
    let best = *counts.iter().max_by_key(|(_, (ways, count))| (ways.len(), *count))?.0;
    Some((best.clone(), counts.into_keys().filter(|setup| *setup != best).cloned().collect()))
}

/// The workload in instances that most ways were measured with, or of several the one with most lives.
fn usual_pattern<'a>(lives: &[&'a ObservedLife]) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, (BTreeSet<&Way>, usize)> = BTreeMap::new();
    for life in lives {
        if let Some(reads) = &life.reads {
            let (ways, count) = counts.entry(&reads.pattern).or_default();
            ways.insert(&life.way);
            *count += 1;
        }
    }
    counts.into_iter().max_by_key(|(_, (ways, count))| (ways.len(), *count)).map(|(pattern, _)| pattern)
}

fn measured<'a>(lives: &[&'a ObservedLife], pattern: Option<&str>) -> Vec<Measured<'a>> {
    let mut by_way: BTreeMap<&Way, Vec<&'a ObservedLife>> = BTreeMap::new();
    for life in lives {
        by_way.entry(&life.way).or_default().push(life);
    }
    let measured = |(way, lives): (&'a Way, Vec<&'a ObservedLife>)| {
        let transfer = lives
            .iter()
            .map(|life| Point { run: life.run, bytes: life.image_bytes, taken: &life.transfer })
            .collect();
        let rest = lives.iter().filter_map(|life| {
            let reads = life.reads.as_ref().filter(|reads| Some(reads.pattern.as_str()) == pattern)?;
            Some(Point { run: life.run, bytes: reads.bytes, taken: &life.rest })
        });
        Some(Measured { way, transfer: Lines::through(transfer)?, rest: Lines::through(rest.collect()) })
    };
    by_way.into_iter().filter_map(measured).collect()
}

impl Measured<'_> {
    /// What is known; `None` if no time of an image of that size is.
    fn answer(&self, question: &Question) -> Option<WayAnswer> {
        let image_bytes = question.image_bytes as f64;
        let seconds = self.transfer.one_more_at(image_bytes)?;
        let demands = self.transfer.demands_at(image_bytes);
        let life =
            question.reads_bytes.and_then(|bytes| self.life(image_bytes, bytes as f64, question.instances));
        let (life, life_of) = life.unzip();
        Some(WayAnswer {
            way: self.way.clone(),
            transfer: AtOnce::of(seconds, &demands, question.instances),
            transfer_of: self.transfer.range(image_bytes)?,
            life,
            life_of,
        })
    }

    /// The transfer and what follows it.
    fn life(&self, image_bytes: f64, reads_bytes: f64, instances: u32) -> Option<(AtOnce, MeasuredRange)> {
        let rest = self.rest.as_ref()?;
        let seconds = self.transfer.one_more_at(image_bytes)?.plus(rest.one_more_at(reads_bytes)?);
        let (transfer, rest_demands) = (self.transfer.demands_at(image_bytes), rest.demands_at(reads_bytes));
        // What was counted of one only is not known of the whole.
        let both = transfer.into_iter().filter_map(|(resource, demand)| {
            let whole = demand.plus(*rest_demands.get(&resource)?);
            Some((resource, whole))
        });
        Some((AtOnce::of(seconds, &both.collect(), instances), rest.range(reads_bytes)?))
    }

    /// The mean of what ways are compared by.
    fn mean(&self, question: &Question, by: Compared) -> Option<Estimated> {
        let transfer = self.transfer.mean_at(question.image_bytes as f64)?;
        match by {
            Compared::TransfersOfCopies => Some(transfer),
            Compared::Lives => {
                Some(transfer.plus(self.rest.as_ref()?.mean_at(question.reads_bytes? as f64)?))
            }
        }
    }
}

/// The order of a way of which nothing is known: the last.
const UNKNOWN: (bool, f64) = (true, f64::INFINITY);

fn compare(one: (bool, f64), other: (bool, f64)) -> Ordering {
    one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
}

/// The way with the shortest upper bound, of whole lives where those are known of several.
fn choice(question: &Question, measured: &[Measured<'_>], ways: &[WayAnswer]) -> Option<Choice> {
    let by = match ways.iter().filter(|way| way.life.is_some()).count() {
        0 | 1 => Compared::TransfersOfCopies,
        _ => Compared::Lives,
    };
    let time = |way: &WayAnswer| -> Option<AtOnce> {
        match by {
            Compared::Lives => way.life.clone(),
            Compared::TransfersOfCopies => way.way.is_copy().then(|| way.transfer.clone()),
        }
    };
    let times: BTreeMap<&Way, AtOnce> = ways.iter().filter_map(|way| Some((&way.way, time(way)?))).collect();
    let candidate = |one: &'_ Measured<'_>| {
        let (way, time) = times.get_key_value(one.way)?;
        Some(Candidate { way, time, mean: one.mean(question, by)? })
    };
    let candidates: Vec<Candidate<'_>> = measured.iter().filter_map(candidate).collect();
    let best = candidates.iter().min_by(|a, b| compare(a.time.upper_bound_s(), b.time.upper_bound_s()))?;
    let confidence = of_all_pairs(candidates.len());
    let others = candidates.iter().filter(|other| other.way != best.way);
    let alike = others.filter(|other| !best.is_before(other, question.instances, confidence));
    Some(Choice {
        way: best.way.clone(),
        by,
        among: candidates.len(),
        not_told_apart: alike.map(|other| other.way.clone()).collect(),
    })
}

/// The confidence of one pair with which all pairs of so many are right together with the usual one: Bonferroni's.
fn of_all_pairs(count: usize) -> f64 {
    let pairs = (count * count.saturating_sub(1) / 2).max(1);
    1.0 - (1.0 - CONFIDENCE) / pairs as f64
}

impl Candidate<'_> {
    fn is_before(&self, other: &Self, instances: u32, confidence: f64) -> bool {
        let Some(difference) = other.mean.minus(self.mean).interval(confidence) else { return false };
        difference.low > 0.0 && (instances == 1 || self.time.all_s.high < other.time.all_s.low)
    }
}

fn cross_overs(measured: &[Measured<'_>], pattern: &str, question: &Question) -> Vec<CrossOver> {
    let with_reads = |copies: bool| {
        measured.iter().filter(move |one| one.way.is_copy() == copies).filter_map(|one| {
            Some(LifeLines { way: one.way, transfer: &one.transfer, rest: one.rest.as_ref()? })
        })
    };
    with_reads(false)
        .flat_map(|overlay| {
            with_reads(true)
                .map(move |copy| CrossOver::of(&overlay, &copy, pattern, question.image_bytes as f64))
        })
        .collect()
}

fn missing(
    example: &Example<'_>,
    measured: &[Measured<'_>],
    pattern: Option<&str>,
    choice: Option<&Choice>,
) -> Vec<Missing> {
    let mut missing = Vec::new();
    for (is_copy, usual) in [(true, &USUAL_COPIES[..]), (false, &[USUAL_OVERLAY][..])] {
        if measured.iter().all(|one| one.way.is_copy() != is_copy) {
            let ways = usual.iter().map(|way| (*way).to_owned()).collect();
            missing.push(Missing { ways, lack: Lack::All, command: example.of_sizes(usual) });
        }
    }
    let too_few = |lines: Option<&Lines<'_>>| lines.is_none_or(|lines| lines.sizes() < FEWEST);
    let of = |lacks: &dyn Fn(&Measured<'_>) -> bool| -> Vec<&Way> {
        measured.iter().filter(|one| lacks(one)).map(|one| one.way).collect()
    };
    let layers = |ways: &[&Way]| -> Vec<String> { ways.iter().map(ToString::to_string).collect() };
    let sizes = of(&|one| too_few(Some(&one.transfer)));
    // Without the question, only the overlays and the best copy have to be compared.
    let is_asked = |one: &Measured<'_>| {
        example.question.reads_bytes.is_some()
            || !one.way.is_copy()
            || choice.is_some_and(|choice| choice.way == *one.way)
    };
    let reads = of(&|one| is_asked(one) && too_few(one.rest.as_ref()));
    for (ways, lack) in [(sizes, Lack::Sizes), (reads, Lack::Reads)] {
        if !ways.is_empty() {
            let words = layers(&ways);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let command = match lack {
                Lack::Reads => example.of_reads(&words, pattern),
                Lack::All | Lack::Sizes => example.of_sizes(&words),
            };
            missing.push(Missing::of(&ways, lack, command));
        }
    }
    missing
}
