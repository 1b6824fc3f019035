//! Names of threads.

use std::collections::HashMap;

/// Names that are kept, so that a hostile trace cannot fill the memory.
const MOST_NAMES: usize = 1 << 16;

/// Bytes of a name that are kept; the kernel's have 15 (`TASK_COMM_LEN`), those of its workers up to 64.
const LONGEST_NAME: usize = 64;

/// Names of threads by their numbers, as many as fit.
///
/// A thread that changes its name is known by the last one.
#[derive(Clone, Debug, Default)]
pub struct ThreadNames {
    names: HashMap<u32, Box<str>>,
    /// Names for which there was no room.
    left_out: u64,
}

impl ThreadNames {
    /// Remembers a name.
    pub fn insert(&mut self, pid: u32, name: &str) {
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        let room = self.names.len() < MOST_NAMES;
        match self.names.get_mut(&pid) {
            Some(known) if **known == *name => {}
            Some(known) => *known = name.into(),
            None if room => {
                self.names.insert(pid, name.into());
            }
            None => self.left_out += 1,
        }
    }

    /// The name of a thread.
    pub fn get(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(|name| &**name)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How often a name was met for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}
