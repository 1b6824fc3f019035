//! What is exported.

use nestor_correlate::{Level, LevelIndex, Origin, StoredRequests};
use nestor_trace::request_file::ClockReading;
use nestor_trace::{Request, TraceError};

use crate::Links;

/// How times of one clock become times of another: `t + offset + (t - middle) * drift`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockMap {
    /// What is added at `middle_ns`.
    pub offset_ns: i64,
    /// What is added besides, in parts per billion of the time since `middle_ns`.
    pub drift_ppb: i64,
    /// Where on the clock that is left `offset_ns` holds exactly.
    pub middle_ns: u64,
}

impl ClockMap {
    /// A time of the clock that is left, on the clock that is wanted; what does not fit in it stops at its ends.
    pub fn map(&self, time_ns: u64) -> u64 {
        // A drift of a whole second a second would turn time around; real ones are a few thousand parts per billion.
        let drift = i128::from(self.drift_ppb.clamp(-500_000_000, 500_000_000));
        let since_middle = i128::from(time_ns) - i128::from(self.middle_ns);
        let mapped = i128::from(time_ns)
            + i128::from(self.offset_ns)
            + (since_middle * drift).div_euclid(1_000_000_000);
        u64::try_from(mapped.max(0)).unwrap_or(u64::MAX)
    }
}

/// One trace point.
pub struct ExportLevel {
    /// What it is called. Its count of requests is not used.
    pub level: Level,
    /// From its clock to the topmost level's: maps to be applied one after the other, its own first.
    pub clock: Vec<ClockMap>,
    /// Its requests. They are read once for CSV and Parquet, and once or twice more for Perfetto.
    pub source: Box<dyn StoredRequests>,
}

/// A part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// Nanoseconds after the first request of the topmost level that has one.
    pub from_ns: u64,
    /// The same, excluded.
    pub to_ns: u64,
}

/// What is exported: trace points, topmost first, and who caused whom.
#[derive(Default)]
pub struct Trace {
    /// The trace points.
    pub levels: Vec<ExportLevel>,
    /// Origins and parents, as far as they are known.
    pub links: Links,
    /// Two clocks of the topmost machine at one moment, if they were read.
    pub clock: Option<ClockReading>,
    /// The part that is exported: requests that were under way in it. `None` for all.
    pub window: Option<TimeWindow>,
}

/// A request as it is written: on the topmost clock, with where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub request: Request,
    pub origin: Option<Origin>,
    /// Requests of the level above.
    pub parents: &'a [u64],
}

impl Trace {
    /// The requests of a level on the topmost clock, in the order in which they lie in the source.
    pub(crate) fn requests(
        &self,
        level: LevelIndex,
        bounds: Bounds,
    ) -> Result<impl Iterator<Item = Result<Request, TraceError>> + '_, TraceError> {
        let ExportLevel { clock, source, .. } = &self.levels[level.position()];
        let on_top_clock = |time: u64| clock.iter().fold(time, |time, map| map.map(time));
        let requests = source.open()?.map(move |request| {
            request.map(|request| {
                // A request that ends before it begins would break every reader: its begin is believed.
                let queued_ns = on_top_clock(request.queued_ns);
                let completed_ns = on_top_clock(request.completed_ns).max(queued_ns);
                let issued_ns = on_top_clock(request.issued_ns).clamp(queued_ns, completed_ns);
                Request { queued_ns, issued_ns, completed_ns, ..request }
            })
        });
        Ok(requests.filter(move |request| request.as_ref().map_or(true, |r| bounds.contain(r))))
    }

    /// Where the requests of a level come from.
    pub(crate) fn row(&self, level: LevelIndex, request: Request) -> Row<'_> {
        Row {
            request,
            origin: self.links.origin(level, request.id),
            parents: self.links.parents(level, request.id),
        }
    }

    /// The window on the topmost clock.
    pub(crate) fn bounds(&self) -> Result<Bounds, TraceError> {
        let Some(window) = self.window else { return Ok(Bounds::ALL) };
        for level in 0..self.levels.len() {
            let mut first: Option<u64> = None;
            for request in self.requests(LevelIndex::at(level), Bounds::ALL)? {
                let queued = request?.queued_ns;
                first = Some(first.map_or(queued, |f| f.min(queued)));
            }
            if let Some(first) = first {
                let at = |ns: u64| first.saturating_add(ns);
                return Ok(Bounds { from_ns: at(window.from_ns), to_ns: at(window.to_ns) });
            }
        }
        Ok(Bounds::ALL)
    }
}

/// A window on the topmost clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    from_ns: u64,
    to_ns: u64,
}

impl Bounds {
    pub(crate) const ALL: Self = Self { from_ns: 0, to_ns: u64::MAX };

    fn contain(self, request: &Request) -> bool {
        self == Self::ALL || (request.completed_ns >= self.from_ns && request.queued_ns < self.to_ns)
    }
}
