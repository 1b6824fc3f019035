//! The values of options that always have one, because the engine gives each a default.
//!
//! An engine that asks for an option without a default, or as another kind than the option's, is wrong itself; the tests
//! walk through the catalogue of all options.

use crate::notation::Workload;
use crate::value::Value;

/// A size in bytes.
pub(super) fn bytes(workload: &Workload, option: &str) -> u64 {
    match workload.value(option) {
        Some(Value::Bytes(bytes)) => bytes,
        other => unreachable!("{option} is a size with a default, not {other:?}"),
    }
}

/// A whole number.
pub(super) fn count(workload: &Workload, option: &str) -> u64 {
    match workload.value(option) {
        Some(Value::Count(count)) => count,
        other => unreachable!("{option} is a number with a default, not {other:?}"),
    }
}

/// A word of a choice.
pub(super) fn choice(workload: &Workload, option: &str) -> &'static str {
    match workload.value(option) {
        Some(Value::Choice(word)) => word,
        other => unreachable!("{option} is a word with a default, not {other:?}"),
    }
}

/// `on`; `off` also where the case does not have the option.
pub(super) fn switch(workload: &Workload, option: &str) -> bool {
    matches!(workload.value(option), Some(Value::Switch(true)))
}

/// Seconds of a time limit; `None` when it is off.
pub(super) fn time_limit_s(workload: &Workload, option: &str) -> Option<u64> {
    match workload.value(option) {
        Some(Value::TimeLimit(seconds)) => seconds,
        _ => None,
    }
}
