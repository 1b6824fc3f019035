//! The names that a set has: the paths below its directory that only this program has made.
//!
//! Entries of a directory are numbered from 1 without gaps, and flowops make and remove only files and directories of the planned
//! tree; so how many entries each directory has is all that there is to know.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use crate::tree::{MOST_DIRECTORIES, Tree};

/// Runs of equal directories that are recorded, of about 12 bytes each; more are known by their digest only.
const MOST_RUNS: usize = 1 << 16;

/// What a directory has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Directory {
    /// Indices of those in it.
    inner: Vec<u32>,
    files: u32,
    /// Directories without anything in them; their numbers follow those of the files.
    leaves: u32,
}

/// All names of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// Depth first; the first is the set's own.
    directories: Vec<Directory>,
}

/// A directory of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    At(u32),
    /// Nothing is in it.
    Leaf,
}

/// Names as they are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recorded {
    digest: u64,
    /// Depth first: directories inside, files, leaf directories, and how many such directories follow each other. Empty if there
    /// are too many.
    runs: Vec<[u32; 4]>,
}

impl Names {
    /// Those of a planned tree.
    pub(super) fn of(tree: &Tree) -> Self {
        let mut directories = vec![Directory::default(); tree.directories.len()];
        // The last directory of each depth, for a directory follows the one it is in.
        let mut last: Vec<u32> = vec![0];
        for (index, path) in tree.directories.iter().enumerate().skip(1) {
            let depth = 1 + path.bytes().filter(|byte| *byte == b'/').count();
            last.truncate(depth);
            directories[last[depth - 1] as usize].inner.push(index as u32);
            last.push(index as u32);
        }
        for entry in &tree.files {
            directories[Tree::directory_of(*entry)].files += 1;
        }
        for entry in &tree.leaf_directories {
            directories[Tree::directory_of(*entry)].leaves += 1;
        }
        Self { directories }
    }

    fn runs(&self) -> impl Iterator<Item = [u32; 4]> {
        let mut all = self.directories.iter().map(|d| [d.inner.len() as u32, d.files, d.leaves]).peekable();
        std::iter::from_fn(move || {
            let first = all.next()?;
            let mut count = 1;
            while all.next_if_eq(&first).is_some() {
                count += 1;
            }
            Some([first[0], first[1], first[2], count])
        })
    }

    /// For the record.
    pub(super) fn recorded(&self) -> Recorded {
        let mut runs: Vec<[u32; 4]> = self.runs().take(MOST_RUNS + 1).collect();
        if runs.len() > MOST_RUNS {
            runs.clear();
        }
        Recorded { digest: self.digest(), runs }
    }

    fn digest(&self) -> u64 {
        digest_of(self.runs().flatten().map(u64::from))
    }

    /// The directory of this name in another.
    pub(super) fn directory(&self, at: Place, name: &CStr) -> Option<Place> {
        let Place::At(at) = at else { return None };
        let (number, at) = (number_of(name)?, &self.directories[at as usize]);
        match at.inner.get(number as usize - 1) {
            Some(inner) => Some(Place::At(*inner)),
            None if !at.inner.is_empty() => None,
            None => {
                let after = number.checked_sub(at.files)?;
                (after > 0 && after <= at.leaves).then_some(Place::Leaf)
            }
        }
    }

    /// Whether a directory has a file of this name.
    pub(super) fn has_file(&self, at: Place, name: &CStr) -> bool {
        let Place::At(at) = at else { return false };
        let at = &self.directories[at as usize];
        at.inner.is_empty() && number_of(name).is_some_and(|number| number <= at.files)
    }

    /// Whether there is a file of this path.
    pub(super) fn has_path(&self, path: &CStr) -> bool {
        let mut at = Place::At(0);
        let mut parts = path.to_bytes().split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let Ok(name) = std::ffi::CString::new(part) else { return false };
            if parts.peek().is_none() {
                return self.has_file(at, &name);
            }
            let Some(inner) = self.directory(at, &name) else { return false };
            at = inner;
        }
        false
    }
}

