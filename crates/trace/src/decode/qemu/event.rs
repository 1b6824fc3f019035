//! One event.

use std::sync::Arc;

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An unsigned number or an address.
    Unsigned(u64),
    /// A number below zero, as text shows it; binary traces do not show the sign, see [`QemuEvent::signed`].
    Negative(i64),
    /// A string, or a word that is not a number.
    Text(String),
}

/// An argument of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the event's signature, else the word before it in the text, else `arg0`, `arg1`, …
    pub name: Arc<str>,
    /// Its value.
    pub value: Value,
}

/// Something that happened in QEMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuEvent {
    /// When, on the clock that the source names.
    pub time_ns: u64,
    /// The process (simpletrace) or thread (log); 0 where unknown.
    pub pid: u32,
    /// Its name in QEMU's `trace-events` files.
    pub name: Arc<str>,
    /// Its arguments, in their order.
    pub arguments: Vec<Argument>,
}

impl QemuEvent {
    /// The value of the argument of that name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.arguments.iter().find(|a| *a.name == *name).map(|a| &a.value)
    }

    /// The argument of that name as an unsigned number.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Unsigned(number) => Some(*number),
            Value::Negative(_) | Value::Text(_) => None,
        }
    }

    /// The argument of that name as a signed number.
    pub fn signed(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            // The simple back end stores every number in 64 bits with its sign extended.
            Value::Unsigned(number) => Some(*number as i64),
            Value::Negative(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    /// The argument of that name as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            Value::Unsigned(_) | Value::Negative(_) => None,
        }
    }
}
