//! What a gate says.

use nestor_results::GateAnswer;
use nestor_statistics::LimitVerdict;
use nestor_text::{Align, Table};

use super::Lines;
use crate::style::Style;
use crate::units;

/// The answer of each rule of a candidate, and how sure they are together.
pub fn gate_text(answers: &[GateAnswer], style: Style) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Right, Left, Left]);
    for answer in answers {
        table.row(&[
            &answer.rule.to_string(),
            &units::change(&answer.ratio),
            &units::change_interval(&answer.ratio).unwrap_or_else(|| "-".to_owned()),
            &verdict_words(answer),
        ]);
    }
    let mut lines = Lines::default();
    let worst = nestor_results::gate::worst(answers).unwrap_or(LimitVerdict::Undecided);
    lines.push(&style.strong(&format!("gate: {}", verdict_name(worst))));
    lines.extend(style.table(&table));
    if let Some(first) = answers.first() {
        let percent = format!("{:.1}", first.confidence * 100.0);
        lines.push(&format!("  intervals of {} %", percent.trim_end_matches(".0")));
    }
    lines.finish()
}

fn verdict_name(verdict: LimitVerdict) -> &'static str {
    match verdict {
        LimitVerdict::Fine => "fine",
        LimitVerdict::Undecided => "undecided",
        LimitVerdict::Worse => "worse",
    }
}

fn verdict_words(answer: &GateAnswer) -> String {
    let name = verdict_name(answer.verdict);
    match (answer.verdict, answer.ratio.pairs, answer.pairs_needed) {
        (LimitVerdict::Undecided, 1, _) => {
            format!("{name}: one pair has no interval; measure at least 2 (-n)")
        }
        (LimitVerdict::Undecided, _, Some(pairs)) => {
            format!("{name}: about {pairs} pairs would decide (-n {pairs})")
        }
        (LimitVerdict::Undecided, _, None) => {
            format!("{name}: the change is too close to the limit to be told from it")
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nestor_statistics::{Interval, Ratio};

    use super::*;

    fn answer(rule: &str, (low, high): (f64, f64), pairs: usize, verdict: LimitVerdict) -> GateAnswer {
        let interval = (pairs > 1).then_some(Interval { low, high });
        let ratio = Ratio { value: (low * high).sqrt(), interval, pairs };
        let pairs_needed = (verdict == LimitVerdict::Undecided && pairs > 1).then_some(9);
        GateAnswer { rule: rule.parse().unwrap(), ratio, confidence: 0.975, verdict, pairs_needed }
    }

    #[test]
    fn each_rule_has_its_change_and_its_answer() {
        let answers = [
            answer("throughput<-5%", (0.85, 0.91), 4, LimitVerdict::Worse),
            answer("p99:fsync>+10%", (1.02, 1.16), 4, LimitVerdict::Undecided),
        ];
        insta::assert_snapshot!(gate_text(&answers, Style::plain()), @r"
        gate: worse
          throughput<-5%  -12.1 %  [-15.0, -9.0]  worse
          p99:fsync>+10%   +8.8 %  [+2.0, +16.0]  undecided: about 9 pairs would decide (-n 9)
          intervals of 97.5 %
        ");
        let alone = [answer("latency>0%", (1.0, 1.0), 1, LimitVerdict::Undecided)];
        insta::assert_snapshot!(gate_text(&alone, Style::plain()), @r"
        gate: undecided
          latency>0%  +0.0 %  -  undecided: one pair has no interval; measure at least 2 (-n)
          intervals of 97.5 %
        ");
    }
}
