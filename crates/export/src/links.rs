//! Who caused whom.

use nestor_correlate::{LevelIndex, Origin};

/// Origins and parents of requests: one entry for each request of which something is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    levels: Vec<LevelLinks>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LevelLinks {
    /// Sorted by request before it is looked at.
    entries: Vec<Entry>,
    parents: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    request: u64,
    /// First position in `parents`.
    first: usize,
    count: u32,
    origin: Origin,
}

impl Links {
    /// Adds what is known of a request. Nothing is to be added twice for one request; call [`Self::sort`] after the last.
    pub fn add(&mut self, level: LevelIndex, request: u64, origin: Origin, parents: &[u64]) {
        let level = level.position();
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, LevelLinks::default);
        }
        let links = &mut self.levels[level];
        let first = links.parents.len();
        links.parents.extend_from_slice(parents);
        // No request has four thousand million parents.
        let count = u32::try_from(parents.len()).unwrap_or(u32::MAX);
        links.entries.push(Entry { request, first, count, origin });
    }

    /// Makes what was added findable.
    pub fn sort(&mut self) {
        for links in &mut self.levels {
            if !links.entries.is_sorted_by_key(|entry| entry.request) {
                links.entries.sort_by_key(|entry| entry.request);
            }
        }
    }

    /// Why a request exists, if that is known.
    pub fn origin(&self, level: LevelIndex, request: u64) -> Option<Origin> {
        self.find(level, request).map(|(_, entry)| entry.origin)
    }

    /// The requests of the level above that caused a request, or that it serves.
    pub fn parents(&self, level: LevelIndex, request: u64) -> &[u64] {
        self.find(level, request)
            .map_or(&[], |(links, entry)| &links.parents[entry.first..entry.first + entry.count as usize])
    }

    /// Whether something is known of a level's requests.
    pub(crate) fn has_any(&self, level: LevelIndex) -> bool {
        self.levels.get(level.position()).is_some_and(|links| !links.entries.is_empty())
    }

    fn find(&self, level: LevelIndex, request: u64) -> Option<(&LevelLinks, &Entry)> {
        let links = self.levels.get(level.position())?;
        let at = links.entries.binary_search_by_key(&request, |entry| entry.request).ok()?;
        Some((links, &links.entries[at]))
    }
}
