//! All stacks of a space in order: what was measured as it was, the rest as the additive model expects it.

use std::collections::BTreeMap;

use nestor_results::WrittenStack;
use nestor_statistics::{
    AdditiveModel, AdditiveRun, Interval, LackOfFit, Ratio, geometric_mean, mean, paired_ratio,
    unpaired_ratio,
};
use serde::{Deserialize, Serialize};

use crate::factors::FactorName;
use crate::observation::Observation;
use crate::space::Space;

/// Trusted runs beyond those that the effects need for which others are left out: with one, t is 12.7, with two 4.3.
const SPARE_RUNS: usize = 2;

/// A rate and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The rate, in operations or bytes per second.
    pub value: f64,
    /// Its 95 % interval: of the mean if it was measured more than once, else where one more run would be found.
    pub interval: Option<Interval>,
}

/// One stack with its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// The stack.
    pub stack: WrittenStack,
    /// Whether it was measured; otherwise the model predicts it.
    pub measured: bool,
    /// Whether it is the user's.
    pub is_yours: bool,
    /// Its rate.
    pub rate: Estimate,
    /// Its rate over that of yours; `None` for yours and where nothing tells.
    pub vs_yours: Option<Ratio>,
    /// The runs it was measured by.
    pub runs: Vec<i64>,
}

/// What one level of a factor does, all else equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactorEffect {
    /// The factor.
    pub factor: FactorName,
    /// The level.
    pub level: String,
    /// Rate with it over the geometric mean of all levels of the factor.
    pub ratio: f64,
    /// Its 95 % interval; `None` if every run was needed for the effects themselves.
    pub interval: Option<Interval>,
}

/// How well the additive model says what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitSummary {
    /// Runs it was fitted to.
    pub runs: usize,
    /// How many of these are not [trusted](Observation::trusted): they are taken only where too few others are there.
    pub untrusted: usize,
    /// How many were left out because they are not trusted.
    pub left_out: usize,
    /// Runs beyond those needed for the effects.
    pub degrees_of_freedom: usize,
    /// Standard deviation of what it misses, as a share (0.05 is 5 %).
    pub residual: Option<f64>,
    /// Whether factors act on their own, where some stack was measured more than once.
    pub lack_of_fit: Option<LackOfFit>,
}

/// Everything that the numbers say of a space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// The stacks, the best first; those that nothing tells of are not among them.
    pub rows: Vec<Ranked>,
    /// The effects of factors with more than one level.
    pub effects: Vec<FactorEffect>,
    /// The model; `None` if nothing in the space was measured.
    pub fit: Option<FitSummary>,
    /// Stacks of which nothing tells.
    pub unknown: Vec<WrittenStack>,
    /// Stacks that were not measured and might be the best.
    pub worth_measuring: Vec<WrittenStack>,
}

