//! Sizes as they are written in a stack: `512`, `64k`, `1M`, `16G`.

use std::fmt;
use std::str::FromStr;

use nestor_text::quantities::{NoSize, SIZE_UNITS, parse_size};
use serde::{Deserialize, Serialize};

use crate::quantities::stored_as_text;

/// A number of bytes. Units are powers of 1024: `64k`, `64K` and `64KiB` are all 65 536 bytes.
///
/// Prints the shortest exact form, that is the largest unit that divides it: 65 536 is `64k`, 65 537 is `65537`.
/// Stored by serde as that text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Bytes(pub u64);

impl Bytes {
    /// This many KiB, saturating.
    pub const fn kib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 10))
    }

    /// This many MiB, saturating.
    pub const fn mib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 20))
    }

    /// This many GiB, saturating.
    pub const fn gib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 30))
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseBytesError {
    /// Not digits followed by a unit.
    #[error("`{0}` is not a size; write a whole number and a unit of 1024, as in 512, 64k, 1M or 16G")]
    Form(String),
    /// More than 2^64 - 1 bytes.
    #[error("`{0}` is more than 16 EiB")]
    TooLarge(String),
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_size(text).map(Self).map_err(|why| match why {
            NoSize::Form => ParseBytesError::Form(text.to_owned()),
            NoSize::TooLarge => ParseBytesError::TooLarge(text.to_owned()),
        })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut number = self.0;
        let mut unit = None;
        for letter in SIZE_UNITS {
            if number == 0 || !number.is_multiple_of(1024) {
                break;
            }
            number /= 1024;
            unit = Some(letter);
        }
        match unit {
            Some(letter) => write!(f, "{number}{letter}"),
            None => write!(f, "{number}"),
        }
    }
}

stored_as_text!(Bytes);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_powers_of_1024() {
        let cases = [("512", 512), ("64k", 65_536), ("64K", 65_536), ("64KiB", 65_536), ("1M", 1 << 20)];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        assert_eq!("16G".parse(), Ok(Bytes::gib(16)));
        assert_eq!("0".parse(), Ok(Bytes(0)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "k", "-1", "1.5M", "64kB", "64kb", "1m", "1 M", "64iB", "64Kib", "1MM", "٣"] {
            assert!(matches!(text.parse::<Bytes>(), Err(ParseBytesError::Form(_))), "{text}");
        }
        for text in ["16384P", "18446744073709551616"] {
            assert!(matches!(text.parse::<Bytes>(), Err(ParseBytesError::TooLarge(_))), "{text}");
        }
    }

    #[test]
    fn the_shortest_exact_form_is_printed() {
        assert_eq!(Bytes(0).to_string(), "0");
        assert_eq!(Bytes(1023).to_string(), "1023");
        assert_eq!(Bytes(65_536).to_string(), "64k");
        assert_eq!(Bytes::mib(1536).to_string(), "1536M");
        assert_eq!(Bytes(1 << 60).to_string(), "1024P");
    }

    proptest! {
        #[test]
        fn print_and_parse_are_inverse(number: u64, shift in 0u32..64) {
            let bytes = Bytes(number >> shift << (shift / 2));
            prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
        }
    }
}
