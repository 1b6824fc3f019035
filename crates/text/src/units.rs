//! Numbers for people: always with their unit, and with no more digits than are significant.

/// Decimal megabytes per second, as disks are sold by: `26.2 MB/s`.
pub fn rate(bytes_per_second: f64) -> String {
    format!("{} MB/s", digits(bytes_per_second / 1e6))
}

/// Operations per second: `142 IOPS`.
pub fn iops(operations_per_second: f64) -> String {
    format!("{} IOPS", digits(operations_per_second))
}

/// What is more says nothing but that it is not known.
const MOST_PERCENT: f64 = 1e6;

/// A percentage with sign: one decimal below 100 %, otherwise [`digits`]: `-14.7`, `+8 660`.
pub fn signed(percent: f64) -> String {
    let rounded = (percent * 10.0).round() / 10.0;
    // Rounding may leave a negative zero, which would print as "-0.0".
    let rounded = if rounded == 0.0 { 0.0 } else { rounded };
    match rounded.abs() {
        size if size >= MOST_PERCENT => {
            format!("over {}{}", if rounded < 0.0 { '-' } else { '+' }, digits(MOST_PERCENT))
        }
        size if size >= 100.0 => format!("{}{}", if rounded < 0.0 { '-' } else { '+' }, digits(size)),
        _ => format!("{rounded:+.1}"),
    }
}

/// A percentage with sign and without decimals, and with three significant digits: `-15`, `+8 660`.
pub fn signed_whole(percent: f64) -> String {
    let rounded = percent.round();
    format!("{}{}", if rounded < 0.0 { '-' } else { '+' }, whole(rounded.abs()))
}

/// A number without decimals, and with three significant digits: `4`, `8 660`.
pub fn whole(number: f64) -> String {
    if number.abs() < 999.5 { format!("{number:.0}") } else { digits(number) }
}

