//! Sizes and times as people write them.

use std::time::Duration;

/// Unit letters of sizes, ascending; each is 1024 times the one before it.
pub const SIZE_UNITS: [char; 5] = ['k', 'M', 'G', 'T', 'P'];

/// Why a text is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSize {
    /// It is not digits followed by a unit.
    Form,
    /// It is more than 2^64 - 1 bytes.
    TooLarge,
}

/// A number of bytes: `512`, `64k`, `64K`, `64KiB`, `1M`, up to `P`; units are powers of 1024. `KB` is refused, because it is
/// 1024 bytes to some programs and 1000 to others.
///
/// # Errors
/// Why it is none.
pub fn parse_size(text: &str) -> Result<u64, NoSize> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(NoSize::Form);
    }
    let shift = unit_shift(unit).ok_or(NoSize::Form)?;
    let number: u64 = number.parse().map_err(|_| NoSize::TooLarge)?;
    number.checked_mul(1 << shift).ok_or(NoSize::TooLarge)
}

/// The power of two of a unit: none, `k`, `K`, `KiB`, `M`, `MiB` and so on.
fn unit_shift(unit: &str) -> Option<u32> {
    if unit.is_empty() {
        return Some(0);
    }
    let letter = unit.strip_suffix("iB").unwrap_or(unit);
    let is_it = |u: &char| letter.len() == 1 && letter.starts_with([*u, u.to_ascii_uppercase()]);
    Some(10 * (SIZE_UNITS.iter().position(is_it)? as u32 + 1))
}

/// A time: `90s`, `5m`, `1h30m`, `5 min`, `2.5s`; a number without a unit is in seconds.
pub fn parse_time(text: &str) -> Option<Duration> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let in_number = |c: char| c.is_ascii_digit() || c == '.';
    if text.chars().all(in_number) {
        return seconds(&text);
    }
    let mut sum = Duration::ZERO;
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c| !in_number(c))?);
        let (unit, next) = after.split_at(after.find(in_number).unwrap_or(after.len()));
        let unit_s = match unit {
            "h" => 3_600,
            "m" | "min" => 60,
            "s" => 1,
            _ => return None,
        };
        sum = sum.checked_add(seconds(number)?.checked_mul(unit_s)?)?;
        rest = next;
    }
    Some(sum)
}

/// How a time is written, for messages after "write".
pub const TIME_FORM: &str = "hours, minutes and seconds: 90s, 5m, 1h30m; a number alone is in seconds";

/// A [time](parse_time) of whole seconds, at least one: what a budget, a time limit or a time to watch is.
pub fn parse_whole_seconds(text: &str) -> Option<Duration> {
    parse_time(text).filter(|time| !time.is_zero() && time.subsec_nanos() == 0)
}

/// Digits with or without decimal places; those beyond nanoseconds are left out.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanoseconds = format!("{fraction:0<9}")[..9].parse().ok()?;
    Some(Duration::new(whole, nanoseconds))
}

/// A unit of a quantity: its name, and how many of the smallest things that are counted it is, a power of ten.
pub type DecimalUnit = (&'static str, u64);

/// A quantity in one of some units, in any case, with or without decimal places: `2.5gbit`, `100us`. Exact: `None` also for what
/// is no whole number of the smallest thing, or more than 2^64 - 1 of it. Only `0` needs no unit.
pub fn parse_decimal(text: &str, units: &[DecimalUnit]) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (number, name) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let (_, size) = units.iter().find(|(unit, _)| unit.eq_ignore_ascii_case(name))?;
    let (whole, fraction) = digits(number)?;
    in_last_places(whole, fraction.trim_end_matches('0'), size.ilog10())
}

/// A decimal without a sign or unit as a whole number of its last possible place: of three places, `0.35` is 350. `None` also
/// for one that has more places than are possible, be they zeros.
pub fn parse_places(text: &str, places: u32) -> Option<u64> {
    let (whole, fraction) = digits(text)?;
    in_last_places(whole, fraction, places)
}

/// The digits before the point and those behind it.
fn digits(number: &str) -> Option<(&str, &str)> {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match number.split_once('.') {
        Some((whole, fraction)) => (is_number(whole) && is_number(fraction)).then_some((whole, fraction)),
        None => is_number(number).then_some((number, "")),
    }
}

