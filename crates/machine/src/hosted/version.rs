//! Versions of programs whose words are known.

use std::fmt;
use std::ops::RangeInclusive;

use crate::refusal::{Cause, Refusal};

/// A version: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// From which version on to which the words of a program are known.
#[derive(Clone, Debug)]
pub struct Known(RangeInclusive<Version>);

impl Known {
    /// Between two versions, both of which are known.
    pub fn between(first: (u32, u32), last: (u32, u32)) -> Self {
        Self(Version(first.0, first.1)..=Version(last.0, last.1))
    }

    /// Whether what the program says of its version is one of them.
    ///
    /// # Errors
    /// It is another, or none can be read there.
    pub fn require(&self, product: &str, tool: &str, said: &str) -> Result<(), Refusal> {
        let (first, last) = (self.0.start(), self.0.end());
        let know = format!("Nestor knows the words of {first} to {last} only; install one of these");
        let message = match parse(said) {
            Some(version) if self.0.contains(&version) => return Ok(()),
            Some(version) => format!("{tool} is of {product} {version} ({said}), and {know}"),
            None => format!("{tool} says {said:?} of its version, which cannot be read, and {know}"),
        };
        Err(Refusal::new(Cause::NotSupported, message))
    }
}

/// The first line with a version, from the version on: warnings may come before it.
pub fn first_version(said: &str, before: &str) -> Option<String> {
    let versions = said.lines().filter_map(|line| line.trim().strip_prefix(before)).map(str::trim);
    versions.filter(|version| parse(version).is_some()).map(str::to_owned).next()
}

/// `7.2.22_Debianr175245` is 7.2.
fn parse(said: &str) -> Option<Version> {
    let mut numbers = said.split(['.', ' ', '_']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some(Version(major, minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_versions_are_told_from_others() {
        let known = Known::between((7, 0), (7, 2));
        let require = |said: &str| known.require("VirtualBox", "VBoxManage", said).map_err(|e| e.message);
        for said in ["7.0.0r1", "7.1.4_Debianr1", "7.2.22_Debianr175245"] {
            assert_eq!(require(said), Ok(()));
        }
        for said in ["6.1.50r161033", "7.3.0", "8.0.1r1", "71.0.2"] {
            assert!(require(said).unwrap_err().contains("knows the words of 7.0 to 7.2 only"), "{said}");
        }
        assert!(require("seven").unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn a_version_is_found_among_warnings() {
        let said = "WARNING: The character device /dev/vboxdrv does not exist.\n\t You will not be able to start VMs\n7.2.22_Debianr175245\n";
        assert_eq!(first_version(said, "").as_deref(), Some("7.2.22_Debianr175245"));
        let said = "\nvmrun version 1.17.0 build-24995812\n\nUsage: vmrun\n";
        assert_eq!(first_version(said, "vmrun version").as_deref(), Some("1.17.0 build-24995812"));
        assert_eq!(first_version("7 of 9", ""), None);
    }
}