/// A share of 0 to 1 as per cent: `94.9 %`.
pub fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share of 0 to 1 as whole per cent: `95 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Binary sizes with three significant digits: `512 MiB`, `1.02 MiB`, `8 KiB`, `512 B`.
pub fn bytes(bytes: u64) -> String {
    in_binary_unit(bytes, |unit| unit == "KiB", digits)
}

/// Binary sizes that somebody chose, without a decimal where there is none: `512 MiB`, `1.5 GiB`, `8 KiB`.
pub fn size(bytes: u64) -> String {
    in_binary_unit(bytes, |_| true, |value| format!("{value:.1}"))
}

/// A unit of bytes, for numbers that are to have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteUnit {
    /// 2^10.
    KiB,
    /// 2^20.
    MiB,
    /// 10^9, as disks are sold by.
    GB,
}

impl ByteUnit {
    const fn bytes(self) -> u64 {
        match self {
            Self::KiB => 1 << 10,
            Self::MiB => 1 << 20,
            Self::GB => 1_000_000_000,
        }
    }

    /// As many whole ones as there are: `8191 KiB`.
    pub fn whole(self, bytes: u64) -> String {
        format!("{} {self:?}", bytes / self.bytes())
    }

    /// Rounded to so many decimals: `8.6 GB`.
    pub fn rounded(self, bytes: f64, decimals: usize) -> String {
        format!("{:.decimals$} {self:?}", bytes / self.bytes() as f64)
    }
}

/// A unit for numbers that are to have the same one, with as many decimals as they need to be told apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    unit: &'static str,
    /// How much of what is counted one is.
    one: f64,
    decimals: usize,
}

impl Scale {
    /// The largest unit of which there is one in `usual` bits per second, to a thousandth.
    pub const fn of_bit_rate(usual: f64) -> Self {
        match usual {
            bits if bits < 1e6 => Self { unit: "kbit/s", one: 1e3, decimals: 3 },
            bits if bits < 1e9 => Self { unit: "Mbit/s", one: 1e6, decimals: 3 },
            _ => Self { unit: "Gbit/s", one: 1e9, decimals: 3 },
        }
    }

    /// The largest unit of which there is one in `usual` nanoseconds, to a microsecond, or to a nanosecond of less than a millisecond.
    pub const fn of_time_ns(usual: f64) -> Self {
        match usual {
            ns if ns < 1e6 => Self { unit: "us", one: 1e3, decimals: 3 },
            ns if ns < 1e9 => Self { unit: "ms", one: 1e6, decimals: 3 },
            _ => Self { unit: "s", one: 1e9, decimals: 6 },
        }
    }

    /// A number with the unit: `9.900 kbit/s`.
    pub fn shown(self, number: f64) -> String {
        format!("{} {}", self.number(number), self.unit)
    }

    /// From one to another: `9.900 to 10.100 kbit/s`.
    pub fn range(self, low: f64, high: f64) -> String {
        format!("{} to {}", self.number(low), self.shown(high))
    }

    fn number(self, number: f64) -> String {
        format!("{:.*}", self.decimals, number / self.one)
    }
}

/// In the largest unit of which there is one; a whole number of a unit is written without a decimal where `may_be_whole`.
fn in_binary_unit(bytes: u64, may_be_whole: impl Fn(&str) -> bool, number: impl Fn(f64) -> String) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_024.0;
    let mut unit = 0;
    while value >= 1_023.5 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    let is_whole = bytes.is_multiple_of(1 << (10 * (unit + 1)));
    if is_whole && may_be_whole(UNITS[unit]) {
        return format!("{value:.0} {}", UNITS[unit]);
    }
    // Up to 1023 of a unit: all digits before the point.
    let number = if value >= 999.5 { format!("{value:.0}") } else { number(value) };
    format!("{number} {}", UNITS[unit])
}

/// Durations with three significant digits: `850 ns`, `12.3 us`, `612 ms`, `1.23 s`.
pub fn duration_ns(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 999.5 => format!("{ns:.0} ns"),
        ns if ns < 999_500.0 => format!("{} us", digits(ns / 1e3)),
        ns if ns < 999_500_000.0 => format!("{} ms", digits(ns / 1e6)),
        ns => format!("{} s", digits(ns / 1e9)),
    }
}

/// Seconds with one decimal, and less than one in the unit for it: `10.0 s`, `612 ms`.
pub fn seconds(seconds: f64) -> String {
    if seconds < 0.95 { duration_ns(seconds * 1e9) } else { format!("{seconds:.1} s") }
}

/// With one more digit of milliseconds: requests that lie within one another differ in the third.
pub fn fine_duration_ns(nanoseconds: u64) -> String {
    match nanoseconds {
        1_000_000..10_000_000_000 => format!("{:.2} ms", nanoseconds as f64 / 1e6),
        _ => duration_ns(nanoseconds as f64),
    }
}

/// A quantile of a histogram, whose smallest bucket is 1 ns and includes times of zero.
pub fn latency_ns(nanoseconds: u64) -> String {
    if nanoseconds <= 1 { "0".to_owned() } else { duration_ns(nanoseconds as f64) }
}

/// Whole numbers in groups of three: `107 768`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, in groups of three: `0.12`, `41.7`, `46 400`. Below 1, two decimals.
pub fn digits(value: f64) -> String {
    match value.abs() {
        v if (999.5..1e15).contains(&v) => {
            let last_kept = 10f64.powi(v.log10().floor() as i32 - 2);
            let rounded = count(((v / last_kept).round() * last_kept) as u64);
            if value < 0.0 { format!("-{rounded}") } else { rounded }
        }
        v if v >= 1e15 => format!("{value:.2e}"),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.000_5 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

/// `1 cell`, `2 cells`.
pub fn plural(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// `31, 42, 53`.
pub fn listed<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
}

/// `1 flush`, `2 flushes`, grouped in threes.
pub fn plural_u64(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_may_be_chosen() {
        assert_eq!([ByteUnit::KiB.whole(8191), ByteUnit::MiB.whole(3 << 20)], ["7 KiB", "3 MiB"]);
        let rounded = [ByteUnit::GB.rounded(8_589_934_592.0, 1), ByteUnit::KiB.rounded(11_264.0, 1)];
        assert_eq!(rounded, ["8.6 GB", "11.0 KiB"]);
        assert_eq!(ByteUnit::GB.rounded(36_700_000_000.0, 0), "37 GB");
    }

    #[test]
    fn numbers_of_one_scale_are_told_apart() {
        assert_eq!(Scale::of_bit_rate(1e4).range(9.9e3, 1.01e4), "9.900 to 10.100 kbit/s");
        assert_eq!(
            [1e6, 1e10].map(|bits| Scale::of_bit_rate(bits).shown(bits)),
            ["1.000 Mbit/s", "10.000 Gbit/s"]
        );
        assert_eq!(Scale::of_time_ns(1e3).range(0.0, 1.1e4), "0.000 to 11.000 us");
        assert_eq!(Scale::of_time_ns(5e6).range(4.99e6, 5.01e6), "4.990 to 5.010 ms");
        assert_eq!(Scale::of_time_ns(1e10).range(9.999_99e9, 1.000_001e10), "9.999990 to 10.000010 s");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [rate(26_240_000.0), rate(1_018_000.0), rate(114e6)],
            ["26.2 MB/s", "1.02 MB/s", "114 MB/s"]
        );
        assert_eq!(
            [bytes(512), bytes(8_192), bytes(512 << 20), bytes(1 << 40)],
            ["512 B", "8 KiB", "512 MiB", "1.00 TiB"]
        );
        assert_eq!(
            [size(512), size(8_192), size(512 << 20), size(3 << 29), size((1 << 20) + 1), size(1 << 40)],
            ["512 B", "8 KiB", "512 MiB", "1.5 GiB", "1.0 MiB", "1 TiB"]
        );
        assert_eq!(
            [bytes(1_500), bytes((1 << 20) - 1), bytes(u64::MAX)],
            ["1.46 KiB", "1.00 MiB", "16.0 EiB"]
        );
        assert_eq!(
            [850.0, 12_300.0, 61e6, 999_960.0, 1.234e9].map(duration_ns),
            ["850 ns", "12.3 us", "61.0 ms", "1.00 ms", "1.23 s"]
        );
        assert_eq!([-14.68, -0.4, 8_655.0].map(signed_whole), ["-15", "+0", "+8 660"]);
        assert_eq!([0.012_34, 0.96, 10.0].map(seconds), ["12.3 ms", "1.0 s", "10.0 s"]);
        assert_eq!([0, 999, 1_000, 107_768].map(count), ["0", "999", "1 000", "107 768"]);
        assert_eq!([-14.68, 0.04, -0.04, 100.4].map(signed), ["-14.7", "+0.0", "+0.0", "+100"]);
        assert_eq!([8_655.0, -1_234.0, 999.7, -101.0].map(signed), ["+8 660", "-1 230", "+1 000", "-101"]);
        assert_eq!([iops(50.0), iops(142.4), iops(46_391.0)], ["50.0 IOPS", "142 IOPS", "46 400 IOPS"]);
        assert_eq!([999.4, 999.6, -1_234.0, 9_996.0].map(digits), ["999", "1 000", "-1 230", "10 000"]);
        assert_eq!([1.958e20, f64::INFINITY].map(digits), ["1.96e20", "inf"]);
    }
}
