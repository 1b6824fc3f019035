//! How fast a trace is replayed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// At the trace's own times divided by this.
    Times(f64),
    /// As fast as the target takes requests.
    Max,
}

impl Default for Speed {
    fn default() -> Self {
        Self::Times(1.0)
    }
}

impl Speed {
    /// When a request is to be sent that was `time_ns` after the first one; `None` for as soon as possible.
    pub fn intended_ns(self, time_ns: u64) -> Option<u64> {
        match self {
            // Exact where nothing is scaled: a trace of weeks has more nanoseconds than an f64 has digits.
            Self::Times(1.0) => Some(time_ns),
            Self::Times(factor) => Some((time_ns as f64 / factor).round() as u64),
            Self::Max => None,
        }
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let factor: Option<f64> = text.trim_end_matches('x').parse().ok();
        factor.filter(|factor| (1e-6..=1e6).contains(factor)).map(Self::Times).ok_or_else(|| {
            format!(
                "{text:?} is not a speed; write 1 for the trace's own speed, 2 for twice as fast, 0.5 for \
                 half, or max"
            )
        })
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(1.0) => f.write_str("at its own times"),
            Self::Times(factor) if *factor > 1.0 => write!(f, "{factor} times as fast"),
            Self::Times(factor) => write!(f, "at {factor} of its speed"),
            Self::Max => f.write_str("as fast as possible"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_and_times_scaled() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("2x".parse(), Ok(Speed::Times(2.0)));
        for wrong in ["0", "-1", "fast", "nan", "inf", "", "1e9"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
        assert_eq!(Speed::Times(1.0).intended_ns(u64::MAX - 1), Some(u64::MAX - 1));
        assert_eq!(Speed::Times(2.0).intended_ns(3_000_001), Some(1_500_001));
        assert_eq!(Speed::Times(0.5).intended_ns(1_000), Some(2_000));
        assert_eq!(Speed::Max.intended_ns(1_000), None);
    }
}
