//! From evidence to an explanation.

use std::collections::BTreeMap;

use nestor_results::ratio_by_block;
use nestor_statistics::Ratio;
use nestor_statistics::summary::CONFIDENCE;
use nestor_text::units;

use crate::account::{Account, Holder, Line, by_executor};
use crate::case::{Case, Left, finding};
use crate::evidence::{Evidence, Part};
use crate::finding::{Explanation, Finding, MechanismName};
use crate::mechanisms::{MECHANISMS, Mechanism};
use crate::proof;

/// The smallest share of the difference (or of the time) for which a mechanism is named.
pub const NAMED_FROM: f64 = 0.10;
/// A difference smaller than this is not explained if there are too few runs for an interval: repeated runs of one
/// cell differ by as much.
const WORTH_EXPLAINING: f64 = 0.05;

/// Explains a cell, against a baseline if there is one.
pub fn explain(here: &Evidence, baseline: Option<&Evidence>) -> Explanation {
    let case = Case { here, baseline };
    let followed = is_followed(here) && baseline.is_none_or(is_followed);
    let ratio = baseline.and_then(|b| ratio_by_block(&b.rates, &here.rates, CONFIDENCE));
    let mut left = Left::of(&case);
    let mut findings = Vec::new();
    let mut lines = Vec::new();
    let mut makers = BTreeMap::new();
    if is_noise(ratio.as_ref()) {
        findings.push(noise(case.whole_ns(), ratio.as_ref()));
        lines.push(line(Holder::Mechanism(MechanismName::Noise), left.into_rest()));
    } else if followed {
        let can_act = |mechanism: &&&Mechanism| case.may_be_in(mechanism.acts_in);
        for mechanism in MECHANISMS.iter().filter(can_act) {
            let Some(mut found) = (mechanism.find)(&case, &mut left) else {
                left.give_back();
                continue;
            };
            let mut line = line(Holder::Mechanism(found.mechanism), left.take_claimed());
            if found.mechanism == MechanismName::PathLength {
                line.executors = by_executor(here, baseline, line.effect_ns);
            }
            found.effect_ns = line.effect_ns as f64;
            makers.extend(left.take_given().into_iter().map(|part| (part, found.mechanism)));
            lines.push(line);
            findings.push(found);
        }
        weigh(&mut findings, &case, left.rest());
        lines.push(line(Holder::NotExplained, left.into_rest()));
    }
    let explained: f64 = findings.iter().map(|f| f.share).sum();
    Explanation {
        stack: here.stack.clone(),
        workload: here.workload.clone(),
        runs: here.runs.clone(),
        baseline: baseline.map(|b| b.stack.clone()),
        baseline_runs: baseline.map(|b| b.runs.clone()).unwrap_or_default(),
        time_per_operation_ns: here.time_per_operation_ns(),
        baseline_time_per_operation_ns: baseline.map(Evidence::time_per_operation_ns),
        change_percent: ratio.map(|r| r.change_percent()),
        change_interval_percent: ratio
            .and_then(|r| r.change_interval_percent())
            .map(|interval| [interval.low, interval.high]),
        unexplained_share: (1.0 - explained).clamp(0.0, 1.0),
        doubts: doubts(here, baseline),
        findings,
        // What is not known of the medium would count as its idle time.
        account: if followed { Account::new(here, baseline, lines, &makers) } else { Account::default() },
    }
}

/// Gives each finding its share and proofs, and keeps those that are worth naming, the largest first.
fn weigh(findings: &mut Vec<Finding>, case: &Case<'_>, rest_ns: f64) {
    // Shares are of everything that was moved, not of what is left after one thing has made up for another.
    let moved_ns: f64 = findings.iter().map(|f| f.effect_ns.abs()).sum::<f64>() + rest_ns.abs();
    let whole_ns = case.whole_ns();
    let of_ns = if case.baseline.is_some() { moved_ns.max(whole_ns.abs()) } else { whole_ns };
    for found in &mut *findings {
        found.share = found.effect_ns.abs() / of_ns.max(1.0);
        found.proofs = proof::of(case.here, found.mechanism);
    }
    findings.retain(|f| f.share >= NAMED_FROM);
    findings.sort_by(|a, b| b.share.total_cmp(&a.share));
}

/// Whether its requests were followed down to the lowest level.
fn is_followed(evidence: &Evidence) -> bool {
    evidence.blame.span_ns > 0
}

fn line(holder: Holder, parts: BTreeMap<Part, i64>) -> Line {
    Line { holder, effect_ns: parts.values().sum(), parts, executors: BTreeMap::new() }
}

fn is_noise(ratio: Option<&Ratio>) -> bool {
    ratio.is_some_and(|ratio| match ratio.differs() {
        Some(differs) => !differs,
        None => (ratio.value - 1.0).abs() < WORTH_EXPLAINING,
    })
}

fn noise(whole_ns: f64, ratio: Option<&Ratio>) -> Finding {
    let words = match ratio.and_then(|r| r.change_interval_percent()) {
        Some(interval) => format!(
            "not told apart: the interval from {:+.1} to {:+.1} % contains zero",
            interval.low, interval.high
        ),
        None => format!(
            "the difference is below {}, and too few runs show whether it is chance",
            units::percent(WORTH_EXPLAINING)
        ),
    };
    let mut found = finding(MechanismName::Noise, "", whole_ns, words);
    found.share = 1.0;
    found.advice = Some("more replications (`-n`) narrow the interval".to_owned());
    found
}

fn doubts(here: &Evidence, baseline: Option<&Evidence>) -> Vec<String> {
    let labelled = |label: &str, evidence: &Evidence| -> Vec<String> {
        evidence.doubts.iter().map(|doubt| format!("{label}: {doubt}")).collect()
    };
    let mut doubts = labelled("here", here);
    doubts.extend(baseline.map(|b| labelled("baseline", b)).unwrap_or_default());
    for (label, evidence) in [("here", Some(here)), ("baseline", baseline)] {
        if evidence.is_some_and(|evidence| !is_followed(evidence)) {
            doubts.push(format!(
                "{label}: requests were not followed to the lowest level, so no mechanism can be named; run it with --trace \
                 full. `nestor compare` lists what differs between the numbers of the layers"
            ));
        }
    }
    if baseline.is_some_and(|b| b.workload != here.workload) {
        doubts.push("the workloads differ".to_owned());
    }
    if let Some(b) = baseline.filter(|b| b.ground != here.ground) {
        doubts.push(format!(
            "the runs come from different places (here {}, baseline {}), so their times cannot be compared",
            here.ground, b.ground
        ));
    }
    doubts
}
