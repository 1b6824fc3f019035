//! All methods together: which is trusted and why, and when there is no answer.

use nestor_statistics::Interval;
use nestor_statistics::prediction::NullModel;
use serde::Serialize;

use crate::calibration::{self, Tracks};
use crate::evidence::{Evidence, Question};
use crate::learnt_model::{Expected, Knowledge};
use crate::methods::{METHODS, MethodId, Predicted, learnt};
use crate::missing::Missing;
use crate::nulls;
use crate::trust::Guess;

/// An interval whose ends are further apart than this factor is of no use: below half or above twice the number.
const WIDEST: f64 = 4.0;
/// Methods that look at the same measurements err together, so the error of all is no smaller than this share of the best one's.
const TOGETHER: f64 = 0.7;

/// What became of one method.
#[derive(Clone, Debug, Serialize)]
pub struct Trusted {
    /// Which.
    pub method: MethodId,
    /// Where it comes from.
    pub source: &'static str,
    /// Its number, if it has one.
    pub predicted: Option<Predicted>,
    /// The deviation it deserves by what it was off before.
    pub deviation: Option<f64>,
    /// Questions with known answers that it was tried on.
    pub truths: usize,
    /// Its share of the answer.
    pub weight: f64,
    /// What it lacks.
    pub missing: Option<Missing>,
}

/// What the deviation of a method rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grounds {
    /// What it said of hidden cells.
    HiddenStacks,
    /// So many questions with known answers.
    KnownAnswers(usize),
    /// Too few of them are known.
    Assumed,
}

impl Trusted {
    /// What its deviation rests on.
    pub fn grounds(&self) -> Grounds {
        match self.truths {
            _ if calibration::is_self_calibrated(self.method) => Grounds::HiddenStacks,
            truths if truths >= calibration::FEWEST_TRUTHS => Grounds::KnownAnswers(truths),
            _ => Grounds::Assumed,
        }
    }
}

/// An answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// What the load will reach, in the unit of the reference; `None`: I don't know.
    pub rate: Option<f64>,
    /// Where a measurement would be found with 90 % probability.
    pub interval: Option<Interval>,
    /// Why there is no answer.
    pub unknown: Option<String>,
    /// Every method.
    pub methods: Vec<Trusted>,
    /// Every null model, with its number if it has one.
    #[serde(serialize_with = "nulls::with_labels")]
    pub nulls: Vec<(NullModel, Option<f64>)>,
}

impl Answer {
    /// The method that counts most, if any counts.
    pub fn trusted(&self) -> Option<&Trusted> {
        let counts = self.methods.iter().filter(|method| method.weight > 0.0);
        counts.max_by(|a, b| a.weight.total_cmp(&b.weight))
    }
}

/// Asks every method and weighs what they say.
pub fn answer(question: &Question, evidence: &Evidence, knowledge: &Knowledge, tracks: &Tracks) -> Answer {
    let knowledge = &knowledge.made_ready(evidence, &[(&question.to, &question.load)]);
    let mut methods: Vec<Trusted> = METHODS
        .iter()
        .map(|method| {
            let found = (method.predict)(question, evidence, knowledge);
            let found = found.and_then(|predicted| {
                let sound =
                    predicted.rate.is_finite() && predicted.rate > 0.0 && predicted.deviation.is_finite();
                let no_number =
                    || Missing { what: "measurements that give a positive number".to_owned(), command: None };
                if sound { Ok(predicted) } else { Err(no_number()) }
            });
            let deviation =
                found.as_ref().ok().map(|found| calibration::deviation(method.id, found.deviation, tracks));
            let (predicted, missing) = match found {
                Ok(predicted) => (Some(predicted), None),
                Err(missing) => (None, Some(missing)),
            };
            let truths = tracks.get(&method.id).map_or(0, |track| track.truths);
            Trusted {
                method: method.id,
                source: method.source,
                predicted,
                deviation,
                truths,
                weight: 0.0,
                missing,
            }
        })
        .collect();
    let nulls = nulls::predictions(question, evidence);
    let learnt = learnt::expected(question, evidence, knowledge).ok();
    let amounts = learnt::of_amounts(question, evidence);
    let (rate, interval, unknown) = together(&mut methods, learnt.as_ref(), amounts);
    Answer { rate, interval, unknown, nulls, methods }
}

