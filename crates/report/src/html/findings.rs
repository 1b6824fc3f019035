//! Why a cell is as fast as it is: the mechanisms that were recognised, each with its numbers and proofs.

use nestor_explain::{Account, Explanation, Finding, Line, MechanismName, Number};
use serde::Serialize;

use super::{sentence, typeset, with_micro_signs};
use crate::units;
use crate::view::LayersWhy;

/// The part of a cell's page that comes from its explanation.
#[derive(Debug, Serialize)]
pub(super) struct FindingsPage {
    answer: String,
    compared: bool,
    findings: Vec<FindingPage>,
    unexplained: String,
    account: Option<AccountPage>,
    doubts: Vec<String>,
}

/// Every nanosecond of the difference, by who answers for it.
#[derive(Debug, Serialize)]
struct AccountPage {
    /// Holder, time for each operation, share of the difference, parts of the time.
    lines: Vec<[String; 4]>,
    whole: String,
    /// How to read shares of more than all.
    made_up_for: Option<&'static str>,
}

impl AccountPage {
    fn of(account: &Account, compared: bool) -> Option<Self> {
        let line = |line: &Line| {
            let share = account.share(line).map(|share| format!("{} %", units::signed(share * 100.0)));
            let parts = with_micro_signs(&line.parts_in_words());
            let share = share.unwrap_or_else(|| "–".to_owned());
            [account.holder_words(line, compared).to_owned(), typeset(&line.effect()), typeset(&share), parts]
        };
        let whole = units::duration_ns(account.whole_ns.unsigned_abs() as f64);
        let sign = if account.whole_ns < 0 { "-" } else { "" };
        (!account.lines.is_empty()).then(|| Self {
            lines: account.lines.iter().map(line).collect(),
            whole: typeset(&format!("{sign}{whole}")),
            made_up_for: account.made_up_for(compared),
        })
    }
}

#[derive(Debug, Serialize)]
struct FindingPage {
    mechanism: &'static str,
    layer: String,
    words: String,
    share: String,
    /// Which way it works, as a class of the style sheet, and in words.
    direction: &'static str,
    direction_words: &'static str,
    /// Width of its bar in per cent.
    bar: f64,
    effect: String,
    numbers: Vec<(String, String, String)>,
    proofs: Vec<(String, String)>,
    advice: String,
}

/// The same where it comes from the numbers of the layers.
#[derive(Debug, Serialize)]
pub(super) struct LayersWhyPage {
    answer: String,
    sentences: Vec<String>,
    more: String,
}

impl LayersWhyPage {
    pub(super) fn of(why: &LayersWhy) -> Self {
        Self {
            answer: sentence(&why.answer),
            sentences: why.sentences.iter().map(|s| sentence(s)).collect(),
            more: why.more.clone(),
        }
    }
}

impl FindingsPage {
    pub(super) fn of(explanation: &Explanation) -> Self {
        let compared = explanation.baseline.is_some();
        let noise = explanation.findings.iter().any(|f| f.mechanism == MechanismName::Noise);
        let unexplained = explanation.unexplained_share;
        Self {
            answer: with_micro_signs(&answer(explanation)),
            compared,
            findings: explanation.findings.iter().map(|finding| page(finding, compared)).collect(),
            unexplained: if unexplained >= 0.01 && !noise {
                typeset(&units::percent(unexplained))
            } else {
                String::new()
            },
            account: AccountPage::of(&explanation.account, compared),
            doubts: explanation.doubts.clone(),
        }
    }
}

fn answer(e: &Explanation) -> String {
    let here = units::duration_ns(e.time_per_operation_ns);
    let Some(baseline) = &e.baseline else {
        return format!("{here} per operation, split into its parts; there is no baseline to compare with.");
    };
    let before = e.baseline_time_per_operation_ns.map_or_else(|| "?".to_owned(), units::duration_ns);
    let change = e.change_percent.map(|change| {
        let interval = e
            .change_interval_percent
            .map(|[low, high]| format!(" [{}, {}]", units::signed(low), units::signed(high)));
        format!(", {} %{}", units::signed(change), interval.unwrap_or_default())
    });
    format!("Against {baseline}: {here} per operation instead of {before}{}.", change.unwrap_or_default())
}

fn page(finding: &Finding, compared: bool) -> FindingPage {
    let (direction, direction_words) = match (compared, finding.effect_ns < 0.0) {
        (false, _) => ("", ""),
        (true, true) => ("faster", "of the difference, faster"),
        (true, false) => ("slower", "of the difference, slower"),
    };
    let number = |n: &Number| {
        let with_unit = |value: f64| {
            let (number, unit) = n.shown(value);
            typeset(format!("{number} {unit}").trim_end())
        };
        (n.what.clone(), with_unit(n.here), n.baseline.map(with_unit).unwrap_or_default())
    };
    let proof = |p: &nestor_explain::Proof| {
        (format!("run {}, {}, request {}", p.run, p.level, p.request), p.words.clone())
    };
    FindingPage {
        mechanism: finding.mechanism.name(),
        layer: finding.layer.clone(),
        words: finding.words.clone(),
        share: typeset(&units::percent(finding.share)),
        direction,
        direction_words,
        bar: (finding.share.abs() * 100.0).clamp(0.0, 100.0),
        effect: typeset(&units::duration_ns(finding.effect_ns.abs())),
        numbers: finding.numbers.iter().map(number).collect(),
        proofs: finding.proofs.iter().map(proof).collect(),
        advice: finding.advice.clone().unwrap_or_default(),
    }
}