impl Recorded {
    /// The names: those of the tree that is planned now, if it is the same, else what is recorded. `None` if that is not known.
    pub(super) fn names(&self, planned: &Tree) -> Option<Names> {
        let planned = Names::of(planned);
        if planned.digest() == self.digest {
            return Some(planned);
        }
        let all = self.runs.iter().try_fold(0usize, |sum, run| sum.checked_add(run[3] as usize))?;
        if all == 0 || all > MOST_DIRECTORIES {
            return None;
        }
        let mut directories: Vec<Directory> = Vec::new();
        // Directories of which some are still to come, and how many.
        let mut open: Vec<(u32, u32)> = Vec::new();
        for &[inner, files, leaves, count] in &self.runs {
            for _ in 0..count {
                let index = directories.len() as u32;
                while open.last().is_some_and(|(_, missing)| *missing == 0) {
                    open.pop();
                }
                match open.last_mut() {
                    Some((parent, missing)) => {
                        *missing -= 1;
                        directories[*parent as usize].inner.push(index);
                    }
                    None if index == 0 => {}
                    None => return None,
                }
                directories.push(Directory { inner: Vec::new(), files, leaves });
                open.push((index, inner));
            }
        }
        let is_whole = open.iter().all(|(_, missing)| *missing == 0);
        let names = Names { directories };
        (is_whole && names.digest() == self.digest).then_some(names)
    }

    /// Keeps no more than the digest.
    pub(super) fn shorten(&mut self) {
        self.runs.clear();
    }
}

/// FNV-1a over whole numbers: trees are told apart, not defended against.
pub(super) fn digest_of(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0xcbf2_9ce4_8422_2325, |hash, number| (hash ^ number).wrapping_mul(0x0100_0000_01b3))
}

/// The number that is written like this in a tree: eight digits, or as many as it takes; from 1.
fn number_of(name: &CStr) -> Option<u32> {
    let name = name.to_str().ok()?;
    let is_digits = name.len() >= 8 && name.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = name.len() == 8 || !name.starts_with('0');
    if is_digits && is_short { name.parse().ok().filter(|number| *number > 0) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::set;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_has_the_names_of_its_tree_and_no_others(
            entries in 1u64..500, leaves in 0u64..30, width in 2u64..40, gamma in prop_oneof![Just(0.0), Just(1.5)],
            seed: u64, other in 0u32..100,
        ) {
            let mut plan = set(entries, width, gamma);
            plan.leaf_directories = leaves;
            let tree = Tree::plan(&plan, seed, 0).unwrap();
            let recorded = Names::of(&tree).recorded();
            let elsewhere = Tree::plan(&set(entries + 1, width, gamma), seed ^ 1, 0).unwrap();
            let names = recorded.names(&elsewhere).unwrap();
            prop_assert_eq!(&names, &Names::of(&tree));
            let mut path = Vec::new();
            let mut known = std::collections::BTreeSet::new();
            for entry in &tree.files {
                tree.path_of(*entry, &mut path);
                let path = CStr::from_bytes_with_nul(&path).unwrap();
                prop_assert!(names.has_path(path));
                known.insert(path.to_owned());
            }
            for directory in &*tree.directories {
                let path = std::ffi::CString::new(format!("{directory}/{other:08}")).unwrap();
                prop_assert_eq!(names.has_path(&path), known.contains(&path));
            }
        }

        #[test]
        fn a_record_that_is_no_tree_is_refused(
            digest: u64, runs in prop::collection::vec(prop::array::uniform4(0u32..5), 0..20),
        ) {
            let tree = Tree::plan(&set(3, 2, 0.0), 1, 0).unwrap();
            prop_assert_eq!(Recorded { digest, runs }.names(&tree), None);
            let endless = Recorded { digest, runs: vec![[1, 0, 0, u32::MAX]; 3] };
            prop_assert_eq!(endless.names(&tree), None);
        }
    }

    #[test]
    fn only_numbers_as_they_are_written_are_names() {
        let number = |text: &str| number_of(&std::ffi::CString::new(text).unwrap());
        assert_eq!(number("00000012"), Some(12));
        assert_eq!(number("123456789"), Some(123_456_789));
        for other in ["00000000", "12", "012345678", "99999999999", "0000001a", ""] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
