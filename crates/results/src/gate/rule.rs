//! The notation of a rule: `METRIC<-5%`, `METRIC>+10%`.

use std::fmt;
use std::str::FromStr;

use nestor_statistics::{Limit, WrongSide};
use serde::{Serialize, Serializer};

use super::metric::GateMetric;

/// The largest limit, in per cent: a hundred times as much.
const MOST_PERCENT: f64 = 9_900.0;

/// A change that fails a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct GateRule {
    /// Of what.
    pub metric: GateMetric,
    /// Which side of the limit fails.
    pub wrong_side: WrongSide,
    /// The limit, as a change in per cent: above -100.
    pub limit_percent: f64,
}

/// What is wrong with a rule's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateRuleError {
    /// It has no `<` and no `>`.
    #[error(
        "a rule is a metric, `<` or `>`, and a change in per cent, as in throughput<-5% or p99:fsync>+10% (in quotes, because shells read < and >)"
    )]
    NoComparison,
    /// The metric is not known.
    #[error("no metric is called `{0}`; the metrics are {all}", all = GateMetric::NOTATION)]
    UnknownMetric(String),
    /// What follows the sign of comparison is not a change.
    #[error("`{0}` is not a change: write its sign, a number and %, as in -5% or +10%; no change is 0%")]
    NotAChange(String),
    /// It is out of range.
    #[error("a change is more than -100% and at most +{MOST_PERCENT}%, not {0}")]
    OutOfRange(String),
}

impl GateRule {
    /// The limit as a ratio.
    pub fn limit(&self) -> Limit {
        Limit { ratio: 1.0 + self.limit_percent / 100.0, wrong_side: self.wrong_side }
    }
}

impl FromStr for GateRule {
    type Err = GateRuleError;

    fn from_str(text: &str) -> Result<Self, GateRuleError> {
        let at = text.find(['<', '>']).ok_or(GateRuleError::NoComparison)?;
        let (metric, rest) = text.split_at(at);
        let wrong_side = if rest.starts_with('<') { WrongSide::Below } else { WrongSide::Above };
        let metric = metric.trim();
        let metric = metric.parse().map_err(|()| GateRuleError::UnknownMetric(metric.to_owned()))?;
        Ok(Self { metric, wrong_side, limit_percent: change(rest[1..].trim())? })
    }
}

/// A change in per cent with its sign: `throughput<5%` is more likely a forgotten sign than a gate that asks for more.
fn change(text: &str) -> Result<f64, GateRuleError> {
    let wrong = || GateRuleError::NotAChange(text.to_owned());
    let number = text.strip_suffix('%').ok_or_else(wrong)?.trim_end();
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    // What Rust reads as a number besides, as `inf` and `1e3`, nobody writes for a change.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
    if number.len() == digits.len() && value != 0.0 {
        return Err(wrong());
    }
    if !(value > -100.0 && value <= MOST_PERCENT) {
        return Err(GateRuleError::OutOfRange(text.to_owned()));
    }
    // No change has no sign.
    Ok(if value == 0.0 { 0.0 } else { value })
}

impl fmt::Display for GateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.wrong_side {
            WrongSide::Below => '<',
            WrongSide::Above => '>',
        };
        write!(f, "{}{sign}", self.metric)?;
        match self.limit_percent {
            0.0 => f.write_str("0%"),
            percent => write!(f, "{percent:+}%"),
        }
    }
}

impl Serialize for GateRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> String {
        text.parse::<GateRule>().unwrap_err().to_string()
    }

    #[test]
    fn a_rule_has_one_canonical_form() {
        for (written, canonical) in [
            ("throughput<-5%", "throughput<-5%"),
            (" p99:fsync > +10.50 % ", "p99:fsync>+10.5%"),
            ("latency>-0%", "latency>0%"),
            ("instructions>0%", "instructions>0%"),
            ("throughput<+5%", "throughput<+5%"),
        ] {
            assert_eq!(written.parse::<GateRule>().unwrap().to_string(), canonical);
        }
        let limit = "throughput<-5%".parse::<GateRule>().unwrap().limit();
        assert_eq!(limit, Limit { ratio: 0.95, wrong_side: WrongSide::Below });
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_write() {
        insta::assert_snapshot!(said("throughput -5%"), @"a rule is a metric, `<` or `>`, and a change in per cent, as in throughput<-5% or p99:fsync>+10% (in quotes, because shells read < and >)");
        insta::assert_snapshot!(said("speed<-5%"), @"no metric is called `speed`; the metrics are throughput, latency, p50, p90, p99 and max (with the class of operations if there are several: p99:fsync), and instructions (of one operation, in virtual time)");
        insta::assert_snapshot!(said("throughput<5%"), @"`5%` is not a change: write its sign, a number and %, as in -5% or +10%; no change is 0%");
        insta::assert_snapshot!(said("throughput<-100%"), @"a change is more than -100% and at most +9900%, not -100%");
        for wrong in [
            "throughput<",
            "throughput<%",
            "latency>+inf%",
            "p99>+1e2%",
            "p99>+-5%",
            "p99>=+5%",
            "p99>+5",
            "p99>+5%%",
        ] {
            assert!(matches!(wrong.parse::<GateRule>(), Err(GateRuleError::NotAChange(_))), "{wrong}");
        }
        for wrong in ["<-5%", "p99:<-5%", "p99:a b<-5%", "throughput:read<-5%"] {
            assert!(matches!(wrong.parse::<GateRule>(), Err(GateRuleError::UnknownMetric(_))), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_rule_or_an_error_and_a_rule_reads_back(
            text in "(throughput|latency|p99|max|instructions|\\PC{0,6})(:[a-z]{0,5})?[<>]?[-+]?[0-9.]{0,7}%?"
        ) {
            if let Ok(rule) = text.parse::<GateRule>() {
                prop_assert_eq!(rule.to_string().parse(), Ok(rule.clone()));
                prop_assert!(rule.limit().ratio > 0.0);
            }
        }
    }
}
