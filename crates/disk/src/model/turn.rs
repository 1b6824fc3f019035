//! Where platters stand.

use std::str::FromStr;

/// A part of one revolution, from 0 (included) to 1 (excluded).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn(f64);

impl Turn {
    /// A part of a revolution; `None` unless it is at least 0 and less than 1.
    pub fn new(part: f64) -> Option<Self> {
        (0.0..1.0).contains(&part).then_some(Self(part))
    }

    /// A full revolution has no effect, so only the rest is kept.
    pub(crate) fn plus(self, parts: f64) -> Self {
        Self((self.0 + parts).rem_euclid(1.0))
    }

    /// How long a spindle takes for it, in nanoseconds; always less than a revolution.
    pub fn ns(self, revolution_ns: u64) -> u64 {
        ((self.0 * revolution_ns as f64) as u64).min(revolution_ns.saturating_sub(1))
    }
}

/// Why a text is not a part of a revolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of a revolution is a number from 0 to less than 1, such as 0.25")]
pub struct NoTurn;

impl FromStr for Turn {
    type Err = NoTurn;

    fn from_str(text: &str) -> Result<Self, NoTurn> {
        text.parse().ok().and_then(Self::new).ok_or(NoTurn)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quarter_of_a_revolution_takes_a_quarter_of_its_time() {
        assert_eq!("0.25".parse::<Turn>().unwrap().ns(8_333_333), 2_083_333);
        assert_eq!(Turn::default().ns(8_333_333), 0);
    }

    #[test]
    fn what_is_no_part_of_a_revolution_is_refused() {
        for text in ["1", "-0.1", "NaN", "inf", "", "half"] {
            assert_eq!(text.parse::<Turn>(), Err(NoTurn), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_turn_is_shorter_than_a_revolution(part in 0.0..1.0_f64, more in 0.0..9.0_f64, revolution_ns in 1u64..100_000_000) {
            prop_assert!(Turn(part).plus(more).ns(revolution_ns) < revolution_ns);
        }
    }
}
