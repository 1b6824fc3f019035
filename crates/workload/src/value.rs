//! Option values of the workload notation: one canonical spelling each.

use std::collections::BTreeMap;
use std::fmt;

use crate::notation::Workload;
use nestor_text::quantities::{NoSize, decimal, parse_places, parse_size, parse_whole_seconds};

/// What may follow the `=` of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A size in bytes: `8192`, `8k`, `8KiB`, `1G`; the units are powers of 1024, as in fio.
    Bytes,
    /// A whole number from `min` to `max`.
    Count {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A time limit: `10`, `10s`, `2m`, `1h`, or `off`.
    TimeLimit,
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A positive decimal of at most six places and at most 1000: `0.1`.
    Factor,
    /// Milliseconds with at most three decimals, up to a minute: `50`, `0.35`.
    Milliseconds,
    /// Sizes, each with its weight: `4k/30+8k/70`.
    Sizes,
    /// A file of the machine on which the workload is written down; it is copied to where the workload runs.
    File,
    /// Another workload with its own options, to the end of the text.
    Workload,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Of [`Kind::Bytes`].
    Bytes(u64),
    /// Of [`Kind::Count`].
    Count(u64),
    /// Of [`Kind::TimeLimit`], in seconds; `None` is `off`.
    TimeLimit(Option<u64>),
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Choice`].
    Choice(&'static str),
    /// Of [`Kind::Factor`], in millionths, so that equal texts are equal values.
    Factor(u64),
    /// Of [`Kind::Milliseconds`], in microseconds.
    Milliseconds(u64),
    /// Of [`Kind::Sizes`]: bytes and weight, by bytes, each size once.
    Sizes(Vec<(u64, u64)>),
    /// Of [`Kind::File`]: its path.
    File(String),
    /// Of [`Kind::Workload`].
    Workload(Box<Workload>),
}

/// Most sizes of [`Kind::Sizes`].
const MOST_SIZES: usize = 64;
/// Largest weight of one of them.
const LARGEST_WEIGHT: u64 = 1_000_000;
/// Longest [`Kind::Milliseconds`], in microseconds: a minute.
const LONGEST_US: u64 = 60_000_000;
/// Largest [`Kind::Factor`], in millionths.
const LARGEST_FACTOR: u64 = 1_000_000_000;
/// Largest [`Kind::Bytes`]: 1 EiB, far above any disk and far below where sums of sizes could overflow.
const LARGEST_BYTES: u64 = 1 << 60;
/// Longest [`Kind::TimeLimit`]: a hundred days.
const LONGEST_TIME_S: u64 = 100 * 24 * 3600;

impl Kind {
    /// Reads a value, or says what fits instead.
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Bytes => parse_bytes(text).map(Value::Bytes),
            Self::Count { min, max } => match text.parse() {
                Ok(count) if (min..=max).contains(&count) => Ok(Value::Count(count)),
                _ => Err(format!("a whole number from {min} to {max}")),
            },
            Self::TimeLimit => parse_time_limit(text).map(Value::TimeLimit),
            Self::Switch => match text {
                "on" => Ok(Value::Switch(true)),
                "off" => Ok(Value::Switch(false)),
                _ => Err("on or off".to_owned()),
            },
            Self::Choice(words) => match words.iter().find(|&&word| word == text) {
                Some(word) => Ok(Value::Choice(word)),
                None => Err(format!("one of {}", words.join(", "))),
            },
            Self::Factor => parse_factor(text).map(Value::Factor),
            Self::Milliseconds => parse_milliseconds(text).map(Value::Milliseconds),
            Self::Sizes => parse_sizes(text).map(Value::Sizes),
            Self::File if text.contains('\0') => Err("the path of a file".to_owned()),
            Self::File => Ok(Value::File(text.to_owned())),
            Self::Workload => Err("a workload such as fio:rand-read".to_owned()),
        }
    }

    /// Whether an option of this kind can have a value.
    pub(crate) fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Bytes, Value::Bytes(bytes)) => (1..=LARGEST_BYTES).contains(bytes),
            (Self::Count { min, max }, Value::Count(count)) => (min..=max).contains(count),
            (Self::TimeLimit, Value::TimeLimit(limit)) => {
                limit.is_none_or(|s| (1..=LONGEST_TIME_S).contains(&s))
            }
            (Self::Switch, Value::Switch(_)) | (Self::File, Value::File(_)) => true,
            (Self::Choice(words), Value::Choice(word)) => words.contains(word),
            (Self::Factor, Value::Factor(millionths)) => (1..=LARGEST_FACTOR).contains(millionths),
            (Self::Milliseconds, Value::Milliseconds(us)) => *us <= LONGEST_US,
            (Self::Sizes, Value::Sizes(sizes)) => are_sizes(sizes),
            (Self::Workload, Value::Workload(inner)) => inner.life().is_none(),
            _ => false,
        }
    }

    /// The form of the value, for lists of options.
    pub fn form(self) -> String {
        match self {
            Self::Bytes => "size (8k, 1G)".to_owned(),
            Self::Count { min, max: u64::MAX } => format!("number from {min}"),
            Self::Count { min, max } => format!("number from {min} to {max}"),
            Self::TimeLimit => "time (10s, 2m) or off".to_owned(),
            Self::Switch => "on or off".to_owned(),
            Self::Choice(words) => words.join(", "),
            Self::Factor => "factor (0.1)".to_owned(),
            Self::Milliseconds => "milliseconds (50, 0.35)".to_owned(),
            Self::Sizes => "sizes with weights (4k/30+8k/70)".to_owned(),
            Self::File => "file".to_owned(),
            Self::Workload => "workload (fio:rand-read)".to_owned(),
        }
    }
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Ok(bytes @ 1..=LARGEST_BYTES) => Ok(bytes),
        Ok(_) | Err(NoSize::TooLarge) => Err("a size from 1 byte to 1 EiB".to_owned()),
        Err(NoSize::Form) => Err("a size such as 512, 8k, 64M or 1G (powers of 1024)".to_owned()),
    }
}

fn parse_time_limit(text: &str) -> Result<Option<u64>, String> {
    if text == "off" {
        return Ok(None);
    }
    let whole = parse_whole_seconds(text);
    let whole =
        whole.ok_or("a time in whole seconds such as 10s, 2m or 1h, or off; a number alone is in seconds")?;
    match whole.as_secs() {
        seconds @ 1..=LONGEST_TIME_S => Ok(Some(seconds)),
        _ => Err("a time from one second to a hundred days, or off".to_owned()),
    }
}

fn parse_factor(text: &str) -> Result<u64, String> {
    let form = || "a factor above 0 and up to 1000, with at most six decimal places, such as 0.1".to_owned();
    match parse_places(text, 6) {
        Some(factor @ 1..=LARGEST_FACTOR) => Ok(factor),
        _ => Err(form()),
    }
}

fn parse_milliseconds(text: &str) -> Result<u64, String> {
    match parse_places(text, 3) {
        Some(us @ 0..=LONGEST_US) => Ok(us),
        _ => Err("milliseconds up to 60000, with at most three decimal places, such as 0.35".to_owned()),
    }
}

fn parse_sizes(text: &str) -> Result<Vec<(u64, u64)>, String> {
    let form = || "sizes with weights such as 4k/30+8k/70, at most 64 of them".to_owned();
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    for part in text.split('+') {
        let (bytes, weight) = part.split_once('/').ok_or_else(form)?;
        let weight: u64 = weight.parse().map_err(|_| form())?;
        if !(1..=LARGEST_WEIGHT).contains(&weight) {
            return Err(form());
        }
        *sizes.entry(parse_bytes(bytes)?).or_default() += weight;
    }
    if sizes.len() > MOST_SIZES { Err(form()) } else { Ok(sizes.into_iter().collect()) }
}

/// Whether they are those of [`Kind::Sizes`].
fn are_sizes(sizes: &[(u64, u64)]) -> bool {
    let is_size = |(bytes, weight): &(u64, u64)| {
        (1..=LARGEST_BYTES).contains(bytes) && (1..=LARGEST_WEIGHT).contains(weight)
    };
    (1..=MOST_SIZES).contains(&sizes.len())
        && sizes.iter().all(is_size)
        && sizes.is_sorted_by(|(smaller, _), (larger, _)| smaller < larger)
}

/// A whole number of the last of so many decimal places, without needless zeros.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, places: u32) -> fmt::Result {
    f.write_str(&decimal(value, &[("", 10_u64.pow(places))]))
}

impl fmt::Display for Value {
    /// The canonical spelling: the largest unit that divides the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => {
                let bytes = *bytes;
                let units = [(40, "T"), (30, "G"), (20, "M"), (10, "k")];
                match units.iter().find(|(shift, _)| bytes > 0 && bytes % (1u64 << shift) == 0) {
                    Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
                    None => write!(f, "{bytes}"),
                }
            }
            Self::Count(count) => write!(f, "{count}"),
            Self::TimeLimit(None) => f.write_str("off"),
            Self::TimeLimit(Some(seconds)) => match seconds {
                s if s % 3600 == 0 => write!(f, "{}h", s / 3600),
                s if s % 60 == 0 => write!(f, "{}m", s / 60),
                s => write!(f, "{s}s"),
            },
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Choice(word) => f.write_str(word),
            Self::File(path) => f.write_str(path),
            Self::Workload(inner) => write!(f, "{inner}"),
            Self::Factor(millionths) => write_decimal(f, *millionths, 6),
            Self::Milliseconds(us) => write_decimal(f, *us, 3),
            Self::Sizes(sizes) => {
                for (i, (bytes, weight)) in sizes.iter().enumerate() {
                    let plus = if i > 0 { "+" } else { "" };
                    write!(f, "{plus}{}/{weight}", Self::Bytes(*bytes))?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_canonical_spelling() {
        let spell = |kind: Kind, text: &str| kind.parse(text).map(|v| v.to_string());
        assert_eq!(spell(Kind::Bytes, "8192").unwrap(), "8k");
        assert_eq!(spell(Kind::Bytes, "1024MiB").unwrap(), "1G");
        assert_eq!(spell(Kind::Bytes, "513").unwrap(), "513");
        assert_eq!(spell(Kind::TimeLimit, "90").unwrap(), "90s");
        assert_eq!(spell(Kind::TimeLimit, "120s").unwrap(), "2m");
        assert_eq!(spell(Kind::TimeLimit, "off").unwrap(), "off");
        assert_eq!(spell(Kind::Factor, "0.100").unwrap(), "0.1");
        assert_eq!(spell(Kind::Factor, "1.0").unwrap(), "1");
        assert_eq!(spell(Kind::Factor, "10").unwrap(), "10");
        assert_eq!(spell(Kind::Milliseconds, "50.000").unwrap(), "50");
        assert_eq!(spell(Kind::Milliseconds, "0.35").unwrap(), "0.35");
        assert_eq!(spell(Kind::Milliseconds, "0").unwrap(), "0");
        assert_eq!(spell(Kind::Sizes, "8192/70+4k/20+4096/10").unwrap(), "4k/30+8k/70");
    }

    #[test]
    fn what_is_not_a_value_is_refused() {
        for (kind, text) in [
            (Kind::Bytes, "8KB"),
            (Kind::Bytes, "0"),
            (Kind::Bytes, "-1"),
            (Kind::Bytes, "99999999999999999999"),
            (Kind::Bytes, "9999999T"),
            (Kind::TimeLimit, "0s"),
            (Kind::TimeLimit, "10ms"),
            (Kind::Factor, "0"),
            (Kind::Factor, "0.0000001"),
            (Kind::Factor, "1e3"),
            (Kind::Factor, "."),
            (Kind::Factor, "1001"),
            (Kind::Milliseconds, "0.3333"),
            (Kind::Milliseconds, "60001"),
            (Kind::Milliseconds, "-1"),
            (Kind::Sizes, "4k"),
            (Kind::Sizes, "4k/0"),
            (Kind::Sizes, "4k/1+"),
            (Kind::Switch, "yes"),
            (Kind::Count { min: 1, max: 9 }, "10"),
        ] {
            assert!(kind.parse(text).is_err(), "{kind:?} took {text}");
        }
    }
}
