//! Results beyond any medium of its kind: more bytes, more requests, or shorter times.
//!
//! A modelled disk reports which reads its own cache answered, so every read of it is judged. Of a user's disk, only
//! reads at random places are judged, less as many as its cache may have answered.

use nestor_text::units;
use nestor_workload::{Direction, OperationResult};

use super::{Run, TOLERANCE};
use crate::checks::CACHED_BELOW;

/// Requests that may wait if their number is not known: twice the 128 that a queue of the kernel holds by default
/// (`BLKDEV_DEFAULT_RQ`), to include those that the disk holds.
const WAITING: f64 = 256.0;
const SECTOR_BYTES: f64 = 512.0;

/// Reads for which the arm had to move, as far as known.
struct Sought {
    /// All reads, a second.
    reads_per_s: f64,
    /// The least of them (0 to 1) that were neither in the disk's own cache nor where the one before ended.
    share: f64,
    /// Whether the disk itself says so.
    said_by_disk: bool,
}

impl Sought {
    fn per_s(&self) -> f64 {
        self.reads_per_s * self.share
    }
}

impl Run<'_> {
    /// Every reason for which the medium cannot have given the number.
    pub(super) fn beyond_the_medium(&self) -> Vec<String> {
        let more = self.more_bytes().into_iter().chain(self.more_reads_than_the_arm());
        let sooner = self.reads_too_soon().into_iter().chain(self.writes_too_soon());
        more.chain(self.more_requests_than_flash()).chain(sooner).collect()
    }

    /// More bytes a second than the medium can move.
    fn more_bytes(&self) -> Option<String> {
        let limits = self.medium.limits?;
        let limit = limits.most_bytes_per_s(self.measured.load.working_set_bytes);
        let seen = self.measured.load.bytes_per_second();
        // What fits into the disk's own write buffer is taken at once.
        let beyond_buffer = self.measured.load.bytes() > limits.own_cache_bytes;
        (beyond_buffer && seen > limit * (1.0 + TOLERANCE)).then(|| {
            format!(
                "{:.0} MB/s is more than the {} can move ({:.0} MB/s)",
                seen / 1e6,
                self.medium.name(),
                limit / 1e6
            )
        })
    }

    /// More reads at separate places than the arm can reach.
    fn more_reads_than_the_arm(&self) -> Option<String> {
        let (sought, most) = (self.sought()?, self.most_sought()?);
        (sought.per_s() > most * (1.0 + TOLERANCE)).then(|| {
            let (rate, medium) = (sought.per_s(), self.medium.name());
            if sought.said_by_disk {
                format!(
                    "{rate:.0} reads/s were neither in the disk's own cache nor sequential; the arm of the {medium} \
                     reaches {most:.0} places a second at best"
                )
            } else {
                format!(
                    "{:.0} random reads/s are more than the {medium} can do ({most:.0} at best), so a memory answered \
                     them",
                    sought.reads_per_s
                )
            }
        })
    }

    /// More reads than the arm can serve, because the disk's own cache answered them or they were sequential.
    pub(super) fn spared_the_arm(&self) -> Option<String> {
        let (sought, most) = (self.sought()?, self.most_sought()?);
        let spared = sought.said_by_disk && sought.reads_per_s > most * (1.0 + TOLERANCE);
        spared.then(|| {
            format!(
                "{:.0} reads/s are more than its arm can do ({most:.0} at best), but {} were in its own cache or sequential",
                sought.reads_per_s,
                units::percent(1.0 - sought.share)
            )
        })
    }

    /// Reads that are possible only with a cache as large as the working set, on a disk that may have such a cache.
    pub(super) fn only_its_own_cache(&self) -> Option<String> {
        let (sought, most) = (self.sought()?, self.most_sought()?);
        let beyond = !sought.said_by_disk && sought.reads_per_s > most * (1.0 + TOLERANCE);
        beyond.then(|| {
            format!(
                "{:.0} random reads/s are more than the arm of the {} can do ({most:.0} at best), and its own cache may \
                 hold the working set",
                sought.reads_per_s,
                self.medium.name()
            )
        })
    }

    /// More requests a second than flash answers.
    fn more_requests_than_flash(&self) -> Option<String> {
        let limit = self.medium.limits?.requests_per_s;
        let rate = match self.medium.metrics.filter(|m| self.medium.is_seen() && m.span_s > 0.0) {
            Some(metrics) => metrics.issued() as f64 / metrics.span_s,
            // The layers hardly merge reads at random places, but do merge others.
            None => self.application_reads_per_s().filter(|_| self.pattern.random_reads)?,
        };
        (rate > limit * (1.0 + TOLERANCE)).then(|| {
            format!("{rate:.0} requests/s are more than the {} can do ({limit:.0})", self.medium.name())
        })
    }

    /// The class with the most operations of those that move data one way.
    fn most_frequent(&self, direction: Direction) -> Option<&OperationResult> {
        self.measured.load.of_direction(direction).max_by_key(|result| result.operations)
    }

    fn application_reads_per_s(&self) -> Option<f64> {
        let reads = self.measured.load.of_direction(Direction::Read).map(|reads| reads.operations);
        let reads = reads.reduce(u64::saturating_add)?;
        let elapsed_s = self.measured.load.elapsed_ns as f64 / 1e9;
        (elapsed_s > 0.0).then(|| reads as f64 / elapsed_s)
    }

    /// The reads for which the arm had to move; `None` if they are not known.
    fn sought(&self) -> Option<Sought> {
        let metrics = self.medium.metrics.filter(|m| self.medium.is_seen() && m.span_s > 0.0);
        let Some(metrics) = metrics else {
            let reads_per_s = self.application_reads_per_s().filter(|_| self.pattern.random_reads)?;
            return Some(Sought { reads_per_s, share: self.missed_share()?, said_by_disk: false });
        };
        let reads = metrics.read.issued as f64;
        if reads == 0.0 {
            return None;
        }
        // Older records have the share of reads and writes together.
        let of_both =
            metrics.sequential_share.map(|share| (share * metrics.issued() as f64 / reads).min(1.0));
        let not_sequential = 1.0 - metrics.sequential_read_share.or(of_both).unwrap_or(0.0);
        let reads_per_s = reads / metrics.span_s;
        if let Some(service) = metrics.service {
            // With its write cache on, a disk answers every write from there, and counts it.
            let writes = if self.medium.write_cache == Some(true) { metrics.write.issued } else { 0 };
            let hits = service.cache_hits.saturating_sub(writes) as f64;
            let share = (not_sequential - hits / reads).max(0.0);
            return Some(Sought { reads_per_s, share, said_by_disk: true });
        }
        let share = not_sequential * self.missed_share()?;
        self.pattern.random_reads.then_some(Sought { reads_per_s, share, said_by_disk: false })
    }

    /// The share of reads at random places that the medium's own cache cannot have answered.
    fn missed_share(&self) -> Option<f64> {
        Some(self.medium.limits?.missed_share(self.measured.load.working_set_bytes))
    }

    /// The most reads a second for which the arm can move.
    fn most_sought(&self) -> Option<f64> {
        let platters = self.medium.limits?.platters?;
        let working_set = Some(self.measured.load.working_set_bytes).filter(|_| self.pattern.random_reads);
        let deepest = self.medium.metrics.and_then(|m| m.timeline.as_ref()?.depth_max.iter().max().copied());
        let waiting = match self.pattern.outstanding {
            Some(outstanding) if self.pattern.past_page_cache => outstanding,
            _ => WAITING,
        };
        Some(platters.most_requests_per_s(waiting.max(deepest.map_or(0.0, f64::from)), working_set))
    }

    /// Reads that took less time than the medium needs for any, or, at random places, than they take to come round.
    fn reads_too_soon(&self) -> Option<String> {
        let limits = self.medium.limits?;
        let reads = self.most_frequent(Direction::Read)?;
        let mean_ns = reads.latency.summary()?.mean_ns;
        // Behind a page cache a request of the medium serves many operations, most of which do not wait for it.
        let each_waits = self.pattern.past_page_cache
            && self
                .medium
                .metrics
                .is_none_or(|m| m.read.issued as f64 >= CACHED_BELOW * reads.operations as f64);
        let half_turn_ns = limits.platters.map_or(0.0, |platters| platters.half_turn_ms() * 1e6);
        let sought = self.sought().filter(|_| self.pattern.random_reads).map_or(0.0, |sought| sought.share);
        let (least_ns, what) = match sought * half_turn_ns {
            round if round > limits.fastest_ns => (round, "random reads"),
            _ => (limits.fastest_ns, "reads"),
        };
        (each_waits && mean_ns < least_ns * (1.0 - TOLERANCE)).then(|| {
            format!(
                "{what} took {:.3} ms on average; the {} needs at least {:.3} ms for one",
                mean_ns / 1e6,
                self.medium.name(),
                least_ns / 1e6
            )
        })
    }

    /// Writes that were done sooner than platters without a write cache can have them, and the least that these take:
    /// both in nanoseconds.
    fn early_writes(&self) -> Option<(f64, f64)> {
        let platters = self.medium.limits?.platters?;
        let metrics = self.medium.metrics.filter(|_| self.medium.is_seen())?;
        let writes = self.most_frequent(Direction::Write)?;
        let each_waits = self.pattern.past_page_cache
            && self.pattern.random_writes
            && self.medium.write_cache == Some(false)
            && metrics.write.issued as f64 >= CACHED_BELOW * writes.operations as f64;
        // Writes that the layers above placed near each other pass under the heads in one turn.
        let cdf = &metrics.d2d_seeks.as_ref()?.cdf_sectors;
        let near =
            cdf.iter().filter(|sectors| **sectors as f64 * SECTOR_BYTES <= platters.track_bytes).count();
        let far = 1.0 - near as f64 / cdf.len().max(1) as f64;
        let least_ns = far * platters.half_turn_ms() * 1e6;
        let mean_ns = writes.latency.summary()?.mean_ns;
        (each_waits && mean_ns < least_ns * (1.0 - TOLERANCE)).then_some((mean_ns, least_ns))
    }

    fn writes_too_soon(&self) -> Option<String> {
        let (mean_ns, least_ns) = self.early_writes().filter(|_| !self.pattern.page_cache_below)?;
        Some(format!(
            "random writes took {:.3} ms on average; the {} without its write cache needs at least {:.3} ms for one",
            mean_ns / 1e6,
            self.medium.name(),
            least_ns / 1e6
        ))
    }

    /// Writes that a page cache further out answers, as its cache mode says: their time is that of the cache, their rate
    /// that of the medium.
    pub(super) fn answered_by_memory(&self) -> Option<String> {
        let (mean_ns, _) = self.early_writes().filter(|_| self.pattern.page_cache_below)?;
        Some(format!(
            "writes took {:.3} ms on average because memory around the machine answered them",
            mean_ns / 1e6
        ))
    }
}
