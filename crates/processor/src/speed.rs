//! The speed of the processor of a machine in virtual time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Millions of instructions a second of a processor that executes one in a nanosecond.
const MIPS_OF_ONE_PER_NS: u32 = 1000;

/// How many instructions a machine in virtual time executes in a nanosecond of its own time: a whole number from 1 to 16. As text
/// and where it is kept it is in millions of instructions a second: `4000mips`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct ProcessorSpeed {
    instructions_per_ns: u8,
}

impl ProcessorSpeed {
    /// One instruction is one nanosecond.
    pub const USUAL: Self = Self { instructions_per_ns: 1 };

    /// The fastest speed. No real core does as much, and each step increases the real time that a machine needs to compute
    /// for a given time of its own.
    pub const FASTEST: Self = Self { instructions_per_ns: 16 };

    /// Instructions of a nanosecond.
    pub fn instructions_per_ns(self) -> u64 {
        u64::from(self.instructions_per_ns)
    }

    /// Millions of instructions a second.
    pub fn mips(self) -> u32 {
        u32::from(self.instructions_per_ns) * MIPS_OF_ONE_PER_NS
    }

    /// Nanoseconds that a number of instructions takes.
    pub fn ns_of(self, instructions: f64) -> f64 {
        instructions / f64::from(self.instructions_per_ns)
    }
}

impl Default for ProcessorSpeed {
    fn default() -> Self {
        Self::USUAL
    }
}

impl TryFrom<u32> for ProcessorSpeed {
    type Error = String;

    fn try_from(mips: u32) -> Result<Self, String> {
        let per_ns = u8::try_from(mips / MIPS_OF_ONE_PER_NS)
            .ok()
            .filter(|per_ns| mips.is_multiple_of(MIPS_OF_ONE_PER_NS) && Self::is_possible(*per_ns));
        per_ns
            .map(|instructions_per_ns| Self { instructions_per_ns })
            .ok_or_else(|| not_possible(&mips.to_string()))
    }
}

impl ProcessorSpeed {
    fn is_possible(per_ns: u8) -> bool {
        (Self::USUAL.instructions_per_ns..=Self::FASTEST.instructions_per_ns).contains(&per_ns)
    }
}

fn not_possible(what: &str) -> String {
    format!(
        "`{what}` is not a speed of the modelled processor; the speeds are 1000mips, 2000mips and so on in thousands, up to {}",
        ProcessorSpeed::FASTEST
    )
}

impl From<ProcessorSpeed> for u32 {
    fn from(speed: ProcessorSpeed) -> Self {
        speed.mips()
    }
}

impl FromStr for ProcessorSpeed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mips =
            text.strip_suffix("mips").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        mips.and_then(|digits| digits.parse::<u32>().ok())
            .and_then(|mips| Self::try_from(mips).ok())
            .ok_or_else(|| not_possible(text))
    }
}

impl fmt::Display for ProcessorSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}mips", self.mips())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_printed_as_they_are_read() {
        for (text, per_ns) in [("1000mips", 1), ("4000mips", 4), ("16000mips", 16)] {
            let speed: ProcessorSpeed = text.parse().unwrap();
            assert_eq!((speed.to_string().as_str(), speed.instructions_per_ns()), (text, per_ns));
            assert_eq!(
                serde_json::from_value::<ProcessorSpeed>(serde_json::json!(speed.mips())).unwrap(),
                speed
            );
        }
    }

    #[test]
    fn what_is_no_whole_number_of_instructions_a_nanosecond_is_refused_with_what_is_allowed() {
        for text in [
            "0mips",
            "500mips",
            "1500mips",
            "17000mips",
            "256000mips",
            "4294967296000mips",
            "4000",
            "4000MIPS",
            "+4000mips",
            "mips",
            "",
        ] {
            let refusal = text.parse::<ProcessorSpeed>().unwrap_err();
            assert!(
                refusal.contains(&format!("`{text}`")) && refusal.contains("up to 16000mips"),
                "{refusal}"
            );
        }
        assert!(serde_json::from_str::<ProcessorSpeed>("1500").is_err());
    }

    #[test]
    fn a_faster_processor_takes_less_time() {
        assert_eq!(ProcessorSpeed::USUAL.ns_of(10.0), 10.0);
        assert_eq!(ProcessorSpeed { instructions_per_ns: 4 }.ns_of(10.0), 2.5);
    }
}