/// What a method says, in logarithms, and which methods say it with what share of it.
struct Voice {
    guess: Guess,
    /// Places of methods.
    of: Vec<(usize, f64)>,
}

/// One voice for each method, but one for all that learn from the same cells: they err together.
fn voices(methods: &[Trusted], learnt: Option<&Expected>, amounts: f64) -> Vec<Voice> {
    let guess = |method: &Trusted| {
        let log = method.predicted.as_ref()?.rate.ln();
        Some(Guess { log, deviation: method.deviation?.max(1e-3) })
    };
    let (mut voices, mut learners) = (Vec::new(), Vec::new());
    for (place, method) in methods.iter().enumerate() {
        let Some(guess) = guess(method) else { continue };
        match method.method.learner() {
            Some(learner) => learners.push((place, learner)),
            None => voices.push(Voice { guess, of: vec![(place, 1.0)] }),
        }
    }
    if let Some((expected, together)) = learnt.and_then(|learnt| Some((learnt, learnt.together()?))) {
        let counted = expected.counted();
        let shares = learners.iter().map(|(place, learner)| (*place, counted[*learner]));
        let all: f64 = shares.clone().map(|(_, share)| share).sum();
        let alone = 1.0 / learners.len().max(1) as f64;
        let of = shares.map(|(place, share)| (place, if all > 0.0 { share / all } else { alone }));
        // What no measured stack has makes each learner less sure.
        let deviation = together.deviation.max(1e-3).hypot(amounts);
        voices.push(Voice { guess: Guess { deviation, ..together }, of: of.collect() });
    }
    voices
}

/// The mean of the logarithms, each by its precision.
fn together(
    methods: &mut [Trusted],
    learnt: Option<&Expected>,
    amounts: f64,
) -> (Option<f64>, Option<Interval>, Option<String>) {
    let voices = voices(methods, learnt, amounts);
    if voices.is_empty() {
        return (None, None, Some("no method has the data it needs".to_owned()));
    }
    let precision: f64 = voices.iter().map(|voice| voice.guess.deviation.powi(-2)).sum();
    let mean =
        voices.iter().map(|voice| voice.guess.log * voice.guess.deviation.powi(-2)).sum::<f64>() / precision;
    for voice in &voices {
        for (place, share) in &voice.of {
            methods[*place].weight = share * voice.guess.deviation.powi(-2) / precision;
        }
    }
    let best = voices.iter().map(|voice| voice.guess.deviation).fold(f64::INFINITY, f64::min);
    // Methods that contradict each other beyond what they say of themselves know less than they say.
    let misfit: f64 =
        voices.iter().map(|voice| ((voice.guess.log - mean) / voice.guess.deviation).powi(2)).sum();
    let strained = (misfit / (voices.len().max(2) - 1) as f64).sqrt().max(1.0);
    // One alone is as sure as it says; several that look at the same measurements are not much surer than the best.
    let surest = if voices.len() > 1 { TOGETHER * best } else { best };
    let deviation = precision.powf(-0.5).max(surest) * strained;
    let interval = Interval::of_logarithm(mean, deviation);
    if interval.high / interval.low > WIDEST {
        let around = Interval::of_logarithm(0.0, deviation);
        let why = format!(
            "all that is known is that the rate is between {:.3} and {:.3} times the best guess",
            around.low, around.high
        );
        return (None, Some(interval), Some(why));
    }
    (Some(mean.exp()), Some(interval), None)
}
