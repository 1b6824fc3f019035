//! Values and how they are calculated with.

use std::fmt;

/// A value of a variable or an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Integer(i64),
    Double(f64),
    Boolean(bool),
    Text(String),
}

/// `+`, `-`, `*` or `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operator {
    pub(crate) fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

/// A number as it is written: digits, perhaps a point and digits, perhaps `k`, `m`, `g` or `t` in either case.
/// `None` if it is no number, an error if it does not fit 63 bits.
pub(crate) fn number(text: &str) -> Option<Result<Scalar, ()>> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        (at, 't' | 'T') => (&text[..at], 40),
        _ => (text, 0_u32),
    };
    let (whole, part) = digits.split_once('.').map_or((digits, None), |(whole, part)| (whole, Some(part)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || part.is_some_and(|part| !is_number(part)) {
        return None;
    }
    let scale = 1_i64 << shift;
    if part.is_none() {
        return Some(
            whole.parse::<i64>().ok().and_then(|n| n.checked_mul(scale)).map(Scalar::Integer).ok_or(()),
        );
    }
    let value = digits.parse::<f64>().ok()? * scale as f64;
    Some(if value < i64::MAX as f64 { Ok(Scalar::Double(value)) } else { Err(()) })
}

/// Calculates. The error is a sentence.
pub(crate) fn calculate(left: &Scalar, operator: Operator, right: &Scalar) -> Result<Scalar, String> {
    use Scalar::{Double, Integer};
    match (left.as_number(), right.as_number()) {
        (Some(Integer(a)), Some(Integer(b))) => integers(a, operator, b).map(Integer),
        (Some(a), Some(b)) => {
            let (a, b) = (a.as_double().unwrap_or(0.0), b.as_double().unwrap_or(0.0));
            doubles(a, operator, b).map(Double)
        }
        (None, _) => Err(format!("{:?} is not a number", left.to_string())),
        (_, None) => Err(format!("{:?} is not a number", right.to_string())),
    }
}

fn integers(a: i64, operator: Operator, b: i64) -> Result<i64, String> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide if b == 0 => return Err(format!("{a} / 0 cannot be computed")),
        // Rounded down, also below zero.
        Operator::Divide => {
            a.checked_div(b).map(|quotient| quotient - i64::from(a % b != 0 && (a < 0) != (b < 0)))
        }
    };
    result.ok_or_else(|| format!("{a} {} {b} is too large", operator.sign()))
}

fn doubles(a: f64, operator: Operator, b: f64) -> Result<f64, String> {
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
    };
    if result.is_finite() {
        Ok(result)
    } else {
        Err(format!("{a} {} {b} cannot be computed", operator.sign()))
    }
}

impl Scalar {
    /// The number it is, also if it is one in quotation marks.
    pub(crate) fn as_number(&self) -> Option<Self> {
        match self {
            Self::Integer(_) | Self::Double(_) => Some(self.clone()),
            Self::Boolean(_) => None,
            Self::Text(text) => number(text.trim())?.ok(),
        }
    }

    /// As a number with digits behind the point.
    pub(crate) fn as_double(&self) -> Option<f64> {
        match self.as_number()? {
            Self::Integer(value) => Some(value as f64),
            Self::Double(value) => Some(value),
            _ => None,
        }
    }

    /// As a number without a sign or digits behind the point, which are cut off.
    pub(crate) fn as_count(&self) -> Option<u64> {
        match self.as_number()? {
            Self::Integer(value) => u64::try_from(value).ok(),
            Self::Double(value) if value >= 0.0 => Some(value as u64),
            _ => None,
        }
    }

    /// As a truth value; numbers other than 0 are true.
    pub(crate) fn as_truth(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            Self::Integer(value) => Some(*value != 0),
            Self::Double(value) => Some(*value != 0.0),
            Self::Text(text) => match text.as_str() {
                "true" => Some(true),
                "false" => Some(false),
                text => Some(number(text)?.ok()?.as_double()? != 0.0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_have_binary_suffixes_of_either_case() {
        let integer = |text| match number(text) {
            Some(Ok(Scalar::Integer(value))) => Some(value),
            _ => None,
        };
        assert_eq!(integer("05"), Some(5));
        assert_eq!(integer("16k"), Some(16384));
        assert_eq!(integer("3G"), Some(3 << 30));
        assert_eq!(integer("2t"), Some(2 << 40));
        assert_eq!(number("1.5m"), Some(Ok(Scalar::Double(1_572_864.0))));
        assert_eq!(number("99999999999g"), Some(Err(())));
        assert_eq!(number("99999999999999999999"), Some(Err(())));
        for no_number in ["", "k", "1.", ".5", "10mb", "-1", "1e6", "0x10", "1.2.3"] {
            assert_eq!(number(no_number), None, "{no_number}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_are_calculated_exactly_or_not_at_all(a: i64, b: i64) {
            for operator in [Operator::Add, Operator::Subtract, Operator::Multiply, Operator::Divide] {
                let (x, y) = (i128::from(a), i128::from(b));
                let exact = match operator {
                    Operator::Add => Some(x + y),
                    Operator::Subtract => Some(x - y),
                    Operator::Multiply => Some(x * y),
                    Operator::Divide => (y != 0).then(|| {
                        let quotient = x.div_euclid(y);
                        if y < 0 && x.rem_euclid(y) != 0 { quotient - 1 } else { quotient }
                    }),
                };
                let expected = exact.and_then(|exact| i64::try_from(exact).ok()).map(Scalar::Integer);
                prop_assert_eq!(calculate(&Scalar::Integer(a), operator, &Scalar::Integer(b)).ok(), expected);
            }
        }
    }
}
