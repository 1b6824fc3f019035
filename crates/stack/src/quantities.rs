//! Quantities of networks and partitions as they are written in a stack: `2.5gbit`, `100us`, `0.1%`, `63s`.

use std::fmt;
use std::str::FromStr;

use nestor_text::quantities::{DecimalUnit, decimal, parse_decimal};
use serde::{Deserialize, Serialize};

use crate::Bytes;

/// A text is not the quantity that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct ParseQuantityError {
    text: String,
    what: &'static str,
}

/// What serde needs of a type that is stored as its text.
macro_rules! stored_as_text {
    ($name:ident) => {
        impl From<$name> for String {
            fn from(quantity: $name) -> Self {
                quantity.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = <$name as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    };
}
pub(crate) use stored_as_text;

/// A quantity in decimal units.
macro_rules! decimal_quantity {
    ($name:ident, $what:literal, $units:expr) => {
        impl $name {
            const UNITS: &[DecimalUnit] = &$units;

            /// The number itself.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = ParseQuantityError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let wrong = || ParseQuantityError { text: text.to_owned(), what: $what };
                parse_decimal(text, Self::UNITS).map(Self).ok_or_else(wrong)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&decimal(self.0, Self::UNITS))
            }
        }

        stored_as_text!($name);
    };
}

/// Bits per second, with the decimal units of `tc`: `10mbit`, `2.5gbit`. Prints the largest unit of which there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BitRate(pub u64);

decimal_quantity!(
    BitRate,
    "a bit rate; write a number and its unit, as in 10mbit or 2.5gbit",
    [("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)]
);

/// A time in nanoseconds: `100us`, `1.5ms`, `2s`. Prints the largest unit of which there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TimeSpan(pub u64);

decimal_quantity!(
    TimeSpan,
    "a time; write a number and its unit, as in 100us or 1.5ms",
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]
);

/// A share in millionths, written in per cent: `0.1%`, `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Percentage(pub u64);

decimal_quantity!(Percentage, "a percentage; write it as in 0.1%, in steps of 0.0001%", [("%", 10_000)]);

impl Percentage {
    /// As a number from 0 to 1.
    pub fn share(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// A length in sectors of 512 bytes: `63s`, or a size that is a multiple of them. Prints a size if it is a multiple of 1 KiB, otherwise
/// sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sectors(pub u32);

impl Sectors {
    /// The unit of the Linux kernel and of partition tables, whatever the disk's own is.
    const BYTES: u64 = 512;

    /// In bytes.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 as u64 * Self::BYTES)
    }
}

impl FromStr for Sectors {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sectors = match text.strip_suffix('s') {
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => number.parse().ok(),
            Some(_) => None,
            None => text.parse::<Bytes>().ok().and_then(|size| {
                let whole = size.get().is_multiple_of(Self::BYTES).then(|| size.get() / Self::BYTES)?;
                u32::try_from(whole).ok()
            }),
        };
        let what =
            "a number of sectors; write it as in 63s, or as a size that is a multiple of 512, as in 1M";
        sectors.map(Self).ok_or_else(|| ParseQuantityError { text: text.to_owned(), what })
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(2) { self.bytes().fmt(f) } else { write!(f, "{}s", self.0) }
    }
}

stored_as_text!(Sectors);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical<T: FromStr<Err = ParseQuantityError> + ToString>(text: &str) -> Option<String> {
        text.parse::<T>().ok().map(|quantity| quantity.to_string())
    }

    #[test]
    fn each_has_one_form() {
        for (text, printed) in [
            ("1gbit", "1gbit"),
            ("1000Mbit", "1gbit"),
            ("0.1gbit", "100mbit"),
            ("2500mbit", "2.5gbit"),
            ("0", "0"),
        ] {
            assert_eq!(canonical::<BitRate>(text).as_deref(), Some(printed), "{text}");
        }
        for (text, printed) in
            [("100us", "100us"), ("1500us", "1.5ms"), ("0.0000001s", "100ns"), ("60s", "60s"), ("0ms", "0")]
        {
            assert_eq!(canonical::<TimeSpan>(text).as_deref(), Some(printed), "{text}");
        }
        for (text, printed) in [("0.10%", "0.1%"), ("0%", "0"), ("50.0%", "50%"), ("0.0001%", "0.0001%")] {
            assert_eq!(canonical::<Percentage>(text).as_deref(), Some(printed), "{text}");
        }
        for (text, printed) in [("63s", "63s"), ("2048s", "1M"), ("32256", "63s"), ("1M", "1M"), ("0s", "0")]
        {
            assert_eq!(canonical::<Sectors>(text).as_deref(), Some(printed), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "1", "1g", "1mbps", "1.5bit", "-1mbit", "1 mbit", "1e3kbit"] {
            assert_eq!(canonical::<BitRate>(text), None, "{text}");
        }
        for text in ["", "5", "5m", "0.5ns", "5min", "s"] {
            assert_eq!(canonical::<TimeSpan>(text), None, "{text}");
        }
        for text in ["", "0.1", "0.00001%", "%", "1%%"] {
            assert_eq!(canonical::<Percentage>(text), None, "{text}");
        }
        for text in ["", "s", "63", "1000", "-1s", "1.5s", "+63s", "63S", "4294967296s", "4T"] {
            assert_eq!(canonical::<Sectors>(text), None, "{text}");
        }
        let said = "fast".parse::<BitRate>().unwrap_err().to_string();
        assert_eq!(said, "`fast` is not a bit rate; write a number and its unit, as in 10mbit or 2.5gbit");
    }

    proptest! {
        #[test]
        fn print_and_parse_are_inverse(number: u64, shift in 0u32..64) {
            let number = number >> shift;
            prop_assert_eq!(BitRate(number).to_string().parse(), Ok(BitRate(number)));
            prop_assert_eq!(TimeSpan(number).to_string().parse(), Ok(TimeSpan(number)));
            prop_assert_eq!(Percentage(number).to_string().parse(), Ok(Percentage(number)));
            let sectors = Sectors(number as u32);
            prop_assert_eq!(sectors.to_string().parse(), Ok(sectors));
            let json = serde_json::to_string(&BitRate(number)).unwrap();
            prop_assert_eq!(serde_json::from_str::<BitRate>(&json).unwrap(), BitRate(number));
        }
    }
}
