//! Stacks, workloads and places as studies and results name them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use nestor_processor::ProcessorSpeed;
use nestor_stack::{Place, PlaceWish, Stack, StackError};
use nestor_workload::Workload;
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A stack, a workload or a place with its canonical text, under which results are kept and compared. It is parsed at most once, however
/// often it is cloned. A result of another version may name one that this version does not know; it keeps its text.
///
/// Equality, order and hash are those of the text.
pub struct Written<T>(Arc<Inner<T>>);

struct Inner<T> {
    text: String,
    value: OnceLock<Option<T>>,
}

/// A stack by its canonical text.
pub type WrittenStack = Written<Stack>;
/// A workload by its canonical text.
pub type WrittenWorkload = Written<Workload>;
/// A place by the text that results are stored under.
pub type WrittenPlace = Written<Place>;

impl<T> Written<T> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    fn of(text: String, value: OnceLock<Option<T>>) -> Self {
        Self(Arc::new(Inner { text, value }))
    }
}

impl<T: FromStr> Written<T> {
    /// What the text stands for; `None` if this version does not know it.
    pub fn value(&self) -> Option<&T> {
        self.0.value.get_or_init(|| self.0.text.parse().ok()).as_ref()
    }
}

impl WrittenPlace {
    /// Whether what ran there ran in virtual time.
    pub fn is_in_virtual_time(&self) -> bool {
        self.value().is_some_and(Place::is_in_virtual_time)
    }

    /// The speed of its modelled processor, if that is what it has.
    pub fn modelled_processor(&self) -> Option<ProcessorSpeed> {
        self.value()?.modelled_processor()
    }

    /// What `--on` has to be given to mean it: `emulated` alone would be the time that is right on this machine. A place that this
    /// version does not know can only be repeated.
    pub fn as_asked(&self) -> String {
        self.value().map_or_else(|| self.to_string(), |place| PlaceWish::Exactly(place.clone()).to_string())
    }
}

impl<T: fmt::Display> From<T> for Written<T> {
    fn from(value: T) -> Self {
        Self::of(value.to_string(), OnceLock::from(Some(value)))
    }
}

/// An empty text, which stands for nothing.
impl<T> Default for Written<T> {
    fn default() -> Self {
        Self::of(String::new(), OnceLock::new())
    }
}

/// What is written as a text; for each by itself, because a text can be written too.
macro_rules! from_text {
    ($($written:ty),+) => {
        $(impl From<&str> for $written {
            fn from(text: &str) -> Self {
                Self::from(text.to_owned())
            }
        }

        impl From<String> for $written {
            fn from(text: String) -> Self {
                Self::of(text, OnceLock::new())
            }
        })+
    };
}

from_text!(WrittenStack, WrittenWorkload, WrittenPlace);

impl<T> Clone for Written<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Written<T> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<T> Borrow<str> for Written<T> {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl<T> AsRef<str> for Written<T> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<T> fmt::Display for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl<T> fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<T> PartialEq for Written<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<T> Eq for Written<T> {}

impl<T> PartialEq<str> for Written<T> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl<T> PartialEq<&str> for Written<T> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl<T> PartialEq<String> for Written<T> {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl<T> PartialOrd for Written<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Written<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other)
    }
}

impl<T> Hash for Written<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

impl<'de, T> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::of(String::deserialize(from)?, OnceLock::new()))
    }
}

impl<T> FromSql for Written<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self::of(String::column_result(value)?, OnceLock::new()))
    }
}

impl<T> ToSql for Written<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

/// The stacks that a text with alternatives in braces stands for.
///
/// # Errors
///
/// The whole message, which may have several lines, if one of them is not a stack.
pub fn written_stacks(text: &str) -> Result<Vec<WrittenStack>, StackError> {
    Ok(nestor_stack::parse_all(text)?.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_version_does_not_know_keeps_its_text() {
        let unknown = WrittenStack::from("zfs:of=2031/hdd");
        assert!(unknown.value().is_none());
        assert_eq!(serde_json::to_string(&unknown).unwrap(), "\"zfs:of=2031/hdd\"");
        // Before there were links, a network file system stood on a directory of its server.
        let before_links = WrittenStack::from("nfs/ext4/hdd");
        assert_eq!((before_links.as_str(), before_links.value()), ("nfs/ext4/hdd", None));
        let known: WrittenStack = serde_json::from_str("\"ext4/hdd\"").unwrap();
        assert_eq!(known.value().map(ToString::to_string).as_deref(), Some("ext4/hdd"));
    }

    #[test]
    fn a_stored_place_is_asked_for_in_its_own_time() {
        for (stored, asked) in [
            ("emulated", "emulated:time=real"),
            ("emulated:time=virtual", "emulated:time=virtual"),
            ("ssh:lab", "ssh:lab"),
            ("moon:crater=3", "moon:crater=3"),
        ] {
            assert_eq!(WrittenPlace::from(stored).as_asked(), asked);
        }
    }
}
