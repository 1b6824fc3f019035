//! Names of disks and files.

use std::collections::HashMap;

/// The most names that are distinguished; all further names count as one, so that a hostile trace cannot fill the memory.
const MOST_TARGETS: usize = 1 << 14;

/// Bytes of a name that are kept (fio's own limit).
const LONGEST_NAME: usize = 256;

/// The common name of all further targets.
const OTHERS: &str = "others";

/// Numbers names in the order in which they come.
#[derive(Debug, Default)]
pub(super) struct Targets {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    last: Option<u32>,
}

impl Targets {
    /// The number of a name.
    pub fn number(&mut self, name: &str) -> u32 {
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        if let Some(last) = self.last
            && self.names[last as usize] == name
        {
            return last;
        }
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None if self.names.len() < MOST_TARGETS => self.add(name),
            None => *self.numbers.get(OTHERS).unwrap_or(&(MOST_TARGETS as u32 - 1)),
        };
        self.last = Some(number);
        number
    }

    /// All names by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn add(&mut self, name: &str) -> u32 {
        let name = if self.names.len() + 1 == MOST_TARGETS { OTHERS } else { name };
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}
