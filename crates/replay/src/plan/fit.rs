//! A plan onto a target of another size.

use nestor_trace::Operation;
use nestor_trace::event::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

use super::{PlannedRequest, ReplayPlan};
use crate::error::ReplayError;

/// What to do with a trace of a larger device than the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Refuse it.
    #[default]
    Exact,
    /// Sectors modulo the target's size: distances within the target's size stay, distant regions fall on each other.
    Wrap,
    /// Sectors by the ratio of the sizes: regions stay apart, distances shrink; what followed directly may overlap.
    Scale,
}

/// What was done to fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fitted {
    /// How.
    pub fit: Fit,
    /// Requests elsewhere than in the trace.
    pub moved: u64,
    /// Requests made longer, so that they begin and end with a block of the target.
    pub widened: u64,
    /// Requests made shorter, because they were longer than the target.
    pub shortened: u64,
}

impl Fitted {
    /// Puts a request at the sector `start`, in whole blocks of the target and within it, and counts what that changed.
    fn put(&mut self, request: &mut PlannedRequest, start: u64, block_sectors: u64, target_sectors: u64) {
        let end = start + u64::from(request.sectors);
        let aligned = (start / block_sectors * block_sectors, end.next_multiple_of(block_sectors));
        self.widened += u64::from(aligned != (start, end));
        let (start, end) = aligned;
        self.shortened += u64::from(end - start > target_sectors);
        let sectors = (end - start).min(target_sectors);
        let start = start.min(target_sectors - sectors);
        self.moved += u64::from(start != request.sector / block_sectors * block_sectors);
        request.sector = start;
        request.sectors = u32::try_from(sectors).unwrap_or(u32::MAX);
    }
}

impl ReplayPlan {
    /// Moves requests so that they lie within `target_bytes` and on blocks of `block_bytes`.
    ///
    /// # Errors
    /// The trace reaches further than the target and `fit` is [`Fit::Exact`]; requests lie between the target's blocks and
    /// `widen` is not set; the target has not even one block.
    pub fn fit(
        &mut self,
        target_bytes: u64,
        block_bytes: u64,
        fit: Fit,
        widen: bool,
    ) -> Result<Fitted, ReplayError> {
        let block_sectors = (block_bytes / SECTOR_BYTES).max(1);
        let target_sectors = target_bytes / SECTOR_BYTES / block_sectors * block_sectors;
        let span_bytes = self.span_bytes();
        if target_sectors == 0 && span_bytes > 0 {
            return Err(ReplayError::EmptyTarget);
        }
        if fit == Fit::Exact {
            self.require_room(target_bytes)?;
        }
        let mut fitted = Fitted { fit, ..Fitted::default() };
        let between = self.between_blocks(block_sectors);
        if between > 0 && !widen {
            return Err(ReplayError::BetweenBlocks {
                requests: between,
                all: self.requests.len() as u64,
                block_bytes,
            });
        }
        // Scaled only where it is larger: a small trace on a large target is replayed as it is.
        let span_sectors = span_bytes / SECTOR_BYTES;
        let scales = fit == Fit::Scale && span_sectors > target_sectors;
        for request in &mut self.requests {
            if request.operation == Operation::Flush {
                continue;
            }
            let mut start = request.sector;
            if fit == Fit::Wrap {
                start %= target_sectors;
            } else if scales {
                let scaled = u128::from(start) * u128::from(target_sectors) / u128::from(span_sectors);
                // Smaller than `target_sectors`, because `start` is smaller than `span_sectors`. On the same place within
                // 4 KiB as before, so that requests stay as aligned as they were.
                let grain = 8.max(block_sectors);
                start = (scaled as u64) / grain * grain + start % grain;
            }
            fitted.put(request, start, block_sectors, target_sectors);
        }
        self.fitted = fitted;
        Ok(fitted)
    }

    /// Requests with data that begin or end within a block.
    fn between_blocks(&self, block_sectors: u64) -> u64 {
        let between = |r: &&super::PlannedRequest| {
            !r.sector.is_multiple_of(block_sectors) || !u64::from(r.sectors).is_multiple_of(block_sectors)
        };
        self.requests.iter().filter(between).count() as u64
    }
}
