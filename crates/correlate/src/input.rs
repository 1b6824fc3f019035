//! What is joined: the levels with their requests, and how the space of one lies in that of the next.

use std::path::{Path, PathBuf};

use nestor_stack::layers::hypervisors::CacheMode;
use nestor_trace::{Request, RequestHeader, RequestReader, TraceError};
use serde::{Deserialize, Serialize};

use crate::clock::SharedClock;
use crate::error::CorrelateError;
use crate::kind::LevelKind;
use crate::space::SpaceMap;
use crate::tree::LevelIndex;

/// Requests of one level, in the order of completion.
pub type RequestStream<'a> = Box<dyn Iterator<Item = Result<Request, TraceError>> + 'a>;

/// Requests of a level that can be read again and again, so that neither memory nor a guess has to stand for what an earlier
/// reading finds out.
pub trait StoredRequests {
    /// Begins to read them, from the first on.
    ///
    /// # Errors
    /// They cannot be read.
    fn open(&self) -> Result<RequestStream<'_>, TraceError>;
}

impl StoredRequests for PathBuf {
    fn open(&self) -> Result<RequestStream<'_>, TraceError> {
        Ok(Box::new(RequestReader::open(self)?))
    }
}

impl StoredRequests for Vec<Request> {
    fn open(&self) -> Result<RequestStream<'_>, TraceError> {
        Ok(Box::new(self.iter().copied().map(Ok)))
    }
}

/// Whether something between two levels can answer a request without the lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absorption {
    /// Every request needs one below.
    Never,
    /// A cache may answer.
    Possible,
    /// A cache lies between that promises to be written through. A request that it answers all the same counts as absorbed
    /// and is remarked on.
    Promised,
    /// Not known: it is inferred from the share of requests without one below, and remarked on.
    #[default]
    Unknown,
}

/// What the layers between two levels can answer themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheBetween {
    /// Reads.
    #[serde(rename = "cached_reads")]
    pub reads: Absorption,
    /// Writes, which a cache writes out later.
    #[serde(rename = "cached_writes")]
    pub writes: Absorption,
}

impl CacheBetween {
    /// Nothing is cached (`cache=none`, `directsync`; a host's block layer above its disk).
    pub const NONE: Self = Self { reads: Absorption::Never, writes: Absorption::Never };
    /// Reads only (`cache=writethrough`): writes lie in the host's page cache too, until the flush that follows each of
    /// them. QEMU leaves flushes out that it takes for done, and then a write is over before it is below (seen with 7.2
    /// and several writes under way; `bdrv_co_flush` and `write_gen` in its `block/io.c`).
    pub const WRITE_THROUGH: Self = Self { reads: Absorption::Possible, writes: Absorption::Promised };
    /// Reads and writes (`cache=writeback`, `unsafe`).
    pub const WRITE_BACK: Self = Self { reads: Absorption::Possible, writes: Absorption::Possible };
    /// Not known.
    pub const UNKNOWN: Self = Self { reads: Absorption::Unknown, writes: Absorption::Unknown };

    /// What the machine that serves a disk in a cache mode may answer itself.
    pub const fn of(mode: CacheMode) -> Self {
        match mode {
            CacheMode::None | CacheMode::Directsync => Self::NONE,
            CacheMode::Writethrough => Self::WRITE_THROUGH,
            CacheMode::Writeback | CacheMode::Unsafe => Self::WRITE_BACK,
        }
    }
}

/// One trace point.
pub struct LevelInput<'a> {
    /// What is known of its requests: layer, kind, machine, clock.
    pub header: RequestHeader,
    /// The requests.
    pub source: Box<dyn StoredRequests + 'a>,
    /// How the space of the level above lies in this one's. The topmost level has no use for it.
    pub map: SpaceMap,
    /// What lies between the level above and this one. The topmost level has no use for it.
    pub cache: CacheBetween,
    /// Its clock against one that other levels are known against too.
    pub shared_clock: Option<SharedClock>,
}

impl LevelInput<'_> {
    /// What was recorded there.
    pub(crate) fn kind(&self) -> LevelKind {
        self.header.kind.as_str().into()
    }
}

impl LevelInput<'static> {
    /// The requests of a request file, in the same space as the level above, with unknown caches between.
    ///
    /// # Errors
    /// The file cannot be opened or is no file of requests.
    pub fn from_file(path: &Path) -> Result<Self, CorrelateError> {
        let reader = RequestReader::open(path).map_err(|source| CorrelateError::Requests {
            level: LevelIndex::TOP,
            layer: path.display().to_string(),
            source,
        })?;
        Ok(Self::new(reader.header().clone(), path.to_path_buf()))
    }
}

impl<'a> LevelInput<'a> {
    /// Requests in the same space as those of the level above, with unknown caches between.
    pub fn new(header: RequestHeader, source: impl StoredRequests + 'a) -> Self {
        Self {
            header,
            source: Box::new(source),
            map: SpaceMap::Identity,
            cache: CacheBetween::UNKNOWN,
            shared_clock: None,
        }
    }

    /// The same with another map.
    #[must_use]
    pub fn with_map(self, map: SpaceMap) -> Self {
        Self { map, ..self }
    }

    /// The same with what is known of its clock.
    #[must_use]
    pub fn with_shared_clock(self, shared_clock: Option<SharedClock>) -> Self {
        Self { shared_clock, ..self }
    }

    /// The same with what is known of the caches above it.
    #[must_use]
    pub fn with_cache(self, cache: CacheBetween) -> Self {
        Self { cache, ..self }
    }
}