fn in_last_places(whole: &str, fraction: &str, places: u32) -> Option<u64> {
    let missing = places.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let whole = whole.parse::<u64>().ok()?.checked_mul(10_u64.checked_pow(places)?)?;
    whole.checked_add(fraction.checked_mul(10_u64.checked_pow(missing)?)?)
}

/// What [`parse_decimal`] reads, in one form: the largest unit of which there is one, and no more decimal places than are needed.
/// `units` ascend.
pub fn decimal(quantity: u64, units: &[DecimalUnit]) -> String {
    let fits = |(_, size): &&DecimalUnit| *size <= quantity;
    let Some((name, size)) = units.iter().rev().find(fits).or(units.first()) else {
        return quantity.to_string();
    };
    let (whole, rest) = (quantity / size, quantity % size);
    match (whole, rest) {
        (0, 0) => "0".to_owned(),
        (_, 0) => format!("{whole}{name}"),
        _ => {
            let digits = format!("{rest:0>width$}", width = size.ilog10() as usize);
            format!("{whole}.{}{name}", digits.trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRES: [DecimalUnit; 3] = [("mm", 1), ("m", 1_000), ("km", 1_000_000)];

    #[test]
    fn decimal_quantities_are_exact() {
        for (text, quantity, canonical) in [
            ("0", 0, "0"),
            ("0km", 0, "0"),
            ("999mm", 999, "999mm"),
            ("1000mm", 1_000, "1m"),
            ("1.50KM", 1_500_000, "1.5km"),
            ("0.001m", 1, "1mm"),
            ("01.010m", 1_010, "1.01m"),
            ("18446744073709551615mm", u64::MAX, "18446744073709.551615km"),
        ] {
            assert_eq!(parse_decimal(text, &METRES), Some(quantity), "{text}");
            assert_eq!(decimal(quantity, &METRES), canonical);
        }
        for text in [
            "",
            "1",
            "m",
            ".5m",
            "1.m",
            "1.2.3m",
            "-1m",
            "1 m",
            "0.1mm",
            "0.0001m",
            "1cm",
            "18446744073709552km",
        ] {
            assert_eq!(parse_decimal(text, &METRES), None, "{text}");
        }
        assert_eq!(decimal(1, &[("%", 10_000)]), "0.0001%");
        assert_eq!(
            ["0", "7", "0.35", "1.500", "1.5000", ".5", "1.", "-1"].map(|text| parse_places(text, 3)),
            [Some(0), Some(7_000), Some(350), Some(1_500), None, None, None, None]
        );
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in
            [("512", 512), ("64k", 65_536), ("64K", 65_536), ("64KiB", 65_536), ("1P", 1 << 50)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "1.5M", "64kB", "64KB", "1m", "1 M", "64iB", "1MM", "٣"] {
            assert_eq!(parse_size(text), Err(NoSize::Form), "{text}");
        }
        for text in ["16384P", "18446744073709551616"] {
            assert_eq!(parse_size(text), Err(NoSize::TooLarge), "{text}");
        }
    }

    #[test]
    fn times_are_read() {
        let ms = |text| parse_time(text).map(|time| time.as_millis());
        assert_eq!(
            ["90", "90s", "1h30m", "5 min", "2.5", "0.35s", ".5", "0"].map(ms),
            [90_000, 90_000, 5_400_000, 300_000, 2_500, 350, 500, 0].map(Some)
        );
        let whole_s = |text| parse_whole_seconds(text).map(|time| time.as_secs());
        assert_eq!(
            ["90s", "1h30m", "5 min", "5", "0", "0s", "2.5s", "5x"].map(whole_s),
            [Some(90), Some(5_400), Some(300), Some(5), None, None, None, None]
        );
        for wrong in
            ["", ".", "m", "5x", "-5m", "1.2.3", "5m3", "10ms", "1e3", "18446744073709551615h", "inf"]
        {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_much(text in "[0-9.hmins ]{0,40}|\\PC{0,20}") {
            let _ = (parse_size(&text), parse_time(&text), parse_decimal(&text, &METRES));
        }

        #[test]
        fn a_decimal_quantity_is_read_as_it_is_written(quantity: u64, shift in 0u32..64) {
            let quantity = quantity >> shift;
            proptest::prop_assert_eq!(parse_decimal(&decimal(quantity, &METRES), &METRES), Some(quantity));
        }
    }
}