/// Ranks the stacks of a space, and `yours` with them, against `yours`.
pub fn rank(space: &Space, yours: &WrittenStack, observations: &[Observation]) -> Ranking {
    let usable: Vec<&Observation> =
        observations.iter().filter(|seen| seen.rate.is_finite() && seen.rate > 0.0).collect();
    let (model, fit) = fit(space, &usable).unzip();
    let judge = Judge { space, yours, model, fit, observations: usable };
    let mut names: Vec<&WrittenStack> = space.stacks().collect();
    if !names.contains(&yours) {
        names.push(yours);
    }
    let mut unknown = Vec::new();
    let mut rows = Vec::new();
    for stack in names {
        match judge.row(stack) {
            Some(row) => rows.push(row),
            None => unknown.push(stack.clone()),
        }
    }
    let score = |row: &Ranked| match &row.vs_yours {
        Some(ratio) => (1, ratio.value),
        None if row.is_yours => (1, 1.0),
        // Without a comparison the rate alone says little: it may be of another day.
        None => (0, row.rate.value),
    };
    rows.sort_by(|a, b| {
        let (a, b) = (score(a), score(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    Ranking {
        effects: judge.effects(),
        fit: judge.fit,
        worth_measuring: worth_measuring(&rows),
        unknown,
        rows,
    }
}

/// Predicted stacks whose interval reaches above the best measured one.
fn worth_measuring(rows: &[Ranked]) -> Vec<WrittenStack> {
    let best = rows.iter().filter(|row| row.measured).map(|row| row.rate.value).fold(0.0, f64::max);
    rows.iter()
        .filter(|row| !row.measured && row.rate.interval.is_none_or(|interval| interval.high > best))
        .map(|row| row.stack.clone())
        .collect()
}

/// The model of the runs of stacks in the space. Those that are not trusted are left out, unless without them some effect could
/// not be told, or had no interval to speak of.
fn fit(space: &Space, observations: &[&Observation]) -> Option<(AdditiveModel, FitSummary)> {
    let inside: Vec<&Observation> =
        observations.iter().copied().filter(|seen| space.levels_of(&seen.stack).is_some()).collect();
    let trusted: Vec<&Observation> = inside.iter().copied().filter(|seen| seen.trusted).collect();
    let all = model(space, &inside)?;
    let untrusted = inside.len() - trusted.len();
    let enough = |fewer: &AdditiveModel| {
        fewer.degrees_of_freedom() >= SPARE_RUNS.min(all.degrees_of_freedom())
            && fewer.effects().len() == all.effects().len()
    };
    let (model, untrusted, left_out) = match model(space, &trusted).filter(enough) {
        Some(fewer) => (fewer, 0, untrusted),
        None => (all, untrusted, 0),
    };
    let summary = FitSummary {
        runs: inside.len() - left_out,
        untrusted,
        left_out,
        degrees_of_freedom: model.degrees_of_freedom(),
        residual: model.residual_deviation(),
        lack_of_fit: model.lack_of_fit(),
    };
    Some((model, summary))
}

fn model(space: &Space, observations: &[&Observation]) -> Option<AdditiveModel> {
    let mut blocks: BTreeMap<&str, usize> = BTreeMap::new();
    let mut runs = Vec::new();
    for seen in observations {
        let Some(levels) = space.levels_of(&seen.stack) else { continue };
        let next = blocks.len();
        let block = *blocks.entry(&seen.block).or_insert(next);
        runs.push(AdditiveRun { levels: levels.to_vec(), block, rate: seen.rate });
    }
    AdditiveModel::fit(&space.level_counts(), &runs)
}

struct Judge<'a> {
    space: &'a Space,
    yours: &'a WrittenStack,
    model: Option<AdditiveModel>,
    fit: Option<FitSummary>,
    observations: Vec<&'a Observation>,
}

impl Judge<'_> {
    fn row(&self, stack: &WrittenStack) -> Option<Ranked> {
        let seen = self.of(stack);
        let rate = if seen.is_empty() { self.predicted(stack)? } else { self.measured(&seen)? };
        let is_yours = stack == self.yours;
        Some(Ranked {
            stack: stack.clone(),
            measured: !seen.is_empty(),
            is_yours,
            rate,
            vs_yours: if is_yours { None } else { self.vs_yours(stack, &seen) },
            runs: seen.iter().map(|seen| seen.run).collect(),
        })
    }

    fn of(&self, stack: &WrittenStack) -> Vec<&Observation> {
        self.observations.iter().copied().filter(|seen| seen.stack == *stack).collect()
    }

    /// The geometric mean; the interval of a single run is as wide as runs scatter about the model.
    fn measured(&self, seen: &[&Observation]) -> Option<Estimate> {
        let logs: Vec<f64> = seen.iter().map(|seen| seen.rate.ln()).collect();
        let found = mean(&logs)?;
        let around =
            |half: f64| Interval { low: (found.value - half).exp(), high: (found.value + half).exp() };
        let interval = match found.interval {
            Some(interval) => Some(Interval { low: interval.low.exp(), high: interval.high.exp() }),
            None => self.scatter().map(around),
        };
        Some(Estimate { value: found.value.exp(), interval })
    }

    /// Half the width, in logarithms, of where a single run is found.
    fn scatter(&self) -> Option<f64> {
        let model = self.model.as_ref()?;
        let degrees = model.degrees_of_freedom() as f64;
        let factor =
            nestor_statistics::student::two_sided_factor(nestor_statistics::summary::CONFIDENCE, degrees)?;
        Some(factor * model.residual_deviation()?)
    }

    fn predicted(&self, stack: &WrittenStack) -> Option<Estimate> {
        let model = self.model.as_ref()?;
        let prediction = model.predict(self.space.levels_of(stack)?)?;
        Some(Estimate { value: prediction.value, interval: prediction.interval })
    }

    /// What was measured stands: by pairs, of which a single one has an interval as wide as runs scatter about the model.
    /// Where nothing was paired the model tells, else what there is.
    fn vs_yours(&self, stack: &WrittenStack, seen: &[&Observation]) -> Option<Ratio> {
        let yours = self.of(self.yours);
        let pairs = pairs(&yours, seen);
        if let Some(ratio) = paired_ratio(&pairs) {
            let interval = ratio.interval.or_else(|| {
                // Both runs of the pair have their error.
                let half = self.scatter()? * std::f64::consts::SQRT_2;
                Some(Interval { low: ratio.value * (-half).exp(), high: ratio.value * half.exp() })
            });
            return Some(Ratio { interval, ..ratio });
        }
        let by_model = self
            .model
            .as_ref()
            .and_then(|model| model.ratio(self.space.levels_of(self.yours)?, self.space.levels_of(stack)?));
        let rates = |seen: &[&Observation]| seen.iter().map(|seen| seen.rate).collect::<Vec<_>>();
        by_model.or_else(|| unpaired_ratio(&rates(&yours), &rates(seen)))
    }

    fn effects(&self) -> Vec<FactorEffect> {
        let Some(model) = &self.model else { return Vec::new() };
        let factors = self.space.factors();
        model
            .effects()
            .into_iter()
            .map(|effect| FactorEffect {
                factor: factors[effect.factor].name,
                level: factors[effect.factor].levels[effect.level].clone(),
                ratio: effect.value,
                interval: effect.interval,
            })
            .collect()
    }
}

/// Per block that both have: the rates there.
pub(crate) fn pairs(baseline: &[&Observation], candidate: &[&Observation]) -> Vec<(f64, f64)> {
    let by_block = |seen: &[&Observation]| {
        let mut blocks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for seen in seen {
            blocks.entry(seen.block.clone()).or_default().push(seen.rate);
        }
        blocks
    };
    let candidates = by_block(candidate);
    let both = by_block(baseline).into_iter().filter_map(|(block, rates)| {
        Some((geometric_mean(&rates)?, geometric_mean(candidates.get(&block)?)?))
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use nestor_stack::Layer;

    use super::*;
    use crate::local::machine_with;

    fn seen(stack: &str, block: &str, rate: f64) -> Observation {
        Observation { stack: stack.into(), run: 1, block: block.to_owned(), rate, trusted: true }
    }

    fn space() -> Space {
        Space::new(&BTreeMap::new(), Layer::parse("hdd").unwrap(), &machine_with("").unwrap()).unwrap()
    }

    const YOURS: &str = "ext4/kvm/raw/ext4/hdd";

    /// Rates of 100 for yours; xfs is 1.5, qcow2 0.8, writeback 1.1, writethrough 0.5 times as fast; nine of twelve stacks.
    fn screened() -> Vec<Observation> {
        let space = space();
        let stacks: Vec<&WrittenStack> = space.stacks().collect();
        let rate = |stack: &str| {
            let with = |word: &str, ratio: f64| if stack.contains(word) { ratio } else { 1.0 };
            100.0
                * with("/xfs/", 1.5)
                * with("qcow2", 0.8)
                * with("writeback", 1.1)
                * with("writethrough", 0.5)
        };
        // A little noise that does not favour any level.
        let wobble = [1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 0.99, 1.01, 1.0];
        let without = [
            "ext4/kvm:cache=writeback/raw/xfs/hdd",
            "ext4/kvm/qcow2/ext4/hdd",
            "ext4/kvm:cache=writethrough/raw/ext4/hdd",
        ];
        let chosen = stacks.iter().filter(|stack| !without.contains(&stack.as_str()));
        chosen.zip(wobble).map(|(stack, wobble)| seen(stack, "1", rate(stack) * wobble)).collect()
    }

    #[test]
    fn what_was_not_measured_is_predicted_and_said_to_be() {
        let ranking = rank(&space(), &YOURS.into(), &screened());
        assert_eq!(ranking.rows.len(), 12);
        let first = &ranking.rows[0];
        assert_eq!((first.stack.as_str(), first.measured), ("ext4/kvm:cache=writeback/raw/xfs/hdd", false));
        assert!((first.rate.value / 165.0 - 1.0).abs() < 0.03, "{first:?}");
        assert!(first.rate.interval.unwrap().contains(165.0));
        assert!(first.vs_yours.unwrap().interval.unwrap().contains(1.65));
        assert_eq!(ranking.worth_measuring, [first.stack.as_str()]);
        let last = ranking.rows.last().unwrap();
        assert_eq!(last.stack, "ext4/kvm:cache=writethrough/qcow2/ext4/hdd");
        assert_eq!(ranking.rows.iter().filter(|row| row.measured).count(), 9);
        let fit = ranking.fit.unwrap();
        assert_eq!((fit.runs, fit.degrees_of_freedom), (9, 4));
        assert!(fit.residual.unwrap() < 0.03);
    }

    #[test]
    fn effects_are_those_of_the_levels() {
        let ranking = rank(&space(), &YOURS.into(), &screened());
        let effect = |level: &str| ranking.effects.iter().find(|effect| effect.level == level).unwrap().ratio;
        assert!((effect("xfs") / effect("ext4") / 1.5 - 1.0).abs() < 0.03);
        assert!((effect("writethrough") / effect("none") / 0.5 - 1.0).abs() < 0.03);
        // Factors with one level have no effect to speak of.
        assert!(ranking.effects.iter().all(|effect| effect.factor != FactorName::Guest));
    }

    #[test]
    fn runs_that_are_not_trusted_count_only_where_others_are_too_few() {
        let mut runs = screened();
        let wild = "ext4/kvm:cache=writeback/raw/ext4/hdd";
        let at = runs.iter().position(|run| run.stack == wild).unwrap();
        (runs[at].rate, runs[at].trusted) = (runs[at].rate * 20.0, false);
        let ranking = rank(&space(), &YOURS.into(), &runs);
        let fit = ranking.fit.unwrap();
        assert_eq!((fit.runs, fit.untrusted, fit.left_out), (8, 0, 1));
        let effect = |level: &str| ranking.effects.iter().find(|effect| effect.level == level).unwrap().ratio;
        assert!((effect("writeback") / effect("none") / 1.1 - 1.0).abs() < 0.05);
        assert!(ranking.rows.iter().any(|row| row.stack == wild && row.measured));
        // Without any of the three of writeback nothing would tell of it.
        runs.iter_mut().filter(|run| run.stack.contains("writeback")).for_each(|run| run.trusted = false);
        let fit = rank(&space(), &YOURS.into(), &runs).fit.unwrap();
        assert_eq!((fit.runs, fit.untrusted, fit.left_out), (9, 3, 0));
    }

    #[test]
    fn pairs_within_blocks_come_before_the_model() {
        let other = "ext4/kvm/raw/xfs/hdd";
        let runs: Vec<Observation> = ["1", "2", "3"]
            .iter()
            .zip([1.0, 10.0, 3.0])
            .flat_map(|(block, slow)| [seen(YOURS, block, 100.0 * slow), seen(other, block, 120.0 * slow)])
            .collect();
        let ranking = rank(&space(), &YOURS.into(), &runs);
        let ratio = ranking.rows[0].vs_yours.unwrap();
        assert_eq!((ranking.rows[0].stack.as_str(), ratio.pairs), (other, 3));
        assert!((ratio.value - 1.2).abs() < 1e-9);
        assert_eq!(ranking.rows.len(), 2);
        assert_eq!(ranking.unknown.len(), 10);
    }

    #[test]
    fn your_stack_may_be_one_of_its_own() {
        let yours = "jfs/kvm:cache=unsafe/raw/jfs/hdd";
        let mut runs = screened();
        runs.push(seen(yours, "1", 50.0));
        let ranking = rank(&space(), &yours.into(), &runs);
        let row = ranking.rows.iter().find(|row| row.is_yours).unwrap();
        assert!(row.measured && row.vs_yours.is_none());
        let measured = ranking.rows.iter().find(|row| row.stack == YOURS).unwrap();
        let ratio = measured.vs_yours.unwrap();
        assert!(ratio.pairs == 1 && (ratio.value * 50.0 / measured.rate.value - 1.0).abs() < 1e-9);
        assert!(ratio.interval.unwrap().contains(ratio.value));
        assert_eq!(rank(&space(), &yours.into(), &[]).unknown.len(), 13);
    }

    proptest::proptest! {
        #[test]
        fn the_order_is_that_of_the_ratios(rates in proptest::collection::vec(1.0_f64..1e6, 12)) {
            let space = space();
            let runs: Vec<Observation> = space
                .stacks()
                .zip(&rates)
                .flat_map(|(stack, rate)| [seen(stack, "1", *rate), seen(stack, "2", *rate * 1.1)])
                .collect();
            let ranking = rank(&space, &YOURS.into(), &runs);
            proptest::prop_assert_eq!(ranking.rows.len(), 12);
            for pair in ranking.rows.windows(2) {
                proptest::prop_assert!(pair[0].rate.value >= pair[1].rate.value * (1.0 - 1e-9));
            }
            proptest::prop_assert!(ranking.worth_measuring.is_empty());
        }
    }
}
